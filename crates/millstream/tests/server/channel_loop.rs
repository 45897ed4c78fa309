//! A channel plays its items in order, for ever: every frame, once, with timestamps that go on.

use crate::common::channel::{
    FileServer, Played, Player, assert_in_order, assert_steps, frames_of, make_mp4,
};
use crate::common::channel::{event_kinds, wait_for_channel};
use crate::common::server::{ScratchDir, Server};
use rtmp::MediaKind;

#[test]
fn a_local_file_goes_round_without_a_seam() {
    let dir = ScratchDir::new();
    let path = dir.path().join("a.mp4");
    make_mp4(&path, 0, 4);
    let server =
        Server::start(&format!("[[channel]]\nstream = 'live/round'\nitems = ['{}']\n", path.display()));
    let files = [frames_of(&path)];
    let mut player = Player::start(&server, "live/round");
    let played = player.play(9_000);
    for kind in [MediaKind::Video, MediaKind::Audio] {
        assert_in_order(&played, &files, kind);
    }
    assert_seams(&played, 2);
    assert_eq!(player.configurations.len(), 2, "one of video, one of audio, however often it goes round");
    let first = &played[0];
    for frame in played.iter().filter(|played| played.timestamp_ms > first.timestamp_ms + 4_000) {
        // A player begins with what was kept for it; after that, frames come when they are due, not before.
        let due_ms = u128::from(frame.timestamp_ms - first.timestamp_ms);
        let came_ms = (frame.at - first.at).as_millis();
        assert!(came_ms + 4_500 > due_ms, "{due_ms} ms of the stream came within {came_ms} ms");
    }
    let channel = wait_for_channel(&server, "live/round", "round twice", |now| now["loops"] == 2);
    assert_eq!((&channel["state"], &channel["item"]), (&"playing".into(), &0.into()));
    assert!(event_kinds(&channel).is_empty(), "{channel}");
}

#[test]
fn several_items_of_a_server_follow_each_other() {
    let dir = ScratchDir::new();
    let names = ["a.mp4", "b.mp4"];
    make_mp4(&dir.path().join("a.mp4"), 0, 2);
    make_mp4(&dir.path().join("b.mp4"), 4, 3);
    let origin = FileServer::start(dir.path());
    let items = names.map(|name| format!("'{}'", origin.url(name))).join(", ");
    let server = Server::start(&format!(
        "[sources]\nallow_private_addresses = true\n[[channel]]\nstream = 'live/two'\nitems = [{items}]\n"
    ));
    let files = names.map(|name| frames_of(&dir.path().join(name)));
    let played = Player::start(&server, "live/two").play(10_000);
    for kind in [MediaKind::Video, MediaKind::Audio] {
        assert_in_order(&played, &files, kind);
    }
    assert_seams(&played, 5);
}

/// Checks that timestamps go on as in the file (25 pictures a second, AAC at 44.1 kHz), but at so
/// many seams: there the track that is shorter waits for the other one, less than a frame of each,
/// and a file may begin or end inside a frame.
fn assert_seams(played: &[Played], seams: usize) {
    for (kind, ordinary) in [(MediaKind::Video, 40..=40), (MediaKind::Audio, 23..=24)] {
        assert_steps(played, kind, 1..=66);
        let times: Vec<u32> =
            played.iter().filter(|frame| frame.frame.kind == kind).map(|frame| frame.timestamp_ms).collect();
        let others = times.windows(2).filter(|pair| !ordinary.contains(&(pair[1] - pair[0]))).count();
        assert!(others <= 2 * seams, "{kind:?}: {others} steps that are not those of the file");
    }
}
