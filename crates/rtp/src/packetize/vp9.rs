//! VP9 pictures to payloads (RFC 9628): a descriptor with a picture id of 15 bits, then a piece of the picture.
//!
//! ```text
//! |I=1|P|L=0|F=0|B|E|V=0|Z=0|M=1| picture id (15) |
//! ```
//! Non-flexible mode without layers: a picture refers to earlier ones or, when it is a key frame, to none. A superframe
//! (several frames of which one is shown) is one picture and stays together.

use super::{FrameWriter, cut};

/// Writes one picture, which must not be empty, with the picture id given; its low 15 bits count. `is_key`: it refers to no
/// earlier one.
pub fn packetize(
    picture: &[u8],
    picture_id: u16,
    is_key: bool,
    payload_bytes_max: usize,
    writer: &mut FrameWriter<'_>,
) {
    let [high, low] = (picture_id | 0x8000).to_be_bytes();
    let flags = 0x80 | u8::from(!is_key) << 6;
    cut(picture, payload_bytes_max, writer, |is_first, is_last| {
        [flags | u8::from(is_first) << 3 | u8::from(is_last) << 2, high, low]
    });
}

/// Whether a decoder can start with the picture: its first frame is a key frame ("VP9 Bitstream & Decoding Process
/// Specification", 6.2). `None` if it is too short to say or no VP9.
///
/// ```text
///  marker 10 | profile low 1, high 1 [profile 3: 0] | show existing 1 | not key 1 | ..
/// ```
pub fn is_key_frame(picture: &[u8]) -> Option<bool> {
    let first = *picture.first()?;
    if first >> 6 != 2 {
        return None;
    }
    // Profile 3 has a reserved bit behind it.
    let behind_profile = if first & 0x30 == 0x30 { first << 5 } else { first << 4 };
    Some(behind_profile & 0xc0 == 0)
}
