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

/// The packets of one track that are held, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct EarlyPackets(VecDeque<EarlyPacket>);

impl EarlyPackets {
    pub(crate) fn hold<'a>(
        &mut self,
        now: Instant,
        (encoding, sequence): (EncodingId, u64),
        media: &MediaPacket,
        extensions: impl Iterator<Item = (Extension, &'a [u8])>,
        payload: &[u8],
    ) {
        let is_old = |held: &EarlyPacket| now.saturating_duration_since(held.arrival) > HELD_FOR;
        let mut buffer = Vec::new();
        while self.0.len() >= HELD_MAX || self.0.front().is_some_and(is_old) {
            buffer = self.0.pop_front().map(|held| held.payload).unwrap_or_default();
        }
        buffer.clear();
        buffer.extend_from_slice(payload);
        let extensions = extensions.map(|(extension, data)| (extension, data.to_vec())).collect();
        self.0.push_back(EarlyPacket {
            encoding,
            sequence,
            media: *media,
            extensions,
            payload: buffer,
            arrival: now,
        });
    }

    /// What follows the packet that the track begins with, in order; the rest is of no use then.
    pub(crate) fn release(
        &mut self,
        now: Instant,
        encoding: EncodingId,
        start: u64,
    ) -> impl Iterator<Item = EarlyPacket> + use<> {
        let follows = |held: &EarlyPacket| {
            held.encoding == encoding
                && held.sequence > start
                && now.saturating_duration_since(held.arrival) <= HELD_FOR
        };
        let mut held = std::mem::take(&mut self.0);
        held.retain(follows);
        held.make_contiguous().sort_by_key(|held| held.sequence);
        held.into_iter()
    }

    pub(crate) fn clear(&mut self) {
        self.0 = VecDeque::new();
    }
}

/// Packets that are held: half a second of 8 Mbit/s. The oldest go.
const HELD_MAX: usize = 512;
/// How long: a repair takes a round trip and a quarter.
const HELD_FOR: Duration = Duration::from_millis(500);
