//! What the benchmark `srtp` measures: every implementation with a thousand contexts, called in its best way.
//!
//! A [`Contender`] protects one shared payload for the recipients of a round, each with a header of
//! its own, as a server forwards a packet; and it unprotects one packet from each of many senders.
//! What is needed to have the protected packet somewhere it can be sent from is part of the time:
//! ours writes it there, libsrtp works in place and so needs a copy first, the crates return a
//! buffer of their own.

mod libsrtp;
mod libsrtp_rs;
mod ours;
mod rtc;
mod webrtc;

use srtp::Profile;

use crate::libsrtp::Key;

/// Contexts in rotation, each with its own keys.
pub const CONTEXTS: usize = 1000;

/// Destinations in rotation, as a send buffer has.
const SLOTS: usize = 64;
/// Bytes of one destination.
const SLOT: usize = 1472;

/// Called with the number of a packet in its round and its result. `None` when results are not
/// needed.
pub type Check<'a> = Option<&'a mut dyn FnMut(usize, &[u8])>;

/// The contexts of one implementation under one profile, for both directions.
pub trait Contender {
    /// Protects `round.payload` for one recipient after the other.
    fn protect(&mut self, round: &Round<'_>, check: Check<'_>);
    /// Takes the packets that `unprotect` will get, in whatever form it likes best. Not part of the time.
    fn load(&mut self, packets: &mut dyn Iterator<Item = &[u8]>);
    /// Unprotects the loaded packets one after the other, or `batch` at a time.
    fn unprotect(&mut self, first_context: usize, batch: usize, check: Check<'_>);
}

/// Recipients of one payload: packet `i` has `headers[i]` and is for context
/// `(first_context + i) % CONTEXTS`.
pub struct Round<'a> {
    pub first_context: usize,
    pub headers: &'a [[u8; 12]],
    pub payload: &'a [u8],
    /// Packets in one call, for contenders with such a call. Divides the number of headers.
    pub batch: usize,
}

/// Equally long packets one behind the other, each at a cache line's beginning: a receive buffer.
#[derive(Default)]
struct Packets {
    bytes: Vec<u8>,
    stride: usize,
    len: usize,
}

impl Packets {
    /// Becomes a copy of `packets`, in the memory it has.
    fn load(&mut self, packets: &mut dyn Iterator<Item = &[u8]>) {
        self.bytes.clear();
        for packet in packets {
            self.len = packet.len();
            self.stride = self.len.next_multiple_of(64);
            self.bytes.extend_from_slice(packet);
            self.bytes.resize(self.bytes.len().next_multiple_of(64), 0);
        }
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.stride).map(|packet| &packet[..self.len])
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.bytes.chunks_exact_mut(self.stride).map(|packet| &mut packet[..self.len])
    }
}

/// A contender, or why it cannot run.
pub type Made = Result<Box<dyn Contender>, String>;

/// A contender's name and how it is made.
pub struct Kind {
    pub name: &'static str,
    /// Counts for `vs_rust`.
    pub is_rust_crate: bool,
    pub make: fn(Profile, &[Key]) -> Made,
}

/// Ours first, then libsrtp, then Rust's.
pub const KINDS: [Kind; 6] = [
    Kind { name: "ours", is_rust_crate: false, make: ours::make },
    Kind { name: "libsrtp2", is_rust_crate: false, make: libsrtp::make },
    Kind { name: "webrtc-srtp", is_rust_crate: true, make: webrtc::make },
    Kind { name: "rtc-srtp/ring", is_rust_crate: true, make: rtc::make_ring },
    Kind { name: "rtc-srtp/aws-lc-rs", is_rust_crate: true, make: rtc::make_aws_lc_rs },
    Kind { name: "libsrtp-rs", is_rust_crate: true, make: libsrtp_rs::make },
];

/// SSRC and sequence number of a plain header.
fn ssrc_and_sequence(header: &[u8; 12]) -> (u32, u16) {
    let ssrc = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    (ssrc, u16::from_be_bytes([header[2], header[3]]))
}

/// Passes on a finished packet: to the check, or to `black_box`.
fn done(check: &mut Check<'_>, index: usize, packet: &[u8]) {
    match check {
        Some(check) => check(index, packet),
        None => {
            std::hint::black_box(packet);
        }
    }
}
