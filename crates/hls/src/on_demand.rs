//! Playlists and MPDs of a file that is cut into segments when they are asked for.
//!
//! All segments are listed. Of a file that still grows the playlist is of type `EVENT`: segments are added,
//! none goes; players begin where `EXT-X-START` says, which is the begin unless the client asks for something
//! else, so that the whole recording can be reached in any case. Its target duration is the longest that a
//! segment may have, for it must not change.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use cmaf::Format;
use media::{MediaKind, Timestamp, TrackId};

use crate::Object;
use crate::master::{bits_per_second, nearest_frame_rate};
use crate::mpd::{escape, iso_duration};
use crate::text::{Date, Seconds, TextWriter, gzip};
use crate::variant::{Variant, put_timeline, put_variants};

/// A file as players see it.
#[derive(Debug)]
pub struct Presentation<'a> {
    /// Video first.
    pub renditions: Vec<FileRendition<'a>>,
    /// Whether more segments will come.
    pub grows: bool,
    /// Longest duration that a segment may have, in seconds; at least that of those there are.
    pub target_seconds: u32,
    /// What times in the media are later than those here, so that nothing is shown before 0.
    pub shift: Timestamp,
    /// Wall clock at the begin, since 1970, of recordings.
    pub wall_clock: Option<Duration>,
    /// Where players are to begin, in milliseconds: from the end if it is negative.
    pub start_ms: Option<i64>,
    /// The query of the client, for what is listed: its token.
    pub query: &'a str,
}

/// One track of it.
#[derive(Debug)]
pub struct FileRendition<'a> {
    /// Its name.
    pub id: TrackId,
    /// How it is coded.
    pub format: &'a Format,
    /// Ticks per second.
    pub timescale: u32,
    /// Its segments, numbered from 0.
    pub segments: &'a [FileSegment],
}

/// A segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSegment {
    /// When it is shown.
    pub at: Timestamp,
    /// How long, up to the next one.
    pub duration: Timestamp,
    /// Bytes of its samples.
    pub bytes: u64,
    /// How many those are.
    pub samples: u32,
    /// Whether it begins with a key frame.
    pub is_key: bool,
}

impl Presentation<'_> {
    /// The multivariant playlist; `prefix` leads from it to the other objects. `None`: there is nothing to
    /// play yet.
    pub fn multivariant_playlist(&self, prefix: &str) -> Option<Bytes> {
        let variants: Vec<_> = self.active().map(FileRendition::variant).collect();
        let mut out = TextWriter::default();
        out.put(format_args!("#EXTM3U\n#EXT-X-VERSION:7\n"));
        self.put_start(&mut out);
        put_variants(&mut out, prefix, &variants)?;
        Some(out.finish().with_suffix(self.query))
    }

    /// The media playlist of a rendition; `None`: there is no such one, or nothing in it yet.
    pub fn media_playlist(&self, id: TrackId) -> Option<Bytes> {
        let rendition = self.active().find(|rendition| rendition.id == id)?;
        let mut out = TextWriter::default();
        let kind = if self.grows { "EVENT" } else { "VOD" };
        out.put(format_args!(
            "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:{}\n#EXT-X-PLAYLIST-TYPE:{kind}\n\
             #EXT-X-MEDIA-SEQUENCE:0\n",
            self.target_seconds,
        ));
        self.put_start(&mut out);
        out.put(format_args!("#EXT-X-MAP:URI=\""));
        out.uri("", Object::Init(id, 0));
        out.put(format_args!("\"\n"));
        for (number, segment) in rendition.segments.iter().enumerate() {
            if let (0, Some(begin)) = (number, self.wall_clock) {
                let date = begin + segment.at.to_duration();
                out.put(format_args!("#EXT-X-PROGRAM-DATE-TIME:{}\n", Date(date)));
            }
            out.put(format_args!("#EXTINF:{},\n", Seconds(segment.duration)));
            out.uri("", Object::Segment(id, number as u64));
            out.put(format_args!("\n"));
        }
        if !self.grows {
            out.put(format_args!("#EXT-X-ENDLIST\n"));
        }
        Some(out.finish().with_suffix(self.query))
    }

    /// The MPD at `now` since 1970; `prefix` leads from it to the other objects. `None`: there is
    /// nothing to play yet.
    ///
    /// Players of DASH begin at a distance from now. So that those of a recording in progress begin
    /// where `start_ms` says, and else at its start, that distance is as long as the recording.
    pub fn mpd(&self, prefix: &str, now: Duration) -> Option<String> {
        let active: Vec<_> = self.active().collect();
        let end = active.iter().map(|each| each.end()).max()?;
        let duration = iso_duration(end.to_duration());
        let mut out = String::with_capacity(4096);
        out.push_str(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" ",
        );
        let target = self.target_seconds;
        let _ = match self.wall_clock.filter(|_| self.grows) {
            Some(begin) => writeln!(
                out,
                "profiles=\"urn:mpeg:dash:profile:isoff-live:2011\" type=\"dynamic\" \
                 availabilityStartTime=\"{}\" minimumUpdatePeriod=\"PT{}S\" maxSegmentDuration=\"PT{target}S\" \
                 suggestedPresentationDelay=\"PT{}S\" minBufferTime=\"PT2S\">",
                Date(begin),
                UPDATE_SECONDS,
                self.start_before(now.saturating_sub(begin), target).as_secs(),
            ),
            None => writeln!(
                out,
                "profiles=\"urn:mpeg:dash:profile:isoff-live:2011\" type=\"static\" \
                 mediaPresentationDuration=\"{duration}\" maxSegmentDuration=\"PT{target}S\" \
                 minBufferTime=\"PT2S\">",
            ),
        };
        if !prefix.is_empty() {
            let _ = writeln!(out, "<BaseURL>{}</BaseURL>", escape(prefix));
        }
        out.push_str("<Period id=\"0\" start=\"PT0S\">\n");
        for (index, rendition) in active.iter().enumerate() {
            self.put_adaptation_set(&mut out, index, rendition);
        }
        out.push_str("</Period>\n");
        if self.grows {
            let query = self.suffix();
            let _ = writeln!(
                out,
                "<UTCTiming schemeIdUri=\"urn:mpeg:dash:utc:http-iso:2014\" value=\"{}{query}\"/>",
                // Players resolve it as all other URLs, behind `BaseURL`.
                Object::Time,
            );
        }
        out.push_str("</MPD>\n");
        Some(out)
    }

    fn put_adaptation_set(&self, out: &mut String, id: usize, rendition: &FileRendition<'_>) {
        let variant = rendition.variant();
        variant.put_representation(out, id, rendition.segments.iter().all(|segment| segment.is_key));
        let (name, timescale) = (variant.folder(), rendition.timescale);
        // A `$` begins a placeholder.
        let query = self.suffix().replace('$', "$$");
        let _ = writeln!(
            out,
            "<SegmentTemplate timescale=\"{timescale}\" presentationTimeOffset=\"{}\" startNumber=\"0\" \
             initialization=\"{name}/init-0.mp4{query}\" media=\"{name}/$Number$.m4s{query}\">",
            self.shift.ticks(timescale),
        );
        let ticks = |time: Timestamp| time.ticks(timescale) + self.shift.ticks(timescale);
        let segments = rendition.segments.iter().map(|segment| {
            let (from, to) = (ticks(segment.at), ticks(segment.at + segment.duration));
            (from, (to - from).max(1))
        });
        put_timeline(out, segments);
    }

    /// How long before now players of what grows begin, which began so long ago; not so near to now
    /// that segments are not there yet.
    fn start_before(&self, age: Duration, target: u32) -> Duration {
        let start = self.start_ms.unwrap_or(0);
        let distance = Duration::from_millis(start.unsigned_abs());
        let before = if start < 0 { distance } else { age.saturating_sub(distance) };
        // Whole seconds are written, and a little more than all is all.
        (before + Duration::from_secs(1)).max(Duration::from_secs(2 * u64::from(target)))
    }

    /// What URLs of an MPD end with.
    fn suffix(&self) -> String {
        if self.query.is_empty() { String::new() } else { escape(&format!("?{}", self.query)) }
    }

    fn put_start(&self, out: &mut TextWriter) {
        // Without it players of what grows begin at the end.
        let Some(start) = self.start_ms.or(self.grows.then_some(0)) else { return };
        let sign = if start < 0 { "-" } else { "" };
        let start = start.unsigned_abs();
        out.put(format_args!(
            "#EXT-X-START:TIME-OFFSET={sign}{}.{:03},PRECISE=YES\n",
            start / 1000,
            start % 1000
        ));
    }

    fn active(&self) -> impl Iterator<Item = &FileRendition<'_>> {
        self.renditions.iter().filter(|rendition| !rendition.segments.is_empty())
    }
}

