//! Which layer a packet belongs to, and where a receiver may go up: for a server that forwards some
//! layers of an encoding and leaves out the others.
//!
//! - VP8 (RFC 7741 section 4.2): TID. Up from the layer below to the frame's, where Y is set.
//! - VP9 (RFC 9628 section 4.2): TID and SID. Up behind a frame with U that the receiver gets, to
//!   all temporal layers above; to the frame's spatial layer from the one below, where P is 0.
//! - H.264 (RFC 6184 section 5.3): pictures with NRI 0 count as layer 1. Up with any of them.
//!   Scalable H.264 has `temporal_id` in prefix units (section G.7.3.1.1), and up only with a key
//!   frame.
//! - H.265 (H.265 section 7.4.2.2): `TemporalId` and `nuh_layer_id`. Up from the layer below: with
//!   TSA to the picture's and all above, with STSA to the picture's.
//! - AV1 (AV1 section 5.3.3): `temporal_id` and `spatial_id`. Where a receiver may go up, the
//!   payload does not say; the dependency descriptor does.
//!
//! With a key frame a receiver may go up to every layer, in every codec. Going down is allowed
//! between any two pictures, as no frame refers to one of a higher layer, but for lower spatial
//! layers that were left out since no higher one needs them (K-SVC): these begin with a key frame
//! too. Left out: the group of pictures that a VP9 scalability structure announces, and the
//! temporal nesting that parameter sets of H.265 or SEI messages of scalable H.264 announce.

use super::{Codec, av1, h264, h265, vp8, vp9};

/// Layers of a packet's frame, as far as its payload says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// The payload says which layer it belongs to. If it does not, that is the layer of the other
    /// packets of its frame: AV1 behind the first packet of an OBU, H.264 without a slice.
    pub is_known: bool,
    /// Spatial layer, 0 being the base.
    pub spatial: u8,
    /// Temporal layer, 0 being the base.
    pub temporal: u8,
    /// With this frame a receiver of the temporal layer below, or with a key frame any receiver,
    /// may begin to get the frame's temporal layer.
    pub is_switching_point: bool,
    /// From this frame on a receiver of its temporal layer may get all those above.
    pub opens_higher: bool,
    /// With this frame a receiver of the spatial layer below, or with a key frame any receiver, may
    /// begin to get the frame's spatial layer.
    pub is_spatial_switching_point: bool,
    /// It refers to the spatial layer below it in the same picture (D of VP9).
    pub inter_layer_predicted: bool,
    /// No frame of a higher spatial layer refers to it (Z of VP9): a receiver of a higher layer
    /// does without it.
    pub not_for_higher_layers: bool,
    /// No other frame of the same or a lower layer refers to it.
    pub discardable: bool,
    /// First packet of its layer's frame. Only VP9 says so (B); elsewhere false, and
    /// [`PayloadInfo::starts_frame`](super::PayloadInfo::starts_frame) says it of the picture.
    pub starts_layer_frame: bool,
    /// Last packet of its layer's frame. Only VP9 says so (E); elsewhere false. A server that
    /// leaves out the higher spatial layers sets the marker here, on the last layer that it sends.
    pub ends_layer_frame: bool,
}

impl Layers {
    /// Highest temporal layer that a receiver of those up to `current` may get from this frame on;
    /// `current` if it may not go up here, `u8::MAX` for all there are.
    ///
    /// Several SFUs go up from layer 0 to 2 at once where a frame of layer 2 has Y. That is one
    /// layer too many: frames of layer 1 may refer to earlier ones of it. One layer at a time costs
    /// a period of the pattern, 133 ms with three layers at 30 frames a second.
    pub fn temporal_reach(&self, current: u8) -> u8 {
        let mut reach = current;
        if self.is_switching_point && self.temporal == current.saturating_add(1) {
            reach = self.temporal;
        }
        if self.opens_higher && self.temporal <= reach { u8::MAX } else { reach }
    }

    /// What every codec's key frame allows.
    pub(super) fn of_key_frame(self) -> Self {
        Self { is_switching_point: true, opens_higher: true, is_spatial_switching_point: true, ..self }
    }
}

