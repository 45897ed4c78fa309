//! Hooks: a server of the operator's is asked who publishes and plays, by every protocol, and told what
//! happens. It hangs, lies and goes away.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rtc::sdp::{Direction, make_offer};
use serde_json::{Value, json};
use srt::Reject;

use crate::common::flv::{TagReader, sample_tags};
use crate::common::hook::{Call, HookServer, Reply, SECRET};
use crate::common::http::{self, Response};
use crate::common::rtc::{Client, OfferOptions, offer, post};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::{TIMEOUT, eventually};
use crate::reload::reload;
use crate::srt_hostile::{call as srt_call, rejected as srt_rejected};

const ASKED: [&str; 2] = ["on_publish", "on_play"];
const ENDS: [&str; 2] = ["on_publish_end", "on_play_end"];

fn allow() -> Reply {
    Reply::Json(json!({ "allow": true }))
}

/// Lets in what does not have `shut` in the name of its stream.
fn by_name(call: &Call) -> Reply {
    let event = call.json();
    let stream = event["stream"].as_str().expect("a stream");
    Reply::Json(json!({ "allow": !stream.contains("shut"), "id": event["id"], "reason": "shut" }))
}

fn by_rtsp(server: &Server, method: &str, path: &str) -> u16 {
    const SDP: &str = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
        m=audio 0 RTP/AVP 0\r\na=control:track0\r\n";
    let body = if method == "ANNOUNCE" { SDP } else { "" };
    let mut socket = TcpStream::connect(server.rtsp.expect("RTSP is on")).expect("a connection");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a socket");
    let url = server.rtsp_url(path);
    let fields = format!("Content-Type: application/sdp\r\nContent-Length: {}\r\n", body.len());
    write!(socket, "{method} {url} RTSP/1.0\r\nCSeq: 1\r\n{fields}\r\n{body}").expect("sent");
    let mut line = [0; 12];
    socket.read_exact(&mut line).expect("an answer");
    std::str::from_utf8(&line[9..]).expect("text").parse().expect("a status")
}

fn by_webrtc(server: &Server, path: &str, direction: Direction) -> Response {
    let local = "127.0.0.1:50000".parse().expect("an address");
    let sdp = make_offer(&offer(direction, local, &OfferOptions::default()));
    post(server.http, path, &sdp, &[]).expect("a response")
}

fn status(server: &Server, path: &str) -> u16 {
    http::open(server.http, "GET", path, &[]).expect("an answer").status
}

#[test]
fn who_publishes_is_asked_about_by_every_protocol() {
    let hook = HookServer::start(by_name);
    let server = Server::start(&hook.config(&["on_publish"], ""));
    let rtmp = |stream: &str| RtmpClient::begin_publish(server.rtmp, stream).wait_started();
    assert_eq!(rtmp("live/open"), Ok(()));
    let refused = rtmp("live/shut?token=secret").expect_err("refused");
    assert!(refused.contains("not allowed by the server's operator"), "{refused}");

    let refused = by_webrtc(&server, "/whip/live/shut", Direction::Send);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (403, &json!("hook_denied")));
    assert_eq!(by_webrtc(&server, "/whip/live/open-whip", Direction::Send).status, 201);

    assert_eq!(srt_rejected(&server, "publish:live/shut", None), Reject::Forbidden.code());
    srt_call(&server, "publish:live/open-srt", None).expect("let in");

    assert_eq!(by_rtsp(&server, "ANNOUNCE", "/live/shut"), 403);
    assert_eq!(by_rtsp(&server, "ANNOUNCE", "/live/open-rtsp"), 200);

    let events = hook.events("on_publish");
    let protocols: Vec<&str> = events.iter().filter_map(|event| event["protocol"].as_str()).collect();
    assert_eq!(protocols, ["rtmp", "rtmp", "whip", "whip", "srt", "srt", "rtsp", "rtsp"]);
    let ids: HashSet<&str> = events.iter().filter_map(|event| event["id"].as_str()).collect();
    assert_eq!(ids.len(), events.len(), "each has an id of its own");
    let first = &events[0];
    assert_eq!(first["stream"], "live/open");
    assert!(first["session"].is_string() && first["time"].is_string() && first["user_agent"].is_string());
    assert!(first["address"].as_str().is_some_and(|address| address.starts_with("127.0.0.1:")));
    let all =
        hook.calls().iter().map(|call| String::from_utf8_lossy(&call.body).into_owned()).collect::<String>();
    assert!(!all.contains("secret") && !server.log().contains("secret"), "no tokens");
    assert!(server.log().contains("reason=\"shut\""), "the operator's reason is logged");
}

