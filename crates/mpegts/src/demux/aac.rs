//! AAC in ADTS (ISO/IEC 13818-7 section 6.2) and in LATM (ISO/IEC 14496-3 section 1.7), as raw
//! frames and AudioSpecificConfig.
//!
//! ```text
//!  ADTS: | sync 12, id 1, layer 2, no CRC 1 | profile 2, rate 4, private 1, channels 3, .. 4, length 13
//!        | fullness 11, frames-1 2 | [CRC 16] | frame
//!  LOAS: | sync 11 (0x2b7) | length 13 | same config 1 | [StreamMuxConfig] | length, 255 a byte | frame
//! ```
//! Of LATM one program with one layer and frames of any length is read, which is what
//! broadcasts use.

use media::bitstream::{BitReader, BitWriter, Malformed};
use media::config::AudioSpecificConfig;

use super::audio::{AudioFrame, AudioRead};
use crate::codecs::AAC_RATES;

/// Reads a frame behind an ADTS header.
pub(super) fn read_adts(bytes: &[u8]) -> AudioRead {
    let Some(head) = bytes.first_chunk::<7>() else {
        let is_beginning =
            bytes.first() == Some(&0xff) && bytes.get(1).is_none_or(|byte| byte & 0xf6 == 0xf0);
        return if is_beginning { AudioRead::Incomplete } else { AudioRead::Nothing };
    };
    if head[0] != 0xff || head[1] & 0xf6 != 0xf0 {
        return AudioRead::Nothing;
    }
    let rate = AAC_RATES.get(usize::from(head[2] >> 2 & 0x0f));
    let channels = (head[2] & 1) << 2 | head[3] >> 6;
    let length = usize::from(head[3] & 3) << 11 | usize::from(head[4]) << 3 | usize::from(head[5] >> 5);
    let head_bytes = if head[1] & 1 == 0 { 9 } else { 7 };
    // Several frames behind one header, which nobody sends, would need their lengths from the decoder.
    let (Some(&sample_rate), true, 0) = (rate, length > head_bytes, head[6] & 3) else {
        return AudioRead::Nothing;
    };
    let Some(data) = bytes.get(head_bytes..length) else { return AudioRead::Incomplete };
    let mut config = BitWriter::default();
    config.u(u32::from(head[2] >> 6) + 1, 5);
    config.u(u32::from(head[2] >> 2 & 0x0f), 4);
    config.u(channels.into(), 4);
    config.u(0, 3);
    AudioRead::Frame(AudioFrame {
        bytes: length,
        data: data.to_vec(),
        config: Some(config.bytes().to_vec()),
        samples: 1024,
        sample_rate,
        channels: 0,
    })
}

/// What a StreamMuxConfig says of the frames behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LatmConfig {
    record: Vec<u8>,
    samples: u32,
    sample_rate: u32,
    /// Frames in an element, less one.
    sub_frames: u32,
}

/// Reads a frame in LOAS. Elements with several are not taken: nobody sends them.
pub(super) fn read_latm(bytes: &[u8], known: &mut Option<LatmConfig>) -> AudioRead {
    let Some(&[first, second, third]) = bytes.first_chunk::<3>() else {
        let is_beginning = bytes.first() == Some(&0x56) && bytes.get(1).is_none_or(|byte| byte >> 5 == 7);
        return if is_beginning { AudioRead::Incomplete } else { AudioRead::Nothing };
    };
    if first != 0x56 || second >> 5 != 7 {
        return AudioRead::Nothing;
    }
    let length = 3 + (usize::from(second & 0x1f) << 8 | usize::from(third));
    let Some(element) = bytes.get(3..length) else { return AudioRead::Incomplete };
    match read_element(element, known) {
        Ok((data, config)) => AudioRead::Frame(AudioFrame {
            bytes: length,
            data,
            config: Some(config.record),
            samples: config.samples,
            sample_rate: config.sample_rate,
            channels: 0,
        }),
        Err(Malformed) => AudioRead::Nothing,
    }
}

fn read_element(element: &[u8], known: &mut Option<LatmConfig>) -> Result<(Vec<u8>, LatmConfig), Malformed> {
    let mut bits = BitReader::new(element);
    if !bits.bit()? {
        *known = Some(read_config(&mut bits)?);
    }
    let config = known.clone().ok_or(Malformed)?;
    if config.sub_frames != 0 {
        return Err(Malformed);
    }
    let mut length = 0;
    loop {
        let more = bits.u(8)? as usize;
        length += more;
        if more != 255 {
            break;
        }
    }
    if length == 0 || length * 8 > bits.bits_left() {
        return Err(Malformed);
    }
    let data = (0..length).map(|_| bits.u(8).map(|byte| byte as u8)).collect::<Result<_, _>>()?;
    Ok((data, config))
}

fn read_config(bits: &mut BitReader<'_>) -> Result<LatmConfig, Malformed> {
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
    // Frames of any length, whose length is told with each.
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
    Ok(LatmConfig { record, samples, sample_rate: config.sample_rate, sub_frames })
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
