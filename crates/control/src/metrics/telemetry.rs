//! Metrics of the export of telemetry.

use std::fmt;

use ::telemetry::status::TelemetryStatus;
use prometheus_client::encoding::DescriptorEncoder;

use super::{Context, counters};

pub(super) fn encode(context: &Context, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let status = || context.telemetry.as_deref().into_iter();
    let requests = status().flat_map(TelemetryStatus::requests);
    let requests = requests
        .map(|(signal, result, count)| ([("signal", signal.name()), ("result", result.name())], count));
    // `_total` is added.
    let help = "Requests to the collector of OpenTelemetry, by what came of them";
    counters(encoder, "millstream_telemetry_requests", help, requests)?;
    let exported = status().map(|status| ([("signal", "traces")], status.exported()));
    counters(encoder, "millstream_telemetry_spans", "Spans that the collector has taken", exported)?;
    let dropped = status().flat_map(TelemetryStatus::dropped);
    let dropped = dropped.map(|(reason, count)| ([("reason", reason)], count));
    let help = "Spans dropped: no room in the queue, not exported in time, rejected by the collector";
    counters(encoder, "millstream_telemetry_dropped_spans", help, dropped)
}
