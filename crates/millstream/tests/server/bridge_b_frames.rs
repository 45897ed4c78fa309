//! Streams with B-frames: frames are left out and the viewer is never sent back in time, or the player is
//! told why not.

use crate::common::bridge::{LivePublisher, Viewed, metric, video_sample};
use crate::common::eventually;
use crate::common::rtc::{Client, Options};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use rtc::sdp::Direction;
use rtp::payload::Codec;

#[test]
fn pictures_that_no_other_needs_are_left_out_and_counted() {
    let server = Server::start("");
    let _publisher = LivePublisher::start(server.rtmp, "live/b", video_sample("h264-b2.flv"));
    let (mut viewer, mut viewed) = (Client::play_h264(&server, "live/b"), Viewed::default());
    viewer.until("frames", |viewer| {
        viewed.take(viewer);
        viewed.key_frame && viewed.frames > 20
    });
    assert_eq!(viewed.backwards, 0, "{viewed:?}");
    eventually("they are counted", || {
        (metric(&server, "millstream_bridge_dropped_b_frames_total", "")? > 0.0).then_some(())
    });
    let warnings =
        || server.log().lines().filter(|line| line.contains("WARN") && line.contains("live/b")).count();
    eventually("the operator is told once", || (warnings() == 1).then_some(()));
}

#[test]
fn where_they_are_refused_the_player_is_told_and_rtmp_goes_on() {
    let server = Server::start("[stream]\nbridge_b_frames = \"refuse\"\n");
    let _publisher = LivePublisher::start(server.rtmp, "live/b", video_sample("h264-b2.flv"));
    let options = Options { video: Some(Codec::H264), ..Options::default() };
    // Until its headers have come, a stream is not refused but not ready.
    let refused = eventually("the server knows of the B-frames", || {
        Client::try_open(&server, "/whep/live/b", Direction::Receive, &options)
            .err()
            .filter(|response| response.status == 406)
    });
    assert!(refused.text().contains("B-frames"), "{}", refused.text());
    RtmpClient::play(server.rtmp, "live/b").take_frames(20);
}
