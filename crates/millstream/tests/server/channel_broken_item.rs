//! An item that cannot be played is skipped, reported, and tried again in the next round.

use crate::common::channel::{
    FileServer, Player, assert_in_order, event_kinds, frames_of, make_mp4, wait_for_channel,
};
use crate::common::server::{ScratchDir, Server};
use crate::common::{eventually, http, nobody_listens};
use rtmp::MediaKind;

#[test]
fn a_playlist_goes_on_behind_files_that_are_missing_cut_off_or_none() {
    let dir = ScratchDir::new();
    let path = |name: &str| dir.path().join(name);
    make_mp4(&path("a.mp4"), 0, 2);
    make_mp4(&path("b.mp4"), 4, 2);
    // Its index is at the end, and is cut off.
    let whole = std::fs::read(path("a.mp4")).expect("a file");
    std::fs::write(path("cut.mp4"), &whole[..whole.len() / 2]).expect("written");
    std::fs::write(path("text.mp4"), b"this is no film").expect("written");
    let origin = FileServer::start(dir.path());
    let items = ["a.mp4", "missing.mp4", "cut.mp4", "text.mp4", "b.mp4"];
    let quoted = items.map(|name| format!("'{}'", origin.url(name))).join(", ");
    let server = Server::start(&format!(
        "[sources]\nallow_private_addresses = true\n[[channel]]\nstream = 'live/some'\nitems = [{quoted}]\n"
    ));
    let files = [frames_of(&path("a.mp4")), frames_of(&path("b.mp4"))];
    let played = Player::start(&server, "live/some").play(7_000);
    for kind in [MediaKind::Video, MediaKind::Audio] {
        assert_in_order(&played, &files, kind);
    }
    let channel = wait_for_channel(&server, "live/some", "round", |now| now["loops"].as_u64() >= Some(1));
    let errors: Vec<bool> = channel["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| item["last_error"].is_string())
        .collect();
    assert_eq!(errors, [false, true, true, true, false], "{channel:#}");
    assert!(event_kinds(&channel).iter().all(|kind| *kind == "broken"), "{channel:#}");
    assert!(channel["items"][1]["last_error"].as_str().expect("a reason").contains("404"), "{channel:#}");
    assert_eq!(channel["pauses"], 0, "the next item was ready in time");
    let log = server.log();
    let line = log.lines().find(|line| line.contains("the server answers 404")).expect("a line");
    assert!(line.contains("live/some") && line.contains("items[1]"), "{line}");
    assert!(line.contains(&origin.url("missing.mp4")), "{line}");
    let metrics = http::get(server.http, "/metrics").expect("metrics").text();
    let failed: u64 = metrics
        .lines()
        .find_map(|line| {
            line.strip_prefix("millstream_channel_items_failed_total{app=\"live\",stream=\"some\"} ")
        })
        .and_then(|value| value.parse().ok())
        .expect("a counter");
    assert!(failed >= 3, "{failed}");
}

#[test]
fn when_nothing_can_be_played_it_is_tried_again_after_growing_pauses() {
    let dir = ScratchDir::new();
    let origin = FileServer::start(dir.path());
    let server = Server::start(&format!(
        "[sources]\nallow_private_addresses = true\nretry_min_ms = 100\nretry_max_ms = 400\n\
         [[channel]]\nstream = 'live/later'\nitems = ['{}', '{}']\n",
        origin.url("one.mp4"),
        origin.url("two.mp4")
    ));
    let channel = wait_for_channel(&server, "live/later", "tried three times", |now| {
        now["items_failed"].as_u64() >= Some(6)
    });
    assert_eq!(channel["state"], "retrying", "{channel:#}");
    assert!(event_kinds(&channel).contains(&"nothing_to_play"), "{channel:#}");
    let log = server.log();
    for item in ["items[0]", "items[1]"] {
        assert_eq!(log.lines().filter(|line| line.contains(item)).count(), 1, "once, not each round: {log}");
    }
    // Three rounds and no more: each item is asked for once a round.
    assert!(origin.requests().len() <= 12, "{:?}", origin.requests());
    make_mp4(&dir.path().join("two.mp4"), 0, 2);
    wait_for_channel(&server, "live/later", "playing", |now| now["state"] == "playing");
    server.wait_for_publisher("live/later", true);
    eventually("frames flow", || {
        (server.api("/api/v1/channels/live/later")["items_played"].as_u64() > Some(0)).then_some(())
    });
}

#[test]
fn an_item_whose_server_is_not_there_holds_nobody_up() {
    let dir = ScratchDir::new();
    let path = dir.path().join("a.mp4");
    make_mp4(&path, 0, 4);
    // A port that nobody listens at, and a name that is none.
    let (_reserved, closed) = nobody_listens();
    let items =
        [path.display().to_string(), format!("http://{closed}/x.mp4"), "http://host.invalid/x.mp4".into()];
    let quoted = items.map(|item| format!("'{item}'")).join(", ");
    let server = Server::start(&format!(
        "[sources]\nallow_private_addresses = true\n[limits]\npublisher_idle_timeout_ms = 15000\n\
         [[channel]]\nstream = 'live/near'\nitems = [{quoted}]\n"
    ));
    let played = Player::start(&server, "live/near").play(6_000);
    assert_in_order(&played, &[frames_of(&path)], MediaKind::Video);
    let channel = wait_for_channel(&server, "live/near", "round", |now| now["loops"].as_u64() >= Some(1));
    assert!(event_kinds(&channel).iter().all(|kind| ["broken", "late"].contains(kind)), "{channel:#}");
    let reason = |item: usize| channel["items"][item]["last_error"].as_str().expect("a reason").to_owned();
    assert!(reason(1).contains("refused"), "{channel:#}");
    assert!(!reason(2).contains("within"), "{channel:#}");
}
