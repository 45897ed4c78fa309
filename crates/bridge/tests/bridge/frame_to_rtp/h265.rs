//! H.265 by Enhanced RTMP: pictures of a real encoder arrive as they were, parameter sets ahead of
//! key frames.

use rtp::payload::Codec;

use crate::frame_to_rtp::vp::pictures;
use crate::frame_to_rtp::{Rig, units};

#[test]
fn every_slice_arrives_whether_the_tag_has_a_composition_time_or_not() {
    let pictures = pictures(Codec::H265, "h265");
    let sets: Vec<_> =
        units(&pictures[0]).into_iter().filter(|unit| (32..=34).contains(&(unit[0] >> 1))).collect();
    assert_eq!(sets.len(), 3);
    let mut rig = Rig::new();
    rig.video(0, &[&[0x90], &b"hvc1"[..], &hvcc(&sets)].concat());
    for (index, picture) in pictures.iter().enumerate() {
        let slices = |frame| {
            units(frame).into_iter().filter(|unit| unit[0] >> 1 < 32).map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        // CodedFrames with composition time 0, CodedFramesX without.
        let is_key = index % 5 == 0;
        let head = if index % 2 == 0 { &b"hvc1\0\0\0"[..] } else { b"hvc1" };
        let first = if is_key { 0x90 } else { 0xa0 } | if index % 2 == 0 { 1 } else { 3 };
        let sent = rig.video(100 * index as u64, &[&[first], head, picture].concat());
        assert_eq!(sent.len(), 1, "picture {index}");
        assert_eq!(slices(&sent[0].data), slices(picture), "picture {index}");
        let kinds: Vec<_> = units(&sent[0].data).iter().map(|unit| unit[0] >> 1).collect();
        assert_eq!(kinds.starts_with(&[32, 33, 34]), is_key, "picture {index}: {kinds:?}");
    }
    assert_eq!(rig.bridge.formats().video.as_ref().unwrap().codec, Codec::H265);
    assert_eq!(rig.broken(), 0);
}

/// A configuration record with these parameter sets (ISO/IEC 14496-15 section 8.3.3.1).
fn hvcc(sets: &[&[u8]]) -> Vec<u8> {
    let mut record =
        vec![1, 1, 0x60, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 60, 0xf0, 0, 0xfc, 0xfd, 0xf8, 0xf8, 0, 0, 0x0f];
    record.push(sets.len() as u8);
    for set in sets {
        record.extend([0x80 | set[0] >> 1, 0, 1]);
        record.extend((set.len() as u16).to_be_bytes());
        record.extend(*set);
    }
    record
}
