//! Metrics of channels: how many are in which state, and of each what became of its items.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{counters, gauges};
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
        let count = |state| self.channels.iter().filter(|channel| channel.state == state).count() as f64;
        let states = State::ALL.into_iter().map(|state| ([("state", state.name())], count(state)));
        gauges(encoder, "millstream_channels", "Channels by state", states)?;
        for (name, help, value) in COUNTERS {
            let channels = self.channels.iter().take(self.streams_max);
            let samples =
                channels.map(|of| ([("app", of.app.as_str()), ("stream", of.name.as_str())], value(of)));
            counters(encoder, name, help, samples)?;
        }
        Ok(())
    }
}
