//! Metrics of bridges: by worker what they have cost since the start, by stream what the one that runs costs.
//!
//! A stream has series of its own while its bridge runs; they begin at zero with each bridge, which
//! a rate over a counter takes for a restart, as it should.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{counters, gauges};
use crate::merged::Merged;
use worker_api::snapshot::{BridgeCounters, BridgeDirection, BridgeSnapshot, WorkerSnapshot};

/// Counter of one bridge: name, meaning, value.
type Counter = (&'static str, &'static str, fn(&BridgeSnapshot) -> u64);

/// Counters of each bridge; `_total` is added when they are written.
const COUNTERS: [Counter; 6] = [
    ("millstream_stream_bridge_video_frames", "Frames of video taken in or made", |b| b.video_frames),
    ("millstream_stream_bridge_packets", "RTP packets made or taken in", |b| b.packets),
    ("millstream_stream_bridge_audio_frames", "Audio frames transcoded", |b| b.audio_frames),
    ("millstream_stream_bridge_dropped_b_frames", "B-frames left out", |b| b.b_frames_dropped),
    (
        "millstream_stream_bridge_dropped_broken",
        "Frames and packets that were broken, late or incomplete",
        |b| b.broken,
    ),
    ("millstream_stream_bridge_dropped_audio", "Audio frames the transcoder had no room for", |b| {
        b.audio_dropped
    }),
];

/// Which way a bridge goes, as a label.
fn name(direction: BridgeDirection) -> &'static str {
    match direction {
        BridgeDirection::FrameToRtp => "rtmp_to_webrtc",
        BridgeDirection::RtpToFrame => "webrtc_to_rtmp",
    }
}

/// Of each worker: bridges started and running by direction, CPU time by where it was spent.
pub(super) fn encode_workers(workers: &[WorkerSnapshot], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let by_direction = |of: fn(&BridgeCounters) -> [u64; 2]| {
        workers.iter().flat_map(move |worker| {
            let directions = [BridgeDirection::FrameToRtp, BridgeDirection::RtpToFrame].map(name);
            let counts = directions.into_iter().zip(of(&worker.counters.bridges));
            counts.map(|(direction, count)| {
                ([("worker", worker.index.to_string()), ("direction", direction.to_owned())], count)
            })
        })
    };
    let started = by_direction(|of| [of.frame_to_rtp_started, of.rtp_to_frame_started]);
    counters(encoder, "millstream_bridge_started", "Bridges between RTMP and WebRTC started", started)?;
    let running = by_direction(|of| [of.frame_to_rtp_running, of.rtp_to_frame_running]);
    gauges(encoder, "millstream_bridge_running", "Bridges that run", running)?;
    let cpu = workers.iter().flat_map(|worker| {
        let of = &worker.counters.bridges;
        [("worker", of.cpu_us), ("transcoding", of.transcoding_cpu_us)].map(|(part, cpu_us)| {
            ([("worker", worker.index.to_string()), ("part", part.to_owned())], cpu_us as f64 / 1e6)
        })
    });
    let help = "CPU time of bridges, on workers and on transcoding threads";
    counters(encoder, "millstream_bridge_cpu_seconds", help, cpu)
}

/// Of each stream with a bridge: what it costs, how long it takes, what it met.
pub(super) fn encode_streams(streams: &[Merged<'_>], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let bridged: Vec<_> =
        streams.iter().filter_map(|stream| Some((labels(stream, stream.bridge?), stream.bridge?))).collect();
    for (metric, help, value) in COUNTERS {
        counters(
            encoder,
            metric,
            help,
            bridged.iter().map(|(labels, bridge)| (labels.clone(), value(bridge))),
        )?;
    }
    let cpu = bridged.iter().flat_map(|(labels, bridge)| {
        [("worker", bridge.cpu_us), ("transcoding", bridge.transcoding_cpu_us)]
            .map(|(part, cpu_us)| (with(labels, ("part", part)), cpu_us as f64 / 1e6))
    });
    let help = "CPU time of the bridge, on its worker and on transcoding threads";
    counters(encoder, "millstream_stream_bridge_cpu_seconds", help, cpu)?;
    let latencies = bridged.iter().flat_map(|(labels, bridge)| {
        [("video", bridge.video_latency_us), ("audio", bridge.audio_latency_us)]
            .map(|(kind, latency_us)| (with(labels, ("kind", kind)), f64::from(latency_us) / 1e6))
    });
    let help = "Delay the bridge adds, median of the last second";
    gauges(encoder, "millstream_stream_bridge_latency_seconds", help, latencies)
}

type Labels = [(&'static str, String); 3];

fn labels(stream: &Merged<'_>, bridge: &BridgeSnapshot) -> Labels {
    let (app, name_of_stream) = (stream.primary.app.clone(), stream.primary.name.clone());
    [("app", app), ("stream", name_of_stream), ("direction", name(bridge.direction).to_owned())]
}

fn with(labels: &Labels, (key, value): (&'static str, &str)) -> [(&'static str, String); 4] {
    let [app, stream, direction] = labels.clone();
    [app, stream, direction, (key, value.to_owned())]
}
