//! One output of a track: its numbers, its timestamps and the packets that are kept of it.
//!
//! Each track has the main one: the best encoding that is alive, and all of it. Bridges, other nodes
//! and all viewers without a target get that. Further ones exist while some viewer wants or gets
//! them, here or, of whole encodings, on another worker (`mirrored.rs`): one encoding alone, or its
//! lower layers. Payloads are shared: a
//! packet that is in several outputs is kept once, under numbers of its own in each. Which viewer
//! is on which rendition is decided in `switching.rs`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rtp::FIXED_HEADER_LEN;
use rtp::extension::{DESCRIPTOR_LEN_MAX, Extension, Indication};
use rtp::payload::{Codec, Layers, vp8};

use super::batch::Forward;
use super::clock::NtpRtpMapping;
use super::demand::Retention;
use super::dependencies::{self, Dependencies};
use super::early::EarlyPackets;
use super::layers::Layer;
use super::limits::Limits;
use super::mirrored::Outputs;
use super::packet::{Packet, PacketMeta, PacketSource};
use super::packet_cache::{CachedPacket, PacketCache};
use super::pictures::LeftOutPictures;
use super::receive::MediaPacket;
use super::recent::RecentMedia;
use super::rtp_rewriter::{Arrival, EncodingId, Rewrite, RtpRewriter};
use super::track::{Identified, TrackIndex};
use super::viewers::ViewerId;

/// Names an output of a track by what is in it: the same at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RenditionId(u16);

impl Default for RenditionId {
    fn default() -> Self {
        Self::MAIN
    }
}

impl RenditionId {
    /// The best encoding that is alive.
    pub(crate) const MAIN: Self = Self(0);
    /// Names no output.
    pub(crate) const NONE: Self = Self(u16::MAX);

    /// What a viewer with this target gets while the encoding is alive.
    pub(crate) fn of(layer: Layer) -> Self {
        Self(layer.to_bits())
    }
}

/// Where the newest packet of an output comes from, on a mirror: the home has made the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) encoding: EncodingId,
    /// Timestamp of the output minus that of the publisher.
    pub(crate) timestamp_shift: u32,
}

/// One output of a track.
#[derive(Debug)]
pub(crate) struct Rendition {
    pub(crate) id: RenditionId,
    /// What it takes.
    pub(crate) layer: Layer,
    pub(crate) rewriter: RtpRewriter,
    pub(crate) cache: PacketCache,
    /// What came before the packet that the output can begin with.
    pub(crate) early: EarlyPackets,
    /// What it had of late; `None` before the first packet.
    pub(crate) recent: Option<RecentMedia>,
    /// Link of its timestamps to time.
    pub(crate) mapping: Option<NtpRtpMapping>,
    /// The same estimated from arrival times, for publishers that send no reports.
    pub(crate) estimate: Option<NtpRtpMapping>,
    /// Timestamp of the newest key frame of the present publisher.
    pub(crate) key_frame: Option<u32>,
    /// Viewers that change to it at its next key frame, each with the number from which one counts.
    pub(crate) waiting: Vec<(ViewerId, u64)>,
    /// Viewers that change to it at its next frame: what they get comes from the same encoding.
    pub(crate) at_border: Vec<ViewerId>,
    /// What tells the packet that was taken in last from others of the track, and its number.
    pub(crate) placed: (u64, u64),
    /// Of the main output on a mirror.
    pub(crate) origin: Option<Origin>,
    /// On a mirror: the encoding is on its way, and the output begins with whichever packet comes first.
    pub(crate) awaited: Option<EncodingId>,
    /// Pictures of layers that it does not have.
    left_out: LeftOutPictures,
    /// Sequence number and layers of the packet that was looked at last, of AV1 without descriptors.
    layers_before: Option<(u64, Layers)>,
    /// Viewers that get it, and viewers whose target it is; one more for all mirrors. Of the main one,
    /// viewers that have had a target.
    pub(crate) users: u32,
    /// Since when there have been none.
    pub(crate) idle_since: Option<Instant>,
}

