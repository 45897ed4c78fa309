//! The first copy of each object, with which all others are compared, and the frames in it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::sample::Sample;
use crate::stamp;

/// Objects that have been fetched lately, by path.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    by_path: HashMap<Box<str>, Rc<RefCell<ObjectCopy>>>,
}

/// One object as far as any player has it.
#[derive(Debug)]
pub(crate) struct ObjectCopy {
    bytes: Vec<u8>,
    /// Its length, once one player has all of it.
    length: Option<usize>,
    /// What was found in it so far: `moof` and `mdat`.
    pub(crate) chunks: Vec<Chunk>,
    parsed: usize,
    made_at: Instant,
}

/// Frames that came together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Where it ends in its object.
    pub(crate) end: usize,
    /// Number of its first frame, as the publisher counts.
    pub(crate) first_frame: u64,
    pub(crate) frames: u64,
    /// When the publisher sent that frame, wall clock.
    pub(crate) sent_ns: u64,
}

impl Copies {
    /// The copy of an object, perhaps empty.
    pub(crate) fn of(&mut self, path: &str, now: Instant) -> Rc<RefCell<ObjectCopy>> {
        if let Some(known) = self.by_path.get(path) {
            return Rc::clone(known);
        }
        let copy =
            ObjectCopy { bytes: Vec::new(), length: None, chunks: Vec::new(), parsed: 0, made_at: now };
        let copy = Rc::new(RefCell::new(copy));
        self.by_path.insert(path.into(), Rc::clone(&copy));
        copy
    }

    /// Forgets what no player asks for any more.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.by_path.retain(|_, copy| now.duration_since(copy.borrow().made_at) < KEPT_FOR);
    }
}

impl ObjectCopy {
    /// Compares what a player got from `offset` on with what others got, and keeps what is new.
    pub(crate) fn compare(
        &mut self,
        offset: usize,
        bytes: &[u8],
        source: Option<&Sample>,
    ) -> Result<(), String> {
        let known = self.bytes.get(offset..).unwrap_or_default();
        let both = known.len().min(bytes.len());
        if known[..both] != bytes[..both] || self.length.is_some_and(|length| offset + bytes.len() > length) {
            return Err("an object differs between two players".to_owned());
        }
        if both < bytes.len() {
            self.bytes.extend_from_slice(&bytes[both..]);
            self.find_chunks(source)?;
        }
        Ok(())
    }

    /// Whether, of so many chunks, the last is the last of a complete object.
    pub(crate) fn is_last(&self, chunks: usize) -> bool {
        self.parsed == self.bytes.len() && chunks == self.chunks.len()
    }

    /// A player has all of it.
    pub(crate) fn complete(&mut self, length: usize) -> Result<(), String> {
        if length < self.bytes.len() || *self.length.get_or_insert(length) != length {
            return Err("an object differs between two players".to_owned());
        }
        Ok(())
    }

    fn find_chunks(&mut self, source: Option<&Sample>) -> Result<(), String> {
        // An `mdat` ends a chunk; boxes have a length of 32 bits here (ISO/IEC 14496-12 section 4.2).
        while let Some(head) = self.bytes.get(self.parsed..self.parsed + 8) {
            let size = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let is_media = &head[4..] == b"mdat";
            if size < 8 {
                return Err("a box without a length".to_owned());
            }
            let Some(content) = self.bytes.get(self.parsed + 8..self.parsed + size) else { return Ok(()) };
            if is_media {
                let mut stamps = stamp::find_all(content);
                if let Some(first) = stamps.next() {
                    let mut frames = 1;
                    for stamp in stamps {
                        if stamp.frame != first.frame + frames {
                            return Err("frames are missing within a part".to_owned());
                        }
                        frames += 1;
                    }
                    if source.is_some_and(|sample| !sample.has_video(first.frame, frames, content)) {
                        return Err("frames differ from what was published".to_owned());
                    }
                    let (first_frame, sent_ns) = (first.frame, first.sent_ns);
                    self.chunks.push(Chunk { end: self.parsed + size, first_frame, frames, sent_ns });
                }
            }
            self.parsed += size;
        }
        Ok(())
    }
}

const KEPT_FOR: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::stamp::Stamp;

    fn box_of(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
        [&(content.len() as u32 + 8).to_be_bytes()[..], kind, content].concat()
    }

    fn frame(number: u64) -> Vec<u8> {
        let mut body = stamp::make_room(&[0x17, 1, 0, 0, 0, 0, 0, 0, 2, 0x65, 1]);
        stamp::write(&mut body, &Stamp { frame: number, sent_ns: 1000 + number, ..Stamp::default() });
        body.split_off(stamp::AVC_TAG_HEADER_BYTES)
    }

    #[test]
    fn chunks_are_found_however_the_bytes_come_and_each_difference_is_seen() {
        let two = [frame(7), frame(8)].concat();
        let object =
            [box_of(b"moof", b"x"), box_of(b"mdat", &two), box_of(b"moof", b"y"), box_of(b"mdat", &frame(9))]
                .concat();
        let mut copies = Copies::default();
        let copy = copies.of("/a", clock::monotonic());
        for (index, piece) in object.chunks(5).enumerate() {
            copy.borrow_mut().compare(index * 5, piece, None).expect("the first copy");
        }
        let first = Chunk { end: 9 + 8 + two.len(), first_frame: 7, frames: 2, sent_ns: 1007 };
        let second = Chunk { end: object.len(), first_frame: 9, frames: 1, sent_ns: 1009 };
        assert_eq!(copy.borrow().chunks, [first, second]);
        assert_eq!(copy.borrow_mut().complete(object.len()), Ok(()));
        for at in 0..object.len() {
            let mut other = object.clone();
            other[at] ^= 1;
            assert!(copy.borrow_mut().compare(0, &other, None).is_err(), "byte {at}");
        }
        assert!(copy.borrow_mut().compare(object.len(), b"x", None).is_err(), "a longer one");
        assert!(copy.borrow_mut().complete(object.len() - 1).is_err(), "a shorter one");
    }

    #[test]
    fn a_frame_that_is_missing_in_a_part_is_an_error() {
        let object = box_of(b"mdat", &[frame(7), frame(9)].concat());
        let copy = Copies::default().of("/a", clock::monotonic());
        assert!(copy.borrow_mut().compare(0, &object, None).is_err());
    }

    #[test]
    fn frames_are_those_of_the_sample() {
        let mut sample = Sample::embedded().expect("the embedded sample is readable");
        let mut timeline = crate::sample::Timeline::new(1);
        let mut content = Vec::new();
        let mut frames = 0;
        while frames < 5 {
            let due = timeline.take(&mut sample, 77);
            if due.kind == rtmp::MediaKind::Video {
                content.extend_from_slice(&due.body[stamp::AVC_TAG_HEADER_BYTES..]);
                frames += 1;
            }
        }
        assert!(sample.has_video(0, 5, &content));
        assert!(!sample.has_video(1, 5, &content));
        assert!(!sample.has_video(0, 5, &content[..content.len() - 1]));
        *content.last_mut().expect("bytes") ^= 1;
        assert!(!sample.has_video(0, 5, &content));
    }
}
