//! Bytes to tags, as they come in (FLV 10.1, E.2 to E.4.1; the layout is drawn in `writer.rs`).

use super::FlvError;
use crate::message::media_kind;
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
        if !self.has_header && !self.read_file_header()? {
            return Ok(None);
        }
        loop {
            if !self.skip_bytes() {
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

    fn read_file_header(&mut self) -> Result<bool, FlvError> {
        if !b"FLV".starts_with(&self.buffer[..self.buffer.len().min(3)]) {
            return Err(FlvError::NotFlv);
        }
        let Some(&[_, _, _, _, _, s0, s1, s2, s3]) = self.buffer.first_chunk::<9>() else { return Ok(false) };
        let header_bytes = u32::from_be_bytes([s0, s1, s2, s3]);
        if !(9..=FILE_HEADER_BYTES_MAX).contains(&header_bytes) {
            return Err(FlvError::NotFlv);
        }
        self.skip = header_bytes as usize + 4;
        self.has_header = true;
        Ok(true)
    }

    /// Drops what is to be skipped, as far as it is there; true when none is left.
    fn skip_bytes(&mut self) -> bool {
        let skipped = self.skip.min(self.buffer.len() - self.taken);
        self.taken += skipped;
        self.skip -= skipped;
        self.skip == 0
    }
}

const TAG_HEADER_BYTES: usize = 11;

/// The header is 9 bytes in version 1; a larger value could only be a later version's.
const FILE_HEADER_BYTES_MAX: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::super::{write_file_header, write_tag};
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
}