/// Layers that the payload (without padding) of one packet says. Nothing is known of a malformed
/// one and of audio: they count as base layers, which nobody leaves out.
#[inline]
pub fn layers(codec: Codec, payload: &[u8]) -> Layers {
    let layers = match codec {
        Codec::H264 => h264::layers(payload),
        Codec::H265 => h265::layers(payload),
        Codec::Vp8 => vp8::layers(payload),
        Codec::Vp9 => vp9::layers(payload),
        Codec::Av1 => av1::layers(payload),
        _ => None,
    };
    layers.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Layers = Layers {
        is_known: true,
        spatial: 0,
        temporal: 0,
        is_switching_point: false,
        opens_higher: false,
        is_spatial_switching_point: false,
        inter_layer_predicted: false,
        not_for_higher_layers: false,
        discardable: false,
        starts_layer_frame: false,
        ends_layer_frame: false,
    };

    fn key() -> Layers {
        BASE.of_key_frame()
    }

    #[test]
    fn each_codec_says_its_layers() {
        let unknown = Layers::default();
        let temporal = |temporal| Layers { temporal, ..BASE };
        let switching = |temporal| Layers { temporal, is_switching_point: true, ..BASE };
        let open = |temporal| Layers { opens_higher: true, ..switching(temporal) };
        let first = Layers { starts_layer_frame: true, ..BASE };
        let free = Layers { discardable: true, ..switching(1) };
        for (codec, payload, expected, remark) in [
            (Codec::Vp8, &[0x90, 0x20, 0x80, 1][..], temporal(2), "layer 2"),
            (Codec::Vp8, &[0x90, 0x20, 0x60, 1], switching(1), "layer 1, Y"),
            (Codec::Vp8, &[0x90, 0x20, 0x20, 1], BASE, "Y in the base layer"),
            (Codec::Vp8, &[0xb0, 0x20, 0x40, 1], Layers { discardable: true, ..temporal(1) }, "layer 1, N"),
            (Codec::Vp8, &[0x90, 0x20, 0x00, 0], key(), "a key frame"),
            (Codec::Vp8, &[0x10, 1], BASE, "no layers"),
            (Codec::Vp8, &[0x90, 0x20], unknown, "cut off"),
            (Codec::Vp9, &[0x68, 0x40, 9, 0], Layers { temporal: 2, ..first }, "layer 2"),
            (
                Codec::Vp9,
                &[0x68, 0x30, 9, 0],
                Layers { temporal: 1, opens_higher: true, ..first },
                "layer 1, U",
            ),
            (
                Codec::Vp9,
                &[0x6d, 0x03, 9, 0],
                Layers {
                    spatial: 1,
                    inter_layer_predicted: true,
                    not_for_higher_layers: true,
                    ends_layer_frame: true,
                    ..first
                },
                "the whole of spatial layer 1, D, Z",
            ),
            (
                Codec::Vp9,
                &[0x28, 0x23, 9, 0],
                Layers {
                    spatial: 1,
                    temporal: 1,
                    inter_layer_predicted: true,
                    is_spatial_switching_point: true,
                    ..first
                },
                "spatial layer 1 without references to earlier pictures",
            ),
            (Codec::Vp9, &[0x28, 0x00, 9, 0], Layers { starts_layer_frame: true, ..key() }, "a key frame"),
            (Codec::Vp9, &[0x40, 0], BASE, "no layers, the middle"),
            (Codec::Vp9, &[0x28, 0x00, 9], unknown, "nothing after it"),
            (Codec::H264, &[0x41, 0x9a], BASE, "slice others refer to"),
            (Codec::H264, &[0x01, 0x9a], free, "slice nobody refers to"),
            (Codec::H264, &[0x1c, 0x01, 0x9a], free, "the middle of one"),
            (Codec::H264, &[0x65, 0x88], key(), "IDR"),
            (Codec::H264, &[0x78, 0, 2, 0x67, 0x42, 0, 2, 0x65, 0x88], key(), "SPS and IDR"),
            (Codec::H264, &[0x67, 0x42], Layers { is_known: false, ..key() }, "SPS alone"),
            (Codec::H264, &[0x06, 5, 1], unknown, "SEI alone"),
            (Codec::H264, &[0x18, 0, 1, 6, 0, 2, 1, 0x9a], free, "SEI and a slice nobody refers to"),
            (Codec::H264, &[0x6e, 0x80, 0x80, 0x4f], temporal(2), "a prefix unit"),
            (
                Codec::H264,
                &[0x18, 0, 4, 0x0e, 0x80, 0x80, 0x4f, 0, 2, 0x01, 0x9a],
                Layers { discardable: true, ..temporal(2) },
                "a prefix unit and its slice",
            ),
            (
                Codec::H264,
                &[0x74, 0x80, 0x90, 0x27],
                Layers { spatial: 1, ..temporal(1) },
                "a scalable slice",
            ),
            (Codec::H264, &[0x79, 1], unknown, "STAP-B"),
            (Codec::H265, &[0x02, 1, 0x80], BASE, "TRAIL_R"),
            (
                Codec::H265,
                &[0x00, 3, 0x80],
                Layers { discardable: true, ..temporal(2) },
                "TRAIL_N of layer 2",
            ),
            (Codec::H265, &[0x06, 2, 0x80], open(1), "TSA_R"),
            (Codec::H265, &[0x04, 2, 0x80], Layers { discardable: true, ..open(1) }, "TSA_N"),
            (Codec::H265, &[0x0a, 3, 0x80], switching(2), "STSA_R"),
            (Codec::H265, &[0x62, 3, 0x05, 1], switching(2), "the middle of one"),
            (Codec::H265, &[0x26, 1, 0xaf], key(), "IDR_W_RADL"),
            (
                Codec::H265,
                &[0x60, 1, 0, 3, 0x44, 1, 0xc0, 0, 3, 0x06, 2, 0x80],
                open(1),
                "aggregation of a PPS of the base layer and TSA_R",
            ),
            (Codec::H265, &[0x44, 1, 0xc0], Layers { is_known: false, ..BASE }, "PPS alone"),
            (Codec::H265, &[0x26, 0, 0xaf], unknown, "temporal id 0"),
            (Codec::Av1, &[0x10, 0x34, 0x48, 0], Layers { spatial: 1, ..temporal(2) }, "a frame"),
            (Codec::Av1, &[0x10, 0x30, 1], BASE, "a frame without layers"),
            (Codec::Av1, &[0x28, 2, 0x08, 0, 0x30, 1], key(), "sequence header and frame, N"),
            (Codec::Av1, &[0x90, 0x34, 0x48], unknown, "a continuation"),
            (Codec::Av1, &[0xa0, 1, 0xff, 0x34, 0x20, 1], temporal(1), "a continuation, then a frame"),
            (Codec::Av1, &[0x50, 0x34], unknown, "layers in the next packet"),
            (Codec::Av1, &[0x10, 0x34], unknown, "cut off"),
            (Codec::Opus, &[0xfc, 1, 2], unknown, "audio"),
            (Codec::Vp8, &[], unknown, "nothing"),
        ] {
            assert_eq!(layers(codec, payload), expected, "{codec:?}: {remark}");
        }
    }

    #[test]
    fn a_receiver_goes_up_as_far_as_the_frame_allows() {
        let frame = |temporal, is_switching_point, opens_higher| Layers {
            temporal,
            is_switching_point,
            opens_higher,
            ..BASE
        };
        for (frame, current, expected, remark) in [
            (frame(1, true, false), 0, 1, "from the layer below"),
            (frame(2, true, false), 0, 0, "not over a layer"),
            (frame(1, true, false), 1, 1, "there already"),
            (frame(1, true, false), 2, 2, "never down"),
            (frame(1, false, false), 0, 0, "an ordinary frame"),
            (frame(1, true, true), 0, u8::MAX, "TSA from below"),
            (frame(2, true, true), 0, 0, "TSA two layers up"),
            (frame(1, false, true), 1, u8::MAX, "U of a frame it gets"),
            (frame(0, false, true), 1, u8::MAX, "U of a lower layer"),
            (frame(2, false, true), 1, 1, "U of a frame it does not get"),
            (key(), 0, u8::MAX, "a key frame"),
        ] {
            assert_eq!(frame.temporal_reach(current), expected, "{remark}");
        }
    }
}
