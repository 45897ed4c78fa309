//! MP4 files as a source of samples (ISO/IEC 14496-12, -14 and -15), from any `Read + Seek`.
//!
//! [`Mp4`] finds the index first or last, reads plain and fragmented files, applies edit lists, and
//! gives the frames of a video and an audio track by decoding time while it reads the file forward.
//! [`Mp4::upcoming`] tells a reader over a network what comes. [`SampleIndex`] says where samples are,
//! without reading them.
//!
//! Small boxes are read by the crate `mp4-atom`, once their sizes are checked; sample tables stay
//! as they are in the file. Left out: encryption, media in other files, compressed indexes (all
//! three are refused), rotation, subtitles.

mod boxes;
mod configs;
mod description;
mod edits;
mod error;
mod file;
mod fragment;
mod index;
mod input;
mod lane;
mod movie;
mod nal;
mod reorder;
mod seek;
mod tables;
mod walk;

pub use error::Mp4Error;
pub use file::{Mp4, Sample};
pub use movie::Track;
pub use walk::{IndexedSample, Mark, SampleIndex, Walk};

/// What a file may take. What is beyond is [`Mp4Error::TooLarge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of `moov`, and of each `moof`. Default 64 MiB: about ten hours of video and audio.
    ///
    /// A channel takes up to twice this while it opens a file.
    pub index_bytes: u64,
    /// Samples of a track in the index, of a run in a fragment, and of all fragments that a search
    /// goes through. Default 16 Mi: three days at 60 per second.
    pub samples: u32,
    /// Fragments that [`Mp4::next_sample`] reads, counted from the start or the last seek. Default:
    /// no limit, a recording may have run for months.
    pub fragments_read: u32,
    /// Samples of these fragments in the selected tracks, empty ones among them; a run without any
    /// counts as one. Default: no limit.
    ///
    /// A run takes 20 bytes, and can declare [`Limits::samples`] of no size.
    pub fragment_samples_read: u64,
    /// Bytes of a sample. Default 16 MiB.
    pub sample_bytes: u32,
    /// Bytes of samples that are kept so that the file is read forward. Default 8 MiB; a sample may
    /// come on top.
    ///
    /// Below the distance of the tracks in the file reading goes back and forth.
    pub reorder_bytes: u64,
    /// Tracks. Default 64.
    pub tracks: u32,
    /// Entries of a track's edit list. Default 128; each costs a walk through the tables.
    pub edits: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            index_bytes: 64 << 20,
            samples: 16 << 20,
            fragments_read: u32::MAX,
            fragment_samples_read: u64::MAX,
            sample_bytes: 16 << 20,
            reorder_bytes: 8 << 20,
            tracks: 64,
            edits: 128,
        }
    }
}
