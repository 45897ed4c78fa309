//! Items of different codecs and sizes follow each other: decoders get a new configuration, and
//! players go on.

use std::path::Path;

use crate::common::channel::{Played, Player, event_kinds, frames_of, make_mp4, wait_for_channel};
use crate::common::server::{ScratchDir, Server};
use crate::common::tools::{ffmpeg, run};
use rtmp::MediaKind;

/// Writes two seconds of a test picture and a tone, coded as said.
fn make_other(path: &Path, size: &str, coding: &[&str]) {
    let picture = format!("testsrc=size={size}:rate=25:duration=2");
    let mut command = ffmpeg();
    command.args(["-y", "-f", "lavfi", "-i", &picture, "-f", "lavfi", "-i", "sine=duration=2"]);
    run(command.args(coding).args(["-f", "mp4"]).arg(path));
}

#[test]
fn items_of_other_codecs_and_sizes_bring_their_configuration_and_players_go_on() {
    let dir = ScratchDir::new();
    let path = |name: &str| dir.path().join(name);
    make_mp4(&path("first.mp4"), 0, 2);
    let h264 = ["-c:v", "libx264", "-preset", "ultrafast", "-bf", "2", "-c:a", "aac", "-ar", "48000"];
    make_other(&path("small.mp4"), "160x90", &h264);
    let h265 =
        ["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=none", "-c:a", "libopus"];
    make_other(&path("h265.mp4"), "192x108", &h265);
    let names = ["first.mp4", "small.mp4", "h265.mp4"];
    let items = names.map(|name| format!("'{}'", path(name).display())).join(", ");
    let server = Server::start(&format!("[[channel]]\nstream = 'live/mixed'\nitems = [{items}]\n"));
    let files = names.map(|name| frames_of(&path(name)));
    let mut player = Player::start(&server, "live/mixed");
    let played = player.play(9_000);
    for kind in [MediaKind::Video, MediaKind::Audio] {
        crate::common::channel::assert_in_order(&played, &files, kind);
        assert_goes_on(&played, kind);
        // Three files, each with a configuration of its own, and at least one of them for the second time.
        let configurations: Vec<_> = player.configurations.iter().filter(|own| own.kind == kind).collect();
        assert!(configurations.len() >= 4, "{kind:?}: {} configurations", configurations.len());
        for pair in configurations.windows(2) {
            assert_ne!(pair[0], pair[1], "one is sent when it changes only");
        }
        assert_eq!(configurations[0], configurations[3], "of the same file again");
    }
    let channel = wait_for_channel(&server, "live/mixed", "round", |now| now["loops"].as_u64() >= Some(1));
    assert!(event_kinds(&channel).iter().all(|kind| *kind == "late"), "{channel:#}");
    assert_eq!(channel["items_failed"], 0, "{channel:#}");
}

/// Times never step back, and no item is missing between two frames.
fn assert_goes_on(played: &[Played], kind: MediaKind) {
    let times: Vec<u32> =
        played.iter().filter(|own| own.frame.kind == kind).map(|own| own.timestamp_ms).collect();
    for pair in times.windows(2) {
        assert!(pair[0] <= pair[1] && pair[1] - pair[0] < 400, "{kind:?}: {} after {}", pair[1], pair[0]);
    }
}
