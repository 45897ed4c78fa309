//! A publisher that dies in the middle of a frame.

use crate::common::flv::sample_tags;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::tools::publish;
use rtmp::MediaKind;

#[test]
fn players_get_whole_frames_only_and_the_next_publisher_goes_on() {
    let server = Server::start("");
    let tags = sample_tags();
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    let key = tags.iter().rposition(|tag| tag.body.starts_with(&[0x17, 1])).expect("a key frame");
    for cut in [1, 12, 500, tags[key].body.len()] {
        let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
        publisher.send_tags(&tags[..100]);
        let whole: Vec<_> = tags[..100].iter().filter(|tag| tag.kind != MediaKind::Data).collect();
        publisher.send_part(MediaKind::Video, tags[99].timestamp + 40, &tags[key].body, cut);
        drop(publisher);
        for (index, (got, want)) in player.take_frames(whole.len()).iter().zip(&whole).enumerate() {
            assert!(got.payload == want.body, "cut at {cut}: message {index}");
        }
        server.wait_for_publisher("live/mill", false);
    }
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&tags[..10]);
    assert!(
        player.take_frames(1)[0].payload
            == tags.iter().find(|tag| tag.kind != MediaKind::Data).expect("a tag").body
    );
}

#[test]
fn a_killed_ffmpeg_frees_its_stream_name() {
    let mut server = Server::start("");
    for _ in 0..3 {
        let mut publisher = publish(&server.rtmp_url("live/mill"), 1);
        server.wait_for_publisher("live/mill", true);
        publisher.kill();
        server.wait_for_publisher("live/mill", false);
    }
    server.assert_healthy();
}

#[test]
fn a_publisher_that_falls_silent_is_closed() {
    let server = Server::start("[limits]\npublisher_idle_timeout_ms = 1000\n");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..60]);
    while publisher.next_event().is_some() {}
    server.wait_for_publisher("live/mill", false);
}
