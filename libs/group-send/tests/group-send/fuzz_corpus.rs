//! The kept fuzz corpus, replayed through the same checks as the fuzz targets, with a stable
//! compiler.
#![cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]

#[path = "../../../../fuzz/src/group_send.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
mod checks;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn every_kept_input_passes_its_check() {
    replay::kept(checks::CHECKS, 2);
}
