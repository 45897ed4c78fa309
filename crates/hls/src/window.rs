//! The segments of a stream that players can get: those in the playlists, and for a while those that left
//! them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use cmaf::{Format, Output, SegmentStart};
use media::{MediaKind, Timestamp, TrackId};

use crate::Settings;
use crate::mpd::PeriodOrigin;
use crate::playlist::Rendered;
use crate::sequence::Sequence;
use crate::text::Shared;

/// Segments, parts and init segments of all renditions of a stream.
///
/// **Call [`Window::push`] with all that a [`cmaf::Segmenter`] gives, and [`Window::set_target_duration`] as
/// soon as that is known; ask [`Window::respond`] for what clients want.** A clone shares all segments, for
/// another thread that answers requests.
#[derive(Debug, Clone)]
pub struct Window {
    pub(crate) settings: Settings,
    pub(crate) renditions: Vec<Rendition>,
    pub(crate) target_duration: Option<u32>,
    pub(crate) is_ended: bool,
    /// Wall clock of media time 0, as the first segment has it (`availabilityStartTime`).
    pub(crate) available_from: Option<Duration>,
    /// Where discontinuities began; those of segments that are listed.
    pub(crate) origins: Vec<PeriodOrigin>,
    /// Segments on disk that were read for somebody, the newest last.
    pub(crate) recalled: Vec<(SegmentId, Bytes)>,
    /// Segments on disk that nobody can ask for any more.
    expired: Vec<SegmentId>,
    /// Multivariant playlist and MPD as they are now, if anybody has asked for them.
    pub(crate) multivariant: OnceLock<Shared>,
    pub(crate) description: OnceLock<Shared>,
}

/// Which segment of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SegmentId {
    /// Its rendition.
    pub rendition: TrackId,
    /// Its media sequence number.
    pub msn: u64,
}

/// One rendition.
#[derive(Debug, Clone)]
pub(crate) struct Rendition {
    pub(crate) id: TrackId,
    pub(crate) inits: Vec<Init>,
    pub(crate) part_target: Timestamp,
    pub(crate) segments: Sequence,
    /// In memory.
    pub(crate) bytes: usize,
    /// Highest bit rate since the stream began (`BANDWIDTH`).
    pub(crate) peak_bits_per_second: u64,
    /// Its playlist as it is now, if anybody has asked for it.
    pub(crate) rendered: Rendered,
}

#[derive(Debug, Clone)]
pub(crate) struct Init {
    pub(crate) number: u64,
    pub(crate) format: Arc<Format>,
    pub(crate) bytes: Bytes,
}

#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) msn: u64,
    /// Media time at which it is decoded first, and at which it is presented first.
    pub(crate) start: Timestamp,
    pub(crate) presented: Timestamp,
    pub(crate) wall_clock: Duration,
    pub(crate) discontinuity_sequence: u64,
    /// It is not continuous with the one before.
    pub(crate) is_discontinuity: bool,
    pub(crate) init: Option<u64>,
    pub(crate) parts: Vec<Part>,
    /// `None` while it grows.
    pub(crate) duration: Option<Timestamp>,
    /// Duration of the segment before it: what may be expected of this one.
    pub(crate) expected: Timestamp,
    pub(crate) is_gap: bool,
    pub(crate) bytes: usize,
    /// Its bytes are on disk, and it has no parts any more.
    pub(crate) is_stored: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) duration: Timestamp,
    pub(crate) samples: u32,
    pub(crate) independent: bool,
    pub(crate) bytes: Bytes,
}

