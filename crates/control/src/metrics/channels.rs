//! Metrics of channels: how many are in which state, and of each what became of its items.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use sources::channels::{Figures, State};

/// Channels as of one scrape.
#[derive(Debug)]
pub(super) struct ChannelMetrics {
    channels: Vec<Figures>,
    streams_max: usize,
}

type Figure = (&'static str, &'static str, fn(&Figures) -> u64);

/// Per channel; `_total` is added.
const COUNTERS: [Figure; 3] = [
    ("millstream_channel_items_played", "Items played to their end", |f| f.items_played),
    ("millstream_channel_items_failed", "Items skipped as broken, each time", |f| f.items_failed),
    ("millstream_channel_pauses", "Times late frames made the pacing restart", |f| f.pauses),
];

impl ChannelMetrics {
    /// Of `channels`; at most `streams_max` of them get series of their own.
    pub(super) fn read(channels: Vec<Figures>, streams_max: usize) -> Self {
        Self { channels, streams_max }
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut states =
            encoder.encode_descriptor("millstream_channels", "Channels by state", None, MetricType::Gauge)?;
        for state in State::ALL {
            let count = self.channels.iter().filter(|channel| channel.state == state).count();
            states.encode_family(&[("state", state.name())])?.encode_gauge(&(count as f64))?;
        }
        for (name, help, value) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for channel in self.channels.iter().take(self.streams_max) {
                let labels = [("app", channel.app.as_str()), ("stream", channel.name.as_str())];
                family
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, u64, u64>(&value(channel), None)?;
            }
        }
        Ok(())
    }
}
