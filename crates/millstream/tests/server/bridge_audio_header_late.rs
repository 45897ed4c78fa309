//! The sequence header of the audio comes behind the first key frame: a viewer who joins within that
//! group of pictures gets the audio.

use crate::common::bridge::{SteppedPublisher, Viewed, video_sample};
use crate::common::rtc::Client;
use crate::common::server::Server;
use rtmp::MediaKind;

#[test]
fn a_viewer_of_the_first_group_of_pictures_hears() {
    let server = Server::start("");
    let mut frames = video_sample("h264-b0.flv");
    frames.retain(|tag| tag.kind == MediaKind::Video);
    // Sequence header, and the group of 20.
    let (begin, rest) = frames[..21].split_at(2);
    let mut publisher = SteppedPublisher::start_behind(server.rtmp, "live/a", begin);
    // By now the header is older than audio which a bridge begins with.
    publisher.client.send_tags(rest);
    let (mut viewer, mut viewed) = (Client::play_h264(&server, "live/a"), Viewed::default());
    assert!(viewer.answer.tracks.iter().all(Option::is_some), "audio and video are answered");
    viewer.until("a frame and audio", |viewer| {
        publisher.turn();
        viewed.take(viewer);
        viewed.key_frame && viewed.audio > 20
    });
}
