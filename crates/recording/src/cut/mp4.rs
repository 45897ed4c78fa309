//! MP4: parts of all renditions of `cmaf::Segmenter` go into one file, one behind the other.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cmaf::{Format, Output, Part, SegmentStart, Segmenter, file_head, relocate_chunk};
use media::{Frame, MediaKind, Timestamp, TrackId};

use super::Piece;
use crate::settings::Rotation;

#[derive(Debug)]
pub(super) struct Mp4Cutter {
    segmenter: Segmenter,
    rotation: Rotation,
    /// How the segments at hand are coded, by track, and where each track is.
    formats: BTreeMap<TrackId, Arc<Format>>,
    at: BTreeMap<TrackId, u64>,
    /// The file at hand, and the one before as long as some track has not passed its end.
    files: VecDeque<File>,
    next_file: u64,
    newest_msn: Option<u64>,
    frames_dropped: u64,
    out: VecDeque<Piece>,
}

#[derive(Debug)]
struct File {
    number: u64,
    /// The first segment that goes into it.
    first_msn: u64,
    discontinuity: u64,
    start: Duration,
    /// Media time at which it begins.
    base: Timestamp,
    /// How long it is by now.
    length: Timestamp,
    bytes: u64,
    sequence: u32,
    /// How the tracks in it are coded; empty before its first fragment.
    tracks: BTreeMap<TrackId, Arc<Format>>,
    /// The next segment begins another one.
    wants_end: bool,
    /// A fragment was lost: nothing goes behind it.
    is_lost: bool,
}

impl Mp4Cutter {
    pub(super) fn new(rotation: Rotation, fragment: Duration) -> Self {
        let fragment = Timestamp::from_millis(fragment.as_millis() as i64);
        let by_default = cmaf::Settings::default();
        let settings = cmaf::Settings {
            part: fragment,
            segment: fragment.max(by_default.segment),
            // Files begin with key frames, so nothing is gained by cutting a GOP.
            segment_max: LONGEST_GOP,
            dated_parts: true,
            ..by_default
        };
        Self {
            segmenter: Segmenter::new(settings),
            rotation,
            formats: BTreeMap::new(),
            at: BTreeMap::new(),
            files: VecDeque::new(),
            next_file: 0,
            newest_msn: None,
            frames_dropped: 0,
            out: VecDeque::new(),
        }
    }

    pub(super) fn push(&mut self, now: Duration, frame: &Arc<Frame>) {
        self.segmenter.push(now, frame.dts, frame);
        self.take_outputs();
    }

    pub(super) fn interrupt(&mut self) {
        self.segmenter.restart();
        self.take_outputs();
        while let Some(file) = self.files.pop_front() {
            self.end(&file);
        }
        self.at.clear();
    }

    pub(super) fn lose(&mut self, number: u64) {
        if let Some(file) = self.files.iter_mut().find(|file| file.number == number) {
            (file.is_lost, file.wants_end) = (true, true);
        }
    }

    pub(super) fn poll(&mut self) -> Option<Piece> {
        self.out.pop_front()
    }

    pub(super) fn frames_dropped(&self) -> u64 {
        let counters = self.segmenter.counters();
        self.frames_dropped + counters.frames_dropped + counters.frames_refused
    }

    fn take_outputs(&mut self) {
        while let Some(output) = self.segmenter.poll_output() {
            match output {
                Output::Init(init) => _ = self.formats.insert(init.rendition, init.format),
                Output::SegmentStart(start) if start.init.is_some() => self.begin_segment(&start),
                // A gap.
                Output::SegmentStart(_) => {}
                Output::Part(part) => self.add(part),
                Output::Segment(segment) => {
                    self.at.insert(segment.rendition, segment.msn + 1);
                    self.end_passed();
                }
                Output::End => {}
            }
        }
    }

    /// A segment of a track begins. The first track to come to it decides whether a file begins there.
    fn begin_segment(&mut self, start: &SegmentStart) {
        self.at.insert(start.rendition, start.msn);
        let begins = start.start.min(start.presented);
        if self.newest_msn.is_some_and(|newest| newest >= start.msn) {
            if let Some(file) = self.files.back_mut().filter(|file| file.tracks.is_empty()) {
                file.base = file.base.min(begins);
            }
            return;
        }
        self.newest_msn = Some(start.msn);
        if self.files.back().is_some_and(|file| file.tracks.is_empty()) {
            // Nothing went into it: this is where it begins.
            self.files.pop_back();
        }
        let is_needed = self.files.back().is_none_or(|file| {
            let is_new = |(track, _): (TrackId, _)| !file.tracks.contains_key(&track);
            file.wants_end
                || file.discontinuity != start.discontinuity_sequence
                || (begins - file.base).to_duration() >= self.rotation.after
                || file.bytes >= self.rotation.bytes
                || self.segmenter.formats().any(is_new)
        });
        if is_needed {
            self.files.push_back(File {
                number: self.next_file,
                first_msn: start.msn,
                discontinuity: start.discontinuity_sequence,
                start: start.wall_clock,
                base: begins,
                length: Timestamp::ZERO,
                bytes: 0,
                sequence: 0,
                tracks: BTreeMap::new(),
                wants_end: false,
                is_lost: false,
            });
            self.next_file += 1;
        }
        self.end_passed();
    }

