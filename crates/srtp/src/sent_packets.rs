//! Which bytes were protected under the newest indices of a stream, as far as it takes to know them again.
//!
//! A packet that is protected again under its index comes out byte for byte as the first time, and
//! gives nothing away. Any other packet under that index would (RFC 7714 section 8.4, RFC 3711
//! section 9.1), so what is presented is compared with what was sent: by a digest of 64 bits with a
//! secret key, which nobody who chooses payloads can aim at. The packets themselves stay with the
//! caller, who has them once for all recipients.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::packet::PacketIndex;

/// Digests of the newest packets of one stream.
pub(crate) struct SentPackets {
    hasher: RandomState,
    /// By index modulo their number: index and digest. No packet has `u64::MAX` as its index.
    ring: Box<[(u64, u64); SentPackets::PACKETS]>,
}

impl SentPackets {
    /// How many packets are known: two seconds of 2.5 Mbit/s. 8 KiB.
    pub(crate) const PACKETS: usize = 512;

    pub(crate) fn new() -> Self {
        Self { hasher: RandomState::new(), ring: Box::new([(u64::MAX, 0); Self::PACKETS]) }
    }

    /// This packet is being protected under `index`, for the first time.
    pub(crate) fn note(&mut self, index: PacketIndex, header: &[u8], payload: &[u8]) {
        self.ring[Self::place(index)] = (index.0, self.digest(header, payload));
    }

    /// Whether it was this packet, and no other, that was protected under `index`.
    pub(crate) fn is_same(&self, index: PacketIndex, header: &[u8], payload: &[u8]) -> bool {
        let (known, digest) = self.ring[Self::place(index)];
        known == index.0 && digest == self.digest(header, payload)
    }

    fn digest(&self, header: &[u8], payload: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        // Where the payload begins follows from the header.
        hasher.write(header);
        hasher.write(payload);
        hasher.finish()
    }

    fn place(index: PacketIndex) -> usize {
        index.0 as usize % Self::PACKETS
    }
}
