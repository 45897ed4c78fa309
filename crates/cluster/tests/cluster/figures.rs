//! What does the directory cost, and how soon is a stream found? With 1000 streams that stand still.
//!
//! `cargo test --release -p cluster --test cluster figures -- --ignored --nocapture`

use std::time::Duration;

use cluster::{Directory, Policy};
use tokio::time::{Instant, sleep};

use crate::server::{Server, described, home, stream, until_every};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_quiet_streams_cost_less_than_twenty_messages_a_second() {
    let Some(server) = Server::start().await else { return };
    let nodes = thousand_streams(&server).await;
    let (rate, _) = messages_per_second(&nodes, Duration::from_secs(4)).await;
    println!("RESULT directory idle_messages_per_second={rate:.1}");
    assert!(rate < 20.0, "{rate}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "figures, of a release build"]
async fn figures() {
    let Some(server) = Server::start().await else { return };
    let nodes = thousand_streams(&server).await;
    let (mut claims, mut refusals, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..1000 {
        let name = stream(&format!("timed/{number}"));
        let begun = Instant::now();
        let granted = nodes[0].claim(&name, described(&[0; 300]), Policy::Refuse).await.unwrap();
        claims.push(begun.elapsed());
        while nodes[1].find(&name).is_none() {
            tokio::task::yield_now().await;
        }
        found.push(begun.elapsed());
        let begun = Instant::now();
        nodes[2].claim(&name, described(b""), Policy::Refuse).await.unwrap_err();
        refusals.push(begun.elapsed());
        nodes[0].release(&name, granted.epoch);
    }
    let finds = 1_000_000_u32;
    let (name, begun) = (stream("live/500"), Instant::now());
    for _ in 0..finds {
        assert!(std::hint::black_box(nodes[1].find(&name)).is_some());
    }
    let find = begun.elapsed() / finds;
    let cpu = cpu_time();
    let (rate, worst) = messages_per_second(&nodes, Duration::from_secs(15)).await;
    let cpu = (cpu_time() - cpu).as_secs_f64() / 15.0 / nodes.len() as f64;
    println!("RESULT directory claim_us_p50={} claim_us_p99={}", at(&mut claims, 50), at(&mut claims, 99));
    println!(
        "RESULT directory refused_us_p50={} refused_us_p99={}",
        at(&mut refusals, 50),
        at(&mut refusals, 99)
    );
    println!("RESULT directory found_us_p50={} found_us_p99={}", at(&mut found, 50), at(&mut found, 99));
    println!("RESULT directory find_ns={}", find.as_nanos());
    println!(
        "RESULT directory idle_messages_per_second={rate:.1} worst={worst:.1} cpu_percent={:.3}",
        cpu * 100.0
    );
}

async fn thousand_streams(server: &Server) -> Vec<Directory> {
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(server.directory(name).await);
    }
    for number in 0..1000 {
        let name = stream(&format!("live/{number}"));
        nodes[number % 3].claim(&name, described(&[0; 300]), Policy::Refuse).await.unwrap();
    }
    let last = |node: &Directory| home(node, "live/999").is_some() && node.streams().len() == 1000;
    until_every(Duration::from_millis(20), "all are found", || nodes.iter().all(last)).await;
    nodes
}

/// Received and sent, of a node: in the middle and of the busiest.
async fn messages_per_second(nodes: &[Directory], time: Duration) -> (f64, f64) {
    let count = || nodes.iter().map(|node| node.health().messages).map(|(received, sent)| received + sent);
    let (before, begun): (Vec<_>, _) = (count().collect(), Instant::now());
    // What is measured is this time.
    sleep(time).await;
    let seconds = begun.elapsed().as_secs_f64();
    let rates: Vec<_> = count().zip(before).map(|(now, before)| (now - before) as f64 / seconds).collect();
    (rates.iter().sum::<f64>() / rates.len() as f64, rates.iter().copied().fold(0.0, f64::max))
}

fn at(times: &mut [Duration], percent: usize) -> u128 {
    times.sort_unstable();
    times[times.len() * percent / 100].as_micros()
}

/// CPU time of this process, which is the three nodes.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit(") ").next().unwrap().split(' ');
    let ticks: u64 = fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}
