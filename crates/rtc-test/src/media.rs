//! Packets of the test streams: each has its number in its payload.

use rtp::HeaderFields;

use crate::{AUDIO_SSRC, OPUS, VIDEO_SSRC, VP8};

/// Header of packet `number` of an audio stream of 50 packets a second.
pub fn audio_fields(number: u32) -> HeaderFields {
    HeaderFields {
        marker: number == 0,
        payload_type: OPUS,
        sequence_number: number as u16,
        timestamp: number.wrapping_mul(960),
        ssrc: AUDIO_SSRC,
    }
}

/// Its payload. Configuration 31 (CELT, full band, 20 ms), mono, one frame; then its number.
pub fn audio_payload(number: u32) -> [u8; 60] {
    let mut payload = [0xf8; 60];
    payload[4..8].copy_from_slice(&number.to_be_bytes());
    payload
}

/// Header of frame `number` of a VP8 stream of 30 frames a second, one packet each.
pub fn video_fields(number: u32) -> HeaderFields {
    HeaderFields {
        marker: true,
        payload_type: VP8,
        sequence_number: number as u16,
        timestamp: number.wrapping_mul(3000),
        ssrc: VIDEO_SSRC,
    }
}

/// A VP8 frame in one packet (RFC 7741): descriptor, frame tag, and for a key frame start code and
/// size.
pub fn vp8_frame(number: u32, key: bool, len: usize) -> Vec<u8> {
    let mut payload = vec![0x10];
    if key {
        payload.extend([0x10, 0x02, 0x00, 0x9d, 0x01, 0x2a, 0x40, 0x01, 0xf0, 0x00]);
    } else {
        payload.extend([0x11, 0x02, 0x00]);
    }
    payload.extend(number.to_be_bytes());
    payload.resize(len.max(payload.len()), 0x5a);
    payload
}
