//! AV1: AV1CodecConfigurationRecord ("AV1 Codec ISO Media File Format Binding", 2.3) and its sequence
//! header ("AV1 Bitstream & Decoding Process Specification", 5.5).
//!
//! ```text
//!  marker 1, version 7 | profile 3, level 5 | tier 1, high depth 1, twelve bit 1, .. | .. | OBUs
//!  OBU:  0, type 4, extension 1, has size 1, 0 | [ extension 8 ] | [ size, leb128 ] | payload
//! ```

use super::VideoFormat;
use super::bits::Bits;

pub(super) fn format(record: &[u8]) -> Option<VideoFormat> {
    let [0x81, profile_level, depth, _, ..] = *record else { return None };
    let (profile, level) = (profile_level >> 5, profile_level & 0x1f);
    let sequence = sequence_header_unit(&record[4..]).and_then(|(_, payload)| SequenceHeader::read(payload));
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

/// The first sequence header OBU (5.3), whole and without its head.
pub(super) fn sequence_header_unit(mut obus: &[u8]) -> Option<(&[u8], &[u8])> {
    while let Some((head, rest)) = obus.split_first() {
        let rest = if head & 4 != 0 { rest.get(1..)? } else { rest };
        let (bytes, rest) = if head & 2 != 0 { leb128(rest)? } else { (rest.len(), rest) };
        let (payload, tail) = rest.split_at_checked(bytes)?;
        if head >> 3 & 0x0f == OBU_SEQUENCE_HEADER {
            return Some((&obus[..obus.len() - tail.len()], payload));
        }
        obus = tail;
    }
    None
}

/// What a sequence header says (5.5.1 to 5.5.5), as far as a record repeats it. Level and tier are those of the first
/// operating point.
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
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let mut bits = Bits::new(payload);
        let profile = bits.u(3)? as u8;
        bits.skip(1)?; // still picture
        let is_reduced = bits.flag()?;
        let (level, tier, frame_rate) = match is_reduced {
            true => (bits.u(5)? as u8, false, None),
            false => operating_points(&mut bits)?,
        };
        let (width_bits, height_bits) = (bits.u(4)? + 1, bits.u(4)? + 1);
        let (width, height) = (bits.u(width_bits)? + 1, bits.u(height_bits)? + 1);
        skip_tools(&mut bits, is_reduced)?;
        let colour = Colour::read(&mut bits, profile)?;
        let Colour { depth, monochrome, subsampling, chroma_position } = colour;
        Some(Self {
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

/// Timing, decoder model and operating points: level and tier of the first one, and the frame rate if it is constant.
fn operating_points(bits: &mut Bits<'_>) -> Option<(u8, bool, Option<f32>)> {
    let mut frame_rate = None;
    let mut delay_bits = None;
    if bits.flag()? {
        frame_rate = timing_info(bits)?;
        if bits.flag()? {
            delay_bits = Some(bits.u(5)? as usize + 1);
            bits.skip(32 + 5 + 5)?;
        }
    }
    let has_display_delay = bits.flag()?;
    let mut first = None;
    for _ in 0..=bits.u(5)? {
        bits.skip(12)?;
        let level = bits.u(5)? as u8;
        let tier = level > 7 && bits.flag()?;
        first.get_or_insert((level, tier));
        if let Some(delay_bits) = delay_bits
            && bits.flag()?
        {
            bits.skip(2 * delay_bits + 1)?;
        }
        if has_display_delay && bits.flag()? {
            bits.skip(4)?;
        }
    }
    first.map(|(level, tier)| (level, tier, frame_rate))
}

/// What stands between the size and the colours: which tools are in use.
fn skip_tools(bits: &mut Bits<'_>, is_reduced: bool) -> Option<()> {
    if !is_reduced && bits.flag()? {
        bits.skip(4 + 3)?; // lengths of frame ids
    }
    bits.skip(3)?; // superblocks, intra tools
    if !is_reduced {
        bits.skip(4)?; // inter tools
        let has_order_hint = bits.flag()?;
        if has_order_hint {
            bits.skip(2)?;
        }
        // Screen content tools: chosen by frame, or always, or never; integer motion vectors only with them.
        let has_screen_tools = bits.flag()? || bits.flag()?;
        if has_screen_tools && !bits.flag()? {
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
    fn read(bits: &mut Bits<'_>, profile: u8) -> Option<Self> {
        let is_high = bits.flag()?;
        let depth = match is_high {
            true if profile == 2 && bits.flag()? => 12,
            true => 10,
            false => 8,
        };
        let monochrome = profile != 1 && bits.flag()?;
        let description = if bits.flag()? { (bits.u(8)?, bits.u(8)?, bits.u(8)?) } else { (2, 2, 2) };
        if monochrome {
            bits.skip(1)?;
            return Some(Self { depth, monochrome, subsampling: (true, true), chroma_position: 0 });
        }
        let subsampling = if description == SRGB {
            (false, false)
        } else {
            bits.skip(1)?; // range
            match (profile, depth) {
                (0, _) => (true, true),
                (1, _) => (false, false),
                (_, 12) => {
                    let x = bits.flag()?;
                    (x, x && bits.flag()?)
                }
                _ => (true, false),
            }
        };
        let chroma_position = if subsampling == (true, true) { bits.u(2)? as u8 } else { 0 };
        Some(Self { depth, monochrome, subsampling, chroma_position })
    }
}

/// `timing_info()` (5.5.3): time scale over ticks of one picture.
fn timing_info(bits: &mut Bits<'_>) -> Option<Option<f32>> {
    let (units, scale) = (bits.u(32)?, bits.u(32)?);
    if !bits.flag()? {
        return Some(None);
    }
    let ticks = f64::from(bits.exp_golomb()?) + 1.0;
    let rate = (f64::from(scale) / (f64::from(units) * ticks)) as f32;
    Some(Some(rate).filter(|rate| rate.is_finite() && *rate > 0.0))
}

/// Number of up to 8 groups of 7 bits, lowest first (4.10.5), and what follows.
fn leb128(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(8).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((usize::try_from(value).ok()?, &bytes[index + 1..]));
        }
    }
    None
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
