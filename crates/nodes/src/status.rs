//! What is seen of the cluster from here: for the API ([`View`]), what links carry in a second, and this
//! node's load, which the others get.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use cluster::{Home, Load, NodeName, StreamName};
use control::cluster::{
    Answer, ClusterLink, ClusterNode, ClusterSnapshot, ClusterSource, ClusterStream, DirectoryHealth, Lane,
    LinkDirection, LinkState, ListedStreams, NodeLoad, StreamEdge, StreamsByHome,
};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::warn;
use worker_api::relay::{LinkId, RelayCommand, RelayLinkStats};
use worker_api::snapshot::WorkerSnapshot;

use crate::center::Center;
use crate::connection::{LeftOut, NodeLink};

/// How often this node's load is measured.
const LOAD_EVERY: Duration = Duration::from_secs(3);
/// A link loses too many packets when this part of them, and at least so many, could not be repaired, in each
/// of so many seconds.
const LOSSY_SHARE: f64 = 0.03;
const LOSSY_PACKETS: u64 = 5;
const LOSSY_SECONDS: u32 = 3;
/// Rates of links are over this time.
const RATES_EVERY: Duration = Duration::from_secs(1);

/// The cluster as this node sees it. Answers on whatever thread asks, not on that of nodes, which has frames
/// to pass on.
#[derive(Debug)]
pub(crate) struct View {
    name: String,
    /// Absent until streams are fetched and served; gone when the node is.
    center: OnceLock<Weak<Center>>,
}

/// Rates of a link, and the counts that they were made from.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rates {
    at: Option<Instant>,
    sent: LinkDirection,
    received: LinkDirection,
    /// For so many seconds it has lost more packets for good than may be: those that are sent, those that come.
    lossy_seconds: [u32; 2],
}

impl View {
    pub(crate) fn new(name: String) -> Self {
        Self { name, center: OnceLock::new() }
    }

    pub(crate) fn set_center(&self, center: &Arc<Center>) {
        let _ = self.center.set(Arc::downgrade(center));
    }
}

impl ClusterSource for View {
    fn node(&self) -> &str {
        &self.name
    }

    fn snapshot(&self, listed: ListedStreams) -> Answer<'_> {
        Box::pin(async move {
            let center = self.center.get()?.upgrade()?;
            let of_relay = center.relay_links().await;
            Some(center.snapshot(&listed, &of_relay))
        })
    }
}

impl Center {
    fn snapshot(
        &self,
        listed: &ListedStreams,
        of_relay: &HashMap<LinkId, RelayLinkStats>,
    ) -> ClusterSnapshot {
        let health = self.directory.health();
        let mut nodes = self.directory.nodes();
        nodes.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let others = nodes.iter().filter(|node| node.name != self.name);
        let links = others.map(|node| self.link(&node.name, of_relay)).collect();
        let homes = self.directory.streams();
        let streams_by_home = self.by_home(&homes);
        let (page, streams_total) = listed.page(homes, |(stream, _)| stream.as_str());
        ClusterSnapshot {
            node: self.name.to_string(),
            directory: DirectoryHealth {
                heard: health.heard,
                settled: health.settled,
                server_version: health.server_version,
                last_problem: health.last_problem,
                ignored: health.nonsense.total,
                messages_in: health.messages.0,
                messages_out: health.messages.1,
            },
            nodes: nodes.into_iter().map(|node| self.node(node)).collect(),
            links,
            streams: page.into_iter().map(|(stream, home)| self.stream(&stream, &home)).collect(),
            streams_total,
            streams_by_home,
            refused_connections: self.links.strangers.refused(),
            silent_parents: self.silent_parents.load(Ordering::Relaxed),
        }
    }

    fn node(&self, node: cluster::Node) -> ClusterNode {
        ClusterNode {
            reachable: node.name == self.name || self.links.get(&node.name).is_some(),
            name: node.name.to_string(),
            region: node.region,
            version: node.software,
            relay_tcp: node.addresses.relay_tcp,
            relay_udp: node.addresses.relay_udp,
            http: node.addresses.http,
            load: NodeLoad {
                players: node.load.players,
                streams: node.load.streams,
                cpu_percent: f32::from(node.load.cpu_permille) / 10.0,
                egress_bits_per_second: u64::from(node.load.egress_kbit_per_second) * 1000,
            },
            draining: node.draining,
        }
    }

    fn link(&self, node: &NodeName, of_relay: &HashMap<LinkId, RelayLinkStats>) -> ClusterLink {
        let last = self.links.last_over(node);
        let last_problem = last.as_ref().map(|(_, why)| why.clone());
        let Some(link) = self.links.get(node) else {
            let since = last.map_or(Duration::ZERO, |(at, _)| self.clock.now().saturating_sub(at));
            return ClusterLink {
                node: node.to_string(),
                state_seconds: since.as_secs(),
                last_problem,
                ..ClusterLink::default()
            };
        };
        let of_relay = link.relay.id().and_then(|id| of_relay.get(&id));
        let [mut sent, mut received] = directions(&link, of_relay);
        let rates = link.rates();
        for (now, then) in [(&mut sent, rates.sent), (&mut received, rates.received)] {
            now.bits_per_second = then.bits_per_second;
            now.packets_per_second = then.packets_per_second;
            now.loss_percent = then.loss_percent;
        }
        ClusterLink {
            node: node.to_string(),
            state: LinkState::Up,
            state_seconds: self.clock.now().saturating_sub(link.up_since).as_secs(),
            last_problem,
            round_trip_ms: link.stats().round_trip.map(|time| time.as_secs_f32() * 1e3),
            packets_heard: link.relay.is_heard(),
            sent,
            received,
        }
    }

