//! Reads remote files by HTTP ranges, with few wasted bytes and few round trips.
//!
//! [`RangeReader`] is `Read + Seek`, [`AsyncRangeReader`] is `AsyncRead + AsyncSeek`; both are the
//! same engine. A pure function, [`plan::choose`], decides what a seek does, from measurements of
//! the link and the bytes that have already arrived. Callers that know what they will read pass
//! hints ([`RangeReader::will_need`]); without hints the reader learns repeating patterns and
//! prefetches ([`learn`]).
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
//! The engine asks a [`source::Source`] for ranges; [`http`] is the only implementation. This crate
//! knows nothing about file formats.

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
/// The type that [`RangeReader::open`] takes.
pub use url::Url;

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
