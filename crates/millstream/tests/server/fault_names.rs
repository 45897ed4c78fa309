//! Stream and app names that are none.

use std::io::Write;

use crate::common::origin::post;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::{http, raw, rtc};
use serde_json::json;

#[test]
fn names_that_are_none_make_no_stream_by_publish_or_play() {
    let mut server = Server::start("[limits]\nhandshake_timeout_ms = 2000\n");
    let long = vec![b'x'; 10_000];
    let names: [(&[u8], &str); 11] = [
        (b"", "empty"),
        (b"..", "the parent"),
        (b"../mill", "below the parent"),
        (b"a/../../mill", "the parent inside"),
        (b"/mill", "a leading slash"),
        (b"mill\0x", "NUL"),
        (b"mill\nx", "a control character"),
        (b"mill\xff\xfe", "not UTF-8"),
        (b"a\\b", "a backslash"),
        (b"?token=x", "only a query"),
        (&long, "10 kB"),
    ];
    let mut attempts = Vec::new();
    for (name, remark) in names {
        for command in [raw::publish(name), raw::play(name)] {
            attempts.push((format!("name: {remark}"), [raw::connect_and_create("live"), command].concat()));
        }
    }
    for app in ["..", "a/../b", "", "live\0", "/"] {
        let commands = [raw::connect_and_create(app), raw::publish("mill")].concat();
        attempts.push((format!("app: {app:?}"), commands));
    }
    let mut sockets = Vec::new();
    for (remark, commands) in &attempts {
        let mut socket = raw::handshake(server.rtmp);
        // Refused in the middle of them is refused as well.
        let _ = socket.write_all(commands);
        sockets.push((remark, socket));
    }
    for (remark, mut socket) in sockets {
        let answer = raw::read_until_closed(&mut socket, crate::common::TIMEOUT);
        let answer = answer.unwrap_or_else(|| panic!("{remark}: the connection stays open"));
        for code in [b"NetStream.Publish.Start".as_slice(), b"NetStream.Play.Start"] {
            assert!(!answer.windows(code.len()).any(|window| window == code), "{remark}: accepted");
        }
    }
    assert_eq!(server.api("/api/v1/streams")["streams"], serde_json::json!([]), "no stream came into being");
    server.assert_healthy();
}

/// Names of streams that are none: as they are, as a URL has them, and what the reason says.
const REFUSED: [(&str, &str, &str); 7] = [
    ("%20", "%2520", "other than letters"),
    ("con<script>", "con%3Cscript%3E", "other than letters"),
    ("$(id)", "$(id)", "other than letters"),
    ("a b", "a%20b", "other than letters"),
    ("a\u{202e}b", "a%E2%80%AEb", "other than letters"),
    (".hidden", ".hidden", "begins with a dot"),
    ("..", "%2e%2E", "begins with a dot"),
];

#[test]
fn rtmp_says_why_a_name_is_refused() {
    let server = Server::start("");
    let mut attempts = Vec::new();
    for (name, _, reason) in REFUSED {
        let in_live = |command: Vec<u8>| [raw::connect_and_create("live"), command].concat();
        for (commands, code) in [
            (in_live(raw::publish(name)), "NetStream.Publish.BadName"),
            (in_live(raw::play(name)), "NetStream.Play.StreamNotFound"),
            (raw::connect_and_create(name), "NetConnection.Connect.Rejected"),
        ] {
            let mut socket = raw::handshake(server.rtmp);
            let _ = socket.write_all(&commands);
            attempts.push((name, code, reason, socket));
        }
    }
    for (name, code, reason, mut socket) in attempts {
        let answer = raw::read_until_closed(&mut socket, crate::common::TIMEOUT).expect("it is closed");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains(code) && answer.contains(reason), "{code} for {name}: {answer:?}");
    }
}

#[test]
fn http_says_why_a_name_is_refused() {
    let server = Server::start("");
    let upgrade = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    for (_, name, reason) in REFUSED {
        for path in [format!("live/{name}"), format!("{name}/mill")] {
            let answers = [
                ("FLV", http::get(server.http, &format!("/{path}.flv"))),
                ("WebSocket", http::request(server.http, "GET", &format!("/{path}.flv"), &upgrade)),
                ("WHIP", rtc::post(server.http, &format!("/whip/{path}"), "v=0", &[])),
                ("WHEP", rtc::post(server.http, &format!("/whep/{path}"), "v=0", &[])),
            ];
            for (protocol, answer) in answers {
                let answer = answer.expect("an answer");
                assert_eq!(answer.status, 400, "{protocol} {path}: {}", answer.text());
                assert!(answer.text().contains(reason), "{protocol} {path}: {}", answer.text());
            }
        }
    }
    let slash = http::get(server.http, "/live/a%2Fb.flv").expect("an answer");
    assert_eq!((slash.status, slash.text().contains("has a slash")), (400, true), "{}", slash.text());
}

#[test]
fn the_api_says_why_a_name_is_refused() {
    let server = Server::start("");
    for (name, _, reason) in REFUSED.into_iter().chain([("a/b", "", "has a slash"), ("", "", "is empty")]) {
        for (path, body) in [
            ("/api/v1/channels", json!({ "app": "live", "name": name, "items": ["http://h/a.mp4"] })),
            ("/api/v1/pulls", json!({ "app": "live", "name": name, "url": "rtmp://h/a/b" })),
        ] {
            let answer = post(&server, path, &body.to_string());
            assert_eq!(answer.status, 400, "{path} {name}: {}", answer.text());
            assert!(answer.text().contains(reason), "{path} {name}: {}", answer.text());
        }
    }
}

#[test]
fn unusual_names_that_are_valid_work() {
    let server = Server::start("[limits]\nname_extra_characters = \" %\"\n");
    for name in ["Mühle", "a b", "x.flv", "deep/er/mill", "100%", "a+b", "~a@b:c", "мельница", "चक्की", "風車"]
    {
        let stream = format!("live/{name}");
        let mut player = RtmpClient::play(server.rtmp, &stream);
        let mut publisher = RtmpClient::publish(server.rtmp, &stream);
        publisher.send_tags(&crate::common::flv::sample_tags()[..20]);
        player.take_frames(10);
    }
}

#[test]
fn slashes_in_the_name_of_an_rtmp_command_belong_to_the_application() {
    let server = Server::start("[[auth.publish]]\nstream = \"live/deep/*\"\nallow = \"loopback\"\n");
    let mut socket = raw::handshake(server.rtmp);
    let commands = [raw::connect_and_create("live"), raw::publish("deep/er/mill?x=/$(id)")].concat();
    socket.write_all(&commands).expect("send");
    server.wait_for_publisher("live/deep/er/mill", true);
    let stream = &server.api("/api/v1/streams")["streams"][0];
    assert_eq!((&stream["app"], &stream["name"]), (&json!("live/deep/er"), &json!("mill")));
}
