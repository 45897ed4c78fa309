//! The kept packets of one track on one worker.
//!
//! One cache serves all viewers of a track on this worker, to resend packets and to begin with; packets
//! are moved in and never copied, and shared by reference between the cache and the workers. A packet
//! stays while it can be resent or belongs to the GOP that new viewers begin with (`demand.rs` says
//! whether there is need for either). Numbers that never arrived are gaps, which a late packet fills.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::demand::Retention;
use super::limits::Limits;
use super::packet::Packet;
use super::receive::DropReason;

/// A packet of the cache and the timestamp it is sent with on this worker.
///
/// What decides whether it stays stands here too: the packet itself has left the processor's caches by
/// the time it goes.
#[derive(Debug, Clone)]
pub(crate) struct CachedPacket {
    pub(crate) packet: Arc<Packet>,
    pub(crate) timestamp: u32,
    /// Bytes of media.
    bytes: u32,
    /// What the packet takes.
    memory: u32,
    arrival: Instant,
    /// Another worker or output made it, and will use its memory again.
    is_shared: bool,
}

impl CachedPacket {
    pub(crate) fn new(packet: Arc<Packet>, timestamp: u32, is_shared: bool) -> Self {
        let (bytes, memory) = (packet.media().len() as u32, packet.memory() as u32);
        let arrival = packet.arrival();
        Self { packet, timestamp, bytes, memory, arrival, is_shared }
    }
}

/// Packets of one track by output number.
///
/// Invariant: `first + slots.len()` is the number after the newest; the oldest slot is never a gap.
#[derive(Debug, Default)]
pub(crate) struct PacketCache {
    slots: VecDeque<Option<CachedPacket>>,
    first: u64,
    /// Numbers from here on have a place although later ones came before them.
    floor: Option<u64>,
    /// Of media.
    bytes: usize,
    /// Of the packets. It is what limits are about: how much more it is than the media is the
    /// publisher's choice.
    memory: usize,
    gop: Option<Gop>,
}

/// Packets from the newest key frame on.
#[derive(Debug, Clone, Copy)]
struct Gop {
    start: u64,
    timestamp: u32,
    memory: usize,
    /// It is within its limits. Beyond, it stays only as long as its packets can be resent, for viewers that
    /// have waited for its key frame.
    is_kept: bool,
}

impl PacketCache {
    /// Stores the packet with this number. Later numbers than the newest leave gaps for those
    /// between; the caller bounds how many.
    pub(crate) fn insert(
        &mut self,
        number: u64,
        cached: CachedPacket,
        limits: &Limits,
        retention: Retention,
    ) -> Result<(), DropReason> {
        if self.slots.is_empty() {
            self.first = number;
        }
        if number < self.first && self.floor.is_some_and(|floor| floor <= number) {
            (number..self.first).for_each(|_| self.slots.push_front(None));
            self.first = number;
        }
        let at = number.checked_sub(self.first).ok_or(DropReason::TooOld)? as usize;
        let (bytes, memory) = (cached.bytes as usize, cached.memory as usize);
        let timestamp = cached.timestamp;
        let (arrival, is_key_frame) = (cached.arrival, cached.packet.is_key_frame());
        match self.slots.get_mut(at) {
            Some(Some(_)) => return Err(DropReason::Duplicate),
            Some(gap) => *gap = Some(cached),
            None => {
                self.slots.resize_with(at, || None);
                self.slots.push_back(Some(cached));
            }
        }
        (self.bytes, self.memory) = (self.bytes + bytes, self.memory + memory);
        if let Some(gop) = self.gop.as_mut().filter(|gop| number >= gop.start) {
            gop.memory += memory;
        }
        if is_key_frame {
            self.note_key_frame(number, timestamp);
        }

        // The GOP is no longer kept when it outgrows its limits.
        let now = arrival;
        if let Some(gop) = self.gop {
            let packets = self.end().saturating_sub(gop.start) as usize;
            let first = self.get(gop.start).map(|first| now.saturating_duration_since(first.arrival));
            let fits = packets <= limits.gop_packets_max
                && gop.memory <= limits.gop_bytes_max
                && first.is_some_and(|age| age <= limits.gop_duration_max + GOP_GRACE);
            self.gop = Some(Gop { is_kept: gop.is_kept && fits, ..gop });
        }
        // What is neither of the GOP nor can be resent goes. A key frame that is still coming in stays until
        // it is whole: somebody may want to read it.
        let keeps_gop = retention.gop || self.is_of_key_frame(timestamp);
        while let Some(oldest) = self.slots.front() {
            if let Some(cached) = oldest {
                let in_gop = keeps_gop && self.gop.is_some_and(|gop| gop.is_kept && gop.start <= self.first);
                let age = now.saturating_duration_since(cached.arrival);
                let can_be_resent = age <= retention.history
                    && self.slots.len() <= limits.history_packets_max
                    && self.memory <= limits.history_bytes_max;
                if in_gop || can_be_resent {
                    break;
                }
            }
            self.drop_oldest();
        }
        if self.slots.capacity() / 4 > self.slots.len().max(SLOTS_MIN) {
            self.slots.shrink_to(2 * self.slots.len());
        }
        Ok(())
    }

