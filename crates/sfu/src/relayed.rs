//! A stream at another node: its packets as RTP between the nodes, and the publisher that they are there.
//!
//! Between nodes a packet is what a viewer would get that takes every codec and every extension: number
//! and timestamp are those of the output where it was received, continuous over publishers and layers. Of
//! video in several encodings each crosses by itself (`relayed_encodings.rs`), numbered by itself, with the
//! publisher's timestamps. The SSRC names track and encoding, and ids of extensions are always the same.
//! Sender reports tell the clock, as they do of any publisher.
//!
//! The other node takes them for those of a publisher, but one that gets no RTCP: loss on the way is seen
//! and repaired by the link's own numbers, and requests for key frames come out of
//! [`PacketStream::poll_key_frame_request`], as those of a mirror do.

use std::time::Instant;

use rtp::extension::{BLOCK_LEN_MAX, BlockWriter, Extension, ExtensionMap, Form};
use rtp::payload::MediaKind;
use rtp::{HEADER_LEN_MAX, HeaderFields};

use super::inputs::{PublisherInput, TrackInput, TrackPayload};
use super::limits::{LAYERS_MAX, TRACKS_MAX};
use super::packet::{PASSED_ON, Packet};
use super::relayed_encodings::{RelayedEncodings, is_split};
use super::stream::PacketStream;
use super::track::TrackIndex;

/// A track of another node's publication.
#[derive(Debug, Clone)]
pub struct RelayedTrack {
    /// Audio or video.
    pub kind: MediaKind,
    /// Payload types that it may have.
    pub payloads: Vec<TrackPayload>,
    /// How many encodings its publisher sends, if it is video.
    pub encodings: usize,
    /// Their names, if they have any.
    pub rids: Vec<String>,
}

impl RelayedTrack {
    /// Whether its encodings cross one by one.
    pub fn is_split(&self) -> bool {
        is_split(self.kind, self.encodings)
    }
}

impl TrackIndex {
    /// SSRC of an encoding of the track between nodes; of a track that has but one, that is 0.
    pub fn relayed_ssrc(self, encoding: u8) -> u32 {
        (self.position() + TRACKS_MAX * usize::from(encoding)) as u32 + 1
    }

    /// The track that has this SSRC between nodes, and which of its encodings it is.
    pub fn of_relayed_ssrc(ssrc: u32) -> Option<(Self, u8)> {
        let position = usize::try_from(ssrc.checked_sub(1)?).ok()?;
        let encoding = position / TRACKS_MAX;
        let track = Self::all().nth(position % TRACKS_MAX)?;
        (encoding < LAYERS_MAX).then_some((track, encoding as u8))
    }
}

impl Packet {
    /// Appends the packet as other nodes get it, under this payload type: with this number in its encoding
    /// if each of these crosses by itself.
    pub fn write_relayed(&self, payload_type: u8, in_encoding: Option<u64>, out: &mut Vec<u8>) {
        let mut block = [0; BLOCK_LEN_MAX];
        let mut writer = BlockWriter::new(&mut block, Form::Either);
        for (extension, data) in self.extensions() {
            if let Some(id) = id_of(extension) {
                // What a packet carries fits into a block.
                let _ = writer.push(id, data);
            }
        }
        let block_len = writer.finish();
        let fields = HeaderFields {
            marker: self.marker(),
            payload_type,
            sequence_number: in_encoding.unwrap_or(self.number()) as u16,
            timestamp: in_encoding.map_or(self.timestamp(), |_| self.meta.source.timestamp),
            ssrc: self.track().relayed_ssrc(in_encoding.map_or(0, |_| self.encoding())),
        };
        let mut header = [0; HEADER_LEN_MAX];
        let header_len = fields.write(&block[..block_len], &mut header);
        out.extend_from_slice(&header[..header_len]);
        out.extend_from_slice(self.media());
    }
}

impl PacketStream {
    /// Another node's publication begins here, with these tracks.
    /// [`PacketStream::receive`] then takes its packets as they were written by
    /// [`Packet::write_relayed`], and [`PacketStream::receive_rtcp`] its sender reports. It ends as any
    /// publisher does. `epoch`: as for [`PacketStream::publisher_started`].
    pub fn relayed_publisher_started(
        &mut self,
        now: Instant,
        epoch: u64,
        tracks: impl IntoIterator<Item = RelayedTrack>,
    ) {
        let mut counts = [0; 2];
        let mut split = Vec::new();
        let tracks = tracks.into_iter().filter_map(|track| {
            let RelayedTrack { kind, payloads, encodings, rids } = track;
            let count = &mut counts[usize::from(kind == MediaKind::Video)];
            let track = TrackIndex::new(kind, *count)?;
            *count += 1;
            let encodings = encodings.clamp(1, LAYERS_MAX);
            let is_split = is_split(kind, encodings);
            if is_split {
                split.push((track, encodings));
            }
            let encodings = if is_split { encodings } else { 1 };
            Some(TrackInput {
                kind,
                mid: String::new(),
                payloads,
                extensions: extensions(),
                ssrcs: (0..encodings as u8).map(|at| (track.relayed_ssrc(at), None)).collect(),
                rids: rids.into_iter().take(encodings).collect(),
                nack: false,
                pli: true,
                fir: false,
                transport_cc: false,
                remb: false,
            })
        });
        let input = PublisherInput { tracks: tracks.collect(), ..PublisherInput::default() };
        self.publisher_started(now, epoch, input);
        if let Some(publisher) = &mut self.publisher {
            publisher.takes_rtcp = false;
        }
        for (track, encodings) in split {
            self.tracks.get_or_new(track).relayed = Some(RelayedEncodings::new(encodings));
        }
    }
}

/// Id of an extension between nodes. These ids are part of the protocol.
fn id_of(extension: Extension) -> Option<u8> {
    PASSED_ON.iter().position(|passed_on| *passed_on == extension).map(|at| at as u8 + 1)
}

fn extensions() -> ExtensionMap {
    PASSED_ON.into_iter().filter_map(|extension| Some((id_of(extension)?, extension))).collect()
}
