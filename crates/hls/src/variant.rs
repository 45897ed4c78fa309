//! What playlists and MPDs say of a rendition, be it live or of a file: written in one way for
//! both.

use std::fmt::Write as _;

use cmaf::Format;
use media::{MediaKind, TrackId};

use crate::Object;
use crate::mpd::frame_rate;
use crate::text::TextWriter;

/// A rendition as multivariant playlists and MPDs describe it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variant<'a> {
    pub(crate) id: TrackId,
    pub(crate) format: &'a Format,
    /// Bits per second of its largest segments.
    pub(crate) peak: u64,
    pub(crate) average: u64,
    /// Of video, where it is known.
    pub(crate) frame_rate: Option<f64>,
}

/// What follows the head of a multivariant playlist (RFC 8216bis section 4.4.6): audio beside video
/// is a rendition of its own, and the first of those without. `None`: there is none.
pub(crate) fn put_variants(out: &mut TextWriter, prefix: &str, variants: &[Variant<'_>]) -> Option<()> {
    let of = |kind| variants.iter().filter(move |variant| variant.id.kind == kind);
    let audio: Vec<_> = of(MediaKind::Audio).collect();
    let main = of(MediaKind::Video).next().or(audio.first().copied())?;
    let is_video = main.id.kind == MediaKind::Video;
    let has_group = is_video && !audio.is_empty() || audio.len() > 1;
    if has_group {
        for (index, variant) in audio.iter().enumerate() {
            out.put(format_args!(
                "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"audio\",NAME=\"audio {}\",DEFAULT={},AUTOSELECT=YES,\
                 CHANNELS=\"{}\",URI=\"",
                variant.id.index,
                if index == 0 { "YES" } else { "NO" },
                variant.format.channels.max(1),
            ));
            out.uri(prefix, Object::Playlist(variant.id));
            out.put(format_args!("\"\n"));
        }
    }
    let others = if is_video { &audio[..] } else { &audio[1..] };
    let largest = |rate: fn(&Variant<'_>) -> u64| others.iter().map(|each| rate(each)).max().unwrap_or(0);
    let mut codecs = vec![&main.format.codecs[..]];
    for variant in others {
        if !codecs.contains(&&variant.format.codecs[..]) {
            codecs.push(&variant.format.codecs);
        }
    }
    out.put(format_args!(
        "#EXT-X-STREAM-INF:BANDWIDTH={},AVERAGE-BANDWIDTH={},CODECS=\"{}\"",
        main.peak + largest(|each| each.peak),
        main.average + largest(|each| each.average),
        codecs.join(","),
    ));
    if main.format.width > 0 && main.format.height > 0 {
        out.put(format_args!(",RESOLUTION={}x{}", main.format.width, main.format.height));
    }
    if let Some(rate) = main.frame_rate {
        out.put(format_args!(",FRAME-RATE={rate:.3}"));
    }
    if has_group {
        out.put(format_args!(",AUDIO=\"audio\""));
    }
    out.put(format_args!("\n"));
    out.uri(prefix, Object::Playlist(main.id));
    out.put(format_args!("\n"));
    Some(())
}

impl Variant<'_> {
    /// The head of its adaptation set in an MPD (ISO/IEC 23009-1 section 5.3.3), and of the
    /// representation that is all of it. `is_sap`: all segments begin with a key frame.
    pub(crate) fn put_representation(&self, out: &mut String, set: usize, is_sap: bool) {
        let Self { id, format, peak, .. } = self;
        let is_video = id.kind == MediaKind::Video;
        let kind = if is_video { "video" } else { "audio" };
        let _ = write!(
            out,
            "<AdaptationSet id=\"{set}\" contentType=\"{kind}\" mimeType=\"{kind}/mp4\" segmentAlignment=\"true\"{}>\n\
             <Representation id=\"{kind}{}\" codecs=\"{}\" bandwidth=\"{peak}\"",
            if is_sap { " startWithSAP=\"1\"" } else { "" },
            id.index,
            format.codecs,
        );
        if is_video && format.width > 0 {
            let _ = write!(out, " width=\"{}\" height=\"{}\"", format.width, format.height);
        }
        if let Some(rate) = self.frame_rate {
            let _ = write!(out, " frameRate=\"{}\"", frame_rate(rate));
        }
        if is_video {
            return out.push_str(">\n");
        }
        let _ = writeln!(
            out,
            " audioSamplingRate=\"{}\">\n<AudioChannelConfiguration \
             schemeIdUri=\"urn:mpeg:dash:23003:3:audio_channel_configuration:2011\" value=\"{}\"/>",
            format.sample_rate,
            format.channels.max(1),
        );
    }

    /// The folder of its objects.
    pub(crate) fn folder(&self) -> String {
        Object::Playlist(self.id).to_string().trim_end_matches(".m3u8").to_owned()
    }
}

/// The rest of an adaptation set: its segments, as where each begins and how long it is, in ticks.
/// Equal ones are one entry: a window of hours would be long else.
pub(crate) fn put_timeline(out: &mut String, mut segments: impl Iterator<Item = (i64, i64)>) {
    out.push_str("<SegmentTimeline>\n");
    let mut entry = segments.next();
    while let Some((from, duration)) = entry {
        let mut repeats = 0;
        entry = segments.find(|next| {
            let continues = *next == (from + (repeats + 1) * duration, duration);
            repeats += i64::from(continues);
            !continues
        });
        let _ = match repeats {
            0 => writeln!(out, "<S t=\"{from}\" d=\"{duration}\"/>"),
            _ => writeln!(out, "<S t=\"{from}\" d=\"{duration}\" r=\"{repeats}\"/>"),
        };
    }
    out.push_str("</SegmentTimeline>\n</SegmentTemplate>\n</Representation>\n</AdaptationSet>\n");
}
