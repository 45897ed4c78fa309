//! Remote files read by HTTP ranges: no byte fetched in vain, no round trip waited for in vain.
//!
//! [`RangeReader`] is `Read + Seek`, [`AsyncRangeReader`] is `AsyncRead + AsyncSeek`; both are the same engine. What a
//! seek does is decided by a pure function, [`plan::choose`], from what has been measured of the link and from what the
//! socket holds already. Who knows what will be read says so ([`RangeReader::will_need`]); who does not is watched, and a
//! pattern that repeats is fetched ahead ([`learn`]).
//!
//! ```no_run
//! use std::io::{Read, Seek, SeekFrom};
//!
//! use range_reader::http::HttpConfig;
//! use range_reader::{RangeReader, ReaderConfig, Url};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let url = Url::parse("https://example.org/film.mp4")?;
//! let mut film = RangeReader::open(&url, HttpConfig::default(), ReaderConfig::default())?;
//! film.will_need([0..48, 9_000_000..9_040_000]);
//! let mut head = [0; 48];
//! film.read_exact(&mut head)?;
//! let mut index = vec![0; 40_000];
//! film.seek(SeekFrom::Start(9_000_000))?;
//! film.read_exact(&mut index)?;
//! println!("{:?}", film.counters());
//! # Ok(())
//! # }
//! ```
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
/// As [`RangeReader::open`] takes it.
pub use url::Url;

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
