//! A simulcast publisher at another node: which of its encodings come, and what is known of the others.
//!
//! Each encoding crosses by itself, with the publisher's timestamps and numbers of its own, so that the other
//! node takes in what a publisher would send it. It says which encodings somebody there uses, and gets
//! no others:
//!
//! ```text
//!  home                                     edge
//!  encoding 0 --- SSRC, numbers, reports -> Encoding -+-> main output, renditions -> viewers
//!  encoding 1 --- the same ---------------> Encoding -+
//!  encoding 2     left out                  Encoding      what it is, by reports of layers
//!       <------------------------------------ which are used, key frames
//! ```
//! What an encoding has and whether it is alive, the home says four times a second in the stream
//! itself, for all encodings alike: loss between the nodes is no change of a publisher's rate.
//!
//! ```text
//!  RTCP APP (RFC 3550 section 6.7), of SSRC 0, name "MSly", after which
//!  number (2), track (1), encodings (1), each: alive (1), spatial and temporal layers less one (4 bits each),
//!  bits per second (4), of each layer of several in rising order (4), sizes (1), each: width, height (2 each)
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use rtp::payload::{MediaKind, PictureSizes};
use tracing::trace;

use super::clock::NtpRtpMapping;
use super::encoding::{Encoding, INNER_LAYERS_MAX, LayerRates};
use super::layers;
use super::limits::LAYERS_MAX;
use super::mirrored::KeyFrameRequest;
use super::packet::Packet;
use super::reception::Reception;
use super::stream::PacketStream;
use super::track::{Track, TrackIndex};

/// Which encodings of a track: a bit for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EncodingSet(u8);

impl EncodingSet {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// The first `count` encodings.
    pub fn first(count: usize) -> Self {
        (0..count.min(LAYERS_MAX) as u8).fold(Self::NONE, Self::with)
    }

    /// This one as well.
    #[must_use]
    pub fn with(self, encoding: u8) -> Self {
        Self(self.0 | if usize::from(encoding) < LAYERS_MAX { 1 << encoding } else { 0 })
    }

    /// Those of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are not in the other.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether this one is among them.
    pub fn has(self, encoding: u8) -> bool {
        usize::from(encoding) < LAYERS_MAX && self.0 & 1 << encoding != 0
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..LAYERS_MAX as u8).filter(move |encoding| self.has(*encoding))
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    pub(crate) fn of_bits(bits: u8) -> Self {
        Self(bits)
    }
}

/// Of a track of several encodings whose publisher is another node.
#[derive(Debug)]
pub(crate) struct RelayedEncodings {
    /// What the other node was last asked for, as far as this one uses it.
    announced: Option<EncodingSet>,
    /// What it may send.
    arriving: EncodingSet,
    /// Since when nobody here uses the main output.
    unused_since: Option<Instant>,
    /// Number of the newest report.
    reported: Option<u16>,
}

impl RelayedEncodings {
    pub(crate) fn new(encodings: usize) -> Self {
        let arriving = EncodingSet::first(encodings);
        Self { announced: None, arriving, unused_since: None, reported: None }
    }

    /// Encodings that may come.
    pub(crate) fn arriving(&self) -> EncodingSet {
        self.arriving
    }
}

/// On the node that sends it.
impl PacketStream {
    /// What other nodes begin with: the cached packets of tracks, each track in order, and of those that
    /// `is_split` says cross by encodings their numbers in these.
    pub fn cached_for_relay(
        &self,
        now: Instant,
        is_split: impl Fn(TrackIndex) -> bool,
    ) -> Vec<(Arc<Packet>, Option<u64>)> {
        let mut cached = Vec::new();
        for track in self.tracks.iter() {
            let start = track.main.cache.start_of_playback(now, now, &self.limits);
            if !is_split(track.index) {
                let main = track.main.cache.from(start.unwrap_or(u64::MAX));
                cached.extend(main.map(|kept| (Arc::clone(&kept.packet), None)));
                continue;
            }
            for output in track.renditions.iter().filter(|output| output.mirrors(track.mirrored)) {
                let of_output = output.cache.start_of_playback(now, now, &self.limits);
                // An output that begins now goes on behind what the main one has of the same source.
                let main = (output.cache.begins_now() && output.awaited.is_none())
                    .then_some(&track.main)
                    .filter(|main| main.rewriter.encoding().is_some() && main.is_of_source(output));
                let (from, kept) = match (of_output, start, main) {
                    (Some(start), ..) => (start, output),
                    (None, Some(start), Some(main)) => (start, main),
                    _ => continue,
                };
                let end = kept.cache.end();
                let numbers = (from..end).filter_map(|number| Some((number, kept.cache.get(number)?)));
                let shifted = numbers.filter_map(|(number, kept)| {
                    Some((Arc::clone(&kept.packet), Some(output.cache.end().checked_sub(end - number)?)))
                });
                cached.extend(shifted);
            }
        }
        cached
    }

