//! H.265: HEVCDecoderConfigurationRecord (ISO/IEC 14496-15, 8.3.3.1) and its first SPS.
//!
//! ```text
//!  version 8 | profile space 2, tier 1, profile 5 | compatibility 32 | constraints 48 | level 8 | .. to 22
//!  array count 8 | { complete 1, 0, NAL type 6 | count 16 | { bytes 16 | NAL unit } ... } ...
//! ```

use super::VideoFormat;
use super::bits::Bits;

pub(super) fn format(record: &[u8]) -> Option<VideoFormat> {
    let (profile, level) = (record.get(1)? & 0x1f, *record.get(12)?);
    let high_tier = record[1] & 0x20 != 0;
    let SpsFacts { width, height, .. } = SpsFacts::read(first_sps(record)?)?;
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
    pub(super) fn read(unit: &[u8]) -> Option<Self> {
        let sps = without_emulation_prevention(unit);
        let profile_tier_level = *sps.get(3..)?.first_chunk()?;
        let mut bits = Bits::new(&sps[2..]);
        bits.skip(4)?; // video parameter set id
        let max_sub_layers = bits.u(3)?;
        let temporal_id_nesting = bits.flag()?;
        skip_profile_tier_level(&mut bits, max_sub_layers)?;
        bits.exp_golomb()?; // SPS id
        let chroma = bits.exp_golomb().filter(|chroma| *chroma <= 3)?;
        let separate_planes = chroma == 3 && bits.flag()?;
        let (width, height) = picture_size(&mut bits, if separate_planes { 0 } else { chroma })?;
        let mut depth = || bits.exp_golomb().filter(|depth| *depth <= 8);
        let (depth_luma, depth_chroma) = (depth()?, depth()?);
        Some(Self {
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

/// Width and height, cropped by the conformance window.
fn picture_size(bits: &mut Bits<'_>, chroma: u32) -> Option<(u32, u32)> {
    let (width, height) = (bits.exp_golomb()?, bits.exp_golomb()?);
    if !bits.flag()? {
        return Some((width, height));
    }
    let mut edge = || bits.exp_golomb();
    let (left, right, top, bottom) = (edge()?, edge()?, edge()?, edge()?);
    // The window counts in chroma samples (table 6-1).
    let (unit_x, unit_y) = match chroma {
        1 => (2, 2),
        2 => (2, 1),
        _ => (1, 1),
    };
    let width = width.checked_sub(left.checked_add(right)?.checked_mul(unit_x)?)?;
    let height = height.checked_sub(top.checked_add(bottom)?.checked_mul(unit_y)?)?;
    Some((width, height))
}

/// `profile_tier_level(1, max_sub_layers)` (7.3.3): only its length matters here.
fn skip_profile_tier_level(bits: &mut Bits<'_>, max_sub_layers: u32) -> Option<()> {
    bits.skip(96)?;
    let mut sub_layer_bits = 0;
    for _ in 0..max_sub_layers {
        sub_layer_bits += if bits.flag()? { 88 } else { 0 };
        sub_layer_bits += if bits.flag()? { 8 } else { 0 };
    }
    if max_sub_layers > 0 {
        sub_layer_bits += 2 * (8 - max_sub_layers as usize);
    }
    bits.skip(sub_layer_bits)
}

/// Takes out the 3 of each 0, 0, 3 (7.3.1.1).
fn without_emulation_prevention(unit: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(unit.len());
    for byte in unit {
        if *byte != 3 || !payload.ends_with(&[0, 0]) {
            payload.push(*byte);
        }
    }
    payload
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
