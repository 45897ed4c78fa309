//! FLV files: tags from bytes as they come in, and tags to bytes (FLV 10.1, E.2 to E.4.1).
//!
//! ```text
//!  file header:  "FLV" | version 1 | flags: 0000 0a0v | header bytes 9, 32 | previous tag size 0, 32
//!  tag:          type 8 | body bytes 24 | timestamp 24 | its top 8 bits | stream id 0, 24
//!                body | previous tag size = body bytes + 11, 32
//! ```

use super::FlvError;
use crate::message::{MESSAGE_BYTES_MAX, media_kind, type_id};
use crate::{MediaKind, MediaMessage};

/// One audio, video or data tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// Its type.
    pub kind: MediaKind,
    /// Milliseconds; wraps at 2^32.
    pub timestamp: u32,
    /// Its body, as an RTMP message would carry it.
    pub body: Vec<u8>,
}

impl From<Tag> for MediaMessage {
    fn from(Tag { kind, timestamp, body }: Tag) -> Self {
        Self { kind, timestamp, length: body.len() as u32, payload: body }
    }
}

/// Reads an FLV file or HTTP-FLV response piece by piece.
///
/// **After each [`push`](Self::push), take tags until [`next_tag`](Self::next_tag) gives none.** Then it
/// holds one unfinished tag at most. Encrypted tags and unknown types are skipped; previous-tag-sizes are
/// not checked, because files with wrong ones play everywhere.
#[derive(Debug)]
pub struct FlvReader {
    max_tag_bytes: u32,
    buffer: Vec<u8>,
    /// `buffer[..taken]` was returned already. `0 <= taken <= buffer.len()`.
    taken: usize,
    /// Bytes to drop before the next tag header: rest of the file header, previous-tag-size.
    skip: usize,
    has_header: bool,
}

impl FlvReader {
    /// A reader at the beginning of a file that refuses tag bodies above `max_tag_bytes`.
    pub fn new(max_tag_bytes: u32) -> Self {
        Self { max_tag_bytes, buffer: Vec::new(), taken: 0, skip: 0, has_header: false }
    }

    /// Adds bytes of the file.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole tag; `None` if more bytes are needed. After an error the reader is of no further use.
    pub fn next_tag(&mut self) -> Result<Option<Tag>, FlvError> {
        if !self.has_header {
            if !b"FLV".starts_with(&self.buffer[..self.buffer.len().min(3)]) {
                return Err(FlvError::NotFlv);
            }
            let Some(&[.., s0, s1, s2, s3]) = self.buffer.first_chunk::<9>() else { return Ok(None) };
            let header_bytes = u32::from_be_bytes([s0, s1, s2, s3]);
            if !(9..=FILE_HEADER_BYTES_MAX).contains(&header_bytes) {
                return Err(FlvError::NotFlv);
            }
            self.skip = header_bytes as usize + 4;
            self.has_header = true;
        }
        loop {
            let skipped = self.skip.min(self.buffer.len() - self.taken);
            self.taken += skipped;
            self.skip -= skipped;
            if self.skip > 0 {
                return Ok(None);
            }
            let rest = &self.buffer[self.taken..];
            let Some((head, body)) = rest.split_first_chunk::<TAG_HEADER_BYTES>() else { return Ok(None) };
            let [tag_type, l0, l1, l2, t0, t1, t2, t3, ..] = *head;
            let length = u32::from_be_bytes([0, l0, l1, l2]);
            if length > self.max_tag_bytes {
                return Err(FlvError::TagTooLarge);
            }
            // The type has 5 bits; the sixth says encrypted, and then it matches no kind.
            let kind = media_kind(tag_type & 0x3f);
            let Some(kind) = kind else {
                self.skip = TAG_HEADER_BYTES + length as usize + 4;
                continue;
            };
            let Some(body) = body.get(..length as usize) else { return Ok(None) };
            let tag = Tag { kind, timestamp: u32::from_be_bytes([t3, t0, t1, t2]), body: body.to_vec() };
            self.taken += TAG_HEADER_BYTES + length as usize;
            self.skip = 4;
            return Ok(Some(tag));
        }
    }
}

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

/// Bytes of a tag before its body.
pub const TAG_HEADER_BYTES: usize = 11;
/// Bytes of the file header, without the size that follows it.
pub const FILE_HEADER_BYTES: usize = 9;

/// The header is 9 bytes in version 1; a larger value could only be a later version's.
const FILE_HEADER_BYTES_MAX: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        let mut file = Vec::new();
        write_file_header(&mut file, true, true);
        write_tag(&mut file, MediaKind::Data, 0, b"\x02\x00\x0aonMetaData");
        file.extend_from_slice(&[0x29, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 13]); // encrypted video
        write_tag(&mut file, MediaKind::Video, 0xfeff_fffe, &[0x17, 0, 0, 0, 0]);
        write_tag(&mut file, MediaKind::Audio, 0xffff_ffff, &[]);
        file
    }

    fn tags(reader: &mut FlvReader) -> Vec<Tag> {
        std::iter::from_fn(|| reader.next_tag().unwrap()).collect()
    }

    #[test]
    fn tags_come_out_whatever_the_pieces() {
        let mut reader = FlvReader::new(100);
        reader.push(&file());
        let at_once = tags(&mut reader);
        assert_eq!(
            at_once.iter().map(|tag| tag.timestamp).collect::<Vec<_>>(),
            [0, 0xfeff_fffe, 0xffff_ffff]
        );
        let mut reader = FlvReader::new(100);
        let mut bytewise = Vec::new();
        for byte in file() {
            reader.push(&[byte]);
            bytewise.extend(tags(&mut reader));
        }
        assert_eq!(bytewise, at_once);
    }

    #[test]
    fn a_cut_file_gives_the_tags_before_the_cut() {
        let file = file();
        for length in 0..file.len() {
            let mut reader = FlvReader::new(100);
            reader.push(&file[..length]);
            assert!(tags(&mut reader).len() < 3 || length >= file.len() - 4, "length {length}");
        }
    }

    #[test]
    fn other_files_and_giant_tags_are_refused() {
        for (bytes, error) in [
            (&b"GIF89a"[..], FlvError::NotFlv),
            (b"FLV\x01\x05\0\0\0\x08", FlvError::NotFlv),
            (b"FLV\x01\x05\xff\0\0\x09", FlvError::NotFlv),
            (b"FLV\x01\x05\0\0\0\x09\0\0\0\0\x09\x00\x00\x65\0\0\0\0\0\0\0", FlvError::TagTooLarge),
        ] {
            let mut reader = FlvReader::new(100);
            reader.push(bytes);
            assert_eq!(reader.next_tag(), Err(error));
        }
    }
    #[test]
    fn a_file_is_these_bytes() {
        let mut file = Vec::new();
        write_file_header(&mut file, true, false);
        write_tag(&mut file, MediaKind::Audio, 0x0102_0304, b"ab");
        assert_eq!(file, *b"FLV\x01\x04\0\0\0\x09\0\0\0\0\x08\0\0\x02\x02\x03\x04\x01\0\0\0ab\0\0\0\x0d");
    }
}
