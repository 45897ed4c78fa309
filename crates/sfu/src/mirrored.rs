//! A stream on several workers: what the home sends each mirror, and what a mirror asks of the home.
//!
//! Of a track of video a mirror gets the main output, or whole encodings, or both: what its viewers use.
//! Lower layers inside an encoding it takes out itself. A packet crosses once, whichever of these it is of:
//!
//! ```text
//!  home     main         n     n+1            mirror     main        -> viewers without a target
//!           encoding 2   m     m+1   --all--> encoding 2 -> renditions of it -> viewers with one
//!  one message: the packet, whether it is of the main output, its number in that of its encoding
//! ```
//! How many bits per second each layer has, and whether it is alive, the home tells its mirrors a few times
//! a second, so that they choose for their viewers as the home does for its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rtp::payload::{MediaKind, PictureSizes};
use tracing::trace;

use super::batch::Forward;
use super::clock::NtpRtpMapping;
use super::encoding::{Encoding, LayerRates};
use super::layers::Layer;
use super::limits::{LAYERS_MAX, Limits};
use super::packet::Packet;
use super::packet_cache::CachedPacket;
use super::receive::{DropReason, MediaPacket, Received};
use super::relayed_encodings::EncodingSet;
use super::rendition::{Origin, RenditionId, TrackContext};
use super::rtp_rewriter::{Arrival, EncodingId, Rewrite};
use super::stream::PacketStream;
use super::track::{Identified, Track, TrackIndex};

/// Which outputs of its track a packet is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outputs {
    /// The main one, with [`Packet::number`] and [`Packet::timestamp`].
    pub is_main: bool,
    /// That of its whole encoding, if there is one, and the number there.
    pub in_encoding: Option<u64>,
}

impl Outputs {
    /// The main one alone.
    pub const MAIN: Self = Self { is_main: true, in_encoding: None };
}

/// What a mirror needs of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayersWanted {
    main: bool,
    /// A bit for each encoding.
    encodings: u8,
}

impl LayersWanted {
    /// What a mirror gets that has not said anything.
    pub const MAIN: Self = Self { main: true, encodings: 0 };

    /// What of these outputs goes to the mirror. `None`: the packet does not.
    #[inline]
    pub fn of(self, packet: &Packet, outputs: Outputs) -> Option<Outputs> {
        let is_main = outputs.is_main && self.main;
        let is_wanted = self.encodings & 1 << packet.meta.source.encoding != 0;
        let in_encoding = outputs.in_encoding.filter(|_| is_wanted);
        (is_main || in_encoding.is_some()).then_some(Outputs { is_main, in_encoding })
    }

    /// Encodings alone: what other nodes need of a track of several.
    pub fn of_encodings(encodings: EncodingSet) -> Self {
        Self { main: false, encodings: encodings.bits() }
    }

    /// The encodings of it.
    pub fn encodings(self) -> EncodingSet {
        EncodingSet::of_bits(self.encodings)
    }

    /// Whether the main output is part of it.
    pub fn has_main(self) -> bool {
        self.main
    }

    /// What two mirrors need.
    pub fn and(self, other: Self) -> Self {
        Self { main: self.main || other.main, encodings: self.encodings | other.encodings }
    }
}

/// A key frame that the home worker, or the node that a stream comes from, is to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyFrameRequest {
    /// Of which track.
    pub track: TrackIndex,
    /// Of which of its encodings; `None` for the one that is the main output.
    pub encoding: Option<u8>,
    /// Only single viewers need it: the publisher is asked once in 3 s at most.
    pub is_for_one: bool,
}

/// What there is to choose from of tracks of video, for mirrors. Of tracks with a choice only.
#[derive(Debug, Default)]
pub struct LayersReport {
    tracks: Vec<(TrackIndex, Vec<EncodingReport>)>,
}

impl LayersReport {
    /// Whether there is no choice.
    pub fn is_empty(&self) -> bool {
        self.tracks.is_empty()
    }
}

