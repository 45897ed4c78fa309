//! VP9 pictures to payloads (RFC 9628): a descriptor with a picture id of 15 bits, then a piece of
//! the picture.
//!
//! ```text
//! |I=1|P|L=0|F=0|B|E|V=0|Z=0|M=1| picture id (15) |
//! ```
//! Non-flexible mode without layers: a picture refers to earlier ones or, when it is a key frame,
//! to none. A superframe (several frames of which one is shown) is one picture and stays together.

use super::{FrameWriter, cut};

/// Writes one picture, which must not be empty, with the picture id given; its low 15 bits count.
/// `is_key`: it refers to no earlier one.
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

/// Whether a decoder can start with the picture: its first frame is a key frame ("VP9 Bitstream &
/// Decoding Process Specification", 6.2). `None` if it is empty or not VP9.
///
/// ```text
///  marker 10 | profile low 1, high 1 [profile 3: 0] | show existing 1 | not key 1 | ..
/// ```
pub fn is_key_frame(picture: &[u8]) -> Option<bool> {
    let flags = picture.first()? << if profile(picture)? == 3 { 5 } else { 4 };
    Some(flags & 0xc0 == 0)
}

/// Profile of the picture's first frame, 0 to 3; `None` if it is empty or not VP9.
pub fn profile(picture: &[u8]) -> Option<u8> {
    let first = *picture.first()?;
    (first >> 6 == 2).then_some(first >> 5 & 1 | first >> 3 & 2)
}
