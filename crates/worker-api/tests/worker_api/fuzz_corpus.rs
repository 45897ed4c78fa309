//! The kept fuzz corpus, replayed through the same checks as the fuzz targets, with a stable compiler.

#[path = "../../../../fuzz/src/worker_api.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
mod checks;

use std::path::Path;

#[test]
fn every_kept_input_passes_its_check() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, check) in checks::CHECKS {
        let files: Vec<_> =
            std::fs::read_dir(corpus.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() >= 10, "{name} has {} inputs", files.len());
        for file in files {
            let input = std::fs::read(&file).unwrap();
            // The name shows in the output of a failing test.
            println!("{}", file.display());
            (0..=input.len()).for_each(|len| check(&input[..len]));
        }
    }
}
