//! VP8 frames to payloads (RFC 7741): a descriptor with a picture id of 15 bits, then a piece of the frame.
//!
//! ```text
//! |X|R|N|S|R| PID = 0 |I|L|T|K| RSV |M| picture id (15) |
//! ```
//! Pieces do not follow the partitions (section 4.4 allows that): only the first packet starts one,
//! the first.

use super::{FrameWriter, cut};

/// Writes one frame, which must not be empty, with the picture id given; its low 15 bits count.
pub fn packetize(frame: &[u8], picture_id: u16, payload_bytes_max: usize, writer: &mut FrameWriter<'_>) {
    let [high, low] = (picture_id | 0x8000).to_be_bytes();
    cut(frame, payload_bytes_max, writer, |is_first, _| [0x80 | u8::from(is_first) << 4, 0x80, high, low]);
}

/// Whether a decoder can start with the frame (RFC 6386 section 9.1); `None` if it is too short to
/// say or no VP8.
pub fn is_key_frame(frame: &[u8]) -> Option<bool> {
    let tag = frame.first_chunk::<3>()?;
    let is_key = tag[0] & 1 == 0;
    (!is_key || frame.get(3..6)? == [0x9d, 0x01, 0x2a]).then_some(is_key)
}
