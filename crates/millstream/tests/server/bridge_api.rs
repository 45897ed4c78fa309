//! What the API, metrics and refusals say of bridges, on the running server.

use std::io::Write;
use std::net::TcpStream;

use crate::common::eventually;
use crate::common::flv::sample_tags;
use crate::common::http;
use crate::common::openapi::departures;
use crate::common::rtc::{Client, Options};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use rtc::sdp::Direction;
use serde_json::{Value, json};

#[test]
fn a_bridge_is_shown_while_it_runs_and_in_the_documented_shape() {
    let server = Server::start_workers(2, "[stream]\nbridge_linger_ms = 200\n");
    let document = server.api("/api/v1/openapi.json");
    let shape = |stream: &Value| {
        let found = departures(&document, "/api/v1/streams/{app}/{name}", stream);
        assert!(found.is_empty(), "{}", found.join("\n"));
    };
    let mut publisher = Client::publish(&server, "live/a");
    let before = server.api("/api/v1/streams/live/a");
    shape(&before);
    assert_eq!((&before["bridge"], &before["not_bridged"]), (&Value::Null, &Value::Null));
    for kind in ["whep", "rtmp", "flv", "ws_flv", "ts"] {
        assert!(before["urls"][kind].as_str().expect("an address").contains("live/a"), "{kind}: {before}");
    }
    // Not waited for: the answer begins with the first frame.
    let mut player = TcpStream::connect(server.http).expect("a connection");
    player.write_all(b"GET /live/a.flv HTTP/1.1\r\nHost: h\r\n\r\n").expect("a request");
    let mut number = 0;
    let stream = eventually("the bridge works", || {
        publisher.turn();
        for _ in 0..5 {
            publisher.send_audio(number);
            number += 1;
        }
        let stream = server.api("/api/v1/streams/live/a");
        (stream["bridge"]["packets"].as_u64()? > 0).then_some(stream)
    });
    shape(&stream);
    assert_eq!(stream["bridge"]["direction"], "webrtc_to_rtmp");
    assert_eq!((&stream["players"], &stream["publisher"]["protocol"]), (&json!(1), &json!("whip")));
    let running = "millstream_bridge_running{worker=";
    let lines: Vec<f64> = samples(&server, running, "webrtc_to_rtmp");
    assert_eq!((lines.len(), lines.iter().sum::<f64>()), (2, 1.0), "one bridge on one of two workers");
    assert_eq!(samples(&server, "millstream_stream_bridge_packets_total{", "stream=\"a\"").len(), 1);
    drop(player);
    let after = eventually("the bridge ends", || {
        publisher.turn();
        let stream = server.api("/api/v1/streams/live/a");
        stream["bridge"].is_null().then_some(stream)
    });
    shape(&after);
    assert_eq!(
        samples(&server, "millstream_bridge_started_total{", "webrtc_to_rtmp").iter().sum::<f64>(),
        1.0
    );
    assert!(samples(&server, "millstream_stream_bridge_", "").is_empty(), "no bridge, no series of its own");
}

#[test]
fn a_player_without_the_codec_is_told_what_the_stream_needs() {
    let server = Server::start("");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/a");
    publisher.send_tags(&sample_tags()[..60]);
    let refused = eventually("the headers have come", || {
        let refused = Client::try_open(&server, "/whep/live/a", Direction::Receive, &Options::default());
        let refused = refused.err().expect("this player knows VP8 only");
        if refused.status == 409 {
            assert_eq!(
                refused.json()["error"]["code"].as_str().map(|code| code.starts_with("not_")),
                Some(true)
            );
            assert!(refused.header("retry-after").is_some());
            return None;
        }
        Some(refused)
    });
    assert_eq!(refused.status, 406, "{}", refused.text());
    let error = &refused.json()["error"];
    assert_eq!(error["code"], "codec_not_supported");
    let message = error["message"].as_str().expect("a message");
    assert!(message.starts_with("the stream's video is H.264 Main (profile-level-id 4d"), "{message}");
    assert!(message.ends_with("), and this player takes VP8"), "{message}");
}

/// Values of the metrics whose line begins with `start` and contains `part`.
fn samples(server: &Server, start: &str, part: &str) -> Vec<f64> {
    let text = http::get(server.http, "/metrics").expect("GET /metrics").text();
    let lines = text.lines().filter(|line| line.starts_with(start) && line.contains(part));
    lines.map(|line| line.rsplit(' ').next().expect("a value").parse().expect("a number")).collect()
}
