//! Media over QUIC: subscribers that play streams of this server, and publishers, by WebTransport.
//!
//! ```text
//! worker (home) -- tap, bounded --> play.rs: outgoing.rs -- moq-net, quinn --> subscriber
//! publisher -- quinn, moq-net --> publish.rs: incoming.rs -- bounded queue --> worker
//! ```
//!
//! An experiment: the drafts change, and with them what browsers speak. `moq-net` negotiates which
//! one it is. What is inside is that of hang: a catalogue (`catalog.rs`) and a track for each of
//! audio and video. All sessions run on one thread (`thread.rs`); the workers know sessions alone,
//! which are players and publishers inside the process.

pub mod catalog;
mod certificate;
pub mod incoming;
pub mod outgoing;
mod play;
mod publish;
mod session;
mod shared;
mod streams;
mod thread;

// For clients in tests.
#[doc(hidden)]
pub use {bytes, moq_net, web_transport_quinn};

pub use thread::{MoqInput, MoqThread};
