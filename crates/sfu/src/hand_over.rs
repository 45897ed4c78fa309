//! A stream that goes on in another process: where its publisher and its viewers are.
//!
//! ```text
//! old ─▶ publisher_position, viewer_position      new: publisher_started, resume_publisher
//!                                                      join, resume_viewer
//! ```
//! Packets and their numbers go on as if there had been no other process; no caches go over. A viewer that
//! had all there was gets what comes next. One that was behind, or had another rendition than the main one,
//! goes on with the next key frame, under the numbers that follow.

use std::time::Instant;

use rtp::payload::MediaKind;
use serde::{Deserialize, Serialize};

use super::layers::Layer;
use super::pictures::PictureShift;
use super::rendition::RenditionId;
use super::rtp_rewriter::{EncodingId, RewriterPosition, rtp_units};
use super::ssrc_table::SsrcRole;
use super::stream::PacketStream;
use super::track::Track;
use super::viewer::{NEVER, Progress};
use super::viewers::ViewerId;

/// Where a publisher is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublisherPosition {
    /// What its SSRCs are, signalled or not.
    ssrcs: Vec<SsrcPosition>,
    encodings: Vec<EncodingPosition>,
    outputs: Vec<OutputPosition>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct SsrcPosition {
    ssrc: u32,
    track: u8,
    layer: u8,
    is_repair: bool,
}

/// An encoding of which something has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct EncodingPosition {
    track: u8,
    layer: u8,
    /// The highest.
    sequence_number: u16,
    is_live: bool,
}

/// The main output of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct OutputPosition {
    track: u8,
    /// The encoding that it has.
    layer: u8,
    /// The number after the highest, which the one after the highest of the encoding gets.
    next: u64,
    /// Of its newest packet.
    timestamp: u32,
    timestamp_shift: u32,
    clock_rate: u32,
}

/// Where a viewer is with a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewerTrackPosition {
    track: u8,
    /// It has had everything before that number.
    is_live: bool,
    /// A number of the home's main output.
    next: u64,
    /// The sequence number that follows what it has had.
    sequence_number: u16,
    /// Its timestamps minus those of the home's main output.
    timestamp_shift: u32,
    packets: u32,
    payload_bytes: u64,
    rtx_sequence_number: u16,
    #[serde(default)]
    repair_sequence_number: u16,
    /// The layer that it has asked for: encoding, spatial, temporal.
    #[serde(default)]
    fixed: Option<(Option<u8>, u8, u8)>,
}

impl PacketStream {
    /// Where the publisher is. Everything that has come from it is to have been forwarded.
    pub fn publisher_position(&self, now: Instant) -> PublisherPosition {
        let mut position = PublisherPosition::default();
        let Some(publisher) = &self.publisher else { return position };
        position.ssrcs = publisher
            .ssrcs
            .positions()
            .map(|(ssrc, role)| SsrcPosition {
                ssrc,
                track: role.track.position() as u8,
                layer: role.layer,
                is_repair: role.is_repair,
            })
            .collect();
        for track in self.tracks.iter().filter(|track| track.input.is_some()) {
            let at = track.index.position() as u8;
            for (layer, encoding) in (0..).zip(&track.encodings) {
                let Some(highest) = encoding.reception.highest() else { continue };
                position.encodings.push(EncodingPosition {
                    track: at,
                    layer,
                    sequence_number: highest as u16,
                    is_live: encoding.is_live(now),
                });
            }
            let Some(of) = track.main.rewriter.position() else { continue };
            let encoding = track.encodings.get(usize::from(of.encoding.layer));
            let is_current = encoding.is_some_and(|encoding| encoding.generation == of.encoding.generation);
            if of.encoding.epoch == publisher.epoch && is_current {
                position.outputs.push(OutputPosition {
                    track: at,
                    layer: of.encoding.layer,
                    next: of.next,
                    timestamp: of.timestamp,
                    timestamp_shift: of.timestamp_shift,
                    clock_rate: track.clock_rate,
                });
            }
        }
        position
    }

    /// Goes on where a publisher was in another process. To be called when it has begun here, before its
    /// first packet.
    pub fn resume_publisher(&mut self, now: Instant, position: &PublisherPosition) {
        let Some(publisher) = &mut self.publisher else { return };
        for of in &position.ssrcs {
            let track = self.tracks.iter_mut().find(|track| track.index.position() == usize::from(of.track));
            let Some(track) = track else { continue };
            let index = track.index;
            let Some(encoding) = track.encodings.get_mut(usize::from(of.layer)) else { continue };
            let known = if of.is_repair { &mut encoding.repair_ssrc } else { &mut encoding.ssrc };
            *known = Some(of.ssrc);
            let role = SsrcRole { track: index, layer: of.layer, is_repair: of.is_repair, is_retired: false };
            publisher.ssrcs.resume(of.ssrc, role);
        }
        let epoch = publisher.epoch;
        let find = |at: u8| move |track: &&mut Track| track.index.position() == usize::from(at);
        for of in &position.encodings {
            let track = self.tracks.iter_mut().find(find(of.track));
            let encoding = track.and_then(|track| track.encodings.get_mut(usize::from(of.layer)));
            let Some(encoding) = encoding else { continue };
            let _ = encoding.reception.take(of.sequence_number);
            if of.is_live {
                (encoding.first_arrival, encoding.last_arrival) = (Some(now), Some(now));
            }
        }
        for of in &position.outputs {
            let Some(track) = self.tracks.iter_mut().find(find(of.track)) else { continue };
            let encoding = track.encodings.get(usize::from(of.layer));
            let Some(last) = encoding.and_then(|encoding| encoding.reception.highest()) else { continue };
            let (layer, generation) = (of.layer, 0);
            let position = RewriterPosition {
                encoding: EncodingId { epoch, layer, generation },
                next: of.next,
                last,
                timestamp: of.timestamp,
                timestamp_shift: of.timestamp_shift,
            };
            track.main.rewriter.resume(position, now);
            track.main.cache.open(of.next);
            track.clock_rate = of.clock_rate;
        }
    }

