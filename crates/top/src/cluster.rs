//! The cluster of a server, as `GET /api/v1/cluster` has it, and the columns of its two tables.
//!
//! Only what is shown is read. The server is not trusted: texts are made safe for the terminal.

use serde::Deserialize;

use super::columns::{Column, FLEXIBLE, Level, Value, above, as_time, columns, exact, loss, none_is_best};
use super::wire::printable;

/// Path of it, below the base URL: without streams, of which there may be thousands.
pub(crate) const CLUSTER_PATH: &str = "/api/v1/cluster?limit=0";
/// Largest answer that is read: a thousand nodes, and as many links.
pub(crate) const CLUSTER_BYTES_MAX: u64 = 4 << 20;

/// The cluster as one of its nodes sees it.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Cluster {
    /// The node that was asked.
    pub node: String,
    /// The directory in NATS.
    #[serde(default)]
    pub directory: Directory,
    /// All that live, that node among them.
    pub nodes: Vec<Node>,
    /// Its links to the others.
    pub links: Vec<Link>,
    /// How many streams there are.
    #[serde(default)]
    pub streams_by_home: Streams,
}

/// How the directory is.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Directory {
    /// NATS answers.
    pub heard: bool,
    /// Its version.
    pub server_version: String,
    /// What last went wrong.
    pub last_problem: Option<String>,
}

/// Streams by where they are published.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Streams {
    /// On the node.
    pub here: u64,
    /// On others, and fetched.
    pub fetched: u64,
    /// On others, and not fetched.
    pub elsewhere: u64,
}

/// A node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Node {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub region: String,
    /// Of the server.
    pub version: String,
    /// Its address for other nodes.
    pub relay_tcp: String,
    /// How busy it is.
    pub load: Load,
    /// It will leave.
    pub draining: bool,
    /// There is a link to it.
    pub reachable: bool,
}

/// How busy a node is.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Load {
    /// Of all protocols.
    pub players: u64,
    /// Published there.
    pub streams: u64,
    /// Of its busiest worker.
    pub cpu_percent: f32,
    /// To players and nodes.
    pub egress_bits_per_second: u64,
}

/// A link.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Link {
    /// The other node.
    pub node: String,
    /// `up` or `down`.
    pub state: String,
    /// How long it has been so.
    pub state_seconds: u64,
    /// Why it is down, or was.
    pub last_problem: Option<String>,
    /// To the other node and back.
    pub round_trip_ms: Option<f32>,
    /// To it.
    pub sent: Direction,
    /// From it.
    pub received: Direction,
}

/// One direction of a link.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Direction {
    /// Streams that go this way.
    pub streams: u64,
    /// All that does.
    pub bits_per_second: u64,
    /// Over UDP.
    pub packets_per_second: u64,
    /// Left out because the link was too slow.
    pub dropped_frames: u64,
    /// Lost and sent again.
    pub repaired_packets: u64,
    /// Lost for good.
    pub given_up_packets: u64,
    /// Of the packets.
    pub loss_percent: Option<f32>,
}

impl Cluster {
    /// Reads an answer and cleans its texts.
    pub(crate) fn from_json(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let mut cluster: Self = serde_json::from_slice(bytes)?;
        let directory = &mut cluster.directory;
        let of_directory = [&mut directory.server_version].into_iter().chain(&mut directory.last_problem);
        let of_nodes = cluster
            .nodes
            .iter_mut()
            .flat_map(|node| [&mut node.name, &mut node.region, &mut node.version, &mut node.relay_tcp]);
        let of_links = cluster
            .links
            .iter_mut()
            .flat_map(|link| [&mut link.node, &mut link.state].into_iter().chain(&mut link.last_problem));
        for text in of_directory.chain(of_nodes).chain(of_links).chain([&mut cluster.node]) {
            *text = printable(text);
        }
        Ok(cluster)
    }

    /// Links that are up.
    pub(crate) fn links_up(&self) -> usize {
        self.links.iter().filter(|link| link.state == "up").count()
    }

    fn state(&self, node: &Node) -> &'static str {
        match node {
            _ if node.name == self.node => "this",
            Node { reachable: false, .. } => "unreachable",
            Node { draining: true, .. } => "draining",
            _ => "reachable",
        }
    }
}

