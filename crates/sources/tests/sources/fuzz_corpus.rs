//! The kept fuzz corpus, replayed through the same check as the fuzz target, with a stable compiler.

#[path = "../../../../fuzz/src/sources.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
mod checks;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn every_kept_input_passes_its_check() {
    replay::kept(&[("ts_datagrams", checks::ts_datagrams)], 4);
}
