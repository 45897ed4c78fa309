//! Sealed packets, and those of a stream that are kept for repairs.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::keys::Sealer;
use crate::limits::Limits;
use crate::receiver::Position;
use crate::rtp_or_rtcp::ssrc_of;
use crate::wire::{INDEX_BYTES, SHARED_BYTES_ADDED, Shared, first_of};

/// A packet as it is sent to every node, behind each one's private bytes.
#[derive(Debug, Default)]
pub struct SealedPacket {
    /// Index, sealed packet, tag.
    bytes: Vec<u8>,
    pub(crate) epoch: u8,
    pub(crate) index: u32,
    /// The first bytes of the tag.
    pub(crate) tag: u64,
    /// Whose it is; 0 of what is neither RTP nor RTCP.
    pub(crate) ssrc: u32,
}

impl SealedPacket {
    /// The shared payload of a datagram.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Seals a packet with so many bytes of padding, into the memory that is here.
    pub(crate) fn seal(&mut self, sealer: &mut Sealer, packet: &[u8], padding: u8) {
        self.bytes.clear();
        self.bytes.reserve(packet.len() + usize::from(padding) + SHARED_BYTES_ADDED);
        self.bytes.extend_from_slice(&[0; INDEX_BYTES]);
        self.bytes.extend_from_slice(packet);
        self.bytes.resize(self.bytes.len() + usize::from(padding), 0);
        self.bytes.push(padding);
        let (index, tag) = sealer.seal(&mut self.bytes[INDEX_BYTES..]);
        self.bytes[..INDEX_BYTES].copy_from_slice(&index.to_be_bytes());
        self.bytes.extend_from_slice(&tag);
        (self.epoch, self.index, self.tag) = (sealer.epoch() as u8, index, first_of(&tag));
        self.ssrc = ssrc_of(packet).unwrap_or_default();
    }

    /// Takes the shared part of a datagram as it came from another node.
    pub(crate) fn copy_from(&mut self, shared: &Shared<'_>, ssrc: u32) {
        self.bytes.clear();
        self.bytes.extend_from_slice(shared.bytes);
        (self.epoch, self.index, self.tag) = (shared.epoch, shared.index, shared.tag);
        self.ssrc = ssrc;
    }
}

/// Packets of one stream by number, which counts over all epochs.
#[derive(Debug, Default)]
pub(crate) struct History {
    packets: VecDeque<(Instant, Arc<SealedPacket>)>,
    /// Number of the oldest.
    first: u64,
    bytes: usize,
    /// Packets from here on do not become too old.
    start: Option<Position>,
}

impl History {
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Number of the oldest packet.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Number of the next packet.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// Packets from a position on are kept whatever their age.
    pub(crate) fn keep_from(&mut self, start: Position) {
        self.start = Some(start);
    }

    /// Keeps a packet, and gives those that go to `spare`.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        packet: Arc<SealedPacket>,
        limits: &Limits,
        spare: impl FnMut(Arc<SealedPacket>),
    ) {
        self.bytes += packet.bytes.len();
        self.packets.push_back((now, packet));
        self.trim(now, limits, spare);
    }

    /// Removes what is too old or too much, and gives it to `spare`.
    pub(crate) fn trim(&mut self, now: Instant, limits: &Limits, mut spare: impl FnMut(Arc<SealedPacket>)) {
        while let Some((sent_at, oldest)) = self.packets.front()
            && (now.saturating_duration_since(*sent_at) > limits.history
                && self.start.is_none_or(|start| !is_behind(oldest, start))
                || self.packets.len() > limits.history_packets_max
                || self.bytes > limits.history_bytes_max)
        {
            self.bytes -= oldest.bytes.len();
            self.first += 1;
            if let Some((_, packet)) = self.packets.pop_front() {
                spare(packet);
            }
        }
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Arc<SealedPacket>> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.packets.get(at).map(|(_, packet)| packet)
    }

    /// Number of the first packet, in the order of sending, that is at or behind this position; the
    /// next one's if there is none.
    pub(crate) fn number_at(&self, position: Position) -> u64 {
        let at = self.packets.iter().position(|(_, packet)| is_behind(packet, position));
        self.first + at.unwrap_or(self.packets.len()) as u64
    }

    /// Whether nothing that is at or behind this position was removed.
    pub(crate) fn reaches(&self, position: Position) -> bool {
        self.packets.front().is_some_and(|(_, oldest)| {
            !is_behind(oldest, position) || (oldest.epoch, oldest.index) == (position.epoch, position.index)
        })
    }

    /// Packets of these numbers, which are kept or still to come.
    pub(crate) fn range(&self, numbers: Range<u64>) -> impl Iterator<Item = &Arc<SealedPacket>> {
        let at = |number: u64| (number.saturating_sub(self.first) as usize).min(self.packets.len());
        self.packets.range(at(numbers.start)..at(numbers.end)).map(|(_, packet)| packet)
    }

    /// Gives everything away.
    pub(crate) fn into_packets(self) -> impl Iterator<Item = Arc<SealedPacket>> {
        self.packets.into_iter().map(|(_, packet)| packet)
    }
}

fn is_behind(packet: &SealedPacket, position: Position) -> bool {
    match packet.epoch.wrapping_sub(position.epoch).cast_signed() {
        0 => packet.index >= position.index,
        difference => difference > 0,
    }
}
