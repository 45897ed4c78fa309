use sim::swarm::Config;

/// Some with players, bad paths and faults.
const SEEDS: [u64; 4] = [1, 2, 3, 5];

#[test]
fn a_seed_is_the_same_simulation_every_time() {
    for seed in SEEDS {
        let [first, second] = [(); 2].map(|()| {
            // In a thread of its own: hashers start from other numbers there.
            std::thread::spawn(move || Config::of(seed).run(false)).join().expect("no panic")
        });
        assert_eq!(first.digest, second.digest, "seed {seed}");
        assert_eq!((first.steps, first.checks), (second.steps, second.checks), "seed {seed}");
    }
}
