//! The kept fuzz corpus, replayed through the same check as the fuzz target, with a stable compiler.

#[path = "../../../../fuzz/src/range_reader_c.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
#[allow(clippy::undocumented_unsafe_blocks, reason = "calls as C makes them, with memory of this check")]
mod checks;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn every_kept_input_passes_its_check() {
    replay::kept(checks::CHECKS, 2);
}
