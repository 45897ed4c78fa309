//! Stream and app names that are none.

mod common;

use std::io::Write;

use common::raw;
use common::rtmp::RtmpClient;
use common::server::Server;

#[test]
fn names_that_are_none_make_no_stream_by_publish_or_play() {
    let mut server = Server::start("");
    let long = vec![b'x'; 10_000];
    let names: [(&[u8], &str); 10] = [
        (b"", "empty"),
        (b"..", "the parent"),
        (b"../mill", "below the parent"),
        (b"a/../../mill", "the parent inside"),
        (b"/mill", "a leading slash"),
        (b"mill\0x", "NUL"),
        (b"mill\nx", "a control character"),
        (b"mill\xff\xfe", "not UTF-8"),
        (b"?token=x", "only a query"),
        (&long, "10 kB"),
    ];
    for (name, remark) in names {
        for command in [raw::publish(name), raw::play(name)] {
            let mut socket = raw::handshake(server.rtmp);
            socket.write_all(&raw::connect_and_create("live")).expect("send");
            let _ = socket.write_all(&command);
            let answer = raw::read_until_closed(&mut socket, common::PATIENCE);
            let answer = answer.unwrap_or_else(|| panic!("{remark}: the connection stays open"));
            let accepted = [b"NetStream.Publish.Start".as_slice(), b"NetStream.Play.Start"];
            assert!(
                !accepted.iter().any(|code| answer.windows(code.len()).any(|window| window == *code)),
                "{remark}: accepted"
            );
        }
    }
    for app in ["..", "a/../b", "", "live\0", "/"] {
        let mut socket = raw::handshake(server.rtmp);
        socket.write_all(&raw::connect_and_create(app)).expect("send");
        let _ = socket.write_all(&raw::publish("mill"));
        assert!(
            raw::read_until_closed(&mut socket, common::PATIENCE).is_some(),
            "app {app:?}: the connection stays open"
        );
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
        publisher.send_tags(&common::flv::sample_tags()[..20]);
        player.take_frames(10);
    }
}
