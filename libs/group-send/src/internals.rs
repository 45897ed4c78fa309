//! Parsers of what the kernel writes, for the fuzz targets, and senders without a kernel, for
//! simulations; [`RecvBatch::receive_from`](crate::RecvBatch::receive_from) is their other half.
//!
//! Behind the feature `internals`. No promise is kept about anything here.

#[cfg(target_os = "linux")]
pub use crate::backend::substitute::{OutgoingMessage, OutgoingMessages, sender_over};
#[cfg(target_os = "linux")]
pub use crate::cmsg::{ControlMessage, parse as parse_control, parse_address};
#[cfg(target_os = "linux")]
pub use crate::linux::recv::IncomingMessage;
#[cfg(target_os = "linux")]
pub use crate::route::{Flow, Interface, KnownHops, NextHop, NextHops, Unresolved};
