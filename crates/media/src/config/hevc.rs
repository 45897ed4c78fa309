//! H.265: HEVCDecoderConfigurationRecord (ISO/IEC 14496-15, 8.3.3.1) and its first SPS.
//!
//! ```text
//!  version 8 | profile space 2, tier 1, profile 5 | compatibility 32 | constraints 48 | level 8 | .. to 22
//!  array count 8 | { complete 1, 0, NAL type 6 | count 16 | { bytes 16 | NAL unit } ... } ...
//! ```

use super::VideoFormat;
use crate::bitstream::{BitReader, Malformed};

pub(super) fn format(record: &[u8]) -> Option<VideoFormat> {
    let (profile, level) = (record.get(1)? & 0x1f, *record.get(12)?);
    let high_tier = record[1] & 0x20 != 0;
    let SpsFacts { width, height, .. } = SpsFacts::read(first_sps(record)?).ok()?;
    Some(VideoFormat {
        profile: profile_name(profile),
        // The level is 30 times its number (ITU-T H.265, A.4.1).
        level: format!("{}.{}{}", level / 30, level % 30 / 3, if high_tier { " high tier" } else { "" }),
        width,
        height,
        frame_rate: None,
    })
}

fn first_sps(record: &[u8]) -> Option<&[u8]> {
    let (arrays, mut rest) = record.get(22..)?.split_first()?;
    for _ in 0..*arrays {
        let ([kind, c0, c1], mut tail) = rest.split_first_chunk::<3>()?;
        for _ in 0..u16::from_be_bytes([*c0, *c1]) {
            let (bytes, unit) = tail.split_first_chunk()?;
            let (unit, after) = unit.split_at_checked(usize::from(u16::from_be_bytes(*bytes)))?;
            if kind & 0x3f == NAL_SPS {
                return Some(unit);
            }
            tail = after;
        }
        rest = tail;
    }
    None
}

/// What an SPS says (ITU-T H.265, 7.3.2.2.1), as far as a record repeats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpsFacts {
    /// The general part of `profile_tier_level`, level included.
    pub(super) profile_tier_level: [u8; 12],
    pub(super) temporal_layers: u8,
    pub(super) temporal_id_nesting: bool,
    /// `chroma_format_idc`, `0..=3`.
    pub(super) chroma: u8,
    pub(super) depth_luma_minus8: u8,
    pub(super) depth_chroma_minus8: u8,
    /// Cropped by the conformance window.
    pub(super) width: u32,
    pub(super) height: u32,
}

impl SpsFacts {
    /// Reads an SPS NAL unit.
    pub(super) fn read(unit: &[u8]) -> Result<Self, Malformed> {
        Self::take(&mut BitReader::nal(unit.get(2..).ok_or(Malformed)?))
    }

    /// Reads as far as its facts go.
    fn take(bits: &mut BitReader<'_>) -> Result<Self, Malformed> {
        bits.skip(4)?; // video parameter set id
        let max_sub_layers = bits.u(3)?;
        let temporal_id_nesting = bits.bit()?;
        let mut profile_tier_level = [0; 12];
        for byte in &mut profile_tier_level {
            *byte = bits.u(8)? as u8;
        }
        skip_sub_layers(bits, max_sub_layers)?;
        bits.ue()?; // SPS id
        let chroma = bits.ue_up_to(3)?;
        let separate_planes = chroma == 3 && bits.bit()?;
        let (width, height) = picture_size(bits, if separate_planes { 0 } else { chroma })?;
        let (depth_luma, depth_chroma) = (bits.ue_up_to(8)?, bits.ue_up_to(8)?);
        Ok(Self {
            profile_tier_level,
            temporal_layers: max_sub_layers as u8 + 1,
            temporal_id_nesting,
            chroma: chroma as u8,
            depth_luma_minus8: depth_luma as u8,
            depth_chroma_minus8: depth_chroma as u8,
            width,
            height,
        })
    }
}

/// How many pictures an encoder sends ahead of one that is shown before them, by its SPS.
pub fn reorder_pictures(sps: &[u8]) -> Option<usize> {
    if sps.first()? >> 1 & 0x3f != NAL_SPS {
        return None;
    }
    let mut bits = BitReader::nal(sps.get(2..)?);
    let facts = SpsFacts::take(&mut bits).ok()?;
    let mut last = || {
        bits.ue()?; // bits of the picture order count
        let is_of_each_layer = bits.bit()?;
        let mut reorder = 0;
        for _ in 0..if is_of_each_layer { facts.temporal_layers } else { 1 } {
            bits.ue()?; // pictures in the buffer
            reorder = bits.ue()?;
            bits.ue()?; // latency
        }
        Ok::<_, Malformed>(reorder as usize)
    };
    last().ok()
}

