//! Edit lists (ISO/IEC 14496-12, 8.6.6): which part of a track's media is shown, and when.
//!
//! Empty edits put a track off, the media time of an edit leaves out what is before it (priming of
//! AAC, the delay that B-frames have), and several edits are played one after the other. Rates
//! other than 1 are taken for 1, and an edit that holds a picture (rate 0) for an empty one: the
//! viewer of a stream sees the last picture anyway.

use mp4_atom::Elst;

use super::{Limits, Mp4Error};

/// A part of the media, and when it is shown; in units of the track's time scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    /// Presentation time of `media.start`.
    pub(super) start: i64,
    /// Composition times that are shown; the end is `i64::MAX` if nothing ends it.
    pub(super) media: (i64, i64),
}

impl Segment {
    /// All of the media, unmoved.
    pub(super) const ALL: Self = Self { start: 0, media: (i64::MIN, i64::MAX) };

    /// Presentation time of a composition time.
    pub(super) fn to_presentation(self, media: i64) -> i64 {
        if self == Self::ALL { media } else { media.saturating_sub(self.media.0).saturating_add(self.start) }
    }

    /// Composition time of a presentation time.
    pub(super) fn to_media(self, presentation: i64) -> i64 {
        if self == Self::ALL {
            presentation
        } else {
            presentation.saturating_sub(self.start).saturating_add(self.media.0)
        }
    }

    /// Presentation time of its end, for media that ends at `media_end`.
    pub(super) fn end(self, media_end: i64) -> i64 {
        self.to_presentation(self.media.1.min(media_end))
    }
}

/// What an edit list shows; durations in it are in units of `movie_timescale`. Never empty.
pub(super) fn segments(
    list: Option<&Elst>,
    timescale: u32,
    movie_timescale: u32,
    limits: &Limits,
) -> Result<Vec<Segment>, Mp4Error> {
    let entries = list.map_or(&[][..], |list| &list.entries);
    Mp4Error::check("edits of a track", entries.len() as u64, limits.edits.into())?;
    let mut segments = Vec::new();
    // Summed up in the movie's units: rounding each duration would add up.
    let mut at = 0u64;
    for entry in entries {
        let start = rescale(at, timescale, movie_timescale);
        at = at.saturating_add(entry.segment_duration);
        let is_hold = entry.media_rate.integer() == 0 && entry.media_rate.decimal() == 0;
        let Some(media) = entry.media_time.filter(|_| !is_hold) else { continue };
        let media = i64::try_from(media).unwrap_or(i64::MAX);
        let length = rescale(at, timescale, movie_timescale).saturating_sub(start);
        // A duration of 0 in the last edit: up to the end, which is not known yet (fragments).
        let end = if entry.segment_duration == 0 { i64::MAX } else { media.saturating_add(length) };
        segments.push(Segment { start, media: (media, end) });
    }
    if segments.is_empty() {
        // Only empty edits: QuickTime's way to say nothing, and what some muxers write for a plain
        // delay.
        let start = rescale(at, timescale, movie_timescale);
        segments.push(if start == 0 { Segment::ALL } else { Segment { start, media: (0, i64::MAX) } });
    }
    Ok(segments)
}

/// `value * to / from`, rounded to the nearest, within `i64`.
fn rescale(value: u64, to: u32, from: u32) -> i64 {
    let from = u128::from(from.max(1));
    let scaled = (u128::from(value) * u128::from(to) + from / 2) / from;
    i64::try_from(scaled).unwrap_or(i64::MAX)
}
