//! Look-up from SSRC (RFC 3550 section 5.1) to a value, for media servers.
//!
//! Every packet of a bundle begins with this look-up, and the peer chooses the SSRCs. [`SsrcMap`]
//! answers it at one speed whatever the size, and an attacker who chooses the SSRCs can make it
//! neither slow nor large. What a value is, and when an SSRC deserves one, is left to the caller:
//! RTP, keys and time are unknown here.
//!
//! ```
//! # #[cfg(feature = "std")]
//! # {
//! let mut streams = ssrc_map::SsrcMap::new(512);
//! streams.insert(0x1234_5678, "audio").expect("below the limit");
//! assert_eq!(streams.get(0x1234_5678), Some(&"audio"));
//! assert_eq!(streams.get(0x8765_4321), None);
//! # }
//! ```
//!
//! Files in the order a look-up goes: `map.rs` chooses, `lanes/` compares the SSRCs of a small map
//! all at once, `table.rs` finds one of many, with `hash.rs`.
#![cfg_attr(not(any(feature = "std", test)), no_std)]

extern crate alloc;

mod hash;
#[expect(unsafe_code, reason = "vector loads and calls of vector code; the only place with any")]
mod lanes;
mod map;
mod table;

#[doc(hidden)]
pub use map::InStash;
pub use map::{Full, Iter, IterMut, SsrcMap};

/// The first example of the README, compiled and run with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
