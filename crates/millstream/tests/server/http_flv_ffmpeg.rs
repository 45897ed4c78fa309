//! ffmpeg publishes by RTMP and plays by HTTP-FLV: every packet arrives unchanged.

use crate::common::server::Server;
use crate::common::tools::{Player, frames_of, publish, sample};

#[test]
fn ffmpeg_plays_by_http_flv_exactly_what_ffmpeg_published() {
    let source = frames_of(&sample());
    let server = Server::start("");
    let player = Player::start(&server.flv_url("live/mill"), server.dir.path().join("played"));
    server.wait_for_players("live/mill", 1);
    publish(&server.rtmp_url("live/mill"), 4).finish();
    player.frames_after_end().assert_same_as(&source);
}

#[test]
fn every_merge_setting_delivers_the_same_frames() {
    let source = frames_of(&sample());
    let server = Server::start(
        "[[application]]\nname = 'each'\nmerge_latency_ms = 0\n\
         [[application]]\nname = 'eight'\nmerge_latency_ms = 350\nmerge_messages = 8\n\
         [[application]]\nname = 'slow'\nmerge_latency_ms = 1000\n",
    );
    let cases: Vec<_> = ["each/mill", "eight/mill", "slow/mill"]
        .into_iter()
        .map(|stream| {
            let listing = server.dir.path().join(stream.replace('/', "-"));
            let player = Player::start(&server.flv_url(stream), listing);
            server.wait_for_players(stream, 1);
            (player, publish(&server.rtmp_url(stream), 4))
        })
        .collect();
    for (player, publisher) in cases {
        publisher.finish();
        player.frames_after_end().assert_same_as(&source);
    }
}
