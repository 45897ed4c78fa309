//! The router over workers that are played by the test, and connections as they come from workers.

mod cluster;

use std::collections::BTreeSet;
use std::net::IpAddr;

use axum::body::{Body, to_bytes};
use axum::http::HeaderMap;
use media::Codec;
use media::config::{AudioFormat, VideoFormat};
use rtmp::name::NameRules;
use serde_json::{Value, json};

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;
use tower::ServiceExt;

use super::*;
use sources::channels::Channels;
use sources::pull::Pulls;
use worker_api::EndReason;
use worker_api::auth::Policy;
use worker_api::auth::Tokens;
use worker_api::auth::manage::Manage;
use worker_api::command::{Command, Listed, WorkerUnavailable};
use worker_api::hooks::Hooks;
use worker_api::live::{Current, Live};
use worker_api::snapshot::{
    BridgeCounters, BridgeDirection, BridgeSnapshot, Protocol, PublisherSnapshot, Role, RtcTrackSnapshot,
    SectionsSnapshot, SessionId, SessionSnapshot, StreamSnapshot, TrackKind, WorkerCounters, WorkerSnapshot,
};
use worker_api::{AddressSlots, ListenAddresses, WorkerHandles};

fn stream(name: &str, players: u32) -> StreamSnapshot {
    StreamSnapshot {
        app: "live".to_owned(),
        name: name.to_owned(),
        live: false,
        publisher: None,
        uptime_ms: 0,
        players,
        video: None,
        audio: None,
        video_bits_per_second: 0,
        audio_bits_per_second: 0,
        video_frames_per_second: 0.0,
        key_frame_interval_ms: 0,
        gop_frames: 0,
        gop_bytes: 0,
        gop_duration_ms: 0,
        sections: SectionsSnapshot::default(),
        bytes_in: 0,
        tracks: Vec::new(),
        bridge: None,
    }
}

fn published(name: &str, players: u32, worker: usize) -> StreamSnapshot {
    let video = VideoFormat {
        profile: "Main".into(),
        level: "3.1".into(),
        width: 640,
        height: 360,
        frame_rate: None,
    };
    let audio = AudioFormat { profile: "LC".into(), sample_rate: 44_100, channels: 2 };
    StreamSnapshot {
        live: true,
        publisher: Some(PublisherSnapshot {
            session: SessionId::new(worker, 1),
            address: "[::ffff:127.0.0.1]:5000".parse().expect("an address"),
            protocol: Protocol::Rtmp,
            connected_ms: 9_500,
        }),
        uptime_ms: 9_000,
        video: Some((Codec::H264, Some(video))),
        audio: Some((Codec::Aac, Some(audio))),
        video_bits_per_second: 500_000,
        audio_bits_per_second: 100_000,
        video_frames_per_second: 25.0,
        key_frame_interval_ms: 2_000,
        bytes_in: 1_000,
        ..stream(name, players)
    }
}

fn session(worker: usize, serial: u64, role: Role, stream: Option<&str>) -> SessionSnapshot {
    SessionSnapshot {
        id: SessionId::new(worker, serial),
        role,
        protocol: Protocol::HttpFlv,
        stream: stream.map(str::to_owned),
        address: "127.0.0.1:5000".parse().expect("an address"),
        connected_ms: 1_999,
        bytes_in: 0,
        bytes_out: 10,
        bits_per_second: 0,
        queue_bytes: 0,
        queue_ms: 0,
        dropped_frames: 0,
        user_agent: None,
        rtc: None,
        srt: None,
    }
}

/// Two workers: `live/a b` is published on 1 and played on both, nobody publishes `live/quote"`.
fn two_workers() -> Vec<WorkerSnapshot> {
    let elsewhere = StreamSnapshot { live: true, ..stream("a b", 2) };
    vec![
        WorkerSnapshot {
            index: 0,
            streams: vec![elsewhere, stream("quote\"", 1)],
            sessions: vec![session(0, 1, Role::Player, Some("live/a b")), session(0, 2, Role::Pending, None)],
            ..WorkerSnapshot::default()
        },
        WorkerSnapshot {
            index: 1,
            core: Some(1),
            streams: vec![published("a b", 3, 1)],
            sessions: vec![session(1, 1, Role::Publisher, Some("live/a b"))],
            ..WorkerSnapshot::default()
        },
    ]
}

