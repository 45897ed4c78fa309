//! Metrics of pushes: their states, and of each stream what was sent and how often that failed.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{Context, counters, gauges};
use ::pushes::PushStatus;
use sources::pull::State;

type Figure = (&'static str, &'static str, fn(&PushStatus) -> u64);

/// Per stream, over all its targets; `_total` is added.
const COUNTERS: [Figure; 4] = [
    ("millstream_push_sent_bytes", "Bytes sent to targets", |s| s.link.bytes),
    ("millstream_push_failures", "Attempts that failed", |s| s.link.failures),
    ("millstream_push_reconnects", "Times a target became live again", |s| s.link.reconnects),
    ("millstream_push_left_out_frames", "Frames that targets were too slow for, or cannot carry", |s| {
        s.left_out
    }),
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
    Ok(())
}