/// What there is of an encoding.
#[derive(Debug)]
struct EncodingReport {
    generation: u32,
    rank: u8,
    bits_per_second: u64,
    first_arrival: Option<Instant>,
    last_arrival: Option<Instant>,
    sizes: PictureSizes,
    layers: Option<Box<LayerRates>>,
}

/// What a mirror has asked of the home for a track.
#[derive(Debug)]
pub(crate) struct OfHome {
    announced: LayersWanted,
    /// The home may have taken it in before it took this mirror for one that has said nothing.
    must_announce: bool,
    /// Since when nobody here uses the main output, while it comes.
    pub(crate) unused_since: Option<Instant>,
    /// Packets that have come.
    packets: u64,
}

impl Default for OfHome {
    fn default() -> Self {
        Self { announced: LayersWanted::MAIN, must_announce: false, unused_since: None, packets: 0 }
    }
}

/// On the home.
impl PacketStream {
    /// Sets what all mirrors and other nodes together need of a track: encodings are outputs as
    /// long as one of them does.
    pub fn set_mirrored(&mut self, now: Instant, track: TrackIndex, wanted: LayersWanted) {
        if track.kind() != MediaKind::Video {
            return;
        }
        // On a mirror it may be there before its first packet.
        let track = match wanted.encodings {
            0 => self.tracks.get_mut(track),
            _ => Some(self.tracks.get_or_new(track)),
        };
        if let Some(track) = track {
            track.mirror(now, wanted.encodings);
        }
    }

    /// What there is to choose from, if mirrors have not been sent it lately and there is a choice.
    pub fn poll_layers_report(&mut self, now: Instant) -> Option<LayersReport> {
        if self.layers_told_at.is_some_and(|at| now < at + LAYERS_REPORT_INTERVAL) {
            return None;
        }
        self.layers_told_at = Some(now);
        Some(self.layers_report(now)).filter(|report| !report.is_empty())
    }

    /// What there is to choose from.
    pub fn layers_report(&self, now: Instant) -> LayersReport {
        let has_choice = |track: &&Track| {
            let is_layered = |encoding: &Encoding| encoding.highest_layers() != (0, 0);
            track.encodings.len() > 1 || track.encodings.iter().any(is_layered)
        };
        let videos = self.tracks.iter().filter(|track| track.index.kind() == MediaKind::Video);
        let reports = videos.filter(has_choice).map(|track| {
            let of_encodings = track.encodings.iter().map(|encoding| EncodingReport {
                generation: encoding.generation,
                rank: encoding.rank,
                bits_per_second: encoding.bits_per_second(),
                first_arrival: encoding.first_arrival,
                // What is alive is taken for alive up to the next report.
                last_arrival: if encoding.is_live(now) { Some(now) } else { encoding.last_arrival },
                sizes: encoding.sizes,
                layers: encoding.layers.clone(),
            });
            (track.index, of_encodings.collect())
        });
        LayersReport { tracks: reports.collect() }
    }

    /// Requests a key frame of the main output of a track: from the publisher at most twice a second. Of
    /// another node's stream, the caller gets the request from [`PacketStream::poll_key_frame_request`].
    pub fn request_key_frame(&mut self, now: Instant, track: TrackIndex) {
        self.request_key_frame_of(now, KeyFrameRequest { track, encoding: None, is_for_one: false });
    }

    /// Requests a key frame that a mirror has asked for.
    pub fn request_key_frame_of(&mut self, now: Instant, request: KeyFrameRequest) {
        let Some(track) = self.tracks.get_mut(request.track) else { return };
        if track.index.kind() == MediaKind::Audio {
            return;
        }
        let encoding = request.encoding.and_then(|at| track.encodings.get_mut(usize::from(at)));
        let requests = match encoding {
            Some(encoding) => &mut encoding.key_frames,
            None => track.requests(RenditionId::MAIN),
        };
        match request.is_for_one {
            true => requests.want_for_one(now),
            false => requests.want(now),
        }
    }
}