fn state_of_node(value: Value<'_>) -> Level {
    match value {
        Value::Text(state) if state == "unreachable" => Level::Bad,
        Value::Text(state) if state == "draining" => Level::Warning,
        _ => Level::Good,
    }
}

fn state_of_link(value: Value<'_>) -> Level {
    if value == Value::Text("up".into()) { Level::Good } else { Level::Bad }
}

/// Rates CPU by what is left for a burst.
fn busy(value: Value<'_>) -> Level {
    above(value, 70.0, 90.0)
}

/// Round trip between nodes, in milliseconds: between any two places of the earth it is less.
fn far(value: Value<'_>) -> Level {
    above(value, 400.0, 1000.0)
}

/// A text of the answer.
fn text(text: &str) -> Value<'_> {
    Value::Text(text.into())
}

/// A measure that may be missing.
fn measure(value: Option<f32>) -> Value<'static> {
    value.filter(|value| value.is_finite()).map_or(Value::Unknown, Value::Real)
}

/// The larger of both directions.
fn worst(link: &Link) -> Value<'static> {
    let losses = [link.sent.loss_percent, link.received.loss_percent];
    measure(losses.into_iter().flatten().filter(|loss| loss.is_finite()).reduce(f32::max))
}

fn both(link: &Link, of: fn(&Direction) -> u64) -> Value<'static> {
    Value::Count(of(&link.sent).saturating_add(of(&link.received)))
}

/// Columns of the table of nodes.
pub(crate) const NODES: [Column<Cluster>; 8] = columns! {
    name "NODE", "node", FLEXIBLE, 0, "name of the node":
        |c, row| text(&c.nodes[row].name);
    name "REGION", "region", 12, 4, "where it is":
        |c, row| text(&c.nodes[row].region);
    name "STATE", "state", 11, 1, "this, reachable, draining, or unreachable: alive, without a link",
        judge state_of_node: |c, row| text(c.state(&c.nodes[row]));
    figure "PLAYERS", "players", 8, 3, "players, of all protocols", text exact:
        |c, row| Value::Count(c.nodes[row].load.players);
    figure "STREAMS", "streams", 8, 5, "streams published there", text exact:
        |c, row| Value::Count(c.nodes[row].load.streams);
    figure "CPU%", "cpu_percent", 6, 2, "CPU of its busiest worker, percent of a core", judge busy:
        |c, row| measure(Some(c.nodes[row].load.cpu_percent));
    figure "OUT", "egress_bits_per_second", 6, 6, "bits per second to players and nodes":
        |c, row| Value::Count(c.nodes[row].load.egress_bits_per_second);
    name "VERSION", "version", 10, 7, "version of the server":
        |c, row| text(&c.nodes[row].version);
};

/// Columns of the table of links.
pub(crate) const LINKS: [Column<Cluster>; 12] = columns! {
    name "LINK", "link", FLEXIBLE, 0, "the other node":
        |c, row| text(&c.links[row].node);
    name "STATE", "state", 6, 1, "up or down", judge state_of_link:
        |c, row| text(&c.links[row].state);
    figure "FOR", "state_ms", 6, 8, "time it has been so", text as_time:
        |c, row| Value::Count(c.links[row].state_seconds.saturating_mul(1000));
    figure "RTT", "rtt_ms", 6, 4, "round trip, ms", judge far:
        |c, row| measure(c.links[row].round_trip_ms);
    figure "OUT", "bits_out_per_second", 6, 2, "bits per second to the node":
        |c, row| Value::Count(c.links[row].sent.bits_per_second);
    figure "IN", "bits_in_per_second", 6, 3, "bits per second from it":
        |c, row| Value::Count(c.links[row].received.bits_per_second);
    figure "STREAMS", "streams", 8, 7, "streams on the link, both ways", text exact:
        |c, row| both(&c.links[row], |way| way.streams);
    figure "PKT/S", "packets_per_second", 6, 10, "packets per second, both ways":
        |c, row| both(&c.links[row], |way| way.packets_per_second);
    figure "LOSS%", "loss_percent", 6, 5, "percent of packets lost on the way, the worse direction",
        judge loss:
        |c, row| worst(&c.links[row]);
    figure "REPAIRED", "repaired_packets", 9, 11, "packets lost and sent again in time":
        |c, row| both(&c.links[row], |way| way.repaired_packets);
    figure "LOST", "given_up_packets", 5, 9, "packets lost for good", judge none_is_best:
        |c, row| both(&c.links[row], |way| way.given_up_packets);
    figure "DROPS", "dropped_frames", 6, 6, "frames left out because the link was too slow",
        judge none_is_best:
        |c, row| both(&c.links[row], |way| way.dropped_frames);
};

