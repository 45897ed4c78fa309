//! `/metrics`: the workers' counters in the OpenMetrics text format that Prometheus reads.
//!
//! Nothing is counted here: each scrape encodes a snapshot. Series per worker are few; series per stream are
//! capped by `metrics.streams_max`, the streams with most players first, because names come from publishers
//! and every new one is kept by whatever stores the metrics.

use std::fmt;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::api::merge;
use super::memory;
use super::merged::{Merged, merged};
use super::{Context, error_response};
use worker_api::snapshot::{RtcShare, WorkerSnapshot};

mod acme;
mod bridges;
mod channels;
mod cluster;
mod hooks;
mod http;
mod moq;
mod overload;
mod pulls;
mod pushes;
mod recordings;
mod reload;
mod segments;
mod stats;
mod telemetry;
mod uploads;
mod vod;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) fn router() -> Router<Arc<Context>> {
    Router::new().route("/metrics", get(metrics))
}

async fn metrics(State(context): State<Arc<Context>>) -> Response {
    match metrics_text(context).await {
        Ok(body) => ([(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE))], body).into_response(),
        Err(NoMetrics::Worker) => error_response::error(
            StatusCode::SERVICE_UNAVAILABLE,
            "worker_unavailable",
            "a worker did not answer in time",
        ),
        Err(NoMetrics::Encoding) => error_response::error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "encoding_failed",
            "the metrics could not be encoded",
        ),
    }
}

/// Why there are no metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoMetrics {
    /// A worker did not answer in time.
    Worker,
    /// They could not be written.
    Encoding,
}

/// All metrics in the text format of OpenMetrics, as they are now.
///
/// # Errors
/// [`NoMetrics`]
pub async fn metrics_text(context: Arc<Context>) -> Result<String, NoMetrics> {
    let workers = context.workers.snapshots().await.map_err(|_| NoMetrics::Worker)?;
    let mut registry = Registry::default();
    let cluster = cluster::View::of(&context).await;
    registry.register_collector(Box::new(Scrape { workers, cluster, context }));
    let mut body = String::new();
    text::encode(&mut body, &registry).map_err(|_| NoMetrics::Encoding)?;
    Ok(body)
}

/// Everything one answer is made of.
#[derive(Debug)]
struct Scrape {
    workers: Vec<WorkerSnapshot>,
    cluster: Option<cluster::View>,
    context: Arc<Context>,
}

