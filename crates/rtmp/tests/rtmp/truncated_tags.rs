//! Tag bodies cut at every byte are refused or read as less, and the whole ones are classified.

use media::FrameRole::*;
use media::{FourCc, Frame, FrameRole};
use rtmp::MediaKind::{self, Audio, Data, Video};
use rtmp::MediaMessage;
use rtmp::flv::{Codec, FlvError, read_frames};

/// Kind, body, bytes of its header, and what it is: codec, role, composition time, data if that is not all
/// behind the header.
type Case = (MediaKind, &'static [u8], usize, Codec, FrameRole, i64, Option<&'static [u8]>);

fn first_frame(kind: MediaKind, body: &[u8]) -> Result<Frame, FlvError> {
    let message = MediaMessage { kind, timestamp: 0, length: body.len() as u32, payload: body.to_vec() };
    read_frames(message).map(|(first, _)| first)
}

fn cases() -> Vec<Case> {
    vec![
        // Legacy.
        (Video, b"\x17\x00\x00\x00\x00\x01\x64", 5, Codec::H264, Config, 0, None),
        (Video, b"\x17\x01\x00\x00\x28data", 5, Codec::H264, Key, 40, None),
        (Video, b"\x27\x01\xff\xff\xd8data", 5, Codec::H264, Inter, -40, None),
        (Video, b"\x37\x01\x00\x00\x00data", 5, Codec::H264, Inter, 0, None),
        (Video, b"\x47\x01\x00\x00\x00data", 5, Codec::H264, Key, 0, None),
        (Video, b"\x17\x02\x00\x00\x00", 5, Codec::H264, End, 0, None),
        (Video, b"\x17\x09\x00\x00\x00", 5, Codec::H264, Other, 0, None),
        (Video, b"\x1c\x00\x00\x00\x00\x01", 5, Codec::H265, Config, 0, None),
        (Video, b"\x12data", 1, Codec::Unknown(FourCc([0, 0, 0, 2])), Key, 0, None),
        (Video, b"\x57\x00", 1, Codec::H264, Other, 0, None),
        (Audio, b"\xaf\x00\x12\x10", 2, Codec::Aac, Config, 0, None),
        (Audio, b"\xaf\x01data", 2, Codec::Aac, FrameRole::Audio, 0, None),
        (Audio, b"\x2fdata", 1, Codec::Mp3, FrameRole::Audio, 0, None),
        (Audio, b"\x72data", 1, Codec::Pcma, FrameRole::Audio, 0, None),
        (Audio, b"\xb2data", 1, Codec::Speex, FrameRole::Audio, 0, None),
        (
            Data,
            b"\x02\x00\x0aonMetaData\x05",
            1,
            Codec::None,
            Metadata,
            0,
            Some(b"\x02\x00\x0aonMetaData\x05"),
        ),
        (Data, b"\x02\x00\x06onText\x05", 1, Codec::None, Other, 0, Some(b"\x02\x00\x06onText\x05")),
        // Enhanced RTMP v1.
        (Video, b"\x90hvc1\x01", 5, Codec::H265, Config, 0, None),
        (Video, b"\x91hvc1\x00\x00\x28data", 8, Codec::H265, Key, 40, None),
        (Video, b"\xa1avc1\xff\xff\xfedata", 8, Codec::H264, Inter, -2, None),
        (Video, b"\xa3hvc1data", 5, Codec::H265, Inter, 0, None),
        (Video, b"\x91av01data", 5, Codec::Av1, Key, 0, None),
        (Video, b"\xb1vp09data", 5, Codec::Vp9, Inter, 0, None),
        (Video, b"\xa1vp08data", 5, Codec::Vp8, Inter, 0, None),
        (Video, b"\x92av01", 5, Codec::Av1, End, 0, None),
        (Video, b"\x94av01\x02\x00\x09colorInfo", 5, Codec::Av1, Other, 0, None),
        (Video, b"\xd4av01\x02\x00\x09colorInfo", 5, Codec::Av1, Other, 0, None),
        (Video, b"\x95av01\x00", 5, Codec::Av1, Config, 0, None),
        (Video, b"\xd1\x00", 2, Codec::None, Other, 0, None),
        (Video, b"\x91xyz1data", 5, Codec::Unknown(FourCc(*b"xyz1")), Key, 0, None),
        (Video, b"\x98av01data", 5, Codec::Av1, Other, 0, None),
        // Enhanced RTMP v2.
        (Audio, b"\x90OpusOpusHead", 5, Codec::Opus, Config, 0, None),
        (Audio, b"\x91Opusdata", 5, Codec::Opus, FrameRole::Audio, 0, None),
        (Audio, b"\x91fLaCdata", 5, Codec::Flac, FrameRole::Audio, 0, None),
        (Audio, b"\x91ac-3data", 5, Codec::Ac3, FrameRole::Audio, 0, None),
        (Audio, b"\x91ec-3data", 5, Codec::Eac3, FrameRole::Audio, 0, None),
        (Audio, b"\x91.mp3data", 5, Codec::Mp3, FrameRole::Audio, 0, None),
        (Audio, b"\x90mp4a\x12\x10", 5, Codec::Aac, Config, 0, None),
        (Audio, b"\x92Opus", 5, Codec::Opus, End, 0, None),
        (Audio, b"\x94Opus\x01\x02", 5, Codec::Opus, Other, 0, None),
        (Video, b"\x97\x02abc\x01av01data", 10, Codec::Av1, Key, 0, None),
        (Video, b"\x97\x00a\x07\x00b\x01hvc1\x00\x00\x01data", 14, Codec::H265, Key, 1, None),
        (Audio, b"\x97\x02abc\x01Opusdata", 10, Codec::Opus, FrameRole::Audio, 0, None),
        // Multitrack: one track, many tracks of one codec, many codecs.
        (Video, b"\x96\x00av01\x00config", 7, Codec::Av1, Config, 0, None),
        (
            Video,
            b"\x96\x11hvc1\x00\x00\x00\x05\x00\x00\x03ab\x01\x00\x00\x01c",
            15,
            Codec::H265,
            Key,
            3,
            Some(b"ab"),
        ),
        (
            Video,
            b"\xa6\x23vp09\x00\x00\x00\x02abav01\x01\x00\x00\x01c",
            12,
            Codec::Vp9,
            Inter,
            0,
            Some(b"ab"),
        ),
        (Audio, b"\x95\x11Opus\x00\x00\x00\x02ab", 12, Codec::Opus, FrameRole::Audio, 0, Some(b"ab")),
    ]
}

