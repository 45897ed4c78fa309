//! AAC in LATM (ISO/IEC 14496-3 section 1.7): StreamMuxConfig, and frames in elements.
//!
//! ```text
//! AudioMuxElement:  [ same config 1 | [StreamMuxConfig] ] | { length, 255 a byte | frame } ...
//! ```
//! One program with one layer and frames of any length is read, which is what broadcasts and RTP
//! (RFC 6416) use.

use super::{BitReader, BitWriter, Malformed};
use crate::config::AudioSpecificConfig;

/// What a StreamMuxConfig says of the frames of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamMuxConfig {
    /// AudioSpecificConfig.
    pub record: Vec<u8>,
    /// Samples of a frame, at this rate.
    pub samples: u32,
    /// Samples of a second.
    pub sample_rate: u32,
    /// Frames in an element: 1 to 64.
    pub frames: u32,
}

impl StreamMuxConfig {
    /// Reads one.
    ///
    /// # Errors
    /// It is none, or one of what is not read.
    pub fn read(bits: &mut BitReader<'_>) -> Result<Self, Malformed> {
        let version = bits.bit()?;
        if version {
            // A second version of it is reserved.
            if bits.bit()? {
                return Err(Malformed);
            }
            value(bits)?;
        }
        let same_time = bits.bit()?;
        let sub_frames = bits.u(6)?;
        let (programs, layers) = (bits.u(4)?, bits.u(3)?);
        if !same_time || programs != 0 || layers != 0 {
            return Err(Malformed);
        }
        let mut record = BitWriter::default();
        if version {
            let length = value(bits)?;
            if length > 8 * 64 {
                return Err(Malformed);
            }
            for _ in 0..length {
                record.bit(bits.bit()?);
            }
        } else {
            let length = config_bits(&mut bits.clone())?;
            for _ in 0..length {
                record.bit(bits.bit()?);
            }
        }
        // Only frames that each have their length in front.
        if bits.u(3)? != 0 {
            return Err(Malformed);
        }
        bits.skip(8)?;
        if bits.bit()? {
            match version {
                true => drop(value(bits)?),
                // Its length in bits: four bytes hold any.
                false => {
                    let is_long = (0..4).try_fold(true, |more, _| match more {
                        true => Ok(bits.u(9)? & 0x100 != 0),
                        false => Ok(false),
                    });
                    if is_long? {
                        return Err(Malformed);
                    }
                }
            }
        }
        if bits.bit()? {
            bits.skip(8)?;
        }
        let record = record.bytes().to_vec();
        let config = AudioSpecificConfig::read(&record)?;
        let samples = if config.short_frames { 960 } else { 1024 };
        Ok(Self { record, samples, sample_rate: config.sample_rate, frames: sub_frames + 1 })
    }

    /// Takes the frames of an element, which begin here. How many bytes of it are missing, at least: none is
    /// taken if one is.
    ///
    /// # Errors
    /// A frame is empty, or longer than `frame_bytes_max`.
    pub fn frames(
        &self,
        bits: &mut BitReader<'_>,
        frame_bytes_max: usize,
        mut take: impl FnMut(usize, &[u8]),
    ) -> Result<usize, Malformed> {
        let mut found = Vec::new();
        for _ in 0..self.frames {
            let mut length = 0;
            loop {
                let Ok(more) = bits.u(8) else { return Ok(1) };
                length += more as usize;
                if length > frame_bytes_max {
                    return Err(Malformed);
                }
                if more != 255 {
                    break;
                }
            }
            if length == 0 {
                return Err(Malformed);
            }
            if length * 8 > bits.bits_left() {
                return Ok((length * 8 - bits.bits_left()).div_ceil(8));
            }
            found.push((0..length).map(|_| bits.u(8).map(|byte| byte as u8)).collect::<Result<Vec<_>, _>>()?);
        }
        found.iter().enumerate().for_each(|(at, frame)| take(at, frame));
        Ok(0)
    }
}

/// Bits of the AudioSpecificConfig that follows, which nothing else says.
fn config_bits(bits: &mut BitReader<'_>) -> Result<usize, Malformed> {
    let before = bits.bits_left();
    let mut object_type = object(bits)?;
    rate(bits)?;
    let channels = bits.u(4)?;
    if matches!(object_type, 5 | 29) {
        rate(bits)?;
        object_type = object(bits)?;
    }
    // Only those that end with a GASpecificConfig, and without a program config element.
    if !(1..=4).contains(&object_type) || channels == 0 {
        return Err(Malformed);
    }
    bits.skip(1)?;
    if bits.bit()? {
        bits.skip(14)?;
    }
    bits.skip(1)?;
    Ok(before - bits.bits_left())
}

fn object(bits: &mut BitReader<'_>) -> Result<u32, Malformed> {
    match bits.u(5)? {
        31 => Ok(32 + bits.u(6)?),
        object => Ok(object),
    }
}

fn rate(bits: &mut BitReader<'_>) -> Result<(), Malformed> {
    match bits.u(4)? {
        15 => bits.skip(24),
        _ => Ok(()),
    }
}

/// `LatmGetValue`.
fn value(bits: &mut BitReader<'_>) -> Result<usize, Malformed> {
    let bytes = bits.u(2)? + 1;
    Ok(bits.u(8 * bytes)? as usize)
}
