//! Metrics of channels: how many are in which state, and what became of their items.
//!
//! Totals only: what happens in one channel is in the API, and its stream has series of its own.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::counter;
use crate::channels::{State, Totals};

pub(super) fn encode(totals: &Totals, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let mut states =
        encoder.encode_descriptor("millstream_channels", "Channels by state", None, MetricType::Gauge)?;
    for (state, count) in State::ALL.into_iter().zip(totals.by_state) {
        states.encode_family(&[("state", state.name())])?.encode_gauge(&(count as f64))?;
    }
    let figures = [
        ("millstream_channel_items_played", "Items of channels played to their end", totals.items_played),
        ("millstream_channel_items_failed", "Items of channels skipped as broken", totals.items_failed),
        ("millstream_channel_pauses", "Times frames of a channel came too late", totals.pauses),
    ];
    figures.into_iter().try_for_each(|(name, help, value)| counter(encoder, name, help, value))
}
