//! k datagrams to N UDP recipients in one call, and batches of datagrams received.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod backend;
mod batch;
#[cfg(target_os = "linux")]
mod cmsg;
mod config;
mod error;
#[cfg(all(target_os = "linux", any(feature = "af-xdp", feature = "tc-clone")))]
mod frame;
mod group;
#[cfg(feature = "internals")]
pub mod internals;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod netlink;
#[cfg(all(target_os = "linux", any(feature = "af-xdp", feature = "tc-clone")))]
mod origin;
pub mod peer_table;
#[cfg(target_os = "linux")]
mod pending_errors;
#[cfg(any(test, not(target_os = "linux")))]
mod portable_recv;
mod recipient_order;
#[cfg(all(target_os = "linux", any(feature = "af-xdp", feature = "tc-clone")))]
mod recipients;
mod recv;
#[cfg(all(target_os = "linux", any(feature = "af-xdp", feature = "tc-clone", feature = "internals")))]
mod route;
mod sender;
pub mod socket;

pub use batch::{BatchFull, BatchLimits, DatagramId, Envelope, Failure, SendBatch};
pub use config::{AfXdpConfig, BackendKind, Config, IoUringConfig, NotChosen, SetupError, TcCloneConfig};
pub use error::SendError;
pub use group::{Progress, Recipient, Slot};
#[cfg(target_os = "linux")]
pub use netlink::qdisc::qdiscs;
pub use recv::{Ecn, Received, RecvBatch, RecvConfig};
pub use sender::Sender;
