//! What the management API says about WebRTC has the shape its own document gives it, and metrics count it.

use crate::common::openapi::departures;
use crate::common::rtc::{Client, counter, start_flow};
use crate::common::server::Server;
use crate::common::{eventually, http};
use serde_json::{Value, json};

#[test]
fn streams_and_sessions_of_webrtc_have_the_documented_shape() {
    let server = Server::start_workers(2, "");
    let document = server.api("/api/v1/openapi.json");
    let mut publisher = Client::publish(&server, "live/a");
    let mut viewer = Client::play(&server, "live/a");
    start_flow(&mut publisher, &mut viewer, 0);
    let paths = [
        ("/api/v1/server", "/api/v1/server"),
        ("/api/v1/streams", "/api/v1/streams"),
        ("/api/v1/streams/{app}/{name}", "/api/v1/streams/live/a"),
        ("/api/v1/sessions", "/api/v1/sessions"),
        ("/api/v1/workers", "/api/v1/workers"),
    ];
    for (template, path) in paths {
        let found = departures(&document, template, &server.api(path));
        assert!(found.is_empty(), "GET {path}:\n  {}", found.join("\n  "));
    }
    let sessions = server.sessions("stream=live/a");
    let protocols: Vec<_> = sessions.iter().map(|session| &session["protocol"]).collect();
    assert!(protocols.contains(&&json!("whip")) && protocols.contains(&&json!("whep")), "{sessions:?}");
    for session in &sessions {
        assert_eq!(session["rtc"]["codecs"], json!(["Opus", "VP8"]), "{session}");
    }
    assert_eq!(
        server.api("/api/v1/server")["endpoints"]["whip"],
        json!([format!("http://{}/whip", server.http)])
    );
    for (name, least) in
        [("sessions_opened", 2), ("sessions_connected", 2), ("sent_packets", 1), ("received_packets", 1)]
    {
        eventually(name, || (counter(&server, name) >= least).then_some(()));
    }
}

#[test]
fn pictures_of_webrtc_are_described_as_those_of_rtmp() {
    let server = Server::start_workers(2, "");
    let mut publisher = Client::publish(&server, "live/a");
    let mut number = 0;
    let mut described = || {
        publisher.turn();
        // 30 frames a second by their timestamps, a key frame each second.
        publisher.send_video(number, number % 30 == 0, 100);
        number += 1;
        server.api("/api/v1/streams/live/a")
    };
    let stream = eventually("size, rate and distance of key frames", || {
        let stream = described();
        let video = &stream["video"];
        let known = ["width", "frame_rate", "key_frame_interval_ms"].map(|name| video[name].is_number());
        (known == [true; 3]).then_some(stream)
    });
    let video = &stream["video"];
    assert_eq!((&video["codec"], &video["profile"]), (&json!("VP8"), &json!("Profile 0")));
    assert_eq!((&video["width"], &video["height"]), (&json!(320), &json!(240)));
    assert_eq!((&video["frame_rate"], &video["key_frame_interval_ms"]), (&json!(30.0), &json!(1_000)));
    assert_eq!(stream["tracks"][1]["width"], json!(320), "{stream}");
    assert_eq!(server.counter("millstream_stream_frames_per_second"), 30);
    assert_eq!(server.counter("millstream_stream_key_frame_interval_seconds"), 1);
    assert_eq!(server.counter("millstream_stream_video_width_pixels"), 320);
    assert_eq!(server.counter("millstream_stream_video_height_pixels"), 240);
    let metrics = http::get(server.http, "/metrics").expect("GET /metrics").text();
    let format = metrics.lines().find(|line| line.starts_with("millstream_stream_video_format{"));
    let format = format.expect("a sample of the format");
    assert!(format.contains(r#"codec="VP8",profile="Profile 0""#) && format.ends_with("} 1.0"), "{format}");
}

#[test]
fn pictures_of_one_publisher_are_not_said_of_the_next() {
    let server = Server::start("");
    let mut publisher = Client::publish(&server, "live/a");
    // Keeps the stream.
    let _viewer = Client::play(&server, "live/a");
    let width = || server.api("/api/v1/streams/live/a")["video"]["width"].clone();
    let mut number = 0;
    eventually("the size", || {
        publisher.turn();
        publisher.send_video(number, true, 100);
        number += 1;
        (width() == json!(320)).then_some(())
    });
    assert_eq!(publisher.delete(), 200);
    // It sends no picture.
    let _next = Client::publish(&server, "live/a");
    eventually("no size", || width().is_null().then_some(()));
    assert_eq!(server.api("/api/v1/streams/live/a")["video"]["codec"], json!("VP8"));
}

#[test]
fn sessions_of_frames_have_no_connection_of_webrtc() {
    let server = Server::start("");
    let _waiting = crate::common::rtmp::RtmpClient::play(server.rtmp, "live/a");
    server.wait_for_players("live/a", 1);
    assert_eq!(server.sessions("")[0]["rtc"], Value::Null);
    assert_eq!(server.api("/api/v1/streams/live/a")["tracks"], json!([]));
}