#[test]
fn who_plays_is_asked_about_by_every_protocol() {
    let hook = HookServer::start(by_name);
    let hls = "[hls]\nmode = \"always\"\n";
    let server = Server::start(&format!("{hls}{}", hook.config(&["on_play"], "")));
    let _publishers = ["live/open", "live/shut"].map(|stream| {
        let mut publisher = RtmpClient::publish(server.rtmp, stream);
        publisher.send_tags(&sample_tags());
        publisher
    });
    for (stream, is_open) in [("live/open", true), ("live/shut", false)] {
        let expected = if is_open { 200 } else { 403 };
        assert_eq!(RtmpClient::begin_play(server.rtmp, stream).wait_started().is_ok(), is_open);
        for path in [".flv", ".ts", ".m3u8", ".mpd"] {
            assert_eq!(status(&server, &format!("/{stream}{path}")), expected, "{stream}{path}");
        }
        let upgrade = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let path = format!("/{stream}.flv");
        let answer = http::open(server.http, "GET", &path, &upgrade).expect("an answer");
        assert_eq!(answer.status, if is_open { 101 } else { 403 });
        let whep = eventually("what the stream is is known", || {
            let answer = by_webrtc(&server, &format!("/whep/{stream}"), Direction::Receive);
            (answer.status != 409).then_some(answer)
        });
        assert_eq!(whep.status != 403, is_open, "{}", whep.text());
        assert_eq!(by_rtsp(&server, "DESCRIBE", &format!("/{stream}")), expected);
        let srt = srt_call(&server, &format!("read:{stream}"), None);
        assert_eq!(srt.is_ok(), is_open);
    }
    let of_open = hook.events("on_play").into_iter().filter(|event| event["stream"] == "live/open");
    let protocols: HashSet<String> =
        of_open.filter_map(|event| event["protocol"].as_str().map(str::to_owned)).collect();
    let all = ["rtmp", "http-flv", "http-ts", "ws-flv", "hls", "whep", "rtsp", "srt"];
    assert_eq!(protocols, HashSet::from(all.map(str::to_owned)));
    // The one viewer of HLS and DASH was asked about once.
    let hls = hook.events("on_play");
    let hls = hls.iter().filter(|event| event["protocol"] == "hls" && event["stream"] == "live/open");
    assert_eq!(hls.count(), 1);
}

#[test]
fn the_token_is_looked_at_first() {
    let hook = HookServer::start(|_| allow());
    let auth = "[auth]\nplay_token = 'meadow'\npublish_token = 'sluice'\n";
    let server = Server::start(&format!("{auth}{}", hook.config(&ASKED, "")));
    assert!(RtmpClient::begin_publish(server.rtmp, "live/mill").wait_started().is_err());
    assert_eq!(status(&server, "/live/mill.flv?token=wrong"), 401);
    assert_eq!(by_webrtc(&server, "/whip/live/mill", Direction::Send).status, 401);
    assert_eq!(by_rtsp(&server, "ANNOUNCE", "/live/mill"), 401);
    assert_eq!(hook.calls().len(), 0, "nobody is asked about those whom the rules refuse");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill?token=sluice");
    publisher.send_tags(&sample_tags()[..60]);
    assert_eq!(status(&server, "/live/mill.flv?token=meadow"), 200);
    assert_eq!(hook.calls().len(), 2);
}

