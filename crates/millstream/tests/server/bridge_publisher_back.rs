//! The publisher goes and comes back: players of the other kind stay, and go on.

use crate::common::bridge::{LivePublisher, Viewed, wait_for_metric};
use crate::common::flv::sample_tags;
use crate::common::rtc::Client;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use rtmp::MediaKind;

#[test]
fn a_viewer_sees_and_hears_the_next_publisher_in_the_same_session() {
    let server = Server::start("");
    let publisher = LivePublisher::start(server.rtmp, "live/mill", sample_tags());
    let (mut viewer, mut before) = (Client::play_h264(&server, "live/mill"), Viewed::default());
    viewer.until("frames and audio", |viewer| {
        before.take(viewer);
        before.key_frame && before.frames > 20 && before.audio > 20
    });
    drop(publisher);
    server.wait_for_publisher("live/mill", false);
    viewer.turn();
    before.take(&mut viewer);
    let _publisher = LivePublisher::start(server.rtmp, "live/mill", sample_tags());
    // Counted on: the times must not go back either.
    (before.key_frame, before.frames, before.audio) = (false, 0, 0);
    viewer.until("frames and audio of the next publisher", |viewer| {
        before.take(viewer);
        before.key_frame && before.frames > 20 && before.audio > 20
    });
    assert_eq!(before.backwards, 0, "{before:?}");
    assert!(viewer.failed.is_none() && !viewer.closed);
    wait_for_metric(&server, "millstream_bridge_running", "rtmp_to_webrtc", 1.0);
}

#[test]
fn a_player_of_rtmp_goes_on_with_the_next_publisher_of_webrtc() {
    let server = Server::start("");
    let mut publisher = Client::publish(&server, "live/cam");
    let mut player = RtmpClient::play(server.rtmp, "live/cam");
    let mut times = Vec::new();
    receive((&mut publisher, &mut 0), &mut player, &mut times);
    assert_eq!(publisher.delete(), 200);
    server.wait_for_publisher("live/cam", false);
    let mut publisher = Client::publish(&server, "live/cam");
    receive((&mut publisher, &mut 0), &mut player, &mut times);
    assert!(times.is_sorted(), "times of audio of both publishers: {times:?}");
}

/// Sends frames and audio, from this number on, until the player has got 20 pieces of audio and a frame;
/// notes the times of the audio.
pub(crate) fn receive(
    (publisher, number): (&mut Client, &mut u32),
    player: &mut RtmpClient,
    times: &mut Vec<u32>,
) {
    player.socket().set_read_timeout(Some(std::time::Duration::from_millis(5))).expect("a socket option");
    let (mut frames, begin, last) = (0, times.len(), *number + 3000);
    while times.len() < begin + 20 || frames == 0 {
        assert!(*number < last, "a minute of audio: {} pieces and {frames} frames came", times.len() - begin);
        publisher.until_within(std::time::Duration::from_millis(20), |_| false);
        publisher.send_audio(*number);
        if *number % 2 == 0 {
            publisher.send_video(*number / 2, *number % 50 == 0, 400);
        }
        *number += 1;
        while let Some(message) = player.poll_media() {
            match message.kind {
                MediaKind::Audio => times.push(message.timestamp),
                MediaKind::Video => frames += 1,
                MediaKind::Data => {}
            }
        }
    }
}
