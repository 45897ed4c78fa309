//! How long parts and segments are to be, and what a stream may take.

use media::Timestamp;

/// Settings and limits of a [`Segmenter`](crate::Segmenter).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Duration that parts should have. Default 200 ms.
    ///
    /// Shorter parts delay players less and cost more requests. What parts may have at most is
    /// announced per rendition: as many whole frames as come nearest to this.
    pub part: Timestamp,
    /// Duration that segments should have. Default 2 s; they end at the key frame nearest to it.
    pub segment: Timestamp,
    /// Longest segment, whatever the key frames. Default 12 s.
    ///
    /// A GOP that is longer is cut at a picture, and the segment behind it does not begin with a key
    /// frame. The announced target duration is never more than this.
    pub segment_max: Timestamp,
    /// Distance of the publisher's key frames, if it is known from before. Default `None`: the first
    /// segment says it.
    pub key_frame_interval: Option<Timestamp>,
    /// How far tracks may be apart in the order of frames. Default 3 s.
    ///
    /// Audio waits so long for the picture beside it, which may be one at which its segment ends. What
    /// waits longer goes into the segment at hand.
    pub interleave: Timestamp,
    /// Audio renditions; tracks beyond are refused. Default 4. Of video there is one.
    pub audio_tracks: usize,
    /// Bytes of a part. Default 8 MiB; a part ends early before it takes more, and a frame that is
    /// larger is dropped.
    pub part_bytes: usize,
    /// Frames that wait for what decides where they go, of a rendition. Default 2048; the oldest then go
    /// into the segment at hand.
    pub waiting_frames: usize,
    /// Bytes of these frames. Default 16 MiB; the same.
    pub waiting_bytes: usize,
    /// Media sequence number of the first segment. Default 0.
    ///
    /// Names of segments and init segments are made of it, and caches keep them for long: a server
    /// that may have had the stream before gives the seconds since 1970, which no stream of segments of
    /// a second or more overtakes.
    pub first_msn: u64,
    /// Whether each part has its wall clock in front (`prft`), not only the first of a segment. Default
    /// `false`. Recordings have it, so that whatever is left of a file says when it was.
    pub dated_parts: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            part: Timestamp::from_millis(200),
            segment: Timestamp::from_millis(2_000),
            segment_max: Timestamp::from_millis(12_000),
            key_frame_interval: None,
            interleave: Timestamp::from_millis(3_000),
            audio_tracks: 4,
            part_bytes: 8 << 20,
            waiting_frames: 2048,
            waiting_bytes: 16 << 20,
            first_msn: 0,
            dated_parts: false,
        }
    }
}
