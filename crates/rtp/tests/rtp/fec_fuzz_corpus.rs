//! The kept fuzz corpus of `rtp_fec`, replayed through the same checks as the fuzz target,
//! with a stable compiler.

#[path = "../../../../fuzz/src/rtp_fec.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
mod checks;

use crate::fuzz_corpus::replay;

#[test]
fn every_kept_input_passes_its_check() {
    replay::kept(checks::CHECKS, 8);
}
