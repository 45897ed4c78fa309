//! One track of a stream: its encodings (layers), which of them is forwarded, and what was
//! forwarded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rtp::FIXED_HEADER_LEN;
use rtp::extension::FrameDependencies;
use rtp::payload::MediaKind;

use super::batch::Forward;
use super::clock::NtpRtpMapping;
use super::demand::{Answers, Retention, Trial, UNWATCHED_HISTORY};
use super::encoding::Encoding;
use super::feedback::{
    KEY_FRAME_INTERVAL, KeyFrameRequests, VIEWER_REQUEST_INTERVAL, can_ask_for_key_frames,
};
use super::inputs::TrackInput;
use super::layers::{self, LayerRate};
use super::limits::{LAYERS_MAX, Limits, TRACKS_MAX};
use super::mirrored::{OfHome, Outputs};
use super::packet::{Packet, PacketMeta};
use super::packet_cache::CachedPacket;
use super::receive::{DropReason, MediaPacket};
use super::recent::{FrameTimes, RecentMedia};
use super::relayed_encodings::RelayedEncodings;
use super::rendition::{Rendition, RenditionId, TrackContext};
use super::rtp_rewriter::{Arrival, EncodingId, Rewrite, rtp_units};

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
    /// What viewers without a target, bridges and other nodes get.
    pub(crate) main: Rendition,
    /// Other outputs, for viewers with a target. Few.
    pub(crate) renditions: Vec<Rendition>,
    /// How many there have been; each gets numbers of its own.
    pub(crate) renditions_made: u64,
    /// Viewers that have had a target.
    pub(crate) layered: u32,
    /// What there was to choose from when targets were last looked at, and when that is due again.
    pub(crate) layers_seen: Option<u64>,
    pub(crate) review_at: Option<Instant>,
    /// Tells the present publisher's packets from others.
    pub(crate) epoch: u64,
    /// Of video.
    pub(crate) frames: FrameTimes,
    /// Key frames of the main output that the home worker is asked for, on a mirror.
    pub(crate) key_frames: KeyFrameRequests,
    /// What the home worker is asked for, on a mirror.
    pub(crate) of_home: OfHome,
    /// Encodings that mirrors and other nodes get, a bit for each.
    pub(crate) mirrored: u8,
    /// Of several encodings whose publisher is another node.
    pub(crate) relayed: Option<RelayedEncodings>,
    /// The layers there are to choose from, as was last looked at, with averages of their rates.
    pub(crate) choices: Vec<LayerRate>,
    pub(crate) choices_at: Option<Instant>,
    /// Viewers with narrow paths get it from the cache; until when that is taken for granted.
    slow_until: Option<Instant>,
    /// That of the newest packet.
    pub(crate) clock_rate: u32,
    /// Distance of the last two key frames of the present publisher, in timestamps.
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
    /// On a mirror, where numbers do not tell it: which packet of the track this is, from 1 on. 0 for one
    /// that was held.
    pub(crate) place: Option<u64>,
    /// What its dependency descriptor says, if it has one that can be read.
    pub(crate) frame: Option<&'a FrameDependencies>,
}

impl Track {
    pub(crate) fn new(index: TrackIndex) -> Self {
        Self {
            index,
            input: None,
            encodings: Vec::new(),
            main: Rendition::main(),
            renditions: Vec::new(),
            renditions_made: 0,
            layered: 0,
            layers_seen: None,
            review_at: None,
            epoch: 0,
            frames: FrameTimes::default(),
            key_frames: KeyFrameRequests::default(),
            of_home: OfHome::default(),
            mirrored: 0,
            relayed: None,
            choices: Vec::new(),
            choices_at: None,
            slow_until: None,
            clock_rate: 0,
            key_frame_distance: None,
        }
    }

    /// A publisher that has this track begins.
    pub(crate) fn start(&mut self, epoch: u64, input: TrackInput) {
        self.end();
        self.epoch = epoch;
        let layers = input.ssrcs.len().max(input.rids.len()).clamp(1, LAYERS_MAX);
        self.encodings = (0..layers)
            .map(|layer| {
                let signalled = input.ssrcs.get(layer);
                let rank = input.rids.get(layer).map_or(0, |rid| layers::rank_of_name(rid));
                Encoding::new(signalled.map(|ssrcs| ssrcs.0), signalled.and_then(|ssrcs| ssrcs.1), rank)
            })
            .collect();
        self.input = Some(input);
    }

