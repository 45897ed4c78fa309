//! AudioSpecificConfig of AAC (ISO/IEC 14496-3 §1.6.2.1): what the decoder is to expect.
//!
//! Read here before any decoder sees it, so that what cannot be decoded is told apart from what is broken, and so that
//! the LC core of HE-AAC can be decoded where there is no decoder for the rest. Extensions behind the core's
//! configuration (backward-compatible SBR signalling) are left to the decoder that knows them.
//!
//! ```text
//!  object type: 5 bits (31: 32 + 6 more) │ rate index: 4 bits (15: 24 bits of Hz) │ channel configuration: 4 bits
//!  object type 5 or 29: rate of SBR, then the core's object type │ frame length flag │ core coder │ extension
//! ```

use crate::{TranscodeError, Unsupported};

/// What a decoder must be chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AudioSpecificConfig {
    /// Object type of the core; 2 is LC.
    pub(crate) object_type: u32,
    /// Samples per second of the core.
    pub(crate) sample_rate: u32,
    /// Channel configuration, 0 to 15; 0 is described in band.
    pub(crate) channel_configuration: u32,
    /// 960 samples a frame instead of 1,024.
    pub(crate) short_frames: bool,
    /// Spectral band replication is announced: HE-AAC.
    pub(crate) spectral_band_replication: bool,
}

/// Object type of AAC-LC.
pub(crate) const LOW_COMPLEXITY: u32 = 2;

/// Sampling rates by index (ISO/IEC 14496-3 table 1.18).
const RATES: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];

impl AudioSpecificConfig {
    /// Reads a configuration: [`TranscodeError::BadConfig`] if it ends early or has reserved values,
    /// [`Unsupported::SampleRate`] for a rate no decoder here has.
    pub(crate) fn read(config: &[u8]) -> Result<Self, TranscodeError> {
        let mut bits = Bits { bytes: config, position: 0 };
        let mut object_type = bits.object_type()?;
        let sample_rate = bits.sample_rate()?;
        let channel_configuration = bits.take(4)?;
        let spectral_band_replication = matches!(object_type, 5 | 29);
        if spectral_band_replication {
            bits.sample_rate()?;
            object_type = bits.object_type()?;
        }
        let short_frames = object_type == LOW_COMPLEXITY && bits.take(1)? == 1;
        if !(7_350..=96_000).contains(&sample_rate) {
            return Err(TranscodeError::Unsupported(Unsupported::SampleRate));
        }
        Ok(Self { object_type, sample_rate, channel_configuration, short_frames, spectral_band_replication })
    }

    /// The configuration of the LC core alone, as a decoder without SBR expects it.
    pub(crate) fn low_complexity(&self) -> Vec<u8> {
        let channels = u64::from(self.channel_configuration);
        // Frame length, core coder and extension flags: zero.
        match RATES.iter().position(|rate| *rate == self.sample_rate) {
            Some(index) => ((2 << 11 | (index as u64) << 7 | channels << 3) as u16).to_be_bytes().to_vec(),
            None => {
                let value = 2 << 35 | 15 << 31 | u64::from(self.sample_rate) << 7 | channels << 3;
                value.to_be_bytes()[3..].to_vec()
            }
        }
    }
}

/// Reads bits, most significant first.
struct Bits<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Bits<'_> {
    fn take(&mut self, count: usize) -> Result<u32, TranscodeError> {
        let mut value = 0;
        for _ in 0..count {
            let byte = self.bytes.get(self.position / 8).ok_or(TranscodeError::BadConfig)?;
            value = value << 1 | u32::from(byte >> (7 - self.position % 8) & 1);
            self.position += 1;
        }
        Ok(value)
    }

    fn object_type(&mut self) -> Result<u32, TranscodeError> {
        match self.take(5)? {
            0 => Err(TranscodeError::BadConfig),
            31 => Ok(32 + self.take(6)?),
            object_type => Ok(object_type),
        }
    }

    fn sample_rate(&mut self) -> Result<u32, TranscodeError> {
        match self.take(4)? {
            15 => self.take(24),
            index => RATES.get(index as usize).copied().ok_or(TranscodeError::BadConfig),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_read_as_the_standard_lays_them_out() {
        let lc = |sample_rate, channel_configuration| AudioSpecificConfig {
            object_type: LOW_COMPLEXITY,
            sample_rate,
            channel_configuration,
            short_frames: false,
            spectral_band_replication: false,
        };
        let cases: [(&[u8], Result<AudioSpecificConfig, TranscodeError>); 12] = [
            (&[0x12, 0x10], Ok(lc(44_100, 2))),
            (&[0x11, 0x90], Ok(lc(48_000, 2))),
            (&[0x11, 0xb0], Ok(lc(48_000, 6))),
            (&[0x11, 0x80], Ok(lc(48_000, 0))), // channels described in band
            (&[0x11, 0xf8], Ok(lc(48_000, 15))),
            (&[0x11, 0x94], Ok(AudioSpecificConfig { short_frames: true, ..lc(48_000, 2) })),
            (
                &[0x2b, 0x11, 0x88, 0x00],
                Ok(AudioSpecificConfig { spectral_band_replication: true, ..lc(24_000, 2) }),
            ),
            // The rate written out: 17,640 Hz.
            (&[0x17, 0x80, 0x22, 0x74, 0x08], Ok(lc(17_640, 1))),
            (&[0x17, 0x80, 0x00, 0x00, 0x08], Err(TranscodeError::Unsupported(Unsupported::SampleRate))), // 0 Hz
            (&[0x12], Err(TranscodeError::BadConfig)),
            (&[], Err(TranscodeError::BadConfig)),
            (&[0x16, 0x90], Err(TranscodeError::BadConfig)), // rate index 13 is reserved
        ];
        for (bytes, expected) in cases {
            assert_eq!(AudioSpecificConfig::read(bytes), expected, "{bytes:02x?}");
        }
    }

    #[test]
    fn the_core_is_written_as_it_is_read() {
        for config in [&[0x2b, 0x11, 0x88, 0x00][..], &[0x17, 0x80, 0x22, 0x74, 0x08]] {
            let read = AudioSpecificConfig::read(config).unwrap();
            let expected = AudioSpecificConfig { spectral_band_replication: false, ..read };
            assert_eq!(AudioSpecificConfig::read(&read.low_complexity()), Ok(expected));
        }
    }
}
