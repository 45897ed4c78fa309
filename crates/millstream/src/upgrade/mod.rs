//! A new server takes over from a running one: SIGUSR2, the API, `millstream upgrade`.
//!
//! The running server starts the program that now is where its own was, with the same arguments, and hands
//! it its sockets ([`Successor`]). The new one reads its configuration and prepares everything with them
//! ([`Predecessor`]). Until it says that it is prepared, the old one serves as always, and goes on if the new
//! one fails. What they say is in `messages.rs`, how it gets across in `channel.rs`.

mod channel;
mod messages;
mod predecessor;
mod sessions;
mod successor;

pub(crate) use predecessor::Predecessor;
pub(crate) use sessions::take_over_sessions;
pub(crate) use successor::{Program, Successor};

/// Names the process that a server takes over from, in its environment. Their socket is standard input.
const ENVIRONMENT: &str = "HAND_OVER_FROM";
