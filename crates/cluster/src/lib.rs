//! The directory of a cluster: which nodes there are, which of them publishes which stream, and which fetches
//! it from whom.
//!
//! It is kept in two key-value buckets of NATS JetStream, and each node has a complete copy: [`Directory`]
//! answers at once, also while NATS cannot be reached. Names of streams are given to one publisher in the
//! whole cluster by compare-and-set. `machine.rs` has all decisions, without NATS or clock; `nats.rs` and
//! `directory.rs` carry them out. The crate knows no media, no sockets of media and no workers, and nothing
//! that is secret passes through it.

mod directory;
mod machine;
mod names;
mod nats;
pub mod parent;
mod record;
mod settings;

pub use directory::{Claiming, ConnectError, Directory, Events, Health};
pub use machine::{
    Event, FEEDS_MAX, Gone, Granted, Home, INSTANCES_MAX, LostBecause, NonsenseCount, Policy, Refusal,
    STREAMS_MAX, STREAMS_PER_NODE_MAX,
};
pub use names::{NodeName, STREAM_NAME_BYTES_MAX, StreamName};
pub use record::{
    Addresses, CODEC_BYTES_MAX, CODECS_MAX, Description, Epoch, InstanceId, Lane, Load, Node, Nonsense,
    TEXT_BYTES_MAX, TRACKS_BYTES_MAX, VALUE_BYTES_MAX, VERSION,
};
pub use settings::{Credentials, Settings, Tls};
