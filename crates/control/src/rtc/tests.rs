//! Every status of WHIP and WHEP, over workers that are played by the test.

mod bridged;
mod changes;
mod layers;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use axum::body::to_bytes;
use axum::http::HeaderMap;
use rtc::dtls::Certificate;
use rtc::sdp::{TrackDescription, parse_offer};
use rtmp::name::NameRules;
use rtp::payload::Codec;
use serde_json::Value;
use tokio::sync::watch;
use tower::ServiceExt;
use worker_api::AddressSlots;

use crate::HttpCounters;

/// Fields of a request.
type Fields<'a> = &'a [(&'a str, &'a str)];

use super::*;
use worker_api::ListenAddresses;
use worker_api::WorkerHandles;
use worker_api::auth::manage::Manage;
use worker_api::auth::{Access, Policy, Rules, Tokens};
use worker_api::command::{Command, WorkerUnavailable};
use worker_api::live::{Current, Live};
use worker_api::pattern::Pattern;
use worker_api::rtc::{LayerRefusal, LayerRequest, RtcOpen, RtcPatch, RtcRefusal};
use worker_api::rtc::{RtcEndpoint, RtcNotice};
use worker_api::settings::{
    Application, ApplicationSettings, BridgeSettings, IceServer, RtcSettings, WorkerSettings,
};
use worker_api::snapshot::{Role, SessionId, WorkerSnapshot};
use worker_api::streams::{NotBridged, Published, WebrtcAvailability};

impl RtcControl {
    /// Of a server without WebRTC.
    pub(crate) fn off() -> Self {
        Self::new(parts(RtcSettings::default(), Vec::new(), Box::new(|_| Published::Nobody)))
            .expect("randomness")
    }
}

fn parts(settings: RtcSettings, endpoints: Vec<RtcEndpoint>, published: Box<Lookup>) -> RtcParts {
    let certificate = Arc::new(Certificate::generate().expect("a certificate"));
    let bridge = BridgeSettings { enabled: false, ..BridgeSettings::default() };
    let unbridged = Application {
        pattern: Pattern::new("unbridged"),
        settings: Arc::new(ApplicationSettings { bridge, ..ApplicationSettings::default() }),
    };
    let settings =
        WorkerSettings { rtc: settings, applications: vec![unbridged], ..WorkerSettings::default() };
    // One stream is played elsewhere, another one when this node is full.
    let redirect = Box::new(|key: &str, is_full: bool| {
        let goes = key == "live/elsewhere" || is_full && key == "live/bridged";
        goes.then(|| "https://edge-2.example.com".to_owned())
    });
    let current = Arc::new(Live::new(settings.into()));
    let home = Box::new(|_: &str| None);
    let overload = Box::new(|_: usize, _: Role| None);
    RtcParts { current, endpoints, certificate, published, home, redirect, overload }
}

/// What the workers were asked, and how they answer.
#[derive(Default)]
struct Workers {
    opened: Mutex<Vec<RtcOpen>>,
    patched: Mutex<Vec<(SessionId, RtcPatch)>>,
    closed: Mutex<Vec<SessionId>>,
    layers: Mutex<Vec<LayerRequest>>,
    layer_refusal: Mutex<Option<LayerRefusal>>,
    /// What they say of themselves, and how often they were asked.
    snapshot: Mutex<WorkerSnapshot>,
    asked: AtomicU64,
    refusal: Mutex<Option<RtcRefusal>>,
    silent: AtomicBool,
    /// Sessions are gone by the time they are changed or closed.
    gone: AtomicBool,
    serial: AtomicU64,
}

impl Workers {
    fn handle(&self, worker: usize, command: Command) -> Result<(), WorkerUnavailable> {
        if self.silent.load(Ordering::Relaxed) {
            return Err(WorkerUnavailable);
        }
        let there = !self.gone.load(Ordering::Relaxed);
        match command {
            Command::RtcOpen(mut open) => {
                let (nobody, _) = tokio::sync::oneshot::channel();
                let reply = std::mem::replace(&mut open.reply, nobody);
                let serial = self.serial.fetch_add(1, Ordering::Relaxed);
                let refusal = *self.refusal.lock().expect("not poisoned");
                let _ = reply.send(refusal.map_or(Ok(SessionId::new(worker, serial)), Err));
                self.opened.lock().expect("not poisoned").push(*open);
            }
            Command::RtcPatch { session, patch, reply } => {
                self.patched.lock().expect("not poisoned").push((session, patch));
                let _ = reply.send(there);
            }
            Command::RtcClose { session, reply } => {
                self.closed.lock().expect("not poisoned").push(session);
                let _ = reply.send(there);
            }
            Command::RtcLayer { request, reply, .. } => {
                self.layers.lock().expect("not poisoned").push(request);
                let _ = reply.send(self.layer_refusal.lock().expect("not poisoned").map_or(Ok(()), Err));
            }
            Command::Snapshot { reply, .. } => {
                self.asked.fetch_add(1, Ordering::Relaxed);
                let _ = reply.send(self.snapshot.lock().expect("not poisoned").clone());
            }
            other => panic!("not expected: {other:?}"),
        }
        Ok(())
    }
}

