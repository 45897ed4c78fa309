//! Numbers of the publisher that a bridge is to a stream of packets. They never reach a viewer: each has its own.

use rtp::payload::Codec;

/// SSRC of video.
pub const VIDEO_SSRC: u32 = 1;
/// SSRC of audio.
pub const AUDIO_SSRC: u32 = 2;

/// Payload type of a codec: the static one where there is one (RFC 3551 section 6), else of the dynamic range.
pub fn payload_type(codec: Codec) -> u8 {
    match codec {
        Codec::Pcmu => 0,
        Codec::Pcma => 8,
        Codec::H264 => 96,
        Codec::H265 => 97,
        Codec::Av1 => 98,
        Codec::Vp9 => 99,
        Codec::Vp8 => 100,
        Codec::Opus => 111,
        _ => 127,
    }
}
