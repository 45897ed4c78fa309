//! A bridge runs while there is a player who needs it, and a while longer.

use crate::common::bridge::{LivePublisher, Viewed, metric, wait_for_metric};
use crate::common::flv::sample_tags;
use crate::common::rtc::Client;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;

const STARTED: &str = "millstream_bridge_started_total";
const RUNNING: &str = "millstream_bridge_running";
const DIRECTION: &str = "rtmp_to_webrtc";

fn watch(server: &Server) -> Client {
    let (mut viewer, mut viewed) = (Client::play_h264(server, "live/mill"), Viewed::default());
    viewer.until("a frame and audio", |viewer| {
        viewed.take(viewer);
        viewed.key_frame && viewed.audio > 0
    });
    viewer
}

#[test]
fn it_begins_with_the_first_viewer_and_ends_some_time_after_the_last() {
    let server = Server::start("[stream]\nbridge_linger_ms = 300\n");
    let _publisher = LivePublisher::start(server.rtmp, "live/mill", sample_tags());
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    player.take_frames(50);
    assert_eq!(metric(&server, STARTED, DIRECTION), Some(0.0), "players of RTMP need none");
    let (first, second) = (watch(&server), watch(&server));
    wait_for_metric(&server, RUNNING, DIRECTION, 1.0);
    assert_eq!(first.delete(), 200);
    // The one who stays still gets something: the bridge was not the first one's alone.
    let (mut second, mut viewed) = (second, Viewed::default());
    second.until("frames go on", |viewer| {
        viewed.take(viewer);
        viewed.frames > 30 && viewed.audio > 30
    });
    assert_eq!(second.delete(), 200);
    wait_for_metric(&server, RUNNING, DIRECTION, 0.0);
    wait_for_metric(&server, STARTED, DIRECTION, 1.0);
    watch(&server);
    wait_for_metric(&server, STARTED, DIRECTION, 2.0);
}

#[test]
fn whoever_comes_before_it_ends_finds_it_running() {
    let server = Server::start("[stream]\nbridge_linger_ms = 60000\n");
    let _publisher = LivePublisher::start(server.rtmp, "live/mill", sample_tags());
    assert_eq!(watch(&server).delete(), 200);
    crate::common::rtc::eventually_no_viewers(&server);
    watch(&server);
    wait_for_metric(&server, "millstream_bridge_transcoders_started_total", "", 1.0);
    wait_for_metric(&server, STARTED, DIRECTION, 1.0);
}
