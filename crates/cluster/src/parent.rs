//! Which node to fetch a stream from: the tree of a stream, as a function of what the directory says.
//!
//! A node feeds at most `fan_out_max` others. With `n` nodes that have the stream, a tree of fan-out `f`
//! needs depth `d` with `f + f^2 + ... + f^d >= n - 1`; one level more is allowed, so that nodes of one
//! region can fetch from each other: depth grows with the logarithm of `n`. As long as a node below that
//! depth has room there is a place, and if none has, all `n` nodes are in the tree already.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::names::NodeName;

/// A node that may be fetched from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub name: NodeName,
    /// Its region.
    pub region: String,
    /// Measured round trip, if there is a link.
    pub round_trip: Option<Duration>,
    /// It leaves, or cannot be reached: nobody new fetches from it.
    pub excluded: bool,
}

/// Round trips that differ by less are alike: noise must not shape the tree.
pub const ROUND_TRIP_STEP: Duration = Duration::from_millis(2);

/// The node from which `me`, of `region`, fetches the stream whose home is `home`. `feeds` are child and
/// parent, as [`crate::Directory::feeds`] has them; what `me` has there now is left out of account, but what
/// fetches from it moves along. `None` if nobody has room or can be reached.
///
/// Of those with room that get the stream themselves, not by way of `me`, and are not too deep: first those
/// of the same region, then the nearest by round trip, the least deep, the one that feeds fewest, the first
/// by name. If all are too deep for what fetches from `me`, the least deep; the deepest then choose again
/// ([`is_too_deep`]).
pub fn choose_parent(
    me: &NodeName,
    region: &str,
    home: &NodeName,
    feeds: &[(NodeName, NodeName)],
    candidates: &[Candidate],
    fan_out_max: usize,
) -> Option<NodeName> {
    let parents: BTreeMap<&NodeName, &NodeName> =
        feeds.iter().filter(|(child, _)| child != me).map(|(child, parent)| (child, parent)).collect();
    let mut children: BTreeMap<&NodeName, usize> = BTreeMap::new();
    for parent in parents.values() {
        *children.entry(parent).or_default() += 1;
    }
    let height = height_below(me, &parents);
    let in_tree = parents.keys().copied().chain([home, me]).collect::<BTreeSet<_>>().len();
    let depth_max = depth_max(in_tree, fan_out_max);
    let places = candidates.iter().filter(|candidate| candidate.name != *me && !candidate.excluded);
    let places = places.filter_map(|candidate| {
        // Who gets it by way of `me` ends at `me`, not at the home.
        let depth = depth(&candidate.name, home, &parents)?;
        let fed = children.get(&candidate.name).copied().unwrap_or(0);
        let steps =
            candidate.round_trip.map_or(u128::MAX, |time| time.as_nanos() / ROUND_TRIP_STEP.as_nanos());
        let too_deep = depth + 1 + height > depth_max;
        let rank = (if too_deep { depth } else { 0 }, candidate.region != region, steps, depth, fed);
        let rank = (too_deep, rank);
        (fed < fan_out_max).then_some((rank, &candidate.name))
    });
    places.min().map(|(_, name)| name.clone())
}

/// Whether `child` is deeper than it has to be, and should choose again if nobody fetches from it.
pub fn is_too_deep(
    child: &NodeName,
    home: &NodeName,
    feeds: &[(NodeName, NodeName)],
    fan_out_max: usize,
) -> bool {
    let parents = feeds.iter().map(|(child, parent)| (child, parent)).collect();
    depth(child, home, &parents).is_some_and(|depth| depth > depth_max(feeds.len() + 1, fan_out_max))
}

/// The nodes by which the stream comes to `node`, its parent first; `None` if they are a loop, which feeds
/// nobody.
pub fn parents(node: &NodeName, feeds: &[(NodeName, NodeName)]) -> Option<Vec<NodeName>> {
    let parents: BTreeMap<_, _> = feeds.iter().map(|(child, parent)| (child, parent)).collect();
    let (mut at, mut chain) = (node, Vec::new());
    while let Some(parent) = parents.get(at) {
        if chain.len() == parents.len() {
            return None;
        }
        chain.push(NodeName::clone(parent));
        at = parent;
    }
    Some(chain)
}