type Counter = (&'static str, &'static str, fn(&WorkerSnapshot) -> u64);
type WorkerGauge = (&'static str, &'static str, fn(&WorkerSnapshot) -> f64);
type StreamGauge = (&'static str, &'static str, fn(&Merged<'_>) -> f64);

/// Rows of [`WORKER_COUNTERS`].
macro_rules! worker_counters {
    ($($($field:ident).+: $name:literal, $help:literal;)*) => {
        &[$(($name, $help, |worker| worker.counters.$($field).+)),*]
    };
}

/// Counters per worker; `_total` is added when they are written.
const WORKER_COUNTERS: &[Counter] = worker_counters! {
    accepted: "millstream_connections_accepted", "Connections accepted";
    handed_over: "millstream_connections_handed_over",
        "Connections that another worker took because the one that accepted them was full";
    refused_full: "millstream_connections_refused_full",
        "Connections closed because the worker was full, or one address had too many by RTSP";
    refused_address: "millstream_connections_refused_address",
        "Connections, WebRTC sessions and SRT callers refused because their address has, or opens, too many";
    http_handed_over: "millstream_http_handed_over", "HTTP connections handed to the control side";
    segments_answered: "millstream_segments_answered",
        "Requests answered with a playlist, a segment or a part";
    segments_waited: "millstream_segments_waited", "Those of them that waited for it";
    segments_refused: "millstream_segments_refused",
        "Requests for playlists, segments and parts that were refused";
    http_returned: "millstream_http_returned", "HTTP connections that came back to be idle, or for media";
    accept_pauses: "millstream_accept_pauses", "Times accepting paused because file descriptors ran out";
    bytes_in: "millstream_received_bytes", "Bytes received on all sockets";
    bytes_out: "millstream_sent_bytes", "Bytes sent on all sockets";
    frames_in: "millstream_received_frames", "Media messages received from publishers";
    frames_invalid: "millstream_invalid_frames", "Malformed media messages dropped";
    flv_drops: "millstream_flv_dropped_frames",
        "Frames that RTMP and FLV players did not get, since FLV has no place for their codec or size";
    ts_drops: "millstream_ts_dropped_frames",
        "Frames that players of MPEG-TS did not get, since it has no place for their codec or size";
    frames_out: "millstream_sent_frames", "Media messages sent, summed over players";
    writes: "millstream_writes", "Write calls on player sockets";
    queue_drops: "millstream_queue_dropped_frames", "Frames players did not get because they were too slow";
    slow_disconnects: "millstream_slow_players_disconnected",
        "Players disconnected because they were too slow";
    ring_messages_out: "millstream_ring_sent_messages",
        "Messages sent to other workers: frames, packets, changes of streams";
    worker_wake_ups: "millstream_worker_wake_ups", "Times the worker has woken another that slept";
    ring_frames_in: "millstream_ring_received_frames", "Frames received from other workers";
    ring_drops: "millstream_ring_dropped_frames",
        "Frames dropped because the ring to another worker was full";
    ring_late: "millstream_ring_late_frames",
        "Frames received from another worker after their publication was no longer played here";
    undecodable: "millstream_undecodable_frames",
        "Video frames that the worker's players did not get because the key frame they need is missing";
    protocol_errors: "millstream_protocol_errors",
        "Sessions ended by a protocol error, a bad request or a time limit";
    unauthorized: "millstream_unauthorized_sessions",
        "RTMP, HTTP-FLV and WebSocket-FLV sessions refused by authorisation";
    panics: "millstream_panics",
        "Defects of the server that ended a session, a stream's sessions or a bridge";
    loop_turns: "millstream_loop_turns", "Turns of the event loop";
    rtc.opened: "millstream_rtc_sessions_opened", "WebRTC sessions opened";
    rtc.connected: "millstream_rtc_sessions_connected", "WebRTC sessions whose ICE and DTLS were done";
    rtc.expired: "millstream_rtc_sessions_expired",
        "WebRTC sessions freed because they did not connect in time";
    rtc.consent_lost: "millstream_rtc_consent_lost",
        "WebRTC sessions ended because the peer no longer answered";
    rtc.packets_in: "millstream_rtc_received_packets", "RTP and RTCP packets received";
    rtc.packets_out: "millstream_rtc_sent_packets",
        "RTP packets sent for the first time, summed over viewers";
    rtc.video_left: "millstream_rtc_turns_with_video_left",
        "Turns of the event loop that left video to the next, so that audio was not held up";
    rtc.packets_resent: "millstream_rtc_resent_packets", "RTP packets resent";
    rtc.resends_refused: "millstream_rtc_refused_resends",
        "Packets viewers requested by NACK that were not resent";
    rtc.unknown_source: "millstream_rtc_unknown_source_datagrams",
        "Datagrams from addresses no session has validated";
    rtc.passed_on: "millstream_rtc_passed_on_datagrams",
        "Datagrams and ICE-TCP connections of a shared port passed on to the worker of their session";
    rtc.passed_on_dropped: "millstream_rtc_passed_on_dropped_datagrams",
        "Those that were dropped, as the ring to their worker was full";
    rtc.signals_refused: "millstream_rtc_refused_signals", "STUN and DTLS datagrams that were refused";
    rtc.unauthentic: "millstream_rtc_unauthentic_packets", "Packets whose authentication failed";
    rtc.dropped: "millstream_rtc_dropped_packets",
        "Packets dropped: replayed, old, malformed, of no track, before there were keys";
    rtc.not_forwarded: "millstream_rtc_not_forwarded_packets",
        "Packets of publishers that were padding, or of a layer that is not forwarded";
    rtc.unsupported: "millstream_rtc_unsupported_packets",
        "Packets that viewers did not get because they do not take the codec";
    rtc.unsent: "millstream_rtc_unsent_packets",
        "Packets that not all viewers got because too many of their stream waited to be sent, or \
         for too long";
    rtc.unacknowledged: "millstream_rtc_unacknowledged_packets",
        "Packets left out of transport feedback because too many arrived at once";
    rtc.send_failures: "millstream_rtc_send_failures",
        "Packets a socket did not take, video that waited too long for room, packets that could not be encrypted";
    rtc.no_room_audio: "millstream_rtc_no_room_audio_packets",
        "Audio packets viewers did not get because the UDP socket had no room for too long";
    rtc.no_room_video: "millstream_rtc_no_room_video_packets",
        "Video packets viewers did not get because the UDP socket had no room for too long";
    rtc.refused_audio: "millstream_rtc_refused_audio_packets",
        "Audio packets viewers did not get because the system refused to send them";
    rtc.refused_video: "millstream_rtc_refused_video_packets",
        "Video packets viewers did not get because the system refused to send them";
    rtc.paused: "millstream_rtc_paused_packets", "Packets not sent because the session had no path";
    rtc.nacks_in: "millstream_rtc_nacked_packets_received", "Packets viewers requested by NACK";
    rtc.nacks_out: "millstream_rtc_nacked_packets_sent", "Packets requested from publishers by NACK";
    rtc.key_frame_requests_in: "millstream_rtc_key_frame_requests_received",
        "Key frame requests received from viewers";
    rtc.key_frame_requests_out: "millstream_rtc_key_frame_requests_sent",
        "Key frame requests sent to publishers";
    rtc.byes_in: "millstream_rtc_received_byes",
        "Times a peer has said by BYE that its media is over; the session goes on";
    rtc.ring_drops: "millstream_rtc_ring_dropped_packets",
        "Packets dropped because the ring to another worker was full";
    rtc.probes: "millstream_rtc_probes",
        "Short rises of what is sent to a WHEP player, to see whether its path carries more";
    rtc.padding_bytes: "millstream_rtc_padding_bytes", "Bytes of padding sent for probes";
    rtc.times_behind: "millstream_rtc_times_behind",
        "Times that video waited for a player's path for so long that it went on with the next key frame";
    srt.accepted: "millstream_srt_sessions_accepted", "SRT callers that were accepted";
    srt.refused: "millstream_srt_callers_refused", "SRT callers that were refused";
    srt.inductions: "millstream_srt_inductions", "SRT callers that were given a cookie, of which nothing is kept";
    srt.wrong_cookies: "millstream_srt_wrong_cookies",
        "SRT handshakes with a wrong cookie, which are not answered";
    srt.unknown: "millstream_srt_unknown_datagrams", "Datagrams that are for no SRT session";
    srt.invalid: "millstream_srt_invalid_packets", "Packets that make no sense to their SRT session";
    srt.packets_in: "millstream_srt_received_packets", "SRT data packets received, each once";
    srt.lost_in: "millstream_srt_lost_packets", "SRT data packets of publishers found missing";
    srt.retransmitted_in: "millstream_srt_received_again_packets",
        "SRT data packets of publishers that came when they were sent again";
    srt.dropped_in: "millstream_srt_dropped_packets",
        "SRT data packets of publishers dropped because the next one was due";
    srt.late_in: "millstream_srt_late_packets", "SRT data packets that came twice, or too late";
    srt.no_room_in: "millstream_srt_no_room_packets", "SRT data packets for which there was no room";
    srt.undecrypted_in: "millstream_srt_undecrypted_packets", "SRT data packets that could not be decrypted";
    srt.packets_out: "millstream_srt_sent_packets",
        "SRT data packets sent for the first time, summed over players";
    srt.lost_out: "millstream_srt_players_lost_packets", "SRT data packets that players reported missing";
    srt.retransmitted_out: "millstream_srt_sent_again_packets", "SRT data packets sent again";
    srt.dropped_out: "millstream_srt_players_dropped_packets",
        "SRT data packets dropped because they were too old for their player";
    srt.send_failures: "millstream_srt_send_failures",
        "Datagrams of SRT that a socket had no room for or refused";
    rtsp.published: "millstream_rtsp_publishers_accepted", "RTSP clients accepted as publishers";
    rtsp.played: "millstream_rtsp_players_accepted", "RTSP clients accepted as players";
    rtsp.refused: "millstream_rtsp_requests_refused", "RTSP requests that were refused";
    rtsp.packets_in: "millstream_rtsp_received_packets", "RTP and RTCP packets received from RTSP clients";
    rtsp.dropped: "millstream_rtsp_dropped_packets",
        "Packets of RTSP clients that make no sense, or are of no track that is carried";
    rtsp.unknown: "millstream_rtsp_unknown_packets",
        "Interleaved packets on channels without SETUP, and datagrams of no RTSP session";
    rtsp.datagrams_out: "millstream_rtsp_sent_datagrams", "Packets sent to RTSP players by UDP";
    rtsp.send_failures: "millstream_rtsp_send_failures",
        "Datagrams of RTSP that a socket had no room for or refused";
    bridges.transcoders_started: "millstream_bridge_transcoders_started", "Audio transcoders started";
    bridges.transcoders_refused: "millstream_bridge_transcoders_refused",
        "Bridges that run without audio because no transcoder was free";
    bridges.b_frames_dropped: "millstream_bridge_dropped_b_frames", "B-frames dropped by bridges to WebRTC";
    bridges.undecodable: "millstream_bridge_dropped_undecodable",
        "Video frames bridges dropped because the key frame they need had not come";
    bridges.other_tracks: "millstream_bridge_dropped_other_tracks",
        "Frames bridges dropped because they were not of the first audio or video track";
    bridges.broken: "millstream_bridge_dropped_broken",
        "Frames and packets bridges could not use: broken, late or incomplete";
    bridges.audio_dropped: "millstream_bridge_dropped_audio", "Audio frames transcoders had no room for";
    stats.made: "millstream_stats_snapshots", "Snapshots made for the live statistics";
    stats.dropped: "millstream_stats_snapshots_dropped",
        "Snapshots dropped because they were not read in time";
};

/// The same of nodes of a cluster.
const RELAY_COUNTERS: &[Counter] = worker_counters! {
    relay.datagrams_in: "millstream_relay_received_datagrams", "Datagrams received from other nodes";
    relay.datagrams_out: "millstream_relay_sent_datagrams",
        "Datagrams sent to other nodes: packets, repairs and control";
    relay.send_failures: "millstream_relay_send_failures", "Datagrams to other nodes the system refused";
    relay.send_dropped: "millstream_relay_send_dropped_datagrams",
        "Datagrams to other nodes the system had no room for in time";
    relay.not_sealed: "millstream_relay_not_sealed_packets",
        "Packets that other nodes did not get: too long, of a codec not offered, or their key was used up";
    relay.not_forwarded: "millstream_relay_not_forwarded_packets",
        "Packets of another node that did not go on to further nodes";
    relay.key_frame_requests_in: "millstream_relay_key_frame_requests_received",
        "Key frame requests received from other nodes, merged";
    relay.key_frame_requests_out: "millstream_relay_key_frame_requests_sent",
        "Key frame requests sent to other nodes";
    relay.unknown_source: "millstream_relay_unknown_source_datagrams",
        "Datagrams dropped because no linked node has their address";
    relay.malformed: "millstream_relay_malformed_datagrams",
        "Datagrams dropped because they were not of this protocol or version";
    relay.replayed: "millstream_relay_replayed_datagrams",
        "Datagrams dropped because they had come before or were too late";
    relay.forged: "millstream_relay_forged_datagrams", "Datagrams dropped because their tag was wrong";
    relay.unknown_key: "millstream_relay_unknown_key_datagrams",
        "Datagrams dropped because their key was not here";
    relay.unknown_handle: "millstream_relay_unknown_stream_datagrams",
        "Datagrams dropped because their stream is not fetched any more";
    relay.duplicates: "millstream_relay_duplicate_packets",
        "Packets dropped because they had come over another link";
    relay.not_taken: "millstream_relay_not_taken_packets",
        "Packets dropped because they were not RTP or of too many tracks";
};

/// Times per worker, of which the table has microseconds; `_total` is added.
const WORKER_SECONDS: [Counter; 2] = [
    ("millstream_loop_busy_seconds", "Time the event loop was busy", |w| w.counters.loop_busy_us),
    ("millstream_stats_snapshot_seconds", "CPU time of snapshots for the live statistics", |w| {
        w.counters.stats.took_us
    }),
];

/// Gauges per worker.
const WORKER_GAUGES: [WorkerGauge; 12] = [
    ("millstream_sessions", "Open sessions of any role", |w| w.counters.sessions as f64),
    ("millstream_publishers", "Publishing sessions", |w| w.counters.publishers as f64),
    ("millstream_players", "Playing sessions, waiting ones included", |w| w.counters.players as f64),
    ("millstream_http_idle_connections", "HTTP connections kept open between two requests", |w| {
        w.counters.http_idle as f64
    }),
    ("millstream_rtc_pending_sessions", "WebRTC sessions that are not connected yet", |w| {
        w.counters.rtc.pending as f64
    }),
    (
        "millstream_rtc_stopped_sessions",
        "WHEP players that nothing is sent to, since they report nothing",
        |w| w.counters.rtc.viewers_stopped as f64,
    ),
    (
        "millstream_rtc_estimate_bits_per_second",
        "What the paths of WHEP players that report packets are estimated to carry, in all",
        |w| w.counters.rtc.estimate_bits_per_second as f64,
    ),
    (
        "millstream_rtc_target_bits_per_second",
        "What is sent to these players at most now: less than the estimate while queues are to go away",
        |w| w.counters.rtc.target_bits_per_second as f64,
    ),
    ("millstream_worker_load_ratio", "CPU time of the worker in the last second, in cores", |w| {
        f64::from(w.load_percent) / 100.0
    }),
    ("millstream_loop_time_p50_seconds", "Busy time of a loop turn in the last second, median", |w| {
        f64::from(w.loop_time_us_p50) / 1e6
    }),
    (
        "millstream_loop_time_p99_seconds",
        "Busy time of a loop turn in the last second, 99th percentile",
        |w| f64::from(w.loop_time_us_p99) / 1e6,
    ),
    (
        "millstream_stats_last_snapshot_seconds",
        "CPU time of the last snapshot for the live statistics",
        |w| f64::from(w.counters.stats.last_us) / 1e6,
    ),
];

/// Gauges per stream.
const STREAM_GAUGES: [StreamGauge; 8] = [
    ("millstream_stream_players", "Players of the stream", |s| s.players as f64),
    ("millstream_stream_live", "1 while the stream has a publisher", |s| f64::from(u8::from(s.primary.live))),
    ("millstream_stream_uptime_seconds", "Time since the publisher began", |s| {
        s.primary.uptime_ms as f64 / 1e3
    }),
    ("millstream_stream_video_bits_per_second", "Video rate of the last second", |s| {
        s.primary.video_bits_per_second as f64
    }),
    ("millstream_stream_audio_bits_per_second", "Audio rate of the last second", |s| {
        s.primary.audio_bits_per_second as f64
    }),
    ("millstream_stream_frames_per_second", "Video frames of the last second", |s| {
        f64::from(s.primary.video_frames_per_second)
    }),
    ("millstream_stream_key_frame_interval_seconds", "Distance of the last two key frames", |s| {
        f64::from(s.primary.key_frame_interval_ms) / 1e3
    }),
    ("millstream_stream_gop_bytes", "Bytes in the GOP cache", |s| s.primary.gop_bytes as f64),
];

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_process(&mut encoder)?;
        channels::encode(&self.context, &mut encoder)?;
        pulls::encode(&self.context, &mut encoder)?;
        pushes::encode(&self.context, &mut encoder)?;
        recordings::encode(&self.context, &mut encoder)?;
        segments::encode(&self.context, &mut encoder)?;
        uploads::encode(&self.context, &mut encoder)?;
        vod::encode(&self.context, &mut encoder)?;
        moq::encode(&self.context, &mut encoder)?;
        reload::encode(&self.context, &mut encoder)?;
        acme::encode(&self.context, &mut encoder)?;
        hooks::encode(&self.context, &mut encoder)?;
        telemetry::encode(&self.context, &mut encoder)?;
        if let Some(cluster) = &self.cluster {
            cluster.encode(&mut encoder)?;
        }
        self.encode_workers(&mut encoder)?;
        self.encode_streams(&mut encoder)
    }
}

