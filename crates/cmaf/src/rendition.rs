//! One rendition: samples are gathered into parts, and parts into segments.
//!
//! Where segments end is decided for all renditions together in `segmenter.rs`. A part ends where one more
//! sample would make it longer than the part target, so that all but the last of a segment are as long as
//! whole frames allow.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use media::{Frame, MediaKind, Timestamp, TrackId};

use crate::chunk::{ChunkHead, Sample, write_chunk};
use crate::{Counters, Format, Init, Output, Part, Segment, SegmentStart, Settings, init};

/// Where segments of all renditions begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Boundary {
    pub(crate) msn: u64,
    /// Media time at which its first picture is presented.
    pub(crate) time: Timestamp,
    /// Media time of the first audio that belongs to it: the same, or where a publication begins, when its
    /// first picture is decoded.
    pub(crate) audio_from: Timestamp,
    pub(crate) discontinuity_sequence: u64,
    pub(crate) is_discontinuity: bool,
    /// Wall clock minus media time.
    pub(crate) wall_offset: Timestamp,
}

/// An audio frame that waits until it is known which segment it belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) time: Timestamp,
    pub(crate) format: Arc<Format>,
    pub(crate) frame: Arc<Frame>,
}

#[derive(Debug)]
pub(crate) struct Rendition {
    pub(crate) id: TrackId,
    pub(crate) format: Arc<Format>,
    pub(crate) part_target: Timestamp,
    /// Frames came since the publication began or was broken.
    pub(crate) is_present: bool,
    /// The segment that it is at; `None` before the first.
    pub(crate) at: Option<Boundary>,
    /// The first segment that it may begin with.
    pub(crate) joins_at: u64,
    /// Longest segment at present.
    pub(crate) segment_max: Timestamp,
    /// Wall clock of the newest segment.
    dated: Timestamp,
    /// How much later than it is decoded its first picture is shown.
    presentation_delay: Option<Timestamp>,
    /// Duration of the longest segment that is complete.
    longest: Timestamp,
    /// Media time at which all that is finished ends.
    left_at: Timestamp,
    /// Decode time of the first sample of the segment, if it has one.
    pub(crate) segment_start: Option<i64>,
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) waiting_bytes: usize,
    /// The newest sample: the next one says how long it is.
    pub(crate) last: Option<Sample>,
    /// Duration of a sample as it was last.
    nominal: u32,
    part: Vec<Sample>,
    part_ticks: i64,
    part_bytes: usize,
    parts: u32,
    segment_ticks: i64,
    init: Option<u64>,
    sequence: u32,
    part_bytes_max: usize,
    dated_parts: bool,
}

impl Rendition {
    pub(crate) fn new(
        id: TrackId,
        format: Arc<Format>,
        part_target: Timestamp,
        joins_at: u64,
        settings: &Settings,
    ) -> Self {
        let rate = match format.kind() {
            MediaKind::Video => u32::from(format.frame_rate.map_or(30, |rate| rate as u16).max(1)),
            _ => 50,
        };
        Self {
            id,
            nominal: (format.timescale() / rate).max(1),
            format,
            part_target,
            is_present: false,
            at: None,
            joins_at,
            segment_max: settings.segment_max,
            dated: Timestamp::ZERO,
            presentation_delay: None,
            longest: Timestamp::ZERO,
            left_at: Timestamp::ZERO,
            segment_start: None,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            last: None,
            part: Vec::new(),
            part_ticks: 0,
            part_bytes: 0,
            parts: 0,
            segment_ticks: 0,
            init: None,
            sequence: 0,
            part_bytes_max: settings.part_bytes,
            dated_parts: settings.dated_parts,
        }
    }

    pub(crate) fn timescale(&self) -> u32 {
        self.format.timescale()
    }

    pub(crate) fn nominal(&self) -> u32 {
        self.nominal
    }

    /// The segment that comes next.
    pub(crate) fn next_msn(&self) -> u64 {
        self.at.map_or(self.joins_at, |at| at.msn + 1)
    }

    /// Media time at which what it has ends.
    pub(crate) fn end(&self) -> Option<Timestamp> {
        let last = self.last.as_ref()?;
        Some(Timestamp::from_ticks(last.dts + i64::from(self.nominal), self.timescale()))
    }