/// On a mirror.
impl PacketStream {
    /// What the home's publication begins with. From here on the home takes this mirror for one that needs
    /// the main output.
    pub fn mirror_started(&mut self, now: Instant, epoch: u64, report: &LayersReport) {
        for track in self.tracks.iter_mut() {
            let before = std::mem::take(&mut track.of_home);
            track.of_home.packets = before.packets;
            track.of_home.must_announce = before.announced != LayersWanted::MAIN || track.layered > 0;
        }
        self.layers_reported(now, epoch, report);
    }

    /// What there is to choose from, as the home has said.
    pub fn layers_reported(&mut self, now: Instant, epoch: u64, report: &LayersReport) {
        for (index, reports) in &report.tracks {
            let track = self.tracks.get_or_new(*index);
            track.epoch = epoch;
            if track.encodings.len() != reports.len() {
                track.encodings =
                    reports.iter().map(|report| Encoding::new(None, None, report.rank)).collect();
            }
            for (encoding, report) in track.encodings.iter_mut().zip(reports) {
                encoding.generation = report.generation;
                encoding.rank = report.rank;
                encoding.rate.bits_per_second = report.bits_per_second;
                (encoding.first_arrival, encoding.last_arrival) = (report.first_arrival, report.last_arrival);
                encoding.sizes = report.sizes;
                encoding.layers.clone_from(&report.layers);
            }
            if track.layered > 0 {
                self.review_targets(now, *index);
            }
        }
    }

    /// What this mirror needs of a track from now on, if that has changed: **the caller tells the home**.
    /// `needs_main`: whether somebody besides viewers takes the main output of a track here.
    pub fn poll_layers_wanted(
        &mut self,
        now: Instant,
        needs_main: impl Fn(TrackIndex) -> bool,
    ) -> Option<(TrackIndex, LayersWanted)> {
        let (viewers, kept) = (self.viewers.len(), self.limits.history_duration);
        self.tracks.iter_mut().find_map(|track| {
            // Viewers without a target get the main output; without any viewers it is there for the first.
            let needs_main =
                needs_main(track.index) || track.layered == 0 || viewers > track.layered as usize;
            Some((track.index, track.poll_layers_wanted(now, needs_main, kept)?))
        })
    }

    /// A key frame that this mirror, or node, needs, at most twice a second of each encoding. The caller asks
    /// the home worker, or the node that the stream comes from.
    pub fn poll_key_frame_request(&mut self, now: Instant) -> Option<KeyFrameRequest> {
        let is_mirror = self.publisher.is_none();
        let is_relayed = self.publisher.as_ref().is_some_and(|publisher| !publisher.takes_rtcp);
        let asked = self.tracks.iter_mut().filter(|_| is_mirror || is_relayed).find_map(|track| {
            let (index, is_split) = (track.index, track.relayed.is_some());
            let of_encodings =
                track.encodings.iter_mut().zip(0..).map(|(encoding, at)| {
                    (&mut encoding.key_frames, Some(at).filter(|_| is_mirror || is_split))
                });
            let mut all = of_encodings.chain([(&mut track.key_frames, None)]);
            let due = all.find_map(|(requests, encoding)| Some((requests.poll(now)?, encoding)));
            due.map(|(is_for_one, encoding)| KeyFrameRequest { track: index, encoding, is_for_one })
        });
        self.stats.key_frame_requests += u64::from(is_relayed && asked.is_some());
        asked
    }

