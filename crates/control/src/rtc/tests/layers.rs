//! Players that choose a layer, and read what happens to their stream.

use std::future::poll_fn;
use std::pin::Pin;

use hyper::body::Body as _;
use worker_api::rtc::LayerChoice;
use worker_api::snapshot::{
    Protocol, Role, RtcLayer, RtcLayerSnapshot, RtcPathLayer, RtcPathSnapshot, RtcSessionSnapshot, RtcShare,
    RtcState, RtcTrackSnapshot, SectionsSnapshot, SessionSnapshot, StreamSnapshot, TrackKind,
};

use super::*;

const JSON_FIELDS: [(&str, &str); 1] = [("content-type", "application/json")];

impl Server {
    /// The URL of a player's session.
    async fn player(&self) -> String {
        let answer = self.post("/whep/live/packets", play_offer()).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.field("location").to_owned()
    }

    /// The events of `path`, or the status of the refusal.
    async fn listen(&self, path: &str) -> Result<Body, u16> {
        self.listen_from("203.0.113.9", path).await
    }

    async fn listen_from(&self, peer: &str, path: &str) -> Result<Body, u16> {
        let mut request = Request::builder().uri(path).body(Body::empty()).expect("a request");
        let address = std::net::SocketAddr::new(peer.parse().expect("an address"), 5000);
        request.extensions_mut().insert(Peer { address, tls: false });
        let response = crate::router(Arc::clone(&self.context)).oneshot(request).await.expect("infallible");
        let status = response.status().as_u16();
        assert_eq!(response.headers()["access-control-allow-origin"], "*");
        if status != 200 {
            return Err(status);
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Ok(response.into_body())
    }

    /// What the worker says from now on of the first session, which gets `gets` of q and h.
    fn says(&self, gets: &str, h_bits_per_second: u64, players: u32) {
        let layer = |name: &str| RtcLayer { name: name.to_owned(), spatial: None, temporal: None };
        let layer_of = |name: &str, bits_per_second| RtcLayerSnapshot {
            layer: layer(name),
            bits_per_second,
            is_live: true,
            size: (name == "h").then_some((640, 360)),
            viewers: 1,
        };
        let track = RtcTrackSnapshot {
            kind: TrackKind::Video,
            codec: "H264",
            clock_rate: 90_000,
            channels: None,
            encodings: 2,
            format: None,
            bits_per_second: 0,
            frames_per_second: 30.0,
            key_frame_interval_ms: 0,
            layers: vec![layer_of("q", 150_000), layer_of("h", h_bits_per_second)],
        };
        let stream = StreamSnapshot {
            app: "live".to_owned(),
            name: "packets".to_owned(),
            live: true,
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
            tracks: vec![track],
            bridge: None,
        };
        let path = RtcPathSnapshot {
            estimate_bits_per_second: 620_000,
            target_bits_per_second: 620_000,
            limit_bits_per_second: None,
            height_max: None,
            queue_ms: 0.0,
            probes: 0,
            padding_bytes: 0,
            times_behind: 0,
            share: RtcShare::All,
            is_stopped: false,
            is_published: true,
            layer: Some(RtcPathLayer {
                current: layer(gets),
                wanted: layer(gets),
                is_fixed: false,
                better: None,
                is_too_high: false,
                least_bits_per_second: 150_000,
            }),
        };
        let rtc = RtcSessionSnapshot {
            state: RtcState::Connected,
            transport: Some("udp"),
            codecs: Vec::new(),
            packets: 0,
            lost_packets: 0,
            loss_percent: 0.0,
            rtt_ms: None,
            jitter_ms: None,
            nacks: 0,
            resent_packets: 0,
            key_frame_requests: 0,
            path: Some(path),
        };
        let session = SessionSnapshot {
            id: SessionId::new(0, 0),
            role: Role::Player,
            protocol: Protocol::Whep,
            stream: Some("live/packets".to_owned()),
            address: "192.0.2.7:9".parse().expect("an address"),
            connected_ms: 0,
            bytes_in: 0,
            bytes_out: 0,
            bits_per_second: 0,
            queue_bytes: 0,
            queue_ms: 0,
            dropped_frames: 0,
            user_agent: None,
            rtc: Some(rtc),
            srt: None,
        };
        let snapshot =
            WorkerSnapshot { streams: vec![stream], sessions: vec![session], ..WorkerSnapshot::default() };
        *self.workers.snapshot.lock().expect("not poisoned") = snapshot;
    }
}

/// The next message; `None` at the end.
async fn next(events: &mut Body) -> Option<String> {
    let frame = poll_fn(|cx| Pin::new(&mut *events).poll_frame(cx)).await?;
    let bytes = frame.expect("a frame").into_data().expect("data");
    Some(String::from_utf8(bytes.into()).expect("text"))
}

/// Events of a message by their names, with what they say.
fn parsed(message: &str) -> Vec<(&str, Value)> {
    let events = message.split_terminator("\n\n");
    events
        .map(|text| {
            let (name, data) =
                text.strip_prefix("event: ").expect("an event").split_once("\ndata: ").expect("data");
            (name, serde_json::from_str(data).expect("JSON"))
        })
        .collect()
}

#[tokio::test]
async fn players_are_told_where_their_layers_and_events_are_and_publishers_are_not() {
    let server = server();
    let answer = server.post("/whep/live/packets", play_offer()).await;
    let url = answer.field("location");
    let links: Vec<_> =
        answer.headers.get_all("link").iter().map(|link| link.to_str().expect("text").to_owned()).collect();
    assert_eq!(
        links,
        [
            format!("<{url}/layer>; rel=\"urn:ietf:params:whep:ext:core:layer\""),
            format!(
                "<{url}/sse>; rel=\"urn:ietf:params:whep:ext:core:server-sent-events\"; \
                 events=\"active,inactive,layers,viewercount\""
            ),
        ]
    );
    let (url, _) = server.session().await;
    for (method, path) in [("POST", "layer"), ("DELETE", "layer"), ("POST", "sse"), ("GET", "sse")] {
        let answer = server.send(method, &format!("{url}/{path}"), &[], "").await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{method} {path}");
    }
    let unknown = "/rtc/session/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/layer";
    assert_eq!(server.send("POST", unknown, &[], "").await.status, 404);
    assert_eq!(server.send("PUT", unknown, &[], "").await.field("allow"), "POST, DELETE, OPTIONS");
    let preflight = server.send("OPTIONS", unknown, &[], "").await;
    assert_eq!(preflight.field("access-control-allow-methods"), "POST, DELETE, OPTIONS");
}

#[tokio::test]
async fn a_layer_is_asked_for_by_its_name_and_given_back_by_naming_none() {
    let server = server();
    let url = server.player().await + "/layer";
    let choice = |name: Option<&str>, spatial, temporal| {
        Some(LayerChoice { name: name.map(str::to_owned), spatial, temporal })
    };
    let cases = [
        (r#"{"encodingId": "h"}"#, choice(Some("h"), None, None)),
        (r#"{"rid": "h", "mediaId": "1"}"#, choice(Some("h"), None, None)),
        (r#"{"mediaId": 1, "encodingId": "h", "rid": "h", "bitrate": 7}"#, choice(Some("h"), None, None)),
        (r#"{"spatialLayerId": 1, "maxTemporalLayerId": 2}"#, choice(None, Some(1), Some(2))),
        (r#"{"spatialLayerId": 3, "maxSpatialLayerId": 1}"#, choice(None, Some(1), None)),
        (r#"{"encodingId": null}"#, None),
        (r#"{"encodingId": ""}"#, None),
        (r#"{"mediaId": "1"}"#, None),
        ("{}", None),
        ("", None),
    ];
    for (body, layer) in cases {
        let answer = server.send("POST", &url, &JSON_FIELDS, body).await;
        assert_eq!(answer.status, 200, "{body}: {}", answer.body);
        let asked = server.workers.layers.lock().expect("not poisoned").pop().expect("a worker was asked");
        assert_eq!(asked, LayerRequest { track: 1, layer }, "{body}");
    }
    assert_eq!(server.send("DELETE", &url, &[], "").await.status, 200);
    let asked = server.workers.layers.lock().expect("not poisoned").pop();
    assert_eq!(asked, Some(LayerRequest { track: 1, layer: None }));
    assert_eq!(server.send("POST", &url, &[], "").await.status, 200, "nothing needs no media type");
}

#[tokio::test]
async fn what_is_no_request_for_a_layer_is_refused_with_a_reason() {
    let server = server();
    let url = server.player().await + "/layer";
    let cases = [
        ("nonsense", "not a request for a layer"),
        ("[]", "not a request for a layer"),
        (r#"{"encodingId": 1}"#, "not a request for a layer"),
        (r#"{"encodingid": "h"}"#, "`encodingid` is written `encodingId`"),
        (r#"{"mediaId": "1", "RID": "h"}"#, "`RID` is written `rid`"),
        (r#"{"layer": "h"}"#, "there is no `layer`; members are mediaId, encodingId, rid"),
        (r#"{"spatialLayerId": -1}"#, "not a request for a layer"),
        (r#"{"spatialLayerId": 8}"#, "at most 7"),
        (r#"{"encodingId": "h", "rid": "q"}"#, "two encodings"),
        (r#"{"encodingId": "h", "maxHeight": 720}"#, "not supported"),
        (r#"{"mediaId": "0", "encodingId": "h"}"#, "no video"), // that is the audio
        (r#"{"mediaId": [], "encodingId": "h"}"#, "neither text nor a number"),
    ];
    for (body, message) in cases {
        let answer = server.send("POST", &url, &JSON_FIELDS, body).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_request"), "{body}");
        assert!(answer.body.contains(message), "{body}: {}", answer.body);
    }
    assert_eq!(server.send("POST", &url, &SDP_FIELDS, "{}").await.status, 415);
    assert_eq!(server.send("POST", &url, &JSON_FIELDS, vec![b' '; (64 << 10) + 1]).await.status, 413);
    assert!(server.workers.layers.lock().expect("not poisoned").is_empty(), "no worker was asked");
    let refusals = [
        (LayerRefusal::NoSession, 404, "not_found"),
        (LayerRefusal::NoEncoding, 404, "no_such_layer"),
        (LayerRefusal::EncodingMissing, 400, "bad_request"),
        (LayerRefusal::NoTrack, 409, "no_choice_of_layers"),
        (LayerRefusal::NoChoice, 409, "no_choice_of_layers"),
    ];
    for (refusal, status, code) in refusals {
        *server.workers.layer_refusal.lock().expect("not poisoned") = Some(refusal);
        let answer = server.send("POST", &url, &JSON_FIELDS, r#"{"encodingId": "x"}"#).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{refusal:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn readers_of_events_get_what_changes_until_the_session_ends() {
    let server = server();
    let url = server.player().await;
    server.says("q", 900_000, 3);
    let mut events = server.listen(&format!("{url}/sse")).await.expect("events");
    let first = next(&mut events).await.expect("a message at once");
    let first = parsed(&first);
    let names: Vec<_> = first.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["active", "layers", "viewercount"]);
    let layers = &first[1].1["1"];
    assert_eq!(layers["layers"][1]["encodingId"], "h");
    assert_eq!(
        (&layers["layers"][1]["rid"], &layers["layers"][1]["bitrate"]),
        (&"h".into(), &900_000.into())
    );
    let sizes = [0, 1].map(|at| (&layers["layers"][at]["width"], &layers["layers"][at]["height"]));
    assert_eq!(sizes[1], (&640.into(), &360.into()));
    assert!(sizes[0].0.is_null() && sizes[0].1.is_null(), "not known");
    assert_eq!((&layers["current"]["encodingId"], &layers["automatic"]), (&"q".into(), &true.into()));
    assert_eq!(first[2].1["viewercount"], 3);

    // Rates are never quite the same: that is no news, and the connection is kept up.
    let begun = tokio::time::Instant::now();
    server.says("q", 950_000, 3);
    assert_eq!(next(&mut events).await.as_deref(), Some(":\n\n"));
    assert_eq!(begun.elapsed().as_secs(), 15);

    server.says("h", 950_000, 3);
    let changed = next(&mut events).await.expect("a message");
    let changed = parsed(&changed);
    assert_eq!((changed.len(), changed[0].0), (1, "layers"));
    assert_eq!(changed[0].1["1"]["current"]["encodingId"], "h");
    server.says("h", 950_000, 4);
    assert_eq!(next(&mut events).await.as_deref(), Some("event: viewercount\ndata: {\"viewercount\":4}\n\n"));

    *server.workers.snapshot.lock().expect("not poisoned") = WorkerSnapshot::default();
    assert_eq!(next(&mut events).await.as_deref(), Some("event: inactive\ndata: {}\n\n"));
    server.context.rtc.registry.notice(RtcNotice::Ended(SessionId::new(0, 0)));
    assert_eq!(next(&mut events).await, None);
    assert_eq!(server.listen(&format!("{url}/sse")).await.err(), Some(404));
}

#[tokio::test(start_paused = true)]
async fn a_list_of_events_has_a_url_of_its_own() {
    let server = server();
    let url = server.player().await + "/sse";
    server.says("q", 900_000, 3);
    let created = server.send("POST", &url, &JSON_FIELDS, r#"["viewercount", "layers"]"#).await;
    assert_eq!(
        (created.status, created.field("location")),
        (201, &*format!("{url}?events=layers,viewercount"))
    );
    let mut events = server.listen(created.field("location")).await.expect("events");
    let message = next(&mut events).await.expect("a message");
    assert_eq!(parsed(&message).iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["layers", "viewercount"]);
    let all = server.send("POST", &url, &[], "").await;
    assert_eq!(all.field("location"), format!("{url}?events=active,inactive,layers,viewercount"));
    for body in [r#"["scte35"]"#, "{}", "[1]", "x"] {
        assert_eq!(server.send("POST", &url, &JSON_FIELDS, body).await.status, 400, "{body}");
    }
    assert_eq!(server.send("POST", &url, &SDP_FIELDS, "[]").await.status, 415);
    assert_eq!(server.listen(&format!("{url}?events=layers,other")).await.err(), Some(400));
}

#[tokio::test(start_paused = true)]
async fn readers_of_a_session_are_few_and_cost_the_workers_one_question_a_second() {
    let server = server();
    let url = server.player().await + "/sse";
    server.says("q", 900_000, 3);
    let mut readers = Vec::new();
    for _ in 0..4 {
        let mut events = server.listen(&url).await.expect("events");
        next(&mut events).await.expect("a message");
        readers.push(events);
    }
    assert_eq!(server.workers.asked.load(Ordering::Relaxed), 1, "both readers share one look");
    assert_eq!(server.listen(&url).await.err(), Some(503));
    readers.pop();
    readers.push(server.listen(&url).await.expect("a place is free"));
    server.context.draining.send_replace(true);
    for mut events in readers {
        // A new reader gets how things are.
        while let Some(message) = next(&mut events).await {
            assert!(message.starts_with("event: active"), "{message}");
        }
    }
    assert_eq!(server.listen(&url).await.err(), Some(503), "the server stops");
}

#[tokio::test(start_paused = true)]
async fn readers_of_an_address_are_limited_and_places_are_given_back() {
    let settings = RtcSettings { posts_per_second_max: 0, ..RtcSettings::default() };
    let server = server_with(Setting { settings, ..Setting::default() });
    let mut urls = Vec::new();
    for _ in 0..33 {
        urls.push(server.player().await + "/sse");
    }
    let mut readers = Vec::new();
    for url in &urls[..32] {
        readers.push(server.listen(url).await.expect("events"));
    }
    assert_eq!(server.listen(&urls[32]).await.err(), Some(503));
    let other = server.listen_from("198.51.100.1", &urls[32]).await;
    assert!(other.is_ok(), "another address has places of its own");
    readers.clear();
    drop(other);
    assert!(server.listen(&urls[32]).await.is_ok());
}

#[tokio::test]
async fn the_highest_pictures_that_a_player_wants_are_told_to_its_worker() {
    let server = server();
    for (path, status, most) in
        [("/whep/live/packets?max_height=720", 201, Some(720)), ("/whip/live/a?max_height=720", 400, None)]
    {
        let offer = if path.starts_with("/whip") { publish_offer() } else { play_offer() };
        assert_eq!(server.post(path, offer).await.status, status, "{path}");
        let opened = server.workers.opened.lock().expect("not poisoned").pop();
        assert_eq!(opened.map(|open| open.height_max), (status == 201).then_some(most), "{path}");
    }
}

#[tokio::test]
async fn the_most_that_a_player_wants_is_told_to_its_worker() {
    let server = server();
    let cases = [
        ("/whep/live/packets?max_bitrate=800k", 201, Some(800_000)),
        ("/whep/live/packets", 201, None),
        ("/whep/live/packets?max_bitrate=much", 400, None),
        ("/whep/live/packets?max_height=720p", 400, None),
        ("/whip/live/a?max_bitrate=800k", 400, None),
    ];
    for (path, status, most) in cases {
        let offer = if path.starts_with("/whip") { publish_offer() } else { play_offer() };
        let answer = server.post(path, offer).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        let opened = server.workers.opened.lock().expect("not poisoned").pop();
        assert_eq!(opened.map(|open| open.bits_per_second_max), (status == 201).then_some(most), "{path}");
    }
    let settings = RtcSettings { adaptation: false, ..RtcSettings::default() };
    let server = server_with(Setting { settings, ..Setting::default() });
    let answer = server.post("/whep/live/packets?max_bitrate=800k", play_offer()).await;
    assert_eq!(answer.status, 400, "without congestion control there is no limit");
    let answer = server.post("/whep/live/packets?max_height=720", play_offer()).await;
    assert_eq!(answer.status, 400, "of either kind");
}
