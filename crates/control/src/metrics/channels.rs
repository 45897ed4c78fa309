//! Metrics of channels: how many are in which state, and of each what became of its items.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{Context, counters, gauges};
use sources::channels::{Figures, State};

type Figure = (&'static str, &'static str, fn(&Figures) -> u64);

/// Per channel; `_total` is added.
const COUNTERS: [Figure; 3] = [
    ("millstream_channel_items_played", "Items played to their end", |f| f.items_played),
    ("millstream_channel_items_failed", "Items skipped as broken, each time", |f| f.items_failed),
    ("millstream_channel_pauses", "Times late frames made the pacing restart", |f| f.pauses),
];

/// Of the channels as they are now; at most `metrics.streams_max` of them get series of their own.
pub(super) fn encode(context: &Context, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let channels = context.channels.figures();
    let count = |state| channels.iter().filter(|channel| channel.state == state).count() as f64;
    let states = State::ALL.into_iter().map(|state| ([("state", state.name())], count(state)));
    gauges(encoder, "millstream_channels", "Channels by state", states)?;
    for (name, help, value) in COUNTERS {
        let samples = channels.iter().take(context.metrics_streams_max());
        let samples = samples.map(|of| ([("app", of.app.as_str()), ("stream", of.name.as_str())], value(of)));
        counters(encoder, name, help, samples)?;
    }
    Ok(())
}
