//! `GET /api/v1/stats/stream`: a message at once and then one a second, each a whole one.

use crate::common::flv::sample_tags;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::{http, stats};
use tungstenite::Message;

#[test]
fn messages_follow_what_happens() {
    let server = Server::start_workers(2, "");
    let mut reader = stats::open(&server);
    assert_eq!(reader.response.headers()["sec-websocket-protocol"], stats::SUBPROTOCOL);
    let first = reader.next();
    assert_eq!((&first["version"], &first["interval_ms"]), (&1.into(), &1000.into()));
    let second = reader.next();
    let number = |message: &serde_json::Value, key: &str| message[key].as_u64().expect("a number");
    assert_eq!(number(&second, "sequence"), number(&first, "sequence") + 1);
    assert!(number(&second, "time_ms") > number(&first, "time_ms"));

    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    server.wait_for_players("live/mill", 1);
    let id = server.sessions("role=player")[0]["id"].as_str().expect("an id").to_owned();
    publisher.send_tags(&sample_tags()[..60]);
    let taken: usize = player.take_frames(55).iter().map(|frame| frame.payload.len()).sum();
    reader.wait_for("the second in which the player got its frames", |message| {
        let session = stats::session(message, &id)?;
        let (bits, packets) = (session["bits_per_second"].as_u64()?, session["packets_per_second"].as_u64()?);
        // A second is as long as it is; but frames that came in two of them are more than half in
        // one of both.
        (bits >= taken as u64 * 3 && packets >= 25).then_some(())
    });
    drop(player);
    reader.wait_for("the player is gone", |message| stats::session(message, &id).is_none().then_some(()));
    reader.wait_for("the stream has no player", |message| {
        (stats::stream(message, "live/mill")?["players"] == 0).then_some(())
    });
}

#[test]
fn pings_are_answered_and_a_close_frame_too() {
    let server = Server::start("");
    let mut reader = stats::open(&server);
    reader.socket.send(Message::Ping(b"wheel".to_vec().into())).expect("send a ping");
    let pong = loop {
        match reader.socket.read().expect("a message") {
            Message::Pong(payload) => break payload,
            _ => continue,
        }
    };
    assert_eq!(pong.as_ref(), b"wheel");
    reader.socket.close(None).expect("send a close frame");
    while reader.socket.read().is_ok() {}
}

#[test]
fn readers_that_speak_are_told_that_nobody_listens() {
    let mut server = Server::start("");
    for message in [Message::Text("hello".into()), Message::Binary(vec![0; 100].into())] {
        let mut reader = stats::open(&server);
        reader.socket.send(message).expect("send");
        assert_eq!(reader.close_code(), Some(1003), "unsupported data (RFC 6455 section 7.4.1)");
    }
    server.assert_healthy();
}

#[test]
fn frames_that_break_the_protocol_end_only_their_own_reader() {
    let mut server = Server::start("");
    let mut other = stats::open(&server);
    for (bytes, remark) in [
        (vec![0x82, 0x01, 0x00], "an unmasked frame"),
        (vec![0xf2, 0x80, 0, 0, 0, 0], "reserved bits"),
        (
            vec![0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
            "2^64 bytes announced",
        ),
        ([&[0x89, 0xfe, 0x01, 0x00, 0, 0, 0, 0][..], &[7; 256]].concat(), "a ping of 256 bytes"),
    ] {
        let mut reader = stats::open(&server);
        std::io::Write::write_all(reader.socket.get_mut(), &bytes).expect("send");
        let closed = crate::common::raw::read_until_closed(reader.socket.get_mut(), crate::common::TIMEOUT);
        assert!(closed.is_some(), "{remark}: the connection is closed");
        other.next();
    }
    server.assert_healthy();
}

#[test]
fn what_is_no_handshake_is_told_so() {
    let server = Server::start("");
    let upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket")];
    let version = ("Sec-WebSocket-Version", "13");
    let key = ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    let other = ("Sec-WebSocket-Protocol", "millstream.stats.v7");
    for (headers, status, code) in [
        (vec![], 426, "upgrade_required"),
        (vec![upgrade[0], upgrade[1], version], 400, "bad_request"),
        (vec![upgrade[0], upgrade[1], ("Sec-WebSocket-Version", "8"), key], 400, "bad_request"),
        (vec![upgrade[0], upgrade[1], version, key, other], 400, "unknown_subprotocol"),
    ] {
        let answer = http::request(server.http, "GET", stats::PATH, &headers).expect("an answer");
        assert_eq!(
            (answer.status, answer.json()["error"]["code"].as_str()),
            (status, Some(code)),
            "{headers:?}"
        );
    }
    let mut plain = stats::try_open(&server, &[]).unwrap_or_else(|_| panic!("no subprotocol is fine, too"));
    assert!(!plain.response.headers().contains_key("sec-websocket-protocol"));
    plain.next();
}
