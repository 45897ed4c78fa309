//! How many nodes do so many viewers need, and what does each node of a cluster carry?
//!
//! ```text
//! scripts/bench sizing [--set NAME=VALUE]...
//! ```
//! A model, not a measurement: what a viewer, a packet from another node and a packet to another node cost
//! was measured (each input says where) and is added up over trees that `cluster::parent::choose_parent`
//! makes, node after node, as in a cluster. Then a tenth of the nodes die: their viewers come to others of
//! the region, who lost their parent chooses again, and a publisher whose node died comes back on another.
//! Random numbers come from a fixed seed: the same inputs print the same lines.
//!
//! Not in the model: viewers that come to nodes unevenly, packets that are lost, memory, and what is
//! between nodes but media.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use cluster::NodeName;
use cluster::parent::{Candidate, choose_parent, is_too_deep};

const FAN_OUT_MAX: usize = 8;
const NODES: [usize; 7] = [1, 2, 5, 10, 20, 50, 100];
/// Up to here nodes are looked for that are enough; `nan` if they are not.
const NODES_MAX: usize = 100;
const VIEWERS: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Of a core and of a link, at most this much is used.
const USED_MAX: f64 = 0.8;
/// Nodes that may die: one in so many, and at least one.
const DIES_ONE_IN: usize = 10;
/// Regions, and which part of the viewers, publishers and nodes is there.
const REGIONS: [(&str, f64); 3] = [("eu", 0.5), ("us", 0.3), ("ap", 0.2)];
/// Round trips between regions, in milliseconds.
const ROUND_TRIP_MS: [[u64; 3]; 3] = [[2, 90, 180], [90, 2, 150], [180, 150, 2]];

/// What something costs.
struct Input {
    name: &'static str,
    value: f64,
    unit: &'static str,
    source: &'static str,
}

const INPUTS: [Input; 12] = [
    input(
        "packets_per_second",
        121.0,
        "packets/s",
        "a stream of 600 kbit/s video and 64 kbit/s audio (rtc.md)",
    ),
    input("media_kbit_per_second", 664.0, "kbit/s", "the same, without headers"),
    input("whep_bytes_per_packet", 64.0, "bytes", "IP, UDP, RTP with extensions, tag of AES-GCM"),
    input("relay_bytes_per_packet", 80.0, "bytes", "the same, and 16 private bytes (decision 36)"),
    input("whep_us_per_packet", 3.3, "us", "2006 viewers at 80 % of a core, AMD EPYC (rtc.md)"),
    input(
        "flv_ms_per_second",
        0.058,
        "ms",
        "a player by HTTP-FLV, merged for 100 ms, all overheads (README)",
    ),
    input("flv_kbit_per_second", 700.0, "kbit/s", "such a player: media, FLV, TCP and IP"),
    input("relay_out_us_per_packet", 2.6, "us", "for each node, gso, 10 nodes, 600 kbit/s (decision 36)"),
    input("relay_in_us_per_packet", 7.6, "us", "as from one of 100 publishers (rtc.md); not measured itself"),
    input("publisher_us_per_packet", 7.6, "us", "one of 100 publishers by WHIP (rtc.md)"),
    input("crossing_factor", 1.07, "times", "one stream on 8 workers over one worker (workers.md)"),
    input("idle_percent", 0.03, "% of a core", "a node in the directory (directory.md)"),
];

const fn input(name: &'static str, value: f64, unit: &'static str, source: &'static str) -> Input {
    Input { name, value, unit, source }
}

struct Inputs(Vec<Input>);

impl Inputs {
    fn of(&self, name: &str) -> f64 {
        self.0.iter().find(|input| input.name == name).expect("an input of the table").value
    }

    fn set(&mut self, text: &str) -> Option<()> {
        let (name, value) = text.split_once('=')?;
        self.0.iter_mut().find(|input| input.name == name)?.value = value.parse().ok()?;
        Some(())
    }

    fn whep_gbit(&self) -> f64 {
        self.gbit("whep_bytes_per_packet")
    }

    fn relay_gbit(&self) -> f64 {
        self.gbit("relay_bytes_per_packet")
    }

    /// Of one stream with these bytes beside each packet's media.
    fn gbit(&self, bytes: &str) -> f64 {
        let headers = self.of("packets_per_second") * self.of(bytes) * 8.0 / 1e9;
        self.of("media_kbit_per_second") / 1e6 + headers
    }