impl Window {
    /// An empty window.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            renditions: Vec::new(),
            target_duration: None,
            is_ended: false,
            available_from: None,
            origins: Vec::new(),
            recalled: Vec::new(),
            expired: Vec::new(),
            multivariant: OnceLock::new(),
            description: OnceLock::new(),
        }
    }

    /// The target duration in seconds, once it has been decided.
    pub fn target_duration(&self) -> Option<u32> {
        self.target_duration
    }

    /// The target duration has been decided ([`cmaf::Segmenter::target_duration`]); it stays.
    pub fn set_target_duration(&mut self, seconds: u32) {
        if self.target_duration.is_none() {
            self.target_duration = Some(seconds.max(1));
            (self.multivariant, self.description) = (OnceLock::new(), OnceLock::new());
        }
    }

    /// Takes in what the segmenter has made.
    pub fn push(&mut self, output: Output) {
        if self.is_ended {
            tracing::trace!("a publication that has ended does not go on");
            return;
        }
        (self.multivariant, self.description) = (OnceLock::new(), OnceLock::new());
        for rendition in &mut self.renditions {
            // Reports about the others are in each.
            rendition.rendered = Rendered::default();
        }
        match output {
            Output::Init(init) => {
                let entry = Init { number: init.number, format: init.format, bytes: init.bytes };
                match self.rendition_mut(init.rendition) {
                    Some(rendition) => rendition.inits.push(entry),
                    None => self.renditions.push(Rendition {
                        id: init.rendition,
                        inits: vec![entry],
                        part_target: init.part_target,
                        segments: Sequence::default(),
                        bytes: 0,
                        peak_bits_per_second: 0,
                        rendered: Rendered::default(),
                    }),
                }
                self.renditions
                    .sort_by_key(|rendition| (rendition.id.kind != MediaKind::Video, rendition.id));
            }
            Output::SegmentStart(start) => {
                self.note_origin(&start);
                let Some(rendition) = self.rendition_mut(start.rendition) else { return };
                let before = rendition.segments.newest();
                let expected = before.and_then(|before| before.duration).unwrap_or_default();
                rendition.segments.push(Segment {
                    msn: start.msn,
                    start: start.start,
                    presented: start.presented,
                    wall_clock: start.wall_clock,
                    discontinuity_sequence: start.discontinuity_sequence,
                    is_discontinuity: before
                        .is_some_and(|before| before.discontinuity_sequence != start.discontinuity_sequence),
                    init: start.init,
                    parts: Vec::new(),
                    duration: None,
                    expected,
                    is_gap: false,
                    bytes: 0,
                    is_stored: false,
                });
            }
            Output::Part(part) => {
                let Some(rendition) = self.rendition_mut(part.rendition) else { return };
                let Some(segment) = rendition.segments.newest_mut() else { return };
                segment.bytes += part.bytes.len();
                rendition.bytes += part.bytes.len();
                segment.parts.push(Part {
                    duration: part.duration,
                    samples: part.samples,
                    independent: part.independent,
                    bytes: part.bytes,
                });
            }
            Output::Segment(done) => {
                let Some(rendition) = self.rendition_mut(done.rendition) else { return };
                let Some(segment) = rendition.segments.newest_mut() else { return };
                segment.duration = Some(done.duration);
                segment.is_gap = done.gap;
                let target = self.target_duration.unwrap_or(1);
                if let Some(rendition) = self.rendition_mut(done.rendition) {
                    rendition.note_peak(target);
                }
                self.expire(done.rendition);
            }
            Output::End => self.is_ended = true,
        }
    }

    /// Bytes of all segments that are in memory because they are new.
    pub fn bytes(&self) -> usize {
        self.renditions.iter().map(|rendition| rendition.bytes).sum()
    }

    /// A segment that should go to disk, because more are in memory than [`Settings::bytes`]; the same until
    /// it [is there](Self::stored), or is too old. Only with [`Settings::stores`].
    pub fn to_store(&self) -> Option<(SegmentId, Vec<Bytes>)> {
        if !self.settings.stores {
            return None;
        }
        self.renditions.iter().filter(|rendition| rendition.bytes > self.settings.bytes).find_map(
            |rendition| {
                // What has parts in the playlist stays.
                let before = rendition.parts_from(self.target_duration?);
                let segment = rendition.segments.oldest_in_memory(before)?;
                let id = SegmentId { rendition: rendition.id, msn: segment.msn };
                Some((id, segment.parts.iter().map(|part| part.bytes.clone()).collect()))
            },
        )
    }

    /// The bytes of a segment are on disk; those in memory go.
    pub fn stored(&mut self, id: SegmentId) {
        let Some(rendition) = self.rendition_mut(id.rendition) else { return };
        let oldest = rendition.segments.in_memory().next();
        match oldest.filter(|segment| segment.msn == id.msn && segment.duration.is_some()) {
            Some(segment) => {
                rendition.bytes -= segment.bytes;
                rendition.segments.store_oldest();
            }
            // It took so long that it is gone.
            None => self.expired.push(id),
        }
    }

    /// There is no room on disk: the oldest segments of a rendition that are there leave the window. Whether
    /// there were any.
    pub fn give_up_stored(&mut self, id: TrackId, count: usize) -> bool {
        self.forget_stored(id, |index, _| index < count)
    }

    /// A segment cannot be read from disk: it leaves the window, and what is before it.
    pub fn lose_stored(&mut self, id: SegmentId) {
        self.forget_stored(id.rendition, |_, msn| msn <= id.msn);
    }

    fn forget_stored(&mut self, id: TrackId, is_gone: impl Fn(usize, u64) -> bool) -> bool {
        let before = self.expired.len();
        let Some(at) = self.renditions.iter().position(|rendition| rendition.id == id) else { return false };
        let rendition = &mut self.renditions[at];
        for index in 0.. {
            let oldest = rendition.segments.get(0);
            let Some(msn) = oldest.filter(|oldest| oldest.is_stored).map(|oldest| oldest.msn) else { break };
            if !is_gone(index, msn) {
                break;
            }
            rendition.segments.pop();
            self.expired.push(SegmentId { rendition: id, msn });
        }
        let is_changed = self.expired.len() > before;
        if is_changed {
            rendition.rendered = Rendered::default();
            (self.multivariant, self.description) = (OnceLock::new(), OnceLock::new());
        }
        is_changed
    }

    /// Segments whose files can go.
    pub fn take_expired(&mut self) -> Vec<SegmentId> {
        std::mem::take(&mut self.expired)
    }

    /// A segment was read from disk for those who [ask for it](crate::Answer::Recall). It stays until it is
    /// [dropped](Self::drop_recalled), or later ones need its room.
    pub fn recall(&mut self, id: SegmentId, bytes: Bytes) {
        self.recalled.retain(|(known, _)| *known != id);
        self.recalled.push((id, bytes));
        let mut sum: usize = self.recalled.iter().map(|(_, bytes)| bytes.len()).sum();
        while sum > self.settings.recalled_bytes && self.recalled.len() > 1 {
            sum -= self.recalled.remove(0).1.len();
        }
    }

    /// A segment that was read from disk goes: those who asked for it have it.
    pub fn drop_recalled(&mut self, id: SegmentId) {
        self.recalled.retain(|(known, _)| *known != id);
    }

    /// Whether a segment from disk is at hand.
    pub fn has_recalled(&self, id: SegmentId) -> bool {
        self.recalled(id).is_some()
    }

    pub(crate) fn recalled(&self, id: SegmentId) -> Option<&Bytes> {
        self.recalled.iter().find(|(known, _)| *known == id).map(|(_, bytes)| bytes)
    }

    /// Notes where a period of DASH begins: with the first of its segments, of whatever rendition.
    fn note_origin(&mut self, start: &SegmentStart) {
        let SegmentStart { discontinuity_sequence: number, wall_clock, presented, start: media, .. } = *start;
        // Media time counts from decoding: B-frames are shown a little later.
        let wall_clock = wall_clock.saturating_sub((presented - media).to_duration());
        let from = wall_clock.saturating_sub(media.to_duration());
        self.available_from.get_or_insert(from);
        if self.origins.iter().all(|origin| origin.number != number) {
            self.origins.push(PeriodOrigin { number, wall_clock, media });
        }
        let listed = self.renditions.iter().filter_map(|rendition| rendition.listed().next());
        if let Some(oldest) = listed.map(|segment| segment.discontinuity_sequence).min() {
            self.origins.retain(|origin| origin.number >= oldest);
        }
    }

    pub(crate) fn period_origin(&self, number: u64) -> Option<PeriodOrigin> {
        self.origins.iter().find(|origin| origin.number == number).copied()
    }

    pub(crate) fn rendition(&self, id: TrackId) -> Option<&Rendition> {
        self.renditions.iter().find(|rendition| rendition.id == id)
    }

    fn rendition_mut(&mut self, id: TrackId) -> Option<&mut Rendition> {
        self.renditions.iter_mut().find(|rendition| rendition.id == id)
    }

    /// Takes what is older than the window out of the playlist, and what is older than that out of memory or
    /// off the disk.
    fn expire(&mut self, id: TrackId) {
        let target = Timestamp::from_millis(i64::from(self.target_duration.unwrap_or(10)) * 1000);
        let listed = self.settings.listed.max(target + target + target);
        let (count, grace) = (self.settings.segments, self.settings.grace);
        let (limit, stores) = (self.settings.bytes, self.settings.stores);
        let mut expired = Vec::new();
        let target_seconds = self.target_duration.unwrap_or(10);
        let Some(rendition) = self.rendition_mut(id) else { return };
        let bytes = match stores {
            // What has parts in the playlist stays in memory, and there is as much again for what waits for
            // the disk.
            true => 2 * limit.max(rendition.bytes_since(rendition.parts_from(target_seconds))),
            false => limit,
        };
        let segments = &mut rendition.segments;
        let newest = segments.newest().map_or(Timestamp::ZERO, |last| last.start);
        let complete_until = segments.iter().rev().find(|segment| segment.duration.is_some());
        let end = complete_until.map_or(Timestamp::ZERO, Segment::end);
        while let Some(first) = segments.get(segments.first_listed()) {
            let complete = segments.len() - segments.first_listed();
            let next = segments.get(segments.first_listed() + 1);
            let left = next.map_or(Timestamp::ZERO, |next| end - next.start);
            if first.duration.is_none() || complete <= count || left < listed {
                break;
            }
            segments.unlist();
        }
        while let Some(first) = segments.get(0).filter(|first| first.duration.is_some()) {
            let has_room = rendition.bytes <= bytes;
            let is_listed = segments.first_listed() == 0;
            if has_room && (is_listed || newest - first.end() <= grace + listed) || segments.len() <= 1 {
                break;
            }
            let Some(gone) = segments.pop() else { break };
            match gone.is_stored {
                true => expired.push(SegmentId { rendition: id, msn: gone.msn }),
                false => rendition.bytes -= gone.bytes,
            }
        }
        let needed = segments.iter().find_map(|segment| segment.init);
        let last = rendition.inits.len() - 1;
        let is_needed = |(index, init): &(usize, &Init)| {
            *index == last || needed.is_none_or(|needed| init.number >= needed)
        };
        rendition.inits =
            rendition.inits.iter().enumerate().filter(is_needed).map(|(_, init)| init.clone()).collect();
        self.expired.extend(expired);
    }
}

impl Segment {
    /// Whether anything is in it.
    pub(crate) fn has_media(&self) -> bool {
        self.bytes > 0
    }
}

impl Rendition {
    pub(crate) fn listed(&self) -> impl DoubleEndedIterator<Item = &Segment> + Clone {
        self.segments.listed()
    }

    pub(crate) fn segment(&self, msn: u64) -> Option<&Segment> {
        self.segments.by_number(msn)
    }

    /// Bytes of the segments in memory that end later.
    fn bytes_since(&self, time: Timestamp) -> usize {
        let newest = self.segments.in_memory().rev().take_while(|segment| segment.end() > time);
        newest.map(|segment| segment.bytes).sum()
    }

    pub(crate) fn newest_format(&self) -> &Arc<Format> {
        &self.inits.last().expect("a rendition begins with an init segment").format
    }
}