/// What a rendition has to know of its track to take in a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrackContext<'a> {
    pub(crate) now: Instant,
    pub(crate) index: TrackIndex,
    pub(crate) limits: &'a Limits,
    /// The newest sender report of the packet's encoding.
    pub(crate) report: Option<NtpRtpMapping>,
    /// Of the packet's encoding, if it has descriptors.
    pub(crate) dependencies: Option<&'a Dependencies>,
}

impl Rendition {
    pub(crate) fn main() -> Self {
        Self {
            id: RenditionId::MAIN,
            layer: Layer::BEST,
            rewriter: RtpRewriter::default(),
            cache: PacketCache::default(),
            early: EarlyPackets::default(),
            recent: None,
            mapping: None,
            estimate: None,
            key_frame: None,
            waiting: Vec::new(),
            at_border: Vec::new(),
            placed: (0, 0),
            origin: None,
            awaited: None,
            left_out: LeftOutPictures::default(),
            layers_before: None,
            users: 0,
            idle_since: None,
        }
    }

    /// One with part of what there is. Its numbers begin at `base`; `running` is the encoding if it
    /// is alive, and the extended number of its next packet.
    pub(crate) fn new(layer: Layer, base: u64, running: Option<(EncodingId, u64)>) -> Self {
        let id = RenditionId::of(layer);
        let mut rendition = Self { id, layer, rewriter: RtpRewriter::beginning_at(base), ..Self::main() };
        if let Some((encoding, sequence)) = running {
            rendition.cache.open(rendition.rewriter.open(encoding, sequence));
        }
        rendition
    }

    /// Takes in a packet of its encoding. What goes to viewers is appended to `out`. `shared` is
    /// the packet as another rendition has made it, or becomes that. `false` if a key frame is
    /// needed to go on.
    pub(crate) fn store<'a>(
        &mut self,
        packet: &Identified<'_>,
        context: &TrackContext<'_>,
        extensions: impl Iterator<Item = (Extension, &'a [u8])> + Clone,
        payload: &[u8],
        shared: &mut Option<Arc<Packet>>,
        out: &mut Vec<Forward>,
    ) -> bool {
        let (now, id) = (context.now, packet.encoding());
        if self.awaited.take().is_some_and(|awaited| awaited == id) {
            self.cache.open(self.rewriter.open(id, packet.sequence));
        }
        if self.rewriter.encoding() == Some(id) {
            self.place(packet, context, extensions, payload, shared, out);
            return true;
        }
        // The encoding begins, or its numbers are unrelated to those before.
        if packet.is_padding || !packet.media.starts_key_frame {
            if packet.media.is_readable {
                self.early.hold(now, (id, packet.sequence), packet.media, extensions, payload);
            }
            return false;
        }
        let arrival = packet.arrival(now);
        let continued = self.rewriter.continued(&arrival);
        self.cache.end_gop();
        self.rewriter.switch(&arrival, continued);
        (self.mapping, self.estimate) = (None, None);
        self.left_out.clear();
        self.place(packet, context, extensions, payload, shared, out);
        for held in self.early.release(now, id, packet.sequence) {
            let identified = Identified {
                media: &held.media,
                sequence: held.sequence,
                is_padding: held.payload.is_empty(),
                place: packet.place.map(|_| 0),
                frame: None,
                ..*packet
            };
            let extensions = held.extensions.iter().map(|(extension, data)| (*extension, &data[..]));
            self.place(&identified, context, extensions, &held.payload, &mut None, out);
        }
        true
    }

