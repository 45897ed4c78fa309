//! Where the segments of a track begin.
//!
//! A segment of video begins with the first key frame that is [`SEGMENT_MIN`] or more behind the begin of the
//! one before it; one of audio with the first frame. Where no key frame comes, it is cut at any picture
//! before it would be longer than [`SEGMENT_MAX`]. This depends on the samples alone, so that a recording has
//! the same segments while it grows and when it is complete.

use hls::on_demand::FileSegment;
use media::{MediaKind, Timestamp};
use mp4::IndexedSample;

use crate::VodError;
use crate::samples::Place;

/// Shortest segment, but for the last: fewer requests, and shorter playlists.
pub(crate) const SEGMENT_MIN: Timestamp = Timestamp::from_millis(4_000);
/// Longest one.
pub(crate) const SEGMENT_MAX: Timestamp = Timestamp::from_millis(12_000);
/// Bytes of a segment after which it is cut at the next sample.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Samples of a segment: 400 pictures a second for as long as one may last, and more.
const SEGMENT_SAMPLES_MAX: u32 = 8_192;
/// Segments of a track: a week of the shortest.
const SEGMENTS_MAX: usize = 150_000;
/// Longest time that one sample may last, or be shown behind or before its decoding. Broken files have any.
const SAMPLE_TIME_MAX: Timestamp = Timestamp::from_millis(600_000);

/// A segment of a track.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Where its samples begin.
    pub(crate) place: Place,
    /// Decoding time of the first.
    pub(crate) dts: Timestamp,
}

/// The segments of a track, as far as its samples are known.
#[derive(Debug)]
pub(crate) struct Cut {
    kind: MediaKind,
    /// Complete ones; `pieces` has one more as long as there is one that is not.
    segments: Vec<FileSegment>,
    /// When the first picture of the first segment is shown; none is before it.
    first_pts: Option<Timestamp>,
    pieces: Vec<Piece>,
    /// The one that is not complete.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    at: Timestamp,
    dts: Timestamp,
    /// Where the last of its samples ends, in time of decoding and as it is shown.
    dts_end: Timestamp,
    end: Timestamp,
    bytes: u64,
    samples: u32,
    is_key: bool,
}

impl Cut {
    pub(crate) fn new(kind: MediaKind) -> Self {
        Self { kind, segments: Vec::new(), first_pts: None, pieces: Vec::new(), open: None }
    }

    /// Takes the next sample, whose place `place` gives.
    ///
    /// # Errors
    /// What no sane file has.
    pub(crate) fn push(
        &mut self,
        sample: &IndexedSample,
        place: impl FnOnce() -> Option<Place>,
    ) -> Result<(), VodError> {
        let last = self.open.as_ref().map_or(sample.dts, |open| open.dts_end.min(sample.dts));
        if sample.duration > SAMPLE_TIME_MAX
            || sample.pts - sample.dts > SAMPLE_TIME_MAX
            || sample.dts - last > SAMPLE_TIME_MAX
        {
            let reason = "its times cannot be true: a sample lasts, or waits, longer than ten minutes";
            return Err(VodError::Unplayable(reason.to_owned()));
        }
        if self.open.as_ref().is_some_and(|open| self.ends(open, sample)) {
            self.close(Some(sample.pts));
        }
        if self.segments.is_empty() {
            self.first_pts = Some(self.first_pts.map_or(sample.pts, |first| first.min(sample.pts)));
        }
        let end = sample.pts + sample.duration;
        match &mut self.open {
            Some(open) => {
                (open.dts_end, open.end) = (sample.dts + sample.duration, open.end.max(end));
                open.bytes += u64::from(sample.size);
                open.samples += 1;
            }
            None => {
                if self.pieces.len() >= SEGMENTS_MAX {
                    let reason = format!("it has more than {SEGMENTS_MAX} segments");
                    return Err(VodError::Unplayable(reason));
                }
                let place = place().ok_or(VodError::NotFound)?;
                self.pieces.push(Piece { place, dts: sample.dts });
                self.open = Some(Open {
                    at: sample.pts,
                    dts: sample.dts,
                    dts_end: sample.dts + sample.duration,
                    end,
                    bytes: sample.size.into(),
                    samples: 1,
                    is_key: sample.is_key,
                });
            }
        }
        Ok(())
    }

    /// There are no more samples.
    pub(crate) fn finish(&mut self) {
        self.close(None);
    }

    /// When the first sample is decoded.
    pub(crate) fn first_dts(&self) -> Option<Timestamp> {
        self.pieces.first().map(|first| first.dts)
    }

    /// When the first is shown.
    pub(crate) fn first_pts(&self) -> Option<Timestamp> {
        self.first_pts
    }

    pub(crate) fn segments(&self) -> &[FileSegment] {
        &self.segments
    }

    /// A complete segment, and when the first sample of the next one is decoded.
    pub(crate) fn piece(&self, number: usize) -> Option<(&Piece, &FileSegment, Option<Timestamp>)> {
        let segment = self.segments.get(number)?;
        Some((self.pieces.get(number)?, segment, self.pieces.get(number + 1).map(|next| next.dts)))
    }

    /// Bytes that it takes.
    pub(crate) fn memory(&self) -> usize {
        self.pieces.len() * (size_of::<Piece>() + size_of::<FileSegment>())
    }

    fn ends(&self, open: &Open, sample: &IndexedSample) -> bool {
        let (length, with) = (sample.dts - open.dts, sample.dts + sample.duration - open.dts);
        let is_place = sample.is_key || self.kind == MediaKind::Audio;
        is_place && length >= SEGMENT_MIN
            || with > SEGMENT_MAX
            || open.bytes + u64::from(sample.size) > SEGMENT_BYTES_MAX
            || open.samples >= SEGMENT_SAMPLES_MAX
    }

    fn close(&mut self, next: Option<Timestamp>) {
        let Some(Open { at, end, bytes, samples, is_key, .. }) = self.open.take() else { return };
        let end = next.unwrap_or(end);
        let duration = (end - at).max(Timestamp::ZERO);
        self.segments.push(FileSegment { at, duration, bytes, samples, is_key });
    }
}
