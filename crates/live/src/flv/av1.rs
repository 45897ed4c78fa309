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
    let sequence = sequence_header(&record[4..]).and_then(read_sequence_header);
    let (width, height, frame_rate) = sequence.unwrap_or((0, 0, None));
    Some(VideoFormat {
        profile: profile_name(profile, depth),
        level: level_name(level),
        width,
        height,
        frame_rate,
    })
}

/// Payload of the first sequence header OBU (5.3).
fn sequence_header(mut obus: &[u8]) -> Option<&[u8]> {
    while let Some((head, rest)) = obus.split_first() {
        let rest = if head & 4 != 0 { rest.get(1..)? } else { rest };
        let (bytes, rest) = if head & 2 != 0 { leb128(rest)? } else { (rest.len(), rest) };
        let (payload, tail) = rest.split_at_checked(bytes)?;
        if head >> 3 & 0x0f == OBU_SEQUENCE_HEADER {
            return Some(payload);
        }
        obus = tail;
    }
    None
}

/// Width, height and frames per second (5.5.1 to 5.5.5).
fn read_sequence_header(payload: &[u8]) -> Option<(u32, u32, Option<f32>)> {
    let mut bits = Bits::new(payload);
    bits.skip(4)?; // profile, still picture
    let mut frame_rate = None;
    if bits.flag()? {
        bits.skip(5)?; // reduced still picture header: level only
    } else {
        frame_rate = skip_operating_points(&mut bits)?;
    }
    let (width_bits, height_bits) = (bits.u(4)? + 1, bits.u(4)? + 1);
    Some((bits.u(width_bits)? + 1, bits.u(height_bits)? + 1, frame_rate))
}

/// Timing, decoder model and operating points; returns the frame rate if it is constant.
fn skip_operating_points(bits: &mut Bits<'_>) -> Option<Option<f32>> {
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
    for _ in 0..=bits.u(5)? {
        bits.skip(12)?;
        if bits.u(5)? > 7 {
            bits.skip(1)?; // tier
        }
        if let Some(delay_bits) = delay_bits
            && bits.flag()?
        {
            bits.skip(2 * delay_bits + 1)?;
        }
        if has_display_delay && bits.flag()? {
            bits.skip(4)?;
        }
    }
    Some(frame_rate)
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
