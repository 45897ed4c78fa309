//! The kept fuzz corpus, replayed through the same checks as the fuzz targets, with a stable compiler.

use std::path::Path;

use crate::world::Random;

#[path = "../../../../fuzz/src/srt.rs"]
#[allow(unreachable_pub, clippy::disallowed_methods, reason = "a module here, one of a library there")]
mod checks;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn every_kept_input_passes_its_check() {
    replay::kept(checks::CHECKS, 2);
}

#[test]
fn damaged_inputs_pass_as_well() {
    let mut random = Random::new(42);
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, check) in checks::CHECKS {
        let mut files: Vec<_> =
            std::fs::read_dir(corpus.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let inputs: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
        let any = |random: &mut Random| inputs[random.below(inputs.len() as u64) as usize].clone();
        for round in 0..8_000 {
            let mut input = any(&mut random);
            for _ in 0..=random.below(8) {
                let at = random.below(input.len() as u64) as usize;
                match random.below(4) {
                    0 => input[at] = random.next() as u8,
                    1 => input[at] ^= 1 << random.below(8),
                    2 => input.extend(any(&mut random)),
                    _ => input.truncate(at.max(1)),
                }
                input.truncate(4_000);
            }
            // The number shows in the output of a failing test.
            println!("{name} {round}");
            check(&input);
        }
    }
}
