//! The kept corpus of the fuzz target `client_hello`, replayed with a stable compiler.

#[path = "../../../../../fuzz/src/rtc_dtls.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
mod checks;

use crate::fuzz_corpus::replay;

#[test]
fn every_kept_input_passes_its_check() {
    replay::kept(&[("client_hello", checks::client_hello)], 2);
}
