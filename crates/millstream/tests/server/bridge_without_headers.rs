//! Streams whose sequence headers say nothing, or that have none, or that have audio alone, are there for
//! players of WebRTC as soon as their frames show what they are.

use std::path::Path;

use crate::common::bridge::{LivePublisher, Viewed, sample_audio};
use crate::common::rtc::{Client, Options};
use crate::common::server::Server;
use rtmp::MediaKind;
use rtmp::flv::Tag;
use rtp::depacketize::Depacketizer;
use rtp::payload::Codec;

/// Enhanced RTMP v1: high bit, frame type (1 key, 2 inter), packet type (0 sequence start, 1 coded frames).
const SEQUENCE_START: u8 = 0x90;
const KEY_FRAME: u8 = 0x91;
const INTER_FRAME: u8 = 0xa1;
/// FLV E.4.2.1: MP3, 44.1 kHz, 16 bits, stereo; and G.711 with mu-law, mono.
const MP3: u8 = 0x2f;
const MU_LAW: u8 = 0x82;
/// ISO/IEC 11172-3: a frame of 64 kbit/s at 44.1 kHz without padding.
const MP3_BYTES: usize = 208;

fn file(path: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Payloads of an RTP stream beside the tests of `rtp`: each packet behind its length, 16 bits.
fn payloads(name: &str) -> Vec<(Vec<u8>, bool)> {
    let file = file(&format!("rtp/tests/data/{name}.rtp"));
    let mut rest = &file[..];
    let mut payloads = Vec::new();
    while let Some((len, behind)) = rest.split_first_chunk() {
        let (bytes, behind) = behind.split_at(usize::from(u16::from_be_bytes(*len)));
        let packet = rtp::Packet::parse(bytes).expect("a packet of the sample");
        payloads.push((packet.payload().to_vec(), packet.marker()));
        rest = behind;
    }
    payloads
}

/// VP9, ten frames a second; every fifth is a key frame.
fn vp9() -> Vec<Tag> {
    let mut depacketizer = Depacketizer::new(Codec::Vp9);
    let mut tags: Vec<Tag> = Vec::new();
    for (payload, is_last) in payloads("vp9") {
        depacketizer.push(&payload).expect("a payload of the sample");
        if is_last {
            let frame = depacketizer.finish().expect("a frame of the sample");
            let head = if tags.len().is_multiple_of(5) { KEY_FRAME } else { INTER_FRAME };
            let body = [&[head], &b"vp09"[..], &frame].concat();
            tags.push(Tag { kind: MediaKind::Video, timestamp: 100 * tags.len() as u32, body });
        }
    }
    tags
}

/// MP3 as long as the frames.
fn mp3(end_ms: u32) -> Vec<Tag> {
    let mut rest = &file("transcode/tests/samples/mp3-44100-stereo.mp3")[..];
    let mut tags: Vec<Tag> = Vec::new();
    while rest.len() > MP3_BYTES {
        let (frame, behind) = rest.split_at(MP3_BYTES + usize::from(rest[2] >> 1 & 1));
        let timestamp = (tags.len() * 1_152_000 / 44_100) as u32;
        tags.push(Tag { kind: MediaKind::Audio, timestamp, body: [&[MP3], frame].concat() });
        rest = behind;
    }
    tags.retain(|tag| tag.timestamp <= end_ms);
    tags
}

/// Somebody who plays the stream sees, if there is something to be seen, and hears.
fn assert_is_played(tags: Vec<Tag>, options: &Options) {
    let has_video = tags.iter().any(|tag| tag.kind == MediaKind::Video);
    let mut server = Server::start("");
    let _publisher = LivePublisher::start(server.rtmp, "live/a", tags);
    let mut player = Client::play_when_ready(&server, "live/a", options);
    let offered: Vec<bool> = player.answer.tracks.iter().map(Option::is_some).collect();
    assert_eq!(offered, [true, has_video], "audio and video in the answer");
    let mut viewed = Viewed::default();
    player.until("it plays", |player| {
        viewed.take(player);
        viewed.audio > 10 && (viewed.frames > 10) == has_video
    });
    server.assert_healthy();
}

#[test]
fn vp9_whose_header_is_empty_and_mp3() {
    let frames = vp9();
    let header =
        Tag { kind: MediaKind::Video, timestamp: 0, body: [&[SEQUENCE_START], &b"vp09"[..]].concat() };
    let audio = mp3(frames.last().expect("frames").timestamp);
    let mut tags: Vec<Tag> = [vec![header], frames, audio].concat();
    tags.sort_by_key(|tag| tag.timestamp);
    assert_is_played(tags, &Options { video: Some(Codec::Vp9), ..Options::default() });
}

#[test]
fn vp9_without_a_header_behind_mp3() {
    let frames = vp9();
    let audio = mp3(frames.last().expect("frames").timestamp);
    let mut tags: Vec<Tag> = [audio, frames].concat();
    tags.sort_by_key(|tag| tag.timestamp);
    assert_is_played(tags, &Options { video: Some(Codec::Vp9), ..Options::default() });
}

#[test]
fn g711_alone() {
    let audio = payloads("pcmu").into_iter().enumerate();
    let tags = audio.map(|(index, (samples, _))| {
        let body = [&[MU_LAW], &samples[..]].concat();
        Tag { kind: MediaKind::Audio, timestamp: 23 * index as u32, body }
    });
    assert_is_played(tags.collect(), &Options { audio: Some(Codec::Pcmu), ..Options::default() });
}

#[test]
fn aac_alone() {
    assert_is_played(sample_audio(), &Options::default());
}
