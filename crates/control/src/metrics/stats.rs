//! What live statistics cost the control side. What they cost the workers is counted there.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::{counter, gauge};
use crate::stats::Cost;

/// Writes what has been counted so far.
pub(super) fn encode(cost: &Cost, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    counter(
        encoder,
        "millstream_stats_messages",
        "Messages of live statistics",
        cost.messages.load(Relaxed),
    )?;
    let help = "Messages of live statistics that somebody read as MessagePack";
    counter(encoder, "millstream_stats_encodes", help, cost.encodes.load(Relaxed))?;
    let times = [
        ("millstream_stats_merge_seconds", "CPU time of putting messages together", &cost.merge_ns),
        ("millstream_stats_encode_seconds", "CPU time of encoding them", &cost.encode_ns),
    ];
    for (name, help, ns) in times {
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, f64, u64>(&(ns.load(Relaxed) as f64 / 1e9), None)?;
    }
    let help = "Bytes of the last message that was encoded";
    gauge(encoder, "millstream_stats_message_bytes", help, cost.message_bytes.load(Relaxed) as f64)
}