#[test]
fn requests_are_signed_and_connections_are_kept() {
    let hook = HookServer::start(|_| allow());
    let server = Server::start(&hook.config(&ASKED, ""));
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..60]);
    for _ in 0..5 {
        assert_eq!(status(&server, "/live/mill.flv"), 200);
    }
    for call in hook.calls() {
        let time = call.header("millstream-time");
        let age = worker_api::time::since_1970().as_secs().abs_diff(time.parse().expect("seconds"));
        assert!(age < 600, "{age}");
        // Computed by another program.
        let mut command = Command::new("openssl");
        command.args(["dgst", "-sha256", "-hmac", SECRET, "-r"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("openssl runs");
        let mut input = child.stdin.take().expect("its input");
        input.write_all(format!("{time}.").as_bytes()).expect("written");
        input.write_all(&call.body).expect("written");
        drop(input);
        let output = child.wait_with_output().expect("it ends").stdout;
        let digest = String::from_utf8_lossy(&output);
        let digest = digest.split(' ').next().expect("a digest");
        assert_eq!(call.header("millstream-signature"), format!("sha256={digest}"));
        let json = call.json();
        assert_eq!(call.header("millstream-event"), json["event"].as_str().expect("an event"));
        assert_eq!(call.path, format!("/{}", json["event"].as_str().expect("an event")));
        assert_eq!(call.header("content-type"), "application/json");
    }
    assert_eq!(hook.connections(), 1, "one after the other, by one connection");
    assert!(hook.calls().iter().all(|call| call.connection == 0));
}

#[test]
fn what_is_no_answer_counts_as_configured() {
    let hook = HookServer::start(|_| allow());
    let elsewhere = HookServer::start(|_| allow());
    let location = elsewhere.url("/on_publish");
    let of = |status: &str, fields: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{fields}\r\n{body}").into_bytes()
    };
    let yes = "{\"allow\":true}";
    let answers: Vec<(&str, Vec<u8>)> = vec![
        ("status", of("500 Internal Server Error", "", yes)),
        ("status", of("307 Temporary Redirect", &format!("Location: {location}\r\n"), yes)),
        ("status", of("401 Unauthorized", "WWW-Authenticate: Basic\r\n", yes)),
        ("invalid", of("200 OK", "", "<html>Welcome to nginx!</html>")),
        ("invalid", of("200 OK", "", "")),
        ("invalid", of("200 OK", "", "{\"allow\":\"yes\"}")),
        ("invalid", of("200 OK", "", "{\"allow\":true,\"id\":\"of another\"}")),
        ("too_long", of("200 OK", "", &format!("{yes}{}", " ".repeat(70_000)))),
        ("connection", b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"allow\":".to_vec()),
        ("connection", b"SSH-2.0-OpenSSH_9.2p1\r\n".to_vec()),
        ("connection", Vec::new()),
    ];
    for is_allowed in [false, true] {
        let on_error = if is_allowed { "allow" } else { "deny" };
        let server = Server::start(&hook.config(&["on_publish"], &format!("on_error = \"{on_error}\"")));
        for (at, (result, bytes)) in answers.iter().enumerate() {
            let bytes = bytes.clone();
            hook.set_answer(move |_| Reply::Bytes(bytes.clone()));
            let counter = format!("millstream_hook_calls_total{{event=\"on_publish\",result=\"{result}\"}}");
            let before = metric(&server, &counter);
            let outcome = RtmpClient::begin_publish(server.rtmp, &format!("live/{at}")).wait_started();
            assert_eq!(outcome.is_ok(), is_allowed, "{at}: {result}: {outcome:?}");
            assert_eq!(metric(&server, &counter), before + 1, "{at}: {result}");
            let refused = by_webrtc(&server, &format!("/whip/live/whip-{at}"), Direction::Send);
            assert_eq!(refused.status, if is_allowed { 201 } else { 503 }, "{at}: {result}");
        }
    }
    assert_eq!(elsewhere.calls().len(), 0, "redirects are not followed");
}

fn metric(server: &Server, name: &str) -> u64 {
    let text = http::get(server.http, "/metrics").expect("an answer").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse::<f64>().expect("a number") as u64)
}

#[test]
fn nobody_there_to_ask() {
    // A port that nothing listens on.
    let address = crate::common::lasting_address();
    let hooks = format!("[hooks]\nsecret = \"{SECRET}\"\non_publish = \"http://{address}/\"\n");
    let server = Server::start(&hooks);
    assert!(RtmpClient::begin_publish(server.rtmp, "live/mill").wait_started().is_err());
    assert_eq!(by_rtsp(&server, "ANNOUNCE", "/live/mill"), 503);
    assert_eq!(srt_rejected(&server, "publish:live/mill", None), Reject::Unavailable.code());
    let server = Server::start(&format!("{hooks}on_error = \"allow\"\n"));
    RtmpClient::publish(server.rtmp, "live/mill");
}