impl FileRendition<'_> {
    fn variant(&self) -> Variant<'_> {
        let (peak, average) = (self.peak(), self.average());
        Variant { id: self.id, format: self.format, peak, average, frame_rate: self.frame_rate() }
    }

    /// Bits per second of the largest segment for its duration; those of less than half a second do not
    /// count, unless all are (RFC 8216bis section 4.4.6.2).
    fn peak(&self) -> u64 {
        let long = self.segments.iter().filter(|segment| segment.duration.millis() >= 500);
        let peak = long.map(|segment| bits_per_second(segment.bytes, segment.duration)).max();
        // Boxes of a segment: 16 bytes per sample at most, and 200.
        let per_second = 16 * 8 * self.rate().unwrap_or(0.0) as u64 + 1600;
        peak.unwrap_or(0).max(self.average()) + per_second
    }

    fn average(&self) -> u64 {
        let bytes = self.segments.iter().map(|segment| segment.bytes).sum();
        bits_per_second(bytes, self.length()).max(1)
    }

    /// Samples per second.
    fn rate(&self) -> Option<f64> {
        let samples: f64 = self.segments.iter().map(|segment| f64::from(segment.samples)).sum();
        let rate = samples * 1000.0 / self.length().millis().max(1) as f64;
        (rate > 0.0).then_some(rate)
    }

    fn frame_rate(&self) -> Option<f64> {
        self.rate().filter(|_| self.id.kind == MediaKind::Video).map(nearest_frame_rate)
    }

    fn length(&self) -> Timestamp {
        self.segments.first().map_or(Timestamp::ZERO, |first| self.end() - first.at)
    }

    fn end(&self) -> Timestamp {
        self.segments.last().map_or(Timestamp::ZERO, |last| last.at + last.duration)
    }
}

/// Date and time of ISO 8601, UTC, of a time since 1970.
pub fn date(since_1970: Duration) -> String {
    Date(since_1970).to_string()
}

/// A playlist in gzip.
pub fn in_gzip(text: &[u8]) -> Bytes {
    gzip(text)
}

/// How often players of DASH look for more of what grows.
const UPDATE_SECONDS: u32 = 4;
