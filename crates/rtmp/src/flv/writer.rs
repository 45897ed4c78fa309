//! Tags to bytes (FLV 10.1, E.2 to E.4.1).
//!
//! ```text
//!  file header:  "FLV" | version 1 | flags: 0000 0a0v | header bytes 9, 32 | previous tag size 0, 32
//!  tag:          type 8 | body bytes 24 | timestamp 24 | its top 8 bits | stream id 0, 24
//!                body | previous tag size = body bytes + 11, 32
//! ```

use crate::MediaKind;
use crate::message::{MESSAGE_BYTES_MAX, type_id};

/// Appends the file header and the previous-tag-size of 0 that follows it: 13 bytes.
pub fn write_file_header(out: &mut Vec<u8>, has_audio: bool, has_video: bool) {
    let flags = u8::from(has_audio) << 2 | u8::from(has_video);
    out.extend_from_slice(&[b'F', b'L', b'V', 1, flags, 0, 0, 0, 9, 0, 0, 0, 0]);
}

/// Appends one tag: header, body and previous-tag-size, 15 bytes more than the body.
///
/// # Panics
///
/// If `body` is longer than 2^24-1 bytes: no message that was received can be.
pub fn write_tag(out: &mut Vec<u8>, kind: MediaKind, timestamp: u32, body: &[u8]) {
    write_tag_parts(out, kind, timestamp, [&[], body]);
}

/// The same with a body in two parts ([`TagBody::parts`](super::TagBody::parts)).
///
/// # Panics
///
/// If the body is longer than 2^24-1 bytes.
pub fn write_tag_parts(out: &mut Vec<u8>, kind: MediaKind, timestamp: u32, [head, rest]: [&[u8]; 2]) {
    let length = head.len() + rest.len();
    assert!(length <= MESSAGE_BYTES_MAX, "a tag length is 24 bits");
    let [_, l0, l1, l2] = (length as u32).to_be_bytes();
    let [t3, t0, t1, t2] = timestamp.to_be_bytes();
    out.reserve(length + 15);
    out.extend_from_slice(&[type_id(kind), l0, l1, l2, t0, t1, t2, t3, 0, 0, 0]);
    out.extend_from_slice(head);
    out.extend_from_slice(rest);
    out.extend_from_slice(&(length as u32 + 11).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_these_bytes() {
        let mut file = Vec::new();
        write_file_header(&mut file, true, false);
        write_tag(&mut file, MediaKind::Audio, 0x0102_0304, b"ab");
        assert_eq!(file, *b"FLV\x01\x04\0\0\0\x09\0\0\0\0\x08\0\0\x02\x02\x03\x04\x01\0\0\0ab\0\0\0\x0d");
    }
}
