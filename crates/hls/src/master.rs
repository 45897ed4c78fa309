//! Multivariant playlists (RFC 8216bis section 4.4.6).
//!
//! Audio is a rendition of its own: DASH needs it so, and the same chunks serve both.

use cmaf::Format;
use media::{MediaKind, Timestamp};

use crate::text::{Text, TextWriter};
use crate::variant::{Variant, put_variants};
use crate::window::{Rendition, Segment, Window};

impl Window {
    /// The multivariant playlist; `prefix` leads from it to the other objects. `None` while there is nothing
    /// to play.
    pub(crate) fn multivariant_playlist(&self, prefix: &str) -> Option<Text> {
        self.target_duration?;
        let active = self.renditions.iter().filter(|rendition| rendition.is_active());
        let variants: Vec<_> = active.map(|rendition| rendition.variant(rendition.newest_format())).collect();
        let mut out = TextWriter::default();
        out.put(format_args!("#EXTM3U\n#EXT-X-VERSION:9\n"));
        put_variants(&mut out, prefix, &variants)?;
        Some(out.finish())
    }
}

impl Rendition {
    /// As playlists and MPDs describe it where it has this format.
    pub(crate) fn variant<'a>(&self, format: &'a Format) -> Variant<'a> {
        let average = self.average_bits_per_second();
        Variant { id: self.id, format, peak: self.bandwidth(), average, frame_rate: self.frame_rate() }
    }

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
    fn bandwidth(&self) -> u64 {
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
    fn frame_rate(&self) -> Option<f64> {
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
