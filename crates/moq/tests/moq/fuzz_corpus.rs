//! The kept fuzz corpus, replayed through the same checks as the fuzz targets, with a stable
//! compiler.

#[path = "../../../../fuzz/src/moq.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
mod checks;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn every_kept_input_passes_its_check() {
    replay::kept(checks::CHECKS, 64);
}
