//! Metrics of pulls: their states, and of each what it brings and how often it failed.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

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
        let mut states =
            encoder.encode_descriptor("millstream_pulls", "Pulls by state", None, MetricType::Gauge)?;
        for state in State::ALL {
            let count = self.pulls.iter().filter(|(.., status)| status.state == state).count();
            states.encode_family(&[("state", state.name())])?.encode_gauge(&(count as f64))?;
        }
        for (name, help, value) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (app, name, status) in self.pulls.iter().take(self.streams_max) {
                let labels = [("app", app.as_str()), ("stream", name.as_str())];
                family
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, u64, u64>(&value(status), None)?;
            }
        }
        Ok(())
    }
}
