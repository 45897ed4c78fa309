//! Packets as the stream keeps them: what was received, taken apart once, and never changed again.
//!
//! A packet holds the payload and those header extensions that are passed on, and knows its place in
//! the output of its track. It has no header: each viewer gets one of its own (`header_profile.rs`).
//!
//! One cache serves all viewers of a track on this worker, to resend packets and to begin with; packets
//! are moved in and never copied, and shared by reference between the cache and the workers. A packet
//! stays while it can be resent or belongs to the GOP that new viewers begin with. Numbers that never
//! arrived are gaps, which a late packet fills. [`Pool`] uses the memory of packets again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rtp::extension::Extension;
use rtp::payload::Codec;

use super::clock::NtpRtpMapping;
use super::limits::Limits;
use super::receive::DropReason;
use super::track::TrackIndex;

/// One received packet. Immutable once others can see it.
#[derive(Debug, Clone)]
pub struct Packet {
    /// Extensions (each: which, length, data), payload, and one byte of padding when `padded`.
    buffer: Vec<u8>,
    payload_at: u16,
    pub(crate) meta: PacketMeta,
    padded: bool,
}

/// What is known of a packet besides its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketMeta {
    pub(crate) track: TrackIndex,
    /// Which publisher: counts up with every one that starts.
    pub(crate) epoch: u64,
    /// Position in the output of the track, continuous over publishers and layers. Its low 16 bits
    /// are sent.
    pub(crate) number: u64,
    /// Output timestamp.
    pub(crate) timestamp: u32,
    pub(crate) clock_rate: u32,
    pub(crate) arrival: Instant,
    pub(crate) codec: Codec,
    pub(crate) marker: bool,
    /// Belongs to a frame a decoder can start with.
    pub(crate) key_frame: bool,
    /// Fills a number that turned out to be the publisher's padding. Has no payload.
    pub(crate) filler: bool,
    /// The clock mapping of the track, if the publisher has reported.
    pub(crate) mapping: Option<NtpRtpMapping>,
}

/// Bytes of extensions a packet carries on; elements beyond are left out. A dependency descriptor
/// with its structure takes up to about 100.
pub(crate) const EXTENSION_BYTES_MAX: usize = 192;

impl Packet {
    /// The track it belongs to.
    pub fn track(&self) -> TrackIndex {
        self.meta.track
    }

    /// Position in the output of its track where it was received, continuous over publishers and
    /// layers.
    pub fn number(&self) -> u64 {
        self.meta.number
    }

    /// Which publisher of the stream sent it: counts up.
    pub fn epoch(&self) -> u64 {
        self.meta.epoch
    }

    /// When it arrived.
    pub fn arrival(&self) -> Instant {
        self.meta.arrival
    }

    /// Its codec.
    pub fn codec(&self) -> Codec {
        self.meta.codec
    }

    /// Output timestamp on the worker that received it, in units of [`Packet::clock_rate`]:
    /// continuous over publishers and layers, wraps.
    pub fn timestamp(&self) -> u32 {
        self.meta.timestamp
    }

    /// Units of its timestamp in a second.
    pub fn clock_rate(&self) -> u32 {
        self.meta.clock_rate
    }

    /// The marker bit: the last packet of a frame of video, the first of audio after silence.
    pub fn marker(&self) -> bool {
        self.meta.marker
    }

    /// When some timestamp of its track was captured, by our clock, as far as was known when it
    /// arrived: from the publisher's sender reports, or guessed if it sends none for the first 5 s.
    pub fn clock_mapping(&self) -> Option<NtpRtpMapping> {
        self.meta.mapping
    }

    /// Whether it belongs to a frame a decoder can start with.
    pub fn is_key_frame(&self) -> bool {
        self.meta.key_frame
    }

    /// The payload without padding; empty for a packet that fills the place of the publisher's
    /// padding.
    pub fn media(&self) -> &[u8] {
        let payload = self.payload();
        &payload[..payload.len() - usize::from(self.padded)]
    }

    /// What follows the header: the payload and, if [`Packet::is_padded`], the padding.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer[usize::from(self.payload_at)..]
    }

    /// Whether [`Packet::payload`] ends with padding, which the header must say.
    pub fn is_padded(&self) -> bool {
        self.padded
    }

    /// Bytes of payload, padding and extensions: what is equal for packets whose datagrams are.
    pub(crate) fn sent_len(&self) -> usize {
        self.buffer.len()
    }

    /// The extensions that are passed on.
    pub(crate) fn extensions(&self) -> impl Iterator<Item = (Extension, &[u8])> {
        let mut rest = &self.buffer[..usize::from(self.payload_at)];
        std::iter::from_fn(move || {
            let (&[which, len], behind) = rest.split_first_chunk()?;
            let (data, behind) = behind.split_at_checked(usize::from(len))?;
            rest = behind;
            Some((*PASSED_ON.get(usize::from(which))?, data))
        })
    }

    /// Appends a byte of padding, unless it has padding already.
    fn pad(&mut self) {
        if !self.padded {
            self.buffer.push(1);
            self.padded = true;
        }
    }

    fn room(&self) -> usize {
        self.buffer.capacity()
    }
}