fn context(workers: Vec<WorkerSnapshot>, manage: Manage, answers: bool) -> Arc<Context> {
    context_of(workers, manage, answers, one_message())
}

/// A server on whose machine everybody may read these statistics.
pub(super) fn context_with(stats: stats::StatsControl) -> Arc<Context> {
    context_of(Vec::new(), Manage { loopback: true, ..Manage::default() }, true, stats)
}

fn context_of(
    workers: Vec<WorkerSnapshot>,
    manage: Manage,
    answers: bool,
    stats: stats::StatsControl,
) -> Arc<Context> {
    let count = workers.len();
    let send = move |worker: usize, command| {
        match command {
            _ if !answers => return Err(WorkerUnavailable),
            Command::Snapshot { sessions, reply } => {
                let mut snapshot = workers[worker].clone();
                snapshot.sessions.retain(|session| match &sessions {
                    Listed::Nothing => false,
                    Listed::All => true,
                    Listed::Only(ids) => ids.contains(&session.id),
                });
                let _ = reply.send(snapshot);
            }
            Command::Kick { session, reply } => {
                let _ = reply.send(workers[worker].sessions.iter().any(|known| known.id == session));
            }
            Command::Hold { .. }
            | Command::Drain { .. }
            | Command::RtcOpen(_)
            | Command::RtcPatch { .. }
            | Command::RtcClose { .. }
            | Command::RtcLayer { .. }
            | Command::Publish(_)
            | Command::Tap(_)
            | Command::EndPublication { .. }
            | Command::HandOver { .. }
            | Command::LetGo { .. }
            | Command::Resume { .. }
            | Command::GoOn { .. }
            | Command::Relay(_) => {}
        }
        Ok(())
    };
    #[expect(clippy::disallowed_methods, reason = "the start of the server under test")]
    let (started, started_at) = (Instant::now(), SystemTime::now());
    Arc::new(Context {
        workers: WorkerHandles::over(count, Box::new(send)),
        // Nobody takes the questions of these hooks: all are let in.
        current: Arc::new(Live::new(Current {
            policy: Arc::new(Policy {
                manage,
                hooks: Some(Hooks::new(|_| true, Ok(())).0),
                ..Policy::default()
            }),
            ..Current::default()
        })),
        names: NameRules::default(),
        addresses: ListenAddresses {
            rtmp: vec!["[::]:1935".parse().expect("an address")],
            http: vec!["[::]:8080".parse().expect("an address")],
            ..ListenAddresses::default()
        },
        started,
        started_at,
        demo_stream: None,
        draining: watch::Sender::new(false),
        keep_alive: AddressSlots::new(100, 100),
        http: HttpCounters::default(),
        metrics_streams_max: 1.into(),
        log_lines_dropped: None,
        reload: reload::Reload::new(None, 0).0,
        upgrade: upgrade::Upgrade::new().0,
        rtc: rtc::RtcControl::off(),
        stats,
        pulls: Pulls::idle(2),
        pushes: ::pushes::Pushes::idle(2),
        channels: Channels::idle(2),
        segments: None,
        recording_files: RecordingFiles::new(),
        recordings: None,
        uploads: None,
        vod: None,
        vod_viewers: Default::default(),
        moq: None,
        hooks: None,
        telemetry: Some(Arc::default()),
        acme: None,
        cluster: None,
    })
}

/// Statistics of which there is one message: of a worker that has nothing.
fn one_message() -> stats::StatsControl {
    let (used, _) = std::sync::mpsc::sync_channel(1);
    let (mut collector, stats) = stats::collect(vec![used]);
    collector.take(Box::default(), SystemTime::UNIX_EPOCH + Duration::from_secs(1));
    stats
}

pub(super) fn local() -> Arc<Context> {
    context(two_workers(), Manage { loopback: true, ..Manage::default() }, true)
}

async fn ask_as(
    context: &Arc<Context>,
    peer: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> (StatusCode, HeaderMap, String) {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost:8080");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::empty()).expect("a request");
    let address = SocketAddr::new(peer.parse::<IpAddr>().expect("an address"), 5000);
    request.extensions_mut().insert(Peer { address, tls: false });
    let response = router(Arc::clone(context)).oneshot(request).await.expect("infallible");
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, 1 << 24).await.expect("a body");
    (parts.status, parts.headers, String::from_utf8_lossy(&body).into_owned())
}