    /// Takes in a packet the home worker forwarded.
    ///
    /// # Errors
    /// [`DropReason::Duplicate`], [`DropReason::TooOld`] and [`DropReason::NoKeyFrame`], if no output has it.
    pub fn receive_mirrored(
        &mut self,
        now: Instant,
        packet: &Arc<Packet>,
        outputs: Outputs,
    ) -> Result<Received, DropReason> {
        // A publisher that came back: the cache is needed again.
        self.expires_at = None;
        self.note_epoch(now, packet.epoch());
        let index = packet.track();
        if self.tracks.get(index).is_some_and(|track| track.layered > 0) {
            self.review_targets(now, index);
        }
        let track = self.tracks.get_or_new(index);
        track.of_home.packets += 1;
        if let Some(encoding) = track.encodings.get_mut(usize::from(packet.meta.source.encoding)) {
            encoding.read_descriptor(packet.extensions());
        }
        // What was on its way when it was wanted no longer would be half a group of pictures.
        let is_main = outputs.is_main && track.of_home.announced.main;
        let stored = is_main.then(|| track.store_mirrored(now, packet, &self.limits)).transpose();
        if let Some(number) = outputs.in_encoding {
            track.store_mirrored_in_renditions(now, packet, number, &self.limits, &mut self.placed);
        }
        let (is_layered, is_placed) = (track.layered > 0, !self.placed.is_empty());
        if is_placed {
            self.forward_placed(now, index);
        }
        let forward = match stored {
            Ok(forward) => forward,
            Err(reason) => {
                trace!(reason = reason.name(), "dropped a packet");
                if !is_placed {
                    return Err(reason);
                }
                None
            }
        };
        let forwarded = is_placed || forward.is_some();
        if let Some(forward) = forward {
            let added = forward.number;
            self.add_to_batch(now, forward);
            if is_layered {
                self.switch_waiting(now, index, RenditionId::MAIN, added);
            }
        }
        self.count_received(now, packet.payload().len(), forwarded);
        Ok(Received { track: index, forwarded, starts_key_frame: false, ends_key_frame: false })
    }
}

impl Track {
    /// Makes outputs of these encodings for mirrors, and of no others: a bit for each.
    pub(crate) fn mirror(&mut self, now: Instant, encodings: u8) {
        let before = std::mem::replace(&mut self.mirrored, encodings);
        for at in 0..LAYERS_MAX as u8 {
            match (before & 1 << at != 0, encodings & 1 << at != 0) {
                (false, true) => self.hold(now, Layer::of(at)),
                (true, false) => self.release(RenditionId::of(Layer::of(at))),
                _ => {}
            }
        }
    }

    fn poll_layers_wanted(&mut self, now: Instant, needs_main: bool, kept: Duration) -> Option<LayersWanted> {
        let OfHome { announced, must_announce, unused_since, .. } = &mut self.of_home;
        // Nearly always.
        if self.layered == 0
            && self.renditions.is_empty()
            && *announced == LayersWanted::MAIN
            && !*must_announce
        {
            return None;
        }
        let main = if needs_main || self.main.users > 0 {
            *unused_since = None;
            true
        } else {
            // For a while packets of it may be asked for again, and somebody may come back to it.
            announced.main && now < *unused_since.get_or_insert(now) + kept
        };
        let of_renditions = self.renditions.iter().filter_map(|rendition| rendition.layer.encoding);
        let encodings = of_renditions.fold(0, |encodings, at| encodings | 1 << at);
        let wanted = LayersWanted { main, encodings };
        if wanted == *announced && !*must_announce {
            return None;
        }
        (*announced, *must_announce) = (wanted, false);
        if !main {
            *unused_since = None;
            // What comes after the gap cannot be decoded with it.
            self.main.cache.keep_newest();
            self.key_frames.satisfied();
        }
        // What does not come cannot satisfy a request.
        let is_left = |(at, _): &(usize, _)| encodings & 1 << at == 0;
        let left = self.encodings.iter_mut().enumerate().filter(is_left);
        left.for_each(|(_, encoding)| encoding.key_frames.satisfied());
        Some(wanted)
    }