    /// Appends the report on the encodings of a track, for other nodes. `number` counts up.
    pub fn write_encodings_report(&self, now: Instant, track: TrackIndex, number: u16, out: &mut Vec<u8>) {
        let Some(track) = self.tracks.get(track) else { return };
        let head = out.len();
        // No other packet begins with it: none of its bytes is a length yet.
        out.extend_from_slice(&[0x80 | SUBTYPE, APP, 0, 0]);
        out.extend_from_slice(&REPORT_SSRC.to_be_bytes());
        out.extend_from_slice(NAME);
        out.extend_from_slice(&number.to_be_bytes());
        out.extend_from_slice(&[track.index.position() as u8, track.encodings.len() as u8]);
        track.encodings.iter().for_each(|encoding| encoding.write_report(now, out));
        out.resize(head + (out.len() - head).next_multiple_of(4), 0);
        let words = ((out.len() - head) / 4 - 1) as u16;
        out[head + 2..head + 4].copy_from_slice(&words.to_be_bytes());
    }

    /// Asks for a key frame of an encoding that other nodes are to get from now on.
    pub fn request_key_frame_of_encoding(&mut self, now: Instant, track: TrackIndex, encoding: u8) {
        self.request_key_frame_of(
            now,
            KeyFrameRequest { track, encoding: Some(encoding), is_for_one: false },
        );
    }
}

/// On the node that gets it.
impl PacketStream {
    /// Encodings of a track that this node uses from now on, if that has changed: **the caller has those sent
    /// and no others**, but for what further nodes use, and says so by [`PacketStream::set_arriving`].
    /// `needs_main`: whether somebody besides viewers here takes the main output of a track.
    /// `awaits_viewers`: without viewers it is there for the first.
    pub fn poll_encodings_wanted(
        &mut self,
        now: Instant,
        awaits_viewers: bool,
        needs_main: impl Fn(TrackIndex) -> bool,
    ) -> Option<(TrackIndex, EncodingSet)> {
        let (viewers, kept) = (self.viewers.len(), self.limits.history_duration);
        self.tracks.iter_mut().find_map(|track| {
            let relayed = track.relayed.as_ref().filter(|relayed| relayed.reported.is_some())?;
            let announced = relayed.announced;
            let needs_main =
                needs_main(track.index) || viewers > track.layered as usize || viewers == 0 && awaits_viewers;
            let wanted = track.encodings_wanted(now, needs_main, kept);
            if announced == Some(wanted) {
                return None;
            }
            trace!(track = track.index.position(), ?wanted, "encodings that are used here");
            track.relayed.as_mut()?.announced = Some(wanted);
            Some((track.index, wanted))
        })
    }

    /// Which encodings of a track come from now on. Those that did not come before begin with a key frame.
    pub fn set_arriving(&mut self, now: Instant, track: TrackIndex, arriving: EncodingSet) {
        let Some(track) = self.tracks.get_mut(track) else { return };
        let Some(relayed) = &mut track.relayed else { return };
        let before = std::mem::replace(&mut relayed.arriving, arriving);
        for encoding in arriving.without(before).iter().map(usize::from) {
            let Some(encoding) = track.encodings.get_mut(encoding) else { continue };
            // What comes is not what came last.
            encoding.restart(now);
            encoding.reception = Reception::new();
        }
        let main = track.main.source().map(|source| source.layer);
        for gone in before.without(arriving).iter() {
            if let Some(encoding) = track.encodings.get_mut(usize::from(gone)) {
                // What does not come cannot satisfy a request.
                encoding.key_frames.satisfied();
            }
            if main == Some(gone) {
                // What comes after the gap cannot be decoded with it.
                track.main.cache.keep_newest();
            }
        }
    }

    /// Takes in a report of another node; `body` is what follows the four-byte head. `None` if it makes no
    /// sense.
    pub(crate) fn take_encodings_report(&mut self, now: Instant, format: u8, body: &[u8]) -> Option<()> {
        let mut read = Reader(body);
        if (format, read.array()?, read.array()?) != (SUBTYPE, REPORT_SSRC.to_be_bytes(), *NAME) {
            return None;
        }
        let number = u16::from_be_bytes(read.array()?);
        let [index, count] = read.array()?;
        let index = TrackIndex::all().nth(usize::from(index))?;
        let reports: Vec<Report> = (0..count).map(|_| Report::read(&mut read)).collect::<Option<_>>()?;
        let track = self.tracks.get_mut(index)?;
        let relayed = track.relayed.as_mut()?;
        if reports.len() != track.encodings.len() {
            return None;
        }
        // One that was lost on the way and sent again.
        let is_older = |newest: u16| number.wrapping_sub(newest).cast_signed() <= 0;
        if relayed.reported.is_some_and(is_older) {
            return Some(());
        }
        relayed.reported = Some(number);
        let arriving = relayed.arriving;
        for ((encoding, report), at) in track.encodings.iter_mut().zip(reports).zip(0..) {
            encoding.is_reported = true;
            encoding.rate.bits_per_second = report.bits_per_second;
            encoding.layers = report.layers;
            if !report.sizes.is_empty() {
                encoding.sizes = report.sizes;
            }
            if report.is_live {
                encoding.first_arrival.get_or_insert(now);
                encoding.last_arrival = Some(now);
            } else if !arriving.has(at) {
                encoding.last_arrival = None;
            }
        }
        if track.layered > 0 {
            self.review_targets(now, index);
        }
        Some(())
    }
}

