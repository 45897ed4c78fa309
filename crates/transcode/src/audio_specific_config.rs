//! AudioSpecificConfig of AAC: what a decoder is chosen by.
//!
//! Read here before any decoder sees it, so that what cannot be decoded is told apart from what is
//! broken, and so that the LC core of HE-AAC can be decoded where there is no decoder for the rest.
//! Extensions behind the core's configuration (backward-compatible SBR signalling) are left to the
//! decoder that knows them.

use media::config::AudioSpecificConfig;

use crate::{TranscodeError, Unsupported};

/// Reads a configuration: [`TranscodeError::BadConfig`] if it ends early or has reserved values,
/// [`Unsupported::SampleRate`] for a rate no decoder here has.
pub(crate) fn read(config: &[u8]) -> Result<AudioSpecificConfig, TranscodeError> {
    let read = AudioSpecificConfig::read(config).map_err(|_| TranscodeError::BadConfig)?;
    if read.object_type == 0 {
        return Err(TranscodeError::BadConfig);
    }
    if !(7_350..=96_000).contains(&read.sample_rate) {
        return Err(TranscodeError::Unsupported(Unsupported::SampleRate));
    }
    Ok(read)
}

/// The configuration of the LC core alone, as a decoder without SBR expects it.
pub(crate) fn low_complexity(config: &AudioSpecificConfig) -> Vec<u8> {
    AudioSpecificConfig::write_low_complexity(config.sample_rate, config.channel_configuration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_read_as_the_standard_lays_them_out() {
        let lc = |sample_rate, channel_configuration| AudioSpecificConfig {
            object_type: AudioSpecificConfig::LOW_COMPLEXITY,
            sample_rate,
            channel_configuration,
            short_frames: false,
            extension_sample_rate: None,
            compatible_sample_rate: None,
            parametric_stereo: false,
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
                Ok(AudioSpecificConfig { extension_sample_rate: Some(48_000), ..lc(24_000, 2) }),
            ),
            // The rate written out: 17,640 Hz.
            (&[0x17, 0x80, 0x22, 0x74, 0x08], Ok(lc(17_640, 1))),
            (&[0x17, 0x80, 0x00, 0x00, 0x08], Err(TranscodeError::Unsupported(Unsupported::SampleRate))), // 0 Hz
            (&[0x12], Err(TranscodeError::BadConfig)),
            (&[], Err(TranscodeError::BadConfig)),
            (&[0x16, 0x90], Err(TranscodeError::BadConfig)), // rate index 13 is reserved
        ];
        for (bytes, expected) in cases {
            assert_eq!(read(bytes), expected, "{bytes:02x?}");
        }
    }

    #[test]
    fn the_core_is_written_as_it_is_read() {
        for config in [&[0x2b, 0x11, 0x88, 0x00][..], &[0x17, 0x80, 0x22, 0x74, 0x08]] {
            let config = read(config).unwrap();
            let expected = AudioSpecificConfig { extension_sample_rate: None, ..config };
            assert_eq!(read(&low_complexity(&config)), Ok(expected));
        }
    }
}