    /// Gives a packet of the current source its number and timestamp and keeps it.
    fn place<'a>(
        &mut self,
        packet: &Identified<'_>,
        context: &TrackContext<'_>,
        extensions: impl Iterator<Item = (Extension, &'a [u8])> + Clone,
        payload: &[u8],
        shared: &mut Option<Arc<Packet>>,
        out: &mut Vec<Forward>,
    ) {
        let (now, media) = (context.now, packet.media);
        let codec = media.format.codec;
        // What it leaves out its decode target says where there are such, else the payload.
        let dependencies = context.dependencies.filter(|known| self.is_limited() && known.has_choice());
        let of_target = dependencies.and_then(|known| {
            let frame = packet.frame.copied().or_else(|| known.frame_of(extensions.clone()))?;
            Some((known, frame, known.target_of(self.layer)?))
        });
        let layers = match of_target {
            Some((known, frame, target)) => Layers {
                ends_layer_frame: frame.head.ends_frame && known.is_highest(&frame, target),
                ..Layers::default()
            },
            None if self.is_limited() => self.layers_of(packet, codec, payload),
            None => Layers::default(),
        };
        let is_left_out = match of_target {
            Some((_, frame, target)) => frame.indication(target) == Indication::NotPresent,
            None => layers.spatial > self.layer.spatial || layers.temporal > self.layer.temporal,
        };
        let arrival = packet.arrival(now);
        let arrival = Arrival { is_padding: packet.is_padding || is_left_out, ..arrival };
        let place = packet.place.unwrap_or(arrival.sequence);
        let (number, timestamp, filler) = match self.rewriter.rewrite(&arrival) {
            Rewrite::Forward { number, timestamp } => (number, timestamp, false),
            Rewrite::Filler { number, timestamp } => (number, timestamp, true),
            Rewrite::Removed if is_left_out && codec == Codec::Vp8 => return self.left_out.note(payload),
            Rewrite::Removed | Rewrite::TooLate => return,
        };
        // What makes it another packet than that of the whole encoding: the end of a picture of
        // which the higher layers are left out, and ids that close up.
        let ends_picture =
            layers.ends_layer_frame && (of_target.is_some() || layers.spatial == self.layer.spatial);
        let marker = media.marker || ends_picture;
        let pictures = if codec == Codec::Vp8 && !filler { self.left_out.before(payload) } else { 0 };
        let is_changed = marker != media.marker || pictures != 0 || of_target.is_some();
        if !packet.is_clock_known {
            self.estimate_mapping(now, timestamp, media.format.clock_rate);
        }
        self.reported(context.report);
        self.mapping = self.mapping.or(self.estimate.filter(|_| packet.may_estimate_clock));
        let of_other = shared.as_ref().filter(|_| !filler && !is_changed).map(Arc::clone);
        let is_shared = of_other.is_some();
        let made = of_other.or_else(|| {
            let meta = PacketMeta {
                track: context.index,
                epoch: packet.epoch,
                number,
                timestamp,
                clock_rate: media.format.clock_rate,
                arrival: now,
                codec,
                marker,
                key_frame: media.is_key && !filler,
                starts_key_frame: media.starts_key_frame && !filler && self.key_frame != Some(timestamp),
                filler,
                mapping: self.mapping,
                source: packet.source(),
                red: None,
            };
            let payload = if filler { &[] } else { payload };
            // A receiver takes frames of other decode targets for lost unless it knows that they are left
            // out; said in each packet, it reaches it whatever is lost.
            let mut room = [0; DESCRIPTOR_LEN_MAX];
            let active = of_target.map(|(known, _, target)| known.active_of(target)).unwrap_or_default();
            let is_filler = filler && of_target.is_some();
            let descriptor = extensions.clone().find(|(it, _)| *it == Extension::DependencyDescriptor);
            let descriptor = descriptor.map_or(&[][..], |(_, data)| active.write(data, &mut room));
            let mut made = Packet::new(
                meta,
                extensions.filter(|(it, _)| !(is_filler && *it == Extension::DependencyDescriptor)).map(
                    |(it, data)| match it {
                        Extension::DependencyDescriptor => (it, descriptor),
                        _ => (it, data),
                    },
                ),
                payload,
            );
            if pictures != 0
                && let Some(packet) = made.as_mut().and_then(Arc::get_mut)
            {
                vp8::shift(packet.payload_mut(), pictures.wrapping_neg(), 0);
            }
            made
        });
        let Some(packet) = made else { return };
        self.placed = (place, number);
        if packet.is_key_frame() {
            self.note_key_frame(timestamp);
        }
        if !filler && !is_changed {
            shared.get_or_insert_with(|| Arc::clone(&packet));
        }
        let bytes = FIXED_HEADER_LEN + packet.payload().len();
        let retention = Retention { history: context.limits.history_duration, gop: context.limits.gop_cache };
        let cached = CachedPacket::new(Arc::clone(&packet), timestamp, is_shared);
        let is_late = number < self.cache.end();
        if self.cache.insert(number, cached, context.limits, retention).is_ok() {
            self.recent.get_or_insert_with(|| RecentMedia::new(now)).note(now, bytes);
            out.push(Forward {
                track: context.index,
                rendition: self.id,
                number,
                timestamp,
                is_late,
                // Mirrors leave out layers themselves.
                outputs: (!self.is_limited())
                    .then_some(Outputs { is_main: false, in_encoding: Some(number) }),
                packet,
            });
        }
    }

