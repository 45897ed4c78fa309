//! Three NATS servers in a cluster, of which one is killed.

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::stream::Info;
use cluster::{Directory, Event, Policy, Settings};
use tokio::time::{Instant, sleep, timeout};

use crate::server::{DEADLINE, Server, described, free_port, home, node, stream, until, until_every};

const BUCKETS: [&str; 3] = ["KV_millstream_nodes", "KV_millstream_streams", "KV_millstream_heartbeats"];
/// Between two looks at what servers do among themselves.
const PAUSE: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_one_of_three_servers_can_be_lost_also_the_leader() {
    let Some(mut servers) = Three::prepare() else { return };
    servers.run(&[0, 1, 2]).await;
    let nodes = [servers.directory("a").await, servers.directory("b").await, servers.directory("c").await];
    servers.have_copies(3).await;
    for (number, node) in nodes.iter().enumerate() {
        node.claim(&stream(&format!("live/{number}")), described(b""), Policy::Refuse).await.unwrap();
    }
    until("all are found", || nodes.iter().all(|node| node.streams().len() == 3)).await;
    let mut events = nodes.each_ref().map(Directory::events);
    for leads in [false, true] {
        let leader = servers.leader(BUCKETS[1]).await;
        let killed = if leads { leader } else { (leader + 1) % 3 };
        servers.servers[killed].kill();
        let begun = Instant::now();
        let name = |at: usize| stream(&format!("live/{leads}{at}"));
        for (at, node) in nodes.iter().enumerate() {
            // What is granted provisionally meanwhile is written when the others have a leader.
            node.claim(&name(at), described(b""), Policy::Refuse).await.unwrap();
        }
        let known =
            |node: &Directory| node.health().settled && (0..3).all(|at| node.find(&name(at)).is_some());
        until_every(PAUSE, "all is known to all", || nodes.iter().all(known)).await;
        println!(
            "RESULT directory lost_one_of_three leader={leads} settle_ms={}",
            begun.elapsed().as_millis()
        );
        servers.run(&[killed]).await;
        servers.have_copies(3).await;
    }
    until("all is settled", || nodes.iter().all(|node| node.health().settled)).await;
    for (at, name) in ["a", "b", "c"].into_iter().enumerate() {
        for node in &nodes {
            assert_eq!(home(node, &format!("live/{at}")).as_deref(), Some(name));
        }
        while let Ok(Ok(event)) = timeout(Duration::ZERO, events[at].next()).await {
            let disturbed = matches!(event, Event::StreamGone(_) | Event::NodeGone(..) | Event::Lost { .. });
            assert!(!disturbed, "{event:?}");
        }
    }
}

/// As when servers were away then: nats-server 2.9 makes a bucket with one copy while two of three are there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buckets_made_with_one_copy_get_the_others_later() {
    let Some(mut servers) = Three::prepare() else { return };
    servers.run(&[0, 1, 2]).await;
    let one_copy = Settings { replicas: Some(1), ..servers.settings("a") };
    let a = heard(one_copy).await;
    a.claim(&stream("live/a"), described(b""), Policy::Refuse).await.unwrap();
    servers.have_copies(1).await;
    let b = servers.directory("b").await;
    servers.have_copies(3).await;
    let both = || home(&b, "live/a").is_some() && a.health().settled && b.health().settled;
    until("both know it", both).await;
}

/// Servers that know each other.
struct Three {
    servers: Vec<Server>,
}

impl Three {
    fn prepare() -> Option<Self> {
        let routes = [(); 3].map(|()| format!("nats://127.0.0.1:{}", free_port()));
        let all = routes.join(",");
        let servers = routes.iter().enumerate().map(|(number, route)| {
            let name = number.to_string();
            Server::prepare(&["-n", &name, "--cluster_name", "three", "--cluster", route, "--routes", &all])
        });
        Some(Self { servers: servers.collect::<Option<_>>()? })
    }

    async fn run(&mut self, which: &[usize]) {
        for &number in which {
            self.servers[number].run().await;
        }
    }

    /// Of a node that knows all three.
    fn settings(&self, name: &str) -> Settings {
        let servers = self.servers.iter().map(|server| format!("nats://127.0.0.1:{}", server.port)).collect();
        Settings::new(servers, node(name))
    }

    async fn directory(&self, name: &str) -> Directory {
        heard(self.settings(name)).await
    }

    /// Waits until the buckets are kept so many times, and all copies are complete.
    async fn have_copies(&self, copies: usize) {
        for bucket in BUCKETS {
            let begun = Instant::now();
            loop {
                let info = self.info(bucket).await;
                let peers =
                    info.as_ref().and_then(|info| info.cluster.as_ref()).map(|cluster| &cluster.replicas);
                let complete = peers.map_or(0, |peers| peers.iter().filter(|peer| peer.current).count() + 1);
                if info.as_ref().is_some_and(|info| info.config.num_replicas == copies) && complete == copies
                {
                    break;
                }
                assert!(begun.elapsed() < DEADLINE, "{bucket}: {info:?}");
                sleep(PAUSE).await;
            }
        }
    }

    async fn leader(&self, bucket: &str) -> usize {
        let info = self.info(bucket).await.unwrap();
        info.cluster.unwrap().leader.unwrap().parse().unwrap()
    }

    /// What a server that runs says of a bucket.
    async fn info(&self, bucket: &str) -> Option<Info> {
        let urls: Vec<_> = self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
        let client = async_nats::connect(urls).await.unwrap();
        jetstream::new(client).get_stream(bucket).await.ok().map(|stream| stream.cached_info().clone())
    }
}

/// A directory, once the servers have found each other.
async fn heard(settings: Settings) -> Directory {
    let directory = Directory::connect(settings).await.unwrap();
    let begun = Instant::now();
    while !directory.health().named {
        let (waited, health) = (begun.elapsed(), directory.health());
        assert!(waited < DEADLINE, "the servers have not found each other: {health:?}");
        sleep(PAUSE).await;
    }
    directory
}
