//! The kept fuzz corpus of session descriptions, replayed through the same check with a stable
//! compiler.

#[path = "../../../../fuzz/src/rtc_sdp.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
mod checks;

use crate::fuzz_corpus::replay;

#[test]
fn every_kept_input_passes_its_check() {
    replay::kept(&[("sdp", checks::sdp), ("sdp_answer", checks::sdp_answer)], 2);
}
