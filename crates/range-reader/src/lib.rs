//! Remote files read by HTTP ranges: no byte fetched in vain, no round trip waited for in vain.
//!
//! [`RangeReader`] is `Read + Seek`, [`AsyncRangeReader`] is `AsyncRead + AsyncSeek`; both are the same engine. What a
//! seek does is decided by a pure function, [`plan::choose`], from what has been measured of the link and from what the
//! socket holds already. Who knows what will be read says so ([`RangeReader::will_need`]); who does not is watched, and a
//! pattern that repeats is fetched ahead ([`learn`]).
//!
//! The engine asks a [`source::Source`] for ranges; [`http`] is the one there is. This crate knows nothing of what a
//! file contains.

pub mod config;
pub mod counters;
mod engine;
pub mod error;
pub mod http;
pub mod learn;
pub mod plan;
pub mod ranges;
pub mod source;

pub use config::ReaderConfig;
pub use counters::{Counters, Progress};
pub use engine::asynchronous::AsyncRangeReader;
pub use engine::blocking::RangeReader;
pub use error::ReadError;
