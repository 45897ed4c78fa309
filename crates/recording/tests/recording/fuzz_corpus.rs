//! The kept fuzz corpus of recorded files, replayed through the same check as the fuzz target, with a stable
//! compiler.

#[path = "../../../../fuzz/src/recording.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
mod checks;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn every_kept_input_passes_its_check() {
    replay::kept(checks::CHECKS, 200);
}
