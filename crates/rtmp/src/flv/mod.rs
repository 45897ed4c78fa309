//! FLV: file and tag framing, and what a tag's body says about itself.
//!
//! "Adobe Flash Video File Format Specification", version 10.1, annex E; the bodies of newer codecs are
//! from "Enhanced RTMP (v2)", which calls itself the extension of both FLV and RTMP. An RTMP audio, video
//! or data message carries exactly one tag body.
//!
//! `file.rs` frames tags. `tag.rs` reads the header of a body, old and enhanced. [`read_frames`] makes
//! [`media::Frame`]s of messages, [`TagBody`] tag bodies of frames; [`read_tag_head`] is for
//! indexes of files.

mod file;
mod frame;
mod tag;

pub use file::{
    FILE_HEADER_BYTES, FlvReader, TAG_HEADER_BYTES, Tag, write_file_header, write_tag, write_tag_parts,
};
pub use frame::{TagBody, TagHead, read_frames, read_tag_head};
pub use media::Codec;

use std::fmt;

/// Why FLV bytes were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlvError {
    /// A tag body ends before its own header does.
    Truncated,
    /// The file does not begin with an FLV header.
    NotFlv,
    /// A tag declares more bytes than the reader's limit.
    TagTooLarge,
}

impl FlvError {
    /// The cause in a few words.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Truncated => "truncated FLV tag",
            Self::NotFlv => "not an FLV file",
            Self::TagTooLarge => "FLV tag too large",
        }
    }
}

impl fmt::Display for FlvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for FlvError {}
