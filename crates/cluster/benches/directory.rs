//! What does the directory cost, how soon is a stream found, and how soon is all settled after a restart of
//! NATS?
//!
//! Run: `scripts/bench directory [--quick]`. Three nodes in this process on a nats-server of its own, on
//! loopback; for what quiet streams cost, a hundred as well. Prints what it does, and RESULT lines last.

use std::sync::Arc;
use std::time::Duration;

use cluster::{Description, Directory, Policy};
use nix::time::{ClockId, clock_gettime};
use server::{Server, described, stream, until_every};
use tokio::time::{Instant, sleep};

// The tests need more of it.
#[allow(dead_code)]
#[path = "../tests/cluster/server.rs"]
mod server;

/// As many as in a server: a description of a stream with video and audio takes some 300 bytes.
const TRACKS: [u8; 300] = [0; 300];
const FEW: usize = 1000;
const MANY: usize = 10_000;
const NODES: [&str; 3] = ["a", "b", "c"];
/// Nodes of a large cluster.
const NODES_MANY: usize = 100;
/// Between two looks at whether something has come to be.
const PAUSE: Duration = Duration::from_millis(2);

/// How much of each is measured.
struct Effort {
    claims: usize,
    idle: Duration,
    restarts: usize,
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let effort = match quick {
        true => Effort { claims: 500, idle: Duration::from_secs(15), restarts: 5 },
        false => Effort { claims: 3000, idle: Duration::from_secs(60), restarts: 11 },
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let results = runtime.expect("threads can be started").block_on(measure(&effort));
    for result in results {
        println!("RESULT directory {result}");
    }
}

async fn measure(effort: &Effort) -> Vec<String> {
    let Some(mut server) = Server::start().await else {
        println!("SKIPPED directory all: nats-server is missing");
        return Vec::new();
    };
    let nodes = nodes(&server).await;
    println!("nats-server {}", nodes[0].health().server_version);
    let mut results = Vec::new();
    for number in 0..FEW {
        claim(&nodes[number % nodes.len()], number).await;
    }
    all_found(&nodes, FEW).await;
    // Before the claims, whose marks of deletion are removed a minute later.
    results.push(idle(&server, &nodes, effort.idle).await);
    results.extend(claims(&nodes, effort.claims).await);
    results.push(restarts(&mut server, &nodes, FEW, effort.restarts).await);
    leave(nodes).await;

    let nodes = named(&server, (0..NODES_MANY).map(|number| format!("n{number}"))).await;
    for number in 0..FEW {
        claim(&nodes[number % nodes.len()], number).await;
    }
    all_found(&nodes, FEW).await;
    // The first ones announce themselves as if they were few, before they know how many they are.
    results.push(idle(&server, &nodes, effort.idle).await);
    leave(nodes).await;

    let nodes = self::nodes(&server).await;
    results.push(announce(&nodes, MANY).await);
    results.push(restarts(&mut server, &nodes, MANY, effort.restarts).await);
    leave(nodes).await;
    results
}

async fn nodes(server: &Server) -> Vec<Directory> {
    named(server, NODES.map(str::to_owned)).await
}

async fn named(server: &Server, names: impl IntoIterator<Item = String>) -> Vec<Directory> {
    let mut nodes = Vec::new();
    for name in names {
        nodes.push(server.directory(&name).await);
    }
    nodes
}

async fn leave(nodes: Vec<Directory>) {
    for node in nodes {
        node.leave().await;
    }
}

async fn claim(node: &Directory, number: usize) {
    let granted = node.claim(&stream(&format!("live/{number}")), tracks(), Policy::Refuse).await;
    granted.expect("nobody else has it");
}

fn tracks() -> Arc<Description> {
    described(&TRACKS)
}

async fn all_found(nodes: &[Directory], streams: usize) {
    let settled = |node: &Directory| node.health().settled && node.streams().len() == streams;
    until_every(PAUSE, "all are found", || nodes.iter().all(settled)).await;
}

/// From the claim to its grant, to a refusal by another node, and to `find` on another; and a `find` itself.
async fn claims(nodes: &[Directory], count: usize) -> Vec<String> {
    println!("{count} claims, beside {FEW} streams");
    let (mut granted, mut found, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    let mut events = nodes[1].events();
    for number in 0..count {
        let name = stream(&format!("timed/{number}"));
        let begun = Instant::now();
        let grant = nodes[0].claim(&name, tracks(), Policy::Refuse).await.expect("nobody else has it");
        granted.push(begun.elapsed());
        while nodes[1].find(&name).is_none() {
            let _ = events.next().await;
        }
        found.push(begun.elapsed());
        let begun = Instant::now();
        nodes[2].claim(&name, tracks(), Policy::Refuse).await.expect_err("another node has it");
        refused.push(begun.elapsed());
        nodes[0].release(&name, grant.epoch);
    }
    let finds = 1_000_000;
    let (name, begun) = (stream("live/500"), Instant::now());
    for _ in 0..finds {
        assert!(std::hint::black_box(nodes[1].find(&name)).is_some());
    }
    let find = begun.elapsed().as_nanos() / finds;
    let line = |case: &str, times: &mut Vec<Duration>| {
        times.sort_unstable();
        let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e3;
        format!("case={case} n={count} p50_ms={:.3} p99_ms={:.3}", at(50), at(99))
    };
    vec![
        line("claim", &mut granted),
        line("claim_to_find", &mut found),
        line("refused", &mut refused),
        format!("case=find ns={find}"),
    ]
}

/// Messages and CPU time of nodes that have nothing to say but that they are there.
async fn idle(server: &Server, nodes: &[Directory], time: Duration) -> String {
    println!("{FEW} streams that do not change, {} s", time.as_secs());
    let count = || nodes.iter().map(|node| node.health().messages).map(|(received, sent)| received + sent);
    let (messages, own, nats) = (count().collect::<Vec<_>>(), own_cpu_seconds(), cpu_seconds(server.id()));
    let begun = Instant::now();
    // What is measured is this time.
    sleep(time).await;
    let seconds = begun.elapsed().as_secs_f64();
    let (own, nats) = (own_cpu_seconds() - own, cpu_seconds(server.id()) - nats);
    let most = count().zip(messages).map(|(now, before)| now - before).max().unwrap_or(0);
    format!(
        "case=idle streams={FEW} nodes={} messages_per_second={:.1} cpu_percent={:.3} nats_cpu_percent={:.2}",
        nodes.len(),
        most as f64 / seconds,
        own / seconds / nodes.len() as f64 * 100.0,
        nats / seconds * 100.0,
    )
}

/// From when a server that lost its memory can be reached again until all is written.
async fn restarts(server: &mut Server, nodes: &[Directory], streams: usize, count: usize) -> String {
    println!("{count} restarts of NATS, {streams} streams");
    let mut times = Vec::new();
    for _ in 0..count {
        server.kill();
        until_every(PAUSE, "that is noticed", || nodes.iter().all(|node| !node.health().heard)).await;
        server.run().await;
        let settled = || nodes.iter().all(|node| node.health().settled);
        times.push(until_every(PAUSE, "all is written again", settled).await.as_secs_f64() * 1e3);
        assert!(nodes.iter().all(|node| node.streams().len() == streams), "all are known all the time");
    }
    times.sort_unstable_by(f64::total_cmp);
    let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
    format!("case=settle streams={streams} ms={median:.0} ms_max={most:.0}")
}

/// One node begins with all of them at once.
async fn announce(nodes: &[Directory], streams: usize) -> String {
    println!("one node announces {streams} streams");
    let (begun, cpu) = (Instant::now(), own_cpu_seconds());
    let claims: Vec<_> = (0..streams)
        .map(|number| nodes[0].claim(&stream(&format!("live/{number}")), tracks(), Policy::Refuse))
        .collect();
    for claim in claims {
        claim.await.expect("nobody else has it");
    }
    let granted = begun.elapsed();
    all_found(nodes, streams).await;
    let (found, cpu) = (begun.elapsed(), own_cpu_seconds() - cpu);
    format!(
        "case=announce streams={streams} granted_ms={} found_ms={} nodes_cpu_ms={:.0}",
        granted.as_millis(),
        found.as_millis(),
        cpu * 1e3
    )
}

/// CPU time of this process, which is the nodes.
fn own_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("there is such a clock");
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

/// CPU time of another process.
fn cpu_seconds(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(11).take(2);
    fields.map(|ticks| ticks.parse::<f64>().expect("a number of ticks")).sum::<f64>() / 100.0
}
