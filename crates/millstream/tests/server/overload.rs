//! When there is too much to do, players are refused by their protocols' own words, publishers last, and who
//! is there goes on.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rtc::sdp::Direction;
use serde_json::json;
use srt::Reject;

use crate::common::bridge::LivePublisher;
use crate::common::channel::make_mp4;
use crate::common::eventually;
use crate::common::flv::{TagReader, sample_tags};
use crate::common::http;
use crate::common::rtc::{Client, Options};
use crate::common::rtmp::RtmpClient;
use crate::common::server::{ScratchDir, Server};
use crate::reload::reload;
use crate::srt_hostile::{call, rejected};

/// A limit that any process exceeds.
const NO_MEMORY: &str = "[limits]\nmemory_bytes = 1\n";

/// First line of the answer to a request by RTSP.
pub(crate) fn ask_rtsp(server: &Server, request: &str) -> String {
    let mut socket = TcpStream::connect(server.rtsp.expect("RTSP is on")).expect("a connection");
    socket.write_all(request.as_bytes()).expect("it is sent");
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).expect("an answer");
        line.push(byte[0]);
    }
    String::from_utf8(line).expect("text").trim_end().to_owned()
}

fn describe(server: &Server) -> String {
    let url = server.rtsp_url("/live/mill");
    ask_rtsp(server, &format!("DESCRIBE {url} RTSP/1.0\r\nCSeq: 1\r\nAccept: application/sdp\r\n\r\n"))
}

fn offer(server: &Server, path: &str, direction: Direction) -> http::Response {
    Client::try_open(server, path, direction, &Options::default()).err().expect("it is refused")
}

fn get(server: &Server, path: &str) -> http::Streaming {
    http::open(server.http, "GET", path, &[]).expect("an answer")
}

/// Those that were refused, by role and reason.
fn refused(server: &Server, role: &str, reason: &str) -> u64 {
    let text = http::get(server.http, "/metrics").expect("GET /metrics").text();
    let labels = format!("role=\"{role}\",reason=\"{reason}\"}}");
    let samples = text.lines().filter(|line| line.starts_with("millstream_overload_refused_total"));
    let counts = samples.filter_map(|line| line.split_once(&labels)?.1.trim().parse::<u64>().ok());
    counts.sum()
}

#[test]
fn everybody_is_refused_in_the_words_of_the_protocol_and_who_is_there_goes_on() {
    let server = Server::spawn("");
    let tags = sample_tags();
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&tags[..60]);
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    let mut flv = TagReader::new(get(&server, "/live/mill.flv"));
    player.take_frames(20);
    (0..20).for_each(|tag| assert!(flv.next().is_some(), "tag {tag}"));

    let answer = reload(&server, NO_MEMORY);
    assert_eq!(answer["changed"], json!(["limits.memory_bytes"]));
    let words = "NetConnection.Connect.Rejected: the server is at its limit: its memory is in use";
    eventually("players are refused", || {
        let outcome = RtmpClient::begin_play(server.rtmp, "live/mill").wait_started();
        (outcome == Err(words.to_owned())).then_some(())
    });
    let players = refused(&server, "player", "memory");
    for path in ["/live/mill.flv", "/live/mill.ts", "/live/mill.m3u8"] {
        let answer = get(&server, path);
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("2")), "{path}");
    }
    let answer = offer(&server, "/whep/live/mill", Direction::Receive);
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("5")), "{}", answer.text());
    assert_eq!(answer.json()["error"]["code"], "overloaded");
    assert_eq!(describe(&server), "RTSP/1.0 503 the server is at its limit: its memory is in use");
    assert_eq!(rejected(&server, "read:live/mill", None), Reject::Overload.code());
    assert_eq!(refused(&server, "player", "memory"), players + 6);

    let outcome = RtmpClient::begin_publish(server.rtmp, "live/other").wait_started();
    assert_eq!(outcome, Err(words.to_owned()));
    let answer = offer(&server, "/whip/live/other", Direction::Send);
    assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (503, Some("overloaded")));
    assert_eq!(rejected(&server, "publish:live/other", None), Reject::Overload.code());
    assert_eq!(refused(&server, "publisher", "memory"), 3);
    // Said once a second.
    server.wait_for_counter("millstream_worker_takes_players", 0);

    publisher.send_tags(&tags[60..120]);
    player.take_frames(20);
    (0..20).for_each(|tag| assert!(flv.next().is_some(), "tag {tag}, of one who is there"));

    reload(&server, "[limits]\nmemory_bytes = 0\n");
    eventually("players are taken again", || {
        RtmpClient::begin_play(server.rtmp, "live/mill").wait_started().ok()
    });
    call(&server, "publish:live/other", None).expect("publishers are, too");
    assert!(server.log().contains("players are refused from now on"), "{}", server.log());
}

