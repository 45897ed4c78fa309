//! Metrics of pulls: their states, and of each what it brings and how often it failed.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::DescriptorEncoder;

use super::{counters, gauges};
use sources::pull::{Pull, State, Status};

/// Pulls as of one scrape.
#[derive(Debug)]
pub(super) struct PullMetrics {
    pulls: Vec<(String, String, Status)>,
    streams_max: usize,
}

type Figure = (&'static str, &'static str, fn(&Status) -> u64);

/// Per pull; `_total` is added.
const COUNTERS: [Figure; 3] = [
    ("millstream_pull_received_bytes", "Bytes received from the source", |s| s.bytes),
    ("millstream_pull_failures", "Attempts that failed", |s| s.failures),
    ("millstream_pull_reconnects", "Times the source became live again", |s| s.reconnects),
];

impl PullMetrics {
    /// Of `pulls`; at most `streams_max` of them get series of their own.
    pub(super) fn read(pulls: &[Arc<Pull>], streams_max: usize) -> Self {
        let row = |pull: &Arc<Pull>| (pull.spec.app.clone(), pull.spec.name.clone(), pull.status());
        Self { pulls: pulls.iter().map(row).collect(), streams_max }
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let count = |state| self.pulls.iter().filter(|(.., status)| status.state == state).count() as f64;
        let states = State::ALL.into_iter().map(|state| ([("state", state.name())], count(state)));
        gauges(encoder, "millstream_pulls", "Pulls by state", states)?;
        for (name, help, value) in COUNTERS {
            let pulls = self.pulls.iter().take(self.streams_max);
            let samples = pulls.map(|(app, name, status)| {
                ([("app", app.as_str()), ("stream", name.as_str())], value(status))
            });
            counters(encoder, name, help, samples)?;
        }
        Ok(())
    }
}
