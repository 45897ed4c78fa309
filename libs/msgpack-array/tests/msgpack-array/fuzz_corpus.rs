//! The kept fuzz corpus, replayed through the same checks as the fuzz targets, with a stable
//! compiler.

use crate::common::twin;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
#[cfg_attr(miri, ignore = "reads files; the other tests do the like")]
fn every_kept_input_passes_its_check() {
    replay::kept(twin::CHECKS, 2);
}