impl Packet {
    /// When some timestamp of its encoding was captured, as [`Packet::clock_mapping`] says it of the output:
    /// in the publisher's timestamps.
    pub fn clock_mapping_of_encoding(&self) -> Option<NtpRtpMapping> {
        let NtpRtpMapping { at, timestamp } = self.clock_mapping()?;
        let shift = self.meta.source.timestamp.wrapping_sub(self.meta.timestamp);
        Some(NtpRtpMapping { at, timestamp: timestamp.wrapping_add(shift) })
    }

    /// Which encoding of its track it is of.
    pub fn encoding(&self) -> u8 {
        self.meta.source.encoding
    }
}

impl Track {
    /// The encodings that are used here: those of renditions, and what the main output has or is to have.
    fn encodings_wanted(&mut self, now: Instant, needs_main: bool, kept: Duration) -> EncodingSet {
        let of_renditions = self.renditions.iter().filter_map(|rendition| rendition.layer.encoding);
        let wanted = of_renditions.fold(EncodingSet::NONE, EncodingSet::with);
        let needs_main = needs_main || self.main.users > 0;
        let Some(relayed) = &mut self.relayed else { return wanted };
        if needs_main {
            relayed.unused_since = None;
        } else if now >= *relayed.unused_since.get_or_insert(now) + kept {
            return wanted;
        }
        let epoch = self.epoch;
        let held = self.main.source().filter(|source| source.epoch == epoch).map(|source| source.layer);
        let best = layers::best(&self.encodings, held, now);
        held.into_iter().chain(best).fold(wanted, EncodingSet::with)
    }
}

impl Encoding {
    fn write_report(&self, now: Instant, out: &mut Vec<u8>) {
        let (spatial_max, temporal_max) = self.highest_layers();
        let rate = |rate: u64| u32::try_from(rate).unwrap_or(u32::MAX).to_be_bytes();
        out.extend_from_slice(&[u8::from(self.is_live(now)), spatial_max << 4 | temporal_max]);
        out.extend_from_slice(&rate(self.bits_per_second()));
        if let Some(layers) = self.layers.as_ref().filter(|_| (spatial_max, temporal_max) != (0, 0)) {
            for (spatial, temporal) in pairs((spatial_max, temporal_max)) {
                out.extend_from_slice(&rate(layers.up_to(spatial, temporal)));
            }
        }
        let sizes = (0..=spatial_max).map_while(|spatial| self.sizes.of(spatial));
        let sizes_at = out.len();
        out.push(0);
        for size in sizes {
            out[sizes_at] += 1;
            out.extend_from_slice(&size.width.to_be_bytes());
            out.extend_from_slice(&size.height.to_be_bytes());
        }
    }
}

/// What a report says of an encoding.
struct Report {
    is_live: bool,
    bits_per_second: u64,
    layers: Option<Box<LayerRates>>,
    sizes: PictureSizes,
}

impl Report {
    fn read(read: &mut Reader<'_>) -> Option<Self> {
        let [is_live, highest] = read.array()?;
        let highest = (highest >> 4, highest & 0xf);
        if usize::from(highest.0.max(highest.1)) >= INNER_LAYERS_MAX {
            return None;
        }
        let bits_per_second = u64::from(u32::from_be_bytes(read.array()?));
        let mut layers = None;
        if highest != (0, 0) {
            let mut rates = LayerRates::reported(highest);
            for layer in pairs(highest) {
                rates.set_up_to(layer, u32::from_be_bytes(read.array()?).into());
            }
            layers = Some(Box::new(rates));
        }
        let [sizes_len] = read.array()?;
        let mut sizes = PictureSizes::default();
        for _ in 0..sizes_len {
            let [width, height] = [read.array()?, read.array()?].map(u16::from_be_bytes);
            sizes.push(width.into(), height.into());
        }
        Some(Self { is_live: is_live != 0, bits_per_second, layers, sizes })
    }
}

/// Spatial and temporal layers up to these.
fn pairs((spatial_max, temporal_max): (u8, u8)) -> impl Iterator<Item = (u8, u8)> {
    (0..=spatial_max).flat_map(move |spatial| (0..=temporal_max).map(move |temporal| (spatial, temporal)))
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }
}

/// Whether RTCP of another type than those that are known may be a report of encodings.
pub(crate) fn is_encodings_report(packet_type: u8) -> bool {
    packet_type == APP
}

/// Packet type (RFC 3550 section 12.1).
const APP: u8 = 204;
/// The first of its kind: others would have another.
const SUBTYPE: u8 = 1;
const NAME: &[u8; 4] = b"MSly";
/// That of no track, which no node leaves out.
const REPORT_SSRC: u32 = 0;

/// How often other nodes get a report of what encodings there are, as mirrors do.
pub const ENCODINGS_REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// Whether packets of a track of so many encodings cross by encodings.
pub(crate) fn is_split(kind: MediaKind, encodings: usize) -> bool {
    kind == MediaKind::Video && encodings > 1
}