impl Scrape {
    fn encode_process(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        encoder
            .encode_descriptor("millstream_build", "Version of the server", None, MetricType::Info)?
            .encode_info(&[("version", env!("CARGO_PKG_VERSION"))])?;
        let context = &*self.context;
        let dropped = context.log_lines_dropped.as_ref().map_or(0, |counter| counter.dropped_lines() as u64);
        let help = "Log lines dropped because the log fell behind";
        counter(encoder, "millstream_log_lines_dropped", help, dropped)?;
        let help = "WHIP and WHEP requests refused by authorisation";
        counter(encoder, "millstream_rtc_refused_requests", help, context.rtc.denied())?;
        http::encode(context, encoder)?;
        stats::encode(context.stats.cost(), encoder)?;
        let subscribers = context.stats.subscribers() as f64;
        let started = context.started_at.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let process = Process::read();
        let gauges = [
            ("millstream_stats_subscribers", "Readers of the stream of live statistics", subscribers),
            ("process_start_time_seconds", "Start of the process, Unix time", started),
            ("process_resident_memory_bytes", "Resident memory", process.resident_bytes as f64),
            ("process_open_fds", "Open file descriptors", process.open_descriptors as f64),
            ("process_max_fds", "Limit of open file descriptors", process.descriptors_max as f64),
        ];
        for (name, help, value) in gauges {
            gauge(encoder, name, help, value)?;
        }
        encoder
            .encode_descriptor("process_cpu_seconds", "CPU time, user and system", None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, f64, u64>(&process.cpu_seconds, None)
    }

    fn encode_workers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let label = |worker: &WorkerSnapshot| [("worker", worker.index.to_string())];
        let of_nodes: &[Counter] = if self.cluster.is_some() { RELAY_COUNTERS } else { &[] };
        for (name, help, value) in WORKER_COUNTERS.iter().chain(of_nodes) {
            counters(encoder, name, help, self.workers.iter().map(|worker| (label(worker), value(worker))))?;
        }
        for (name, help, microseconds) in WORKER_SECONDS {
            let seconds = |worker| (label(worker), microseconds(worker) as f64 / 1e6);
            counters(encoder, name, help, self.workers.iter().map(seconds))?;
        }
        for (name, help, value) in WORKER_GAUGES {
            gauges(encoder, name, help, self.workers.iter().map(|worker| (label(worker), value(worker))))?;
        }
        overload::encode(&self.context, &self.workers, encoder)?;
        let shares = self.workers.iter().flat_map(|worker| {
            let rtc = &worker.counters.rtc;
            let shares = [
                (RtcShare::All, rtc.viewers_all),
                (RtcShare::KeyFrames, rtc.viewers_key_frames),
                (RtcShare::AudioOnly, rtc.viewers_audio_only),
            ];
            shares.map(|(share, count)| {
                let labels = [("worker", worker.index.to_string()), ("share", share.name().to_owned())];
                (labels, count as f64)
            })
        });
        let help = "Connected WHEP players by how much of their video their paths carry";
        gauges(encoder, "millstream_rtc_players", help, shares)?;
        let switches = self.workers.iter().flat_map(|worker| {
            let rtc = &worker.counters.rtc;
            [("up", rtc.switches_up), ("down", rtc.switches_down)].map(|(direction, count)| {
                let labels = [("worker", worker.index.to_string()), ("direction", direction.to_owned())];
                (labels, count)
            })
        });
        let help = "Changes of WHEP players to a higher or a lower layer";
        counters(encoder, "millstream_rtc_layer_switches", help, switches)?;
        let ended = self.workers.iter().flat_map(|worker| {
            let causes = worker.counters.ended.iter();
            causes.map(|(cause, count)| {
                ([("worker", worker.index.to_string()), ("cause", cause.to_owned())], count)
            })
        });
        let help = "Sessions that have ended, and HTTP requests answered by workers, by cause";
        counters(encoder, "millstream_sessions_ended", help, ended)?;
        bridges::encode_workers(&self.workers, encoder)
    }

