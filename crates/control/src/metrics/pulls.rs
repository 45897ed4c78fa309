//! Metrics of pulls: their states, and of each what it brings and how often it failed.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{Context, counters, gauges};
use sources::pull::{State, Status};

type Figure = (&'static str, &'static str, fn(&Status) -> u64);

/// Per pull; `_total` is added.
const COUNTERS: [Figure; 3] = [
    ("millstream_pull_received_bytes", "Bytes received from the source", |s| s.bytes),
    ("millstream_pull_failures", "Attempts that failed", |s| s.failures),
    ("millstream_pull_reconnects", "Times the source became live again", |s| s.reconnects),
];

/// Of the pulls as they are now; at most `metrics.streams_max` of them get series of their own.
pub(super) fn encode(context: &Context, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let pulls: Vec<_> = context.pulls.list().into_iter().map(|pull| (pull.status(), pull)).collect();
    let count = |state| pulls.iter().filter(|(status, _)| status.state == state).count() as f64;
    let states = State::ALL.into_iter().map(|state| ([("state", state.name())], count(state)));
    gauges(encoder, "millstream_pulls", "Pulls by state", states)?;
    for (name, help, value) in COUNTERS {
        let samples = pulls.iter().take(context.metrics_streams_max()).map(|(status, pull)| {
            ([("app", pull.spec.app.as_str()), ("stream", pull.spec.name.as_str())], value(status))
        });
        counters(encoder, name, help, samples)?;
    }
    Ok(())
}
