//! One frame of another codec, and the publisher goes on as before, with the header that players
//! have already: the bridge needs a new one, and audio goes on.

use crate::common::bridge::{SteppedPublisher, Viewed, is_header, sample_audio};
use crate::common::rtc::{Client, Options};
use crate::common::server::Server;
use rtmp::MediaKind;
use rtmp::flv::Tag;

/// More than can be on its way through decoder and encoder, in packets of 20 ms.
const NEW: u32 = 100;

#[test]
fn audio_goes_on_behind_a_frame_of_another_codec_and_the_same_header() {
    let server = Server::start("");
    let mut publisher = SteppedPublisher::start(server.rtmp, "live/a");
    let options = Options { audio_only: true, ..Options::default() };
    let mut player = Client::play_when_ready(&server, "live/a", &options);
    let mut hear = |publisher: &mut SteppedPublisher| {
        let mut viewed = Viewed::default();
        player.until("audio", |player| {
            publisher.turn();
            viewed.take(player);
            viewed.audio > NEW
        });
    };
    hear(&mut publisher);
    // MP3 (FLV E.4.2.1), a frame's header.
    publisher.client.send(MediaKind::Audio, 0, &[0x2f, 0xff, 0xfb, 0x90, 0x64]);
    let headers: Vec<Tag> = sample_audio().into_iter().filter(is_header).collect();
    publisher.client.send_tags(&headers);
    hear(&mut publisher);
}
