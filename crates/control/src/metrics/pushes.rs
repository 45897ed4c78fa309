//! Metrics of pushes: their states, and of each stream what was sent and how often that failed.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{Context, counters, gauges};
use ::pushes::PushStatus;
use sources::pull::State;

type Figure = (&'static str, &'static str, fn(&PushStatus) -> u64);
type SrtFigure = (&'static str, &'static str, fn(&srt::Counters) -> u64);
type SrtGauge = (&'static str, &'static str, fn(&srt::Status) -> Option<f64>);

/// Per stream, over all its targets; `_total` is added.
const COUNTERS: [Figure; 4] = [
    ("millstream_push_sent_bytes", "Bytes sent to targets", |s| s.link.bytes),
    ("millstream_push_failures", "Attempts that failed", |s| s.link.failures),
    ("millstream_push_reconnects", "Times a target became live again", |s| s.link.reconnects),
    ("millstream_push_left_out_frames", "Frames that targets were too slow for, or cannot carry", |s| {
        s.left_out
    }),
];

/// Per stream, over all its targets by SRT; `_total` is added.
const SRT_COUNTERS: [SrtFigure; 4] = [
    ("millstream_push_srt_sent_packets", "SRT data packets sent for the first time", |c| c.packets_out),
    ("millstream_push_srt_lost_packets", "SRT data packets that targets reported missing", |c| c.lost_out),
    ("millstream_push_srt_sent_again_packets", "SRT data packets sent again", |c| c.retransmitted_out),
    ("millstream_push_srt_dropped_packets", "SRT data packets dropped because they were too old", |c| {
        c.dropped_out
    }),
];

/// Per stream, of its target by SRT that has most; while one is connected.
const SRT_GAUGES: [SrtGauge; 2] = [
    ("millstream_push_srt_round_trip_seconds", "Round trip to the SRT target, the longest", |s| {
        s.round_trip.map(|time| time.as_secs_f64())
    }),
    (
        "millstream_push_srt_buffer_seconds",
        "Time of the packets that wait to be acknowledged by the SRT target, the longest",
        |s| Some(s.send_buffer.2.as_secs_f64()),
    ),
];

/// Of the pushes as they are now; at most `metrics.streams_max` streams get series of their own.
pub(super) fn encode(context: &Context, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let active = context.pushes.list().into_iter().flat_map(|rule| rule.active());
    let pushes: Vec<_> = active.map(|push| (push.status(), push)).collect();
    let count = |state| pushes.iter().filter(|(status, _)| status.link.state == state).count() as f64;
    let states = State::ALL.into_iter().map(|state| ([("state", state.name())], count(state)));
    gauges(encoder, "millstream_pushes", "Pushes by state", states)?;
    for (name, help, value) in COUNTERS {
        let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (status, push) in &pushes {
            *sums.entry((&push.app, &push.name)).or_default() += value(status);
        }
        let samples = sums.into_iter().take(context.metrics_streams_max());
        let samples = samples.map(|((app, stream), value)| ([("app", app), ("stream", stream)], value));
        counters(encoder, name, help, samples)?;
    }
    let mut by_srt: BTreeMap<(&str, &str), (srt::Counters, Vec<srt::Status>)> = BTreeMap::new();
    for (status, push) in &pushes {
        let Some(counted) = status.link.srt_counters() else { continue };
        let (sum, links) = by_srt.entry((&push.app, &push.name)).or_default();
        sum.add(&counted);
        links.extend(status.link.srt.as_ref().map(|link| link.status));
    }
    let by_srt: Vec<_> = by_srt.into_iter().take(context.metrics_streams_max()).collect();
    let labels = |(app, stream)| [("app", app), ("stream", stream)];
    for (name, help, value) in SRT_COUNTERS {
        counters(encoder, name, help, by_srt.iter().map(|(key, (sum, _))| (labels(*key), value(sum))))?;
    }
    for (name, help, value) in SRT_GAUGES {
        let samples = by_srt.iter().filter_map(|(key, (_, links))| {
            Some((labels(*key), links.iter().filter_map(value).max_by(f64::total_cmp)?))
        });
        gauges(encoder, name, help, samples)?;
    }
    Ok(())
}