    /// Asks for a key frame: the publisher, or on a mirror the home worker.
    pub(crate) fn want_key_frame(&mut self, now: Instant) {
        self.want_key_frame_of(now, RenditionId::MAIN);
    }

    /// Asks for a key frame of what this output has.
    pub(crate) fn want_key_frame_of(&mut self, now: Instant, id: RenditionId) {
        if self.index.kind() == MediaKind::Video {
            self.requests(id).want(now);
        }
    }

    /// Asks for a key frame that only single viewers need: when one has not been asked for lately.
    pub(crate) fn want_key_frame_for_slow_viewer(&mut self, now: Instant, id: RenditionId) {
        if self.index.kind() == MediaKind::Video {
            self.requests(id).want_for_one(now);
        }
    }

    /// Whether a key frame of what this output has may be asked for now by a single viewer: if it is the only
    /// one, as often as any.
    pub(crate) fn may_have_key_frame(&mut self, now: Instant, id: RenditionId, is_alone: bool) -> bool {
        let interval = if is_alone { KEY_FRAME_INTERVAL } else { VIEWER_REQUEST_INTERVAL };
        self.requests(id).may_send(now, interval)
    }

    /// Requests for key frames of what this output has. Which encoding the main output has, only the
    /// home knows in time.
    pub(crate) fn requests(&mut self, id: RenditionId) -> &mut KeyFrameRequests {
        let encoding = self.rendition(id).and_then(|rendition| rendition.layer.encoding);
        let known = encoding.map(usize::from).filter(|at| *at < self.encodings.len());
        let at = known.or_else(|| self.input.as_ref().map(|_| self.held()));
        match at.and_then(|at| self.encodings.get_mut(at)) {
            Some(encoding) => &mut encoding.key_frames,
            None => &mut self.key_frames,
        }
    }

    /// A viewer with a narrow path gets it from the cache.
    pub(crate) fn note_slow_viewer(&mut self, now: Instant) {
        self.slow_until = Some(now + Duration::from_secs(1));
    }

    /// One of its outputs.
    #[inline]
    pub(crate) fn rendition(&self, id: RenditionId) -> Option<&Rendition> {
        if id == RenditionId::MAIN {
            return Some(&self.main);
        }
        self.renditions.iter().find(|rendition| rendition.id == id)
    }

    pub(crate) fn rendition_mut(&mut self, id: RenditionId) -> Option<&mut Rendition> {
        if id == RenditionId::MAIN {
            return Some(&mut self.main);
        }
        self.renditions.iter_mut().find(|rendition| rendition.id == id)
    }

