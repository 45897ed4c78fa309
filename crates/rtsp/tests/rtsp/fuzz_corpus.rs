//! The kept fuzz corpus, replayed through the same checks as the fuzz targets, with a stable compiler.

use std::path::Path;

#[path = "../../../../fuzz/src/rtsp.rs"]
#[allow(unreachable_pub, clippy::disallowed_methods, reason = "a module here, one of a library there")]
mod checks;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn every_kept_input_passes_its_check() {
    replay::kept(checks::CHECKS, 8);
}

#[test]
fn damaged_inputs_pass_as_well() {
    let mut state = 42u64;
    // xorshift64 (Marsaglia, 2003).
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, check) in checks::CHECKS {
        let mut files: Vec<_> =
            std::fs::read_dir(corpus.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let inputs: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
        for round in 0..2_000 {
            let mut input = inputs[random(inputs.len())].clone();
            for _ in 0..=random(8) {
                let at = random(input.len());
                match random(4) {
                    0 => input[at] = random(256) as u8,
                    1 => input[at] ^= 1 << random(8),
                    2 => input.extend(&inputs[random(inputs.len())]),
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