#[test]
fn a_hook_that_hangs_delays_who_asks_and_nobody_else() {
    let hook = HookServer::start(|call| match call.json()["stream"].as_str() {
        Some("live/slow") => Reply::Hang,
        _ => allow(),
    });
    let hooks = hook.config(&ASKED, "timeout_ms = 10000");
    let server = Server::start(&hooks);
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..60]);
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    player.take_frames(50);
    // All of these wait: by every protocol, on the only worker.
    let rtmp = server.rtmp;
    let waiting = thread::spawn(move || RtmpClient::begin_publish(rtmp, "live/slow").wait_started());
    let sockets: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut socket = TcpStream::connect(server.http).expect("a connection");
            socket.set_read_timeout(Some(TIMEOUT)).expect("a socket");
            write!(socket, "GET /live/slow.flv HTTP/1.1\r\nHost: mill\r\nConnection: close\r\n\r\n")
                .expect("sent");
            socket
        })
        .collect();
    hook.wait_for("on_play", 21);
    hook.wait_for("on_publish", 2);
    // Media goes on, and others join.
    publisher.send_tags(&sample_tags()[60..120]);
    player.take_frames(40);
    let mut other = RtmpClient::play(server.rtmp, "live/mill");
    other.take_frames(50);
    assert_eq!(status(&server, "/live/mill.flv"), 200);
    assert!(metric(&server, "millstream_hook_open_questions") >= 20, "they still wait");
    hook.let_go();
    for socket in sockets {
        assert_eq!(http::read_head(socket).expect("an answer").status, 503);
    }
    assert!(waiting.join().expect("a client").is_err());
    eventually("all are answered", || (metric(&server, "millstream_hook_open_questions") == 0).then_some(()));
}

#[test]
fn a_hook_that_hangs_has_only_its_time() {
    let hook = HookServer::start(|_| Reply::Hang);
    for is_allowed in [false, true] {
        let on_error = if is_allowed { "allow" } else { "deny" };
        let server =
            Server::start(&hook.config(&ASKED, &format!("timeout_ms = 100\non_error = \"{on_error}\"")));
        let mut publisher = RtmpClient::begin_publish(server.rtmp, "live/mill");
        assert_eq!(publisher.wait_started().is_ok(), is_allowed);
        if is_allowed {
            publisher.send_tags(&sample_tags()[..60]);
        }
        let refused = http::request(server.http, "HEAD", "/live/mill.flv", &[]).expect("an answer");
        assert_ne!(refused.status, 503, "nobody is asked about HEAD");
        assert_eq!(status(&server, "/live/mill.flv"), if is_allowed { 200 } else { 503 });
        assert_eq!(by_rtsp(&server, "ANNOUNCE", "/live/rtsp"), if is_allowed { 200 } else { 503 });
        let srt = srt_call(&server, "publish:live/srt", None);
        assert_eq!(srt.is_ok(), is_allowed);
        let counter = "millstream_hook_calls_total{event=\"on_publish\",result=\"timeout\"}";
        assert!(metric(&server, counter) >= 3);
    }
}

#[test]
fn a_client_that_leaves_while_its_hook_is_asked_is_reported_as_not_begun() {
    let gate = std::sync::Arc::new((std::sync::Mutex::new(false), std::sync::Condvar::new()));
    let of_hook = std::sync::Arc::clone(&gate);
    let hook = HookServer::start(move |call| {
        if call.path == "/on_play" {
            let open = of_hook.0.lock().expect("whole");
            drop(of_hook.1.wait_while(open, |open| !*open));
        }
        allow()
    });
    let server = Server::start(&hook.config(&["on_play", "on_play_end"], "timeout_ms = 10000"));
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..60]);
    let mut socket = TcpStream::connect(server.http).expect("a connection");
    write!(socket, "GET /live/mill.flv HTTP/1.1\r\nHost: mill\r\n\r\n").expect("sent");
    let asked = hook.wait_for("on_play", 1);
    drop(socket);
    eventually("the session is gone", || server.sessions("role=pending").is_empty().then_some(()));
    *gate.0.lock().expect("whole") = true;
    gate.1.notify_all();
    let ended = hook.wait_for("on_play_end", 1);
    assert_eq!((&ended[0]["asked"], &ended[0]["started"]), (&asked[0]["id"], &json!(false)));
}

