//! Multivariant playlists (RFC 8216bis section 4.4.6).
//!
//! Audio is a rendition of its own: DASH needs it so, and the same chunks serve both.

use media::{MediaKind, Timestamp};

use crate::Object;
use crate::text::{Text, TextWriter};
use crate::window::{Rendition, Segment, Window};

impl Window {
    /// The multivariant playlist; `prefix` leads from it to the other objects. `None` while there is nothing
    /// to play.
    pub(crate) fn multivariant_playlist(&self, prefix: &str) -> Option<Text> {
        let active = || self.renditions.iter().filter(|rendition| rendition.is_active());
        let of = |kind| active().filter(move |rendition| rendition.id.kind == kind);
        let audio: Vec<_> = of(MediaKind::Audio).collect();
        let main = of(MediaKind::Video).next().or(audio.first().copied())?;
        self.target_duration?;
        let is_video = main.id.kind == MediaKind::Video;
        let mut out = TextWriter::default();
        out.put(format_args!("#EXTM3U\n#EXT-X-VERSION:9\n"));
        let has_group = is_video && !audio.is_empty() || audio.len() > 1;
        if has_group {
            for (index, rendition) in audio.iter().enumerate() {
                out.put(format_args!(
                    "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"audio\",NAME=\"audio {}\",DEFAULT={},AUTOSELECT=YES,\
                     CHANNELS=\"{}\",URI=\"",
                    rendition.id.index,
                    if index == 0 { "YES" } else { "NO" },
                    rendition.newest_format().channels.max(1),
                ));
                out.uri(prefix, Object::Playlist(rendition.id));
                out.put(format_args!("\"\n"));
            }
        }
        let others = if is_video { &audio[..] } else { &audio[1..] };
        let largest = |rate: fn(&Rendition) -> u64| others.iter().map(|each| rate(each)).max().unwrap_or(0);
        let format = main.newest_format();
        let mut codecs = vec![&format.codecs[..]];
        for rendition in others {
            let name = &rendition.newest_format().codecs[..];
            if !codecs.contains(&name) {
                codecs.push(name);
            }
        }
        out.put(format_args!(
            "#EXT-X-STREAM-INF:BANDWIDTH={},AVERAGE-BANDWIDTH={},CODECS=\"{}\"",
            main.bandwidth() + largest(Rendition::bandwidth),
            main.average_bits_per_second() + largest(Rendition::average_bits_per_second),
            codecs.join(","),
        ));
        if format.width > 0 && format.height > 0 {
            out.put(format_args!(",RESOLUTION={}x{}", format.width, format.height));
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
        Some(out.finish())
    }
}

impl Rendition {
    /// Whether there is anything to play in its playlist.
    pub(crate) fn is_active(&self) -> bool {
        self.listed().any(Segment::has_media)
    }

    /// Notes the bit rate of the newest segments: the highest of any that follow each other and last
    /// between 0.5 and 1.5 target durations (section 4.4.6.2).
    pub(crate) fn note_peak(&mut self, target: u32) {
        let (least, most) = (i64::from(target) * 500, i64::from(target) * 1500);
        let (mut bytes, mut time) = (0, Timestamp::ZERO);
        for segment in self.segments.in_memory().rev() {
            let Some(duration) = segment.duration else { continue };
            (bytes, time) = (bytes + segment.bytes as u64, time + duration);
            if time.millis() > most {
                break;
            }
            if time.millis() >= least {
                self.peak_bits_per_second = self.peak_bits_per_second.max(bits_per_second(bytes, time));
            }
        }
    }

    /// `BANDWIDTH`: what no segment has exceeded since the stream began, and a tenth for those to come.
    pub(crate) fn bandwidth(&self) -> u64 {
        let peak = self.peak_bits_per_second.max(self.average_bits_per_second());
        peak + peak / 10
    }

    fn average_bits_per_second(&self) -> u64 {
        let parts = self.segments.in_memory().flat_map(|segment| &segment.parts);
        let (bytes, time) = parts.fold((0, Timestamp::ZERO), |(bytes, time), part| {
            (bytes + part.bytes.len() as u64, time + part.duration)
        });
        bits_per_second(bytes, time).max(1)
    }

    /// Pictures per second as they came, which need not be what the encoder's headers say.
    pub(crate) fn frame_rate(&self) -> Option<f64> {
        if self.id.kind != MediaKind::Video {
            return None;
        }
        let parts = self.segments.in_memory().flat_map(|segment| &segment.parts);
        let (samples, time) = parts.fold((0.0, Timestamp::ZERO), |(samples, time), part| {
            (samples + f64::from(part.samples), time + part.duration)
        });
        let rate = samples * 1000.0 / time.millis().max(1) as f64;
        Some(nearest_frame_rate(rate)).filter(|rate| *rate > 0.0)
    }
}

/// The usual rate that is meant: clocks in milliseconds blur it.
pub(crate) fn nearest_frame_rate(rate: f64) -> f64 {
    let nearest = FRAME_RATES.into_iter().min_by(|a, b| (a - rate).abs().total_cmp(&(b - rate).abs()));
    nearest.filter(|nearest| (nearest - rate).abs() < rate * 0.003).unwrap_or(rate)
}

pub(crate) fn bits_per_second(bytes: u64, time: Timestamp) -> u64 {
    bytes.saturating_mul(8_000_000).checked_div(time.micros().max(0).cast_unsigned()).unwrap_or(0)
}

const FRAME_RATES: [f64; 11] = [
    10.0,
    15.0,
    24_000.0 / 1001.0,
    24.0,
    25.0,
    30_000.0 / 1001.0,
    30.0,
    50.0,
    60_000.0 / 1001.0,
    60.0,
    120.0,
];