#[test]
fn who_may_not_play_hears_that_and_nothing_of_the_load() {
    let server =
        Server::start(&format!("{NO_MEMORY}[auth]\nplay_token = 'meadow'\npublish_token = 'sluice'\n"));
    eventually("players are refused", || {
        (get(&server, "/live/mill.flv?token=meadow").status == 503).then_some(())
    });
    assert_eq!(get(&server, "/live/mill.flv").status, 401);
    assert_eq!(offer(&server, "/whep/live/mill", Direction::Receive).status, 401);
    assert_eq!(rejected(&server, "read:live/mill?token=wrong", None), Reject::Unauthorized.code());
    let outcome = RtmpClient::begin_publish(server.rtmp, "live/mill?token=wrong").wait_started();
    assert!(outcome.expect_err("refused").starts_with("NetStream.Publish.Unauthorized"));
}

#[test]
fn players_are_refused_when_the_line_is_full_and_publishers_are_not() {
    let server = Server::start("[limits]\negress_mbit = 3\n");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    let tags = sample_tags();
    publisher.send_tags(&tags[..60]);
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    player.take_frames(20);
    // As many bytes as make it more than three megabits in each of two seconds, however long those are.
    let mut sent = 60;
    eventually("players are refused", || {
        publisher.send_tags(tags.iter().cycle().skip(sent).take(60));
        player.take_frames(30);
        sent += 60;
        (get(&server, "/live/mill.flv").status == 503).then_some(())
    });
    assert!(refused(&server, "player", "egress") > 0);
    assert_eq!(refused(&server, "publisher", "egress"), 0);
    let _other = RtmpClient::publish(server.rtmp, "live/other");
}

#[test]
fn who_plays_by_dash_and_on_demand_goes_on_and_who_comes_is_refused() {
    let dir = ScratchDir::new();
    make_mp4(&dir.path().join("film.mp4"), 0, 10);
    let config = format!("[hls]\nmode = \"always\"\n[vod]\nroot = '{}'\n", dir.path().display());
    let server = Server::spawn(&config);
    let _publisher = LivePublisher::start(server.rtmp, "live/mill", sample_tags());
    let paths = ["/live/mill.mpd", "/vod/files/film.mp4/manifest.mpd", "/vod/files/film.mp4/index.m3u8"];
    let ask = |path: &str, agent: &str| {
        http::request(server.http, "GET", path, &[("User-Agent", agent)]).expect("an answer").status
    };
    for path in paths {
        eventually(path, || (ask(path, "early") == 200).then_some(()));
    }
    reload(&server, &format!("{config}{NO_MEMORY}"));
    for path in paths {
        eventually(path, || {
            // It asks again before it has left.
            assert_eq!(ask(path, "early"), 200, "{path}: who was there");
            (ask(path, "late") == 503).then_some(())
        });
    }
}

/// Whether the server has not closed a connection at once.
fn is_open(mut socket: &TcpStream) -> bool {
    // Longer than a worker may be held up by other tests.
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a socket");
    matches!(socket.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn an_address_has_as_many_connections_as_the_settings_say() {
    // Those that say nothing stay for the whole test.
    let server = Server::start(
        "[limits]\nconnections_per_address = 8\nhandshake_timeout_ms = 600_000\n\
         [srt]\nsilence_timeout_ms = 60_000\n",
    );
    let connect = || TcpStream::connect(server.rtmp).expect("a connection");
    let connect_open = || Some(connect()).filter(is_open);
    let refused = || server.counter("millstream_connections_refused_address");
    let mut idle: Vec<TcpStream> = (0..7).map(|_| connect()).collect();
    // The request takes the last place.
    let answer = offer(&server, "/whip/live/cam", Direction::Send);
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("5")), "{}", answer.text());
    idle.push(eventually("the place of the request is free", connect_open));
    assert_eq!(rejected(&server, "publish:live/cam", None), Reject::Overload.code());
    assert!(!is_open(&connect()), "it is closed");
    assert!(http::get(server.http, "/healthz").is_err(), "by HTTP as well");
    idle.truncate(6);
    let caller = eventually("there is room again", || call(&server, "publish:live/cam", None).ok());
    assert!(refused() >= 4, "{}", refused());
    // A caller by SRT has one of the places.
    idle.push(eventually("the place of the last request is free", connect_open));
    eventually("all are taken", || http::get(server.http, "/healthz").is_err().then_some(()));
    drop((caller, idle));
    eventually("there is room", || http::get(server.http, "/healthz").ok());
}

#[test]
fn an_address_opens_as_many_connections_in_a_second_as_the_settings_say() {
    let server = Server::start("[limits]\nconnects_per_second_per_address = 1\n");
    let sockets: Vec<_> = (0..20).map(|_| TcpStream::connect(server.rtmp).expect("a connection")).collect();
    let opened = sockets.iter().filter(|socket| is_open(socket)).count();
    assert!((1..20).contains(&opened), "{opened} of 20 at once");
    eventually("it may open more later", || http::get(server.http, "/healthz").ok());
}
