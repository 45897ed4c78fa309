//! Pulls on demand, begun by players of the protocols that `pull_on_demand.rs` leaves out, kept by another
//! node, and what players get whose source does not begin.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::Value;

use crate::common::cluster::{Cluster, wait_for_lines};
use crate::common::flv::TagReader;
use crate::common::origin::{LOCAL, Origin};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::tools::{Running, ffmpeg, publish_repeated};
use crate::common::websocket::{Messages, connect};
use crate::common::{TIMEOUT, eventually, http};

fn pattern(url: &str, more: &str) -> String {
    format!(
        "{LOCAL}on_demand_linger_ms = 300\n{more}[[pull]]\nstream = \"cam/*\"\n\
         url = \"{url}\"\non_demand = true\n"
    )
}

fn publishing() -> (Server, Running) {
    let origin = Server::start_workers(1, "");
    let publisher = publish_repeated(&origin.rtmp_url("live/mill"), 1, 30);
    origin.wait_for_publisher("live/mill", true);
    (origin, publisher)
}

/// The state of the pull of `cam/mill`, if it runs.
fn state(server: &Server) -> Option<String> {
    let list = server.api("/api/v1/pulls")["pulls"].as_array().cloned().unwrap_or_default();
    let of_mill = list.iter().find(|pull| pull["name"] == "mill")?;
    of_mill["state"].as_str().map(str::to_owned)
}

fn wait_for_state(server: &Server, wanted: Option<&str>) {
    eventually("the pull is in that state", || (state(server).as_deref() == wanted).then_some(()));
}

#[test]
fn players_of_websocket_srt_rtsp_and_http2_begin_one_and_let_it_end() {
    let (origin, _publisher) = publishing();
    let server =
        Server::start_workers(2, &pattern(&origin.flv_url("live/{stream}"), "[hls]\nlinger_seconds = 1\n"));
    let mut reader = TagReader::new(Messages::new(connect(&server, "cam/mill")));
    for _ in 0..10 {
        reader.next().expect("the stream goes on");
    }
    assert_eq!(state(&server).as_deref(), Some("live"), "by WebSocket");
    drop(reader);
    wait_for_state(&server, None);

    for url in [server.srt_url("read:cam/mill"), server.rtsp_url("/cam/mill")] {
        let mut player = ffmpeg();
        player.args(["-i", &url, "-map", "0:v", "-c", "copy", "-frames:v", "50", "-f", "null", "-"]);
        let player = Running::start(player, "ffmpeg playing");
        wait_for_state(&server, Some("live"));
        player.finish();
        wait_for_state(&server, None);
    }

    let done = Command::new("curl")
        .args([
            "--silent",
            "--http2-prior-knowledge",
            "--write-out",
            "%{stderr}%{http_version} %{response_code}",
        ])
        .arg(format!("http://{}/cam/mill.m3u8", server.http))
        .output()
        .expect("curl runs");
    assert_eq!(String::from_utf8_lossy(&done.stderr), "2 200", "by HTTP/2");
    assert!(done.stdout.starts_with(b"#EXTM3U"));
    assert_eq!(state(&server).as_deref(), Some("live"));
    wait_for_state(&server, None);
}

#[test]
fn another_node_that_fetches_the_stream_keeps_it() {
    let Some(cluster) = Cluster::start() else { return };
    let (origin, _publisher) = publishing();
    let config = |name: &str, pull: &str| format!("{}\n{pull}", cluster.config(name, "linger_ms = 300"));
    let a = Server::start_workers(2, &config("a", &pattern(&origin.flv_url("live/{stream}"), "")));
    let b = Server::start_workers(2, &config("b", ""));
    wait_for_lines(&b, "linked to a node", 1);
    let mut first = RtmpClient::play(a.rtmp, "cam/mill");
    first.take_frames(5);
    wait_for_lines(&a, "published in the cluster", 1);
    let mut other = eventually("the stream is known", || {
        let answer = http::open(b.http, "GET", "/cam/mill.flv", &[]).expect("an answer");
        (answer.status == 200).then(|| TagReader::new(answer))
    });
    other.next().expect("the stream");
    drop(first);
    a.wait_for_players("cam/mill", 1);
    for _ in 0..100 {
        other.next().expect("the stream goes on");
    }
    assert_eq!(state(&a).as_deref(), Some("live"), "a node plays it");
    assert_eq!(a.sessions("stream=cam/mill&role=player")[0]["protocol"], "node");
    drop(other);
    wait_for_state(&a, None);
}

#[test]
fn players_whose_source_does_not_begin_are_let_go_by_each_protocol() {
    let origin = Origin::start();
    let server = Server::start_workers(1, &pattern(&origin.url("/{stream}"), "on_demand_timeout_ms = 700\n"));
    let of_stream = |name: &str| {
        let list = server.api("/api/v1/pulls")["pulls"].as_array().cloned().unwrap_or_default();
        list.iter().any(|pull: &Value| pull["name"] == name)
    };
    for path in ["/cam/a.flv", "/cam/b.ts"] {
        let answer = http::get(server.http, path).expect("an answer");
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
    // Its head has been answered by then.
    let mut body = Vec::new();
    let _ = Messages::new(connect(&server, "cam/c")).read_to_end(&mut body);
    assert!(body.is_empty(), "{} bytes", body.len());

    let mut player = ffmpeg();
    player.args(["-i", &server.srt_url("read:cam/d"), "-c", "copy", "-f", "null", "-"]);
    Running::start(player, "ffmpeg playing by SRT").finish_refused();

    let mut socket = TcpStream::connect(server.rtsp.expect("RTSP is on")).expect("a connection");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a socket");
    let url = server.rtsp_url("/cam/e");
    socket.write_all(format!("DESCRIBE {url} RTSP/1.0\r\nCSeq: 1\r\n\r\n").as_bytes()).expect("it is sent");
    let mut answer = [0; 64];
    let count = socket.read(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer[..count]);
    assert!(answer.starts_with("RTSP/1.0 404"), "{answer}");
    drop(socket);
    for name in ["a", "b", "c", "d", "e"] {
        eventually("no pull is left", || (!of_stream(name)).then_some(()));
    }
    let asked: Vec<String> = std::iter::from_fn(|| origin.accept_now()).map(|_| String::new()).collect();
    assert!(asked.len() >= 5, "each has begun one: {}", asked.len());
}

#[test]
fn a_name_cannot_say_more_than_a_name_in_a_stream_id() {
    let origin = Server::start_workers(1, "");
    let address = origin.srt.expect("SRT is on");
    let config = pattern(
        &format!("srt://{address}?streamid=%23!::r=live/{{stream}},m=request"),
        "on_demand_timeout_ms = 700\n[limits]\nname_extra_characters = \",=\"\n",
    );
    let server = Server::start_workers(1, &config);
    let _publisher = publish_repeated(&origin.rtmp_url("live/mill"), 1, 9);
    origin.wait_for_publisher("live/mill", true);
    let mut player = RtmpClient::play(server.rtmp, "cam/mill");
    player.take_frames(5);
    wait_for_state(&server, Some("live"));
    let refused = http::get(server.http, "/cam/mill,t=x.m3u8").expect("an answer");
    assert_eq!(refused.status, 404, "{}", refused.text());
    let mill = origin.sessions("role=player");
    assert!(mill.iter().all(|session| session["stream"] == "live/mill"), "{mill:?}");
    assert_eq!(mill.len(), 1);
}
