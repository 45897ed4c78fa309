//! One track of a stream: its encodings (layers), which of them is forwarded, and what was
//! forwarded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rtp::FIXED_HEADER_LEN;
use rtp::payload::MediaKind;

use super::batch::Forward;
use super::clock::NtpRtpMapping;
use super::demand::{Answers, Retention, Trial, UNWATCHED_HISTORY};
use super::early::EarlyPackets;
use super::encoding::Encoding;
use super::feedback::{KEY_FRAME_INTERVAL, can_ask_for_key_frames};
use super::inputs::TrackInput;
use super::layers;
use super::limits::{LAYERS_MAX, Limits, TRACKS_MAX};
use super::packet::{Packet, PacketMeta};
use super::packet_cache::{CachedPacket, PacketCache};
use super::receive::{DropReason, MediaPacket};
use super::recent::{FrameTimes, RecentMedia};
use super::rtp_rewriter::{Arrival, EncodingId, Rewrite, RtpRewriter, rtp_units};

/// One track of a stream: even ones are audio, odd ones are video.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackIndex(u8);

impl TrackIndex {
    /// The `nth` track of a kind, counted from 0. `None` beyond [`TRACKS_MAX`].
    pub fn new(kind: MediaKind, nth: usize) -> Option<Self> {
        let index = nth.checked_mul(2)? + usize::from(kind == MediaKind::Video);
        (index < TRACKS_MAX).then_some(Self(index as u8))
    }

    /// Audio or video.
    pub fn kind(self) -> MediaKind {
        if self.0.is_multiple_of(2) { MediaKind::Audio } else { MediaKind::Video }
    }

    /// Position among the tracks of a stream, below [`TRACKS_MAX`].
    pub fn position(self) -> usize {
        usize::from(self.0)
    }

    /// All there can be.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..TRACKS_MAX as u8).map(Self)
    }
}

/// State of one track. It outlives publishers.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) index: TrackIndex,
    /// What the current publisher negotiated; `None` on a mirror and without a publisher.
    pub(crate) input: Option<TrackInput>,
    pub(crate) encodings: Vec<Encoding>,
    pub(crate) rewriter: RtpRewriter,
    pub(crate) cache: PacketCache,
    /// What came before the packet that the present publisher's output can begin with.
    pub(crate) early: EarlyPackets,
    /// What was forwarded of late; `None` before the first packet.
    pub(crate) recent: Option<RecentMedia>,
    /// Of video.
    pub(crate) frames: FrameTimes,
    /// When to ask the home worker for a key frame that viewers of this mirror need.
    pub(crate) pli_request_at: Option<Instant>,
    /// When the home worker was asked last.
    pli_requested_at: Option<Instant>,
    /// The newest packet's clock rate and link to time, with this worker's timestamps.
    pub(crate) clock_rate: u32,
    pub(crate) mapping: Option<NtpRtpMapping>,
    /// The same estimated from arrival times, for publishers that send no reports.
    estimate: Option<NtpRtpMapping>,
    /// Timestamp of the newest key frame of the present publisher, and its distance from the one before.
    pub(crate) key_frame: Option<u32>,
    pub(crate) key_frame_distance: Option<u32>,
}

/// The tracks of a stream.
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    slots: Vec<Option<Box<Track>>>,
}

impl Tracks {
    #[inline]
    pub(crate) fn get(&self, index: TrackIndex) -> Option<&Track> {
        self.slots.get(index.position())?.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: TrackIndex) -> Option<&mut Track> {
        self.slots.get_mut(index.position())?.as_deref_mut()
    }

