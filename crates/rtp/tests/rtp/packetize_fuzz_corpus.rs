//! The kept fuzz corpus of `packetize`, replayed through the same check as the fuzz target, with a
//! stable compiler.

#[path = "../../../../fuzz/src/rtp_packetize.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
mod checks;

use crate::fuzz_corpus::replay;

#[test]
fn every_kept_input_passes_its_check() {
    replay::kept(checks::CHECKS, 8);
}
