//! ffmpeg publishes and ffmpeg plays by RTMP: every packet arrives unchanged.

use crate::common::server::Server;
use crate::common::tools::{Packet, Player, frames_of, publish, sample};

#[test]
fn ffmpeg_plays_by_rtmp_exactly_what_ffmpeg_published() {
    let source = frames_of(&sample());
    assert_eq!(source.video.len(), 250, "the sample is ten seconds at 25 frames/s");
    let server = Server::start("");
    let players: Vec<Player> = (0..3)
        .map(|index| {
            Player::start(&server.rtmp_url("live/mill"), server.dir.path().join(format!("played-{index}")))
        })
        .collect();
    server.wait_for_players("live/mill", 3);
    publish(&server.rtmp_url("live/mill"), 4).finish();
    for player in players {
        player.frames_after_end().assert_same_as(&source);
    }
}

#[test]
fn a_late_player_starts_at_a_key_frame_and_misses_nothing_after_it() {
    let source = frames_of(&sample());
    let server = Server::start("");
    let publisher = publish(&server.rtmp_url("live/late"), 1);
    // The second group of pictures has begun when more than 50 frames are in.
    crate::common::eventually("three seconds are published", || {
        let streams = server.api("/api/v1/streams");
        let stream =
            streams["streams"].as_array().expect("streams").iter().find(|s| s["name"] == "late").cloned()?;
        (stream["bytes_in"].as_u64()? > 300_000).then_some(())
    });
    let player = Player::start(&server.rtmp_url("live/late"), server.dir.path().join("played"));
    publisher.finish();
    let whole_rest = |first: usize| source.video.len() - first;
    let played = player.frames_after_end();
    let start = (0..source.video.len())
        .find(|&index| source.video[index].checksum == played.video[0].checksum)
        .expect("the first picture is one of the source's");
    assert_eq!(start % 50, 0, "playing starts with a key frame, not with frame {start}");
    assert_eq!(played.video.len(), whole_rest(start), "no picture is missing after the first");
    let checksums = |packets: &[Packet]| packets.iter().map(|p| p.checksum.clone()).collect::<Vec<_>>();
    assert!(checksums(&played.video) == checksums(&source.video[start..]), "pictures are the source's");
    let audio_start = source.audio.len() - played.audio.len();
    assert!(checksums(&played.audio) == checksums(&source.audio[audio_start..]), "audio has no gap either");
}
