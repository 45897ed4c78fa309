//! Streams of real encoders, with a key frame every five frames, are analysed as those encoders
//! meant them.
//!
//! `data/*.rtp` are the first packets that ffmpeg 5.1 sent of its test picture (160x120, 10 a
//! second, `-g 5`, packets of at most 600 bytes) and its test tone, each preceded by its length in
//! two bytes.

use std::path::Path;

use rtp::Packet;
use rtp::payload::{Codec, PayloadInfo, inspect, opus};

fn stream(name: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name).with_extension("rtp");
    let bytes = std::fs::read(path).unwrap();
    let mut rest = &bytes[..];
    let mut packets = Vec::new();
    while let Some((len, behind)) = rest.split_first_chunk() {
        let (packet, behind) = behind.split_at(usize::from(u16::from_be_bytes(*len)));
        packets.push(packet.to_vec());
        rest = behind;
    }
    packets
}

/// Properties of the packets of each frame.
fn pictures(codec: Codec, name: &str) -> Vec<Vec<PayloadInfo>> {
    let mut pictures: Vec<Vec<PayloadInfo>> = Vec::new();
    let mut timestamp = None;
    for bytes in stream(name) {
        let packet = Packet::parse(&bytes).unwrap();
        let info = inspect(codec, packet.payload(), packet.marker()).unwrap();
        if timestamp.replace(packet.timestamp()) != Some(packet.timestamp()) {
            pictures.push(Vec::new());
        }
        pictures.last_mut().unwrap().push(info);
    }
    assert!(pictures.len() >= 6, "{name} has {} pictures", pictures.len());
    pictures
}

#[test]
fn every_picture_starts_with_its_first_packet_and_ends_with_its_last() {
    for (codec, name) in
        [(Codec::H264, "h264"), (Codec::H265, "h265"), (Codec::Vp8, "vp8"), (Codec::Vp9, "vp9")]
    {
        for (at, packets) in pictures(codec, name).iter().enumerate() {
            assert!(packets[0].starts_frame, "{name}, picture {at}");
            let ends: Vec<bool> = packets.iter().map(|info| info.ends_frame).collect();
            assert_eq!(ends.iter().position(|end| *end), Some(packets.len() - 1), "{name}, picture {at}");
        }
    }
}

#[test]
fn every_fifth_picture_is_a_key_frame_and_no_other() {
    // ffmpeg's VP9 packets never signal references to earlier pictures, so that stream is useless
    // here.
    for (codec, name) in [(Codec::H264, "h264"), (Codec::H265, "h265"), (Codec::Vp8, "vp8")] {
        for (at, packets) in pictures(codec, name).iter().enumerate() {
            assert_eq!(packets[0].key_frame, at % 5 == 0, "{name}, picture {at}");
            if codec != Codec::Vp8 {
                let sets = packets.iter().any(|info| info.has_parameter_sets);
                assert_eq!(sets, at % 5 == 0, "{name}, picture {at}");
                assert_eq!(packets.iter().any(|info| info.key_frame), at % 5 == 0, "{name}, picture {at}");
            }
        }
    }
}

#[test]
fn audio_packets_are_whole_and_play_as_long_as_their_timestamps_say() {
    let mut timestamp = None;
    for bytes in stream("opus") {
        let packet = Packet::parse(&bytes).unwrap();
        let info = inspect(Codec::Opus, packet.payload(), packet.marker()).unwrap();
        assert!(info.key_frame && info.starts_frame && info.ends_frame);
        let toc = opus::Toc::parse(packet.payload()).unwrap();
        assert!(!toc.silence);
        if let Some(before) = timestamp {
            assert_eq!(packet.timestamp().wrapping_sub(before), u32::from(toc.samples));
        }
        timestamp = Some(packet.timestamp());
    }
    for bytes in stream("pcmu") {
        let packet = Packet::parse(&bytes).unwrap();
        assert!(inspect(Codec::Pcmu, packet.payload(), packet.marker()).unwrap().key_frame);
    }
}