/// Extensions that mean the same behind this server as before it. MID is written for each viewer;
/// RID, send time and transport-wide numbers describe the path from the publisher to this server
/// and end here.
const PASSED_ON: [Extension; 5] = [
    Extension::AudioLevel,
    Extension::VideoOrientation,
    Extension::DependencyDescriptor,
    Extension::PlayoutDelay,
    Extension::AbsCaptureTime,
];

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

impl PacketCache {
    /// Stores the packet with this number. Later numbers than the newest leave gaps for those
    /// between; the caller bounds how many.
    pub(crate) fn insert(
        &mut self,
        number: u64,
        cached: CachedPacket,
        limits: &Limits,
        pool: &mut Pool,
    ) -> Result<(), DropReason> {
        if self.slots.is_empty() {
            self.first = number;
        }
        let at = number.checked_sub(self.first).ok_or(DropReason::TooOld)? as usize;
        let (bytes, timestamp) = (cached.packet.media().len(), cached.timestamp);
        let (arrival, is_key_frame) = (cached.packet.arrival(), cached.packet.is_key_frame());
        match self.slots.get_mut(at) {
            Some(Some(_)) => return Err(DropReason::Duplicate),
            Some(gap) => *gap = Some(cached),
            None => {
                self.slots.resize_with(at, || None);
                self.slots.push_back(Some(cached));
            }
        }
        self.bytes += bytes;
        if let Some(gop) = self.gop.as_mut().filter(|gop| number >= gop.start) {
            gop.bytes += bytes;
        }
        if is_key_frame {
            self.note_key_frame(number, timestamp);
        }

        // The GOP is no longer offered when it outgrows its limits.
        let now = arrival;
        if let Some(gop) = self.gop {
            let packets = self.end().saturating_sub(gop.start) as usize;
            let first =
                self.get(gop.start).map(|first| now.saturating_duration_since(first.packet.arrival()));
            let fits = packets <= limits.gop_packets_max
                && gop.bytes <= limits.gop_bytes_max
                && first.is_some_and(|age| age <= limits.gop_duration_max + GOP_GRACE);
            self.gop = self.gop.filter(|_| fits);
        }
        // What is neither of the GOP nor can be resent goes.
        while let Some(oldest) = self.slots.front() {
            if let Some(cached) = oldest {
                let in_gop = limits.gop_cache && self.gop.is_some_and(|gop| gop.start <= self.first);
                let age = now.saturating_duration_since(cached.packet.arrival());
                let can_be_resent = age <= limits.history_duration
                    && self.slots.len() <= limits.history_packets_max
                    && self.bytes <= limits.history_bytes_max;
                if in_gop || can_be_resent {
                    break;
                }
            }
            self.drop_oldest(pool);
        }
        Ok(())
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
        let bytes = (start..self.end()).filter_map(|number| self.get(number));
        let bytes = bytes.map(|cached| cached.packet.media().len()).sum();
        self.gop = Some(Gop { start, timestamp, bytes });
    }

    fn drop_oldest(&mut self, pool: &mut Pool) {
        if let Some(Some(cached)) = self.slots.pop_front() {
            self.bytes -= cached.packet.media().len();
            pool.recycle(cached.packet);
        }
        self.first += 1;
        // With the GOP cache off, the key frame stays only as long as resending keeps it.
        self.gop = self.gop.filter(|gop| gop.start >= self.first);
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        while !self.slots.is_empty() {
            self.drop_oldest(pool);
        }
    }

    /// No longer offers the packets so far to new viewers.
    pub(crate) fn end_gop(&mut self) {
        self.gop = None;
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
        since.is_some_and(|since| newest.packet.arrival() >= since).then(|| self.end() - 1)
    }

    /// Timestamp of the newest packet.
    pub(crate) fn newest_timestamp(&self) -> Option<u32> {
        self.slots.back().and_then(Option::as_ref).map(|cached| cached.timestamp)
    }

