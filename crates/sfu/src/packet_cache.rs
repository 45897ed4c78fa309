//! The packets of one track that can still be wanted: to be sent again, or by a new viewer.
//!
//! One cache serves all viewers of the track on this worker; packets are moved in and never copied. Resending and the
//! GOP cache are two reasons to keep a packet in the same store: it stays while one of them holds. Numbers that never
//! arrived are gaps, which a late packet fills.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::limits::Limits;
use super::packet::{Packet, Pool};

/// A packet of the cache and the timestamp it is sent with on this worker.
#[derive(Debug, Clone)]
pub(crate) struct CachedPacket {
    pub(crate) packet: Arc<Packet>,
    pub(crate) timestamp: u32,
}

/// Packets of one track by output number.
///
/// Invariant: `first + slots.len()` is the number after the newest; the oldest slot is never a gap.
#[derive(Debug, Default)]
pub(crate) struct PacketCache {
    slots: VecDeque<Option<CachedPacket>>,
    first: u64,
    bytes: usize,
    gop: Option<Gop>,
}

/// Packets from the newest key frame on.
#[derive(Debug, Clone, Copy)]
struct Gop {
    start: u64,
    timestamp: u32,
    bytes: usize,
}

/// Why a packet was not taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotCached {
    Duplicate,
    TooOld,
}

impl PacketCache {
    /// Takes in the packet with this number. Later numbers than the newest leave gaps for those between; the caller
    /// bounds how many.
    pub(crate) fn insert(
        &mut self,
        number: u64,
        kept: CachedPacket,
        limits: &Limits,
        pool: &mut Pool,
    ) -> Result<(), NotCached> {
        if self.slots.is_empty() {
            self.first = number;
        }
        let at = number.checked_sub(self.first).ok_or(NotCached::TooOld)? as usize;
        let bytes = kept.packet.payload().len();
        let newest = Arc::clone(&kept.packet);
        let timestamp = kept.timestamp;
        match self.slots.get_mut(at) {
            Some(Some(_)) => return Err(NotCached::Duplicate),
            Some(gap) => *gap = Some(kept),
            None => {
                self.slots.resize_with(at, || None);
                self.slots.push_back(Some(kept));
            }
        }
        self.bytes += bytes;
        if let Some(gop) = self.gop.as_mut().filter(|gop| number >= gop.start) {
            gop.bytes += bytes;
        }
        if newest.is_key_frame() {
            self.note_key_frame(number, timestamp);
        }
        self.evict(newest.arrival(), limits, pool);
        Ok(())
    }

    /// A key frame begins with the first packet of its timestamp, whichever of its packets says that it is one.
    fn note_key_frame(&mut self, number: u64, timestamp: u32) {
        if let Some(gop) = &self.gop
            && (number >= gop.start) == (timestamp == gop.timestamp)
        {
            // One more packet of the frame that is known, or a late one of a frame before it.
            return;
        }
        let mut start = number;
        while let Some(kept) = start.checked_sub(1).and_then(|before| self.get(before))
            && kept.timestamp == timestamp
        {
            start -= 1;
        }
        let bytes = (start..self.end()).filter_map(|number| self.get(number));
        let bytes = bytes.map(|kept| kept.packet.payload().len()).sum();
        self.gop = Some(Gop { start, timestamp, bytes });
    }

    fn evict(&mut self, now: Instant, limits: &Limits, pool: &mut Pool) {
        self.bound_gop(now, limits);
        while let Some(oldest) = self.slots.front() {
            if let Some(kept) = oldest {
                let in_gop = limits.gop_cache && self.gop.is_some_and(|gop| gop.start <= self.first);
                let age = now.saturating_duration_since(kept.packet.arrival());
                let can_be_resent = age <= limits.history_duration
                    && self.slots.len() <= limits.history_packets_max
                    && self.bytes <= limits.history_bytes_max;
                if in_gop || can_be_resent {
                    return;
                }
            }
            self.drop_oldest(pool);
        }
    }

