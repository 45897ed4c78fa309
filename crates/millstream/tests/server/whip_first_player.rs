//! The first player of a WebRTC stream finds a key frame: its publisher is asked for one when the
//! player's session is opened, unless one is kept.

use crate::common::eventually;
use crate::common::rtc::{Client, Options, VIDEO_SSRC, counter};
use crate::common::server::Server;
use rtc::sdp::Direction;
use rtp::rtcp::Rtcp;

#[test]
fn the_publisher_is_asked_for_a_key_frame_before_the_player_is_connected() {
    // However young, a key frame is too old to begin with.
    let server = Server::start("[rtc]\ngop_cache_max_ms = 0\n");
    let mut publisher = Client::publish(&server, "live/a");
    publisher.send_video(0, true, 1_000);
    eventually("the key frame has come", || (counter(&server, "received_packets") > 0).then_some(()));
    publisher.turn();
    assert!(!is_asked_for_a_key_frame(&publisher), "nobody plays");
    let _player = Client::open(&server, "/whep/live/a", Direction::Receive, &Options::default());
    let mut number = 1;
    publisher.until("a request", |publisher| {
        publisher.send_video(number, false, 200);
        number += 1;
        is_asked_for_a_key_frame(publisher)
    });
}

#[test]
fn the_publisher_is_asked_although_it_sends_nothing_any_more() {
    let server = Server::start("[rtc]\ngop_cache_max_ms = 0\n");
    let mut publisher = Client::publish(&server, "live/a");
    publisher.send_video(0, true, 1_000);
    eventually("the key frame has come", || (counter(&server, "received_packets") > 0).then_some(()));
    let _player = Client::open(&server, "/whep/live/a", Direction::Receive, &Options::default());
    publisher.until("a request", |publisher| is_asked_for_a_key_frame(publisher));
}

fn is_asked_for_a_key_frame(publisher: &Client) -> bool {
    publisher
        .reports
        .iter()
        .flat_map(|compound| rtp::rtcp::packets(compound).flatten())
        .any(|packet| matches!(packet, Rtcp::Pli(pli) if pli.media_ssrc == VIDEO_SSRC))
}
