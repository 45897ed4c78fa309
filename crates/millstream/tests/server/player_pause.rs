//! A player that pauses and goes on. How long it may is tested in virtual time (crates/sim).

use crate::common::flv::sample_tags;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use rtmp::client::ClientEvent;

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
