//! The samples of one selected track, in decoding order, as they are shown.
//!
//! Takes them from the tables of the index, then from fragments, applies the edit list, and gives
//! times on the clock that all tracks share. Reading their bytes is for `file.rs`, the order
//! between tracks for `reorder.rs`.

use std::collections::VecDeque;

use super::Mp4Error;
use super::edits::Segment;
use super::fragment::Run;
use super::movie::TrackMedia;
use super::tables::{Cursor, Entry};
use media::{MediaKind, Timestamp};

/// A sample that is to be given out: where it is, and when it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) offset: u64,
    pub(super) size: u32,
    pub(super) dts: Timestamp,
    pub(super) pts: Timestamp,
    pub(super) duration: Timestamp,
    pub(super) is_key: bool,
    pub(super) is_hidden: bool,
    pub(super) description: u32,
}

/// A place in a track.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    /// Index of the track in the movie.
    pub(super) track: usize,
    pub(super) id: u32,
    pub(super) kind: MediaKind,
    pub(super) timescale: u32,
    cursor: Cursor,
    segment: usize,
    runs: VecDeque<Run>,
    /// Decoding time of the next sample of a run that says none.
    next_dts: i64,
    /// What decoding times are moved back by, so that none is behind its presentation time.
    shift: i64,
    last_dts: Timestamp,
    /// Samples of fragments that are decoded before this are passed: behind a seek.
    from_dts: i64,
    /// Samples in a row that were not given out.
    passed: u32,
}

impl Lane {
    /// The start of a track.
    pub(super) fn new(track: usize, id: u32, kind: MediaKind, timescale: u32, media: &TrackMedia) -> Self {
        let mut lane = Self {
            track,
            id,
            kind,
            timescale,
            cursor: Cursor::default(),
            segment: 0,
            runs: VecDeque::new(),
            next_dts: 0,
            shift: 0,
            last_dts: BEFORE_ALL,
            from_dts: i64::MIN,
            passed: 0,
        };
        lane.rewind(media);
        lane
    }

    /// Back to the first sample.
    pub(super) fn rewind(&mut self, media: &TrackMedia) {
        self.restart(media);
        self.enter(0, media);
    }

    /// To the last key frame (or audio frame) of the tables at or before a presentation time; gives
    /// the time at which it is shown.
    pub(super) fn seek(&mut self, at: Timestamp, media: &TrackMedia) -> Timestamp {
        self.restart(media);
        let time = at.ticks(self.timescale);
        let segment = media.segments.iter().rposition(|segment| segment.start <= time).unwrap_or(0);
        self.segment = segment;
        let segment = media.segments[segment];
        let entry = self.place(segment.to_media(time), media);
        let start = if segment == Segment::ALL { i64::MIN } else { segment.start };
        let shown = entry.map_or(time, |entry| segment.to_presentation(entry.pts).max(start));
        Timestamp::from_ticks(shown, self.timescale)
    }

    /// To samples of fragments alone: `next_dts` is the decoding time of the first that says none,
    /// and what is decoded before `from_dts` is passed (of audio, what ends before it).
    pub(super) fn enter_fragments(&mut self, media: &TrackMedia, next_dts: i64, from_dts: i64) {
        self.restart(media);
        self.cursor = Cursor::at(&media.tables, media.tables.len());
        (self.next_dts, self.from_dts) = (next_dts, from_dts);
    }

    /// Takes a run of a fragment.
    pub(super) fn push(&mut self, run: Run) {
        self.shift = self.shift.max(-run.composition_min());
        self.runs.push_back(run);
    }

    /// The next sample that is to be given out; `None` if no more are known.
    pub(super) fn next(&mut self, media: &TrackMedia) -> Result<Option<Shown>, Mp4Error> {
        while self.passed < SAMPLES_PASSED_MAX {
            self.passed += 1;
            let Some(segment) = media.segments.get(self.segment).copied() else { return Ok(None) };
            let entry = self.entry(media);
            let Some(entry) = entry.filter(|entry| !self.is_behind(entry, segment, media)) else {
                // Fragments may follow in the last segment.
                let ends = entry.is_some() || self.segment + 1 < media.segments.len();
                if !ends {
                    return Ok(None);
                }
                self.enter(self.segment + 1, media);
                continue;
            };
            if let Some(shown) = self.show(&entry, segment) {
                self.passed = 0;
                return Ok(Some(shown));
            }
        }
        Err(Mp4Error::malformed(b"stbl", "too many samples in a row are empty or not shown"))
    }

