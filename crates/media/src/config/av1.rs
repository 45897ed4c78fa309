//! AV1: AV1CodecConfigurationRecord ("AV1 Codec ISO Media File Format Binding", 2.3) and its sequence
//! header ("AV1 Bitstream & Decoding Process Specification", 5.5).
//!
//! ```text
//!  marker 1, version 7 | profile 3, level 5 | tier 1, high depth 1, twelve bit 1, .. | .. | OBUs
//! ```

use super::VideoFormat;
use crate::bitstream::{BitReader, Malformed, Obu, next_obu};

pub(super) fn format(record: &[u8]) -> Option<VideoFormat> {
    let [0x81, profile_level, depth, _, ..] = *record else { return None };
    let (profile, level) = (profile_level >> 5, profile_level & 0x1f);
    let sequence =
        sequence_header_unit(&record[4..]).and_then(|unit| SequenceHeader::read(unit.payload).ok());
    let (width, height, frame_rate) =
        sequence.map_or((0, 0, None), |header| (header.width, header.height, header.frame_rate));
    Some(VideoFormat {
        profile: profile_name(profile, depth),
        level: level_name(level),
        width,
        height,
        frame_rate,
    })
}

/// The first sequence header OBU (5.3).
pub(super) fn sequence_header_unit(mut obus: &[u8]) -> Option<Obu<'_>> {
    std::iter::from_fn(|| next_obu(&mut obus)).find(|obu| obu.kind() == OBU_SEQUENCE_HEADER)
}

/// What a sequence header says (5.5.1 to 5.5.5), as far as a record repeats it. Level and tier are
/// those of the first operating point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SequenceHeader {
    pub(super) profile: u8,
    /// `seq_level_idx`, `0..=31`.
    pub(super) level: u8,
    pub(super) tier: bool,
    /// Bits of a sample: 8, 10 or 12.
    pub(super) depth: u8,
    pub(super) monochrome: bool,
    /// Horizontally and vertically.
    pub(super) subsampling: (bool, bool),
    /// `chroma_sample_position`, `0..=3`.
    pub(super) chroma_position: u8,
    pub(super) width: u32,
    pub(super) height: u32,
    /// Frames per second if it is constant.
    pub(super) frame_rate: Option<f32>,
}

impl SequenceHeader {
    /// Reads the payload of a sequence header OBU.
    pub(super) fn read(payload: &[u8]) -> Result<Self, Malformed> {
        let mut bits = BitReader::new(payload);
        let profile = bits.u(3)? as u8;
        bits.skip(1)?; // still picture
        let is_reduced = bits.bit()?;
        let (level, tier, frame_rate) = match is_reduced {
            true => (bits.u(5)? as u8, false, None),
            false => operating_points(&mut bits)?,
        };
        let (width_bits, height_bits) = (bits.u(4)? + 1, bits.u(4)? + 1);
        let (width, height) = (bits.u(width_bits)? + 1, bits.u(height_bits)? + 1);
        skip_tools(&mut bits, is_reduced)?;
        let colour = Colour::read(&mut bits, profile)?;
        let Colour { depth, monochrome, subsampling, chroma_position } = colour;
        Ok(Self {
            profile,
            level,
            tier,
            depth,
            monochrome,
            subsampling,
            chroma_position,
            width,
            height,
            frame_rate,
        })
    }
}

/// Timing, decoder model and operating points: level and tier of the first one, and the frame rate
/// if it is constant.
fn operating_points(bits: &mut BitReader<'_>) -> Result<(u8, bool, Option<f32>), Malformed> {
    let mut frame_rate = None;
    let mut delay_bits = None;
    if bits.bit()? {
        frame_rate = timing_info(bits)?;
        if bits.bit()? {
            delay_bits = Some(bits.u(5)? as usize + 1);
            bits.skip(32 + 5 + 5)?;
        }
    }
    let has_display_delay = bits.bit()?;
    let mut first = None;
    for _ in 0..=bits.u(5)? {
        bits.skip(12)?;
        let level = bits.u(5)? as u8;
        let tier = level > 7 && bits.bit()?;
        first.get_or_insert((level, tier));
        if let Some(delay_bits) = delay_bits
            && bits.bit()?
        {
            bits.skip(2 * delay_bits + 1)?;
        }
        if has_display_delay && bits.bit()? {
            bits.skip(4)?;
        }
    }
    first.map(|(level, tier)| (level, tier, frame_rate)).ok_or(Malformed)
}