    /// Cores for a packet rate of one stream at this cost of a packet.
    fn cores(&self, us: &str) -> f64 {
        self.of("packets_per_second") * self.of(us) / 1e6
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Whep,
    Flv,
}

/// What viewers watch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mix {
    /// All of them one stream.
    Event,
    /// A hundred streams, of which the n-th has a share of 1/n.
    Channels,
    /// Ten viewers each.
    Rooms,
}

const MIXES: [(Mix, &str); 3] = [(Mix::Event, "event"), (Mix::Channels, "channels"), (Mix::Rooms, "rooms")];
const CHANNELS: usize = 100;
const ROOM_VIEWERS: usize = 10;
/// More rooms would take minutes, and tell nothing else.
const ROOMS_MAX: usize = 10_000;

fn main() -> ExitCode {
    let mut inputs = Inputs(INPUTS.into());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let set = argument == "--set" && arguments.next().is_some_and(|text| inputs.set(&text).is_some());
        if !set {
            eprintln!("usage: sizing [--set NAME=VALUE]...");
            return ExitCode::from(2);
        }
    }
    for Input { name, value, unit, source } in &inputs.0 {
        println!("{name:24} {value:>8} {unit:12} {source}");
    }
    let mut results = carried(&inputs);
    results.extend(needed(&inputs));
    for result in results {
        println!("RESULT {result}");
    }
    ExitCode::SUCCESS
}

/// What nodes carry, for each mix and number of nodes and viewers.
fn carried(inputs: &Inputs) -> Vec<String> {
    let mut results = Vec::new();
    println!("\nviewers by WHEP; each node: mean / worst; then the same when one in {DIES_ONE_IN} has died");
    println!(
        "    mix  viewers streams nodes dead    egress Gbit/s  of that relay        cores    depth  feeds  ms"
    );
    for (mix, name) in MIXES {
        for viewers in VIEWERS {
            let streams = shares(mix, viewers).len();
            if mix == Mix::Rooms && streams > ROOMS_MAX {
                continue;
            }
            for nodes in NODES {
                let mut cluster = Cluster::new(nodes, mix, viewers);
                let mut dead = 0;
                loop {
                    let Load { egress, cores, relay_percent, depth, feeds, path_ms, unfed } =
                        cluster.load(inputs, Protocol::Whep);
                    let (Figure { mean, worst }, again) = (egress, cluster.chose_again);
                    let (cores_mean, cores_worst) = (cores.mean, cores.worst);
                    println!(
                        "{name:>8} {viewers:>8} {streams:>6} {nodes:>6} {dead:>4} {mean:>8.3} /{worst:>7.3} \
                         {relay_percent:>6.1} % {cores_mean:>8.2} /{cores_worst:>6.2} {depth:>4} {feeds:>6} \
                         {path_ms:>4}",
                    );
                    results.push(format!(
                        "sizing mix={name} viewers={viewers} streams={streams} nodes={nodes} dead={dead} \
                         egress_gbit_mean={mean:.4} egress_gbit_worst={worst:.4} \
                         relay_percent={relay_percent:.2} cores_mean={cores_mean:.3} \
                         cores_worst={cores_worst:.3} depth={depth} feeds_worst={feeds} path_ms={path_ms} \
                         unfed={unfed} chose_again={again}",
                    ));
                    if dead > 0 || nodes == 1 {
                        break;
                    }
                    dead = cluster.lose_some();
                }
            }
        }
    }
    results
}

/// How many nodes so many viewers need, so that the worst one has room left.
fn needed(inputs: &Inputs) -> Vec<String> {
    let mut results = Vec::new();
    println!("\nnodes that viewers of one stream need: all alive / when one in {DIES_ONE_IN} has died");
    for (cores, gbit) in [(4, 1), (8, 10), (32, 25)] {
        for (protocol, name) in [(Protocol::Whep, "whep"), (Protocol::Flv, "flv")] {
            for viewers in VIEWERS {
                let fits = |load: &Load| {
                    let (egress, cores_used) = (load.egress.worst, load.cores.worst);
                    egress <= f64::from(gbit) * USED_MAX && cores_used <= f64::from(cores) * USED_MAX
                };
                // What the mean alone needs is where the search begins.
                let one = Cluster::new(1, Mix::Event, viewers).load(inputs, protocol);
                let least =
                    (one.egress.worst / f64::from(gbit)).max(one.cores.worst / f64::from(cores)) / USED_MAX;
                let (mut alive, mut spare) = (None, None);
                for nodes in (least as usize).max(1)..=NODES_MAX {
                    let mut cluster = Cluster::new(nodes, Mix::Event, viewers);
                    if alive.is_none() && fits(&cluster.load(inputs, protocol)) {
                        alive = Some(nodes);
                    }
                    if nodes > 1 && alive.is_some() {
                        cluster.lose_some();
                        if fits(&cluster.load(inputs, protocol)) {
                            spare = Some(nodes);
                            break;
                        }
                    }
                }
                let [alive, spare] =
                    [alive, spare].map(|nodes| nodes.map_or("nan".to_owned(), |nodes| nodes.to_string()));
                println!(
                    "{cores:>3} cores {gbit:>3} Gbit/s {name:>5} {viewers:>8} viewers: {alive:>5} /{spare:>6}"
                );
                results.push(format!(
                    "sizing-needs cores={cores} gbit={gbit} protocol={name} viewers={viewers} nodes={alive} \
                     nodes_with_spare={spare}"
                ));
            }
        }
    }
    results
}

