//! AAC: AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1), with SBR and PS.
//!
//! ```text
//!  object type 5 [31: + 6] | rate index 4 [15: rate 24] | channels 4
//!  type 5 (SBR), 29 (PS): | extension rate 4 [15: 24] | object type 5 of the core
//!  GASpecificConfig:      | frame length 1 | core coder 1 [delay 14] | extension 1
//!  or, behind it:         | 0x2b7, 11 | 5, 5 | SBR 1 | rate 4 [24] | 0x548, 11 | PS 1
//! ```

use super::AudioFormat;
use crate::bitstream::{BitReader, BitWriter, Malformed};

/// What a decoder of AAC is to expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioSpecificConfig {
    /// Object type of the core; [`AudioSpecificConfig::LOW_COMPLEXITY`] is usual.
    pub object_type: u32,
    /// Samples per second of the core.
    pub sample_rate: u32,
    /// Channel configuration, 0 to 15; 0 is described in band.
    pub channel_configuration: u32,
    /// 960 samples a frame instead of 1,024.
    pub short_frames: bool,
    /// Samples per second with spectral band replication (HE-AAC), where it is announced ahead of
    /// the core's configuration.
    pub extension_sample_rate: Option<u32>,
    /// The same, where it is announced behind it, so that older decoders pass it over (1.6.5.3).
    pub compatible_sample_rate: Option<u32>,
    /// Parametric stereo (HE-AAC v2).
    pub parametric_stereo: bool,
}

impl AudioSpecificConfig {
    /// Object type of AAC-LC.
    pub const LOW_COMPLEXITY: u32 = 2;

    /// Reads a configuration.
    ///
    /// # Errors
    /// It ends early, or a sampling rate is reserved.
    pub fn read(config: &[u8]) -> Result<Self, Malformed> {
        let mut bits = BitReader::new(config);
        let first = object_type(&mut bits)?;
        let sample_rate = sampling_rate(&mut bits)?;
        let channel_configuration = bits.u(4)?;
        let mut read = Self {
            object_type: first,
            sample_rate,
            channel_configuration,
            short_frames: false,
            extension_sample_rate: None,
            compatible_sample_rate: None,
            parametric_stereo: first == PS,
        };
        if matches!(first, SBR | PS) {
            read.extension_sample_rate = Some(sampling_rate(&mut bits)?);
            read.object_type = object_type(&mut bits)?;
        }
        // Object types without a GASpecificConfig go on differently; only these are distinguished.
        if matches!(read.object_type, 1..=4) {
            read.short_frames = bits.bit().unwrap_or(false);
            if read.extension_sample_rate.is_none()
                && let Ok(Some((rate, has_ps))) = compatible_sbr(&mut bits)
            {
                (read.compatible_sample_rate, read.parametric_stereo) = (Some(rate), has_ps);
            }
        }
        Ok(read)
    }

    /// The configuration of an LC core with this rate and these channels, and nothing else.
    pub fn write_low_complexity(sample_rate: u32, channel_configuration: u32) -> Vec<u8> {
        let mut bits = BitWriter::default();
        bits.u(Self::LOW_COMPLEXITY, 5);
        match RATES.iter().position(|rate| *rate == sample_rate) {
            Some(index) => bits.u(index as u32, 4),
            None => {
                bits.u(15, 4);
                bits.u(sample_rate, 24);
            }
        }
        bits.u(channel_configuration, 4);
        // Frame length, core coder and extension flags.
        bits.u(0, 3);
        bits.bytes().to_vec()
    }

    /// What it says to people.
    pub(super) fn format(&self) -> AudioFormat {
        let replicated = self.extension_sample_rate.or(self.compatible_sample_rate);
        let profile = match self.object_type {
            Self::LOW_COMPLEXITY if self.parametric_stereo => "HE-AAC v2".to_owned(),
            Self::LOW_COMPLEXITY if replicated.is_some() => "HE-AAC".to_owned(),
            1 => "Main".to_owned(),
            Self::LOW_COMPLEXITY => "LC".to_owned(),
            3 => "SSR".to_owned(),
            4 => "LTP".to_owned(),
            23 => "LD".to_owned(),
            39 => "ELD".to_owned(),
            42 => "xHE-AAC".to_owned(),
            other => format!("object type {other}"),
        };
        // Table 1.19; parametric stereo makes two channels of one. 0: a program config element says it.
        let channels = match self.channel_configuration {
            1 if self.parametric_stereo => 2,
            7 => 8,
            11 => 7,
            12 | 14 => 8,
            channels @ 0..=6 => channels as u8,
            _ => 0,
        };
        AudioFormat { profile, sample_rate: replicated.unwrap_or(self.sample_rate), channels }
    }
}

/// SBR as announced behind a core configuration that older decoders understand (1.6.5.3), from the
/// core coder flag on.
fn compatible_sbr(bits: &mut BitReader<'_>) -> Result<Option<(u32, bool)>, Malformed> {
    if bits.bit()? {
        bits.skip(14)?;
    }
    bits.skip(1)?;
    if bits.bits_left() < 16 || bits.u(11)? != 0x2b7 || object_type(bits)? != SBR || !bits.bit()? {
        return Ok(None);
    }
    let rate = sampling_rate(bits)?;
    let ps = bits.bits_left() >= 12 && bits.u(11)? == 0x548 && bits.bit()?;
    Ok(Some((rate, ps)))
}

fn object_type(bits: &mut BitReader<'_>) -> Result<u32, Malformed> {
    match bits.u(5)? {
        31 => Ok(32 + bits.u(6)?),
        object => Ok(object),
    }
}

fn sampling_rate(bits: &mut BitReader<'_>) -> Result<u32, Malformed> {
    match bits.u(4)? {
        15 => bits.u(24),
        index => RATES.get(index as usize).copied().ok_or(Malformed),
    }
}

const SBR: u32 = 5;
const PS: u32 = 29;

/// Table 1.18.
const RATES: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sbr_and_ps_are_found_in_both_notations() {
        for (config, profile, rate, channels) in [
            (&[0x2b, 0x92, 0x08, 0x00][..], "HE-AAC", 44_100, 2), // type 5, 22.05 kHz core
            (&[0xeb, 0x8a, 0x08, 0x00], "HE-AAC v2", 44_100, 2),  // type 29, mono core
            (&[0x13, 0x90, 0x56, 0xe5, 0xa0], "HE-AAC", 44_100, 2), // LC, then 0x2b7
            (&[0x13, 0x88, 0x56, 0xe5, 0xa5, 0x48, 0x80], "HE-AAC v2", 44_100, 2), // and 0x548
            (&[0x13, 0x90, 0x56, 0xe5, 0x00], "LC", 22_050, 2),   // the SBR flag is 0
            (&[0xf8, 0xe6, 0x20], "ELD", 48_000, 1),              // escaped object type 39
        ] {
            let expected = AudioFormat { profile: profile.to_owned(), sample_rate: rate, channels };
            let read = AudioSpecificConfig::read(config).unwrap();
            assert_eq!(read.format(), expected, "{config:02x?}");
        }
    }
}
