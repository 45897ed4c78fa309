//! The kept fuzz corpora of this crate, replayed through the same checks as the fuzz targets, with
//! a stable compiler.

#[path = "../../../../fuzz/src/bridge_b_frames.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
mod b_frames;
#[path = "../../../../fuzz/src/bridge_frame_to_rtp.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
mod frame_to_rtp;
#[path = "../../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../../fuzz/src/bridge_rtp_to_frame.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
mod rtp_to_frame;

#[test]
fn every_kept_input_of_b_frames_passes_its_check() {
    replay::kept(b_frames::CHECKS, 8);
}

#[test]
fn every_kept_input_of_frame_to_rtp_passes_its_check() {
    replay::kept(frame_to_rtp::CHECKS, 8);
}

#[test]
fn every_kept_input_of_rtp_to_frame_passes_its_check() {
    replay::kept(rtp_to_frame::CHECKS, 8);
}
