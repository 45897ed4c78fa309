//! The kept fuzz corpus of session descriptions, replayed through the same check with a stable
//! compiler.

#[path = "../../../../fuzz/src/rtc_sdp.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
mod checks;

use std::path::Path;

#[test]
fn every_kept_input_passes_its_check() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sdp");
    let files: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 10, "{} inputs", files.len());
    for file in files {
        let input = std::fs::read(&file).unwrap();
        // The name shows in the output of a failing test.
        println!("{}", file.display());
        checks::sdp(&input);
        checks::sdp(&input[..input.len() / 2]);
    }
}
