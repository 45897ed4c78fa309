//! Media playlists (RFC 8216bis, draft-pantos-hls-rfc8216bis section 4.4).
//!
//! A playlist is written once after a change, when it is first asked for, and shared by all that ask.

use std::sync::OnceLock;

use media::{Timestamp, TrackId};

use crate::Object;
use crate::text::{Date, Seconds, Shared, Text, TextWriter};
use crate::window::{Rendition, Segment, Window};

/// A media playlist in both its forms, as far as they were asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rendered {
    full: OnceLock<Shared>,
    /// Without the segments that a client has from before.
    delta: OnceLock<Shared>,
}

impl Window {
    /// The media playlist of a rendition, or a delta update if there is anything to leave out; `None` while
    /// there is nothing to list.
    pub(crate) fn rendered(&self, id: TrackId, delta: bool) -> Option<&Shared> {
        let (rendition, target) = (self.rendition(id)?, self.target_duration?);
        let skipped = if delta { rendition.skippable(target) } else { 0 };
        let known = if skipped > 0 { &rendition.rendered.delta } else { &rendition.rendered.full };
        if known.get().is_none() {
            // Another thread may be as far: both write the same.
            let _ = known.set(Shared::new("", self.media_playlist(rendition, target, skipped)?));
        }
        known.get()
    }

    fn media_playlist(&self, rendition: &Rendition, target: u32, skipped: usize) -> Option<Text> {
        let id = rendition.id;
        let first = rendition.listed().next()?;
        let part_target = rendition.part_target;
        // The same distance for all, so that none is asked for what it does not have yet.
        let longest_part = self.renditions.iter().map(|each| each.part_target).max().unwrap_or(part_target);
        let mut out = TextWriter::default();
        out.put(format_args!("#EXTM3U\n#EXT-X-VERSION:9\n#EXT-X-TARGETDURATION:{target}\n"));
        out.put(format_args!(
            "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL={}.0,HOLD-BACK={}.0,\
             PART-HOLD-BACK={}\n",
            SKIP_TARGETS * target,
            3 * target,
            Seconds(longest_part + longest_part + longest_part),
        ));
        out.put(format_args!("#EXT-X-PART-INF:PART-TARGET={}\n", Seconds(part_target)));
        out.put(format_args!("#EXT-X-MEDIA-SEQUENCE:{}\n", first.msn));
        // The number counts tags that are gone: that of the first segment is still there.
        let gone = first.discontinuity_sequence - u64::from(first.is_discontinuity);
        out.put(format_args!("#EXT-X-DISCONTINUITY-SEQUENCE:{gone}\n"));
        if skipped > 0 {
            out.put(format_args!("#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}\n"));
        }
        let mut map = None;
        let parts_from = rendition.parts_from(target);
        for (index, segment) in rendition.listed().enumerate() {
            let has_new_map = segment.init.is_some() && segment.init != map;
            map = segment.init.or(map);
            if index < skipped {
                continue;
            }
            if segment.is_discontinuity {
                out.put(format_args!("#EXT-X-DISCONTINUITY\n"));
            }
            if let (Some(number), true) = (segment.init, has_new_map) {
                out.put(format_args!("#EXT-X-MAP:URI=\""));
                out.uri("", Object::Init(id, number));
                out.put(format_args!("\"\n"));
            }
            out.put(format_args!("#EXT-X-PROGRAM-DATE-TIME:{}\n", Date(segment.wall_clock)));
            put_segment(&mut out, id, segment, segment.end() > parts_from);
        }
        if self.is_ended {
            out.put(format_args!("#EXT-X-ENDLIST\n"));
            return Some(out.finish());
        }
        let (msn, part) = rendition.next_part();
        out.put(format_args!("#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\""));
        out.uri("", Object::Part(id, msn, part));
        out.put(format_args!("\"\n"));
        for other in self.renditions.iter().filter(|other| other.id != id) {
            if let Some((msn, part)) = other.last_part() {
                out.put(format_args!("#EXT-X-RENDITION-REPORT:URI=\""));
                out.uri("", Object::Playlist(other.id));
                out.put(format_args!("\",LAST-MSN={msn},LAST-PART={part}\n"));
            }
        }
        Some(out.finish())
    }
}

/// Parts of a segment, and the segment itself once it is complete.
fn put_segment(out: &mut TextWriter, id: TrackId, segment: &Segment, with_parts: bool) {
    let parts = if with_parts { &segment.parts[..] } else { &[] };
    for (number, part) in parts.iter().enumerate() {
        out.put(format_args!("#EXT-X-PART:DURATION={},URI=\"", Seconds(part.duration)));
        out.uri("", Object::Part(id, segment.msn, number as u32));
        out.put(format_args!("{}", if part.independent { "\",INDEPENDENT=YES\n" } else { "\"\n" }));
    }
    let Some(duration) = segment.duration else { return };
    if segment.is_gap {
        out.put(format_args!("#EXT-X-GAP\n"));
    }
    out.put(format_args!("#EXTINF:{},\n", Seconds(duration)));
    out.uri("", Object::Segment(id, segment.msn));
    out.put(format_args!("\n"));
}

impl Segment {
    /// Media time of the end of what it has.
    pub(crate) fn end(&self) -> Timestamp {
        let parts = || self.parts.iter().fold(Timestamp::ZERO, |sum, part| sum + part.duration);
        self.start + self.duration.unwrap_or_else(parts)
    }
}

impl Rendition {
    /// Media time of the newest complete part.
    pub(crate) fn end(&self) -> Timestamp {
        self.segments.newest().map_or(Timestamp::ZERO, |last| last.end())
    }

    /// Media time from which on parts are listed: they are of use near the live edge only (section 6.2.2).
    pub(crate) fn parts_from(&self, target: u32) -> Timestamp {
        self.end() - Timestamp::from_millis(3 * 1000 * i64::from(target))
    }

    /// The part that comes next.
    pub(crate) fn next_part(&self) -> (u64, u32) {
        match self.segments.newest() {
            None => (0, 0),
            Some(last) if last.duration.is_none() => (last.msn, last.parts.len() as u32),
            Some(last) => (last.msn + 1, 0),
        }
    }

    /// The newest part that is complete.
    pub(crate) fn last_part(&self) -> Option<(u64, u32)> {
        let last = self.segments.in_memory().rev().find(|segment| !segment.parts.is_empty())?;
        Some((last.msn, last.parts.len() as u32 - 1))
    }

    /// Segments that a delta update leaves out: those before the skip boundary (section 6.2.5.1).
    fn skippable(&self, target: u32) -> usize {
        let boundary = self.end() - Timestamp::from_millis(i64::from(SKIP_TARGETS * target) * 1000);
        self.listed().take_while(|segment| segment.duration.is_some() && segment.end() < boundary).count()
    }
}

/// Target durations from the end within which nothing is skipped: the least that is allowed.
const SKIP_TARGETS: u32 = 6;