    /// Where a new viewer of video starts: the newest key frame, if it is cached and nothing after
    /// it has been missing for longer than a retransmission takes.
    ///
    /// With the GOP cache off, only a key frame that arrived after `since` counts: the viewer
    /// joined then.
    pub(crate) fn start_of_playback(&self, now: Instant, since: Instant, limits: &Limits) -> Option<u64> {
        let start = self.gop?.start;
        let arrival = self.get(start)?.packet.arrival();
        let is_too_old = now.saturating_duration_since(arrival) > limits.gop_duration_max;
        if is_too_old || !limits.gop_cache && arrival < since {
            return None;
        }
        let settled = (start..self.end()).rev().find(|number| {
            self.get(*number).is_some_and(|cached| {
                now.saturating_duration_since(cached.packet.arrival()) >= super::nack::GIVEN_UP_AFTER
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

    /// Frames per second of the last second, by their timestamps.
    pub(crate) fn frame_rate(&self, now: Instant, clock_rate: u32) -> Option<f32> {
        let packets = self.slots.iter().rev().flatten();
        let mut recent = packets
            .take_while(|cached| now.saturating_duration_since(cached.packet.arrival()) <= FRAME_RATE_PERIOD)
            .filter(|cached| !cached.packet.media().is_empty())
            .map(|cached| cached.timestamp);
        let newest = recent.next()?;
        let (mut last, mut distances, mut earliest, mut latest) = (newest, 0_u16, 0, 0);
        for timestamp in recent {
            distances += u16::from(timestamp != last);
            last = timestamp;
            // With B-frames the times are not in order.
            let distance = timestamp.wrapping_sub(newest).cast_signed();
            (earliest, latest) = (distance.min(earliest), distance.max(latest));
        }
        let duration = latest.wrapping_sub(earliest);
        (duration > 0).then(|| f32::from(distances) * clock_rate as f32 / duration as f32)
    }

    /// Number of packets.
    pub(crate) fn packets(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Payload bytes, padding left out.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Over which frames are counted.
const FRAME_RATE_PERIOD: Duration = Duration::from_secs(1);

/// How much longer than it is offered the GOP stays, for viewers that are still being sent it.
const GOP_GRACE: Duration = Duration::from_secs(2);

/// Memory of packets that are no longer needed, used again for new ones.
///
/// A packet others still hold (another worker, a batch under way) waits its turn and is given up if
/// there are too many.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    classes: [VecDeque<Arc<Packet>>; CLASSES.len()],
}

impl Pool {
    /// A packet with this content.
    pub(crate) fn packet<'a>(
        &mut self,
        meta: PacketMeta,
        extensions: impl Iterator<Item = (Extension, &'a [u8])>,
        payload: &[u8],
    ) -> Arc<Packet> {
        // Extensions are a few bytes as a rule; the byte of padding must always fit.
        let room = payload.len() + 32;
        let class = CLASSES.iter().position(|class| room <= *class).unwrap_or(CLASSES.len() - 1);
        let mut known = self.classes[class].pop_front();
        if let Some(held) = known.take_if(|known| Arc::get_mut(known).is_none()) {
            self.keep(class, held);
        }
        let mut known = known.unwrap_or_else(|| {
            let buffer = Vec::with_capacity(CLASSES[class].max(room));
            Arc::new(Packet { buffer, payload_at: 0, meta, padded: false })
        });
        let packet = Arc::get_mut(&mut known).expect("it is new, or was found to have no other holder");
        packet.buffer.clear();
        for (extension, data) in extensions {
            let Some(which) = PASSED_ON.iter().position(|passed_on| *passed_on == extension) else {
                continue;
            };
            let Ok(len) = u8::try_from(data.len()) else { continue };
            if packet.buffer.len() + 2 + data.len() <= EXTENSION_BYTES_MAX {
                packet.buffer.extend_from_slice(&[which as u8, len]);
                packet.buffer.extend_from_slice(data);
            }
        }
        packet.payload_at = packet.buffer.len() as u16;
        packet.buffer.extend_from_slice(payload);
        (packet.padded, packet.meta) = (false, meta);
        if meta.filler {
            packet.pad();
        }
        known
    }

    /// Takes back a packet.
    pub(crate) fn recycle(&mut self, packet: Arc<Packet>) {
        // Only the last holder may use it again; with others about it is theirs to free.
        let class = CLASSES.iter().rposition(|class| *class <= packet.room());
        if let Some(class) = class {
            self.keep(class, packet);
        }
    }

    fn keep(&mut self, class: usize, packet: Arc<Packet>) {
        let known = &mut self.classes[class];
        if known.len() < KEPT_PER_CLASS {
            known.push_back(packet);
        }
    }

    /// Frees what is kept.
    pub(crate) fn clear(&mut self) {
        self.classes = Default::default();
    }
}

/// Sizes of buffers, in bytes: audio, small and full packets of video. Rounding costs at most half
/// a packet, and video has mostly full ones.
const CLASSES: [usize; 5] = [128, 256, 512, 896, 1_280];

/// Unused packets kept for each size. In the steady state as many leave the cache as enter it;
/// batches differ.
const KEPT_PER_CLASS: usize = 16;