/// Width and height, cropped by the conformance window.
fn picture_size(bits: &mut BitReader<'_>, chroma: u32) -> Result<(u32, u32), Malformed> {
    let (width, height) = (bits.ue()?, bits.ue()?);
    if !bits.bit()? {
        return Ok((width, height));
    }
    let (left, right, top, bottom) = (bits.ue()?, bits.ue()?, bits.ue()?, bits.ue()?);
    // The window counts in chroma samples (table 6-1).
    let (unit_x, unit_y) = match chroma {
        1 => (2, 2),
        2 => (2, 1),
        _ => (1, 1),
    };
    let cropped = |size: u32, before: u32, behind: u32, unit: u32| {
        size.checked_sub(before.checked_add(behind)?.checked_mul(unit)?)
    };
    let size = cropped(width, left, right, unit_x).zip(cropped(height, top, bottom, unit_y));
    size.ok_or(Malformed)
}

/// What `profile_tier_level(1, max_sub_layers)` (7.3.3) has behind its general part: only its
/// length matters here.
fn skip_sub_layers(bits: &mut BitReader<'_>, max_sub_layers: u32) -> Result<(), Malformed> {
    let mut sub_layer_bits = 0;
    for _ in 0..max_sub_layers {
        sub_layer_bits += if bits.bit()? { 88 } else { 0 };
        sub_layer_bits += if bits.bit()? { 8 } else { 0 };
    }
    if max_sub_layers > 0 {
        sub_layer_bits += 2 * (8 - max_sub_layers as usize);
    }
    bits.skip(sub_layer_bits)
}

/// ITU-T H.265, A.3.
fn profile_name(profile: u8) -> String {
    match profile {
        1 => "Main".to_owned(),
        2 => "Main 10".to_owned(),
        3 => "Main Still Picture".to_owned(),
        4 => "Range Extensions".to_owned(),
        9 => "Screen Content Coding".to_owned(),
        _ => format!("profile {profile}"),
    }
}

pub(super) const NAL_VPS: u8 = 32;
pub(super) const NAL_SPS: u8 = 33;
pub(super) const NAL_PPS: u8 = 34;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bitstream::BitWriter;

    /// An SPS of so many temporal layers, which may reorder so many pictures each.
    fn sps(reorder: &[u32]) -> Vec<u8> {
        let layers = reorder.len() as u32 - 1;
        let mut bits = BitWriter::default();
        bits.u(0, 4);
        bits.u(layers, 3);
        bits.bit(true);
        for byte in [1, 0x60, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 93] {
            bits.u(byte, 8);
        }
        if layers > 0 {
            bits.u(0, 16);
        }
        // SPS id, chroma, size, no window, depths, bits of the order count.
        [0, 1, 320, 180].into_iter().for_each(|value| bits.ue(value));
        bits.bit(false);
        [0, 0, 4].into_iter().for_each(|value| bits.ue(value));
        bits.bit(true);
        for reorder in reorder {
            [4, *reorder, 0].into_iter().for_each(|value| bits.ue(value));
        }
        bits.trailing_bits();
        let mut unit = vec![NAL_SPS << 1, 1];
        // As it is escaped (7.3.1.1).
        let mut zeros = 0;
        for byte in bits.bytes() {
            if zeros >= 2 && *byte <= 3 {
                unit.push(3);
                zeros = 0;
            }
            zeros = if *byte == 0 { zeros + 1 } else { 0 };
            unit.push(*byte);
        }
        unit
    }

    #[test]
    fn the_highest_layer_says_how_many_pictures_are_sent_ahead() {
        for (reorder, expected) in [(&[0][..], 0), (&[2], 2), (&[0, 1, 3], 3)] {
            let sps = sps(reorder);
            assert_eq!(reorder_pictures(&sps), Some(expected), "{reorder:?}");
            for length in 0..sps.len() - 2 {
                // It says less, and does no harm.
                let _ = reorder_pictures(&sps[..length]);
            }
        }
        assert_eq!(reorder_pictures(&[]), None);
        assert_eq!(reorder_pictures(&[0x40, 1, 2, 3]), None, "another unit");
    }
}
