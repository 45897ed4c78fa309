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
use crate::mpd::{escape, frame_rate, iso_duration};
use crate::text::{Date, Seconds, TextWriter, gzip};

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
        let of = |kind| self.active().filter(move |rendition| rendition.id.kind == kind);
        let audio: Vec<_> = of(MediaKind::Audio).collect();
        let main = of(MediaKind::Video).next().or(audio.first().copied())?;
        let is_video = main.id.kind == MediaKind::Video;
        let mut out = TextWriter::default();
        out.put(format_args!("#EXTM3U\n#EXT-X-VERSION:7\n"));
        self.put_start(&mut out);
        let has_group = is_video && !audio.is_empty() || audio.len() > 1;
        if has_group {
            for (index, rendition) in audio.iter().enumerate() {
                out.put(format_args!(
                    "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"audio\",NAME=\"audio {}\",DEFAULT={},AUTOSELECT=YES,\
                     CHANNELS=\"{}\",URI=\"",
                    rendition.id.index,
                    if index == 0 { "YES" } else { "NO" },
                    rendition.format.channels.max(1),
                ));
                out.uri(prefix, Object::Playlist(rendition.id));
                out.put(format_args!("\"\n"));
            }
        }
        let others = if is_video { &audio[..] } else { &audio[1..] };
        let peak = others.iter().map(|each| each.peak()).max().unwrap_or(0);
        let average = others.iter().map(|each| each.average()).max().unwrap_or(0);
        let mut codecs = vec![&main.format.codecs[..]];
        for rendition in others {
            if !codecs.contains(&&rendition.format.codecs[..]) {
                codecs.push(&rendition.format.codecs);
            }
        }
        out.put(format_args!(
            "#EXT-X-STREAM-INF:BANDWIDTH={},AVERAGE-BANDWIDTH={},CODECS=\"{}\"",
            main.peak() + peak,
            main.average() + average,
            codecs.join(","),
        ));
        if main.format.width > 0 && main.format.height > 0 {
            out.put(format_args!(",RESOLUTION={}x{}", main.format.width, main.format.height));
        }
        if let Some(rate) = main.frame_rate() {
            out.put(format_args!(",FRAME-RATE={rate:.3}"));
        }
        if has_group {
            out.put(format_args!(",AUDIO=\"audio\""));
        }
        out.put(format_args!("\n"));
        out.uri(prefix, Object::Playlist(main.id));
        out.put(format_args!("\n"));
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

    /// The MPD; `prefix` leads from it to the other objects. `None`: there is nothing to play yet.
    pub fn mpd(&self, prefix: &str) -> Option<String> {
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
                2 * target,
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
        let FileRendition { format, timescale, .. } = rendition;
        let is_video = rendition.id.kind == MediaKind::Video;
        let kind = if is_video { "video" } else { "audio" };
        let _ = write!(
            out,
            "<AdaptationSet id=\"{id}\" contentType=\"{kind}\" mimeType=\"{kind}/mp4\" segmentAlignment=\"true\"{}>\n\
             <Representation id=\"{kind}{}\" codecs=\"{}\" bandwidth=\"{}\"",
            if rendition.segments.iter().all(|segment| segment.is_key) { " startWithSAP=\"1\"" } else { "" },
            rendition.id.index,
            format.codecs,
            rendition.peak(),
        );
        if is_video && format.width > 0 {
            let _ = write!(out, " width=\"{}\" height=\"{}\"", format.width, format.height);
        }
        if let Some(rate) = rendition.frame_rate() {
            let _ = write!(out, " frameRate=\"{}\"", frame_rate(rate));
        }
        if is_video {
            out.push_str(">\n");
        } else {
            let _ = writeln!(
                out,
                " audioSamplingRate=\"{}\">\n<AudioChannelConfiguration \
                 schemeIdUri=\"urn:mpeg:dash:23003:3:audio_channel_configuration:2011\" value=\"{}\"/>",
                format.sample_rate,
                format.channels.max(1),
            );
        }
        let name = Object::Playlist(rendition.id).to_string();
        let name = name.trim_end_matches(".m3u8");
        // A `$` begins a placeholder.
        let query = self.suffix().replace('$', "$$");
        let _ = writeln!(
            out,
            "<SegmentTemplate timescale=\"{timescale}\" presentationTimeOffset=\"{}\" startNumber=\"0\" \
             initialization=\"{name}/init-0.mp4{query}\" media=\"{name}/$Number$.m4s{query}\">\n<SegmentTimeline>",
            self.shift.ticks(*timescale),
        );
        let ticks = |time: Timestamp| time.ticks(*timescale) + self.shift.ticks(*timescale);
        let mut runs: Vec<(i64, i64, u32)> = Vec::new();
        for segment in rendition.segments {
            let (from, to) = (ticks(segment.at), ticks(segment.at + segment.duration));
            let length = (to - from).max(1);
            match runs.last_mut() {
                Some((at, each, count)) if *each == length && *at + *each * i64::from(*count) == from => {
                    *count += 1;
                }
                _ => runs.push((from, length, 1)),
            }
        }
        for (at, length, count) in runs {
            let repeated = if count > 1 { format!(" r=\"{}\"", count - 1) } else { String::new() };
            let _ = writeln!(out, "<S t=\"{at}\" d=\"{length}\"{repeated}/>");
        }
        out.push_str("</SegmentTimeline>\n</SegmentTemplate>\n</Representation>\n</AdaptationSet>\n");
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
