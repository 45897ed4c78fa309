//! What comes before its track can begin: packets of a key frame whose first packet is late.
//!
//! What is forwarded begins with the first packet of a key frame. On a way that reorders, or that loses that
//! packet and repairs it, others of the key frame and behind it come first. They are held, and follow once
//! that one is there. Padding is held as well: the numbers close up over it. Only copies are held, and only
//! while nothing of the layer is forwarded.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rtp::extension::Extension;

use super::receive::MediaPacket;
use super::rtp_rewriter::EncodingId;

/// A packet that is held.
#[derive(Debug)]
pub(crate) struct EarlyPacket {
    pub(crate) encoding: EncodingId,
    /// Extended sequence number.
    pub(crate) sequence: u64,
    pub(crate) media: MediaPacket,
    pub(crate) extensions: Vec<(Extension, Vec<u8>)>,
    pub(crate) payload: Vec<u8>,
    arrival: Instant,
}

impl EarlyPacket {
    /// What it takes besides its place in the queue.
    fn bytes(&self) -> usize {
        let of_extension = |(_, data): &(Extension, Vec<u8>)| size_of::<(Extension, Vec<u8>)>() + data.len();
        self.payload.len() + self.extensions.iter().map(of_extension).sum::<usize>()
    }
}

/// The packets of one track that are held, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct EarlyPackets {
    packets: VecDeque<EarlyPacket>,
    bytes: usize,
}

impl EarlyPackets {
    pub(crate) fn hold<'a>(
        &mut self,
        now: Instant,
        (encoding, sequence): (EncodingId, u64),
        media: &MediaPacket,
        extensions: impl Iterator<Item = (Extension, &'a [u8])>,
        payload: &[u8],
    ) {
        let extensions = extensions.map(|(extension, data)| (extension, data.to_vec())).collect();
        let payload = payload.to_vec();
        let held = EarlyPacket { encoding, sequence, media: *media, extensions, payload, arrival: now };
        self.bytes += held.bytes();
        self.packets.push_back(held);
        while !self.is_within_limits() {
            self.drop_oldest();
        }
    }

    /// Drops what is old.
    pub(crate) fn expire(&mut self, now: Instant) {
        while self.next_due().is_some_and(|due| due <= now) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        self.bytes -= self.packets.pop_front().map_or(0, |held| held.bytes());
        if self.packets.is_empty() {
            self.clear();
        }
    }

    /// When the oldest is of no use any more.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.packets.front().map(|held| held.arrival + HELD_FOR)
    }

    /// Whether it holds no more than it may.
    pub(crate) fn is_within_limits(&self) -> bool {
        self.packets.len() <= HELD_MAX && self.bytes <= HELD_BYTES_MAX
    }

    /// Memory it takes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes + self.packets.capacity() * size_of::<EarlyPacket>()
    }

    /// What follows the packet that the track begins with, in order; the rest is of no use then.
    pub(crate) fn release(
        &mut self,
        now: Instant,
        encoding: EncodingId,
        start: u64,
    ) -> impl Iterator<Item = EarlyPacket> + use<> {
        self.expire(now);
        let mut held = std::mem::take(self).packets;
        held.retain(|held| held.encoding == encoding && held.sequence > start);
        held.make_contiguous().sort_by_key(|held| held.sequence);
        held.into_iter()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Packets that are held: half a second of 8 Mbit/s. The oldest go.
const HELD_MAX: usize = 512;
/// Bytes of them, with room for more than such packets have.
const HELD_BYTES_MAX: usize = 1 << 20;
/// How long: a repair takes a round trip and a quarter.
const HELD_FOR: Duration = Duration::from_millis(500);
