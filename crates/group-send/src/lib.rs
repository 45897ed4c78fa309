//! k datagrams to N UDP recipients in one call, and batches of datagrams received.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod backend;
#[cfg(target_os = "linux")]
mod cmsg;
mod config;
mod error;
mod group;

pub use config::{BackendKind, Config, NotChosen, SetupError};
pub use error::SendError;
pub use group::{Recipient, Slot};