    pub(crate) fn get_or_new(&mut self, index: TrackIndex) -> &mut Track {
        let len = self.slots.len().max(index.position() + 1);
        self.slots.resize_with(len, || None);
        self.slots[index.position()].get_or_insert_with(|| Box::new(Track::new(index)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Track> + Clone {
        self.slots.iter().flatten().map(|track| &**track)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Track> {
        self.slots.iter_mut().flatten().map(|track| &mut **track)
    }
}

/// A received packet, identified.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identified<'a> {
    pub(crate) media: &'a MediaPacket,
    pub(crate) generation: u32,
    pub(crate) epoch: u64,
    /// Extended sequence number.
    pub(crate) sequence: u64,
    pub(crate) is_padding: bool,
    /// The publisher has sent a sender report.
    pub(crate) is_clock_known: bool,
    /// The publisher has had time to send a sender report and has not.
    pub(crate) may_estimate_clock: bool,
}

impl Track {
    pub(crate) fn new(index: TrackIndex) -> Self {
        Self {
            index,
            input: None,
            encodings: Vec::new(),
            rewriter: RtpRewriter::default(),
            cache: PacketCache::default(),
            early: EarlyPackets::default(),
            recent: None,
            frames: FrameTimes::default(),
            pli_request_at: None,
            pli_requested_at: None,
            clock_rate: 0,
            mapping: None,
            estimate: None,
            key_frame: None,
            key_frame_distance: None,
        }
    }

    /// A publisher that has this track begins.
    pub(crate) fn start(&mut self, input: TrackInput) {
        self.end();
        let layers = input.ssrcs.len().max(input.rids.len()).clamp(1, LAYERS_MAX);
        self.encodings = (0..layers)
            .map(|layer| {
                let signalled = input.ssrcs.get(layer);
                Encoding::new(signalled.map(|ssrcs| ssrcs.0), signalled.and_then(|ssrcs| ssrcs.1))
            })
            .collect();
        self.input = Some(input);
    }

    /// Asks for a key frame: the publisher, or on a mirror the home worker.
    pub(crate) fn want_key_frame(&mut self, now: Instant) {
        if self.index.kind() == MediaKind::Audio {
            return;
        }
        let held = self.held();
        match self.encodings.get_mut(held) {
            Some(encoding) => encoding.key_frames.want(now),
            None => {
                let next = self.pli_requested_at.map_or(now, |at| now.max(at + KEY_FRAME_INTERVAL));
                self.pli_request_at.get_or_insert(next);
            }
        }
    }

    /// The encoding that is forwarded, or would be.
    fn held(&self) -> usize {
        let held = self.rewriter.encoding().map_or(0, |encoding| usize::from(encoding.layer));
        if held < self.encodings.len() { held } else { 0 }
    }

    /// What is kept of it, whether or not anybody plays it.
    pub(crate) fn retention(&self, is_watched: bool, limits: &Limits) -> Retention {
        if is_watched {
            return Retention { history: limits.history_duration, gop: limits.gop_cache };
        }
        let answers = self.encodings.get(self.held()).map(|encoding| &encoding.answers);
        Retention {
            history: limits.history_duration.min(UNWATCHED_HISTORY),
            gop: limits.gop_cache && !answers.is_some_and(Answers::seem_prompt),
        }
    }

    /// Nobody plays it: finds out whether its publisher sends key frames when it is asked.
    pub(crate) fn try_publisher(&mut self, now: Instant, unwatched_since: Instant) {
        if !can_ask_for_key_frames(self) {
            return;
        }
        let held = self.held();
        let Some(encoding) = self.encodings.get_mut(held) else { return };
        match encoding.answers.try_out(now, unwatched_since) {
            Some(Trial::Ask) => encoding.key_frames.want(now),
            Some(Trial::GiveUp) => encoding.key_frames.satisfied(),
            None => {}
        }
    }

    /// Somebody comes: asks for a key frame unless one is kept to begin with.
    pub(crate) fn prepare_start(&mut self, now: Instant, limits: &Limits) {
        let is_ready = self.cache.start_of_playback(now, now, limits).is_some();
        if is_ready || !limits.gop_cache || !can_ask_for_key_frames(self) {
            return;
        }
        let held = self.held();
        if let Some(encoding) = self.encodings.get_mut(held) {
            encoding.answers.asked(now);
            encoding.key_frames.want(now);
        }
    }

    /// Whether to ask the home worker for a key frame now: as often as a publisher is asked.
    pub(crate) fn take_pli_request(&mut self, now: Instant) -> bool {
        let is_due = self.pli_request_at.is_some_and(|at| at <= now);
        if is_due {
            (self.pli_request_at, self.pli_requested_at) = (None, Some(now));
        }
        is_due
    }

    /// The publisher has left. Its packets can still be resent, but no viewer starts with them.
    pub(crate) fn end(&mut self) {
        self.input = None;
        self.encodings = Vec::new();
        self.cache.end_gop();
        self.early.clear();
        (self.mapping, self.estimate) = (None, None);
        (self.key_frame, self.key_frame_distance) = (None, None);
        self.pli_request_at = None;
    }

    /// Gives a packet of the publisher its number and timestamp and stores it. `None` for padding
    /// and for packets of layers that are not forwarded.
    pub(crate) fn store<'a>(
        &mut self,
        now: Instant,
        packet: &Identified<'_>,
        extensions: impl Iterator<Item = (rtp::extension::Extension, &'a [u8])>,
        payload: &[u8],
        limits: &Limits,
        is_watched: bool,
    ) -> Result<Option<Forward>, DropReason> {
        let media = packet.media;
        let layer = media.role.layer;
        let id = EncodingId { epoch: packet.epoch, layer, generation: packet.generation };
        let arrival = Arrival {
            encoding: id,
            sequence: packet.sequence,
            timestamp: media.timestamp,
            clock_rate: media.format.clock_rate,
            now,
            is_padding: packet.is_padding,
        };
        // Switch to this packet's layer if that is the best one and a decoder can start here.
        let current = self.rewriter.encoding();
        let held = current.filter(|encoding| encoding.epoch == id.epoch).map(|encoding| encoding.layer);
        let rids = self.input.as_ref().map_or(&[][..], |input| &input.rids);
        if current != Some(id)
            && let Some(best) = layers::best(&self.encodings, rids, held, now)
        {
            let is_audio = self.index.kind() == MediaKind::Audio;
            let is_start = !packet.is_padding && (is_audio || media.starts_key_frame);
            // A layer whose numbering restarted cannot go on as it was.
            let held_is_dead = held.is_none_or(|held| {
                let encoding = self.encodings.get(usize::from(held));
                held == layer || encoding.is_none_or(|encoding| !encoding.is_live(now))
            });
            if is_start && (best == layer || held_is_dead) {
                let timestamp = match held {
                    Some(held) => self.aligned_timestamp(&arrival, held),
                    None => self.continued_timestamp(&arrival),
                };
                if held.is_none_or(|held| held == layer) {
                    self.cache.end_gop();
                }
                self.rewriter.switch(&arrival, timestamp);
            } else {
                if !packet.is_padding
                    && let Some(encoding) = self.encodings.get_mut(usize::from(best))
                    && (held != Some(best) || best == layer)
                {
                    encoding.key_frames.want(now);
                }
                if media.is_readable && held.is_none_or(|held| held == layer) {
                    self.early.hold(now, (id, packet.sequence), media, extensions, payload);
                    return Ok(None);
                }
            }
        }
        let is_forwarded = self.rewriter.encoding() == Some(id);
        let (number, timestamp, filler) = match self.rewriter.rewrite(&arrival) {
            Rewrite::Forward { number, timestamp } => (number, timestamp, false),
            Rewrite::Filler { number, timestamp } => (number, timestamp, true),
            Rewrite::Removed => return Ok(None),
            Rewrite::TooLate if is_forwarded => return Err(DropReason::TooOld),
            Rewrite::TooLate => return Ok(None),
        };
        if is_forwarded {
            if !packet.is_clock_known {
                self.estimate_mapping(now, timestamp, media.format.clock_rate);
            }
            self.mapping =
                self.reported_mapping(layer).or(self.estimate.filter(|_| packet.may_estimate_clock));
        }
        let meta = PacketMeta {
            track: self.index,
            epoch: packet.epoch,
            number,
            timestamp,
            clock_rate: media.format.clock_rate,
            arrival: now,
            codec: media.format.codec,
            marker: media.marker,
            key_frame: media.is_key && !filler,
            // Parameter sets in a packet of their own are the start; a slice behind them is not.
            starts_key_frame: media.starts_key_frame && !filler && self.key_frame != Some(timestamp),
            filler,
            mapping: self.mapping,
        };
        let packet = Packet::new(meta, extensions, payload).ok_or(DropReason::Malformed)?;
        let retention = self.retention(is_watched, limits);
        let cached = CachedPacket::new(packet, timestamp, false);
        self.put_in_cache(number, cached, limits, retention).map(Some)
    }

    /// A sender report of an encoding arrived. It counts at once, not from the next packet on, so
    /// that reports to viewers say the same of both tracks.
    pub(crate) fn reported(&mut self, encoding: EncodingId) {
        if self.rewriter.encoding() == Some(encoding) {
            self.mapping = self.reported_mapping(encoding.layer);
        }
    }

    /// Gives a packet of the home worker its number and timestamp here and stores it.
    pub(crate) fn store_mirrored(
        &mut self,
        now: Instant,
        packet: &Arc<Packet>,
        limits: &Limits,
    ) -> Result<Forward, DropReason> {
        let meta = &packet.meta;
        let arrival = Arrival {
            encoding: EncodingId { epoch: meta.epoch, layer: 0, generation: 0 },
            sequence: meta.number,
            timestamp: meta.timestamp,
            clock_rate: meta.clock_rate,
            now: meta.arrival,
            is_padding: false,
        };
        let current = self.rewriter.encoding().map(|encoding| encoding.epoch);
        if current.is_none_or(|epoch| epoch < meta.epoch) {
            self.cache.end_gop();
            // What it began with was lost between the workers. Its numbers go on from those of the
            // publication before: viewers would take these pictures for what follows, and ask for nothing.
            if current.is_some() && self.index.kind() == MediaKind::Video && !meta.starts_key_frame {
                self.want_key_frame(now);
                return Err(DropReason::NoKeyFrame);
            }
            self.rewriter.switch(&arrival, self.continued_timestamp(&arrival));
            self.mapping = None;
        }
        let Rewrite::Forward { number, timestamp } = self.rewriter.rewrite(&arrival) else {
            return Err(DropReason::TooOld);
        };
        if let Some(mut mapping) = meta.mapping {
            mapping.timestamp = mapping.timestamp.wrapping_add(timestamp.wrapping_sub(meta.timestamp));
            self.mapping = Some(mapping);
        }
        let retention = self.retention(true, limits);
        let cached = CachedPacket::new(Arc::clone(packet), timestamp, true);
        self.put_in_cache(number, cached, limits, retention)
    }

    fn put_in_cache(
        &mut self,
        number: u64,
        cached: CachedPacket,
        limits: &Limits,
        retention: Retention,
    ) -> Result<Forward, DropReason> {
        let CachedPacket { ref packet, timestamp, .. } = cached;
        self.clock_rate = packet.meta.clock_rate;
        if packet.is_key_frame() {
            self.pli_request_at = None;
            if self.key_frame.is_none_or(|before| rtp::sequence::is_newer_timestamp(timestamp, before)) {
                let before = self.key_frame.replace(timestamp);
                self.key_frame_distance = before.map(|before| timestamp.wrapping_sub(before));
            }
        }
        let forward = Forward { track: self.index, number, timestamp, packet: Arc::clone(packet) };
        let (arrival, bytes) = (packet.arrival(), FIXED_HEADER_LEN + packet.payload().len());
        if self.index.kind() == MediaKind::Video && !packet.media().is_empty() {
            self.frames.note(arrival, timestamp);
        }
        self.cache.insert(number, cached, limits, retention)?;
        self.recent.get_or_insert_with(|| RecentMedia::new(arrival)).note(arrival, bytes);
        Ok(forward)
    }

    /// Output timestamp of the first packet of another publisher, if its timestamps go on.
    fn continued_timestamp(&self, arrival: &Arrival) -> Option<u32> {
        self.rewriter.continued(arrival).filter(|_| arrival.clock_rate == self.clock_rate)
    }

    /// Output timestamp of a packet of another layer, from the sender reports of both. It is used
    /// only if it is near the one that the time since the last packet gives.
    fn aligned_timestamp(&self, arrival: &Arrival, held: u8) -> Option<u32> {
        let to = self.encodings.get(usize::from(arrival.encoding.layer))?.sender_report?;
        let from = self.encodings.get(usize::from(held))?.sender_report?;
        let shift = self.rewriter.timestamp_shift()?;
        let reported = from.timestamp_at(to.at, arrival.clock_rate);
        let aligned = reported.wrapping_add(arrival.timestamp.wrapping_sub(to.timestamp)).wrapping_add(shift);
        let expected = self.rewriter.expected_timestamp(arrival.now, arrival.clock_rate)?;
        let tolerance = rtp_units(Duration::from_millis(500), arrival.clock_rate);
        let off = aligned.wrapping_sub(expected).cast_signed().unsigned_abs();
        let newest = self.cache.newest_timestamp()?;
        (off <= tolerance && rtp::sequence::is_newer_timestamp(aligned, newest)).then_some(aligned)
    }

    /// The packet that was in transit for the shortest time tells best when packets were captured.
    fn estimate_mapping(&mut self, now: Instant, timestamp: u32, clock_rate: u32) {
        let is_better = self.estimate.is_none_or(|estimate| {
            let is_stale = now.saturating_duration_since(estimate.at) > ESTIMATE_AGE_MAX;
            is_stale || timestamp.wrapping_sub(estimate.timestamp_at(now, clock_rate)).cast_signed() >= 0
        });
        if is_better {
            self.estimate = Some(NtpRtpMapping { at: now, timestamp });
        }
    }

    fn reported_mapping(&self, layer: u8) -> Option<NtpRtpMapping> {
        let NtpRtpMapping { at, timestamp } = self.encodings.get(usize::from(layer))?.sender_report?;
        Some(NtpRtpMapping { at, timestamp: timestamp.wrapping_add(self.rewriter.timestamp_shift()?) })
    }
}

/// An older estimate is replaced by the next packet: clocks drift.
const ESTIMATE_AGE_MAX: Duration = Duration::from_secs(10);
