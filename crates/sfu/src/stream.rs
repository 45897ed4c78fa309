//! A stream of packets on one worker: publisher in, viewers out.
//!
//! On the home worker it is fed by the publisher ([`PacketStream::receive`]), on others by the
//! packets of the home ([`PacketStream::receive_mirrored`]). It outlives its publishers, so that
//! viewers stay when one comes back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rtp::extension::Extension;
use rtp::payload::MediaKind;

use super::batch::{Batches, Forward};
use super::clock::WallClock;
use super::header_profile::HeaderProfiles;
use super::inputs::PublisherInput;
use super::limits::Limits;
use super::packet::Packet;
use super::publisher::Publisher;
use super::reception::Rate;
use super::rendition::Rendition;
use super::track::{Track, TrackIndex, Tracks};
use super::viewers::{ViewerId, Viewers};

/// One stream on one worker.
#[derive(Debug)]
pub struct PacketStream {
    pub(crate) limits: Limits,
    pub(crate) clock: WallClock,
    pub(crate) tracks: Tracks,
    pub(crate) publisher: Option<Box<Publisher>>,
    pub(crate) viewers: Viewers,
    pub(crate) profiles: HeaderProfiles,
    pub(crate) batches: Batches,
    /// Viewers that do not get all of their tracks live yet, the next one to be served in front.
    pub(crate) backlog: VecDeque<ViewerId>,
    /// Viewers that wait for a key frame.
    pub(crate) waiting_for_key_frame: Vec<ViewerId>,
    /// When the cached packets of a publisher that left are dropped.
    pub(crate) expires_at: Option<Instant>,
    /// When the first key frame of the present publisher came.
    pub(crate) first_key_frame: Option<Instant>,
    /// Epoch of the newest publisher.
    pub(crate) epoch: u64,
    /// Since when nobody plays it, if nobody does.
    pub(crate) unwatched_since: Option<Instant>,
    /// Viewers without a sender report on each of their tracks.
    pub(crate) first_reports: Vec<ViewerId>,
    pub(crate) first_reports_at: Option<Instant>,
    pub(crate) reported_at: Option<Instant>,
    pub(crate) reports_slot: usize,
    pub(crate) scratch: Vec<u8>,
    /// Packets sent again after they had waited, since that was asked for.
    pub(crate) repeats_sent: u64,
    /// Somebody gets it who is no viewer here.
    pub(crate) has_others: bool,
    /// What one packet becomes in other renditions than the main one.
    pub(crate) placed: Vec<Forward>,
    /// When mirrors last got a report of what layers there are.
    pub(crate) layers_told_at: Option<Instant>,
    pub(crate) stats: StreamStats,
    pub(crate) rate: Rate,
}

/// How the publisher's packets of one track arrive; the worst of its layers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TrackReception {
    /// Packets that should have arrived, over all layers, since the publisher began.
    pub expected_packets: u64,
    /// Packets that arrived, retransmissions left out.
    pub received_packets: u64,
    /// Jitter of arrivals (RFC 3550 appendix A.8).
    pub jitter: Duration,
    /// Bits per second of the layer that is forwarded, over the last second.
    pub bits_per_second: u64,
    /// Layers of which something has arrived lately.
    pub live_layers: u8,
}

/// What the timestamps of a video track tell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pictures {
    /// Frames per second, over the last second.
    pub frames_per_second: Option<f32>,
    /// Distance of the last two key frames of the present publisher.
    pub key_frame_interval: Option<Duration>,
}

/// Totals of a stream on one worker, since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// Bytes of packets taken in, whether forwarded or not.
    pub received_bytes: u64,
    /// Packets that were taken in and not forwarded: padding, and layers nobody watches.
    pub not_forwarded_packets: u64,
    /// Packets that did not go to a viewer because that does not take their codec, each for each viewer.
    pub unsupported_packets: u64,
    /// Packets that went to no viewer, or not to all, because too many waited to be sent, or for
    /// too long.
    pub unsent_packets: u64,
    /// Packets left out of the transport feedback because too many arrived between two.
    pub unacknowledged_packets: u64,
    /// Packets that came by retransmission.
    pub repaired_packets: u64,
    /// Packets the publisher was asked for again; each request counts.
    pub nacked_packets: u64,
    /// Key-frame requests sent to the publisher.
    pub key_frame_requests: u64,
    /// Bits per second received over the last second.
    pub bits_per_second: u64,
    /// Packets in the caches.
    pub cached_packets: usize,
    /// Their payload bytes.
    pub cached_bytes: usize,
    /// Memory the caches take, and what is held until a track begins. Packets that other workers, or other
    /// renditions, hold as well count in full.
    pub cached_memory_bytes: usize,
}

