//! Every GET of the management API answers what the server's own OpenAPI document says.

use crate::common::flv::sample_tags;
use crate::common::http;
use crate::common::openapi::departures;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use serde_json::{Value, json};

#[test]
fn answers_have_the_documented_shape_with_and_without_streams() {
    let server = Server::start_workers(2, "");
    let document = server.api("/api/v1/openapi.json");
    assert!(document["openapi"].as_str().expect("a version").starts_with("3."));
    let check_all = |paths: &[(&str, &str)]| {
        for (template, path) in paths {
            let found = departures(&document, template, &server.api(path));
            assert!(found.is_empty(), "GET {path}:\n  {}", found.join("\n  "));
        }
    };
    let lists = [
        ("/api/v1/server", "/api/v1/server"),
        ("/api/v1/streams", "/api/v1/streams"),
        ("/api/v1/sessions", "/api/v1/sessions"),
        ("/api/v1/workers", "/api/v1/workers"),
        ("/api/v1/certificates", "/api/v1/certificates"),
    ];
    check_all(&lists);

    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags());
    let _waiting = RtmpClient::play(server.rtmp, "live/nobody");
    let _playing =
        http::open(server.http, "GET", "/live/mill.flv", &[("User-Agent", "tests")]).expect("play");
    server.wait_for_players("live/mill", 1);
    server.wait_for_players("live/nobody", 1);
    check_all(&lists);
    check_all(&[("/api/v1/streams/{app}/{name}", "/api/v1/streams/live/mill")]);
}

#[test]
fn a_live_stream_is_described_from_its_bytes() {
    let server = Server::start("");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    let tags = sample_tags();
    publisher.send_tags(&tags);
    let stream = crate::common::eventually("the stream is live with all that was sent", || {
        let stream = server.api("/api/v1/streams/live/mill");
        (stream["state"] == "live" && stream["bytes_in"].as_u64()? > 700_000).then_some(stream)
    });
    let expected = [
        ("/app", json!("live")),
        ("/name", json!("mill")),
        ("/video/codec", json!("H.264")),
        ("/video/width", json!(640)),
        ("/video/height", json!(360)),
        ("/audio/codec", json!("AAC")),
        ("/audio/sample_rate", json!(44_100)),
        ("/audio/channels", json!(2)),
        ("/video/key_frame_interval_ms", json!(2_000)),
        ("/publisher/protocol", json!("rtmp")),
        ("/players", json!(0)),
    ];
    for (pointer, value) in expected {
        assert_eq!(stream.pointer(pointer), Some(&value), "{pointer} of {stream}");
    }
    assert_eq!(stream["video"]["profile"].as_str().expect("a profile"), "Main");
    assert!(stream["gop"]["frames"].as_u64().expect("frames") >= 50, "{}", stream["gop"]);
}

#[test]
fn sessions_can_be_filtered_and_paged() {
    let server = Server::start("");
    let players: Vec<_> = (0..7).map(|_| RtmpClient::play(server.rtmp, "live/mill")).collect();
    let _other = RtmpClient::play(server.rtmp, "live/other");
    server.wait_for_players("live/mill", players.len());
    server.wait_for_players("live/other", 1);
    let mut seen = std::collections::BTreeSet::new();
    for offset in (0..9).step_by(3) {
        let page =
            server.api(&format!("/api/v1/sessions?stream=live/mill&role=player&offset={offset}&limit=3"));
        assert_eq!(page["total"], 7);
        let ids = page["sessions"].as_array().expect("sessions").iter();
        seen.extend(ids.map(|session| session["id"].as_str().expect("an id").to_owned()));
    }
    assert_eq!(seen.len(), 7, "each session is on one page");
    assert_eq!(server.api("/api/v1/sessions?role=publisher")["total"], 0);
}

#[test]
fn errors_have_a_code_and_a_message() {
    let server = Server::start("");
    for (method, path, status) in [
        ("GET", "/api/v1/streams/live/nobody", 404),
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v1/sessions?limit=many", 400),
        ("GET", "/api/v1/sessions?role=king", 400),
        ("DELETE", "/api/v1/sessions/none", 404),
        ("DELETE", "/api/v1/streams", 405),
    ] {
        let response = http::request(server.http, method, path, &[]).expect("an answer");
        assert_eq!(response.status, status, "{method} {path}: {}", response.text());
        let error: Value = response.json();
        assert!(
            error["error"]["code"].is_string() && error["error"]["message"].is_string(),
            "{method} {path}: {error}"
        );
    }
}

#[test]
fn urls_use_the_name_by_which_the_server_was_asked() {
    let server = Server::start("");
    let _publisher = RtmpClient::publish(server.rtmp, "live/mill");
    let host = format!("localhost:{}", server.http.port());
    let response = http::send(
        server.http,
        format!("GET /api/v1/streams/live/mill HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
            .as_bytes(),
    );
    let mut body = String::new();
    std::io::Read::read_to_string(&mut response.expect("an answer"), &mut body).expect("a body");
    let stream: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(stream["urls"]["flv"], format!("http://{host}/live/mill.flv"));
    assert_eq!(stream["urls"]["ws_flv"], format!("ws://{host}/live/mill.flv"));
    assert_eq!(stream["urls"]["rtmp"], format!("rtmp://localhost:{}/live/mill", server.rtmp.port()));
}
