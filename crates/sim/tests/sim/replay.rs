use std::time::Duration;

use sim::swarm::Config;

/// Some with players, rivals, hostile clients and faults; the first one with a cluster whose links break comes
/// behind them. 23 was two simulations as long as the timers of
/// DTLS were spread by random numbers of the machine.
const SEEDS: [u64; 4] = [7, 23, 36, 42];

#[test]
fn a_seed_is_the_same_simulation_every_time() {
    let with_nodes =
        (0..).find(|seed| Config::of(*seed).breaks).expect("one seed in twelve has links that break");
    for seed in SEEDS.into_iter().chain([with_nodes]) {
        let [first, second] = [(); 2].map(|()| {
            // In a thread of its own: hashers start from other numbers there.
            let config = Config { lasts: Duration::from_secs(15), ..Config::of(seed) };
            std::thread::spawn(move || config.run(false)).join().expect("no panic")
        });
        assert_eq!(first.digest, second.digest, "seed {seed}");
        assert_eq!((first.steps, first.checks), (second.steps, second.checks), "seed {seed}");
    }
}