    /// Says with which number it will begin, at the earliest, before there is any.
    pub(crate) fn open(&mut self, number: u64) {
        (self.first, self.floor) = (number, Some(number));
    }

    /// A key frame starts with the first packet of its timestamp, whichever of its packets says
    /// that it is one.
    fn note_key_frame(&mut self, number: u64, timestamp: u32) {
        if let Some(gop) = &self.gop
            && (number >= gop.start) == (timestamp == gop.timestamp)
        {
            // One more packet of the known key frame, or a late one of a key frame before it.
            return;
        }
        let mut start = number;
        while let Some(cached) = start.checked_sub(1).and_then(|before| self.get(before))
            && cached.timestamp == timestamp
        {
            start -= 1;
        }
        let packets = (start..self.end()).filter_map(|number| self.get(number));
        let memory = packets.map(|cached| cached.memory as usize).sum();
        self.gop = Some(Gop { start, timestamp, memory, is_kept: true });
    }

    fn drop_oldest(&mut self) {
        if let Some(Some(cached)) = self.slots.pop_front() {
            self.bytes -= cached.bytes as usize;
            self.memory -= cached.memory as usize;
            if !cached.is_shared {
                Packet::recycle(cached.packet);
            }
        }
        self.first += 1;
        self.floor = None;
        // Where the GOP is not kept, the key frame stays only as long as resending keeps it.
        self.gop = self.gop.filter(|gop| gop.start >= self.first);
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        while !self.slots.is_empty() {
            self.drop_oldest();
        }
        self.slots = VecDeque::new();
    }

    /// Drops all but the newest, for viewers that were sent what comes again.
    pub(crate) fn keep_newest(&mut self) {
        while self.slots.len() > 1 {
            self.drop_oldest();
        }
        self.gop = None;
    }

    /// No longer offers the packets so far to new viewers.
    pub(crate) fn end_gop(&mut self) {
        self.gop = None;
    }

    /// Whether nothing has come yet of an output that was opened.
    pub(crate) fn begins_now(&self) -> bool {
        self.slots.is_empty()
    }

    /// The packet with this number.
    pub(crate) fn get(&self, number: u64) -> Option<&CachedPacket> {
        self.slots.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?.as_ref()
    }

    /// Adds padding to a packet if nobody but the cache and the caller holds it; the caller hands
    /// over its reference and gets one to the packet as it is afterwards.
    pub(crate) fn pad(&mut self, number: u64, packet: Arc<Packet>) -> Arc<Packet> {
        let slot = number.checked_sub(self.first).and_then(|at| self.slots.get_mut(at as usize));
        let Some(Some(cached)) = slot else { return packet };
        drop(packet);
        // The cache counts bytes of media, which stay the same.
        if let Some(packet) = Arc::get_mut(&mut cached.packet) {
            packet.pad();
        }
        Arc::clone(&cached.packet)
    }

    /// Whether packets with this timestamp are those of the newest key frame.
    pub(crate) fn is_of_key_frame(&self, timestamp: u32) -> bool {
        self.gop.is_some_and(|gop| gop.timestamp == timestamp)
    }

    /// Whether the newest packet is the last one of a key frame.
    pub(crate) fn ends_with_key_frame(&self) -> bool {
        let newest = self.slots.back().and_then(Option::as_ref);
        newest.is_some_and(|cached| self.is_of_key_frame(cached.timestamp) && cached.packet.marker())
    }

    /// Number after the newest packet.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    /// The oldest number.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Number of the newest packet if it arrived after `since`.
    pub(crate) fn newest_since(&self, since: Option<Instant>) -> Option<u64> {
        let newest = self.slots.back().and_then(Option::as_ref)?;
        since.is_some_and(|since| newest.arrival >= since).then(|| self.end() - 1)
    }

    /// Timestamp of the newest packet.
    pub(crate) fn newest_timestamp(&self) -> Option<u32> {
        self.slots.back().and_then(Option::as_ref).map(|cached| cached.timestamp)
    }

