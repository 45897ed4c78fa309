//! The cluster as this node sees it: plain values, which the API answers with as they are.
//!
//! Whoever runs the node's part in the cluster fills them in ([`ClusterSource`]); here they are asked for,
//! with a deadline. What this node cannot know is not in them: how links between two other nodes do is
//! seen there.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

/// Time the cluster has to answer, as long as a worker has.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// What a source will say; `None` if it cannot find out.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Option<ClusterSnapshot>> + Send + 'a>>;

/// Where a node's view of its cluster comes from.
pub trait ClusterSource: fmt::Debug + Send + Sync {
    /// Name of this node.
    fn node(&self) -> &str;

    /// How things are now, with these streams.
    fn snapshot(&self, listed: ListedStreams) -> Answer<'_>;
}

/// Which streams a snapshot has; [`ListedStreams::page`] chooses them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedStreams {
    /// Only this one, as `app/name`.
    pub stream: Option<String>,
    /// Only those with this in their name, in any case of its ASCII letters.
    pub search: Option<String>,
    /// Streams to skip, by name.
    pub offset: usize,
    /// Streams to list.
    pub limit: usize,
}

/// What `source` says; `None` if it cannot find out within the deadline.
pub(crate) async fn ask(source: &dyn ClusterSource, listed: ListedStreams) -> Option<ClusterSnapshot> {
    tokio::time::timeout(ANSWER_TIMEOUT, source.snapshot(listed)).await.ok().flatten()
}

impl ListedStreams {
    /// Those of `streams` that are asked for, in the order of their names, and how many match on all pages.
    ///
    /// A directory has up to 200,000 streams and a page a hundred of them, so only the page is sorted.
    pub fn page<T>(
        &self,
        streams: impl IntoIterator<Item = T>,
        name: impl Fn(&T) -> &str,
    ) -> (Vec<T>, usize) {
        let needle = self.search.as_ref().map(|text| text.to_ascii_lowercase());
        let is_listed = |stream: &T| {
            let name = name(stream);
            self.stream.as_ref().is_none_or(|asked| asked == name)
                && needle.as_ref().is_none_or(|needle| name.to_ascii_lowercase().contains(needle))
        };
        let mut found: Vec<T> = streams.into_iter().filter(is_listed).collect();
        let matching = found.len();
        let by_name = |a: &T, b: &T| name(a).cmp(name(b));
        let end = self.offset.saturating_add(self.limit);
        if end < matching {
            found.select_nth_unstable_by(end, by_name);
            found.truncate(end);
        }
        found.sort_unstable_by(by_name);
        found.drain(..self.offset.min(found.len()));
        (found, matching)
    }
}

/// The cluster as one of its nodes sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct ClusterSnapshot {
    /// Name of this node.
    #[schema(example = "fra-1")]
    pub node: String,
    /// What it knows the others from.
    pub directory: DirectoryHealth,
    /// Nodes that live, by name, this one among them. A node that falls silent is forgotten after 5 s.
    pub nodes: Vec<ClusterNode>,
    /// Links of this node to each of the others, by their names.
    pub links: Vec<ClusterLink>,
    /// A page of the streams of all nodes, by name.
    pub streams: Vec<ClusterStream>,
    /// Number of streams that match, on all pages.
    pub streams_total: usize,
    /// All streams, by where they are published.
    pub streams_by_home: StreamsByHome,
    /// How often this node has left one that it fetched packets from because no datagram of it came.
    pub silent_parents: u64,
    /// Connections at the port for nodes that did not become links.
    pub refused_connections: RefusedConnections,
}

/// Connections of strangers that were closed since the start, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct RefusedConnections {
    /// As many were open as may be.
    pub too_many: u64,
    /// As many of their address were.
    pub too_many_of_address: u64,
    /// There had been more in a short time than may be.
    pub too_often: u64,
    /// There had been more of their address.
    pub too_often_of_address: u64,
    /// They took longer than 3 s.
    pub late: u64,
    /// They had another secret.
    pub wrong_secret: u64,
    /// They spoke another version of the protocol.
    pub other_version: u64,
    /// They had the secret and could not be taken: their name is taken, or one of both nodes leaves.
    pub not_taken: u64,
    /// They spoke another protocol, or were closed at their other end.
    pub nonsense: u64,
}

/// How the directory is, which all nodes share by NATS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct DirectoryHealth {
    /// NATS answers, and all it has was read. While it does not, the last known state counts.
    pub heard: bool,
    /// All that this node has to say is written there.
    pub settled: bool,
    /// Version of the NATS server; empty before the first connection.
    #[schema(example = "2.10.22")]
    pub server_version: String,
    /// What last went wrong with NATS.
    pub last_problem: Option<String>,
    /// Keys and values that were ignored because no node writes such.
    pub ignored: u64,
    /// Messages from NATS.
    pub messages_in: u64,
    /// Messages to NATS.
    pub messages_out: u64,
}

/// A node of the cluster, as it announces itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct ClusterNode {
    /// Its name, which no other has.
    pub name: String,
    /// Where it is, in the operator's words.
    pub region: String,
    /// Version of the server.
    pub version: String,
    /// `HOST:PORT` for other nodes: frames, and all control.
    pub relay_tcp: String,
    /// `HOST:PORT` for other nodes: packets.
    pub relay_udp: String,
    /// URL for players; empty if it has none.
    pub http: String,
    /// How busy it is.
    pub load: NodeLoad,
    /// It takes no further streams and will leave.
    pub draining: bool,
    /// This node has a link to it, or is it.
    pub reachable: bool,
}

