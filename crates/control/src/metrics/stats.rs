//! What live statistics cost the control side. What they cost the workers is counted there.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::{counter, gauge};
use crate::stats::Cost;

/// Figures of one scrape.
#[derive(Debug, Clone, Copy)]
pub(super) struct StatsCost {
    messages: u64,
    merge_seconds: f64,
    encodes: u64,
    encode_seconds: f64,
    message_bytes: u64,
}

impl StatsCost {
    /// The figures as they are.
    pub(super) fn read(cost: &Cost) -> Self {
        Self {
            messages: cost.messages.load(Relaxed),
            merge_seconds: cost.merge_ns.load(Relaxed) as f64 / 1e9,
            encodes: cost.encodes.load(Relaxed),
            encode_seconds: cost.encode_ns.load(Relaxed) as f64 / 1e9,
            message_bytes: cost.message_bytes.load(Relaxed),
        }
    }

    /// Writes them.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        counter(encoder, "millstream_stats_messages", "Messages of live statistics", self.messages)?;
        let help = "Messages of live statistics that somebody read as MessagePack";
        counter(encoder, "millstream_stats_encodes", help, self.encodes)?;
        let times = [
            ("millstream_stats_merge_seconds", "CPU time of putting messages together", self.merge_seconds),
            ("millstream_stats_encode_seconds", "CPU time of encoding them", self.encode_seconds),
        ];
        for (name, help, seconds) in times {
            encoder
                .encode_descriptor(name, help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, f64, u64>(&seconds, None)?;
        }
        let help = "Bytes of the last message that was encoded";
        gauge(encoder, "millstream_stats_message_bytes", help, self.message_bytes as f64)
    }
}