    fn stream(&self, stream: &StreamName, home: &Home) -> ClusterStream {
        let feeds = self.directory.feeds(stream).into_iter();
        ClusterStream {
            stream: stream.to_string(),
            lane: match home.description.lane {
                cluster::Lane::Frames => Lane::Frames,
                cluster::Lane::Packets => Lane::Packets,
            },
            codecs: home.description.codecs.clone(),
            home: home.node.to_string(),
            edges: feeds
                .map(|(node, parent)| StreamEdge { node: node.to_string(), parent: parent.to_string() })
                .collect(),
        }
    }

    fn by_home(&self, homes: &[(StreamName, Home)]) -> StreamsByHome {
        let here = homes.iter().filter(|(_, home)| home.node == self.name).count();
        let slots = self.streams();
        let fetched = slots.values().filter(|slot| slot.is_fetched()).count().min(homes.len() - here);
        StreamsByHome { here, fetched, elsewhere: homes.len() - here - fetched }
    }

    /// What the relay of packets says of its links; nothing if there is none, or it does not answer.
    async fn relay_links(&self) -> HashMap<LinkId, RelayLinkStats> {
        if self.relay_address.is_none() || self.links.all().is_empty() {
            return HashMap::new();
        }
        let stats = self.workers.ask_relay(|reply| RelayCommand::Statistics { reply }).await;
        let links = stats.ok().and_then(Result::ok).map(|stats| stats.links).unwrap_or_default();
        links.into_iter().map(|stats| (stats.link, stats)).collect()
    }
}

/// The counts of a link each way, without rates.
fn directions(link: &NodeLink, of_relay: Option<&RelayLinkStats>) -> [LinkDirection; 2] {
    let (stats, (streams_out, streams_in)) = (link.stats(), link.streams());
    let count = |streams: usize| u32::try_from(streams).unwrap_or(u32::MAX);
    let mut sent = LinkDirection {
        streams: count(streams_out),
        bytes: stats.bytes_out,
        frames: stats.frames_out,
        dropped_frames: stats.left_out,
        ..LinkDirection::default()
    };
    let mut received = LinkDirection {
        streams: count(streams_in),
        bytes: stats.bytes_in,
        frames: stats.frames_in,
        dropped_frames: stats.missed,
        repeated_frames: link.left_out(LeftOut::Repeated),
        undecodable_frames: link.left_out(LeftOut::Undecodable),
        unwanted_frames: stats.unwanted + link.left_out(LeftOut::Unwanted),
        ..LinkDirection::default()
    };
    if let Some(relay) = of_relay {
        sent.bytes += relay.sent.bytes;
        sent.packets = relay.sent.packets;
        // What the other node has said: it alone knows what arrived.
        sent.repaired_packets = relay.sent.report.repaired;
        sent.given_up_packets = relay.sent.report.lost;
        received.bytes += relay.received.bytes;
        received.packets = relay.received.received;
        received.repaired_packets = relay.received.repaired;
        received.given_up_packets = relay.received.lost;
    }
    [sent, received]
}

impl Rates {
    fn next(&self, now: Instant, [sent, received]: [LinkDirection; 2]) -> Self {
        let Some(at) = self.at else { return Self { at: Some(now), sent, received, ..Self::default() } };
        let seconds = now.duration_since(at).as_secs_f64().max(1e-3);
        let lossy = |before: u32, is_lossy| if is_lossy { before.saturating_add(1) } else { 0 };
        let [of_sent, of_received] = self.lossy_seconds;
        Self {
            at: Some(now),
            lossy_seconds: [
                lossy(of_sent, is_lossy(&self.sent, &sent)),
                lossy(of_received, is_lossy(&self.received, &received)),
            ],
            sent: with_rates(&self.sent, sent, seconds),
            received: with_rates(&self.received, received, seconds),
        }
    }

    /// What the log has to say of packets that are lost for good, if it has lasted for a while.
    fn remark(&self) -> Option<&'static str> {
        match self.lossy_seconds.map(|seconds| seconds >= LOSSY_SECONDS) {
            [true, _] => Some("it does not get all packets that are sent to it"),
            [_, true] => Some("not all packets that it sends come here"),
            _ => None,
        }
    }
}

/// Whether too many packets were lost for good meanwhile. Those that are sent and those that the other node
/// has given up are not counted at the same time: a few are no matter.
fn is_lossy(before: &LinkDirection, now: &LinkDirection) -> bool {
    let packets = now.packets.saturating_sub(before.packets);
    let given_up = now.given_up_packets.saturating_sub(before.given_up_packets);
    given_up >= LOSSY_PACKETS && given_up as f64 >= LOSSY_SHARE * packets as f64
}

