//! A stream at another node: its packets as RTP between the nodes, and the publisher that they are there.
//!
//! Between nodes a packet is what a viewer would get that takes every codec and every extension: number
//! and timestamp are those of the output where it was received, continuous over publishers and layers. The
//! SSRC names the track, and ids of extensions are always the same. Sender reports tell the clock, as they
//! do of any publisher.
//!
//! The other node takes them for those of a publisher, but one that gets no RTCP: loss on the way is seen
//! and repaired by the link's own numbers, and requests for key frames come out of
//! [`PacketStream::poll_key_frame_request`], as those of a mirror do.

use std::time::Instant;

use rtp::extension::{BLOCK_LEN_MAX, BlockWriter, Extension, ExtensionMap, Form};
use rtp::payload::MediaKind;
use rtp::{HEADER_LEN_MAX, HeaderFields};

use super::inputs::{PublisherInput, TrackInput, TrackPayload};
use super::packet::{PASSED_ON, Packet};
use super::stream::PacketStream;
use super::track::TrackIndex;

impl TrackIndex {
    /// SSRC of the track between nodes.
    pub fn relayed_ssrc(self) -> u32 {
        self.position() as u32 + 1
    }

    /// The track that has this SSRC between nodes.
    pub fn of_relayed_ssrc(ssrc: u32) -> Option<Self> {
        let position = usize::try_from(ssrc.checked_sub(1)?).ok()?;
        Self::all().nth(position)
    }
}

impl Packet {
    /// Appends the packet as other nodes get it, under this payload type.
    pub fn write_relayed(&self, payload_type: u8, out: &mut Vec<u8>) {
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
            sequence_number: self.number() as u16,
            timestamp: self.timestamp(),
            ssrc: self.track().relayed_ssrc(),
        };
        let mut header = [0; HEADER_LEN_MAX];
        let header_len = fields.write(&block[..block_len], &mut header);
        out.extend_from_slice(&header[..header_len]);
        out.extend_from_slice(self.media());
    }
}

impl PacketStream {
    /// Another node's publication begins here, with these payload types for each track.
    /// [`PacketStream::receive`] then takes its packets as they were written by
    /// [`Packet::write_relayed`], and [`PacketStream::receive_rtcp`] its sender reports. It ends as any
    /// publisher does. `epoch`: as for [`PacketStream::publisher_started`].
    pub fn relayed_publisher_started(
        &mut self,
        now: Instant,
        epoch: u64,
        tracks: impl IntoIterator<Item = (MediaKind, Vec<TrackPayload>)>,
    ) {
        let mut counts = [0; 2];
        let tracks = tracks.into_iter().filter_map(|(kind, payloads)| {
            let count = &mut counts[usize::from(kind == MediaKind::Video)];
            let track = TrackIndex::new(kind, *count)?;
            *count += 1;
            Some(TrackInput {
                kind,
                mid: String::new(),
                payloads,
                extensions: extensions(),
                ssrcs: vec![(track.relayed_ssrc(), None)],
                rids: Vec::new(),
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
    }
}

/// Id of an extension between nodes. These ids are part of the protocol.
fn id_of(extension: Extension) -> Option<u8> {
    PASSED_ON.iter().position(|passed_on| *passed_on == extension).map(|at| at as u8 + 1)
}

fn extensions() -> ExtensionMap {
    PASSED_ON.into_iter().filter_map(|extension| Some((id_of(extension)?, extension))).collect()
}
