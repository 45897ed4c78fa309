//! RTMP, the Real-Time Messaging Protocol, both ends, and FLV, as byte machines.
//!
//! Everything here takes bytes and returns bytes and events: no sockets, no threads, no clock. The
//! caller moves the bytes, reads the time and decides who may publish or play. Input comes from the
//! network and is hostile until proven otherwise: nothing in this crate panics on it, and each
//! table, queue and buffer has a named limit that ends the session or drops the packet.
//!
//! The layers, from the socket upwards, are one file or folder each (section numbers are those of
//! "Adobe's Real Time Messaging Protocol", version 1.0, 2012):
//!
//! ```text
//! bytes ─▶ handshake ─▶ chunk ─▶ connection ─▶ server | client ─▶ events
//!          5.2          5.3      5.4, 7.1.7     7.2
//! ```
//!
//! A media message is the body of an FLV tag with a time; [`crate::flv`] reads it. RTMPT (HTTP), RTMPE
//! (RC4) and SWF verification are left out on purpose: nothing of today needs them.

pub mod amf0;
pub mod chunk;
pub mod client;
mod command;
mod connection;
mod enhanced;
mod error;
pub mod flv;
pub mod handshake;
pub mod message;
pub mod name;
pub mod server;
mod url;

pub use error::RtmpError;
pub use media::MediaKind;
pub use message::MediaMessage;
pub use url::{RtmpUrl, UrlError};