    /// The longest of its segments, up to the one that it is at.
    pub(crate) fn longest(&self) -> Timestamp {
        let (Some(start), Some(end)) = (self.segment_start, self.end()) else { return self.longest };
        let elapsed = end - Timestamp::from_ticks(start, self.timescale());
        elapsed.min(self.segment_max).max(self.longest)
    }

    /// The first tick of a clock that is behind everything that there is.
    pub(crate) fn free_from(&self, rate: u32) -> i64 {
        let from = self.end().map_or(self.left_at, |end| end.max(self.left_at));
        let ticks = from.ticks(rate);
        ticks + i64::from(Timestamp::from_ticks(ticks, rate) < from)
    }

    /// The newest sample lasts up to `dts`, which is later than its own time.
    pub(crate) fn finish_last(&mut self, dts: i64, counters: &mut Counters, out: &mut VecDeque<Output>) {
        let Some(mut last) = self.last.take() else { return };
        last.duration = u32::try_from(dts - last.dts).unwrap_or(1).max(1);
        if last.duration <= NOMINAL_MAX_SECONDS * self.timescale() {
            self.nominal = last.duration;
        }
        let end = Timestamp::from_ticks(last.dts + i64::from(last.duration), self.timescale());
        self.left_at = self.left_at.max(end);
        self.add(last, counters, out);
    }

    /// The next sample; a segment is open, and the sample before is finished. `samples` is how many the
    /// frame says that it has.
    pub(crate) fn begin_sample(&mut self, sample: Sample, samples: Option<u32>, out: &mut VecDeque<Output>) {
        let at = self.at.expect("samples are placed into segments");
        if self.segment_start.is_none() {
            self.segment_start = Some(sample.dts);
            let timescale = self.timescale();
            let time = |ticks| Timestamp::from_ticks(ticks, timescale);
            let presented = time(sample.dts + i64::from(sample.composition));
            // The same for all segments, so that dates are as far apart as segments are long.
            let delay =
                *self.presentation_delay.get_or_insert((presented - time(sample.dts)).max(Timestamp::ZERO));
            let wall_clock = self.date(time(sample.dts) + delay + at.wall_offset);
            out.push_back(Output::SegmentStart(SegmentStart {
                rendition: self.id,
                msn: at.msn,
                start: time(sample.dts),
                presented,
                discontinuity_sequence: at.discontinuity_sequence,
                wall_clock,
                init: self.init,
            }));
        }
        if let Some(samples) = samples {
            self.nominal = samples;
        }
        self.last = Some(sample);
    }

    /// Adds a sample whose duration is known.
    fn add(&mut self, sample: Sample, counters: &mut Counters, out: &mut VecDeque<Output>) {
        let target = self.part_target.ticks(self.timescale()).max(1);
        let (duration, bytes) = (i64::from(sample.duration), sample.frame.data().len());
        if self.part_ticks + duration > target
            || self.part_bytes + bytes > self.part_bytes_max
            || self.part.len() == PART_SAMPLES_MAX
        {
            self.end_part(counters, out);
        }
        self.part_ticks += duration;
        self.part_bytes += bytes;
        self.part.push(sample);
        // The next one would not fit: the part need not wait for it.
        if self.part_ticks + i64::from(self.nominal) > target {
            self.end_part(counters, out);
        }
    }

    fn end_part(&mut self, counters: &mut Counters, out: &mut VecDeque<Output>) {
        let (Some(first), Some(at)) = (self.part.first(), self.at) else { return };
        let is_video = self.id.kind == MediaKind::Video;
        let presented = Timestamp::from_ticks(first.dts + i64::from(first.composition), self.timescale());
        self.sequence = self.sequence.wrapping_add(1);
        let head = ChunkHead {
            track_id: track_id(self.id),
            sequence: self.sequence,
            is_video,
            wall_clock: (self.parts == 0 || self.dated_parts)
                .then(|| (presented + at.wall_offset).to_duration()),
        };
        let duration = Timestamp::from_ticks(self.part_ticks, self.timescale());
        if duration > self.part_target {
            counters.parts_over_target += 1;
            tracing::trace!(rendition = ?self.id, ?duration, "a frame is longer than a part may be");
        }
        out.push_back(Output::Part(Part {
            rendition: self.id,
            msn: at.msn,
            number: self.parts,
            duration,
            samples: self.part.len() as u32,
            independent: !is_video || first.is_key,
            bytes: Bytes::from(write_chunk(head, &self.part)),
        }));
        self.parts += 1;
        self.segment_ticks += self.part_ticks;
        self.part.clear();
        (self.part_ticks, self.part_bytes) = (0, 0);
    }

