//! The kept corpus, replayed through the checks of its targets with a stable compiler, so that `cargo test`
//! covers them.
//!
//! `fuzz_corpus.rs` in the tests of each crate concerned includes this file and that with its checks.

use std::path::Path;

/// What a fuzz target does with an input.
pub(crate) type Check = fn(data: &[u8]);

/// Runs checks on all that is kept for them, by the name of their target: whole, and cut short after each of
/// so many `parts`, as far as there are as many bytes.
pub(crate) fn kept(checks: &[(&str, Check)], parts: usize) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, check) in checks {
        let files: Vec<_> =
            std::fs::read_dir(corpus.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() >= 10, "{name} has {} inputs", files.len());
        for file in files {
            let input = std::fs::read(&file).unwrap();
            // The name shows in the output of a failing test.
            println!("{}", file.display());
            let parts = parts.min(input.len()).max(1);
            (0..=parts).rev().for_each(|part| check(&input[..input.len() * part / parts]));
        }
    }
}
