//! The kept fuzz corpus, replayed through the same checks as the fuzz targets, with a stable compiler.

#[path = "../../../../fuzz/src/sfu.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
mod checks;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use netsim::Random;

#[test]
fn every_kept_input_passes_its_check() {
    replay::kept(checks::CHECKS, 4);
}

#[test]
fn random_programs_pass_as_well() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let len = random.below(300);
        let program: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
        println!("seed {seed}");
        checks::CHECKS.iter().for_each(|(_, check)| check(&program));
    }
}