/// How busy a node is, a few seconds ago.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, ToSchema)]
pub struct NodeLoad {
    /// Of all protocols.
    pub players: u32,
    /// Streams published there.
    pub streams: u32,
    /// CPU of its busiest worker, in percent of a core.
    pub cpu_percent: f32,
    /// Sent to players and other nodes.
    pub egress_bits_per_second: u64,
}

/// The link between this node and another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct ClusterLink {
    /// The other node.
    pub node: String,
    /// Whether there is a connection.
    pub state: LinkState,
    /// How long it has been in this state.
    pub state_seconds: u64,
    /// Why there is no connection, or why the last one ended.
    pub last_problem: Option<String>,
    /// Null until it was measured, and while there is no connection.
    pub round_trip_ms: Option<f32>,
    /// Datagrams of the other node come. It answers one a second at least; without any for 4 s the way is
    /// closed to UDP, one way or both, and streams of packets are fetched from other nodes.
    pub packets_heard: bool,
    /// To the other node.
    pub sent: LinkDirection,
    /// From it.
    pub received: LinkDirection,
}

/// State of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LinkState {
    /// Connected.
    Up,
    /// There is no connection; it is tried again.
    #[default]
    Down,
}

/// One direction of a link. Totals are since it was connected, rates are of the last second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, ToSchema)]
pub struct LinkDirection {
    /// Streams that go this way.
    pub streams: u32,
    /// Frames, packets and control together.
    pub bytes: u64,
    /// The same, as a rate.
    pub bits_per_second: u64,
    /// Frames, over TCP.
    pub frames: u64,
    /// Frames left out up to a key frame because the link was too slow.
    pub dropped_frames: u64,
    /// Frames dropped because another node had brought them: after a change, a stream comes again from a key
    /// frame on.
    pub repeated_frames: u64,
    /// Frames dropped because the key frame that they need was missing after such a change.
    pub undecodable_frames: u64,
    /// Frames dropped because their stream was not wanted from that node any more.
    pub unwanted_frames: u64,
    /// Packets, over UDP, each once.
    pub packets: u64,
    /// The same, as a rate.
    pub packets_per_second: u64,
    /// Packets that were lost on the way and sent again in time.
    pub repaired_packets: u64,
    /// Packets that were lost for good.
    pub given_up_packets: u64,
    /// Packets lost on the way, repaired or not; null while none are sent.
    pub loss_percent: Option<f32>,
}

/// A stream of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ClusterStream {
    /// `app/name`.
    #[schema(example = "live/show")]
    pub stream: String,
    /// How it travels.
    pub lane: Lane,
    /// Its codecs, by name.
    pub codecs: Vec<String>,
    /// Node of its publisher.
    pub home: String,
    /// Nodes that fetch it.
    pub edges: Vec<StreamEdge>,
}

/// How a stream travels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Published by RTMP or a source of the server: frames over TCP.
    #[default]
    Frames,
    /// Published by WHIP: packets over UDP.
    Packets,
}

/// A node that fetches a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct StreamEdge {
    /// Its name.
    pub node: String,
    /// The node that it fetches from: the home, or another edge.
    pub parent: String,
}

/// Streams of the cluster, by where they are published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct StreamsByHome {
    /// On this node.
    pub here: usize,
    /// On another one, and fetched here.
    pub fetched: usize,
    /// On another one, and not fetched here.
    pub elsewhere: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_what_sorting_everything_would_give() {
        // Names in no order: 7 is prime to 100.
        let names: Vec<String> = (0..100).map(|n| format!("live/Cam{:02}", n * 7 % 100)).collect();
        let mut sorted: Vec<&String> = names.iter().collect();
        sorted.sort();
        for (offset, limit) in [(0, 10), (95, 10), (100, 1), (500, 5), (3, 0), (0, 1000), (50, usize::MAX)] {
            let listed = ListedStreams { offset, limit, ..ListedStreams::default() };
            let expected: Vec<&String> = sorted.iter().copied().skip(offset).take(limit).collect();
            assert_eq!(listed.page(&names, |name| name), (expected, 100), "{offset} {limit}");
        }
    }

    #[test]
    fn one_stream_or_a_part_of_the_name_can_be_asked_for() {
        let names = ["live/Cam", "live/cam2", "film/cam", "film/other"];
        let found = |stream: Option<&str>, search: Option<&str>| {
            let [stream, search] = [stream, search].map(|text| text.map(str::to_owned));
            ListedStreams { stream, search, offset: 0, limit: 2 }.page(names, |name| name)
        };
        assert_eq!(found(Some("live/cam2"), None), (vec!["live/cam2"], 1));
        assert_eq!(found(Some("cam2"), None), (vec![], 0), "the whole name");
        assert_eq!(found(None, Some("CAM")), (vec!["film/cam", "live/Cam"], 3));
        assert_eq!(found(Some("film/other"), Some("cam")), (vec![], 0), "both have to fit");
    }
}
