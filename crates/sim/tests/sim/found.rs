//! What seeds have found, each by the seed that found it.

use sim::swarm::Config;

/// With the clients that there were when these seeds found something.
fn finds_nothing(seed: u64) {
    let config = Config { bridged: 0, internal: 0, operator: None, ..Config::of(seed) };
    let violations = config.run(false).violations;
    assert!(violations.is_empty(), "make sim SEED={seed}: {violations:?}");
}

/// The first player on a worker that is not the home of the stream got audio at once, and pictures later.
#[test]
fn a_player_far_from_the_home_begins_with_a_key_frame() {
    [9, 19, 47].into_iter().for_each(finds_nothing);
}