    /// Gives up the GOP cache when it outgrows its limits.
    fn bound_gop(&mut self, now: Instant, limits: &Limits) {
        let Some(gop) = self.gop else { return };
        let packets = self.end().saturating_sub(gop.start) as usize;
        let age = self.get(gop.start).map(|kept| now.saturating_duration_since(kept.packet.arrival()));
        let fits = packets <= limits.gop_packets_max
            && gop.bytes <= limits.gop_bytes_max
            && age.is_some_and(|age| age <= limits.gop_duration_max + GOP_GRACE);
        if !fits {
            self.gop = None;
        }
    }

    fn drop_oldest(&mut self, pool: &mut Pool) {
        if let Some(Some(kept)) = self.slots.pop_front() {
            self.bytes -= kept.packet.payload().len();
            pool.recycle(kept.packet);
        }
        self.first += 1;
        // Without a cache the key frame stays only as long as the cache keeps it anyway.
        self.gop = self.gop.filter(|gop| gop.start >= self.first);
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        while !self.slots.is_empty() {
            self.drop_oldest(pool);
        }
    }

    /// What arrived before is not offered to new viewers any more.
    pub(crate) fn end_gop(&mut self) {
        self.gop = None;
    }

    /// The packet with this number.
    pub(crate) fn get(&self, number: u64) -> Option<&CachedPacket> {
        self.slots.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?.as_ref()
    }

    /// Adds padding to a packet no one else has seen; `false` if it cannot.
    pub(crate) fn pad(&mut self, number: u64) -> bool {
        let Some(at) = number.checked_sub(self.first) else { return false };
        let Some(Some(kept)) = self.slots.get_mut(at as usize) else { return false };
        let padded = Arc::get_mut(&mut kept.packet).is_some_and(Packet::pad);
        self.bytes += usize::from(padded);
        if let Some(gop) = self.gop.as_mut().filter(|gop| padded && number >= gop.start) {
            gop.bytes += 1;
        }
        padded
    }

    /// Number after the newest packet.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    /// The oldest number.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Number of the newest packet if it came after `since`.
    pub(crate) fn newest_since(&self, since: Option<Instant>) -> Option<u64> {
        let newest = self.slots.back().and_then(Option::as_ref)?;
        since.is_some_and(|since| newest.packet.arrival() >= since).then(|| self.end() - 1)
    }

    /// Timestamp of the newest packet.
    pub(crate) fn newest_timestamp(&self) -> Option<u32> {
        self.slots.back().and_then(Option::as_ref).map(|kept| kept.timestamp)
    }

    /// Where a new viewer of video begins: the newest key frame, if it is in the cache and nothing after it is missing
    /// for good, that is, for longer than it takes to be sent again.
    ///
    /// Without a cache only a key frame counts that came after `since`, when the viewer began to wait.
    pub(crate) fn entry(&self, now: Instant, since: Instant, limits: &Limits) -> Option<u64> {
        let start = self.gop?.start;
        let arrival = self.get(start)?.packet.arrival();
        let is_too_old = now.saturating_duration_since(arrival) > limits.gop_duration_max;
        if is_too_old || !limits.gop_cache && arrival < since {
            return None;
        }
        let settled = (start..self.end()).rev().find(|number| {
            self.get(*number).is_some_and(|kept| {
                now.saturating_duration_since(kept.packet.arrival()) >= super::nack::GIVEN_UP_AFTER
            })
        });
        let intact = settled.is_none_or(|settled| (start..settled).all(|number| self.get(number).is_some()));
        intact.then_some(start)
    }

    /// All packets from `from` on, oldest first, gaps left out.
    pub(crate) fn from(&self, from: u64) -> impl Iterator<Item = &CachedPacket> {
        let at = from.saturating_sub(self.first) as usize;
        self.slots.iter().skip(at).flatten()
    }

    /// Packets kept.
    pub(crate) fn packets(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Payload bytes kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// How much longer than it is offered the cache is kept, for those who are being sent it.
const GOP_GRACE: Duration = Duration::from_secs(2);