/// A server with WebRTC.
struct Server {
    context: Arc<Context>,
    workers: Arc<Workers>,
}

/// How a test's server differs from one that everybody may publish to and play from.
struct Setting {
    settings: RtcSettings,
    publish: Access,
    play: Access,
    workers: usize,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            settings: RtcSettings::default(),
            publish: Access::anyone(),
            play: Access::anyone(),
            workers: 1,
        }
    }
}

fn server() -> Server {
    server_with(Setting::default())
}

fn server_with(setting: Setting) -> Server {
    let workers = Arc::new(Workers::default());
    let worker = Arc::clone(&workers);
    let endpoint = RtcEndpoint {
        udp: vec!["192.0.2.1:8189".parse().expect("an address")],
        tcp: vec!["192.0.2.1:8189".parse().expect("an address")],
    };
    // `live/packets` is what a first WHIP publisher of the test's offer would make it.
    let tracks = published_tracks();
    let published = move |key: &str| match key {
        "live/packets" => Published::Packets(Arc::clone(&tracks)),
        "unbridged/packets" => Published::Packets(Arc::clone(&tracks)),
        "live/begun" => Published::Frames(WebrtcAvailability::Unknown),
        "live/frames" => Published::Frames(WebrtcAvailability::Impossible(B_FRAMES)),
        "live/bridged" => {
            Published::Frames(WebrtcAvailability::Tracks(frames_as(Codec::H264, "640028"), None))
        }
        "live/422" => Published::Frames(WebrtcAvailability::Tracks(frames_as(Codec::H264, "7a0028"), None)),
        "live/h265" => Published::Frames(WebrtcAvailability::Tracks(frames_as(Codec::H265, ""), None)),
        "live/audio_only" => {
            let audio_only = frames_as(Codec::H264, "640028").iter().take(1).cloned().collect();
            Published::Frames(WebrtcAvailability::Tracks(audio_only, Some(B_FRAMES)))
        }
        "live/silent" => {
            let video = frames_as(Codec::H264, "640028").iter().skip(1).cloned().collect();
            Published::Frames(WebrtcAvailability::Tracks(video, Some(NO_THREAD)))
        }
        "live/radio" => {
            let audio_only = frames_as(Codec::H264, "640028").iter().take(1).cloned().collect();
            Published::Frames(WebrtcAvailability::Tracks(audio_only, None))
        }
        _ => Published::Nobody,
    };
    #[expect(clippy::disallowed_methods, reason = "the start of the server under test")]
    let (started, started_at) = (std::time::Instant::now(), std::time::SystemTime::now());
    let rules = |access| Rules { rules: Vec::new(), fallback: access };
    let context = Context {
        workers: WorkerHandles::over(
            setting.workers,
            Box::new(move |index, command| worker.handle(index, command)),
        ),
        current: Arc::new(Live::new(Current {
            policy: Arc::new(Policy {
                publish: rules(setting.publish),
                play: rules(setting.play),
                manage: Manage { loopback: true, ..Manage::default() },
                ..Policy::default()
            }),
            ..Current::default()
        })),
        names: NameRules::default(),
        addresses: ListenAddresses::default(),
        started,
        started_at,
        demo_stream: None,
        draining: watch::Sender::new(false),
        keep_alive: AddressSlots::new(100, 100),
        http: HttpCounters::default(),
        metrics_streams_max: 1.into(),
        log_lines_dropped: None,
        reload: crate::reload::Reload::new(None, 0).0,
        upgrade: crate::upgrade::Upgrade::new().0,
        rtc: RtcControl::new(parts(setting.settings, vec![endpoint; setting.workers], Box::new(published)))
            .expect("randomness"),
        stats: crate::stats::collect(Vec::new()).1,
        pulls: sources::pull::Pulls::idle(0),
        pushes: ::pushes::Pushes::idle(0),
        channels: sources::channels::Channels::idle(2),
        segments: None,
        recording_files: crate::RecordingFiles::new(),
        recordings: None,
        uploads: None,
        vod: None,
        vod_viewers: Default::default(),
        moq: None,
        hooks: None,
        telemetry: None,
        acme: None,
        cluster: None,
    };
    Server { context: Arc::new(context), workers }
}

/// Why video is not bridged.
const B_FRAMES: NotBridged = NotBridged::Refused(bridge::Refused {
    video: Some(bridge::TrackRefusal::Transcoder("the stream has B-frames")),
    audio: None,
});

/// Why audio is not bridged.
const NO_THREAD: NotBridged = NotBridged::Refused(bridge::Refused {
    video: None,
    audio: Some(bridge::TrackRefusal::Transcoder("there is no thread to transcode on")),
});

/// What a bridge makes of a stream of frames: Opus, and this video.
fn frames_as(codec: Codec, profile_level_id: &str) -> Arc<[TrackDescription]> {
    let track = |codec: Codec, channels, fmtp: String| TrackDescription {
        mid: String::new(),
        kind: codec.kind(),
        formats: vec![rtc::sdp::Format {
            payload_type: 96,
            codec,
            clock_rate: rtp::payload::clock_rate(codec),
            channels,
            fmtp,
            rtx_payload_type: None,
            feedback: rtc::sdp::Feedback::default(),
        }],
        extensions: rtp::extension::ExtensionMap::default(),
        sources: Vec::new(),
        extmap_allow_mixed: false,
        rids: Vec::new(),
        red: None,
        fec: None,
    };
    let fmtp = match codec {
        Codec::H264 => format!("packetization-mode=1;profile-level-id={profile_level_id}"),
        _ => String::new(),
    };
    Arc::from([track(Codec::Opus, 2, String::new()), track(codec, 1, fmtp)])
}

