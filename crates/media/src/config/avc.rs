//! H.264: AVCDecoderConfigurationRecord (ISO/IEC 14496-15, 5.3.3.1) and its first SPS.
//!
//! ```text
//!  version 1, 8 | profile 8 | constraints 8 | level 8 | 111111, length size - 1: 2
//!  111, SPS count 5 | { bytes 16 | SPS } ... | PPS count 8 | { bytes 16 | PPS } ...
//! ```
//!
//! The SPS itself is read by `h264-reader`. The record is walked here, since that crate's own walk panics
//! on a parameter set of length 0; a record with one is refused before anything else looks at it.

use h264_reader::nal::sps::SeqParameterSet;
use h264_reader::nal::{Nal, RefNal};

use super::VideoFormat;

pub(super) fn format(record: &[u8]) -> Option<VideoFormat> {
    let [1, profile, constraints, level, _, sps_count, ..] = *record else { return None };
    let (sps, rest) = parameter_sets(&record[6..], sps_count & 0x1f)?;
    let (pps_count, rest) = rest.split_first()?;
    parameter_sets(rest, *pps_count)?;
    let sps = RefNal::new(sps?, &[], true);
    let sps = SeqParameterSet::from_bits(sps.rbsp_bits()).ok()?;
    let (width, height) = sps.pixel_dimensions().ok()?;
    Some(VideoFormat {
        profile: profile_name(profile, constraints),
        level: level_name(profile, constraints, level),
        width,
        height,
        frame_rate: sps.fps().map(|rate| rate as f32).filter(|rate| rate.is_finite() && *rate > 0.0),
    })
}

/// How many pictures an encoder sends ahead of one that is shown before them, by its SPS; `None` if that does
/// not say.
pub fn reorder_frames(sps: &[u8]) -> Option<usize> {
    // An empty unit, or one of another kind, is no SPS; `h264-reader` panics on the former.
    if sps.len() < 4 || sps[0] & 0x1f != 7 {
        return None;
    }
    let read = SeqParameterSet::from_bits(RefNal::new(sps, &[], true).rbsp_bits()).ok()?;
    let has_no_b_frames =
        sps[1] == 66 || matches!(read.pic_order_cnt, h264_reader::nal::sps::PicOrderCntType::TypeTwo);
    if has_no_b_frames {
        return Some(0);
    }
    let restrictions = read.vui_parameters.as_ref()?.bitstream_restrictions.as_ref()?;
    Some(restrictions.max_num_reorder_frames as usize)
}

/// Walks `count` parameter sets; returns the first of them and what follows the last.
fn parameter_sets(mut rest: &[u8], count: u8) -> Option<(Option<&[u8]>, &[u8])> {
    let mut first = None;
    for _ in 0..count {
        let (bytes, tail) = rest.split_first_chunk()?;
        let (set, tail) = tail.split_at_checked(usize::from(u16::from_be_bytes(*bytes)))?;
        if set.is_empty() {
            return None;
        }
        first = first.or(Some(set));
        rest = tail;
    }
    Some((first, rest))
}

/// ITU-T H.264, A.2.
fn profile_name(profile: u8, constraints: u8) -> String {
    let constraint_set = |index: u8| constraints & 0x80 >> index != 0;
    match profile {
        66 if constraint_set(1) => "Constrained Baseline",
        66 => "Baseline",
        77 => "Main",
        88 => "Extended",
        100 if constraint_set(4) && constraint_set(5) => "Constrained High",
        100 => "High",
        110 => "High 10",
        122 => "High 4:2:2",
        244 => "High 4:4:4 Predictive",
        _ => return format!("profile {profile}"),
    }
    .to_owned()
}

/// ITU-T H.264, A.3: ten times the level, except for 1b.
fn level_name(profile: u8, constraints: u8, level: u8) -> String {
    let is_1b = level == 9 || (level == 11 && constraints & 0x10 != 0 && matches!(profile, 66 | 77 | 88));
    if is_1b { "1b".to_owned() } else { format!("{}.{}", level / 10, level % 10) }
}