    /// Layers of a packet as its payload says them. Of AV1 only the first packets of a frame do: the others
    /// are of the layer of the one before.
    fn layers_of(&mut self, packet: &Identified<'_>, codec: Codec, payload: &[u8]) -> Layers {
        let layers = rtp::payload::layers(codec, payload);
        if codec != Codec::Av1 {
            return layers;
        }
        let layers = match self.layers_before.filter(|_| !layers.is_known && !payload.is_empty()) {
            Some((before, known)) if before + 1 == packet.sequence => known,
            _ => layers,
        };
        self.layers_before = Some((packet.sequence, layers));
        layers
    }

    /// The timestamp of the key frame before, if this one is newer.
    pub(crate) fn note_key_frame(&mut self, timestamp: u32) -> Option<u32> {
        if self.key_frame.is_none_or(|before| rtp::sequence::is_newer_timestamp(timestamp, before)) {
            return self.key_frame.replace(timestamp);
        }
        None
    }

    /// A sender report of its encoding: where its timestamps stand in time.
    pub(crate) fn reported(&mut self, report: Option<NtpRtpMapping>) {
        self.mapping = report.and_then(|NtpRtpMapping { at, timestamp }| {
            let timestamp = timestamp.wrapping_add(self.rewriter.timestamp_shift()?);
            Some(NtpRtpMapping { at, timestamp })
        });
    }

    /// The packet that was in transit for the shortest time tells best when packets were captured.
    pub(crate) fn estimate_mapping(&mut self, now: Instant, timestamp: u32, clock_rate: u32) {
        let is_better = self.estimate.is_none_or(|estimate| {
            let is_stale = now.saturating_duration_since(estimate.at) > ESTIMATE_AGE_MAX;
            is_stale || timestamp.wrapping_sub(estimate.timestamp_at(now, clock_rate)).cast_signed() >= 0
        });
        if is_better {
            self.estimate = Some(NtpRtpMapping { at: now, timestamp });
        }
    }

    /// Whether it leaves out layers of its encoding.
    pub(crate) fn is_limited(&self) -> bool {
        (self.layer.spatial, self.layer.temporal) != (Layer::ALL, Layer::ALL)
    }

    /// Whether it is one of these encodings, and all of it.
    pub(crate) fn mirrors(&self, encodings: u8) -> bool {
        !self.is_limited() && self.layer.encoding.is_some_and(|at| encodings & 1 << at != 0)
    }

