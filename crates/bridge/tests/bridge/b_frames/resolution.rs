//! The size of the picture changes in the middle of a stream, with a new sequence header or with
//! sets in the frames.

use crate::b_frames::samples::{sample, send};
use bridge::BFrames;
use bridge::b_frames::{PictureFilter, Verdict};
use media::bitstream::Nals;
use media::config::read_avcc;

/// The sequence parameter set that a picture begins with.
fn sps(units: &[Vec<u8>]) -> &[u8] {
    assert_eq!(units[0][0] & 0x1f, 7);
    &units[0]
}

#[test]
fn a_new_sequence_header_starts_over_with_the_next_key_frame() {
    let (small, large) = (sample("h264-b2"), sample("h264-larger"));
    let mut filter = small.filter(BFrames::Drop);
    let before = send(&mut filter, &small.pictures[..31], 0);
    // The encoder begins with a key frame; what of the old size comes after the header is not
    // decodable with it.
    let mut filter = large.filter(BFrames::Drop);
    let mut nals = Nals::default();
    let late = filter.frame(&small.pictures[31].data, false, &mut nals);
    assert_eq!(late, Verdict::Drop(bridge::b_frames::Dropped::NoKeyFrame));
    let after = send(&mut filter, &large.pictures, 0);
    assert_eq!(after.kept, large.filtered().kept);
    assert_ne!(sps(&before.kept[0].1), sps(&after.kept[0].1));
}

#[test]
fn sets_in_front_of_a_key_frame_replace_those_of_the_header() {
    let (small, large) = (sample("h264-b2"), sample("h264-larger"));
    let mut changed = large.clone();
    let sets = read_avcc(&large.record).unwrap();
    let sets = sets.sets.iter().flat_map(|set| [&(set.len() as u32).to_be_bytes(), *set].concat());
    changed.pictures[0].data.splice(0..0, sets.collect::<Vec<_>>());
    let mut filter = small.filter(BFrames::Drop);
    send(&mut filter, &small.pictures, 0);
    assert_eq!(send(&mut filter, &changed.pictures, 0).kept, large.filtered().kept);
    let own = PictureFilter::new(large.codec, &large.record, BFrames::Drop).unwrap();
    assert_eq!(filter.fmtp(), own.fmtp());
}
