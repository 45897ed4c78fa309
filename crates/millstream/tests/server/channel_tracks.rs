//! An item of a channel that lacks a track: players that join during it get the tracks that it has.

use std::process::Command;

use crate::common::channel::{Player, index, make_mp4, wait_for_channel};
use crate::common::server::{ScratchDir, Server};
use rtmp::MediaKind;

#[test]
fn players_that_join_during_an_item_without_video_or_audio_get_no_header_of_it() {
    let dir = ScratchDir::new();
    let path = |name: &str| dir.path().join(name);
    make_mp4(&path("both.mp4"), 0, 2);
    for (name, option) in [("audio.mp4", "-vn"), ("silent.mp4", "-an")] {
        let output = Command::new("ffmpeg")
            .args(["-v", "error", "-y", "-i"])
            .arg(path("both.mp4"))
            .args([option, "-c", "copy"])
            .arg(path(name))
            .output()
            .expect("run ffmpeg");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let items =
        ["both.mp4", "audio.mp4", "both.mp4", "silent.mp4"].map(|name| format!("'{}'", path(name).display()));
    let server =
        Server::start(&format!("[[channel]]\nstream = 'live/mixed'\nitems = [{}]\n", items.join(", ")));
    // One player sees it all: times of its frames do not step back.
    let mut always = Player::start(&server, "live/mixed");
    for (item, missing, present) in [(1, "video", MediaKind::Audio), (3, "audio", MediaKind::Video)] {
        wait_for_channel(&server, "live/mixed", "at the item without the track", |now| {
            now["item"] == item && now["position_ms"].as_u64() > Some(300)
        });
        let mut player = Player::start(&server, "live/mixed");
        player.next();
        let tracks: Vec<MediaKind> = player.configurations.iter().map(|header| header.kind).collect();
        assert_eq!(tracks, [present], "item {item}");
        let stream = server.api("/api/v1/streams/live/mixed");
        assert!(stream[missing].is_null(), "item {item}: {stream:#}");
    }
    let played = always.play(9_000);
    let mut last = [0; 2];
    for frame in played {
        let last = &mut last[index(frame.frame.kind)];
        assert!(frame.timestamp_ms >= *last);
        *last = frame.timestamp_ms;
    }
}