#[test]
fn ends_are_told_and_say_of_what() {
    let hook = HookServer::start(|_| allow());
    let events = [ASKED, ENDS].concat();
    let server = Server::start(&hook.config(&[&events[..], &["on_stream_state"]].concat(), ""));
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..60]);
    let mut player =
        TagReader::new(http::open(server.http, "GET", "/live/mill.flv", &[]).expect("an answer"));
    (0..20).for_each(|_| drop(player.next().expect("a tag")));
    let session = server.sessions("role=player")[0]["id"].clone();
    drop(player);
    let ended = hook.wait_for("on_play_end", 1).remove(0);
    assert_eq!((&ended["session"], &ended["started"]), (&session, &json!(true)));
    assert_eq!(ended["asked"], hook.events("on_play")[0]["id"]);
    assert!(ended["bytes"].as_u64() > Some(1000) && ended["seconds"].is_f64() && ended["reason"].is_string());
    let viewer = eventually("what the stream is is known", || {
        let answer = by_webrtc(&server, "/whep/live/mill", Direction::Receive);
        (answer.status != 409).then_some(answer)
    });
    let whep_asked = hook.events("on_play").into_iter().filter(|event| event["protocol"] == "whep");
    let whep_asked: Vec<Value> = whep_asked.collect();
    if viewer.status == 201 {
        let path = viewer.header("location").expect("a URL").to_owned();
        http::request(server.http, "DELETE", &path, &[]).expect("an answer");
    }
    let ends = hook.wait_for("on_play_end", 1 + whep_asked.len());
    let of = |event: &Value| ends.iter().any(|end| end["asked"] == event["id"]);
    assert!(whep_asked.iter().all(of), "each that was let in has its end");
    publisher.end();
    let ended = hook.wait_for("on_publish_end", 1).remove(0);
    assert_eq!((&ended["protocol"], &ended["stream"]), (&json!("rtmp"), &json!("live/mill")));
    let states = hook.wait_for("on_stream_state", 2);
    assert_eq!((&states[0]["state"], &states[1]["state"]), (&json!("live"), &json!("ended")));
    assert_eq!(states[0]["publication"], states[1]["publication"]);
}

#[test]
fn events_of_a_stream_come_in_order_although_the_hook_fails() {
    let hook =
        HookServer::start(|_| Reply::Bytes(b"HTTP/1.1 503 Later\r\nContent-Length: 0\r\n\r\n".to_vec()));
    let server = Server::start(&hook.config(&["on_stream_state"], ""));
    for _ in 0..3 {
        let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
        publisher.send_tags(&sample_tags()[..20]);
        publisher.end();
        server.wait_for_publisher("live/mill", false);
    }
    eventually("it was refused twice", || (hook.calls().len() >= 2).then_some(()));
    let first = hook.calls()[0].json();
    hook.set_answer(|_| allow());
    let distinct = || {
        let mut events = hook.events("on_stream_state");
        events.dedup_by_key(|event| event["id"].clone());
        events
    };
    let events = eventually("all come", || Some(distinct()).filter(|events| events.len() >= 6));
    assert_eq!(events[0], first, "the same event is sent again");
    let states: Vec<&str> = events.iter().filter_map(|event| event["state"].as_str()).collect();
    assert_eq!(states, ["live", "ended", "live", "ended", "live", "ended"]);
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["publication"].as_u64()).collect();
    assert!(numbers.is_sorted());
    assert_eq!(metric(&server, "millstream_hook_queued_events"), 0);
}