fn published_tracks() -> Arc<[TrackDescription]> {
    let local = rtc::sdp::LocalDescription {
        ice: rtc::sdp::IceCredentials::new("abcdefgh", &"p".repeat(32)).expect("credentials"),
        fingerprint: Certificate::generate().expect("a certificate").fingerprint(),
        candidates: Vec::new(),
        ice_lite: true,
        session_id: 1,
        first_ssrc: 1,
        stream_id: "s".to_owned(),
    };
    let offer = parse_offer(&offer("sendonly", "H264/90000")).expect("an offer");
    let answer = rtc::sdp::answer_publish(&offer, &local, &rtc::sdp::Policy::publish()).expect("an answer");
    answer.tracks.into()
}

const FINGERPRINT: &str =
    "DA:7B:57:DC:28:CE:04:4F:31:79:85:C4:31:67:EB:27:58:29:ED:77:2A:0D:24:AE:ED:AD:30:BC:BD:F1:9C:02";
const UFRAG: &str = "EsAw";
const PASSWORD: &str = "P2uYro0UCOQ4zxjKXaWCBui1";

/// An offer of audio and video as browsers write it, as far as it matters here.
fn offer(direction: &str, video: &str) -> String {
    let common = format!(
        "c=IN IP4 0.0.0.0\r\na=ice-ufrag:{UFRAG}\r\na=ice-pwd:{PASSWORD}\r\na=ice-options:trickle\r\n\
         a=fingerprint:sha-256 {FINGERPRINT}\r\na=setup:actpass\r\na={direction}\r\na=rtcp-mux\r\n"
    );
    let fmtp = if video.starts_with("H264") {
        "a=fmtp:96 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f\r\n"
    } else {
        ""
    };
    format!(
        "v=0\r\no=- 5228595038118931041 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0 1\r\n\
         m=audio 9 UDP/TLS/RTP/SAVPF 111\r\n{common}a=mid:0\r\na=rtpmap:111 opus/48000/2\r\n\
         m=video 9 UDP/TLS/RTP/SAVPF 96 97\r\n{common}a=mid:1\r\na=rtpmap:96 {video}\r\n{fmtp}\
         a=rtcp-fb:96 nack\r\na=rtcp-fb:96 nack pli\r\na=rtpmap:97 rtx/90000\r\na=fmtp:97 apt=96\r\n"
    )
}

fn publish_offer() -> String {
    offer("sendonly", "H264/90000")
}

