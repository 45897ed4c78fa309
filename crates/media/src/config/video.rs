//! What a video configuration says about the picture.
//!
//! For people to read, in the console and in logs; nothing is decided by it. It runs once per
//! configuration. Whatever does not parse gives `None`: the stream is relayed all the same.

use super::{av1, avc, hevc};
use crate::Codec;

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

/// Format from a configuration record: `avcC`, `hvcC`, `av1C`, `vpcC`. `None` if it does not parse,
/// or for another codec.
pub fn video_format(codec: Codec, record: &[u8]) -> Option<VideoFormat> {
    match codec {
        Codec::H264 => avc::format(record),
        Codec::H265 => hevc::format(record),
        Codec::Av1 => av1::format(record),
        Codec::Vp8 | Codec::Vp9 => vp_format(record),
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
    let depth = depth >> 4;
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
