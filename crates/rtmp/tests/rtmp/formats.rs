//! Formats of audio and video, from the bodies of sequence headers and frames, for people to read.

use media::config::{self, AudioFormat, VideoFormat};
use media::{CodecConfig, Frame, FrameRole, MediaKind};
use rtmp::MediaMessage;
use rtmp::flv::{Codec, read_frames};

fn frame_of(codec: Codec, kind: MediaKind, body: &[u8]) -> Option<Frame> {
    let message = MediaMessage { kind, timestamp: 0, length: body.len() as u32, payload: body.to_vec() };
    read_frames(message).ok().map(|(first, _)| first).filter(|frame| frame.codec == codec)
}

/// Of the sequence header.
fn video_format(codec: Codec, body: &[u8]) -> Option<VideoFormat> {
    let frame = frame_of(codec, MediaKind::Video, body)?;
    if frame.role == FrameRole::Config { config::video_format(codec, frame.data()) } else { None }
}

/// Of the sequence header of AAC, Opus and FLAC, of any frame of MP3, AC-3, E-AC-3, G.711 and Speex.
fn audio_format(codec: Codec, body: &[u8]) -> Option<AudioFormat> {
    let frame = frame_of(codec, MediaKind::Audio, body)?;
    match frame.role {
        FrameRole::Config => config::audio_format(codec, frame.data()),
        FrameRole::Audio => CodecConfig { channels: frame.channels, ..CodecConfig::new(codec, Vec::new()) }
            .audio_format()
            .or_else(|| config::audio_frame_format(codec, frame.data())),
        _ => None,
    }
}

const X264_FULL: &str = "0142c01fffe100196742c01fda014016feb0110000030001000003003c0f1832a001000468ce0fc8";
const X264_SMALL: &str = "0142c01effe100196742c01ed900a02ff97011000003000100000300320f162e4801000568cb83cb20";
const X265: &str = "01022000000090000000000078f000fcfdfafa00000f03200001001840010c01ffff0220000003009000000300000300789594\
    09210001002d420101022000000300900000030000030078a003c0801107cad965654a4c2f016808000003000800000300f0402200\
    0100064401c073c18927";
const LIBAOM: &str = "81010c000a0b0000000cc5036936be4010";
const SVT_AV1: &str = "81010c000a0b0000000cc4ff6700be0010";
const LIBVPX: &str = "010000000015820202020000";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn body(header: &[u8], hex: &str) -> Vec<u8> {
    [header, &bytes(hex)].concat()
}

/// Records from MP4 files made with ffmpeg 5.1 and the encoder named.
#[test]
fn records_of_real_encoders_are_read() {
    for (codec, header, record, profile, level, width, height, frame_rate) in [
        (Codec::H264, &b"\x17\0\0\0\0"[..], X264_FULL, "Constrained Baseline", "3.1", 1280, 718, Some(30.0)),
        (Codec::H264, b"\x90avc1", X264_SMALL, "Constrained Baseline", "3.0", 640, 360, Some(25.0)),
        (Codec::H265, b"\x90hvc1", X265, "Main 10", "4.0", 1920, 1080, None),
        (Codec::H265, b"\x1c\0\0\0\0", X265, "Main 10", "4.0", 1920, 1080, None),
        (Codec::Av1, b"\x90av01", LIBAOM, "Main", "2.1", 642, 362, None),
        (Codec::Av1, b"\x90av01", SVT_AV1, "Main", "2.1", 640, 360, None),
        (Codec::Vp9, b"\x90vp09", LIBVPX, "Profile 0", "2.1", 0, 0, None),
        (Codec::Vp9, b"\x90vp09", &LIBVPX[8..], "Profile 0", "2.1", 0, 0, None),
    ] {
        let (profile, level) = (profile.to_owned(), level.to_owned());
        let expected = VideoFormat { profile, level, width, height, frame_rate };
        assert_eq!(video_format(codec, &body(header, record)), Some(expected), "{record}");
    }
}

#[test]
fn records_cut_anywhere_or_of_another_kind_give_none() {
    for record in [X264_FULL, X265] {
        let body = body(if record == X265 { b"\x90hvc1" } else { b"\x90avc1" }, record);
        let codec = if record == X265 { Codec::H265 } else { Codec::H264 };
        for length in 0..body.len() {
            let format = video_format(codec, &body[..length]);
            assert!(format.is_none() || (record == X265 && length > 90), "length {length}");
        }
        assert_eq!(video_format(Codec::Av1, &body), None, "another codec");
    }
    assert_eq!(video_format(Codec::H264, &body(b"\x17\x01\0\0\0", X264_FULL)), None, "a frame");
    assert_eq!(
        video_format(Codec::H264, &body(b"\x90avc1", "0142c01fffe1000001000468ce0fc8")),
        None,
        "empty SPS"
    );
    assert_eq!(
        video_format(Codec::H264, &body(b"\x90avc1", "0142c01fffe00100 00")),
        None,
        "no SPS, empty PPS"
    );
}

#[test]
fn formats_are_read_from_configurations_and_frames() {
    let flac = b"\x90fLaCfLaC\x80\x00\x00\x22\x10\x00\x10\x00\x00\x00\x00\x00\x00\x00\x0a\xc4\x42\xf0";
    let flac = &[&flac[..], &[0; 20]].concat()[..];
    for (codec, body, profile, rate, channels) in [
        (Codec::Aac, &[0xaf, 0, 0x12, 0x10][..], "LC", 44_100, 2),
        (Codec::Aac, &[0xaf, 0, 0x11, 0x90], "LC", 48_000, 2),
        (Codec::Aac, b"\x90mp4a\x11\x88", "LC", 48_000, 1),
        (Codec::Opus, b"\x90OpusOpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0", "", 48_000, 2),
        (Codec::Flac, flac, "", 44_100, 2),
        (Codec::Mp3, &[0x2f, 0xff, 0xfb, 0x90, 0x64], "Layer III", 44_100, 2),
        (Codec::Mp3, b"\x91.mp3\xff\xf3\x44\xc4", "Layer III", 24_000, 1),
        (Codec::Pcmu, &[0x82, 0xff], "", 8_000, 1),
        (Codec::Pcma, &[0x73, 0xd5], "", 8_000, 2),
        (Codec::Speex, &[0xb2, 0], "", 16_000, 1),
        (Codec::Ac3, b"\x91ac-3\x0b\x77\0\0\x14\x40\xe1\0", "", 48_000, 6),
        (Codec::Eac3, b"\x91ec-3\x0b\x77\x02\xff\x3f\x87\xe0", "", 48_000, 6),
    ] {
        let expected = AudioFormat { profile: profile.to_owned(), sample_rate: rate, channels };
        assert_eq!(audio_format(codec, body), Some(expected), "{body:02x?}");
        for length in 0..body.len() {
            let _ = audio_format(codec, &body[..length]);
        }
    }
    assert_eq!(audio_format(Codec::Opus, &[0xaf, 0, 0x12, 0x10]), None, "another codec");
    assert_eq!(audio_format(Codec::Aac, &[0xaf, 1, 0x12, 0x10]), None, "a frame");
}