fn play_offer() -> String {
    offer("recvonly", "H264/90000")
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn code(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
        body["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    fn field(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

impl Server {
    async fn send_from(
        &self,
        peer: &str,
        method: &str,
        path: &str,
        headers: Fields<'_>,
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost:8080");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(body.into()).expect("a request");
        let address = std::net::SocketAddr::new(peer.parse().expect("an address"), 5000);
        request.extensions_mut().insert(Peer { address, tls: false });
        let router = crate::router(Arc::clone(&self.context));
        let (parts, body) = router.oneshot(request).await.expect("infallible").into_parts();
        let body = to_bytes(body, 1 << 20).await.expect("a body");
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: String::from_utf8(body.into()).expect("text"),
        }
    }

    async fn send(&self, method: &str, path: &str, headers: Fields<'_>, body: impl Into<Body>) -> Answer {
        self.send_from("203.0.113.9", method, path, headers, body).await
    }

    async fn post(&self, path: &str, body: impl Into<Body>) -> Answer {
        self.send("POST", path, &SDP_FIELDS, body).await
    }

    /// A session, by its URL and entity tag.
    async fn session(&self) -> (String, String) {
        let answer = self.post("/whip/live/a", publish_offer()).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        (answer.field("location").to_owned(), answer.field("etag").to_owned())
    }

    fn last_patch(&self) -> (SessionId, RtcPatch) {
        self.workers.patched.lock().expect("not poisoned").pop().expect("a worker was asked")
    }
}

const SDP_FIELDS: [(&str, &str); 1] = [("content-type", "application/sdp")];

#[tokio::test]
async fn a_publisher_is_answered_and_a_worker_told() {
    let settings = RtcSettings {
        ice_servers: vec![
            IceServer { uri: "stun:s".to_owned(), credential: None },
            IceServer { uri: "turn:t".to_owned(), credential: Some(("u".to_owned(), "p".to_owned())) },
        ],
        ..RtcSettings::default()
    };
    let server = server_with(Setting { settings, ..Setting::default() });
    let headers = [("content-type", "application/sdp"), ("user-agent", "test/1")];
    let answer = server.send("POST", "/whip/live/sub/a%2B%C3%BC", &headers, publish_offer()).await;
    assert_eq!((answer.status, answer.field("content-type")), (201, "application/sdp"), "{}", answer.body);
    let token = answer.field("location").strip_prefix("/rtc/session/").expect("a session's URL");
    assert!(token.len() >= 22, "128 bits are 22 characters at least: {token}");
    let links: Vec<_> = answer.headers.get_all("link").iter().collect();
    assert_eq!(links.len(), 2);
    assert!(links[1].to_str().expect("text").contains("username=\"u\"; credential=\"p\""));
    assert_eq!(answer.field("access-control-allow-origin"), "*");
    for field in ["Location", "Link", "ETag"] {
        assert!(answer.field("access-control-expose-headers").contains(field), "{field}");
    }
    assert!(answer.body.contains("a=ice-lite") && answer.body.contains("a=setup:passive"), "{}", answer.body);
    assert!(answer.body.contains("192.0.2.1 8189 typ host"), "{}", answer.body);
    assert!(!answer.body.contains("a=sendonly") && answer.body.contains("a=recvonly"), "{}", answer.body);

    let opened = server.workers.opened.lock().expect("not poisoned");
    let open = &opened[0];
    assert_eq!((open.role, open.app.as_str(), open.stream.as_str()), (RtcRole::Publish, "live/sub", "a+ü"));
    assert_eq!((open.tracks.len(), open.user_agent.as_deref()), (2, Some("test/1")));
    assert_eq!(
        (open.peer.remote_ice.ufrag.as_str(), open.peer.remote_ice.password.as_str()),
        (UFRAG, PASSWORD)
    );
    assert!(answer.body.contains(&format!("a=ice-ufrag:{}\r\n", open.peer.local_ice.ufrag)));
    assert_eq!(answer.field("etag"), format!("\"{}\"", open.peer.local_ice.ufrag));
    assert_eq!(open.peer.dtls.remote_fingerprints[0].to_string(), format!("sha-256 {FINGERPRINT}"));
    let offered = parse_offer(&answer.body).expect("an answer is a description, too");
    assert_eq!(offered.media.len(), 2);
}

#[tokio::test]
async fn a_player_gets_the_tracks_that_are_published() {
    let server = server();
    let answer = server.post("/whep/live/packets", play_offer()).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    assert!(answer.body.contains("a=sendonly") && answer.body.contains("H264/90000"), "{}", answer.body);
    let opened = server.workers.opened.lock().expect("not poisoned");
    assert_eq!((opened[0].role, opened[0].published.as_slice()), (RtcRole::Play, &[0, 0][..]));
    assert!(opened[0].tracks.iter().all(|track| !track.sources.is_empty()), "what it is sent has SSRCs");
}

#[tokio::test]
async fn requests_without_a_session_get_the_status_of_the_rfc() {
    let server = server();
    let without_mux = publish_offer().replace("a=rtcp-mux\r\n", "");
    let plaintext = publish_offer().replace("UDP/TLS/RTP/SAVPF", "RTP/AVPF");
    let no_fingerprint: String =
        publish_offer().split_inclusive("\r\n").filter(|line| !line.starts_with("a=fingerprint")).collect();
    let cases: Vec<(&str, &str, String, u16, &str)> = vec![
        ("POST", "/whip/live", publish_offer(), 400, "invalid_name"),
        ("POST", "/whip/live/..", publish_offer(), 400, "invalid_name"),
        ("POST", "/whep/live/%ff", play_offer(), 400, "invalid_name"),
        ("POST", "/whip/live/con%3Cscript%3E", publish_offer(), 400, "invalid_name"),
        ("POST", "/whep/live/$(id)", play_offer(), 400, "invalid_name"),
        ("POST", "/whip/live/a", String::new(), 400, "malformed_sdp"),
        ("POST", "/whip/live/a", "hello".to_owned(), 400, "malformed_sdp"),
        ("POST", "/whip/live/a", "v=0\r\n".repeat(4000), 400, "malformed_sdp"),
        ("POST", "/whep/live/packets", "v=0".to_owned(), 400, "malformed_sdp"),
        ("POST", "/whip/live/a", without_mux, 422, "unsupported_sdp"),
        ("POST", "/whip/live/a", plaintext, 422, "unsupported_sdp"),
        ("POST", "/whip/live/a", no_fingerprint, 422, "unsupported_sdp"),
        ("POST", "/whip/live/a", play_offer(), 422, "unsupported_sdp"), // the wrong way round
        ("POST", "/whep/live/packets", publish_offer(), 422, "unsupported_sdp"),
        (
            "POST",
            "/whep/live/packets",
            only_video(&offer("recvonly", "VP9/90000")),
            406,
            "codec_not_supported",
        ),
        ("POST", "/whip/live/a", only_video(&offer("sendonly", "X9/90000")), 406, "unsupported_sdp"),
        ("POST", "/whip/live/a", offer("sendonly", "X9/90000"), 422, "unsupported_sdp"), // audio alone is not what is meant
        ("POST", "/whep/live/frames", play_offer(), 406, "not_playable"),
        ("POST", "/whep/live/packets", offer("recvonly", "VP9/90000"), 406, "codec_not_supported"), // audio alone neither
        ("POST", "/whep/live/h265", play_offer(), 406, "codec_not_supported"),
        ("POST", "/whep/live/422", play_offer(), 406, "codec_not_supported"),
        ("POST", "/whep/live/bridged", publish_offer(), 422, "unsupported_sdp"),
        ("POST", "/whep/live/begun", play_offer(), 409, "not_ready"),
        ("POST", "/whep/live/nobody", play_offer(), 409, "not_live"),
        ("PUT", "/whip/live/a", publish_offer(), 405, "method_not_allowed"),
        ("PATCH", "/whep/live/packets", play_offer(), 405, "method_not_allowed"),
        ("DELETE", "/whip/live/a", String::new(), 405, "method_not_allowed"),
        ("POST", "/rtc/session/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", String::new(), 405, "method_not_allowed"),
        ("PUT", "/rtc/session/x", String::new(), 405, "method_not_allowed"),
        ("PATCH", "/rtc/session/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", String::new(), 404, "not_found"),
        ("DELETE", "/rtc/session/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", String::new(), 404, "not_found"),
        ("DELETE", "/rtc/session/%ff", String::new(), 404, "not_found"),
        ("GET", "/rtc/session/x", String::new(), 404, "not_found"),
        ("GET", "/whip/live/a", String::new(), 204, ""),
        ("HEAD", "/whep/live/a", String::new(), 204, ""),
    ];
    for (method, path, body, status, code) in cases {
        let answer = server.send(method, path, &SDP_FIELDS, body).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (status, code),
            "{method} {path}: {}",
            answer.body
        );
        assert_eq!(
            answer.field("access-control-allow-origin"),
            "*",
            "{method} {path}: pages can read errors"
        );
        assert_eq!(answer.headers.contains_key("allow"), status == 405, "{method} {path}");
        let comes_back = ["not_live", "not_ready"].contains(&code);
        assert_eq!(answer.headers.contains_key("retry-after"), comes_back, "{method} {path}");
    }
    assert!(server.workers.opened.lock().expect("not poisoned").is_empty(), "no worker was bothered");
    assert!(server.context.rtc.registry.is_clear());
}

/// The offer without its first media description.
fn only_video(offer: &str) -> String {
    let (head, rest) = offer.split_once("m=audio").expect("audio");
    let (_, video) = rest.split_once("m=video").expect("video");
    format!("{}m=video{video}", head.replace("BUNDLE 0 1", "BUNDLE 1"))
}

#[tokio::test]
async fn bodies_and_answers_have_media_types() {
    let server = server();
    let sdp = ("content-type", "application/sdp");
    let cases: [(Fields<'_>, u16, &str); 8] = [
        (&[], 415, "unsupported_media_type"),
        (&[("content-type", "text/plain")], 415, "unsupported_media_type"), // what a page may send unasked
        (&[("content-type", "application/json")], 415, "unsupported_media_type"),
        (&[("content-type", "application/sdp; charset=utf-8")], 201, ""),
        (&[sdp, ("accept", "*/*")], 201, ""),
        (&[sdp, ("accept", "application/json")], 406, "not_acceptable"),
        (&[sdp, ("accept", "application/sdp")], 201, ""),
        (&[sdp, ("content-length", "131073")], 413, "payload_too_large"),
    ];
    for (headers, status, code) in cases {
        let answer = server.send("POST", "/whip/live/a", headers, publish_offer()).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{headers:?}");
        assert_eq!(answer.field("accept-post") == "application/sdp", status == 415, "{headers:?}");
    }
    let endless = Body::new(Body::from(vec![b'a'; (128 << 10) + 1]));
    assert_eq!(server.post("/whip/live/a", endless).await.status, 413, "also without a length");
    assert_eq!(server.post("/whip/live/a", vec![0xff; 100]).await.status, 400, "not text");
    let large = publish_offer() + &"a=x-padding:0123456789abcdef\r\n".repeat(3000);
    assert!(large.len() > 64 << 10);
    assert_eq!(
        server.post("/whip/live/a", large).await.status,
        201,
        "offers may be larger than other bodies"
    );
    let (url, _) = server.session().await;
    let fields = [("content-type", FRAGMENT), ("if-match", "*")];
    assert_eq!(server.send("PATCH", &url, &fields, vec![b'a'; (64 << 10) + 1]).await.status, 413);
}

#[tokio::test]
async fn wrong_addresses_and_empty_bodies_are_told_what_is_right() {
    let server = server();
    let cases = [
        ("POST", "/live/mill/whip", 404, "WHIP is at /whip/{app}/{stream}, WHEP at /whep/{app}/{stream}"),
        ("POST", "/live/mill/whep/", 404, "WHEP at /whep/{app}/{stream}"),
        ("GET", "/whip", 404, "WHIP is at /whip/{app}/{stream}"),
        ("POST", "/whip/", 404, "WHIP is at /whip/{app}/{stream}"),
        ("POST", "/whip/live/mill/", 400, "no slash at the end"),
        ("POST", "/whip/mill", 400, "/whip/{app}/{stream}"),
        ("POST", "/whip/live/mill", 400, "the body is empty"),
    ];
    for (method, path, status, message) in cases {
        let answer = server.send(method, path, &SDP_FIELDS, "").await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        assert!(answer.body.contains(message), "{method} {path}: {}", answer.body);
    }
    assert_eq!(server.context.rtc.denied(), 0, "nobody was refused for who they are");
}

#[tokio::test]
async fn tokens_come_as_bearer_or_in_the_address() {
    let by_token = |token: &str| Access { tokens: Tokens::new([token.to_owned()]), ..Access::default() };
    let server =
        server_with(Setting { publish: by_token("pub"), play: by_token("view"), ..Setting::default() });
    let cases: [(&str, Fields<'_>, u16); 11] = [
        ("/whip/live/a", &[], 401),
        ("/whip/live/a", &[("authorization", "Bearer pub")], 201),
        ("/whip/live/a", &[("authorization", "bearer pub")], 201),
        ("/whip/live/a?token=pub", &[], 201),
        ("/whip/live/a?token=pub", &[("authorization", "Bearer other")], 401), // the field says it more plainly
        ("/whip/live/a", &[("authorization", "Bearer view")], 401),
        ("/whip/live/a", &[("authorization", "Bearer ")], 401),
        ("/whip/live/a", &[("authorization", "Basic cHViOnB1Yg==")], 401),
        ("/whep/live/packets", &[], 401),
        ("/whep/live/packets", &[("authorization", "Bearer view")], 201),
        ("/whep/live/nobody", &[], 401), // whether somebody publishes is told to those who may play
    ];
    for (path, extra, status) in cases {
        let mut headers = SDP_FIELDS.to_vec();
        headers.extend(extra);
        let body = if path.starts_with("/whip") { publish_offer() } else { play_offer() };
        let answer = server.send("POST", path, &headers, body).await;
        assert_eq!(answer.status, status, "{path} {extra:?}: {}", answer.body);
        let asks = answer.field("www-authenticate");
        assert_eq!(asks.starts_with("Bearer"), status == 401, "{path} {extra:?}: {asks}");
        let says_how = answer.body.contains("Authorization: Bearer TOKEN, or ?token=TOKEN");
        assert_eq!(says_how, answer.code() == "token_missing", "{path} {extra:?}: {}", answer.body);
    }
    let refused = cases.iter().filter(|(_, _, status)| *status == 401).count();
    assert_eq!(server.context.rtc.denied(), refused as u64, "counted for the metrics");
}

#[tokio::test]
async fn an_address_of_the_list_is_the_only_one_named_to_who_asks_for_it() {
    let outside = "198.51.100.7".parse().expect("an address");
    let settings = RtcSettings {
        public_addresses: vec!["203.0.113.1".parse().expect("an address")],
        addresses_on_request: vec![outside],
        ..RtcSettings::default()
    };
    let server = server_with(Setting { settings, ..Setting::default() });
    let named = |answer: &Answer| -> Vec<String> {
        let lines = answer.body.lines().filter(|line| line.contains(" typ host"));
        lines.filter_map(|line| line.split(' ').nth(4)).map(str::to_owned).collect()
    };
    let asked = server.post("/whip/live/a?eip=198.51.100.7", publish_offer()).await;
    assert_eq!((asked.status, named(&asked)), (201, vec!["198.51.100.7".to_owned(); 2]), "{}", asked.body);
    let plain = server.post("/whep/live/packets", play_offer()).await;
    assert_eq!((plain.status, named(&plain)), (201, vec!["203.0.113.1".to_owned(); 2]), "{}", plain.body);

    // A restart of ICE names what the answer named.
    let (url, tag) = (asked.field("location"), asked.field("etag"));
    let headers = [("content-type", "application/trickle-ice-sdpfrag"), ("if-match", tag)];
    let again = server.send("PATCH", url, &headers, fragment("ysXw", NEW_PASSWORD)).await;
    assert_eq!((again.status, named(&again)), (200, vec!["198.51.100.7".to_owned(); 2]), "{}", again.body);

    for (query, status, code, reason) in [
        ("203.0.113.1", 403, "address_not_allowed", "rtc.addresses_on_request"),
        ("203.0.113.9", 403, "address_not_allowed", "eip=203.0.113.9"),
        ("198.51.100.7:1", 400, "bad_request", "without a port"),
    ] {
        let refused = server.post(&format!("/whep/live/packets?eip={query}"), play_offer()).await;
        assert_eq!((refused.status, refused.code().as_str()), (status, code), "{}", refused.body);
        assert!(refused.body.contains(reason), "{}", refused.body);
    }
}

#[tokio::test]
async fn pages_of_other_sites_cannot_publish_in_the_name_of_this_machine() {
    let server = server_with(Setting { publish: Access::loopback(), ..Setting::default() });
    let cases: [(&str, Fields<'_>, u16, &str); 7] = [
        ("203.0.113.9", &[], 403, "not_loopback"),
        ("127.0.0.1", &[], 201, ""),
        ("::1", &[("origin", "http://localhost:8080"), ("sec-fetch-site", "same-origin")], 201, ""),
        (
            "127.0.0.1",
            &[("origin", "https://example.org"), ("sec-fetch-site", "cross-site")],
            403,
            "cross_site",
        ),
        ("127.0.0.1", &[("origin", "https://example.org")], 403, "cross_site"),
        ("127.0.0.1", &[("origin", "null")], 403, "cross_site"),
        ("127.0.0.1", &[("x-forwarded-for", "203.0.113.9")], 403, "forwarded"),
    ];
    for (peer, extra, status, code) in cases {
        let mut headers = SDP_FIELDS.to_vec();
        headers.extend(extra);
        let answer = server.send_from(peer, "POST", "/whip/live/a", &headers, publish_offer()).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{peer} {extra:?}");
    }
    let foreign = [SDP_FIELDS[0], ("origin", "https://example.org")];
    let answer = server.send("POST", "/whep/live/packets", &foreign, play_offer()).await;
    assert_eq!(answer.status, 201, "everybody may play, so every page may");
}

#[tokio::test]
async fn options_say_what_is_accepted_and_to_whom_the_servers_are_named() {
    let settings = RtcSettings {
        ice_servers: vec![IceServer { uri: "stun:s".to_owned(), credential: None }],
        ..RtcSettings::default()
    };
    let publish = Access { tokens: Tokens::new(["pub".to_owned()]), ..Access::default() };
    let server = server_with(Setting { settings, publish, ..Setting::default() });
    let preflight = [("origin", "https://example.org"), ("access-control-request-method", "POST")];
    let cases: [(&str, Fields<'_>, bool); 5] = [
        ("/whip/live/a", &preflight, false),
        ("/whip/live/a", &[], false),
        ("/whip/live/a", &[("authorization", "Bearer pub")], true),
        ("/whep/live/a", &[], true), // everybody may play
        ("/whep/live/a", &preflight, false),
    ];
    for (path, headers, named) in cases {
        let answer = server.send("OPTIONS", path, headers, "").await;
        assert_eq!(
            (answer.status, answer.field("accept-post")),
            (200, "application/sdp"),
            "{path} {headers:?}"
        );
        assert_eq!(answer.headers.contains_key("link"), named, "{path} {headers:?}");
        assert!(answer.field("access-control-allow-methods").contains("POST"));
        for field in ["Authorization", "Content-Type", "If-Match"] {
            assert!(answer.field("access-control-allow-headers").contains(field), "{field}");
        }
    }
    let answer = server.send("OPTIONS", "/rtc/session/x", &preflight, "").await;
    assert_eq!((answer.status, answer.field("accept-patch")), (200, "application/trickle-ice-sdpfrag"));
    let methods = answer.field("access-control-allow-methods");
    assert!(methods.contains("PATCH") && methods.contains("DELETE"), "{methods}");
}

fn fragment(ufrag: &str, password: &str) -> String {
    format!(
        "a=ice-ufrag:{ufrag}\r\na=ice-pwd:{password}\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=mid:0\r\n\
         a=candidate:1387637174 1 udp 2122260223 192.0.2.7 61764 typ host generation 0 ufrag {ufrag}\r\n\
         a=end-of-candidates\r\n"
    )
}

const NEW_PASSWORD: &str = "vw5LmwG4y/e6dPP/zAP9Gp5k";

#[tokio::test]
async fn viewers_are_sent_to_another_node_and_publishers_are_not() {
    let server = server();
    let viewer = server.post("/whep/live/elsewhere?x=1", play_offer()).await;
    assert_eq!(
        (viewer.status, viewer.field("location")),
        (307, "https://edge-2.example.com/whep/live/elsewhere?x=1&redirected")
    );
    assert_eq!(server.post("/whip/live/elsewhere", publish_offer()).await.status, 201);
    *server.workers.refusal.lock().expect("not poisoned") = Some(RtcRefusal::Full);
    let viewer = server.post("/whep/live/bridged", play_offer()).await;
    assert_eq!(
        (viewer.status, viewer.field("location")),
        (307, "https://edge-2.example.com/whep/live/bridged?redirected")
    );
    let sent_here = server.post("/whep/live/bridged?redirected", play_offer()).await;
    assert_eq!(sent_here.status, 503, "nobody is sent on");
}

#[tokio::test]
async fn what_workers_refuse_is_told() {
    let server = server();
    let cases = [
        (RtcRefusal::Taken, "/whip/live/a", 409, "already_published", "5"),
        (RtcRefusal::TakenElsewhere, "/whip/live/a", 409, "already_published", "5"),
        (RtcRefusal::NotFound, "/whep/live/packets", 409, "not_live", "2"),
        (RtcRefusal::Full, "/whip/live/a", 503, "full", "5"),
        (RtcRefusal::Draining, "/whip/live/a", 503, "stopping", "10"),
        (RtcRefusal::Invalid, "/whip/live/a", 500, "internal_error", ""),
    ];
    for (refusal, path, status, code, retry_after) in cases {
        *server.workers.refusal.lock().expect("not poisoned") = Some(refusal);
        let body = if path.starts_with("/whip") { publish_offer() } else { play_offer() };
        let answer = server.post(path, body).await;
        let found = (answer.status, answer.code(), answer.field("retry-after").to_owned());
        assert_eq!(found, (status, code.to_owned(), retry_after.to_owned()), "{refusal:?}");
        assert!(server.context.rtc.registry.is_clear(), "no reservation is kept");
    }
    server.workers.silent.store(true, Ordering::Relaxed);
    let answer = server.post("/whip/live/a", publish_offer()).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "worker_unavailable"));
    server.workers.silent.store(false, Ordering::Relaxed);
    server.context.draining.send_replace(true);
    let answer = server.post("/whip/live/a", publish_offer()).await;
    assert_eq!((answer.status, answer.field("retry-after")), (503, "10"));
}

#[tokio::test]
async fn a_flood_of_offers_is_stopped_before_the_workers_are_full() {
    let settings = RtcSettings {
        pending_per_address_max: 3,
        pending_max: 5,
        posts_per_second_max: 0,
        ..RtcSettings::default()
    };
    let server = server_with(Setting { settings, workers: 2, ..Setting::default() });
    let mut counts = std::collections::BTreeMap::new();
    for client in 0..8 {
        for _ in 0..4 {
            let peer = format!("198.51.100.{client}");
            let answer =
                server.send_from(&peer, "POST", "/whep/live/packets", &SDP_FIELDS, play_offer()).await;
            *counts.entry(answer.status).or_insert(0) += 1;
            let waits = answer.headers.contains_key("retry-after");
            assert_eq!(waits, answer.status != 201, "{}", answer.status);
        }
    }
    assert_eq!(counts[&201], 10, "5 on each of 2 workers");
    assert_eq!(counts[&429], 3, "the first three clients asked for one too many, then there was no room");
    assert_eq!(counts[&503], 19);
    let workers: Vec<_> =
        server.workers.opened.lock().expect("not poisoned").iter().map(|open| open.address).collect();
    assert_eq!(workers.len(), 10, "no worker was asked for nothing");
    // They connect, or are freed: there is room again.
    for serial in 0..5 {
        server.context.rtc.registry.notice(RtcNotice::Ended(SessionId::new(0, serial * 2)));
        server.context.rtc.registry.notice(RtcNotice::Connected(SessionId::new(1, serial * 2 + 1)));
    }
    let answer =
        server.send_from("198.51.100.9", "POST", "/whep/live/packets", &SDP_FIELDS, play_offer()).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_asks_too_often_is_told_to_wait() {
    let settings = RtcSettings { posts_per_second_max: 1, ..RtcSettings::default() };
    let server = server_with(Setting { settings, ..Setting::default() });
    let (url, _) = server.session().await;
    let mut refused = None;
    for _ in 0..10 {
        let answer = server.post("/whip/live/a", publish_offer()).await;
        if answer.status != 201 {
            refused = Some(answer);
        }
    }
    let refused = refused.expect("ten at once are more than one a second");
    assert_eq!((refused.status, refused.code().as_str()), (429, "too_many_requests"));
    let seconds: u64 = refused.field("retry-after").parse().expect("a number of seconds");
    assert!((1..=2).contains(&seconds), "{seconds}");
    assert_eq!(
        server.send("DELETE", "/rtc/session/x", &[], "").await.status,
        429,
        "guesses are counted, too"
    );
    let fields = [("content-type", FRAGMENT), ("if-match", "*")];
    assert_eq!(server.send("PATCH", &url, &fields, "a=end-of-candidates\r\n").await.status, 429);
    assert_eq!(server.send("DELETE", &url, &[], "").await.status, 200, "who leaves is not held up");
    let answer = server.send_from("198.51.100.9", "POST", "/whip/live/a", &SDP_FIELDS, publish_offer()).await;
    assert_eq!(answer.status, 201, "others are not");
}

#[tokio::test]
async fn without_webrtc_there_is_nothing_to_post_to() {
    let server = server_with(Setting { workers: 0, ..Setting::default() });
    let answer = server.post("/whip/live/a", publish_offer()).await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "webrtc_off"));
}

#[tokio::test]
async fn large_nonsense_is_refused_at_once() {
    let server = server();
    let bombs = [
        "m=video 9 UDP/TLS/RTP/SAVPF 96\r\n".repeat(1900),
        format!("v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n{}", "a=x\r\n".repeat(12_000)),
        format!("v=0\r\n{}", "a".repeat(60_000)),
        publish_offer() + &"a=candidate:1 1 udp 1 192.0.2.1 1 typ host\r\n".repeat(1300),
        publish_offer() + &(0..2500).map(|ssrc| format!("a=ssrc:{ssrc} cname:x\r\n")).collect::<String>(),
        publish_offer() + &"m=audio 9 UDP/TLS/RTP/SAVPF 0\r\n".repeat(1500),
    ];
    for bomb in bombs {
        assert!(bomb.len() <= 64 << 10);
        let head: String = bomb.chars().take(40).collect();
        let answer = server.post("/whip/live/a", bomb).await;
        assert!((400..500).contains(&answer.status), "{head}: {}", answer.status);
    }
    assert!(server.context.rtc.registry.is_clear());
}

#[tokio::test]
async fn the_pending_timeout_reaches_the_worker() {
    let settings = RtcSettings { pending_timeout: Duration::from_secs(7), ..RtcSettings::default() };
    let server = server_with(Setting { settings, ..Setting::default() });
    server.session().await;
    let opened = server.workers.opened.lock().expect("not poisoned");
    let timeouts = &opened[0].peer.timeouts;
    assert_eq!((timeouts.ice, timeouts.dtls), (Duration::from_secs(7), Duration::from_secs(7)));
}
