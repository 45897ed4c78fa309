//! What a server must know of a payload to forward it: can a decoder start here, where do frames
//! begin, which layer.
//!
//! One file per payload format. Only descriptors and the first bits of bitstreams are read, of one
//! packet alone: what only the frame's first packet says (VP8, AV1: key frame) is not known of the
//! others. Nothing is decoded.

pub mod av1;
pub mod h264;
pub mod h265;
mod layers;
pub mod opus;
mod size;
pub mod vp8;
pub mod vp9;

pub use layers::{Layers, layers};
pub use media::{Codec, MediaKind};
pub use size::{PictureSize, PictureSizes, picture_sizes};

/// The codecs that can be carried: H.264 (RFC 6184), H.265 (RFC 7798), VP8 (RFC 7741), VP9 (RFC
/// 9628), AV1 (RTP payload format for AV1, version 1.0), Opus (RFC 7587), G.711 mu-law and A-law
/// (RFC 3551 section 4.5.14).
pub const CODECS: [Codec; 8] =
    [Codec::H264, Codec::H265, Codec::Vp8, Codec::Vp9, Codec::Av1, Codec::Opus, Codec::Pcmu, Codec::Pcma];

/// Clock of the RTP timestamps, in Hz. For codecs that are none of [`CODECS`] it is that of video.
pub const fn clock_rate(codec: Codec) -> u32 {
    match codec {
        Codec::Opus => 48_000,
        Codec::Pcmu | Codec::Pcma => 8_000,
        _ => 90_000,
    }
}

/// Name in `a=rtpmap`; empty for codecs that are none of [`CODECS`].
pub const fn encoding_name(codec: Codec) -> &'static str {
    match codec {
        Codec::H264 => "H264",
        Codec::H265 => "H265",
        Codec::Vp8 => "VP8",
        Codec::Vp9 => "VP9",
        Codec::Av1 => "AV1",
        Codec::Opus => "opus",
        Codec::Pcmu => "PCMU",
        Codec::Pcma => "PCMA",
        _ => "",
    }
}

/// The codec of that name, in capitals or not, if it is one of [`CODECS`].
pub fn codec_of_name(name: &str) -> Option<Codec> {
    CODECS.into_iter().find(|codec| encoding_name(*codec).eq_ignore_ascii_case(name))
}

/// Properties of one packet's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PayloadInfo {
    /// A decoder can start with the frame of this packet. Always known for the first packet of such
    /// a frame; for the following ones only in H.264, H.265 and VP9.
    pub key_frame: bool,
    /// The packet may be the first of its frame. Where several packets of one timestamp say so
    /// (H.264: parameter sets, then slices), the frame starts with the first of them.
    pub starts_frame: bool,
    /// The packet is the last of its frame.
    pub ends_frame: bool,
    /// Temporal layer, 0 being the base; `None` if the payload has none.
    pub temporal_layer: Option<u8>,
    /// Spatial layer, 0 being the base; `None` if the payload has none.
    pub spatial_layer: Option<u8>,
    /// No other frame of the same or a lower layer needs this one.
    pub discardable: bool,
    /// SPS, PPS, VPS or a sequence header are inside.
    pub has_parameter_sets: bool,
}

impl PayloadInfo {
    /// A packet that is a frame by itself and needs no other: audio.
    const WHOLE: Self = Self {
        key_frame: true,
        starts_frame: true,
        ends_frame: true,
        temporal_layer: None,
        spatial_layer: None,
        discardable: false,
        has_parameter_sets: false,
    };
}

/// Looks into the payload (without padding) of one packet; `None` if it is malformed or empty.
///
/// `marker` is the packet's marker bit, which marks the last packet of a video frame.
#[inline]
pub fn inspect(codec: Codec, payload: &[u8], marker: bool) -> Option<PayloadInfo> {
    match codec {
        Codec::H264 => h264::inspect(payload, marker),
        Codec::H265 => h265::inspect(payload, marker),
        Codec::Vp8 => vp8::inspect(payload, marker),
        Codec::Vp9 => vp9::inspect(payload, marker),
        Codec::Av1 => av1::inspect(payload, marker),
        Codec::Opus => opus::inspect(payload),
        Codec::Pcmu | Codec::Pcma => (!payload.is_empty()).then_some(PayloadInfo::WHOLE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_that_of_one_codec() {
        for codec in CODECS {
            assert_eq!(codec_of_name(encoding_name(codec)), Some(codec));
            assert_eq!(codec_of_name(&encoding_name(codec).to_lowercase()), Some(codec));
            let video = codec.kind() == MediaKind::Video;
            assert_eq!(video, clock_rate(codec) == 90_000);
        }
        for other in ["", "rtx", "red", "ulpfec", "telephone-event", "VP", "VP88"] {
            assert_eq!(codec_of_name(other), None);
        }
    }

    #[test]
    fn an_empty_payload_is_malformed_in_every_codec() {
        for codec in CODECS {
            assert_eq!(inspect(codec, &[], true), None);
        }
        assert_eq!(inspect(Codec::Pcmu, &[0xff; 160], false), Some(PayloadInfo::WHOLE));
    }
}