    /// Gives a packet of the home's main output its number and timestamp here and stores it.
    fn store_mirrored(
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
        let current = self.main.rewriter.encoding().map(|encoding| encoding.epoch);
        if current.is_none_or(|epoch| epoch < meta.epoch) {
            self.main.cache.end_gop();
            // What it began with was lost between the workers. Its numbers go on from those of the
            // publication before: viewers would take these pictures for what follows, and ask for nothing.
            if current.is_some() && self.index.kind() == MediaKind::Video && !meta.starts_key_frame {
                self.want_key_frame(now);
                return Err(DropReason::NoKeyFrame);
            }
            self.main.rewriter.switch(&arrival, self.continued_timestamp(&arrival));
            self.main.mapping = None;
        }
        let Rewrite::Forward { number, timestamp } = self.main.rewriter.rewrite(&arrival) else {
            return Err(DropReason::TooOld);
        };
        if let Some(mut mapping) = meta.mapping {
            mapping.timestamp = mapping.timestamp.wrapping_add(timestamp.wrapping_sub(meta.timestamp));
            self.main.mapping = Some(mapping);
        }
        if number >= self.main.cache.end() {
            let source = meta.source;
            let encoding =
                EncodingId { epoch: meta.epoch, layer: source.encoding, generation: source.generation };
            let timestamp_shift = timestamp.wrapping_sub(source.timestamp);
            self.main.origin = Some(Origin { encoding, timestamp_shift });
        }
        self.main.placed = (self.of_home.packets, number);
        let retention = self.retention(now, true, limits);
        let cached = CachedPacket::new(Arc::clone(packet), timestamp, true);
        self.put_in_cache(number, cached, limits, retention)
    }

    /// Takes a packet that has this number in the home's output of its encoding into the renditions of that.
    /// What goes to viewers is appended to `out`.
    fn store_mirrored_in_renditions(
        &mut self,
        now: Instant,
        packet: &Arc<Packet>,
        number: u64,
        limits: &Limits,
        out: &mut Vec<Forward>,
    ) {
        let meta = &packet.meta;
        let layer = meta.source.encoding;
        let encoding = self.encodings.get(usize::from(layer));
        let dependencies = encoding.and_then(|encoding| encoding.dependencies.as_deref());
        let frame = dependencies.and_then(|known| known.frame_of(packet.extensions()));
        let media = MediaPacket::mirrored(packet, number);
        let identified = Identified {
            media: &media,
            generation: meta.source.generation,
            epoch: meta.epoch,
            sequence: number,
            is_padding: false,
            is_clock_known: true,
            may_estimate_clock: false,
            place: Some(self.of_home.packets),
            frame: frame.as_ref(),
        };
        // The clock, in the publisher's timestamps.
        let shift = meta.source.timestamp.wrapping_sub(meta.timestamp);
        let report = meta.mapping.map(|NtpRtpMapping { at, timestamp }| NtpRtpMapping {
            at,
            timestamp: timestamp.wrapping_add(shift),
        });
        let encoding = self.encodings.get_mut(usize::from(layer));
        let (mut requests, dependencies) = match encoding {
            Some(Encoding { key_frames, dependencies, .. }) => (Some(key_frames), dependencies.as_deref()),
            None => (None, None),
        };
        if meta.starts_key_frame
            && let Some(requests) = &mut requests
        {
            requests.satisfied();
        }
        let context = TrackContext { now: meta.arrival, index: self.index, limits, report, dependencies };
        for rendition in self.renditions.iter_mut().filter(|one| one.layer.encoding == Some(layer)) {
            let mut shared = Some(Arc::clone(packet));
            let is_running =
                rendition.store(&identified, &context, packet.extensions(), packet.media(), &mut shared, out);
            if !is_running && let Some(requests) = &mut requests {
                requests.want(now);
            }
        }
    }
}

/// How often mirrors get a report of what layers there are: as often as is looked at what a viewer's path
/// carries, and well within the time after which a silent layer is dead.
const LAYERS_REPORT_INTERVAL: Duration = Duration::from_millis(250);
