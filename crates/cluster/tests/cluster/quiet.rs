//! Streams that do not change cost little; `benches/directory.rs` has the figures.

use std::time::Duration;

use cluster::Policy;
use futures_util::StreamExt;
use tokio::time::Instant;

use crate::server::{DEADLINE, Server, described, stream, until_every};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_quiet_streams_cost_less_than_twenty_messages_a_second() {
    // Announcements of a node are three seconds apart.
    const MESSAGES_PER_ANNOUNCEMENT: u64 = 60;
    const ANNOUNCEMENTS: u64 = 3;
    let Some(server) = Server::start().await else { return };
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(server.directory(name).await);
    }
    for number in 0..1000 {
        let name = stream(&format!("live/{number}"));
        nodes[number % 3].claim(&name, described(&[0; 300]), Policy::Refuse).await.unwrap();
    }
    let pause = Duration::from_millis(20);
    until_every(pause, "all are found", || nodes.iter().all(|node| node.streams().len() == 1000)).await;
    let count = || nodes.iter().map(|node| node.health().messages).map(|(received, sent)| received + sent);
    let client = server.client().await;
    let mut announced = client.subscribe("$KV.millstream_nodes.a").await.unwrap();
    let begun = Instant::now();
    loop {
        announced.next().await.unwrap();
        let before: Vec<_> = count().collect();
        for _ in 0..ANNOUNCEMENTS {
            announced.next().await.unwrap();
        }
        let most = count().zip(before).map(|(now, before)| now - before).max().unwrap();
        if most < ANNOUNCEMENTS * MESSAGES_PER_ANNOUNCEMENT {
            break;
        }
        // A node that was kept waiting by a busy machine for too long reads everything again.
        assert!(begun.elapsed() < DEADLINE, "{most} messages");
    }
}
