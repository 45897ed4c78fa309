//! MPEG-2 transport streams (ISO/IEC 13818-1) as byte machines: bytes in, frames out, and back.
//!
//! ```text
//! bytes ─▶ sync ─▶ packet ─▶ section ─▶ psi ─────────▶ which PIDs are tracks
//!                    │          └─────▶ sections ────▶ media::Frame of data
//!                    └─────▶ pes ─────▶ demux/{video,audio} ─▶ media::Frame
//! media::Frame ─▶ mux ─▶ pes ─▶ packet ─▶ 188-byte packets
//! ```
//!
//! [`Demuxer`] takes bytes cut at any place, of one program, and never fails: what is broken is
//! counted ([`Counters`]) and left out. [`Muxer`] writes one program. Neither has a socket or a
//! clock, and both have named limits for everything that they keep.
//!
//! Carried: H.264, H.265, AAC (ADTS; LATM is read as well), MP3, Opus, AC-3 and E-AC-3, cues of
//! SCTE 35 and private sections. Left out on purpose: scrambled packets, and pictures that do not
//! begin where their PES packet does (ETSI TS 101 154 asks for one picture per PES packet).

mod codecs;
mod crc;
mod demux;
mod mux;
mod packet;
mod pes;
mod psi;
mod sections;

pub use demux::{Counters, DemuxSettings, Demuxer, Unreadable};
pub use mux::{MUX_DELAY, Muxer, NotCarried, TRACKS_MAX};
pub use sections::{CUE, PRIVATE_SECTION};

/// Bytes of a packet (section 2.4.3.2).
pub const PACKET_BYTES: usize = 188;

/// How far apart packets may begin: as they are, with a time stamp ahead of each (M2TS), with the
/// parity of a Reed-Solomon code behind each.
pub const PACKET_DISTANCES: [usize; 3] = [PACKET_BYTES, 192, 204];

/// What every packet begins with.
pub const SYNC_BYTE: u8 = 0x47;

/// Ticks per second of PTS and DTS (section 2.4.3.6).
pub const TICKS_PER_SECOND: u32 = 90_000;
