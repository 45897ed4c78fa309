//! RTP and RTCP (RFC 3550) wire formats, header extensions (RFC 8285), and what a server must know
//! of payloads.
//!
//! ```
//! use rtp::{HeaderFields, Packet};
//!
//! let fields = HeaderFields { marker: true, payload_type: 96, sequence_number: 7, timestamp: 90_000, ssrc: 42 };
//! let mut bytes = [0; 1200];
//! let header_len = fields.write(&[], &mut bytes);
//! bytes[header_len..header_len + 5].copy_from_slice(b"frame");
//! let packet = Packet::parse(&bytes[..header_len + 5])?;
//! assert_eq!((packet.fields(), packet.payload()), (fields, &b"frame"[..]));
//! # Ok::<(), rtp::ParseError>(())
//! ```
//!
//! - [`Packet`] is a view over a received packet, [`HeaderFields`] writes one; [`extension`] reads
//!   and writes header extensions. With the dependency descriptor it decides which frames of an
//!   encoding a receiver of some of its layers gets ([`extension::TargetSelector`]).
//! - [`rtcp`] walks through compound packets and appends packets to a buffer, one file per type.
//! - [`payload`] looks into payloads as far as forwarding needs it: key frame, frame borders,
//!   layers and where a receiver may go up to a higher one ([`payload::layers`]); it shifts the
//!   numbers of pictures in place where one encoding follows another.
//! - [`packetize`] cuts coded frames into packets, [`depacketize`] puts them together again.
//! - [`fec`] makes repair packets (FlexFEC), from which receivers make lost packets again.
//! - [`rtx`] is RFC 4588, [`red`] takes redundant audio apart (RFC 2198), [`sequence`] makes
//!   numbers that do not wrap of numbers that do.
//!
//! Readers borrow, never allocate and never panic, on any input. Knows no keys, sessions or time.
//! Left out: RTP profiles without RTCP feedback (RFC 4585 is assumed), application-defined and
//! extended RTCP reports (RFC 3611; returned as [`rtcp::Rtcp::Other`]), ULPFEC (RFC 5109), interleaved
//! H.264 and H.265 packets.

pub mod depacketize;
pub mod extension;
pub mod fec;
mod packet;
pub mod packetize;
pub mod payload;
pub mod red;
pub mod rtcp;
pub mod rtx;
pub mod sequence;

pub use packet::{
    FIXED_HEADER_LEN, HEADER_LEN_MAX, HeaderFields, PACKET_LEN_MAX, Packet, ParseError,
    set_marker_payload_type, set_padding, set_sequence_number, set_ssrc, set_timestamp,
};

/// The examples of the README, so that they stay true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