/// Viewers of each stream.
fn shares(mix: Mix, viewers: usize) -> Vec<usize> {
    match mix {
        Mix::Event => vec![viewers],
        Mix::Channels => {
            let all: f64 = (1..=CHANNELS).map(|rank| 1.0 / rank as f64).sum();
            (1..=CHANNELS).map(|rank| (viewers as f64 / all / rank as f64).round() as usize).collect()
        }
        Mix::Rooms => vec![ROOM_VIEWERS; viewers / ROOM_VIEWERS],
    }
}

struct Cluster {
    nodes: Vec<Node>,
    streams: Vec<Stream>,
    random: Random,
    /// Nodes and streams for which another parent was chosen after the losses.
    chose_again: usize,
}

struct Node {
    name: NodeName,
    region: usize,
    alive: bool,
}

struct Stream {
    home: usize,
    /// By node.
    viewers: BTreeMap<usize, usize>,
    /// Child and parent.
    feeds: Vec<(NodeName, NodeName)>,
}

/// Of all nodes that live.
#[derive(Default)]
struct Figure {
    mean: f64,
    worst: f64,
}

struct Load {
    egress: Figure,
    cores: Figure,
    relay_percent: f64,
    depth: usize,
    /// Nodes that the busiest one feeds, of all streams.
    feeds: usize,
    /// Half of the round trips from a home to the farthest node.
    path_ms: u64,
    /// Viewers at nodes that do not get their stream.
    unfed: usize,
}

impl Cluster {
    fn new(nodes: usize, mix: Mix, viewers: usize) -> Self {
        let mut counts = [0_usize; REGIONS.len()];
        let nodes = (0..nodes).map(|number| {
            // Where the most of its share lacks.
            let lacks = |region: &usize| REGIONS[*region].1 * (number + 1) as f64 - counts[*region] as f64;
            let region =
                (0..REGIONS.len()).max_by(|a, b| lacks(a).total_cmp(&lacks(b))).expect("there are regions");
            counts[region] += 1;
            Node { name: name(number), region, alive: true }
        });
        let nodes = nodes.collect();
        let mut cluster = Self { nodes, streams: Vec::new(), random: Random(1), chose_again: 0 };
        for viewers in shares(mix, viewers) {
            let home = cluster.arrive();
            let mut stream = Stream { home, viewers: BTreeMap::new(), feeds: Vec::new() };
            for _ in 0..viewers {
                *stream.viewers.entry(cluster.arrive()).or_default() += 1;
            }
            let mut order: Vec<_> = stream.viewers.keys().copied().collect();
            cluster.random.shuffle(&mut order);
            for node in order {
                cluster.choose(&mut stream, node);
            }
            cluster.streams.push(stream);
        }
        cluster
    }

    /// A node for somebody who comes from anywhere.
    fn arrive(&mut self) -> usize {
        let (mut part, mut region) = (self.random.part(), 0);
        while region + 1 < REGIONS.len() && part >= REGIONS[region].1 {
            part -= REGIONS[region].1;
            region += 1;
        }
        self.node_for(region)
    }

    /// Any that lives in this region, or in the nearest one that has some.
    fn node_for(&mut self, region: usize) -> usize {
        let mut regions: Vec<_> = (0..REGIONS.len()).collect();
        regions.sort_by_key(|&other| ROUND_TRIP_MS[region][other]);
        for region in regions {
            let nodes = self.nodes.iter().enumerate().filter(|(_, node)| node.alive && node.region == region);
            let count = nodes.clone().count();
            if count > 0 {
                let chosen = self.random.below(count);
                return nodes.map(|(number, _)| number).nth(chosen).expect("so many were counted");
            }
        }
        unreachable!("some node lives")
    }

