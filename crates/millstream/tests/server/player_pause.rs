//! Silence of a publisher is no fault of its players.

use std::time::Duration;

use crate::common::flv::sample_tags;
use crate::common::http;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use rtmp::client::ClientEvent;

/// Half of a pause.
const STALL_TIMEOUT: &str = "[stream]\nplayer_stall_timeout_ms = 700\n";
/// How long a silence may last is what is tested: these pauses are waited for.
const PAUSE: Duration = Duration::from_millis(1_500);

#[test]
fn players_stay_while_the_publisher_says_nothing() {
    let server = Server::start(STALL_TIMEOUT);
    let tags = sample_tags();
    let mut rtmp = RtmpClient::play(server.rtmp, "live/mill");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    for part in tags.chunks(60).take(3) {
        publisher.send_tags(part);
        rtmp.take_frames(58);
        std::thread::sleep(PAUSE);
    }
    assert_eq!(server.sessions("role=player").len(), 1);
}

#[test]
fn players_stay_while_there_is_no_publisher() {
    let server = Server::start(STALL_TIMEOUT);
    let tags = sample_tags();
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    for _ in 0..3 {
        std::thread::sleep(PAUSE);
        let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
        publisher.send_tags(&tags[..60]);
        player.take_frames(58);
        publisher.end();
        server.wait_for_publisher("live/mill", false);
    }
}

#[test]
fn a_player_that_pauses_is_not_stalled() {
    let server = Server::start(STALL_TIMEOUT);
    let tags = sample_tags();
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&tags[..60]);
    player.take_frames(58);
    player.send_raw(&pause(true));
    for part in tags[60..].chunks(100).take(3) {
        publisher.send_tags(part);
        std::thread::sleep(PAUSE / 2);
    }
    assert_eq!(server.sessions("role=player").len(), 1, "nothing is sent to it, so it cannot be slow");
    player.send_raw(&pause(false));
    publisher.send_tags(&tags[360..480]);
    player.take_frames(20);
}

#[test]
fn time_does_not_run_backwards_over_a_pause() {
    let server = Server::start("");
    let tags = sample_tags();
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&tags[..100]);
    let last = player.take_frames(98).pop().expect("frames").timestamp;
    for _ in 0..20 {
        player.send_raw(&pause(true));
        player.send_raw(&pause(false));
    }
    // Each pause is answered before anything more is published, so that all of them lie before the key frame.
    let mut resumed = 0;
    while resumed < 20 {
        match player.next_event().expect("the connection stays") {
            ClientEvent::Status { code, .. } => resumed += usize::from(code == "NetStream.Unpause.Notify"),
            ClientEvent::Media(message) => {
                assert!(message.timestamp >= last, "{} ms again", message.timestamp)
            }
            _ => {}
        }
    }
    // One key frame, and a second of what follows it.
    publisher.send_tags(&tags[100..205]);
    let mut before = last;
    for frame in player.take_frames(60) {
        assert!(frame.timestamp >= before, "{before} ms, then {} ms", frame.timestamp);
        before = frame.timestamp;
    }
}

/// NetStream.pause (Adobe RTMP specification 1.0, section 7.2.2.8).
fn pause(paused: bool) -> Vec<u8> {
    use crate::common::raw::{Amf, command};
    let values =
        [Amf::Text(b"pause"), Amf::Number(0.0), Amf::Null, Amf::Boolean(paused), Amf::Number(1_000.0)];
    let mut bytes = command(&values);
    bytes[8] = 1;
    bytes
}

#[test]
fn an_http_player_stays_as_well() {
    let server = Server::start(STALL_TIMEOUT);
    let tags = sample_tags();
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&tags[..60]);
    let mut player = crate::common::flv::TagReader::new(
        http::open(server.http, "GET", "/live/mill.flv", &[]).expect("play"),
    );
    for tag in &tags[60..63] {
        std::thread::sleep(PAUSE);
        publisher.send_tags([tag]);
        while player.next().expect("the stream goes on").body != tag.body {}
    }
}
