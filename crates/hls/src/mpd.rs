//! Media presentation descriptions of DASH (ISO/IEC 23009-1), over the same segments.
//!
//! A period ends at a discontinuity. Segments are numbered by their media sequence numbers; the one that
//! grows is listed with the duration of the one before it, and sent in chunks while it grows
//! (`availabilityTimeOffset`).

use std::fmt::Write as _;
use std::time::Duration;

use media::Timestamp;

use crate::text::Date;
use crate::variant::put_timeline;
use crate::window::{Rendition, Segment, Window};

impl Window {
    /// The MPD at `now`; `prefix` leads from it to the other objects. `None` while there is nothing to play.
    pub(crate) fn mpd(&self, prefix: &str, now: Duration) -> Option<String> {
        let target = self.target_duration?;
        let active: Vec<_> = self.renditions.iter().filter(|rendition| rendition.is_active()).collect();
        let main = *active.first()?;
        let available_from = self.available_from?;
        let mut periods: Vec<u64> = active
            .iter()
            .flat_map(|each| each.listed())
            .map(|segment| segment.discontinuity_sequence)
            .collect();
        periods.sort_unstable();
        periods.dedup();
        let since = |time: Duration| iso_duration(time.saturating_sub(available_from));
        let part = active.iter().map(|each| each.part_target).max().unwrap_or_default();
        let oldest = main.listed().next()?;
        let newest = active.iter().map(|each| each.end()).max().unwrap_or_default();
        let depth = (newest - oldest.start).to_duration();
        let mut out = String::with_capacity(4096);
        let _ = write!(
            out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" \
             profiles=\"urn:mpeg:dash:profile:isoff-live:2011\" type=\"dynamic\" \
             availabilityStartTime=\"{}\" publishTime=\"{}\" minBufferTime=\"{}\" \
             timeShiftBufferDepth=\"{}\" maxSegmentDuration=\"PT{}S\"",
            Date(available_from),
            Date(now),
            iso_duration(part.to_duration()),
            iso_duration(depth),
            target + 1,
        );
        if self.is_ended {
            let last =
                active.iter().filter_map(|each| each.segments.newest()).map(|last| last.wall_end()).max();
            let _ =
                writeln!(out, " mediaPresentationDuration=\"{}\">", since(last.unwrap_or(available_from)));
        } else {
            let _ = writeln!(out, " minimumUpdatePeriod=\"{}\">", iso_duration(UPDATE_PERIOD));
        }
        if !prefix.is_empty() {
            let _ = writeln!(out, "<BaseURL>{}</BaseURL>", escape(prefix));
        }
        // Parts of a segment come while it grows: three of them behind live, as with HLS, and what the
        // network takes.
        let latency = 3 * part.millis() + LATENCY_ALLOWANCE_MS;
        let _ = writeln!(
            out,
            "<ServiceDescription id=\"0\"><Latency target=\"{latency}\" min=\"{}\" max=\"{}\"/>\
             <PlaybackRate min=\"0.96\" max=\"1.04\"/></ServiceDescription>",
            latency / 2,
            4 * latency,
        );
        for period in &periods {
            self.put_period(&mut out, *period, &active, available_from);
        }
        let _ = writeln!(
            out,
            "<UTCTiming schemeIdUri=\"urn:mpeg:dash:utc:http-iso:2014\" value=\"{}\"/>\n</MPD>",
            // Players resolve it as all other URLs, behind `BaseURL`.
            crate::Object::Time,
        );
        Some(out)
    }

    fn put_period(&self, out: &mut String, number: u64, active: &[&Rendition], available_from: Duration) {
        let sets: Vec<_> =
            active.iter().map(|each| (*each, each.run(number))).filter(|(_, run)| !run.is_empty()).collect();
        // All renditions count from where the period begins in media time.
        let Some(origin) = self.period_origin(number) else { return };
        let start = iso_duration(origin.wall_clock.saturating_sub(available_from));
        let _ = writeln!(out, "<Period id=\"{number}\" start=\"{start}\">");
        for (index, (rendition, run)) in sets.iter().enumerate() {
            put_adaptation_set(out, index, rendition, run, origin.media);
        }
        out.push_str("</Period>\n");
    }
}

fn put_adaptation_set(
    out: &mut String,
    id: usize,
    rendition: &Rendition,
    run: &[&Segment],
    origin: Timestamp,
) {
    let Some(init) = run[0].init else { return };
    let format = rendition.inits.iter().find(|each| each.number == init).map(|each| &each.format);
    let format = format.unwrap_or(rendition.newest_format());
    let variant = rendition.variant(format);
    variant.put_representation(out, id, true);
    let timescale = format.timescale();
    let name = variant.folder();
    let longest = run.iter().map(|segment| segment.length()).max().unwrap_or_default();
    let offset = (longest - rendition.part_target).millis().max(0);
    let _ = writeln!(
        out,
        "<SegmentTemplate timescale=\"{timescale}\" presentationTimeOffset=\"{}\" startNumber=\"{}\" \
         initialization=\"{name}/init-{init}.mp4\" media=\"{name}/$Number$.m4s\" \
         availabilityTimeOffset=\"{}.{:03}\" availabilityTimeComplete=\"false\">",
        origin.ticks(timescale),
        run[0].msn,
        offset / 1000,
        offset % 1000,
    );
    let segments = run.iter().enumerate().map(|(index, segment)| {
        // Where the next one begins, so that there is no hole of a tick.
        let next = run.get(index + 1).map(|next| next.presented);
        let end = next.unwrap_or(segment.presented + segment.length());
        let (from, to) = (segment.presented.ticks(timescale), end.ticks(timescale));
        (from, (to - from).max(1))
    });
    put_timeline(out, segments);
}

/// Where a period begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeriodOrigin {
    pub(crate) number: u64,
    pub(crate) wall_clock: Duration,
    pub(crate) media: Timestamp,
}

impl Rendition {
    /// The listed segments of a period that can be in its timeline.
    fn run(&self, period: u64) -> Vec<&Segment> {
        let mut run = Vec::new();
        for segment in self.listed().filter(|segment| segment.discontinuity_sequence == period) {
            // Numbers count the entries of a timeline: behind a gap it begins again.
            if segment.is_gap {
                run.clear();
            } else if segment.has_media() {
                run.push(segment);
            }
        }
        run
    }
}

impl Segment {
    /// How long it is, or how long it will be, as far as it is known.
    fn length(&self) -> Timestamp {
        self.duration.unwrap_or_else(|| (self.end() - self.start).max(self.expected))
    }

    fn wall_end(&self) -> Duration {
        self.wall_clock + (self.end() - self.start).to_duration()
    }
}

pub(crate) fn iso_duration(time: Duration) -> String {
    format!("PT{}.{:03}S", time.as_secs(), time.subsec_millis())
}

/// A rate as a fraction, where it has 1001 in it.
pub(crate) fn frame_rate(rate: f64) -> String {
    let near = (rate * 1001.0 / 1000.0).round();
    if (rate - rate.round()).abs() < 1e-6 {
        format!("{}", rate.round())
    } else if (near * 1000.0 / 1001.0 - rate).abs() < 1e-6 {
        format!("{}/1001", near * 1000.0)
    } else {
        format!("{}/1000", (rate * 1000.0).round())
    }
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// How often players look for new segments and periods.
const UPDATE_PERIOD: Duration = Duration::from_millis(500);
/// What a network and a player need besides the parts.
const LATENCY_ALLOWANCE_MS: i64 = 400;
