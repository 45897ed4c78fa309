//! The kept fuzz corpora of this crate, replayed through the same checks as the fuzz targets, with
//! a stable compiler.

#[path = "../../../../fuzz/src/bridge_b_frames.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
mod b_frames;
#[path = "../../../../fuzz/src/bridge_frame_to_rtp.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
mod frame_to_rtp;
#[path = "../../../../fuzz/src/bridge_rtp_to_frame.rs"]
#[allow(unreachable_pub, reason = "a module here, one of a library there")]
mod rtp_to_frame;

use std::path::Path;

fn replay(checks: &[(&str, frame_to_rtp::Check)]) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, check) in checks {
        let files: Vec<_> =
            std::fs::read_dir(corpus.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() >= 10, "{name} has {} inputs", files.len());
        for file in files {
            let input = std::fs::read(&file).unwrap();
            // The name shows in the output of a failing test.
            println!("{}", file.display());
            check(&input);
            // And cut short anywhere.
            for eighth in 1..8 {
                check(&input[..input.len() * eighth / 8]);
            }
        }
    }
}

#[test]
fn every_kept_input_of_b_frames_passes_its_check() {
    replay(b_frames::CHECKS);
}

#[test]
fn every_kept_input_of_frame_to_rtp_passes_its_check() {
    replay(frame_to_rtp::CHECKS);
}

#[test]
fn every_kept_input_of_rtp_to_frame_passes_its_check() {
    replay(rtp_to_frame::CHECKS);
}
