//! A stream of another Millstream is pulled by each protocol: every frame arrives, and the pull is
//! seen where it should.

use crate::common::flv::sample_tags;
use crate::common::http;
use crate::common::openapi::departures;
use crate::common::origin::{LOCAL, wait_for_pull};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use rtmp::MediaKind;
use rtmp::flv::Tag;

#[test]
fn by_http_flv_every_frame_arrives_unchanged() {
    arrives(1, |origin| origin.flv_url("live/mill"));
}

#[test]
fn by_rtmp_every_frame_arrives_unchanged() {
    arrives(2, |origin| origin.rtmp_url("live/mill"));
}

fn arrives(workers: u32, url: impl Fn(&Server) -> String) {
    let origin = Server::start("");
    let url = url(&origin);
    // An origin that has lost its publisher keeps its players waiting: by HTTP that looks like a stall.
    let config = format!(
        "{LOCAL}stall_timeout_ms = 4000\n[[pull]]\nstream = \"live/copy\"\nurl = \"{url}?token=secret\"\n"
    );
    let server = Server::start_workers(workers, &config);
    let mut player = RtmpClient::play(server.rtmp, "live/copy");
    server.wait_for_players("live/copy", 1);
    origin.wait_for_players("live/mill", 1);
    let tags = sample_tags();
    let frames: Vec<&Tag> = tags.iter().filter(|tag| tag.kind != MediaKind::Data).collect();
    let mut publisher = RtmpClient::publish(origin.rtmp, "live/mill");
    publisher.send_tags(&tags);
    let played = player.take_frames(frames.len());
    let zero = played[0].timestamp.wrapping_sub(frames[0].timestamp);
    for (index, (played, sent)) in played.iter().zip(&frames).enumerate() {
        assert!(played.kind == sent.kind && played.payload == sent.body, "message {index}");
        assert_eq!(played.timestamp.wrapping_sub(zero), sent.timestamp, "time of message {index}");
    }
    let pull = wait_for_pull(&server, "copy", "live", |pull| pull["state"] == "live");
    assert_eq!(pull["source"], "configuration");
    assert!(pull["bytes"].as_u64().expect("bytes") > 700_000, "{pull}");
    let shown = pull["url"].as_str().expect("a URL");
    assert!(shown.ends_with("?...") && !shown.contains("secret"), "{shown}");
    let document = server.api("/api/v1/openapi.json");
    for (template, path) in [
        ("/api/v1/pulls", "/api/v1/pulls"),
        ("/api/v1/pulls/{app}/{name}", "/api/v1/pulls/live/copy"),
        ("/api/v1/sessions", "/api/v1/sessions"),
    ] {
        let found = departures(&document, template, &server.api(path));
        assert!(found.is_empty(), "GET {path}:\n  {}", found.join("\n  "));
    }
    let session = &server.sessions("stream=live/copy&role=publisher")[0];
    assert_eq!((&session["protocol"], &session["user_agent"]), (&"pull".into(), &pull["url"]));
    let stream = server.api("/api/v1/streams/live/copy");
    assert_eq!(
        (&stream["publisher"]["protocol"], &stream["video"]["codec"]),
        (&"pull".into(), &"H.264".into())
    );
    let metrics = http::get(server.http, "/metrics").expect("metrics").text();
    for line in [
        "millstream_pulls{state=\"live\"} 1",
        "millstream_pull_received_bytes_total{app=\"live\",stream=\"copy\"} ",
        "millstream_pull_reconnects_total{app=\"live\",stream=\"copy\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
    assert!(!server.log().contains("secret"), "{}", server.log());
    publisher.end();
    server.wait_for_publisher("live/copy", false);
    let pull = wait_for_pull(&server, "copy", "away", |pull| pull["state"] != "live");
    assert!(pull["last_error"].is_string(), "{pull}");
}