    fn add(&mut self, part: Part) {
        let Some(index) = self.files.iter().rposition(|file| file.first_msn <= part.msn) else {
            return self.drop_part(&part);
        };
        let is_video = part.rendition.kind == MediaKind::Video;
        if self.files[index].tracks.is_empty() {
            if is_video && !part.independent {
                // A long GOP was cut. The file before goes on, if there is one that can.
                let file = self.files.remove(index).expect("it was found there");
                match self.files.back_mut() {
                    Some(before) if !before.is_lost && before.discontinuity == file.discontinuity => {
                        before.wants_end = true;
                    }
                    _ => return self.drop_part(&part),
                }
                return self.add(part);
            }
            self.begin_file(index);
        }
        let file = &mut self.files[index];
        let format = self.formats.get(&part.rendition);
        let fits = file.tracks.get(&part.rendition).zip(format).is_some_and(|(its, now)| its.is_same(now));
        if file.is_lost || !fits {
            // A track of which nothing was known when the file began: the next one has it.
            file.wants_end |= !fits;
            return self.drop_part(&part);
        }
        let earlier = file.base.ticks(format.map_or(1, |format| format.timescale()));
        let mut bytes = BytesMut::from(part.bytes);
        file.sequence += 1;
        let is_dated = relocate_chunk(&mut bytes, earlier.max(0).cast_unsigned(), file.sequence);
        debug_assert!(is_dated, "every fragment has its wall clock");
        file.bytes += bytes.len() as u64;
        let video = file.tracks.keys().find(|track| track.kind == MediaKind::Video);
        let decides = video.or(file.tracks.keys().next()) == Some(&part.rendition);
        let media = if decides { part.duration.to_duration() } else { Duration::ZERO };
        if decides {
            file.length += part.duration;
        }
        let number = file.number;
        self.out.push_back(Piece::Fragment { file: number, bytes: Bytes::from(bytes), media });
        self.end_passed();
    }

    /// The first fragment of a file has come: it has the tracks that are known by now.
    fn begin_file(&mut self, index: usize) {
        let file = &mut self.files[index];
        let mut tracks: BTreeMap<TrackId, Arc<Format>> =
            self.segmenter.formats().map(|(track, format)| (track, Arc::clone(format))).collect();
        for (track, format) in &self.formats {
            // It has come to this file: that is its format, whatever is announced for later.
            if self.at.get(track).is_some_and(|at| *at >= file.first_msn) {
                tracks.insert(*track, Arc::clone(format));
            }
        }
        let head = file_head(tracks.iter().map(|(track, format)| (*track, &**format)), file.start);
        file.bytes = head.len() as u64;
        file.tracks = tracks;
        self.out.push_back(Piece::Begin { file: file.number, start: file.start, head });
    }

    /// Ends the file before the one at hand, once all tracks have passed it, or were waited for long enough.
    fn end_passed(&mut self) {
        while let [first, next, ..] = self.files.make_contiguous() {
            let has_passed = |track: &TrackId| self.at.get(track).is_some_and(|at| *at >= next.first_msn);
            let is_passed = first.tracks.keys().all(has_passed);
            if !(is_passed || first.is_lost || next.length > INTERLEAVE) {
                return;
            }
            let first = self.files.pop_front().expect("it is there");
            self.end(&first);
        }
    }

    fn end(&mut self, file: &File) {
        if !file.tracks.is_empty() {
            self.out.push_back(Piece::End { file: file.number });
        }
    }

    fn drop_part(&mut self, part: &Part) {
        tracing::trace!(track = ?part.rendition, samples = part.samples, "a fragment has no file");
        self.frames_dropped += u64::from(part.samples);
    }
}

/// A GOP that is longer is cut; the file goes on.
const LONGEST_GOP: Timestamp = Timestamp::from_millis(60_000);
/// How far tracks may be apart, and a second.
const INTERLEAVE: Timestamp = Timestamp::from_millis(4_000);
