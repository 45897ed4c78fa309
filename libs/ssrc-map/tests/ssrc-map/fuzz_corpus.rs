//! The kept fuzz corpus, replayed through the same check as the fuzz target, with a stable
//! compiler.

#[path = "../../../../fuzz/src/ssrc_map.rs"]
#[allow(unreachable_pub, reason = "a module here, a library there")]
mod checks;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
#[cfg_attr(miri, ignore = "reads files; naive_twin.rs does the like")]
fn every_kept_input_passes_its_check() {
    replay::kept(checks::CHECKS, 2);
}