#[cfg(test)]
pub(crate) mod sample {
    use super::*;

    /// The first of so many nodes, whose others alternate between two regions; every fifth link is down.
    pub(crate) fn cluster(nodes: u64) -> Cluster {
        let name = |index: u64| format!("node-{index:02}");
        let way = |index: u64| Direction {
            streams: index % 3,
            bits_per_second: index * 1_000_000,
            packets_per_second: index * 100,
            dropped_frames: index % 4,
            repaired_packets: index * 7,
            given_up_packets: index % 2,
            loss_percent: (!index.is_multiple_of(3)).then_some(index as f32 / 10.0),
        };
        let link = |index: u64| {
            let up = index % 5 != 4;
            Link {
                node: name(index),
                state: if up { "up" } else { "down" }.to_owned(),
                state_seconds: 61 * index,
                last_problem: (!up).then(|| "connection refused".to_owned()),
                round_trip_ms: up.then_some(index as f32 * 1.5),
                sent: way(index),
                received: way(index / 2),
            }
        };
        let node = |index: u64| Node {
            name: name(index),
            region: ["fra", "nyc"][(index % 2) as usize].to_owned(),
            version: "0.1.0".to_owned(),
            relay_tcp: format!("10.0.0.{index}:8290"),
            load: Load {
                players: 1000 * index,
                streams: index,
                cpu_percent: 8.0 * index as f32,
                egress_bits_per_second: 2_500_000_000 * index,
            },
            draining: index == 3,
            reachable: index % 5 != 4,
        };
        Cluster {
            node: name(0),
            directory: Directory { heard: true, server_version: "2.10.22".to_owned(), last_problem: None },
            nodes: (0..nodes).map(node).collect(),
            links: (1..nodes).map(link).collect(),
            streams_by_home: Streams { here: 1, fetched: 2, elsewhere: 1200 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_with_what_is_missing_and_what_is_new() {
        let body = r#"{"node":"a","later":1,"directory":{"heard":true},
            "nodes":[{"name":"a\u001b[2J","region":"fra","reachable":true,"load":{"players":3}}],
            "links":[{"node":"b","state":"down","last_problem":"no\u202eroute","round_trip_ms":null}]}"#;
        let cluster = Cluster::from_json(body.as_bytes()).expect("an answer");
        assert_eq!(cluster.nodes[0].name, "a\u{fffd}[2J", "it cannot write to the terminal");
        assert_eq!(cluster.links[0].last_problem.as_deref(), Some("no\u{fffd}route"));
        assert_eq!((cluster.nodes[0].load.players, cluster.links_up()), (3, 0));
        for other in ["[]", "{}", "", r#"{"node":"a","nodes":7,"links":[]}"#] {
            assert!(Cluster::from_json(other.as_bytes()).is_err(), "{other}");
        }
    }

    #[test]
    fn cells_show_what_the_answer_says() {
        let cluster = sample::cluster(6);
        let node = |row| {
            let cell = |column: &Column<Cluster>| (column.text)((column.value)(&cluster, row)).into_owned();
            NODES.iter().map(cell).collect::<Vec<_>>()
        };
        let link = |row| {
            let cell = |column: &Column<Cluster>| (column.text)((column.value)(&cluster, row)).into_owned();
            LINKS.iter().map(cell).collect::<Vec<_>>()
        };
        assert_eq!(node(3), ["node-03", "nyc", "draining", "3,000", "3", "24.0", "7.50G", "0.1.0"]);
        assert_eq!([&node(0)[2], &node(4)[2], &node(5)[2]], ["this", "unreachable", "reachable"]);
        let expected = ["node-02", "up", "2m02s", "3.0", "2.00M", "1.00M", "3", "300", "0.2", "21", "1", "3"];
        assert_eq!(link(1), expected, "both ways: streams 2 and 1, the worse loss");
        assert_eq!(link(3)[1..4], ["down", "4m04s", "-"]);
    }
}
