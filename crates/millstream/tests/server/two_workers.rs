//! Two workers: a player on the other worker than the publisher gets identical frames.

use std::collections::BTreeSet;

use crate::common::server::Server;
use crate::common::tools::{Player, frames_of, publish, sample};

#[test]
fn players_on_both_workers_get_identical_frames() {
    let source = frames_of(&sample());
    let server = Server::start_workers(2, "");
    let worker_of = |session: &serde_json::Value| session["worker"].as_u64().expect("a worker number");
    let mut players = Vec::new();
    let mut workers = BTreeSet::new();
    // The kernel picks the worker of each connection, so players are added until both have one.
    while workers.len() < 2 {
        assert!(players.len() < 24, "the kernel put 24 connections on one worker");
        let index = players.len();
        let url = if index % 2 == 0 { server.rtmp_url("live/mill") } else { server.flv_url("live/mill") };
        players.push(Player::start(&url, server.dir.path().join(format!("played-{index}"))));
        server.wait_for_players("live/mill", players.len());
        workers = server.sessions("stream=live/mill&role=player").iter().map(worker_of).collect();
    }
    let publisher = publish(&server.rtmp_url("live/mill"), 4);
    server.wait_for_publisher("live/mill", true);
    let stream = server.api("/api/v1/streams/live/mill");
    let home = stream["home_worker"].as_u64().expect("a home worker");
    assert!(workers.iter().any(|worker| *worker != home), "one player is away from home worker {home}");
    publisher.finish();
    for player in players {
        player.frames_after_end().assert_same_as(&source);
    }
}
