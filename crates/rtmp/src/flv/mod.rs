//! FLV: file and tag framing, and what a tag's body says about itself.
//!
//! "Adobe Flash Video File Format Specification", version 10.1, annex E; the bodies of newer codecs are
//! from "Enhanced RTMP (v2)", which calls itself the extension of both FLV and RTMP. An RTMP audio, video
//! or data message carries exactly one tag body.
//!
//! `writer.rs` and `reader.rs` frame tags. `tag.rs` reads the header of a body, old and enhanced;
//! [`inspect()`] turns it into the few facts a relay decides by, and costs a few nanoseconds; [`video_body`] and
//! [`audio_body`] give the parts of a body to those who do more.
//! `video_format.rs` and `audio_format.rs` look into codec configurations, once per stream, for people to
//! read. `body_writer.rs` and `record.rs` make bodies and configuration records, for streams that come without. Of coded
//! pictures only the first bytes of VP8 and VP9 key frames are looked at, which have their configuration nowhere else.

mod aac;
mod audio_format;
mod av1;
mod avc;
mod bits;
mod body;
mod body_writer;
mod codec;
mod hevc;
mod inspect;
mod reader;
mod record;
mod tag;
mod video_format;
mod vp;
mod writer;

pub use audio_format::{AudioFormat, audio_format};
pub use body::{Body, BodyKind, LegacySound, audio_body, video_body};
pub use body_writer::{Metadata, SoundPart, VideoPart, write_metadata, write_sound_head, write_video_head};
pub use codec::Codec;
pub use inspect::{BodyInfo, BodyRole, inspect};
pub use reader::{FlvReader, Tag};
pub use record::{Record, av1_record, avc_record, hevc_record, opus_head, vp8_record, vp9_record};
pub use video_format::{VideoFormat, video_format};
pub use writer::{write_file_header, write_tag};

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