    /// All of its outputs.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = &Rendition> + Clone {
        std::iter::once(&self.main).chain(&self.renditions)
    }

    /// Takes a packet of the publisher into the renditions that have its encoding, besides the main one,
    /// which has stored it as `shared` if that has it. What goes to viewers is appended to `out`.
    #[expect(clippy::too_many_arguments, reason = "parts of the stream that are borrowed apart")]
    pub(crate) fn store_in_renditions<'a>(
        &mut self,
        now: Instant,
        packet: &Identified<'_>,
        extensions: impl Iterator<Item = (rtp::extension::Extension, &'a [u8])> + Clone,
        payload: &[u8],
        limits: &Limits,
        mut shared: Option<Arc<Packet>>,
        out: &mut Vec<Forward>,
    ) {
        let layer = packet.media.role.layer;
        let Some(encoding) = self.encodings.get_mut(usize::from(layer)) else { return };
        let dependencies = encoding.dependencies.as_deref();
        let report = encoding.sender_report;
        let context = TrackContext { now, index: self.index, limits, report, dependencies };
        for rendition in self.renditions.iter_mut().filter(|one| one.layer.encoding == Some(layer)) {
            if !rendition.store(packet, &context, extensions.clone(), payload, &mut shared, out) {
                encoding.key_frames.want(now);
            }
        }
    }

    /// The encoding that is forwarded, or would be.
    fn held(&self) -> usize {
        let held = self.main.source().map_or(0, |encoding| usize::from(encoding.layer));
        if held < self.encodings.len() { held } else { 0 }
    }

    /// What is kept of it, whether or not anybody plays it.
    pub(crate) fn retention(&self, now: Instant, is_watched: bool, limits: &Limits) -> Retention {
        if is_watched {
            let history = match self.slow_until {
                Some(until) if until > now => limits.history_duration.max(SLOW_HISTORY),
                _ => limits.history_duration,
            };
            return Retention { history, gop: limits.gop_cache };
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
        let is_ready = self.main.cache.start_of_playback(now, now, limits).is_some();
        if is_ready || !limits.gop_cache || !can_ask_for_key_frames(self) {
            return;
        }
        let held = self.held();
        if let Some(encoding) = self.encodings.get_mut(held) {
            encoding.answers.asked(now);
            encoding.key_frames.want(now);
        }
    }

    /// The publisher has left. Its packets can still be resent, but no viewer starts with them.
    pub(crate) fn end(&mut self) {
        (self.input, self.relayed) = (None, None);
        self.encodings = Vec::new();
        self.main.end();
        self.renditions.iter_mut().for_each(Rendition::end);
        (self.key_frame_distance, self.layers_seen) = (None, None);
        self.key_frames.satisfied();
        self.of_home.unused_since = None;
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
        let (id, arrival) = (packet.encoding(), packet.arrival(now));
        // Switch to this packet's layer if that is the best one and a decoder can start here.
        let current = self.main.rewriter.encoding();
        let held = current.filter(|encoding| encoding.epoch == id.epoch).map(|encoding| encoding.layer);
        if current != Some(id)
            && let Some(best) = layers::best(&self.encodings, held, now)
        {
            let is_audio = self.index.kind() == MediaKind::Audio;
            let is_start = !packet.is_padding && (is_audio || media.starts_key_frame);
            // A layer whose numbering restarted cannot go on as it was.
            let held_is_dead = held.is_none_or(|held| {
                let encoding = self.encodings.get(usize::from(held));
                held == layer || encoding.is_none_or(|encoding| !encoding.is_live(now))
            });
            // What came of it ahead of this packet is gone, unless it was held because there was nothing else.
            let is_newest = || {
                let encoding = self.encodings.get(usize::from(layer));
                encoding.and_then(|encoding| encoding.reception.highest()) <= Some(packet.sequence)
            };
            let is_start = is_start && (held.is_none_or(|held| held == layer) || is_newest());
            if is_start && (best == layer || held_is_dead) {
                let timestamp = match held {
                    Some(held) => self.aligned_timestamp(&arrival, held),
                    None => self.continued_timestamp(&arrival),
                };
                if held.is_none_or(|held| held == layer) {
                    self.main.cache.end_gop();
                }
                self.main.rewriter.switch(&arrival, timestamp);
            } else {
                if !packet.is_padding
                    && let Some(encoding) = self.encodings.get_mut(usize::from(best))
                    && (held != Some(best) || best == layer)
                {
                    encoding.key_frames.want(now);
                }
                if media.is_readable && held.is_none_or(|held| held == layer) {
                    self.main.early.hold(now, (id, packet.sequence), media, extensions, payload);
                    return Ok(None);
                }
            }
        }
        let is_forwarded = self.main.rewriter.encoding() == Some(id);
        let (number, timestamp, filler) = match self.main.rewriter.rewrite(&arrival) {
            Rewrite::Forward { number, timestamp } => (number, timestamp, false),
            Rewrite::Filler { number, timestamp } => (number, timestamp, true),
            Rewrite::Removed => return Ok(None),
            Rewrite::TooLate if is_forwarded => return Err(DropReason::TooOld),
            Rewrite::TooLate => return Ok(None),
        };
        self.main.placed = (packet.sequence, number);
        if is_forwarded {
            if !packet.is_clock_known {
                self.main.estimate_mapping(now, timestamp, media.format.clock_rate);
            }
            self.main.mapping =
                self.reported_mapping(layer).or(self.main.estimate.filter(|_| packet.may_estimate_clock));
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
            starts_key_frame: media.starts_key_frame && !filler && self.main.key_frame != Some(timestamp),
            filler,
            mapping: self.main.mapping,
            source: packet.source(),
            red: media.red,
        };
        let packet = Packet::new(meta, extensions, payload).ok_or(DropReason::Malformed)?;
        let retention = self.retention(now, is_watched, limits);
        let cached = CachedPacket::new(packet, timestamp, false);
        self.put_in_cache(number, cached, limits, retention).map(Some)
    }

    /// A sender report of an encoding arrived. It counts at once, not from the next packet on, so
    /// that reports to viewers say the same of both tracks.
    pub(crate) fn reported(&mut self, encoding: EncodingId) {
        if self.main.rewriter.encoding() == Some(encoding) {
            self.main.mapping = self.reported_mapping(encoding.layer);
        }
        let report = self.encodings.get(usize::from(encoding.layer)).and_then(|from| from.sender_report);
        for rendition in &mut self.renditions {
            if rendition.rewriter.encoding() == Some(encoding) {
                rendition.reported(report);
            }
        }
    }

    pub(crate) fn put_in_cache(
        &mut self,
        number: u64,
        cached: CachedPacket,
        limits: &Limits,
        retention: Retention,
    ) -> Result<Forward, DropReason> {
        let CachedPacket { ref packet, timestamp, .. } = cached;
        self.clock_rate = packet.meta.clock_rate;
        if packet.is_key_frame() {
            self.key_frames.satisfied();
            if let Some(before) = self.main.note_key_frame(timestamp) {
                self.key_frame_distance = Some(timestamp.wrapping_sub(before));
            }
        }
        let is_late = number < self.main.cache.end();
        let forward = Forward {
            track: self.index,
            rendition: RenditionId::MAIN,
            number,
            timestamp,
            is_late,
            outputs: Some(Outputs::MAIN),
            packet: Arc::clone(packet),
        };
        // With the redundancy that some viewers get.
        let sent = packet.red().map_or(packet.payload(), |(_, payload)| payload);
        let (arrival, bytes) = (packet.arrival(), FIXED_HEADER_LEN + sent.len());
        if self.index.kind() == MediaKind::Video && !packet.media().is_empty() {
            self.frames.note(arrival, timestamp);
        }
        self.main.cache.insert(number, cached, limits, retention)?;
        self.main.recent.get_or_insert_with(|| RecentMedia::new(arrival)).note(arrival, bytes);
        Ok(forward)
    }

    /// Output timestamp of the first packet of another publisher, if its timestamps go on.
    pub(crate) fn continued_timestamp(&self, arrival: &Arrival) -> Option<u32> {
        self.main.rewriter.continued(arrival).filter(|_| arrival.clock_rate == self.clock_rate)
    }

    /// Output timestamp of a packet of another layer, from the sender reports of both. It is used
    /// only if it is near the one that the time since the last packet gives.
    fn aligned_timestamp(&self, arrival: &Arrival, held: u8) -> Option<u32> {
        let to = self.encodings.get(usize::from(arrival.encoding.layer))?.sender_report?;
        let from = self.encodings.get(usize::from(held))?.sender_report?;
        let shift = self.main.rewriter.timestamp_shift()?;
        let reported = from.timestamp_at(to.at, arrival.clock_rate);
        let aligned = reported.wrapping_add(arrival.timestamp.wrapping_sub(to.timestamp)).wrapping_add(shift);
        let expected = self.main.rewriter.expected_timestamp(arrival.now, arrival.clock_rate)?;
        let tolerance = rtp_units(Duration::from_millis(500), arrival.clock_rate);
        let off = aligned.wrapping_sub(expected).cast_signed().unsigned_abs();
        let newest = self.main.cache.newest_timestamp()?;
        (off <= tolerance && rtp::sequence::is_newer_timestamp(aligned, newest)).then_some(aligned)
    }

    fn reported_mapping(&self, layer: u8) -> Option<NtpRtpMapping> {
        let NtpRtpMapping { at, timestamp } = self.encodings.get(usize::from(layer))?.sender_report?;
        Some(NtpRtpMapping { at, timestamp: timestamp.wrapping_add(self.main.rewriter.timestamp_shift()?) })
    }
}

/// How long packets are kept while viewers with narrow paths get them from the cache: a key frame takes them
/// some seconds.
const SLOW_HISTORY: Duration = Duration::from_secs(5);
