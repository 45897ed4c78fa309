//! The kept corpus of the fuzz target `client_hello`, replayed with a stable compiler.

#[path = "../../../../../fuzz/src/rtc_dtls.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
mod checks;

use std::path::Path;

#[test]
fn every_kept_input_passes_its_check() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/client_hello");
    let files: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 10, "{} inputs", files.len());
    for file in files {
        let input = std::fs::read(&file).unwrap();
        // The name shows in the output of a failing test.
        println!("{}", file.display());
        checks::client_hello(&input);
        checks::client_hello(&input[..input.len() / 2]);
    }
}
