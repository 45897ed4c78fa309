//! What a segmenter gives: the bytes, and what playlists have to say about them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use media::{Timestamp, TrackId};

use crate::Format;

/// What a [`Segmenter`](crate::Segmenter) has made, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// A rendition begins, or its format changes with the segment that comes next.
    Init(Init),
    /// A segment of a rendition begins.
    SegmentStart(SegmentStart),
    /// The next part of the segment that a rendition is at.
    Part(Part),
    /// The segment that a rendition is at is complete.
    Segment(Segment),
    /// The publication is over.
    End,
}

/// Init segment (`ftyp` and `moov`) of a rendition.
#[derive(Debug, Clone, PartialEq)]
pub struct Init {
    /// The rendition: the track that it is made of.
    pub rendition: TrackId,
    /// Its number: that of the first segment that needs it.
    pub number: u64,
    /// How the rendition is coded from here on.
    pub format: Arc<Format>,
    /// Longest duration that parts have. Changes only with a restart of the publication.
    pub part_target: Timestamp,
    /// The init segment.
    pub bytes: Bytes,
}

/// A segment begins. Segments of all renditions with the same sequence number begin at the same time,
/// to the frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentStart {
    /// The rendition.
    pub rendition: TrackId,
    /// Media sequence number.
    pub msn: u64,
    /// Media time at which its first sample is decoded.
    pub start: Timestamp,
    /// Media time at which it is shown or heard.
    pub presented: Timestamp,
    /// Discontinuities up to and with this segment.
    pub discontinuity_sequence: u64,
    /// Wall clock when that was captured, since 1970. Those of segments without a discontinuity between
    /// them are as far apart as their starts.
    pub wall_clock: Duration,
    /// The init segment that it needs; `None` if it is a gap.
    pub init: Option<u64>,
}

/// A part: one chunk, `moof` and `mdat`; the first of a segment has a `prft` before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The rendition.
    pub rendition: TrackId,
    /// The segment that it is of.
    pub msn: u64,
    /// Its number within the segment, from 0.
    pub number: u32,
    /// Sum of its samples' durations.
    pub duration: Timestamp,
    /// Samples in it.
    pub samples: u32,
    /// Whether a decoder can begin with it.
    pub independent: bool,
    /// The chunk.
    pub bytes: Bytes,
}

/// A segment is complete: it is its parts, one behind the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The rendition.
    pub rendition: TrackId,
    /// Media sequence number.
    pub msn: u64,
    /// Sum of its parts' durations, or how long there is nothing.
    pub duration: Timestamp,
    /// Whether there are no samples in it.
    pub gap: bool,
}

/// What was left out or made otherwise than asked, since the segmenter began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames of tracks that are not carried: refused codecs, tracks beyond the limit, data.
    pub frames_refused: u64,
    /// Frames that could not be placed: before a configuration, a key frame or the first segment,
    /// without data, too large.
    pub frames_dropped: u64,
    /// Frames whose decoding time did not go on from the frame before and was moved.
    pub times_moved: u64,
    /// Segments that ended without a key frame.
    pub segments_cut: u64,
    /// Parts of a single frame that was longer than a part may be.
    pub parts_over_target: u64,
    /// Jumps of the publisher's clock.
    pub jumps: u64,
}