fn with_rates(before: &LinkDirection, now: LinkDirection, seconds: f64) -> LinkDirection {
    let rate = |of: fn(&LinkDirection) -> u64| of(&now).saturating_sub(of(before)) as f64 / seconds;
    let (packets, repaired) = (rate(|way| way.packets), rate(|way| way.repaired_packets));
    let given_up = rate(|way| way.given_up_packets);
    LinkDirection {
        bits_per_second: (8.0 * rate(|way| way.bytes)) as u64,
        packets_per_second: packets as u64,
        loss_percent: (packets > 0.0).then(|| (100.0 * (repaired + given_up) / packets).min(100.0) as f32),
        ..now
    }
}

/// Measures what the links carry, until the task is ended.
pub(crate) async fn measure_links(center: Arc<Center>) {
    let mut ticks = interval(RATES_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let of_relay = center.relay_links().await;
        let now = Instant::now();
        let mut is_any_unheard = false;
        for link in center.links.all() {
            let of_relay = link.relay.id().and_then(|id| of_relay.get(&id));
            link.set_rates(link.rates().next(now, directions(&link, of_relay)));
            if let Some(remark) = link.rates().remark()
                && center.warnings.may_log(format!("lossy {}", link.peer))
            {
                warn!(
                    node = %link.peer,
                    "the link is too slow for its streams of packets, or loses them: {remark}, repairs included"
                );
            }
            is_any_unheard |= of_relay.is_some_and(|stats| link.relay.note_heard(stats.received.heard_at));
        }
        if is_any_unheard {
            center.wake_streams();
        }
    }
}

/// Tells the others how busy this node is, until the task is ended.
pub(crate) async fn announce_load(center: Arc<Center>) {
    let mut ticks = interval(LOAD_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before: Option<(Instant, u64)> = None;
    loop {
        ticks.tick().await;
        // A worker that does not answer is too busy to say so.
        let Ok(snapshots) = center.workers.snapshots().await else { continue };
        let now = Instant::now();
        let sent: u64 = snapshots.iter().map(|worker| worker.counters.bytes_out).sum();
        let kbit_per_second = before.map_or(0, |(at, sent_before)| {
            let ms = now.duration_since(at).as_millis().max(1) as u64;
            sent.saturating_sub(sent_before) * 8 / ms
        });
        before = Some((now, sent));
        let busiest = snapshots.iter().map(|worker| worker.load_percent).fold(0.0, f32::max);
        let streams = center.streams().len();
        let no_worker = |has_room: fn(&WorkerSnapshot) -> bool| !snapshots.iter().any(has_room);
        let players: u64 = snapshots.iter().map(|worker| worker.counters.players).sum();
        center.directory.set_load(Load {
            players: u32::try_from(players).unwrap_or(u32::MAX),
            streams: u32::try_from(streams).unwrap_or(u32::MAX),
            cpu_permille: (busiest * 10.0) as u16,
            egress_kbit_per_second: u32::try_from(kbit_per_second).unwrap_or(u32::MAX),
            full: no_worker(|worker| !worker.is_full) || no_worker(|worker| !worker.is_full_of_rtc),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_link_is_remarked_on_after_three_seconds_in_which_too_much_was_lost_for_good() {
        let way = |packets, given_up_packets, repaired_packets| LinkDirection {
            packets,
            given_up_packets,
            repaired_packets,
            ..LinkDirection::default()
        };
        // Packets, given up, repaired in each second; and whether there is something to say after each.
        for (seconds, expected) in [
            (&[(100, 0, 50); 6][..], [false; 6]), // what is repaired is no loss
            (&[(1_000, 30, 0); 6], [false, false, false, true, true, true]),
            (&[(1_000, 29, 0); 6], [false; 6]),
            (&[(20, 2, 0); 6], [false; 6]), // a tenth of next to nothing
            (&[(100, 9, 0), (100, 9, 0), (100, 9, 0), (100, 0, 0), (100, 9, 0), (100, 9, 0)], [false; 6]),
            (&[(0, 10, 0); 6], [false, false, false, true, true, true]),
        ] {
            for is_sent in [true, false] {
                let (mut rates, mut total) = (Rates::default(), (0, 0, 0));
                let mut remarks = Vec::new();
                for (packets, given_up, repaired) in seconds {
                    total = (total.0 + packets, total.1 + given_up, total.2 + repaired);
                    let (lossy, good) = (way(total.0, total.1, total.2), way(total.0, 0, 0));
                    let directions = if is_sent { [lossy, good] } else { [good, lossy] };
                    rates = rates.next(Instant::now(), directions);
                    tokio::time::advance(Duration::from_secs(1)).await;
                    remarks.push(rates.remark());
                }
                let said: Vec<bool> = remarks.iter().map(Option::is_some).collect();
                assert_eq!(said, expected, "{seconds:?}");
                let whose = if is_sent { "sent to it" } else { "come here" };
                assert!(remarks.iter().flatten().all(|remark| remark.contains(whose)));
            }
        }
    }
}