    /// The node fetches the stream, or fetches it from another than before.
    fn choose(&self, stream: &mut Stream, node: usize) {
        let me = &self.nodes[node];
        stream.feeds.retain(|(child, _)| *child != me.name);
        if node == stream.home {
            return;
        }
        let candidates = self.nodes.iter().filter(|other| other.alive).map(|other| Candidate {
            name: other.name.clone(),
            region: REGIONS[other.region].0.to_owned(),
            round_trip: Some(Duration::from_millis(ROUND_TRIP_MS[me.region][other.region])),
            excluded: false,
        });
        let candidates: Vec<_> = candidates.collect();
        let (region, home) = (REGIONS[me.region].0, &self.nodes[stream.home].name);
        let parent = choose_parent(&me.name, region, home, &stream.feeds, &candidates, FAN_OUT_MAX);
        stream.feeds.extend(parent.map(|parent| (me.name.clone(), parent)));
    }

    /// One node in ten dies. Returns how many these are.
    fn lose_some(&mut self) -> usize {
        let dying = self.nodes.len().div_ceil(DIES_ONE_IN);
        let mut order: Vec<_> = (0..self.nodes.len()).collect();
        self.random.shuffle(&mut order);
        for &node in &order[..dying] {
            self.nodes[node].alive = false;
        }
        let numbers: BTreeMap<_, _> =
            self.nodes.iter().enumerate().map(|(number, node)| (node.name.clone(), number)).collect();
        for mut stream in std::mem::take(&mut self.streams) {
            for &node in &order[..dying] {
                let region = self.nodes[node].region;
                for _ in 0..stream.viewers.remove(&node).unwrap_or(0) {
                    *stream.viewers.entry(self.node_for(region)).or_default() += 1;
                }
            }
            if !self.nodes[stream.home].alive {
                stream.home = self.node_for(self.nodes[stream.home].region);
            }
            let alive = |name: &NodeName| self.nodes[numbers[name]].alive;
            stream.feeds.retain(|(child, parent)| alive(child) && alive(parent));
            let fetches: Vec<_> = stream.feeds.iter().map(|(child, _)| numbers[child]).collect();
            let home = stream.home;
            if fetches.contains(&home) {
                self.choose(&mut stream, home);
            }
            let wants: Vec<_> =
                stream.viewers.keys().copied().filter(|node| !fetches.contains(node)).collect();
            for node in wants {
                self.choose(&mut stream, node);
                self.chose_again += 1;
            }
            // Those at the ends of branches that are deeper than they have to be, one after the other.
            for _ in 0..self.nodes.len() {
                let home = &self.nodes[stream.home].name;
                let deep = stream.feeds.iter().map(|(child, _)| child).find(|child| {
                    stream.feeds.iter().all(|(_, parent)| parent != *child)
                        && is_too_deep(child, home, &stream.feeds, FAN_OUT_MAX)
                });
                let Some(deep) = deep.map(|deep| numbers[deep]) else { break };
                self.choose(&mut stream, deep);
                self.chose_again += 1;
            }
            self.streams.push(stream);
        }
        dying
    }