/// What a publisher was asked for, and what it sent again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PublisherStats {
    /// Packets that came by retransmission.
    pub repaired_packets: u64,
    /// Packets it was asked for again; each request counts.
    pub nacked_packets: u64,
    /// Key-frame requests sent to it.
    pub key_frame_requests: u64,
}

impl PacketStream {
    /// Whether somebody gets the stream who is no viewer here: by another worker, node or protocol. A key
    /// frame for a single viewer costs others then.
    pub fn set_others(&mut self, has_others: bool) {
        self.has_others = has_others;
    }

    /// Whether nobody but one viewer gets what its publisher sends, as far as is known here.
    pub(crate) fn is_alone(&self) -> bool {
        let is_home = self.publisher.as_ref().is_some_and(|publisher| publisher.takes_rtcp);
        is_home && self.viewers.len() == 1 && !self.has_others
    }

    /// A stream without a publisher.
    pub fn new(limits: Limits, clock: WallClock) -> Self {
        Self {
            limits,
            clock,
            tracks: Tracks::default(),
            publisher: None,
            viewers: Viewers::default(),
            profiles: HeaderProfiles::default(),
            batches: Batches::default(),
            backlog: VecDeque::new(),
            waiting_for_key_frame: Vec::new(),
            expires_at: None,
            first_key_frame: None,
            epoch: 0,
            unwatched_since: None,
            first_reports: Vec::new(),
            first_reports_at: None,
            reported_at: None,
            reports_slot: 0,
            scratch: Vec::new(),
            repeats_sent: 0,
            has_others: false,
            placed: Vec::new(),
            layers_told_at: None,
            stats: StreamStats::default(),
            rate: Rate::default(),
        }
    }

    /// A publisher begins. `epoch` tells its packets from those of others before, also on other
    /// workers: it must be higher for each publisher of the stream.
    pub fn publisher_started(&mut self, now: Instant, epoch: u64, mut input: PublisherInput) {
        self.publisher_ended(now);
        (self.expires_at, self.layers_told_at, self.first_key_frame) = (None, None, None);
        // Somebody can be asked for a key frame now.
        self.queue_waiting();
        self.note_epoch(now, epoch);
        let tracks = std::mem::take(&mut input.tracks);
        let mut publisher = Publisher::new(now, input, epoch, self.limits.history_duration);
        let with_feedback = tracks.iter().find(|track| track.transport_cc);
        let id = with_feedback.and_then(|track| track.extensions.id_of(Extension::TransportCc));
        publisher.with_transport_feedback(id);
        publisher.stats_before = self.stats;
        let mut counts = [0; 2];
        for input in tracks {
            let count = &mut counts[usize::from(input.kind == MediaKind::Video)];
            let Some(index) = TrackIndex::new(input.kind, *count) else { continue };
            *count += 1;
            let track = self.tracks.get_or_new(index);
            track.start(epoch, input);
            publisher.ssrcs.signalled(track);
        }
        self.publisher = Some(Box::new(publisher));
    }

    /// Another publisher's packets arrive: earlier sender reports may not hold for them, so viewers
    /// get new ones as soon as possible.
    pub(crate) fn note_epoch(&mut self, now: Instant, epoch: u64) {
        if epoch <= self.epoch {
            return;
        }
        self.epoch = epoch;
        self.first_reports.clear();
        for (id, viewer) in self.viewers.iter_mut_with_ids() {
            (viewer.cold.reported_tracks, viewer.cold.first_reported_at) = (0, None);
            self.first_reports.push(id);
        }
        self.first_reports_at = (!self.first_reports.is_empty()).then_some(now);
    }

    /// The publisher has left. Viewers stay; its packets can still be resent, but no viewer starts
    /// with them.
    pub fn publisher_ended(&mut self, now: Instant) {
        self.publisher = None;
        for track in self.tracks.iter_mut() {
            track.end();
            track.mirror(now, 0);
        }
        self.expires_at = Some(now + self.limits.history_duration);
    }