/// What stands between the size and the colours: which tools are in use.
fn skip_tools(bits: &mut BitReader<'_>, is_reduced: bool) -> Result<(), Malformed> {
    if !is_reduced && bits.bit()? {
        bits.skip(4 + 3)?; // lengths of frame ids
    }
    bits.skip(3)?; // superblocks, intra tools
    if !is_reduced {
        bits.skip(4)?; // inter tools
        let has_order_hint = bits.bit()?;
        if has_order_hint {
            bits.skip(2)?;
        }
        // Screen content tools: chosen by frame, or always, or never; integer motion vectors only with them.
        let has_screen_tools = bits.bit()? || bits.bit()?;
        if has_screen_tools && !bits.bit()? {
            bits.skip(1)?;
        }
        if has_order_hint {
            bits.skip(3)?;
        }
    }
    bits.skip(3) // super-resolution, CDEF, restoration
}

/// `color_config()` (5.5.2).
#[derive(Debug, Clone, Copy)]
struct Colour {
    depth: u8,
    monochrome: bool,
    subsampling: (bool, bool),
    chroma_position: u8,
}

impl Colour {
    fn read(bits: &mut BitReader<'_>, profile: u8) -> Result<Self, Malformed> {
        let is_high = bits.bit()?;
        let depth = match is_high {
            true if profile == 2 && bits.bit()? => 12,
            true => 10,
            false => 8,
        };
        let monochrome = profile != 1 && bits.bit()?;
        let description = if bits.bit()? { (bits.u(8)?, bits.u(8)?, bits.u(8)?) } else { (2, 2, 2) };
        if monochrome {
            bits.skip(1)?;
            return Ok(Self { depth, monochrome, subsampling: (true, true), chroma_position: 0 });
        }
        let subsampling = if description == SRGB {
            (false, false)
        } else {
            bits.skip(1)?; // range
            match (profile, depth) {
                (0, _) => (true, true),
                (1, _) => (false, false),
                (_, 12) => {
                    let x = bits.bit()?;
                    (x, x && bits.bit()?)
                }
                _ => (true, false),
            }
        };
        let chroma_position = if subsampling == (true, true) { bits.u(2)? as u8 } else { 0 };
        Ok(Self { depth, monochrome, subsampling, chroma_position })
    }
}

/// `timing_info()` (5.5.3): time scale over ticks of one picture.
fn timing_info(bits: &mut BitReader<'_>) -> Result<Option<f32>, Malformed> {
    let (units, scale) = (bits.u(32)?, bits.u(32)?);
    if !bits.bit()? {
        return Ok(None);
    }
    let ticks = f64::from(bits.ue()?) + 1.0;
    let rate = (f64::from(scale) / (f64::from(units) * ticks)) as f32;
    Ok(Some(rate).filter(|rate| rate.is_finite() && *rate > 0.0))
}

/// A.2; the depth flags are the record's third byte.
fn profile_name(profile: u8, depth: u8) -> String {
    let name = match profile {
        0 => "Main",
        1 => "High",
        2 => "Professional",
        _ => return format!("profile {profile}"),
    };
    match depth & 0x60 {
        0x60 => format!("{name}, 12 bit"),
        0x40 => format!("{name}, 10 bit"),
        _ => name.to_owned(),
    }
}

/// A.3: index 0 is level 2.0, four to a number; 31 means none.
fn level_name(index: u8) -> String {
    if index == 31 { "maximum".to_owned() } else { format!("{}.{}", 2 + index / 4, index % 4) }
}

const OBU_SEQUENCE_HEADER: u8 = 1;
/// BT.709 primaries, sRGB transfer, identity matrix (6.4.2).
const SRGB: (u32, u32, u32) = (1, 13, 0);
