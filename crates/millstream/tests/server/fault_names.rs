//! Stream and app names that are none.

use std::io::Write;

use crate::common::raw;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;

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
        let answer = raw::read_until_closed(&mut socket, crate::common::PATIENCE);
        let answer = answer.unwrap_or_else(|| panic!("{remark}: the connection stays open"));
        for code in [b"NetStream.Publish.Start".as_slice(), b"NetStream.Play.Start"] {
            assert!(!answer.windows(code.len()).any(|window| window == code), "{remark}: accepted");
        }
    }
    assert_eq!(server.api("/api/v1/streams")["streams"], serde_json::json!([]), "no stream came into being");
    server.assert_healthy();
}

#[test]
fn unusual_names_that_are_valid_work() {
    let server = Server::start("");
    for name in ["Mühle", "a b", "x.flv", "deep/er/mill", "100%", "a+b"] {
        let stream = format!("live/{name}");
        let mut player = RtmpClient::play(server.rtmp, &stream);
        let mut publisher = RtmpClient::publish(server.rtmp, &stream);
        publisher.send_tags(&crate::common::flv::sample_tags()[..20]);
        player.take_frames(10);
    }
}