    /// Where a new viewer of video starts: the newest key frame, if it is cached and nothing after
    /// it has been missing for longer than a retransmission takes.
    ///
    /// With the GOP cache off, or a GOP beyond its limits, only a key frame that arrived after `since`
    /// counts: the viewer joined then.
    pub(crate) fn start_of_playback(&self, now: Instant, since: Instant, limits: &Limits) -> Option<u64> {
        let Gop { start, is_kept, .. } = self.gop?;
        let arrival = self.get(start)?.arrival;
        let is_too_old = now.saturating_duration_since(arrival) > limits.gop_duration_max;
        if is_too_old || !(limits.gop_cache && is_kept) && arrival < since {
            return None;
        }
        let settled = (start..self.end()).rev().find(|number| {
            self.get(*number).is_some_and(|cached| {
                now.saturating_duration_since(cached.arrival) >= super::nack::GIVEN_UP_AFTER
            })
        });
        let intact = settled.is_none_or(|settled| (start..settled).all(|number| self.get(number).is_some()));
        intact.then_some(start)
    }

    /// The last packet of media before this number, not far from it.
    pub(crate) fn last_before(&self, number: u64) -> Option<&Packet> {
        let lowest = number.saturating_sub(LOOK_BACK).max(self.first);
        let before = (lowest..number).rev().filter_map(|number| self.get(number));
        before.map(|cached| &*cached.packet).find(|packet| !packet.media().is_empty())
    }

    /// Whether the newest packet has this number and begins a frame: the one before it is there, and is of
    /// another.
    pub(crate) fn begins_frame(&self, number: u64) -> bool {
        let before = number.checked_sub(1).and_then(|before| self.get(before));
        let (Some(before), Some(newest)) = (before, self.get(number)) else { return false };
        number + 1 == self.end() && before.packet.marker() && before.timestamp != newest.timestamp
    }

    /// The first packet of the newest key frame, for viewers that change to these packets there. Not while
    /// one before it is missing, which may be of the key frame as well, unless that is given up, and this one
    /// says that it is the first.
    pub(crate) fn switch_start(&self, now: Instant) -> Option<u64> {
        let start = self.gop?.start;
        let first = self.get(start)?;
        let begins = start == self.floor.unwrap_or(self.first);
        let is_known = begins || start.checked_sub(1).is_some_and(|before| self.get(before).is_some());
        let is_given_up = now.saturating_duration_since(first.arrival) >= super::nack::GIVEN_UP_AFTER;
        (is_known || is_given_up && first.packet.meta.starts_key_frame).then_some(start)
    }

    /// Whether the newest key frame will have no beginning: what is missing of it is given up.
    pub(crate) fn lacks_start(&self, now: Instant) -> bool {
        let first = self.gop.and_then(|gop| self.get(gop.start));
        let is_old = |first: &CachedPacket| {
            now.saturating_duration_since(first.arrival) >= super::nack::GIVEN_UP_AFTER
        };
        first.is_some_and(is_old) && self.switch_start(now).is_none()
    }

    /// All packets from `from` on, oldest first, gaps left out.
    pub(crate) fn from(&self, from: u64) -> impl Iterator<Item = &CachedPacket> {
        let at = from.saturating_sub(self.first) as usize;
        self.slots.iter().skip(at).flatten()
    }

    /// The packets of the newest key frame, if all are here.
    pub(crate) fn key_frame(&self) -> Option<impl Iterator<Item = &Arc<Packet>>> {
        let Gop { start, timestamp, .. } = self.gop?;
        let is_of_it =
            |slot: &&Option<CachedPacket>| slot.as_ref().is_some_and(|cached| cached.timestamp == timestamp);
        let at = (start - self.first) as usize;
        let end = at + self.slots.iter().skip(at).take_while(is_of_it).count();
        let last = self.slots.get(end.checked_sub(1)?)?.as_ref()?;
        // Without the marker, the packet behind it has to be one of the next frame.
        let is_whole = last.packet.marker() || self.slots.get(end).is_some_and(Option::is_some);
        is_whole.then(|| self.slots.range(at..end).flatten().map(|cached| &cached.packet))
    }

    /// Number of packets.
    pub(crate) fn packets(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Payload bytes, padding left out.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it keeps no more than it may, its own table left aside.
    pub(crate) fn is_within(&self, limits: &Limits) -> bool {
        self.slots.len() <= limits.history_packets_max.max(limits.gop_packets_max)
            && self.memory <= limits.history_bytes_max.max(limits.gop_bytes_max)
    }

    /// Memory it takes. Packets that other workers hold as well count in full.
    pub(crate) fn memory(&self) -> usize {
        self.memory + self.slots.capacity() * size_of::<Option<CachedPacket>>()
    }
}

/// How far from a place a packet of the picture before it is looked for.
const LOOK_BACK: u64 = 64;

/// Slots that are kept however few are in use.
const SLOTS_MIN: usize = 16;

/// How much longer than it is offered the GOP stays, for viewers that are still being sent it.
const GOP_GRACE: Duration = Duration::from_secs(2);