    /// Drops packets nobody can ask for any more after a publisher has left.
    pub(crate) fn expire(&mut self, now: Instant) {
        if self.expires_at.is_some_and(|at| at <= now) {
            for track in self.tracks.iter_mut() {
                track
                    .renditions
                    .iter_mut()
                    .chain([&mut track.main])
                    .for_each(|rendition| rendition.cache.clear());
            }
            self.expires_at = None;
        }
    }

    /// What a new mirror starts with: the cached packets, each track in order.
    pub fn cached(&self, now: Instant) -> impl Iterator<Item = &Arc<Packet>> {
        self.tracks.iter().flat_map(move |track| {
            let from = track.main.cache.start_of_playback(now, now, &self.limits).unwrap_or(u64::MAX);
            track.main.cache.from(from).map(|kept| &kept.packet)
        })
    }

    /// How packets of a track arrive from the publisher; `None` on a mirror, and without a
    /// publisher.
    pub fn reception(&self, now: Instant, track: TrackIndex) -> Option<TrackReception> {
        let track = self.tracks.get(track).filter(|_| self.publisher.is_some())?;
        let clock_rate = track.clock_rate.max(8_000);
        let held = track.main.rewriter.encoding().map_or(0, |encoding| usize::from(encoding.layer));
        let mut reception = TrackReception {
            bits_per_second: track.encodings.get(held)?.bits_per_second(),
            ..Default::default()
        };
        for encoding in &track.encodings {
            let (expected, received) = encoding.reception.totals();
            reception.expected_packets += expected;
            reception.received_packets += received;
            reception.jitter = reception.jitter.max(encoding.reception.jitter(clock_rate));
            reception.live_layers += u8::from(encoding.is_live(now));
        }
        Some(reception)
    }

    /// Rate of a video track's frames and distance of its key frames, as far as known.
    pub fn pictures(&self, now: Instant, track: TrackIndex) -> Option<Pictures> {
        let track = self.tracks.get(track)?;
        let seconds = |units: u32| f64::from(units) / f64::from(track.clock_rate.max(1));
        Some(Pictures {
            frames_per_second: track.frames.rate(now, track.clock_rate),
            key_frame_interval: track.key_frame_distance.map(|units| Duration::from_secs_f64(seconds(units))),
        })
    }

    /// The packets of the newest key frame of a track, if all of it is cached.
    pub fn newest_key_frame(&self, track: TrackIndex) -> Option<impl Iterator<Item = &Arc<Packet>>> {
        self.tracks.get(track)?.main.cache.key_frame()
    }

    /// Round trip to the publisher, once a repair has shown it.
    pub fn publisher_round_trip(&self) -> Option<Duration> {
        self.publisher.as_ref()?.round_trip
    }

    /// Totals of the present publisher.
    pub fn publisher_stats(&self) -> PublisherStats {
        let Some(publisher) = &self.publisher else { return PublisherStats::default() };
        let (now, before) = (&self.stats, &publisher.stats_before);
        PublisherStats {
            repaired_packets: now.repaired_packets - before.repaired_packets,
            nacked_packets: now.nacked_packets - before.nacked_packets,
            key_frame_requests: now.key_frame_requests - before.key_frame_requests,
        }
    }

    /// Packets from the newest key frame on take at most this much from now on, of each track.
    pub fn limit_gop(&mut self, bytes_max: usize) {
        self.limits.gop_bytes_max = bytes_max;
    }

    /// Whether each track keeps no more than its limits, for tests of whole servers.
    pub fn is_within_limits(&self) -> bool {
        self.tracks.iter().flat_map(Track::outputs).all(|output| output.is_within(&self.limits))
    }

    /// When the first key frame of the present publisher came.
    pub fn first_key_frame(&self) -> Option<Instant> {
        self.first_key_frame
    }

    /// Totals.
    pub fn stats(&self) -> StreamStats {
        let outputs = || self.tracks.iter().flat_map(Track::outputs);
        StreamStats {
            cached_packets: outputs().map(|output| output.cache.packets()).sum(),
            cached_bytes: outputs().map(|output| output.cache.bytes()).sum(),
            cached_memory_bytes: outputs().map(Rendition::memory).sum(),
            bits_per_second: self.rate.bits_per_second,
            ..self.stats
        }
    }
}
