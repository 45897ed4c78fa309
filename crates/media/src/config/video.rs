//! What a video configuration says about the picture.
//!
//! For people to read, in the console and in logs; nothing is decided by it. It runs once per sequence
//! header. Whatever does not parse gives `None`: the stream is relayed all the same.

use super::bits::Bits;
use super::tag::{Packet, TagHeader};
use super::{Codec, av1, avc, hevc};

/// Picture format of a video stream.
#[derive(Debug, Clone, PartialEq)]
pub struct VideoFormat {
    /// Profile as the codec's standard names it, e.g. `High`.
    pub profile: String,
    /// Level, e.g. `3.1`.
    pub level: String,
    /// Width in pixels; 0 if the configuration does not say (VP8, VP9).
    pub width: u32,
    /// Height in pixels; 0 if the configuration does not say.
    pub height: u32,
    /// Frames per second, if the configuration says so.
    pub frame_rate: Option<f32>,
}

/// Format from the body of a sequence header tag ([`BodyRole::Config`](super::BodyRole::Config)).
///
/// `None` if the body is none, is of another codec than `codec`, or does not parse.
pub fn video_format(codec: Codec, config_body: &[u8]) -> Option<VideoFormat> {
    let header = TagHeader::of_video(config_body).ok()?;
    if header.packet != Packet::Config || header.codec != codec {
        return None;
    }
    match codec {
        Codec::H264 => avc::format(header.data),
        Codec::H265 => hevc::format(header.data),
        Codec::Av1 => av1::format(header.data),
        Codec::Vp8 | Codec::Vp9 => vp_format(header.data),
        _ => None,
    }
}

/// VPCodecConfigurationRecord ("VP Codec ISO Media File Format Binding", section "Semantics").
///
/// ```text
///  profile 8 | level 8 | bit depth 4 | chroma subsampling 3 | full range 1 | colour 3 x 8 | init bytes 16
/// ```
/// Some put the version and flags of the `vpcC` box before it (1, 0, 0, 0).
fn vp_format(record: &[u8]) -> Option<VideoFormat> {
    let record = record.strip_prefix(&[1, 0, 0, 0]).filter(|rest| rest.len() >= 8).unwrap_or(record);
    let [profile, level, depth, ..] = *record else { return None };
    let depth = Bits::new(&[depth]).u(4)?;
    Some(VideoFormat {
        profile: if depth > 8 {
            format!("Profile {profile}, {depth} bit")
        } else {
            format!("Profile {profile}")
        },
        level: format!("{}.{}", level / 10, level % 10),
        width: 0,
        height: 0,
        frame_rate: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const X264_FULL: &str =
        "0142c01fffe100196742c01fda014016feb0110000030001000003003c0f1832a001000468ce0fc8";
    const X264_SMALL: &str =
        "0142c01effe100196742c01ed900a02ff97011000003000100000300320f162e4801000568cb83cb20";
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
            (
                Codec::H264,
                &b"\x17\0\0\0\0"[..],
                X264_FULL,
                "Constrained Baseline",
                "3.1",
                1280,
                718,
                Some(30.0),
            ),
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
}