#[test]
fn what_is_still_to_be_told_is_told_when_the_server_stops() {
    let hook = HookServer::start(|_| allow());
    let server = Server::start(&hook.config(&[&ENDS[..], &["on_stream_state"]].concat(), ""));
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..60]);
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    player.take_frames(20);
    drop(server);
    for event in ["on_publish_end", "on_play_end"] {
        let events = hook.events(event);
        assert_eq!(events.len(), 1, "{event} without being asked about first");
        assert_eq!(events[0]["started"], true);
    }
    assert_eq!(hook.events("on_stream_state").len(), 2);
}

#[test]
fn players_are_asked_about_in_batches() {
    let hook = HookServer::start(|call| {
        let json = call.json();
        let Some(events) = json["events"].as_array() else { return allow() };
        // One is forgotten; the answers come in another order.
        let answers = events.iter().rev().filter(|event| event["stream"] != "live/forgotten");
        let answers: Vec<Value> = answers
            .map(|event| json!({ "id": event["id"], "allow": event["stream"] == "live/mill" }))
            .collect();
        Reply::Json(json!({ "answers": answers }))
    });
    let server = Server::start(&hook.config(&ASKED, "play_batch_ms = 300"));
    let mut publishers = ["live/mill", "live/shut", "live/forgotten"].map(|stream| {
        let mut publisher = RtmpClient::publish(server.rtmp, stream);
        publisher.send_tags(&sample_tags()[..60]);
        publisher
    });
    let sockets: Vec<(u16, TcpStream)> = (0..30)
        .map(|at| {
            let (stream, expected) = [("mill", 200), ("shut", 403), ("forgotten", 503)][at % 3];
            let mut socket = TcpStream::connect(server.http).expect("a connection");
            socket.set_read_timeout(Some(TIMEOUT)).expect("a socket");
            write!(socket, "GET /live/{stream}.flv HTTP/1.1\r\nHost: mill\r\n\r\n").expect("sent");
            (expected, socket)
        })
        .collect();
    publishers.iter_mut().for_each(|publisher| publisher.send_tags(&sample_tags()[60..120]));
    for (expected, socket) in sockets {
        assert_eq!(http::read_head(socket).expect("an answer").status, expected);
    }
    assert_eq!(hook.events("on_play").len(), 30);
    let requests = hook.calls().iter().filter(|call| call.path == "/on_play").count();
    assert!(requests < 30, "{requests} requests");
    assert!(
        hook.calls()
            .iter()
            .filter(|call| call.path == "/on_publish")
            .all(|call| call.json()["event"].is_string())
    );
}

#[test]
fn a_hook_limits_the_time_of_sessions() {
    let hook = HookServer::start(|call| match call.path.as_str() {
        "/on_play" => Reply::Json(json!({ "allow": true, "max_seconds": 2 })),
        _ => allow(),
    });
    let server = Server::start(&hook.config(&["on_play", "on_play_end"], ""));
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..60]);
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    player.take_frames(50);
    while player.next_event().is_some() {}
    let ended = hook.wait_for("on_play_end", 1).remove(0);
    assert_eq!(ended["reason"], "the time it was given is over");
    let metrics = http::get(server.http, "/metrics").expect("an answer").text();
    assert!(metrics.contains("cause=\"time_over\"} 1"), "{metrics}");
}

