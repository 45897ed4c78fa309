//! What is seen of the cluster from here, and what the others are told of this node's load.

use std::sync::Arc;
use std::time::Duration;

use cluster::Load;
use node_link::LinkStats;
use tokio::time::{MissedTickBehavior, interval};

use crate::center::Center;
use crate::stream::Serving;

/// How often this node's load is measured.
const LOAD_EVERY: Duration = Duration::from_secs(3);

/// The cluster as one node sees it.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// This node's name.
    pub node: String,
    /// NATS is heard.
    pub directory_heard: bool,
    /// Version of the NATS server.
    pub nats_version: String,
    /// What last went wrong with NATS.
    pub last_problem: Option<String>,
    /// This node and all others that live.
    pub nodes: Vec<NodeStatus>,
    /// Links that are up.
    pub links: Vec<LinkStatus>,
    /// Streams of all nodes.
    pub streams: Vec<StreamStatus>,
}

/// A node.
#[derive(Debug, Clone)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub region: String,
    /// Version of its software.
    pub software: String,
    /// Its address for other nodes.
    pub relay_tcp: String,
    /// Its HTTP address for players.
    pub http: String,
    /// It takes nobody any more.
    pub draining: bool,
    /// How busy it is.
    pub load: Load,
}

/// A link of this node.
#[derive(Debug, Clone)]
pub struct LinkStatus {
    /// The other node.
    pub node: String,
    /// Its address.
    pub address: String,
    /// How long it is up.
    pub up_for: Duration,
    /// Its counts.
    pub stats: LinkStats,
}

/// A stream of the cluster.
#[derive(Debug, Clone)]
pub struct StreamStatus {
    /// `app/name`.
    pub stream: String,
    /// The node that it is published on.
    pub home: String,
    /// Which node fetches it from which: child, parent.
    pub feeds: Vec<(String, String)>,
    /// This node has it, or is about to.
    pub is_here: bool,
    /// Nodes that this one feeds.
    pub children: usize,
}

impl Center {
    pub(crate) fn status(&self) -> Status {
        let health = self.directory.health();
        let nodes = self.directory.nodes().into_iter().map(|node| NodeStatus {
            name: node.name.to_string(),
            region: node.region,
            software: node.software,
            relay_tcp: node.addresses.relay_tcp,
            http: node.addresses.http,
            draining: node.draining,
            load: node.load,
        });
        let links = self.links.all().into_iter().map(|link| LinkStatus {
            node: link.peer.to_string(),
            address: link.address.to_string(),
            up_for: self.clock.now().saturating_sub(link.up_since),
            stats: link.stats(),
        });
        let streams = self.directory.streams().into_iter().map(|(stream, home)| {
            let slot = self.slot(&stream);
            let feeds = self.directory.feeds(&stream).into_iter();
            StreamStatus {
                home: home.node.to_string(),
                feeds: feeds.map(|(child, parent)| (child.to_string(), parent.to_string())).collect(),
                is_here: slot.as_ref().is_some_and(|slot| *slot.serving().borrow() != Serving::Nothing),
                children: slot.map_or(0, |slot| slot.children_count()),
                stream: stream.to_string(),
            }
        });
        Status {
            node: self.name.to_string(),
            directory_heard: health.heard,
            nats_version: health.server_version,
            last_problem: health.last_problem,
            nodes: nodes.collect(),
            links: links.collect(),
            streams: streams.collect(),
        }
    }
}

/// Tells the others how busy this node is, until the task is ended.
pub(crate) async fn announce_load(center: Arc<Center>) {
    let mut ticks = interval(LOAD_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before: Option<(tokio::time::Instant, u64)> = None;
    loop {
        ticks.tick().await;
        // A worker that does not answer is too busy to say so.
        let Ok(snapshots) = center.workers.snapshots().await else { continue };
        let now = tokio::time::Instant::now();
        let sent: u64 = snapshots.iter().map(|worker| worker.counters.bytes_out).sum();
        let kbit_per_second = before.map_or(0, |(at, sent_before)| {
            let ms = now.duration_since(at).as_millis().max(1) as u64;
            sent.saturating_sub(sent_before) * 8 / ms
        });
        before = Some((now, sent));
        let busiest = snapshots.iter().map(|worker| worker.load_percent).fold(0.0, f32::max);
        let players: u64 = snapshots.iter().map(|worker| worker.counters.players).sum();
        center.directory.set_load(Load {
            players: u32::try_from(players).unwrap_or(u32::MAX),
            streams: u32::try_from(center.streams_count()).unwrap_or(u32::MAX),
            cpu_permille: (busiest * 10.0) as u16,
            egress_kbit_per_second: u32::try_from(kbit_per_second).unwrap_or(u32::MAX),
        });
    }
}