/// Whether `node` can feed `child`: it does not get the stream by way of `child`, nor in a loop.
pub fn can_feed(node: &NodeName, child: &NodeName, feeds: &[(NodeName, NodeName)]) -> bool {
    node != child && parents(node, feeds).is_some_and(|chain| !chain.contains(child))
}

/// The deepest a node may be in a tree of `nodes`, the home included.
pub fn depth_max(nodes: usize, fan_out_max: usize) -> usize {
    if fan_out_max <= 1 {
        return nodes;
    }
    let (mut depth, mut level, mut room) = (0, 1_usize, 1_usize);
    while room < nodes {
        level = level.saturating_mul(fan_out_max);
        room = room.saturating_add(level);
        depth += 1;
    }
    depth + 1
}

fn depth(node: &NodeName, home: &NodeName, parents: &BTreeMap<&NodeName, &NodeName>) -> Option<usize> {
    let (mut at, mut depth) = (node, 0);
    while at != home {
        at = parents.get(at)?;
        depth += 1;
        if depth > parents.len() {
            return None;
        }
    }
    Some(depth)
}

/// Levels of those that fetch from `me`, by way of others or not.
fn height_below(me: &NodeName, parents: &BTreeMap<&NodeName, &NodeName>) -> usize {
    parents.keys().filter_map(|node| depth(node, me, parents)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn candidate(text: &str, region: &str, round_trip_ms: u64) -> Candidate {
        let round_trip = Some(Duration::from_millis(round_trip_ms));
        Candidate { name: name(text), region: region.to_owned(), round_trip, excluded: false }
    }

    fn feeds(pairs: &[(&str, &str)]) -> Vec<(NodeName, NodeName)> {
        pairs.iter().map(|(child, parent)| (name(child), name(parent))).collect()
    }

    fn chosen(fed: &[(&str, &str)], candidates: &[Candidate], fan_out_max: usize) -> Option<String> {
        let parent = choose_parent(&name("me"), "fra", &name("home"), &feeds(fed), candidates, fan_out_max);
        parent.map(|parent| parent.to_string())
    }

    #[test]
    fn region_comes_before_round_trip_and_room_before_both() {
        let home = candidate("home", "nyc", 90);
        let (a, b) = (candidate("a", "fra", 5), candidate("b", "fra", 1));
        let all = [home.clone(), a.clone(), b.clone()];
        // (feeds, candidates, fan-out, chosen, remark)
        for (fed, candidates, fan_out_max, parent, remark) in [
            (&[][..], &all[..], 8, Some("home"), "nobody else has it"),
            (&[("a", "home")], &all, 8, Some("a"), "same region"),
            (&[("a", "home"), ("b", "home")], &all, 8, Some("b"), "nearer"),
            (&[("a", "home"), ("b", "home"), ("c", "b")], &all, 1, Some("a"), "that one is full"),
            (&[("a", "home")], &all, 1, Some("a"), "the home is full"),
            (&[("a", "home"), ("b", "a"), ("c", "b")], &all, 1, None, "all are full"),
            (&[("a", "me"), ("b", "a")], &all, 8, Some("home"), "who gets it from us cannot give it"),
            (&[("a", "b"), ("b", "a")], &all, 8, Some("home"), "a loop gets nothing"),
            (&[("a", "gone")], &all, 8, Some("home"), "its parent does not get it"),
            (&[("me", "a"), ("a", "home")], &all, 1, Some("a"), "the place one has is free for oneself"),
        ] {
            assert_eq!(chosen(fed, candidates, fan_out_max).as_deref(), parent, "{remark}");
        }
        let excluded = Candidate { excluded: true, ..a };
        assert_eq!(chosen(&[("a", "home")], &[home, excluded], 8).as_deref(), Some("home"), "it leaves");
    }

    #[test]
    fn alike_round_trips_do_not_make_chains() {
        let candidates = [candidate("home", "fra", 2), candidate("a", "fra", 2), candidate("b", "fra", 3)];
        assert_eq!(chosen(&[("a", "home"), ("b", "a")], &candidates, 8).as_deref(), Some("home"));
    }

    #[test]
    fn depth_grows_with_the_logarithm_of_the_nodes() {
        // (nodes, fan-out, depth)
        for (nodes, fan_out_max, depth) in
            [(1, 8, 1), (9, 8, 2), (10, 8, 3), (73, 8, 3), (1000, 8, 5), (5, 1, 5)]
        {
            assert_eq!(depth_max(nodes, fan_out_max), depth, "{nodes} nodes, fan-out {fan_out_max}");
        }
    }

    #[test]
    fn a_node_cannot_feed_one_that_feeds_it() {
        let [home, a, b, c, x, y] =
            ["home", "a", "b", "c", "x", "y"].map(|name| NodeName::new(name).unwrap());
        let pair = |child: &NodeName, parent: &NodeName| (child.clone(), parent.clone());
        let feeds = [pair(&a, &home), pair(&b, &a), pair(&c, &b), pair(&x, &y), pair(&y, &x)];
        assert_eq!(parents(&c, &feeds), Some(vec![b.clone(), a.clone(), home.clone()]));
        assert_eq!((parents(&home, &feeds), parents(&x, &feeds)), (Some(Vec::new()), None));
        assert_eq!(parents(&a, &feeds[3..]), Some(Vec::new()));
        for (node, child, expected) in [
            (&b, &c, true),
            (&home, &c, true),
            (&a, &x, true),
            (&c, &a, false),
            (&b, &a, false),
            (&a, &a, false),
            (&x, &a, false), // nobody feeds it
        ] {
            assert_eq!(can_feed(node, child, &feeds), expected, "{node} {child}");
        }
    }

    /// Nodes come, go and choose again, at random: each is fed, none feeds too many, and none is too deep.
    #[test]
    fn trees_of_any_history_are_fed_and_flat() {
        for seed in 1..=24_u64 {
            let mut state = seed;
            let mut below = |end: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as usize % end
            };
            let fan_out_max = 1 + seed as usize % 8;
            let mut fed: Vec<(NodeName, NodeName)> = Vec::new();
            let candidates: Vec<_> = (0..100)
                .map(|node| {
                    candidate(&format!("n{node}"), ["fra", "nyc", "sgp"][node % 3], 1 + below(100) as u64)
                })
                .collect();
            let home = &candidates[0].name;
            for step in 0..300 {
                let at = 1 + below(99);
                let me = &candidates[at];
                let had = fed.iter().any(|(child, _)| *child == me.name);
                if had && below(3) == 0 {
                    // It goes, and its children choose again, one after the other.
                    fed.retain(|(child, _)| *child != me.name);
                    let orphans: Vec<_> =
                        fed.iter().filter(|(_, parent)| *parent == me.name).cloned().collect();
                    for (orphan, _) in orphans {
                        let at = candidates.iter().position(|candidate| candidate.name == orphan).unwrap();
                        choose(&candidates, at, home, &mut fed, fan_out_max);
                    }
                } else {
                    choose(&candidates, at, home, &mut fed, fan_out_max);
                }
                let too_deep = |fed: &Vec<(NodeName, NodeName)>| {
                    let leaf = |node: &NodeName| fed.iter().all(|(_, parent)| parent != node);
                    let mut nodes = fed.iter().map(|(child, _)| child);
                    nodes.find(|node| is_too_deep(node, home, fed, fan_out_max) && leaf(node)).cloned()
                };
                for _ in 0..100 {
                    let Some(node) = too_deep(&fed) else { break };
                    let at = candidates.iter().position(|candidate| candidate.name == node).unwrap();
                    choose(&candidates, at, home, &mut fed, fan_out_max);
                }
                let parents: BTreeMap<_, _> = fed.iter().map(|(child, parent)| (child, parent)).collect();
                let mut children: BTreeMap<&NodeName, usize> = BTreeMap::new();
                let limit = depth_max(fed.len() + 1, fan_out_max);
                for (child, parent) in &fed {
                    let depth = depth(child, home, &parents);
                    assert!(depth.is_some_and(|depth| depth <= limit), "seed {seed} step {step}: {depth:?}");
                    *children.entry(parent).or_default() += 1;
                }
                assert!(children.values().all(|&fed| fed <= fan_out_max), "seed {seed} step {step}");
            }
        }
    }

    fn choose(
        candidates: &[Candidate],
        at: usize,
        home: &NodeName,
        fed: &mut Vec<(NodeName, NodeName)>,
        fan_out_max: usize,
    ) {
        let me = &candidates[at];
        let parent = choose_parent(&me.name, &me.region, home, fed, candidates, fan_out_max);
        let parent = parent.expect("there is room in any tree");
        fed.retain(|(child, _)| *child != me.name);
        fed.push((me.name.clone(), parent));
    }
}