    fn load(&self, inputs: &Inputs, protocol: Protocol) -> Load {
        let (viewer_gbit, viewer_cores) = match protocol {
            Protocol::Whep => (inputs.whep_gbit(), inputs.cores("whep_us_per_packet")),
            Protocol::Flv => (inputs.of("flv_kbit_per_second") / 1e6, inputs.of("flv_ms_per_second") / 1e3),
        };
        let viewer_cores = viewer_cores * inputs.of("crossing_factor");
        let living = self.nodes.iter().filter(|node| node.alive).count();
        // Announcements of all and what its own takes, over the same with three nodes, as it was measured.
        let idle = inputs.of("idle_percent") / 100.0 * (living + 2) as f64 / 5.0;
        let numbers: BTreeMap<_, _> =
            self.nodes.iter().enumerate().map(|(number, node)| (&node.name, number)).collect();
        let mut egress = vec![0.0; self.nodes.len()];
        let mut cores = vec![idle; self.nodes.len()];
        let mut feeds = vec![0; self.nodes.len()];
        let (mut relay, mut depth, mut path_ms, mut unfed) = (0.0, 0, 0, 0);
        for stream in &self.streams {
            cores[stream.home] += inputs.cores("publisher_us_per_packet");
            for (&node, &viewers) in &stream.viewers {
                egress[node] += viewers as f64 * viewer_gbit;
                cores[node] += viewers as f64 * viewer_cores;
            }
            let parents: BTreeMap<_, _> =
                stream.feeds.iter().map(|(child, parent)| (numbers[child], numbers[parent])).collect();
            for (&child, &parent) in &parents {
                egress[parent] += inputs.relay_gbit();
                cores[parent] += inputs.cores("relay_out_us_per_packet");
                cores[child] += inputs.cores("relay_in_us_per_packet");
                feeds[parent] += 1;
                relay += inputs.relay_gbit();
            }
            for (&node, &viewers) in &stream.viewers {
                let (mut at, mut hops, mut trip) = (node, 0, 0);
                while let Some(&parent) = parents.get(&at).filter(|_| hops <= parents.len()) {
                    trip += ROUND_TRIP_MS[self.nodes[at].region][self.nodes[parent].region];
                    (at, hops) = (parent, hops + 1);
                }
                if at == stream.home {
                    (depth, path_ms) = (depth.max(hops), path_ms.max(trip / 2));
                } else {
                    unfed += viewers;
                }
            }
        }
        let figure = |values: &[f64]| {
            let values =
                values.iter().zip(&self.nodes).filter(|(_, node)| node.alive).map(|(value, _)| *value);
            Figure { mean: values.clone().sum::<f64>() / living as f64, worst: values.fold(0.0, f64::max) }
        };
        let relay_percent = relay / egress.iter().sum::<f64>() * 100.0;
        let feeds = feeds.into_iter().max().unwrap_or(0);
        Load { egress: figure(&egress), cores: figure(&cores), relay_percent, depth, feeds, path_ms, unfed }
    }
}

fn name(number: usize) -> NodeName {
    NodeName::new(&format!("n{number:03}")).expect("a plain name")
}

/// Knuth's linear congruential generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end
    }

    /// From 0 to 1.
    fn part(&mut self) -> f64 {
        self.next() as f64 / (1_u64 << 31) as f64
    }

    fn shuffle(&mut self, values: &mut [usize]) {
        for at in (1..values.len()).rev() {
            values.swap(at, self.below(at + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use cluster::parent::depth_max;

    use super::*;

    #[test]
    fn all_viewers_are_fed_and_no_node_feeds_too_many_also_after_losses() {
        for (mix, _) in MIXES {
            for nodes in [2, 9, 40, 100] {
                let mut cluster = Cluster::new(nodes, mix, 2_000);
                for dead in [0, nodes.div_ceil(DIES_ONE_IN)] {
                    if dead > 0 {
                        assert_eq!(cluster.lose_some(), dead);
                    }
                    let load = cluster.load(&Inputs(INPUTS.into()), Protocol::Whep);
                    assert_eq!(load.unfed, 0, "{nodes} nodes, {dead} dead");
                    assert!(load.depth <= depth_max(nodes, FAN_OUT_MAX), "{nodes} nodes: {}", load.depth);
                    let viewers: usize =
                        cluster.streams.iter().flat_map(|stream| stream.viewers.values()).sum();
                    assert_eq!(viewers, shares(mix, 2_000).iter().sum::<usize>());
                    for stream in &cluster.streams {
                        for node in &cluster.nodes {
                            let fed = stream.feeds.iter().filter(|(_, parent)| *parent == node.name).count();
                            assert!(fed <= FAN_OUT_MAX && (fed == 0 || node.alive), "{}", node.name);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_nodes_carry_adds_up() {
        let inputs = Inputs(INPUTS.into());
        let cluster = Cluster::new(10, Mix::Event, 1_000);
        let load = cluster.load(&inputs, Protocol::Whep);
        let copies = 1_000.0 * inputs.whep_gbit() + 9.0 * inputs.relay_gbit();
        assert!((load.egress.mean * 10.0 - copies).abs() < 1e-9, "each node fetches it once");
        assert!(load.egress.worst >= load.egress.mean && load.cores.worst >= load.cores.mean);
        let mut dearer = Inputs(INPUTS.into());
        dearer.set("whep_us_per_packet=6.6").unwrap();
        assert!(cluster.load(&dearer, Protocol::Whep).cores.mean > 1.9 * load.cores.mean);
        assert_eq!(dearer.set("no_such_input=1"), None);
    }
}
