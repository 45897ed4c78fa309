//! The sample as tags, and a player of FLV over any byte stream.

use std::io::{ErrorKind, Read};

use media::FrameRole;
use rtmp::MediaKind;
use rtmp::flv::{FlvReader, Tag, read_frames};

use super::tools::sample;

/// Tag bodies up to this size are accepted by the tests' readers.
const TAG_BYTES_MAX: u32 = 16 << 20;

/// All tags of the sample.
pub(crate) fn sample_tags() -> Vec<Tag> {
    let bytes = std::fs::read(sample()).expect("read media/demo.flv; scripts/make-sample makes it");
    tags_of(&bytes)
}

/// All tags of an FLV file but the one that says there are no pictures any more: files end with it,
/// and a publisher who goes on does not send it.
pub(crate) fn tags_of(file: &[u8]) -> Vec<Tag> {
    let mut tags = TagReader::new(file);
    let is_end =
        |tag: &Tag| read_frames(tag.clone().into()).is_ok_and(|(frame, _)| frame.role == FrameRole::End);
    std::iter::from_fn(|| tags.next()).filter(|tag| !is_end(tag)).collect()
}

/// Whether a tag is a frame, and not a configuration or metadata.
pub(crate) fn is_frame(tag: &&Tag) -> bool {
    tag.kind != MediaKind::Data && tag.body.get(1) != Some(&0)
}

/// Reads tags from a byte stream as they come.
pub(crate) struct TagReader<R> {
    source: R,
    reader: FlvReader,
}

impl<R: Read> TagReader<R> {
    /// A reader at the start of an FLV file.
    pub(crate) fn new(source: R) -> Self {
        Self { source, reader: FlvReader::new(TAG_BYTES_MAX) }
    }

    /// The next tag; `None` at the end of the stream. Panics on malformed FLV or when nothing comes in time.
    pub(crate) fn next(&mut self) -> Option<Tag> {
        let mut buffer = [0; 64 << 10];
        loop {
            if let Some(tag) = self.reader.next_tag().expect("well-formed FLV") {
                return Some(tag);
            }
            match self.source.read(&mut buffer) {
                Ok(0) => return None,
                Ok(got) => self.reader.push(&buffer[..got]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("reading FLV: {error}"),
            }
        }
    }
}
