//! Metrics of the cluster: what this node knows of the others, and each of its links by direction.
//!
//! Labels are names of nodes, of which the directory takes 1,024 at most; streams are only counted. Totals of
//! a link begin at zero with each connection, which a rate over a counter takes for a restart, as it should.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::{Context, counter, counters, gauge, gauges};
use crate::cluster::{
    ClusterLink, ClusterNode, ClusterSnapshot, LinkDirection, LinkState, ListedStreams, RefusedConnections,
    ask,
};

/// The cluster when it was scraped. Without an answer the scrape says so, and has all the rest.
#[derive(Debug)]
pub(super) struct View {
    node: String,
    snapshot: Option<ClusterSnapshot>,
}

type Figure = (&'static str, &'static str, fn(&LinkDirection) -> u64);

/// Per link and direction; `_total` is added.
const COUNTERS: [Figure; 5] = [
    ("millstream_cluster_link_bytes", "Bytes on the link: frames, packets and control", |d| d.bytes),
    ("millstream_cluster_link_frames", "Frames, over TCP", |d| d.frames),
    ("millstream_cluster_link_packets", "Packets, over UDP, each once", |d| d.packets),
    ("millstream_cluster_link_repaired_packets", "Packets lost on the way and sent again in time", |d| {
        d.repaired_packets
    }),
    ("millstream_cluster_link_given_up_packets", "Packets lost for good", |d| d.given_up_packets),
];

/// What a metric says of one direction of a link.
type OfDirection = fn(&LinkDirection) -> u64;

/// Why frames were dropped. Only the first is seen by who sends them.
const DROPS: [(&str, OfDirection); 4] = [
    ("too_slow", |d| d.dropped_frames),
    ("repeated", |d| d.repeated_frames),
    ("undecodable", |d| d.undecodable_frames),
    ("unwanted", |d| d.unwanted_frames),
];

type OfRefused = fn(&RefusedConnections) -> u64;

const REFUSALS: [(&str, OfRefused); 9] = [
    ("too_many", |r| r.too_many),
    ("too_many_of_address", |r| r.too_many_of_address),
    ("too_often", |r| r.too_often),
    ("too_often_of_address", |r| r.too_often_of_address),
    ("late", |r| r.late),
    ("wrong_secret", |r| r.wrong_secret),
    ("other_version", |r| r.other_version),
    ("not_taken", |r| r.not_taken),
    ("nonsense", |r| r.nonsense),
];

impl View {
    /// What the cluster says; `None` on a single node.
    pub(super) async fn of(context: &Context) -> Option<Self> {
        let source = context.cluster.as_deref()?;
        let snapshot = ask(source, ListedStreams::default()).await;
        Some(Self { node: source.node().to_owned(), snapshot })
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        encoder
            .encode_descriptor("millstream_cluster_node", "Name of this node", None, MetricType::Info)?
            .encode_info(&[("node", self.node.as_str())])?;
        let help = "1 if the cluster answered; the others of its metrics are missing if not";
        gauge(encoder, "millstream_cluster_answers", help, flag(self.snapshot.is_some()))?;
        let Some(snapshot) = &self.snapshot else { return Ok(()) };
        let directory = &snapshot.directory;
        let help = "1 while NATS answers and all it has was read";
        gauge(encoder, "millstream_cluster_directory_heard", help, flag(directory.heard))?;
        let help = "1 while all that this node has to say is written in NATS";
        gauge(encoder, "millstream_cluster_directory_settled", help, flag(directory.settled))?;
        let help = "Keys and values in NATS that no node writes";
        counter(encoder, "millstream_cluster_directory_ignored", help, directory.ignored)?;
        let messages = [("received", directory.messages_in), ("sent", directory.messages_out)];
        let messages = messages.map(|(direction, count)| ([("direction", direction)], count));
        let help = "Messages of the directory, from NATS and to it";
        counters(encoder, "millstream_cluster_directory_messages", help, messages.into_iter())?;
        let states = ["this", "reachable", "draining", "unreachable"].map(|state| {
            let of_state = snapshot.nodes.iter().filter(|node| self.state(node) == state);
            ([("state", state)], of_state.count() as f64)
        });
        gauges(encoder, "millstream_cluster_nodes", "Nodes that live, by state", states.into_iter())?;
        let homes = snapshot.streams_by_home;
        let homes = [("here", homes.here), ("fetched", homes.fetched), ("elsewhere", homes.elsewhere)];
        let homes = homes.map(|(home, count)| ([("home", home)], count as f64));
        let help = "Streams of all nodes: published here, elsewhere and fetched, or elsewhere";
        gauges(encoder, "millstream_cluster_streams", help, homes.into_iter())?;
        let help = "Nodes that streams were not fetched from any more because no datagram of them came";
        counter(encoder, "millstream_cluster_silent_parents", help, snapshot.silent_parents)?;
        let help = "Connections at the port for nodes that did not become links, by cause";
        let refused = &snapshot.refused_connections;
        let refused = REFUSALS.map(|(cause, count)| ([("cause", cause)], count(refused)));
        counters(encoder, "millstream_cluster_refused_connections", help, refused.into_iter())?;
        encode_links(encoder, &snapshot.links)
    }

    /// Which of four states a node is in; one that leaves is draining as long as it can be reached.
    fn state(&self, node: &ClusterNode) -> &'static str {
        match node {
            _ if node.name == self.node => "this",
            ClusterNode { reachable: false, .. } => "unreachable",
            ClusterNode { draining: true, .. } => "draining",
            _ => "reachable",
        }
    }
}

fn encode_links(encoder: &mut DescriptorEncoder<'_>, links: &[ClusterLink]) -> fmt::Result {
    let up = links.iter().map(|link| ([("node", link.node.as_str())], flag(link.state == LinkState::Up)));
    gauges(encoder, "millstream_cluster_link_up", "1 while there is a connection to the node", up)?;
    let heard = links.iter().filter(|link| link.state == LinkState::Up);
    let heard = heard.map(|link| ([("node", link.node.as_str())], flag(link.packets_heard)));
    let help = "0 while no datagram of the node comes, although there is a connection";
    gauges(encoder, "millstream_cluster_link_packets_heard", help, heard)?;
    let round_trips = links
        .iter()
        .filter_map(|link| Some(([("node", link.node.as_str())], f64::from(link.round_trip_ms?) / 1e3)));
    gauges(encoder, "millstream_cluster_link_round_trip_seconds", "Round trip to the node", round_trips)?;
    let directions = || {
        links.iter().flat_map(|link| {
            let of = |direction, of| ([("node", link.node.as_str()), ("direction", direction)], of);
            [of("sent", &link.sent), of("received", &link.received)]
        })
    };
    let streams = directions().map(|(labels, of)| (labels, f64::from(of.streams)));
    gauges(encoder, "millstream_cluster_link_streams", "Streams on the link", streams)?;
    for (name, help, value) in COUNTERS {
        counters(encoder, name, help, directions().map(|(labels, of)| (labels, value(of))))?;
    }
    let drops = directions().flat_map(|(labels, of)| {
        let causes = if labels[1].1 == "sent" { &DROPS[..1] } else { &DROPS };
        causes.iter().map(move |(cause, value)| ([labels[0], labels[1], ("cause", cause)], value(of)))
    });
    let help = "Frames of the link that were not passed on, by cause";
    counters(encoder, "millstream_cluster_link_dropped_frames", help, drops)
}

fn flag(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}
