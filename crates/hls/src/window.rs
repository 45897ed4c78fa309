//! The segments of a stream that players can get: those in the playlists, and for a while those that left
//! them.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use cmaf::{Format, Output, SegmentStart};
use media::{MediaKind, Timestamp, TrackId};

use crate::Settings;
use crate::mpd::PeriodOrigin;
use crate::playlist::Rendered;
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
    /// Multivariant playlist and MPD as they are now, if anybody has asked for them.
    pub(crate) multivariant: OnceLock<Shared>,
    pub(crate) description: OnceLock<Shared>,
}

/// One rendition.
#[derive(Debug, Clone)]
pub(crate) struct Rendition {
    pub(crate) id: TrackId,
    pub(crate) inits: Vec<Init>,
    pub(crate) part_target: Timestamp,
    /// By media sequence number, without a hole; those before `first_listed` have left the playlist.
    pub(crate) segments: VecDeque<Arc<Segment>>,
    pub(crate) first_listed: usize,
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
            multivariant: OnceLock::new(),
            description: OnceLock::new(),
        }
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
                        segments: VecDeque::new(),
                        first_listed: 0,
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
                let before = rendition.segments.back();
                let expected = before.and_then(|before| before.duration).unwrap_or_default();
                rendition.segments.push_back(Arc::new(Segment {
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
                }));
            }
            Output::Part(part) => {
                let Some(rendition) = self.rendition_mut(part.rendition) else { return };
                let Some(segment) = rendition.segments.back_mut() else { return };
                let segment = Arc::make_mut(segment);
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
                let Some(segment) = rendition.segments.back_mut() else { return };
                let segment = Arc::make_mut(segment);
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

    /// Bytes of all segments that are kept.
    pub fn bytes(&self) -> usize {
        self.renditions.iter().map(|rendition| rendition.bytes).sum()
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

    /// Takes what is older than the window out of the playlist, and what is older than that out of memory.
    fn expire(&mut self, id: TrackId) {
        let target = Timestamp::from_millis(i64::from(self.target_duration.unwrap_or(10)) * 1000);
        let listed = self.settings.listed.max(target + target + target);
        let (segments, grace, bytes) = (self.settings.segments, self.settings.grace, self.settings.bytes);
        let Some(rendition) = self.rendition_mut(id) else { return };
        while let Some(first) = rendition.segments.get(rendition.first_listed) {
            let complete = rendition.segments.len() - rendition.first_listed;
            let left = rendition.segments.iter().skip(rendition.first_listed + 1);
            let left =
                left.filter_map(|segment| segment.duration).fold(Timestamp::ZERO, |sum, each| sum + each);
            let has_room = rendition.bytes <= bytes;
            if first.duration.is_none()
                || complete <= 1
                || has_room && (complete <= segments || left < listed)
            {
                break;
            }
            rendition.first_listed += 1;
        }
        let newest = rendition.segments.back().map_or(Timestamp::ZERO, |last| last.start);
        while rendition.first_listed > 0 {
            let first = &rendition.segments[0];
            let end = first.start + first.duration.unwrap_or_default();
            if newest - end <= grace + listed && rendition.bytes <= bytes {
                break;
            }
            rendition.bytes -= first.bytes;
            rendition.segments.pop_front();
            rendition.first_listed -= 1;
        }
        let needed = rendition.segments.iter().filter_map(|segment| segment.init).min();
        let last = rendition.inits.len() - 1;
        let is_needed = |(index, init): &(usize, &Init)| {
            *index == last || needed.is_none_or(|needed| init.number >= needed)
        };
        rendition.inits =
            rendition.inits.iter().enumerate().filter(is_needed).map(|(_, init)| init.clone()).collect();
    }
}

impl Rendition {
    pub(crate) fn listed(&self) -> impl DoubleEndedIterator<Item = &Segment> + Clone {
        self.segments.range(self.first_listed..).map(|segment| &**segment)
    }

    pub(crate) fn segment(&self, msn: u64) -> Option<&Segment> {
        let first = self.segments.front()?.msn;
        self.segments.get(usize::try_from(msn.checked_sub(first)?).ok()?).map(|segment| &**segment)
    }

    pub(crate) fn newest_format(&self) -> &Arc<Format> {
        &self.inits.last().expect("a rendition begins with an init segment").format
    }
}
