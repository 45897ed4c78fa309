//! Metrics of pulls: their states, and of each what it brings and how often it failed.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{Context, counters, gauges};
use sources::pull::{State, Status};

type Figure = (&'static str, &'static str, fn(&Status) -> u64);
type SrtFigure = (&'static str, &'static str, fn(&srt::Counters) -> u64);
type SrtGauge = (&'static str, &'static str, fn(&srt::Status) -> Option<f64>);

/// Per pull; `_total` is added.
const COUNTERS: [Figure; 3] = [
    ("millstream_pull_received_bytes", "Bytes received from the source", |s| s.bytes),
    ("millstream_pull_failures", "Attempts that failed", |s| s.failures),
    ("millstream_pull_reconnects", "Times the source became live again", |s| s.reconnects),
];

/// Per pull by SRT; `_total` is added.
const SRT_COUNTERS: [SrtFigure; 6] = [
    ("millstream_pull_srt_received_packets", "SRT data packets received, each once", |c| c.packets_in),
    ("millstream_pull_srt_lost_packets", "SRT data packets found missing", |c| c.lost_in),
    (
        "millstream_pull_srt_received_again_packets",
        "SRT data packets that came when they were sent again",
        |c| c.retransmitted_in,
    ),
    ("millstream_pull_srt_dropped_packets", "SRT data packets dropped because the next one was due", |c| {
        c.dropped_in
    }),
    ("millstream_pull_srt_late_packets", "SRT data packets that came twice, or too late", |c| c.late_in),
    ("millstream_pull_srt_undecrypted_packets", "SRT data packets that could not be decrypted", |c| {
        c.undecrypted_in
    }),
];

/// Per pull while it has a connection by SRT.
const SRT_GAUGES: [SrtGauge; 2] = [
    ("millstream_pull_srt_round_trip_seconds", "Round trip to the SRT listener", |s| {
        s.round_trip.map(|time| time.as_secs_f64())
    }),
    ("millstream_pull_srt_buffer_seconds", "Time of the packets that wait to be delivered", |s| {
        Some(s.receive_buffer.2.as_secs_f64())
    }),
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
    let by_srt = pulls.iter().filter_map(|(status, pull)| {
        let labels = [("app", pull.spec.app.as_str()), ("stream", pull.spec.name.as_str())];
        Some((labels, status.srt_counters()?, status.srt.as_ref()))
    });
    let by_srt: Vec<_> = by_srt.take(context.metrics_streams_max()).collect();
    for (name, help, value) in SRT_COUNTERS {
        counters(encoder, name, help, by_srt.iter().map(|(labels, counted, _)| (*labels, value(counted))))?;
    }
    for (name, help, value) in SRT_GAUGES {
        let samples = by_srt.iter().filter_map(|(labels, _, link)| Some((*labels, value(&(*link)?.status)?)));
        gauges(encoder, name, help, samples)?;
    }
    Ok(())
}