    /// Whether the last packet of this rendition is also the last of the other.
    pub(crate) fn has_newest_of(&self, other: &Self) -> bool {
        self.is_of_source(other) && self.placed.0 == other.placed.0 && self.placed.1 + 1 == self.cache.end()
    }

    /// Whether it has a packet already that belongs behind this one of another output of the same source:
    /// packets have changed places on their way.
    pub(crate) fn is_ahead_of(&self, other: &Self, packet: &CachedPacket) -> bool {
        let newest = self.cache.end().checked_sub(1).and_then(|newest| self.cache.get(newest));
        let (Some(newest), Some(shift), Some(of_other)) = (newest, self.source_shift(), other.source_shift())
        else {
            return false;
        };
        let ahead =
            newest.timestamp.wrapping_sub(shift).wrapping_sub(packet.timestamp.wrapping_sub(of_other));
        let frames = [newest, packet].map(|it| dependencies::frame_number(&it.packet));
        match (ahead.cast_signed(), frames) {
            (0, [Some(newest), Some(other)]) => newest.wrapping_sub(other).cast_signed() > 0,
            (ahead, _) => ahead > 0,
        }
    }

    /// Whether both come from the same source, so that a packet that is in both is the same.
    pub(crate) fn is_of_source(&self, other: &Self) -> bool {
        self.source().is_some() && self.source() == other.source()
    }

    /// The publisher's encoding that it comes from.
    pub(crate) fn source(&self) -> Option<EncodingId> {
        let origin = self.origin.map(|origin| origin.encoding);
        origin.or_else(|| self.rewriter.encoding()).or(self.awaited)
    }

    /// Its timestamps minus those of the publisher.
    pub(crate) fn source_shift(&self) -> Option<u32> {
        let origin = self.origin.map(|origin| origin.timestamp_shift);
        origin.or_else(|| self.rewriter.timestamp_shift())
    }

    /// A viewer waits for it no longer.
    pub(crate) fn forget(&mut self, id: ViewerId) {
        self.waiting.retain(|(waiting, _)| *waiting != id);
        self.at_border.retain(|waiting| *waiting != id);
    }

    /// The publisher has left.
    pub(crate) fn end(&mut self) {
        self.cache.end_gop();
        self.early.clear();
        (self.mapping, self.estimate, self.key_frame) = (None, None, None);
        (self.origin, self.awaited) = (None, None);
    }

    /// Whether nobody has wanted it for longer than packets of it may be asked for again.
    pub(crate) fn is_over(&self, now: Instant, history: Duration) -> bool {
        self.users == 0 && self.idle_since.is_some_and(|since| now >= since + history)
    }

    /// Memory of what is kept. Packets that other renditions have as well count in full.
    pub(crate) fn memory(&self) -> usize {
        self.cache.memory() + self.early.memory()
    }

    /// Whether it keeps no more than it may.
    pub(crate) fn is_within(&self, limits: &Limits) -> bool {
        self.cache.is_within(limits) && self.early.is_within_limits()
    }
}

impl Identified<'_> {
    /// Which source it is of.
    pub(crate) fn encoding(&self) -> EncodingId {
        EncodingId { epoch: self.epoch, layer: self.media.role.layer, generation: self.generation }
    }

    /// What it was before it got a place.
    pub(crate) fn source(&self) -> PacketSource {
        let MediaPacket { timestamp, role, .. } = *self.media;
        PacketSource { timestamp, generation: self.generation, encoding: role.layer }
    }

    /// What a rewriter has to know of it.
    pub(crate) fn arrival(&self, now: Instant) -> Arrival {
        Arrival {
            encoding: self.encoding(),
            sequence: self.sequence,
            timestamp: self.media.timestamp,
            clock_rate: self.media.format.clock_rate,
            now,
            is_padding: self.is_padding,
        }
    }
}

/// An older estimate is replaced by the next packet: clocks drift.
const ESTIMATE_AGE_MAX: Duration = Duration::from_secs(10);