#[test]
fn whole_bodies_are_classified() {
    for (kind, body, header_bytes, codec, role, composition_ms, data) in cases() {
        let frame = first_frame(kind, body).expect("a whole body");
        let read = (frame.codec, frame.role, (frame.pts - frame.dts).millis(), frame.data());
        let data = data.unwrap_or(&body[header_bytes..]);
        assert_eq!(read, (codec, role, composition_ms, data), "{}", body.escape_ascii());
    }
}

#[test]
fn bodies_cut_inside_their_header_are_truncated() {
    for (kind, body, header_bytes, codec, ..) in cases() {
        for length in 0..body.len() {
            match first_frame(kind, &body[..length]) {
                Err(FlvError::Truncated) => {
                    assert!(length < header_bytes, "{length} of {}", body.escape_ascii())
                }
                Ok(frame) => {
                    assert!(length >= header_bytes, "{length} of {}", body.escape_ascii());
                    assert_eq!(frame.codec, codec);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn a_long_modifier_has_a_16_bit_size() {
    for bytes in [256usize, 300, 65_536] {
        let [high, low] = ((bytes - 1) as u16).to_be_bytes();
        let body = [&[0x97, 255, high, low][..], &vec![0; bytes], b"\x01av01data"].concat();
        assert_eq!(first_frame(Video, &body).map(|frame| frame.codec), Ok(Codec::Av1), "{bytes}");
        assert_eq!(first_frame(Video, &body[..bytes]), Err(FlvError::Truncated));
    }
}

#[test]
fn codecs_have_names() {
    for (codec, name) in [
        (Codec::H264, "H.264"),
        (Codec::Unknown(FourCc([0, 0, 0, 4])), "codec 4"),
        (Codec::Unknown(FourCc(*b"vvc1")), "vvc1"),
        (Codec::Unknown(FourCc(*b"\x1b[2J")), "\\x1b[2J"),
    ] {
        assert_eq!(codec.to_string(), name);
    }
}
