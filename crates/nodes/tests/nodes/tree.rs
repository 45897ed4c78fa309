//! A stream on many nodes: who fetches it from whom.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::node::{Node, Options, STREAM, frame, numbers, received_up_to};
use crate::server::{DEADLINE, Server, until};
use crate::wire::Wire;

async fn start(server: &Server, names: &[&str], fan_out_max: usize) -> Vec<Node> {
    let mut nodes = Vec::new();
    for name in names {
        nodes.push(Node::start(server, name, Options { fan_out_max, ..Options::default() }).await);
    }
    for node in &nodes {
        node.linked(names.len() - 1).await;
    }
    nodes
}

/// Child and parent, as a node's directory has them.
async fn feeds(node: &Node) -> BTreeMap<String, String> {
    let streams = node.status().await.streams;
    let stream = streams.into_iter().find(|status| status.stream == STREAM);
    stream
        .map(|stream| stream.edges.into_iter().map(|edge| (edge.node, edge.parent)).collect())
        .unwrap_or_default()
}

#[tokio::test]
async fn a_node_feeds_no_more_than_it_may_and_names_others() {
    let Some(server) = Server::start().await else { return };
    let nodes = start(&server, &["a", "b", "c", "d", "e", "f"], 2).await;
    nodes[0].worker.publish(STREAM, false);
    nodes[0].worker.send(STREAM, frame(0));
    // All at once: the directory knows of none when each of them chooses.
    for node in &nodes[1..] {
        node.knows(STREAM).await;
    }
    nodes[1..].iter().for_each(|node| node.worker.want(STREAM, true));
    for node in &nodes[1..] {
        received_up_to(node, STREAM, 0).await;
    }
    (1..30).for_each(|number| nodes[0].worker.send(STREAM, frame(number)));
    for node in &nodes[1..] {
        received_up_to(node, STREAM, 29).await;
        assert_eq!(numbers(&node.worker.received(STREAM)), (0..30).collect::<Vec<_>>(), "{}", node.name);
    }
    for node in &nodes {
        assert!(node.worker.taps(STREAM) <= 2, "{} feeds {}", node.name, node.worker.taps(STREAM));
    }
    // Chosen at once, it may be deep at first; leaves that are too deep look again every two seconds.
    let begun = tokio::time::Instant::now();
    loop {
        let tree = feeds(&nodes[0]).await;
        let depths: Vec<_> = tree.keys().map(|node| depth(&tree, node)).collect();
        if tree.len() == 5 && depths.iter().all(|depth| (1..=3).contains(depth)) {
            break;
        }
        assert!(begun.elapsed() < DEADLINE, "{tree:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (30..35).for_each(|number| nodes[0].worker.send(STREAM, frame(number)));
    for node in &nodes[1..] {
        received_up_to(node, STREAM, 34).await;
        assert_eq!(numbers(&node.worker.received(STREAM)), (0..35).collect::<Vec<_>>(), "{}", node.name);
    }
}

/// Nodes between this one and the home, which is "a"; 0 if it does not lead there.
fn depth(tree: &BTreeMap<String, String>, node: &str) -> usize {
    let (mut at, mut depth) = (node, 0);
    while at != "a" {
        match tree.get(at) {
            Some(parent) if depth < tree.len() => at = parent,
            _ => return 0,
        }
        depth += 1;
    }
    depth
}

#[tokio::test]
async fn a_parent_that_dies_is_replaced_and_no_frame_is_missing() {
    let Some(server) = Server::start().await else { return };
    let mut nodes = start(&server, &["a", "b", "c", "d"], 1).await;
    nodes[0].worker.publish(STREAM, false);
    nodes[0].worker.send(STREAM, frame(0));
    // A chain, in the order in which they come.
    for node in &nodes[1..] {
        node.worker.want(STREAM, true);
        received_up_to(node, STREAM, 0).await;
    }
    let chain = [("b", "a"), ("c", "b"), ("d", "c")];
    let chain: BTreeMap<_, _> =
        chain.map(|(child, parent)| (child.to_owned(), parent.to_owned())).into_iter().collect();
    let begun = tokio::time::Instant::now();
    while feeds(&nodes[0]).await != chain {
        assert!(begun.elapsed() < DEADLINE, "{:?}", feeds(&nodes[0]).await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (1..5).for_each(|number| nodes[0].worker.send(STREAM, frame(number)));
    received_up_to(&nodes[3], STREAM, 4).await;
    nodes[1].kill();
    // The stream goes on meanwhile, and the group of pictures keeps what nobody takes.
    (5..10).for_each(|number| nodes[0].worker.send(STREAM, frame(number)));
    received_up_to(&nodes[3], STREAM, 9).await;
    for node in &nodes[2..] {
        assert_eq!(numbers(&node.worker.received(STREAM)), (0..10).collect::<Vec<_>>(), "{}", node.name);
        assert_eq!(node.worker.publications(STREAM), 1, "{}", node.name);
    }
}

#[tokio::test]
async fn nodes_of_one_region_fetch_from_each_other() {
    let Some(server) = Server::start().await else { return };
    let home = Node::start(&server, "home", Options::default()).await;
    let far = |region| Options { region, ..Options::default() };
    let one = Node::start(&server, "one", far("nyc")).await;
    let two = Node::start(&server, "two", far("nyc")).await;
    for node in [&home, &one, &two] {
        node.linked(2).await;
    }
    home.worker.publish(STREAM, false);
    home.worker.send(STREAM, frame(0));
    for node in [&one, &two] {
        node.worker.want(STREAM, true);
        received_up_to(node, STREAM, 0).await;
    }
    until("one of them feeds the other", || one.worker.taps(STREAM) == 1).await;
    assert_eq!(home.worker.taps(STREAM), 1);
}

/// Nodes of these names and fan-outs, all linked. Two of them reach each other by wires, which are theirs
/// alone if all others come after both by name, or have opened their links themselves.
async fn start_wired(server: &Server, names: &[(&str, usize)], wired: [&str; 2]) -> (Vec<Node>, [Wire; 2]) {
    let wires = [Wire::new().await, Wire::new().await];
    let mut nodes = Vec::new();
    for &(name, fan_out_max) in names {
        let wire = wired.iter().position(|wired| *wired == name).map(|at| &wires[at]);
        let announced = wire.map(|wire| wire.address);
        let node = Node::start(server, name, Options { fan_out_max, announced, ..Options::default() }).await;
        if let Some(wire) = wire {
            wire.set_target(node.nodes().addresses()[0]);
        }
        nodes.push(node);
    }
    for node in &nodes {
        node.linked(names.len() - 1).await;
    }
    (nodes, wires)
}

/// Waits until this is the tree, child and parent.
async fn becomes(node: &Node, tree: &[(&str, &str)]) {
    let tree = tree.iter().map(|&(child, parent)| (child.to_owned(), parent.to_owned())).collect();
    let begun = tokio::time::Instant::now();
    while feeds(node).await != tree {
        assert!(begun.elapsed() < DEADLINE, "{:?}", feeds(node).await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Sends frames until all nodes but the first have got one of them that was sent when this began.
async fn all_are_fed(nodes: &[Node], first: i64) {
    let last = |node: &Node| numbers(&node.worker.received(STREAM)).last().copied();
    let begun = tokio::time::Instant::now();
    let mut number = first;
    while nodes[1..].iter().any(|node| last(node) < Some(first)) {
        assert!(begun.elapsed() < DEADLINE, "{:?}", feeds(&nodes[0]).await);
        nodes[0].worker.send(STREAM, frame(number));
        number += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_node_leaves_a_parent_that_has_lost_its_own() {
    let Some(server) = Server::start().await else { return };
    let (nodes, wires) = start_wired(&server, &[("a", 1), ("b", 1), ("c", 1)], ["a", "b"]).await;
    nodes[0].worker.publish(STREAM, false);
    nodes[0].worker.send(STREAM, frame(0));
    for node in &nodes[1..] {
        node.worker.want(STREAM, true);
        received_up_to(node, STREAM, 0).await;
    }
    becomes(&nodes[0], &[("b", "a"), ("c", "b")]).await;
    wires.iter().for_each(|wire| wire.set_open(false));
    all_are_fed(&nodes, 1).await;
    becomes(&nodes[0], &[("b", "c"), ("c", "a")]).await;
}

/// The home is full, though others think that it has room, and knows a node with room: one that the node
/// that asks feeds, by way of another one.
#[tokio::test]
async fn a_node_is_not_sent_to_one_that_it_feeds() {
    let Some(server) = Server::start().await else { return };
    // Nobody but c has room for d, whatever round trips make it ask first.
    let names = [("h", 1), ("b", 1), ("c", 2), ("d", 2), ("e", 2)];
    let (nodes, wires) = start_wired(&server, &names, ["b", "c"]).await;
    nodes[0].worker.publish(STREAM, false);
    nodes[0].worker.send(STREAM, frame(0));
    for (at, node) in nodes.iter().enumerate().skip(1) {
        node.worker.want(STREAM, true);
        received_up_to(node, STREAM, 0).await;
        // The last one may already have found a place that is less deep.
        let chain = [("b", "h"), ("c", "b"), ("d", "c")];
        if let Some(chain) = chain.get(..at) {
            becomes(&nodes[0], chain).await;
        }
    }
    wires.iter().for_each(|wire| wire.set_open(false));
    let begun = tokio::time::Instant::now();
    while feeds(&nodes[0]).await.get("c").is_some_and(|parent| parent == "b") {
        assert!(begun.elapsed() < DEADLINE, "c has not lost its parent: {:?}", feeds(&nodes[0]).await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    all_are_fed(&nodes, 1).await;
}
