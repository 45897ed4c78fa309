//! Fragmented MP4 (CMAF, ISO/IEC 23000-19) of a live stream, made once from its frames, without socket,
//! thread or clock.
//!
//! A [`Segmenter`] takes the frames of a stream and gives init segments, parts and segments of one
//! rendition per track, as shared bytes with what playlists have to say about them. `segmenter.rs`
//! decides where segments begin, for all renditions together; `rendition.rs` gathers the samples of
//! one into parts; `init.rs`, `sample_entry.rs` and `chunk.rs` write boxes, `movie.rs` and `fragment.rs` what
//! a file of several tracks has besides. Playlists, and how long
//! anything is kept, are the business of the crate `hls`.
//!
//! Frames come from the network: whatever they are, durations are positive and true, times never go
//! back, and memory is bounded by [`Settings`].

mod audio;
mod boxes;
mod chunk;
mod codecs;
mod format;
mod fragment;
mod init;
mod movie;
mod output;
mod rendition;
mod sample_entry;
mod segmenter;
mod settings;

pub use chunk::{fragment_head, relocate_chunk};
pub use format::{FRAME_HEAD_BYTES, Format, Refusal};
pub use fragment::{Fragment, FragmentSample};
pub use init::init_segment;
pub use movie::{PLACEHOLDER_AT, PLACEHOLDER_BYTES, SampleTable, complete_movie, file_head};
pub use output::{Counters, Init, Output, Part, Segment, SegmentStart};
pub use segmenter::Segmenter;
pub use settings::Settings;

/// The example of the README, so that it stays true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
