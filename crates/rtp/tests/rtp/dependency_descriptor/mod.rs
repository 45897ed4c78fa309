//! Dependency descriptors, written by a plain writer of the syntax in section A.8.2 of the AV1 RTP
//! specification.

mod model;
mod round_trips;
mod selection;
mod specification;

use rtp::extension::{DecodeTarget, FrameDependencies, Indication};

use model::*;

/// Indications of a frame as letters.
fn letters(frame: &FrameDependencies) -> String {
    (0..frame.decode_target_count)
        .map(|target| match frame.indication(DecodeTarget(target)) {
            Indication::NotPresent => '-',
            Indication::Discardable => 'D',
            Indication::Switch => 'S',
            Indication::Required => 'R',
        })
        .collect()
}