    fn encode_streams(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut streams = merged(&self.workers);
        let count = streams.len();
        // Stable: among equals the order is by name, so the same ones stay.
        streams.sort_by_key(|stream| std::cmp::Reverse(stream.players));
        streams.truncate(self.context.metrics_streams_max());
        gauge(encoder, "millstream_streams", "Streams known", count as f64)?;
        let omitted = (count - streams.len()) as f64;
        gauge(encoder, "millstream_streams_omitted", "Streams without samples of their own", omitted)?;
        let labels = |stream: &Merged<'_>| {
            [("app", stream.primary.app.clone()), ("stream", stream.primary.name.clone())]
        };
        for (name, help, value) in STREAM_GAUGES {
            gauges(encoder, name, help, streams.iter().map(|stream| (labels(stream), value(stream))))?;
        }
        let segments = self.context.segments.as_ref();
        let viewers = streams.iter().map(|stream| {
            let (app, name) = (&stream.primary.app, &stream.primary.name);
            let count = segments.map_or(0, |segments| segments.viewers(app, name));
            (labels(stream), count as f64)
        });
        let help = "Viewers of the stream by HLS and DASH, by their requests; they are no players";
        gauges(encoder, "millstream_stream_segment_viewers", help, viewers)?;
        let bytes = streams.iter().map(|stream| (labels(stream), stream.primary.bytes_in));
        let help = "Media bytes received for the stream";
        counters(encoder, "millstream_stream_received_bytes", help, bytes)?;
        let videos: Vec<_> =
            streams.iter().filter_map(|stream| Some((stream, merge::video(stream.primary)?))).collect();
        let widths = videos.iter().filter_map(|(stream, v)| Some((labels(stream), f64::from(v.width?))));
        gauges(encoder, "millstream_stream_video_width_pixels", "Width of the pictures", widths)?;
        let heights = videos.iter().filter_map(|(stream, v)| Some((labels(stream), f64::from(v.height?))));
        gauges(encoder, "millstream_stream_video_height_pixels", "Height of the pictures", heights)?;
        // Codecs of which nothing is known have any name that their publisher likes: a series for each.
        let formats = videos.iter().filter_map(|(stream, video)| {
            let [app, name] = labels(stream);
            let (profile, level) = (video.profile.clone()?, video.level.clone()?);
            Some(([app, name, ("codec", video.codec.clone()), ("profile", profile), ("level", level)], 1.0))
        });
        let help = "1, with codec, profile and level of the video, where its headers tell them";
        gauges(encoder, "millstream_stream_video_format", help, formats)?;
        bridges::encode_streams(&streams, encoder)
    }
}

/// Writes a counter that has a sample for each of several label sets.
fn counters<L: EncodeLabelSet, V: EncodeCounterValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl Iterator<Item = (L, V)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in samples {
        family.encode_family(&labels)?.encode_counter::<NoLabelSet, V, u64>(&value, None)?;
    }
    Ok(())
}

/// Writes a gauge that has a sample for each of several label sets.
fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl Iterator<Item = (L, V)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in samples {
        family.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    encoder
        .encode_descriptor(name, help, None, MetricType::Counter)?
        .encode_counter::<NoLabelSet, u64, u64>(&value, None)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}

/// What the kernel says about this process; zeros where it says nothing.
#[derive(Debug, Default)]
struct Process {
    resident_bytes: u64,
    open_descriptors: u64,
    descriptors_max: u64,
    cpu_seconds: f64,
}

impl Process {
    fn read() -> Self {
        let usage = getrusage(UsageWho::RUSAGE_SELF);
        let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        Self {
            resident_bytes: memory::resident_bytes().unwrap_or(0),
            open_descriptors: std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64),
            descriptors_max: getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft),
            cpu_seconds: usage.map_or(0.0, |usage| seconds(usage.user_time()) + seconds(usage.system_time())),
        }
    }
}
