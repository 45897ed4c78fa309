//! WebSocket-FLV with an independent WebSocket client: the binary messages, joined, are the FLV of HTTP.

use std::io;

use crate::common::flv::{TagReader, sample_tags};
use crate::common::http;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::websocket::{Messages, connect};
use rtmp::MediaKind;
use tungstenite::Message;

#[test]
fn binary_messages_carry_the_flv_stream() {
    let server = Server::start("");
    let tags = sample_tags();
    let socket = connect(&server, "live/mill");
    server.wait_for_players("live/mill", 1);
    assert_eq!(server.sessions("role=player")[0]["protocol"], "ws-flv");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&tags);
    let published: Vec<_> = tags.iter().filter(|tag| tag.kind != MediaKind::Data).collect();
    let mut reader = TagReader::new(Messages::new(socket));
    let mut first = None;
    for (index, want) in published.iter().enumerate() {
        let got = loop {
            let tag = reader.next().expect("the stream goes on");
            if tag.kind != MediaKind::Data {
                break tag;
            }
        };
        let zero = *first.get_or_insert(got.timestamp);
        assert_eq!(got.kind, want.kind, "kind of tag {index}");
        assert_eq!(got.timestamp - zero, want.timestamp - published[0].timestamp, "time of tag {index}");
        assert!(got.body == want.body, "body of tag {index}");
    }
}

#[test]
fn ping_is_answered_and_close_ends_the_session() {
    let server = Server::start("");
    let mut socket = connect(&server, "live/mill");
    server.wait_for_players("live/mill", 1);
    socket.send(Message::Ping(b"water".to_vec().into())).expect("send a ping");
    let pong = loop {
        match socket.read().expect("a message") {
            Message::Pong(payload) => break payload,
            _ => continue,
        }
    };
    assert_eq!(pong.as_ref(), b"water");
    socket.close(None).expect("send a close frame");
    while socket.read().is_ok() {}
    server.wait_for_players("live/mill", 0);
}

#[test]
fn frames_that_break_the_protocol_end_only_their_own_session() {
    let mut server = Server::start("");
    for (bytes, remark) in [
        (vec![0x82, 0x01, 0x00], "an unmasked frame"),
        (vec![0xf2, 0x80, 0, 0, 0, 0], "reserved bits"),
        (
            vec![0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
            "2^64 bytes announced",
        ),
        (vec![0x89, 0xfe, 0x01, 0x00, 0, 0, 0, 0], "a ping of 256 bytes"),
    ] {
        let mut socket = connect(&server, "live/mill");
        io::Write::write_all(socket.get_mut(), &bytes).expect("send");
        let closed = crate::common::raw::read_until_closed(socket.get_mut(), crate::common::TIMEOUT);
        assert!(closed.is_some(), "{remark}: the connection is closed");
    }
    server.assert_healthy();
}

#[test]
fn an_upgrade_without_its_headers_is_refused() {
    let server = Server::start("");
    let headers = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")];
    let answer = http::request(server.http, "GET", "/live/mill.flv", &headers).expect("an answer");
    assert_eq!(answer.status, 400, "Sec-WebSocket-Key is missing");
    let headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "8"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let answer = http::request(server.http, "GET", "/live/mill.flv", &headers).expect("an answer");
    assert_eq!(answer.status, 426, "version 8 is not spoken");
    assert_eq!(answer.header("sec-websocket-version"), Some("13"), "RFC 6455 section 4.4");
}