    /// Where a viewer is with each track. Everything that has come is to have been forwarded, here and on the
    /// home.
    pub fn viewer_position(&self, now: Instant, id: ViewerId) -> Vec<ViewerTrackPosition> {
        let Some(viewer) = self.viewers.get(id) else { return Vec::new() };
        let of_track = |cold: &super::viewer::ColdTrack| {
            let hot = &viewer.tracks[cold.track];
            let track = self.tracks.get(cold.track)?;
            let main = track.main.rewriter.position()?;
            let is_home = self.publisher.is_some();
            // A mirror numbers the packets of the home again.
            let next = if is_home { main.next } else { main.last + 1 };
            let mirror_shift = if is_home { 0 } else { main.timestamp_shift };
            let rendition = cold.rendition();
            let output = track.rendition(rendition)?;
            let is_main = rendition == RenditionId::MAIN && hot.pictures == PictureShift::NONE;
            let end = if hot.until == NEVER { output.cache.end() } else { hot.until };
            let is_sent = self.batches.pending(id.slot(), cold.track, rendition).is_empty();
            let has_all = end >= output.cache.end() && cold.state != Progress::Waiting && is_sent;
            // Audio can be joined anywhere.
            let is_live = is_main && (has_all || cold.track.kind() == MediaKind::Audio);
            // What the time is by either output; the same for the main one.
            let of_output = output.timestamp_now(now, track.clock_rate);
            let of_main = track.main.timestamp_now(now, track.clock_rate);
            let between =
                of_output.zip(of_main).map_or(0, |(of_output, of_main)| of_output.wrapping_sub(of_main));
            let fixed = cold.layer_control.fixed;
            Some(ViewerTrackPosition {
                track: cold.track.position() as u8,
                is_live: is_live && hot.packets > 0,
                next,
                sequence_number: hot.sequence_number(end),
                timestamp_shift: hot.timestamp_shift.wrapping_add(between).wrapping_add(mirror_shift),
                packets: hot.packets,
                payload_bytes: hot.payload_bytes,
                rtx_sequence_number: cold.rtx_sequence_number,
                repair_sequence_number: cold.protection.as_ref().map_or(0, |of| of.next_repair().1),
                fixed: fixed.map(|layer| (layer.encoding, layer.spatial, layer.temporal)),
            })
        };
        viewer.cold.tracks.iter().filter_map(of_track).collect()
    }

    /// Goes on where a viewer was in another process. To be called when it has joined here, before anything
    /// is sent to it.
    pub fn resume_viewer(&mut self, now: Instant, id: ViewerId, positions: &[ViewerTrackPosition]) {
        for of in positions.iter().filter(|of| of.packets > 0) {
            let Some(viewer) = self.viewers.get_mut(id) else { return };
            let is_it = |cold: &&mut super::viewer::ColdTrack| cold.track.position() == usize::from(of.track);
            let Some(cold) = viewer.cold.tracks.iter_mut().find(is_it) else { continue };
            let index = cold.track;
            cold.rtx_sequence_number = of.rtx_sequence_number;
            if let Some(protection) = &mut cold.protection {
                protection.go_on_with(of.repair_sequence_number);
            }
            let hot = &mut viewer.tracks[index];
            (hot.packets, hot.payload_bytes) = (of.packets, of.payload_bytes);
            hot.sequence_shift = of.sequence_number.wrapping_sub(of.next as u16);
            (hot.from, hot.until) = (of.next, of.next);
            if of.is_live {
                hot.until = NEVER;
                cold.state = Progress::Live;
            }
            self.resume_shift(id, index, of.timestamp_shift);
            if let Some((encoding, spatial, temporal)) = of.fixed {
                self.fix_layer(now, id, index, Some(Layer { encoding, spatial, temporal }));
            }
        }
    }
}

impl super::rendition::Rendition {
    /// The timestamp of a packet that came now.
    fn timestamp_now(&self, now: Instant, clock_rate: u32) -> Option<u32> {
        let newest = self.cache.end().checked_sub(1).and_then(|newest| self.cache.get(newest))?;
        let passed = now.saturating_duration_since(newest.packet.arrival());
        Some(newest.timestamp.wrapping_add(rtp_units(passed, clock_rate)))
    }
}