    /// When a composition time is shown, in a track of fragments.
    pub(super) fn shown_at(&self, pts: i64, media: &TrackMedia) -> Timestamp {
        let segment = media.segments.last().copied().unwrap_or(Segment::ALL);
        Timestamp::from_ticks(segment.to_presentation(pts), self.timescale)
    }

    /// The composition time that is shown at a presentation time, in a track of fragments.
    pub(super) fn media_time(&self, presentation: Timestamp, media: &TrackMedia) -> i64 {
        let segment = media.segments.last().copied().unwrap_or(Segment::ALL);
        segment.to_media(presentation.ticks(self.timescale))
    }

    /// Decoding time of the last sample given out.
    pub(super) fn last_dts(&self) -> Timestamp {
        self.last_dts
    }

    /// From here on nothing of the segment is shown any more.
    fn is_behind(&self, entry: &Entry, segment: Segment, media: &TrackMedia) -> bool {
        segment.media.1 != i64::MAX
            && entry.dts.saturating_add(media.tables.composition_min()) >= segment.media.1
    }

    /// A sample as it is shown; `None` if it is not needed.
    fn show(&mut self, entry: &Entry, segment: Segment) -> Option<Shown> {
        let (start, end) = segment.media;
        let duration = i64::from(entry.duration);
        let mut is_hidden = entry.pts < start || entry.pts >= end;
        if self.kind == MediaKind::Audio {
            if entry.pts >= end || entry.pts.saturating_add(duration) <= start.max(self.from_dts) {
                return None;
            }
            is_hidden = false;
        } else if entry.dts < self.from_dts {
            return None;
        }
        if entry.size == 0 {
            return None;
        }
        let dts = segment.to_presentation(entry.dts.saturating_sub(self.shift));
        let dts = Timestamp::from_ticks(dts, self.timescale).max(self.last_dts);
        self.last_dts = dts;
        let pts = Timestamp::from_ticks(segment.to_presentation(entry.pts), self.timescale);
        Some(Shown {
            offset: entry.offset,
            size: entry.size,
            dts,
            pts: pts.max(dts),
            duration: Timestamp::from_ticks(duration, self.timescale),
            is_key: entry.is_key || self.kind == MediaKind::Audio,
            is_hidden,
            description: entry.description,
        })
    }

    /// The next sample of tables and runs.
    fn entry(&mut self, media: &TrackMedia) -> Option<Entry> {
        if let Some(entry) = self.cursor.next(&media.tables) {
            self.next_dts = entry.dts.saturating_add(entry.duration.into());
            return Some(entry);
        }
        loop {
            let run = self.runs.front_mut()?;
            let dts = run.start.take().unwrap_or(self.next_dts);
            self.next_dts = dts;
            if let Some(entry) = run.next(dts) {
                self.next_dts = dts.saturating_add(entry.duration.into());
                return Some(entry);
            }
            self.runs.pop_front();
        }
    }

    fn enter(&mut self, segment: usize, media: &TrackMedia) {
        self.segment = segment;
        if let Some(segment) = media.segments.get(segment) {
            self.place(segment.media.0, media);
        }
    }

    /// Puts the cursor where decoding has to begin for a composition time; gives the sample there.
    fn place(&mut self, media_time: i64, media: &TrackMedia) -> Option<Entry> {
        let tables = &media.tables;
        let mut sample = tables.sample_at(media_time);
        let mut entry = None;
        for _ in 0..KEYS_TRIED_MAX {
            if self.kind == MediaKind::Video {
                sample = tables.key_at(sample);
            }
            self.cursor = Cursor::at(tables, sample);
            entry = self.cursor.clone().next(tables);
            // A key frame may be decoded in time, but shown later.
            if sample == 0 || entry.is_none_or(|entry| entry.pts <= media_time) {
                break;
            }
            sample -= 1;
        }
        entry
    }

    fn restart(&mut self, media: &TrackMedia) {
        self.runs.clear();
        (self.segment, self.passed) = (0, 0);
        (self.next_dts, self.last_dts, self.from_dts) = (0, BEFORE_ALL, i64::MIN);
        self.shift = (-media.tables.composition_min()).max(0);
    }
}

/// Earlier than any sample.
const BEFORE_ALL: Timestamp = Timestamp::from_units(i64::MIN);
/// Empty samples, and those that an edit list leaves out, that are passed in a row.
const SAMPLES_PASSED_MAX: u32 = 1 << 20;
/// Key frames that are tried for one that is shown in time. In sane files the second is.
const KEYS_TRIED_MAX: usize = 8;
