//! Tag bodies cut at every byte are refused or read as less, and the whole ones are classified.

use media::FourCc;
use rtmp::MediaKind::{self, Audio, Data, Video};
use rtmp::flv::BodyRole::*;
use rtmp::flv::{BodyInfo, BodyRole, Codec, FlvError, inspect};

/// Kind, body, bytes of its header, and what it is: codec, role, composition time, multitrack.
type Case = (MediaKind, &'static [u8], usize, Codec, BodyRole, i32, bool);

fn cases() -> Vec<Case> {
    vec![
        // Legacy.
        (Video, b"\x17\x00\x00\x00\x00\x01\x64", 5, Codec::H264, Config, 0, false),
        (Video, b"\x17\x01\x00\x00\x28data", 5, Codec::H264, Key, 40, false),
        (Video, b"\x27\x01\xff\xff\xd8data", 5, Codec::H264, Inter, -40, false),
        (Video, b"\x37\x01\x00\x00\x00data", 5, Codec::H264, Disposable, 0, false),
        (Video, b"\x47\x01\x00\x00\x00data", 5, Codec::H264, Key, 0, false),
        (Video, b"\x17\x02\x00\x00\x00", 5, Codec::H264, End, 0, false),
        (Video, b"\x17\x09\x00\x00\x00", 5, Codec::H264, Other, 0, false),
        (Video, b"\x1c\x00\x00\x00\x00\x01", 5, Codec::H265, Config, 0, false),
        (Video, b"\x12data", 1, Codec::Unknown(FourCc([0, 0, 0, 2])), Key, 0, false),
        (Video, b"\x57\x00", 1, Codec::H264, Other, 0, false),
        (Audio, b"\xaf\x00\x12\x10", 2, Codec::Aac, Config, 0, false),
        (Audio, b"\xaf\x01data", 2, Codec::Aac, BodyRole::Audio, 0, false),
        (Audio, b"\x2fdata", 1, Codec::Mp3, BodyRole::Audio, 0, false),
        (Audio, b"\x72data", 1, Codec::Pcma, BodyRole::Audio, 0, false),
        (Audio, b"\xb2data", 1, Codec::Speex, BodyRole::Audio, 0, false),
        (Data, b"\x02\x00\x0aonMetaData\x05", 1, Codec::None, Metadata, 0, false),
        (Data, b"\x02\x00\x06onText\x05", 1, Codec::None, Other, 0, false),
        // Enhanced RTMP v1.
        (Video, b"\x90hvc1\x01", 5, Codec::H265, Config, 0, false),
        (Video, b"\x91hvc1\x00\x00\x28data", 8, Codec::H265, Key, 40, false),
        (Video, b"\xa1avc1\xff\xff\xfedata", 8, Codec::H264, Inter, -2, false),
        (Video, b"\xa3hvc1data", 5, Codec::H265, Inter, 0, false),
        (Video, b"\x91av01data", 5, Codec::Av1, Key, 0, false),
        (Video, b"\xb1vp09data", 5, Codec::Vp9, Disposable, 0, false),
        (Video, b"\xa1vp08data", 5, Codec::Vp8, Inter, 0, false),
        (Video, b"\x92av01", 5, Codec::Av1, End, 0, false),
        (Video, b"\x94av01\x02\x00\x09colorInfo", 5, Codec::Av1, Metadata, 0, false),
        (Video, b"\xd4av01\x02\x00\x09colorInfo", 5, Codec::Av1, Metadata, 0, false),
        (Video, b"\x95av01\x00", 5, Codec::Av1, Config, 0, false),
        (Video, b"\xd1\x00", 2, Codec::None, Other, 0, false),
        (Video, b"\x91xyz1data", 5, Codec::Unknown(FourCc(*b"xyz1")), Key, 0, false),
        (Video, b"\x98av01data", 5, Codec::Av1, Other, 0, false),
        // Enhanced RTMP v2.
        (Audio, b"\x90OpusOpusHead", 5, Codec::Opus, Config, 0, false),
        (Audio, b"\x91Opusdata", 5, Codec::Opus, BodyRole::Audio, 0, false),
        (Audio, b"\x91fLaCdata", 5, Codec::Flac, BodyRole::Audio, 0, false),
        (Audio, b"\x91ac-3data", 5, Codec::Ac3, BodyRole::Audio, 0, false),
        (Audio, b"\x91ec-3data", 5, Codec::Eac3, BodyRole::Audio, 0, false),
        (Audio, b"\x91.mp3data", 5, Codec::Mp3, BodyRole::Audio, 0, false),
        (Audio, b"\x90mp4a\x12\x10", 5, Codec::Aac, Config, 0, false),
        (Audio, b"\x92Opus", 5, Codec::Opus, End, 0, false),
        (Audio, b"\x94Opus\x01\x02", 5, Codec::Opus, Other, 0, false),
        (Video, b"\x97\x02abc\x01av01data", 10, Codec::Av1, Key, 0, false),
        (Video, b"\x97\x00a\x07\x00b\x01hvc1\x00\x00\x01data", 14, Codec::H265, Key, 1, false),
        (Audio, b"\x97\x02abc\x01Opusdata", 10, Codec::Opus, BodyRole::Audio, 0, false),
        // Multitrack: one track, many tracks of one codec, many codecs.
        (Video, b"\x96\x00av01\x00config", 7, Codec::Av1, Config, 0, true),
        (
            Video,
            b"\x96\x11hvc1\x00\x00\x00\x05\x00\x00\x03ab\x01\x00\x00\x01c",
            15,
            Codec::H265,
            Key,
            3,
            true,
        ),
        (Video, b"\xa6\x23vp09\x00\x00\x00\x02abav01\x01\x00\x00\x01c", 12, Codec::Vp9, Inter, 0, true),
        (Audio, b"\x95\x11Opus\x00\x00\x00\x02ab", 12, Codec::Opus, BodyRole::Audio, 0, true),
    ]
}

#[test]
fn whole_bodies_are_classified() {
    for (kind, body, _, codec, role, composition_ms, multitrack) in cases() {
        let expected = BodyInfo { codec, role, composition_ms, multitrack };
        assert_eq!(inspect(kind, body), Ok(expected), "{}", body.escape_ascii());
    }
}

#[test]
fn bodies_cut_inside_their_header_are_truncated() {
    for (kind, body, header_bytes, codec, ..) in cases() {
        for length in 0..body.len() {
            match inspect(kind, &body[..length]) {
                Err(FlvError::Truncated) => {
                    assert!(length < header_bytes, "{length} of {}", body.escape_ascii())
                }
                Ok(info) => {
                    assert!(length >= header_bytes, "{length} of {}", body.escape_ascii());
                    assert_eq!(info.codec, codec);
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
        assert_eq!(inspect(Video, &body).map(|info| info.codec), Ok(Codec::Av1), "{bytes}");
        assert_eq!(inspect(Video, &body[..bytes]), Err(FlvError::Truncated));
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
