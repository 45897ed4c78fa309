//! A WebRTC player that comes to a channel while an item without video plays sees those of the next item,
//! without connecting again; until then it hears the audio, and gets a filler frame, so that browsers
//! play it. The same for audio.

use crate::common::bridge::Viewed;
use crate::common::channel::{make_mp4, wait_for_channel};
use crate::common::rtc::{Client, Options};
use crate::common::server::{ScratchDir, Server};
use crate::common::tools::{ffmpeg, run};
use rtp::payload::Codec;

/// More frames than the fillers, one a second.
const MOVES: u32 = 30;

/// A channel of two items, of which the second lacks what ffmpeg leaves out with this option.
fn server(dir: &ScratchDir, workers: u32, without: &str) -> Server {
    let path = |name: &str| dir.path().join(name);
    make_mp4(&path("both.mp4"), 0, 4);
    make_mp4(&path("whole.mp4"), 0, 3);
    run(ffmpeg().arg("-i").arg(path("whole.mp4")).args([without, "-c", "copy", "-y"]).arg(path("one.mp4")));
    let items = ["both.mp4", "one.mp4"].map(|name| format!("'{}'", path(name).display())).join(", ");
    Server::start_workers(workers, &format!("[[channel]]\nstream = 'live/mixed'\nitems = [{items}]\n"))
}

/// Comes while the second item plays.
fn come_between(server: &Server) -> Client {
    wait_for_channel(server, "live/mixed", "at the second item", |now| {
        now["item"] == 1 && now["position_ms"].as_u64().is_some_and(|ms| (100..1_000).contains(&ms))
    });
    let options = Options { video: Some(Codec::H264), ..Options::default() };
    let player = Client::play_when_ready(server, "live/mixed", &options);
    assert!(player.answer.tracks.iter().all(Option::is_some), "audio and video are answered");
    player
}

fn sees_what_comes(mut player: Client) {
    let mut viewed = Viewed::default();
    player.until("audio and a frame", |player| {
        viewed.take(player);
        viewed.audio > 10 && viewed.key_frame
    });
    player.until("the frames of the next item", |player| {
        viewed.take(player);
        viewed.frames > MOVES
    });
    assert_eq!((viewed.backwards, player.closed), (0, false));
}

#[test]
fn the_first_player_sees_what_comes() {
    let dir = ScratchDir::new();
    let mut server = server(&dir, 1, "-vn");
    sees_what_comes(come_between(&server));
    server.assert_healthy();
}

#[test]
fn a_player_beside_others_sees_what_comes() {
    let dir = ScratchDir::new();
    let mut server = server(&dir, 2, "-vn");
    // With two workers, one of them is not the publisher's.
    let mut others = [0; 2].map(|_| Client::play_h264(&server, "live/mixed"));
    for other in &mut others {
        let mut viewed = Viewed::default();
        other.until("the first frames", |other| {
            viewed.take(other);
            viewed.key_frame && viewed.frames > 1
        });
    }
    for player in [come_between(&server), come_between(&server)] {
        sees_what_comes(player);
    }
    server.assert_healthy();
}

#[test]
fn who_comes_to_an_item_without_audio_hears_the_next_one() {
    let dir = ScratchDir::new();
    let mut server = server(&dir, 1, "-an");
    let (mut player, mut viewed) = (come_between(&server), Viewed::default());
    player.until("a frame", |player| {
        viewed.take(player);
        viewed.key_frame
    });
    player.until("the audio of the next item", |player| {
        viewed.take(player);
        viewed.audio > 10
    });
    server.assert_healthy();
}
