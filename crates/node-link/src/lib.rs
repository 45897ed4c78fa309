//! The protocol between two nodes of a cluster, over one reliable stream of bytes.
//!
//! A node fetches streams from another and serves it others, all on one connection. The connection is TLS
//! without known certificates; nodes prove to each other that they have the cluster's secret, bound to that
//! connection (`hello.rs`). Then come messages (`message.rs`), frames among them (`frame.rs`). Streams of
//! packets have their media beside it, by UDP (crate `relay`); what they need of a reliable way, keys,
//! handles and tracks, is among the messages.
//!
//! No socket, thread or clock. **Driving a [`Link`]**: every call takes `now`, the time since any fixed
//! moment, which never runs backwards.
//!
//! 1. [`Link::handle_input`] for bytes that came, then [`Link::poll_event`] until there is none.
//! 2. [`Link::poll_output`] when the connection takes bytes. Not before: what waits here can still be left
//!    out when it gets late, what waits in a socket cannot.
//! 3. [`Link::handle_timeout`] at [`Link::next_timeout`]. Read what has come before.
//! 4. After an error or a goodbye, send what `poll_output` still has, and close.
//!
//! # No stream delays another
//!
//! - A frame goes in parts, and streams take turns after each.
//! - A stream whose receiver does not use it runs out of credit ([`Link::used`]) and waits alone; the
//!   connection is always read.
//! - A link slower than its streams sends each its share. What waits too long is left out up to the next
//!   key frame (`serve.rs`), and the other node is told ([`Event::Gap`]).
//!
//! # Limits
//!
//! `limits.rs` names them all and says what happens at each.

mod error;
mod fetch;
mod frame;
mod hello;
mod limits;
mod link;
mod message;
mod serve;
mod wire;

pub use error::{Goodbye, LinkError, Refusal, StreamEnd, StreamRefusal};
pub use frame::cost;
pub use hello::{BINDING_LABEL, Binding, Node, RELAY_LABEL, Role, SECRET_BYTES_MIN, Secret};
pub use limits::{
    ADDRESS_BYTES_MAX, CHUNK_BYTES_MAX, CONTROL_BYTES_MAX, FRAME_BYTES_MAX, HELLO_WITHIN, LATE_AFTER,
    MESSAGE_BYTES_MAX, NAME_BYTES_MAX, OTHERS_MAX, PART_BYTES_LEAST, PING_BUSY, PING_IDLE, QUEUE_BYTES_MAX,
    ROUND_TRIP_MAX, SILENT_BUSY, SILENT_IDLE, STREAM_BYTES_MAX, STREAMS_MAX, TRACKS_BYTES_MAX, VERSION,
    WINDOW_BYTES,
};
pub use link::{Event, FetchId, Link, LinkStats, ServeId, TooMany};
pub use message::{Lane, Position, Publication, STREAM_KEY_BYTES, StreamKey};
