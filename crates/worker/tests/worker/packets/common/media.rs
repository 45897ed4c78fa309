//! What publishers send and viewers get.

use rtc_test::{UdpClient, audio_fields, audio_payload, video_fields, vp8_frame};
use rtp::extension::{BlockWriter, Form};
use rtp::payload::MediaKind;

/// Ids of extensions in offers of these tests.
pub(crate) const LEVEL_ID: u8 = 4;
pub(crate) const CAPTURE_ID: u8 = 6;
pub(crate) const DESCRIPTOR_ID: u8 = 8;

/// A packet as a viewer got it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Got {
    pub(crate) timestamp: u32,
    pub(crate) marker: bool,
    pub(crate) payload: Vec<u8>,
    pub(crate) extensions: Vec<(u8, Vec<u8>)>,
    pub(crate) number: u16,
}

/// Takes what a viewer has got of a kind, in order of its numbers, each once.
pub(crate) fn taken(client: &UdpClient, kind: MediaKind) -> Vec<Got> {
    let ssrc = client.source(kind).ssrc;
    let packets = client.media.iter().filter_map(|bytes| rtp::Packet::parse(bytes).ok());
    let mut got: Vec<Got> = packets
        .filter(|packet| packet.ssrc() == ssrc)
        .map(|packet| Got {
            timestamp: packet.timestamp(),
            marker: packet.marker(),
            payload: packet.payload().to_vec(),
            extensions: packet.extensions().map(|(id, data)| (id, data.to_vec())).collect(),
            number: packet.sequence_number(),
        })
        .collect();
    got.sort_by_key(|got| got.number);
    got.dedup();
    got
}

/// How many packets of a kind a viewer has got.
pub(crate) fn count(client: &UdpClient, kind: MediaKind) -> usize {
    taken(client, kind).len()
}

/// Sends a frame of video in several packets, the last one with the marker, and extensions on each.
pub(crate) fn send_frame(client: &mut UdpClient, frame: u32, packets: u32, is_key: bool) {
    for part in 0..packets {
        let mut fields = video_fields(frame);
        fields.sequence_number = (frame * packets + part) as u16;
        fields.marker = part + 1 == packets;
        client.send_rtp_with(fields, &block(frame, part), &frame_payload(frame, part, is_key));
    }
}

/// The payload of one of a frame's packets.
pub(crate) fn frame_payload(frame: u32, part: u32, is_key: bool) -> Vec<u8> {
    let mut payload = vp8_frame(frame, is_key, 600);
    if part > 0 {
        // Not the start of a partition (RFC 7741 section 4.2).
        payload[0] = 0;
    }
    payload.extend(part.to_be_bytes());
    payload
}

/// Sends a packet of audio with its level.
pub(crate) fn send_audio(client: &mut UdpClient, number: u32) {
    let mut block = [0; 16];
    let mut writer = BlockWriter::new(&mut block, Form::Either);
    writer.push(LEVEL_ID, &[number as u8]).expect("room");
    let len = writer.finish();
    client.send_rtp_with(audio_fields(number), &block[..len], &audio_payload(number));
}

/// Time of capture on each packet, and on the first of a frame more than the one-byte form takes.
fn block(frame: u32, part: u32) -> Vec<u8> {
    let mut block = vec![0; 128];
    let mut writer = BlockWriter::new(&mut block, Form::Either);
    writer.push(CAPTURE_ID, &u64::from(frame).to_be_bytes()).expect("room");
    if part == 0 {
        writer.push(DESCRIPTOR_ID, &[frame as u8; 30]).expect("room");
    }
    let len = writer.finish();
    block.truncate(len);
    block
}
