//! The transport-wide numbers under which the newest packets of a track were sent to one viewer.
//!
//! A viewer without RTX gets a packet again as it was, byte for byte (`resend.rs`). All of a header but
//! this number follows from the packet and from what the viewer has of its track. Viewers with RTX, or
//! whose headers have no such number, have none of this.

use super::header_profile::HEADER_LEN_MAX;

/// Numbers of the newest packets of one track.
#[derive(Debug)]
pub(crate) struct SentNumbers {
    /// By sequence number modulo their number: that, and the transport-wide number.
    ring: [(u16, u16); PACKETS],
}

impl SentNumbers {
    pub(crate) fn new() -> Self {
        // No entry has its own place at first: none is taken for one that was noted.
        Self { ring: std::array::from_fn(|place| (place as u16 + 1, 0)) }
    }

    /// A packet with this header has this number.
    pub(crate) fn note(&mut self, header: &[u8; HEADER_LEN_MAX], number: u16) {
        let sequence_number = u16::from_be_bytes([header[2], header[3]]);
        self.ring[usize::from(sequence_number) % PACKETS] = (sequence_number, number);
    }

    /// The number of the packet that was sent under this sequence number last.
    pub(crate) fn of(&self, sequence_number: u16) -> Option<u16> {
        let (known, number) = self.ring[usize::from(sequence_number) % PACKETS];
        (known == sequence_number).then_some(number)
    }
}

/// Two seconds of 2.5 Mbit/s, 2 KiB: as many as `srtp` knows again.
const PACKETS: usize = 512;
