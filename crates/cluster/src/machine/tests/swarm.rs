//! Random lives of clusters: whatever happens, afterwards there is one publisher per name.

use super::super::*;
use super::world::{World, ms};

const NODES: [&str; 4] = ["a", "b", "c", "d"];
const STREAMS: [&str; 5] = ["live/1", "live/2", "live/3", "live/4", "live/5"];
/// `CLUSTER_SEED` runs one again, `CLUSTER_SEEDS` another number of them. Time after the last fault: two
/// seconds to settle, and the rest for nodes that died at the end and are silent.
const SETTLED_WITHIN: Duration = Duration::from_millis(9000);

#[test]
fn after_any_faults_each_name_has_one_publisher_and_all_know_it() {
    let number = |name| std::env::var(name).ok().and_then(|value: String| value.parse().ok());
    let seeds = match number("CLUSTER_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CLUSTER_SEEDS").unwrap_or(40),
    };
    for seed in seeds {
        live(seed);
    }
}

fn live(seed: u64) {
    let mut world = World::new(seed + 1);
    world.delay_max = [2, 5, 40][world.random.below(3) as usize];
    let mut started: Vec<usize> = NODES.iter().map(|name| world.start(name)).collect();
    for _ in 0..60 {
        let at = world.random.below(NODES.len() as u64) as usize;
        let node = started[at];
        let name = STREAMS[world.random.below(STREAMS.len() as u64) as usize];
        match world.random.below(20) {
            0..=6 if can_run(&world, node) => {
                let policy = [Policy::Refuse, Policy::TakeOver][world.random.below(2) as usize];
                world.claim(node, name, policy);
            }
            7..=9 if can_run(&world, node) => world.release(node, name),
            10 => world.kill_server(),
            11 | 12 => world.server_up = true,
            13 => world.server_frozen = !world.server_frozen,
            14 => {
                let cut = !world.nodes[node].cut;
                world.cut(node, cut);
            }
            15 => world.nodes[node].frozen = !world.nodes[node].frozen,
            16 => {
                world.kill_node(node);
                started[at] = world.start(NODES[at]);
            }
            _ => {}
        }
        let pause = [1, 20, 300, 2500][world.random.below(4) as usize];
        let time = ms(1 + world.random.below(pause));
        world.run_for(time);
    }
    world.server_up = true;
    world.server_frozen = false;
    for node in 0..world.nodes.len() {
        world.nodes[node].frozen = false;
        world.nodes[node].cut = false;
    }
    let begun = world.now;
    while let Some(problem) = world.problem() {
        assert!(world.now - begun < SETTLED_WITHIN, "CLUSTER_SEED={seed}: {problem}");
        world.run_for(ms(20));
    }
    world.run_for(ms(8000));
    if let Some(problem) = world.problem() {
        panic!("CLUSTER_SEED={seed}: settled, and then: {problem}");
    }
    let idle = world.writes;
    world.run_for(ms(3000));
    assert!(world.writes - idle <= 3 * NODES.len() as u64, "CLUSTER_SEED={seed}: writes go on");
}

fn can_run(world: &World, node: usize) -> bool {
    world.nodes[node].alive && !world.nodes[node].frozen
}
