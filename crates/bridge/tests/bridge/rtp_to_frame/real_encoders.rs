//! Packets of real encoders become frames with their configuration ahead: `crates/rtp/tests/data`, see
//! `crates/rtp/tests/rtp/real_streams.rs` there for what they are.

use std::path::Path;

use bridge::key_frame_format;
use media::config::video_format;
use media::{FrameRole, MediaKind};
use rtp::payload::Codec;

use crate::rtp_to_frame::{Rig, body};

fn packets(name: &str) -> Vec<Vec<u8>> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../rtp/tests/data").join(name).with_extension("rtp");
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

/// Sends all packets of a file, 10 pictures a second. Returns how many pictures there are; the last may be
/// cut off.
fn send(rig: &mut Rig, name: &str) -> usize {
    let mut last = None;
    let mut pictures = 0;
    for bytes in packets(name) {
        let packet = rtp::Packet::parse(&bytes).unwrap();
        pictures += usize::from(last.replace(packet.timestamp()) != Some(packet.timestamp()));
        rig.video(pictures as u64 * 100, packet.payload(), packet.marker());
    }
    pictures
}

#[test]
fn every_picture_comes_through_behind_its_configuration() {
    for (codec, name) in
        [(Codec::H264, "h264"), (Codec::H265, "h265"), (Codec::Vp8, "vp8"), (Codec::Vp9, "vp9")]
    {
        let mut rig = Rig::new(codec);
        let sent = send(&mut rig, name);
        let pictures = rig.pictures();
        assert!(pictures.len() + 1 >= sent && sent >= 6, "{name}: {} of {sent}", pictures.len());
        for (at, (is_key, time_ms, _)) in pictures.iter().enumerate() {
            assert_eq!(*is_key, at % 5 == 0, "{name}, picture {at}");
            assert!(time_ms.abs_diff(pictures[0].1 + at as u32 * 100) <= 1, "{name}, picture {at}");
        }
        let roles: Vec<_> = rig.frames.iter().take(3).map(|frame| frame.role).collect();
        assert_eq!(roles, [FrameRole::Metadata, FrameRole::Config, FrameRole::Key], "{name}");
        let configs = rig.of(MediaKind::Video, FrameRole::Config);
        assert_eq!(configs.len(), 1, "{name}: sent once");
        assert_eq!(body(configs[0]).codec, codec);
        let format = video_format(codec, body(configs[0]).data()).expect("a configuration that can be read");
        if matches!(codec, Codec::H264 | Codec::H265) {
            assert_eq!((format.width, format.height), (160, 120), "{name}");
        }
        let metadata = &rig.of(MediaKind::Data, FrameRole::Metadata)[0].payload;
        let width = [&b"\0\x05width\0"[..], &160f64.to_be_bytes()].concat();
        assert!(metadata.windows(width.len()).any(|bytes| bytes == width), "{name}");
        assert_eq!(rig.bridge.stats().broken, 0);
        assert_eq!(rig.bridge.stats().video_frames as usize, pictures.len());
    }
}

#[test]
fn audio_of_real_encoders_passes_through() {
    for (codec, name) in [(Codec::Opus, "opus"), (Codec::Pcmu, "pcmu")] {
        let mut rig = Rig::new(Codec::H264);
        rig.audio = codec;
        let mut expected = Vec::new();
        for bytes in packets(name) {
            let packet = rtp::Packet::parse(&bytes).unwrap();
            expected.push(packet.payload().to_vec());
            let rate = rtp::payload::clock_rate(codec) / 1_000;
            let ms = expected.iter().rev().skip(1).map(|payload| match codec {
                Codec::Opus => u64::from(rtp::payload::opus::Toc::parse(payload).unwrap().samples) / 48,
                _ => payload.len() as u64 / u64::from(rate),
            });
            let ms = ms.sum();
            rig.audio(ms, packet.payload());
        }
        let got: Vec<_> = rig.audio_frames().into_iter().map(|(_, data)| data.to_vec()).collect();
        assert_eq!(got, expected, "{name}");
        assert_eq!(rig.of(MediaKind::Audio, FrameRole::Config).len(), usize::from(codec == Codec::Opus));
    }
}

/// What a decoder gets is what was sent, apart from what belongs into the configuration.
#[test]
fn parameter_sets_and_delimiters_are_not_in_frames() {
    let mut rig = Rig::new(Codec::H264);
    send(&mut rig, "h264");
    for (is_key, _, data) in rig.pictures() {
        let kinds: Vec<_> = crate::rtp_to_frame::units(data).into_iter().map(|(kind, _)| kind).collect();
        assert!(kinds.iter().all(|kind| matches!(kind, 1 | 5 | 6)), "{kinds:?}");
        assert!(kinds.contains(if is_key { &5 } else { &1 }), "{kinds:?}");
    }
}

#[test]
fn key_frames_tell_size_and_profile_without_a_bridge() {
    for (codec, name, profile) in [
        (Codec::H264, "h264", "High"),
        (Codec::H265, "h265", "Main"),
        (Codec::Vp8, "vp8", "Profile 0"),
        (Codec::Vp9, "vp9", "Profile 0"),
    ] {
        let packets = packets(name);
        let parsed = || packets.iter().map(|bytes| rtp::Packet::parse(bytes).unwrap());
        let (first, second) = (parsed().next().unwrap().timestamp(), |at: u32| {
            parsed().find(|packet| packet.timestamp() != at).unwrap().timestamp()
        });
        let of = |timestamp| parsed().filter(move |packet| packet.timestamp() == timestamp);
        let key_frame: Vec<_> = of(first).map(|packet| packet.payload().to_vec()).collect();
        let format = key_frame_format(codec, key_frame.iter().map(|payload| &payload[..])).expect(name);
        assert_eq!((format.width, format.height), (160, 120), "{name}");
        assert_eq!(format.profile, profile, "{name}");
        let other: Vec<_> = of(second(first)).map(|packet| packet.payload().to_vec()).collect();
        assert_eq!(key_frame_format(codec, other.iter().map(|payload| &payload[..])), None, "{name}");
        let encrypted = [0xaa; 50];
        assert_eq!(key_frame_format(codec, [&encrypted[..]].into_iter()), None, "{name}");
    }
    // A sequence header of libaom and the beginning of a frame, in one packet (AV1 RTP, section 4.4).
    let sequence_header = [0x08, 0, 0, 0, 0x0c, 0xc5, 0x03, 0x69, 0x36, 0xbe, 0x40, 0x10];
    let av1 = [&[0x28, 12][..], &sequence_header, &[0x30, 0x10]].concat();
    let format = key_frame_format(Codec::Av1, [&av1[..]].into_iter()).expect("AV1");
    assert_eq!((format.width, format.height, &*format.profile), (642, 362, "Main"));
}
