//! A channel takes no stream from its publisher, comes back when that has gone, and after it was
//! ended by the operator.

use crate::common::channel::{
    Played, Player, assert_in_order, event_kinds, frames_of, make_mp4, wait_for_channel,
};
use crate::common::flv::sample_tags;
use crate::common::http;
use crate::common::origin::post;
use crate::common::rtmp::RtmpClient;
use crate::common::server::{ScratchDir, Server};
use rtmp::MediaKind;
use serde_json::json;

#[test]
fn a_stream_that_is_published_is_waited_for_and_a_kick_is_survived() {
    let dir = ScratchDir::new();
    let path = dir.path().join("a.mp4");
    make_mp4(&path, 0, 4);
    let server = Server::start(&format!(
        "[sources]\nfiles_root = '{}'\nretry_min_ms = 50\nretry_max_ms = 200\n",
        dir.path().display()
    ));
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mine");
    publisher.send_tags(&sample_tags()[..20]);
    let new = json!({ "app": "live", "name": "mine", "items": ["a.mp4"] });
    assert_eq!(post(&server, "/api/v1/channels", &new.to_string()).status, 201);
    let waiting = wait_for_channel(&server, "live/mine", "waiting", |now| now["state"] == "waiting");
    assert_eq!(event_kinds(&waiting), ["interrupted"], "{waiting:#}");
    drop(publisher);
    wait_for_channel(&server, "live/mine", "playing", |now| now["state"] == "playing");

    let mut player = Player::start(&server, "live/mine");
    player.play(200);
    let session = server.sessions("stream=live/mine&role=publisher")[0]["id"].clone();
    let session = session.as_str().expect("an id");
    let kicked = http::request(server.http, "DELETE", &format!("/api/v1/sessions/{session}"), &[]);
    assert_eq!(kicked.expect("an answer").status, 204);
    wait_for_channel(&server, "live/mine", "back", |now| {
        event_kinds(now).len() == 2 && now["state"] == "playing"
    });
    // The same player goes on; what comes after the break is in order again, from a key frame.
    let played = player.play(6_000);
    let begins_ms = behind_the_break(&played);
    let cut = played.iter().rposition(|frame| frame.timestamp_ms < begins_ms).expect("frames before it");
    assert_in_order(&played[cut + 1..], &[frames_of(&path)], MediaKind::Video);
}

/// Timestamp of the first frame behind the longest step.
fn behind_the_break(played: &[Played]) -> u32 {
    let video: Vec<u32> = played
        .iter()
        .filter(|played| played.frame.kind == MediaKind::Video)
        .map(|played| played.timestamp_ms)
        .collect();
    let longest = video.windows(2).max_by_key(|pair| pair[1] - pair[0]).expect("two frames");
    longest[1]
}
