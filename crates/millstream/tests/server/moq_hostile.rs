//! Clients by MoQ that send what makes no sense, or do not read.

use std::net::UdpSocket;
use std::time::Duration;

use moq::bytes::Bytes;
use rtmp::flv::Tag;

use crate::common::eventually;
use crate::common::flv::{TagReader, is_frame, sample_tags};
use crate::common::http;
use crate::common::moq::{MoqClient, TrackReader, runtime, soon};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;

const MOQ: &str = "[moq]\nlisten = [\"127.0.0.1:0\"]\n";

/// As random as this needs to be, and the same each time.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}

#[test]
fn noise_harms_nobody() {
    let mut server = Server::start(MOQ);
    let mut publisher = RtmpClient::publish(server.rtmp, "live/cam");
    publisher.send_tags(&sample_tags()[..40]);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.connect(server.moq.expect("MoQ is on")).expect("an address");
    for seed in 0..2_000 {
        let mut datagram = noise(seed, 20 + (seed as usize * 7) % 1_400);
        if seed % 2 == 0 {
            // The head of an Initial packet of QUIC version 1, with connection ids of eight bytes.
            datagram.resize(1_200, 0);
            datagram[..6].copy_from_slice(&[0xc0, 0, 0, 0, 1, 8]);
            datagram[14] = 8;
        }
        let _ = socket.send(&datagram);
    }
    runtime().block_on(async {
        let mut sessions = Vec::new();
        for seed in 0..8 {
            let session = soon("a session", MoqClient::transport(&server, "live")).await.expect("let in");
            // On streams of both kinds and in datagrams, where MoQ has its messages.
            if let Ok(mut stream) = session.open_uni().await {
                let _ = stream.write_all(&noise(seed, 4_000)).await;
                let _ = stream.finish();
            }
            if let Ok((mut stream, _)) = session.open_bi().await {
                let _ = stream.write_all(&noise(seed + 100, 4_000)).await;
            }
            let _ = session.send_datagram(Bytes::from(noise(seed, 200)));
            sessions.push(session);
        }
        // A client beside them is served.
        let client = MoqClient::connect(&server, "live").await;
        client.broadcast("cam").await;
    });
    server.assert_healthy();
}

/// The sample, `round` times its length later.
fn later(tags: &[Tag], round: u32) -> Vec<Tag> {
    let length = tags.last().map_or(0, |tag| tag.timestamp) + 40;
    tags.iter().map(|tag| Tag { timestamp: tag.timestamp + round * length, ..tag.clone() }).collect()
}

#[test]
fn a_subscriber_that_stops_reading_costs_little_and_delays_nobody() {
    let server = Server::spawn(&format!("{MOQ}group_max_bytes = 1048576\n"));
    let tags = sample_tags();
    let mut publisher = RtmpClient::publish(server.rtmp, "live/cam");
    publisher.send_tags(&tags[..200]);
    let address = server.http;
    let rounds: u32 = 200;
    runtime().block_on(async {
        let client = MoqClient::connect(&server, "live/cam").await;
        let broadcast = client.broadcast("").await;
        let mut track = TrackReader::subscribe(&broadcast, "video0", Duration::ZERO).await;
        track.next().await.expect("a frame");
        server.wait_for_players("live/cam", 1);
        let before = server.resident_bytes();
        // What comes is acknowledged, and nobody takes it.
        client.stop_reading();
        let last = tags.iter().rfind(is_frame).expect("frames").body.clone();
        let sent = u64::from(rounds) * tags.iter().map(|tag| tag.body.len() as u64).sum::<u64>();
        let beside = tokio::task::spawn_blocking(move || {
            let mut reader = TagReader::new(http::open(address, "GET", "/live/cam.flv", &[]).expect("play"));
            for round in 1..=rounds {
                publisher.send_tags(&later(&tags, round));
                while reader.next().expect("the stream goes on").body != last {}
            }
            publisher
        });
        let _publisher = soon("a player beside it gets everything", beside).await.expect("no panic");
        let grown = server.resident_bytes().saturating_sub(before);
        // What is in flight, queues and caches, of the stream and of both players: some 35 MB.
        assert!(sent > 140 << 20 && grown < 64 << 20, "{grown} bytes more, of {sent} sent");
        let players = server.sessions("role=player&stream=live/cam");
        assert!(players.iter().any(|player| player["protocol"] == "moq"), "it may read again: {players:?}");
    });
    // It is taken for gone in the end.
    eventually("no session is left", || server.sessions("role=player").is_empty().then_some(()));
}