    /// The date of a segment: behind that of the segment before, whatever the clocks say.
    fn date(&mut self, wall_clock: Timestamp) -> Duration {
        let behind = self.dated + Timestamp::from_millis(1);
        self.dated = wall_clock.max(behind);
        self.dated.to_duration()
    }

    /// Goes on to a segment. The one that it is at is complete; one without samples is a gap up to `end`.
    pub(crate) fn enter(
        &mut self,
        next: Boundary,
        end: Timestamp,
        counters: &mut Counters,
        out: &mut VecDeque<Output>,
    ) {
        self.leave(end, counters, out);
        self.at = Some(next);
    }

    /// The segment that it is at is complete.
    pub(crate) fn leave(&mut self, end: Timestamp, counters: &mut Counters, out: &mut VecDeque<Output>) {
        if let Some(last) = &self.last {
            let end = self.segment_start.unwrap_or(last.dts) + self.segment_max.ticks(self.timescale());
            let dts = (last.dts + i64::from(self.nominal)).min(end);
            self.finish_last(dts, counters, out);
        }
        self.end_part(counters, out);
        let Some(at) = self.at.take() else { return };
        self.joins_at = at.msn + 1;
        let gap = self.segment_start.take().is_none();
        if gap && self.is_new() {
            // There is no rendition before its first sample.
            return;
        }
        let mut duration = Timestamp::from_ticks(self.segment_ticks, self.timescale());
        if gap {
            let start = at.time.max(self.left_at);
            duration = (end - start).min(self.segment_max).max(Timestamp::from_millis(1));
            self.left_at = start + duration;
            let wall_clock = self.date(start + at.wall_offset);
            out.push_back(Output::SegmentStart(SegmentStart {
                rendition: self.id,
                msn: at.msn,
                start,
                presented: start,
                discontinuity_sequence: at.discontinuity_sequence,
                wall_clock,
                init: None,
            }));
        }
        self.longest = self.longest.max(duration);
        out.push_back(Output::Segment(Segment { rendition: self.id, msn: at.msn, duration, gap }));
        (self.parts, self.segment_ticks) = (0, 0);
    }

    /// Takes the format of the sample that the segment begins with; whether it is another.
    pub(crate) fn set_format(&mut self, format: &Arc<Format>, out: &mut VecDeque<Output>) {
        if self.init.is_some() && self.format.is_same(format) {
            return;
        }
        let number = self.at.map_or(self.joins_at, |at| at.msn);
        self.init = Some(number);
        self.format = Arc::clone(format);
        out.push_back(Output::Init(Init {
            rendition: self.id,
            number,
            format: Arc::clone(format),
            part_target: self.part_target,
            bytes: Bytes::from(init::init_segment(format, track_id(self.id), format.timescale())),
        }));
    }

    /// Whether it has had no sample yet.
    pub(crate) fn is_new(&self) -> bool {
        self.init.is_none()
    }

    /// Whether samples of a format go behind those that are there without a new init segment.
    pub(crate) fn continues(&self, format: &Arc<Format>) -> bool {
        self.init.is_none() || Arc::ptr_eq(&self.format, format) || self.format.is_same(format)
    }
}

/// Number of a track in boxes: 1 is video.
pub(crate) fn track_id(track: TrackId) -> u32 {
    match track.kind {
        MediaKind::Video => 1,
        _ => 2 + u32::from(track.index),
    }
}

/// What is longer than this is a pause, and the next sample is not expected to be as long.
const NOMINAL_MAX_SECONDS: u32 = 2;
/// Samples of a part: what only a clock that has stopped reaches.
const PART_SAMPLES_MAX: usize = 1024;