#[test]
fn a_viewer_by_hls_whose_time_is_over_stays_out() {
    let hook = HookServer::start(|_| Reply::Json(json!({ "allow": true, "max_seconds": 1 })));
    let server = Server::start(&format!("[hls]\nmode = \"always\"\n{}", hook.config(&["on_play"], "")));
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..200]);
    let status = || http::get(server.http, "/live/mill.m3u8").expect("an answer").status;
    eventually("it is let in", || (status() == 200).then_some(()));
    eventually("its time is over", || (status() == 403).then_some(()));
    // A worker remembers an answer for five seconds, and asks again then.
    for _ in 0..60 {
        assert_eq!(status(), 403);
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_hook_limits_viewers_by_webrtc() {
    let hook = HookServer::start(|_| {
        Reply::Json(json!({ "allow": true, "max_bitrate": 300_000, "max_height": 360 }))
    });
    let server = Server::start(&hook.config(&["on_play"], ""));
    let _publisher = Client::publish(&server, "live/mill");
    let _viewer = Client::play(&server, "live/mill");
    let session = server.sessions("role=player").remove(0);
    assert_eq!(session["rtc"]["path"]["limit_kbps"], 300, "{session}");
    assert_eq!(session["rtc"]["path"]["max_height"], 360, "{session}");
}

#[test]
fn a_stream_is_recorded_because_the_hook_says_so() {
    let hook = HookServer::start(|call| match call.path.as_str() {
        "/on_publish" => {
            let stream = call.json()["stream"].clone();
            Reply::Json(json!({ "allow": true, "record": stream == "live/kept" }))
        }
        _ => allow(),
    });
    let dir = crate::common::server::ScratchDir::new();
    let record = format!("[record]\ndirectory = '{}'\n", dir.path().display());
    let server = Server::start(&format!("{record}{}", hook.config(&["on_publish", "on_record"], "")));
    for stream in ["live/other", "live/kept"] {
        let mut publisher = RtmpClient::publish(server.rtmp, stream);
        publisher.send_tags(&sample_tags()[..40]);
        if stream == "live/kept" {
            hook_eventually_records(&server);
        }
        publisher.send_tags(&sample_tags()[40..200]);
        publisher.end();
        server.wait_for_publisher(stream, false);
    }
    let events = hook.wait_for("on_record", 2);
    let states: Vec<&str> = events.iter().filter_map(|event| event["state"].as_str()).collect();
    assert_eq!(states, ["begun", "complete"]);
    assert!(events.iter().all(|event| event["stream"] == "live/kept"));
    assert_eq!(events[0]["directory"], dir.path().display().to_string());
    let file = events[1]["file"].as_str().expect("a file");
    assert!(dir.path().join(file).exists(), "{file}");
}

fn hook_eventually_records(server: &Server) {
    eventually("it is recorded", || {
        let taps = server.sessions("");
        let taps = taps.iter().filter(|session| session["protocol"] == "recording");
        (taps.count() > 0).then_some(())
    });
}

#[test]
fn hooks_stay_when_the_configuration_is_read_again() {
    let hook = HookServer::start(by_name);
    let (hooks, others) = (hook.config(&ASKED, ""), HookServer::start(|_| allow()));
    let server = Server::spawn(&hooks);
    let answer = reload(&server, &format!("{}[auth]\nplay_token = 'meadow'\n", others.config(&ASKED, "")));
    assert!(answer["needs_restart"].to_string().contains("hooks.on_play"), "{answer}");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/open");
    publisher.send_tags(&sample_tags()[..60]);
    assert!(RtmpClient::begin_publish(server.rtmp, "live/shut").wait_started().is_err());
    assert_eq!(by_webrtc(&server, "/whip/live/shut", Direction::Send).status, 403);
    assert_eq!(status(&server, "/live/shut.flv?token=meadow"), 403);
    assert_eq!(status(&server, "/live/open.flv"), 401, "and the new rules count");
    assert_eq!((hook.calls().len(), others.calls().len()), (4, 0));
}

#[test]
fn unclear_hooks_are_refused_at_the_start() {
    let long = "secret = \"sixteen bytes or more\"\n";
    for (hooks, expected) in [
        ("on_play = \"http://127.0.0.1/\"\n".to_owned(), "`hooks.secret` or `hooks.secret_file` is needed"),
        (
            format!("{long}on_play = \"ftp://127.0.0.1/?key=tell-nobody\"\n"),
            "begins with http:// or https://",
        ),
        (format!("{long}on_play = \"http://me:tell-nobody@127.0.0.1/\"\n"), "has a user name or a password"),
        (
            "secret = \"tell-nobody\"\non_play = \"http://127.0.0.1/\"\n".to_owned(),
            "is shorter than 16 bytes",
        ),
        (format!("{long}on_record = \"http://127.0.0.1/\"\n"), "`hooks.on_record` needs `record.directory`"),
        (format!("{long}on_play = \"http://127.0.0.1/\"\ntimeout_ms = 30000\n"), "handshake_timeout_ms"),
    ] {
        let said = Server::refusal(&format!("[hooks]\n{hooks}"));
        assert!(said.contains(expected), "{expected}: {said}");
        assert!(!said.contains("tell-nobody"), "{said}");
    }
}
