//! Streams that do not change cost little; `benches/directory.rs` has the figures.

use std::time::Duration;

use cluster::Policy;
use tokio::time::{Instant, sleep};

use crate::server::{Server, described, stream, until_every};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_quiet_streams_cost_less_than_twenty_messages_a_second() {
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
    let (before, begun): (Vec<_>, _) = (count().collect(), Instant::now());
    // What is counted is this time.
    sleep(Duration::from_secs(4)).await;
    let seconds = begun.elapsed().as_secs_f64();
    for (now, before) in count().zip(before) {
        let rate = (now - before) as f64 / seconds;
        assert!(rate < 20.0, "{rate}");
    }
}