async fn ask(context: &Arc<Context>, method: &str, path: &str) -> (StatusCode, Value) {
    let (status, _, body) = ask_as(context, "127.0.0.1", method, path, &[]).await;
    (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

#[tokio::test]
async fn streams_of_several_workers_become_one() {
    let (status, body) = ask(&local(), "GET", "/api/v1/streams").await;
    assert_eq!(status, 200);
    let streams = body["streams"].as_array().expect("a list");
    assert_eq!(streams.len(), 2);
    let live = &streams[0];
    assert_eq!(
        (&live["name"], &live["state"], &live["home_worker"]),
        (&json!("a b"), &json!("live"), &json!(1))
    );
    assert_eq!(live["players"], 5);
    assert_eq!(live["publisher"]["address"], "127.0.0.1:5000");
    assert_eq!(live["video"]["frame_rate"], 25.0);
    assert_eq!(live["bitrate_bits_per_second"], 600_000);
    assert_eq!(live["urls"]["flv"], "http://localhost:8080/live/a%20b.flv");
    let waiting = &streams[1];
    assert_eq!((&waiting["state"], &waiting["home_worker"]), (&json!("waiting"), &Value::Null));
}

/// Worker 1 is home to `live/both`, published by RTMP; a bridge makes packets of it, which are played on
/// both.
fn bridged() -> Vec<WorkerSnapshot> {
    let bridge = BridgeSnapshot {
        direction: BridgeDirection::FrameToRtp,
        running_ms: 2_500,
        video_frames: 75,
        packets: 300,
        audio_frames: 125,
        cpu_us: 5_000,
        transcoding_cpu_us: 25_000,
        video_latency_us: 150,
        audio_latency_us: 42_000,
        b_frames_dropped: 7,
        broken: 1,
        audio_dropped: 0,
        refused: Some(bridge::Refused {
            video: None,
            audio: Some(bridge::TrackRefusal::Transcoder("there is no thread to transcode on")),
        }),
    };
    let packets = |players, bridge| StreamSnapshot {
        live: true,
        tracks: vec![RtcTrackSnapshot {
            kind: TrackKind::Video,
            codec: "H264",
            clock_rate: 90_000,
            channels: None,
            encodings: 1,
            format: None,
            bits_per_second: 480_000,
            frames_per_second: 30.0,
            key_frame_interval_ms: 0,
            layers: Vec::new(),
        }],
        bridge,
        ..stream("both", players)
    };
    let bridges = BridgeCounters {
        frame_to_rtp_started: 3,
        frame_to_rtp_running: 1,
        cpu_us: 7_000,
        transcoding_cpu_us: 30_000,
        b_frames_dropped: 9,
        ..BridgeCounters::default()
    };
    vec![
        WorkerSnapshot { index: 0, streams: vec![packets(40, None)], ..WorkerSnapshot::default() },
        WorkerSnapshot {
            index: 1,
            counters: WorkerCounters { bridges, ..Default::default() },
            streams: vec![
                packets(2, Some(bridge.clone())),
                StreamSnapshot { bridge: Some(bridge), ..published("both", 5, 1) },
            ],
            ..WorkerSnapshot::default()
        },
    ]
}

#[tokio::test]
async fn a_stream_with_both_kinds_of_players_is_one_stream_and_shows_its_bridge() {
    let context = context(bridged(), Manage { loopback: true, ..Manage::default() }, true);
    let (status, body) = ask(&context, "GET", "/api/v1/streams").await;
    assert_eq!((status.as_u16(), body["streams"].as_array().map(Vec::len)), (200, Some(1)));
    let stream = &body["streams"][0];
    assert_eq!((&stream["players"], &stream["home_worker"]), (&json!(47), &json!(1)));
    assert_eq!(stream["publisher"]["protocol"], "rtmp");
    assert_eq!(stream["tracks"], json!([]), "they describe what is published");
    assert_eq!(stream["bitrate_bits_per_second"], 600_000, "what comes in is counted once");
    assert_eq!(
        stream["bridge"],
        json!({
            "direction": "rtmp_to_webrtc",
            "running_seconds": 2.5,
            "video_frames": 75,
            "packets": 300,
            "audio_frames": 125,
            "cpu_seconds": 0.005,
            "transcoding_cpu_seconds": 0.025,
            "video_latency_ms": 0.15,
            "audio_latency_ms": 42.0,
            "b_frames_dropped": 7,
            "broken": 1,
            "audio_dropped": 0,
        })
    );
    assert_eq!(stream["not_bridged"], "audio: there is no thread to transcode on");
    let (_, body) = ask(&local(), "GET", "/api/v1/streams/live/a%20b").await;
    assert_eq!((&body["bridge"], &body["not_bridged"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn players_that_get_less_than_all_of_their_video_are_counted_by_worker() {
    let mut counters = WorkerCounters::default();
    let rtc = &mut counters.rtc;
    (rtc.viewers_all, rtc.viewers_key_frames, rtc.viewers_audio_only) = (7, 2, 1);
    let workers = vec![WorkerSnapshot { counters, ..WorkerSnapshot::default() }];
    let context = context(workers, Manage { loopback: true, ..Manage::default() }, true);
    let (_, _, body) = ask_as(&context, "127.0.0.1", "GET", "/api/v1/workers", &[]).await;
    assert!(body.contains("\"rtc_players_thinned\":3"), "{body}");
}

#[tokio::test]
async fn ended_sessions_are_counted_by_worker_and_cause() {
    let mut counters = WorkerCounters::default();
    for reason in [EndReason::Kicked, EndReason::Stalled, EndReason::TooFarBehind] {
        counters.ended.count(reason);
    }
    let workers = vec![WorkerSnapshot { index: 1, counters, ..WorkerSnapshot::default() }];
    let context = context(workers, Manage { loopback: true, ..Manage::default() }, true);
    let (_, _, body) = ask_as(&context, "127.0.0.1", "GET", "/metrics", &[]).await;
    for (cause, count) in [("kicked", 1), ("too_slow", 2), ("defect", 0)] {
        let line = format!("millstream_sessions_ended_total{{worker=\"1\",cause=\"{cause}\"}} {count}");
        assert!(body.lines().any(|other| other == line), "{line} in {body}");
    }
}

#[tokio::test]
async fn bridges_are_measured_by_worker_and_by_stream() {
    let context = context(bridged(), Manage { loopback: true, ..Manage::default() }, true);
    let (status, _, body) = ask_as(&context, "127.0.0.1", "GET", "/metrics", &[]).await;
    assert_eq!(status, 200);
    let of_stream = "app=\"live\",stream=\"both\",direction=\"rtmp_to_webrtc\"";
    let expected = [
        "millstream_bridge_started_total{worker=\"1\",direction=\"rtmp_to_webrtc\"} 3".to_owned(),
        "millstream_bridge_running{worker=\"1\",direction=\"rtmp_to_webrtc\"} 1".to_owned(),
        "millstream_bridge_running{worker=\"0\",direction=\"webrtc_to_rtmp\"} 0".to_owned(),
        "millstream_bridge_cpu_seconds_total{worker=\"1\",part=\"worker\"} 0.007".to_owned(),
        "millstream_bridge_cpu_seconds_total{worker=\"1\",part=\"transcoding\"} 0.03".to_owned(),
        "millstream_bridge_dropped_b_frames_total{worker=\"1\"} 9".to_owned(),
        format!("millstream_stream_bridge_cpu_seconds_total{{{of_stream},part=\"worker\"}} 0.005"),
        format!("millstream_stream_bridge_cpu_seconds_total{{{of_stream},part=\"transcoding\"}} 0.025"),
        format!("millstream_stream_bridge_latency_seconds{{{of_stream},kind=\"video\"}} 0.00015"),
        format!("millstream_stream_bridge_latency_seconds{{{of_stream},kind=\"audio\"}} 0.042"),
        format!("millstream_stream_bridge_packets_total{{{of_stream}}} 300"),
        format!("millstream_stream_bridge_dropped_b_frames_total{{{of_stream}}} 7"),
    ];
    for line in expected {
        assert!(body.lines().any(|found| found == line), "{line}\nin {body}");
    }
    let (_, _, body) = ask_as(&local(), "127.0.0.1", "GET", "/metrics", &[]).await;
    assert!(!body.lines().any(|line| line.starts_with("millstream_stream_bridge_")), "no bridge runs");
}

#[tokio::test]
async fn one_stream_is_found_by_its_encoded_name() {
    let context = local();
    for (path, expected) in
        [("live/a%20b", 200), ("live/quote%22", 200), ("live/none", 404), ("live/%ff", 400)]
    {
        let (status, body) = ask(&context, "GET", &format!("/api/v1/streams/{path}")).await;
        assert_eq!(status.as_u16(), expected, "{path}: {body}");
        assert_eq!(body["error"]["code"].is_string(), expected != 200, "{path}: {body}");
    }
}

#[tokio::test]
async fn sessions_are_filtered_and_paged() {
    let context = local();
    let cases = [
        ("", 3, vec!["0-1", "0-2", "1-1"]),
        ("?role=publisher", 1, vec!["1-1"]),
        ("?stream=live/a%20b", 2, vec!["0-1", "1-1"]),
        ("?stream=live%2Fa+b&role=player", 1, vec!["0-1"]),
        ("?offset=1&limit=1", 3, vec!["0-2"]),
        ("?offset=9", 3, vec![]),
        ("?limit=0", 3, vec![]),
    ];
    for (query, total, expected) in cases {
        let (status, body) = ask(&context, "GET", &format!("/api/v1/sessions{query}")).await;
        let sessions = body["sessions"].as_array().expect("a list").iter();
        let ids: Vec<_> = sessions.map(|session| session["id"].as_str().expect("an id")).collect();
        assert_eq!((status.as_u16(), &body["total"], ids), (200, &json!(total), expected), "{query}");
    }
    for query in ["?limit=many", "?role=king", "?offset=-1", "?page=2"] {
        let (status, body) = ask(&context, "GET", &format!("/api/v1/sessions{query}")).await;
        assert_eq!((status.as_u16(), &body["error"]["code"]), (400, &json!("bad_request")), "{query}");
    }
}

#[tokio::test]
async fn sessions_can_be_ended() {
    let context = local();
    for (id, expected) in
        [("0-1", 204), ("1-1", 204), ("0-9", 404), ("7-1", 404), ("x", 404), ("1%2F2", 404), ("%ff", 400)]
    {
        let (status, body) = ask(&context, "DELETE", &format!("/api/v1/sessions/{id}")).await;
        assert_eq!(status.as_u16(), expected, "{id}: {body}");
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_json_errors() {
    let context = local();
    let cases = [
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api", 404),
        ("DELETE", "/api/v1/streams", 405),
        ("POST", "/", 405),
        ("POST", "/healthz", 405),
    ];
    for (method, path, expected) in cases {
        let (status, body) = ask(&context, method, path).await;
        assert_eq!(status.as_u16(), expected, "{method} {path}");
        assert!(body["error"]["message"].is_string(), "{method} {path}: {body}");
    }
}

#[tokio::test]
async fn a_silent_worker_is_an_error_and_not_an_empty_list() {
    let context = context(two_workers(), Manage { loopback: true, ..Manage::default() }, false);
    for path in ["/api/v1/streams", "/api/v1/sessions", "/api/v1/workers", "/metrics"] {
        let (status, body) = ask(&context, "GET", path).await;
        assert_eq!((status.as_u16(), &body["error"]["code"]), (503, &json!("worker_unavailable")), "{path}");
    }
    assert_eq!(ask(&context, "DELETE", "/api/v1/sessions/0-1").await.0, 503);
    assert_eq!(ask(&context, "GET", "/readyz").await.0, 503);
    assert_eq!(ask(&context, "GET", "/healthz").await.0, 200);
    assert_eq!(ask(&context, "GET", "/api/v1/server").await.0, 200);
}

#[tokio::test]
async fn a_stopping_server_is_alive_and_not_ready() {
    let context = local();
    assert_eq!(ask(&context, "GET", "/readyz").await.0, 200);
    assert_eq!(ask(&context, "GET", "/certificate.sha256").await.0, 404, "MoQ is off");
    context.draining.send_replace(true);
    assert_eq!(ask(&context, "GET", "/readyz").await.0, 503);
    assert_eq!(ask(&context, "GET", "/healthz").await.0, 200);
}

#[tokio::test]
async fn the_management_rule_covers_every_route_of_the_document() {
    let context = cluster::in_cluster(context(
        two_workers(),
        Manage { tokens: Tokens::new(["boss".to_owned()]), ..Manage::default() },
        true,
    ));
    let (_, document) = api::router(Arc::clone(&context));
    let document: Value = serde_json::from_slice(&document).expect("JSON");
    let mut seen = 0;
    for (path, item) in document["paths"].as_object().expect("paths") {
        let path = path
            .replace("{app}", "live")
            .replace("{name}", "a%20b")
            .replace("{id}", "0-1")
            .replace("{file}", "a.mp4");
        for method in item.as_object().expect("methods").keys() {
            let method = method.to_uppercase();
            let (status, headers, body) = ask_as(&context, "127.0.0.1", &method, &path, &[]).await;
            assert_eq!(status, 401, "{method} {path}: {body}");
            assert_eq!(headers["www-authenticate"], "Bearer");
            let shown = [("authorization", "bearer boss")];
            let (status, _, body) = ask_as(&context, "203.0.113.9", &method, &path, &shown).await;
            // What is no handshake, has no body, or is about a pull, push, channel or recording that is not there
            // is let through, to be refused with that reason.
            let explained = match status.as_u16() {
                400 => method == "POST" || path.ends_with("/pushes/0-1"),
                404 => ["live/a%20b", "/skip", "/a.mp4", "/a.mp4/link"].iter().any(|end| path.ends_with(end)),
                426 => path == stats::STREAM_PATH,
                // Nobody reloads or upgrades here.
                503 => ["/api/v1/config/reload", "/api/v1/upgrade"].contains(&path.as_str()),
                _ => status.is_success(),
            };
            assert!(explained, "{method} {path}: {status} {body}");
            seen += 1;
        }
    }
    assert!(seen >= 13, "every operation was tried: {seen}");
}

#[tokio::test]
async fn strangers_see_health_and_the_console_only() {
    let context = local();
    for (path, expected) in
        [("/healthz", 200), ("/readyz", 200), ("/", 200), ("/api/v1/streams", 403), ("/metrics", 403)]
    {
        let (status, _, body) = ask_as(&context, "203.0.113.9", "GET", path, &[]).await;
        assert_eq!(status.as_u16(), expected, "{path}: {body}");
    }
    for header in ["x-forwarded-for", "forwarded", "via", "x-real-ip", "x-forwarded-proto"] {
        let (status, _, body) =
            ask_as(&context, "127.0.0.1", "GET", "/api/v1/streams", &[(header, "x")]).await;
        assert_eq!(status, 403, "{header}: {body}");
    }
    let foreign = [("origin", "https://example.org")];
    assert_eq!(ask_as(&context, "127.0.0.1", "DELETE", "/api/v1/sessions/0-1", &foreign).await.0, 403);
}

#[tokio::test]
async fn answers_carry_safe_headers() {
    let context = local();
    let (_, headers, _) = ask_as(&context, "127.0.0.1", "GET", "/", &[]).await;
    assert_eq!(headers["x-content-type-options"], "nosniff");
    let policy = headers["content-security-policy"].to_str().expect("text");
    assert!(
        policy.starts_with("default-src 'self';") && policy.contains("frame-ancestors 'none'"),
        "{policy}"
    );
    let (_, headers, _) = ask_as(&context, "127.0.0.1", "GET", "/api/v1/server", &[]).await;
    assert_eq!(
        (&headers["cache-control"], &headers["x-content-type-options"]),
        (&HeaderValue::from_static("no-store"), &HeaderValue::from_static("nosniff"))
    );
    assert!(!headers.contains_key("access-control-allow-origin"));
    let (status, _, _) =
        ask_as(&context, "127.0.0.1", "GET", "/api/v1/server", &[("content-length", "65537")]).await;
    assert_eq!(status, 413);
    let (status, _, _) = ask_as(&context, "127.0.0.1", "GET", "/healthz", &[("host", "other")]).await;
    assert_eq!(status, 400, "a second Host header");
}

#[tokio::test]
async fn metrics_are_openmetrics_text_with_a_cap_on_streams() {
    let (status, headers, body) = ask_as(&local(), "127.0.0.1", "GET", "/metrics", &[]).await;
    assert_eq!(status, 200);
    assert!(headers["content-type"].to_str().expect("text").starts_with("application/openmetrics-text"));
    assert!(body.ends_with("# EOF\n"));
    let mut types = BTreeSet::new();
    let mut series = BTreeSet::new();
    for line in body.lines().filter(|line| !line.starts_with("# HELP") && *line != "# EOF") {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            assert!(types.insert(described.to_owned()), "{line} appears twice");
            continue;
        }
        let (key, value) = line.rsplit_once(' ').expect("a sample");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(series.insert(key.to_owned()), "{line} appears twice");
    }
    assert!(series.contains("millstream_sent_bytes_total{worker=\"1\"}"), "{body}");
    assert!(body.contains("millstream_stream_players{app=\"live\",stream=\"a b\"} 5.0"), "{body}");
    assert!(body.contains("\nmillstream_streams_omitted 1.0\n"), "{body}");
    assert!(!body.contains("quote"), "the cap is one stream");
}

/// docs/reference/metrics.md lists what a scrape declares. Set `UPDATE_DOCS` to write it.
#[tokio::test]
async fn the_reference_lists_every_metric() {
    let context = context(bridged(), Manage { loopback: true, ..Manage::default() }, true);
    let context = cluster::in_cluster(context);
    let (_, _, scrape) = ask_as(&context, "127.0.0.1", "GET", "/metrics", &[]).await;
    let mut page = String::from(METRICS_PAGE_HEAD);
    let declared = |line: &str, kind: &str| line.strip_prefix(kind).map(str::to_owned);
    let lines: Vec<&str> = scrape.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let Some(help) = declared(line, "# HELP ") else { continue };
        let (name, help) = help.split_once(' ').expect("a name and a text");
        let kind = lines[at + 1].rsplit(' ').next().expect("a type");
        let suffix = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let sample = lines.get(at + 2).filter(|sample| sample.starts_with(name));
        let labels = sample.and_then(|sample| sample.split_once('{')).map_or("", |(_, labels)| labels);
        let labels: Vec<String> = labels
            .split(',')
            .filter_map(|label| label.split_once('='))
            .map(|(label, _)| format!("`{label}`"))
            .collect();
        let help = help.trim_end_matches('.');
        page.push_str(&format!("| `{name}{suffix}` | {kind} | {} | {help} |\n", labels.join(", ")));
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).expect("docs/reference/metrics.md");
    assert_eq!(written, page, "UPDATE_DOCS=1 cargo test -p control writes the page");
}

const METRICS_PAGE_HEAD: &str = "\
# Metrics

`GET /metrics` answers in the OpenMetrics text format (Prometheus reads it); it needs the token of
the API where one is set. Counters only grow. Series per stream are limited by
`metrics.streams_max`, the streams with most players first; those of channels, pulls and pushes have the
labels `app` and `stream` as well. Only nodes of a cluster have `millstream_cluster_*` and
`millstream_relay_*`; totals of a link begin at zero with each connection.

`cause` of `millstream_sessions_ended_total` is one of:

| cause | sessions that ended because |
|---|---|
| `closed_by_peer`, `closed` | the client left, by its protocol or by closing the connection |
| `answered` | an HTTP request was answered by the worker itself |
| `refused`, `not_playable` | the client was not let in; nothing of it, or for it, can be played |
| `protocol`, `connection_failed` | the client broke its protocol; the connection or TLS failed |
| `connect_timeout`, `connect_failed` | a WebRTC session did not connect |
| `no_request`, `no_publisher`, `silent` | nothing came: no request, no publisher to play, no media |
| `too_slow` | a player did not take what was sent |
| `kicked`, `draining` | the operator ended it; the server was stopped |
| `token_expired`, `time_over` | its token ended, or the time that a hook has given it |
| `taken_over`, `preempted` | another publisher took the stream over |
| `abandoned`, `worker`, `defect` | a request of the server itself was given up; a defect in the server |

`share` of `millstream_rtc_players` is `all`, `key_frames` or `audio_only`: how much of its video a
player gets. `direction` of `millstream_rtc_layer_switches_total` is `up` or `down`.

`cause` of `millstream_cluster_link_dropped_frames_total` is one of:

| cause | frames that were not passed on because |
|---|---|
| `too_slow` | the link was slower than its streams; both ends count them |
| `repeated` | another node had brought them: after a change, a stream comes again from a key frame on |
| `undecodable` | the key frame that they need was missing after such a change |
| `unwanted` | their stream was not wanted from that node any more |

| metric | type | labels | meaning |
|---|---|---|---|
";
