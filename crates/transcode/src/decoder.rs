//! Coded pieces to samples, by whichever library decodes them.
//!
//! AAC-LC in one or two channels and MP3 by Symphonia, which is Rust; other AAC by libfdk-aac where that is
//! built in. Without it, HE-AAC is heard as far as its LC core goes: up to a quarter of the sampling rate,
//! and version 2 in mono.

use media::config::AudioSpecificConfig;
use media::{Codec, CodecConfig};
use symphonia_codec_aac::AacDecoder;
use symphonia_core::codecs::audio::well_known::CODEC_ID_AAC;
use symphonia_core::codecs::audio::{AudioCodecParameters, AudioDecoder as _, AudioDecoderOptions};

use crate::audio_specific_config::{self, low_complexity};
use crate::mp3::Mp3;
use crate::pcm::{Pcm, packet};
use crate::{TranscodeError, Unsupported};

/// A decoder for one format.
pub(crate) enum Decoder {
    /// AAC-LC.
    Aac(Box<AacDecoder>, AudioSpecificConfig),
    /// MP3.
    Mp3(Box<Mp3>),
    /// Any AAC.
    #[cfg(feature = "fdk-aac")]
    Fdk(crate::fdk::Decoder),
}

impl Decoder {
    /// The decoder for a format; fails as every piece of that format would.
    pub(crate) fn open(format: &CodecConfig) -> Result<Self, TranscodeError> {
        match format.codec {
            Codec::Mp3 => Ok(Self::Mp3(Box::default())),
            Codec::Aac => Self::open_aac(&format.record),
            // WebRTC carries the others itself, or nobody decodes them here.
            _ => Err(TranscodeError::BadConfig),
        }
    }

    fn open_aac(config: &[u8]) -> Result<Self, TranscodeError> {
        let read = audio_specific_config::read(config)?;
        #[cfg(feature = "fdk-aac")]
        if needs_fdk(&read) {
            return crate::fdk::Decoder::new(config).map(Self::Fdk);
        }
        if read.object_type != AudioSpecificConfig::LOW_COMPLEXITY || read.short_frames {
            return Err(TranscodeError::Unsupported(Unsupported::AacObjectType));
        }
        if !matches!(read.channel_configuration, 1 | 2) {
            return Err(TranscodeError::Unsupported(Unsupported::AacChannels));
        }
        let mut parameters = AudioCodecParameters::new();
        parameters.for_codec(CODEC_ID_AAC).with_extra_data(low_complexity(&read).into());
        AacDecoder::try_new(&parameters, &AudioDecoderOptions::default())
            .map(|decoder| Self::Aac(Box::new(decoder), read))
            .map_err(|_| TranscodeError::BadConfig)
    }

    /// Decodes a piece into `pcm`, replacing what was in there.
    pub(crate) fn decode(&mut self, data: &[u8], pcm: &mut Pcm) -> Result<(), TranscodeError> {
        match self {
            Self::Aac(decoder, config) => {
                pcm.samples.clear();
                pcm.delay_samples = 0;
                // Symphonia gives the samples of the frame before when there is nothing in a frame.
                if data.first().is_none_or(|byte| byte >> 5 == END_OF_FRAME) {
                    return Err(TranscodeError::Broken);
                }
                let buffer = decoder.decode_ref(&packet(data)).map_err(|_| TranscodeError::Broken)?;
                (pcm.rate, pcm.channels) = (config.sample_rate, config.channel_configuration as usize);
                pcm.append(&buffer);
                Ok(())
            }
            Self::Mp3(decoder) => decoder.decode(data, pcm),
            #[cfg(feature = "fdk-aac")]
            Self::Fdk(decoder) => decoder.decode(data, pcm),
        }
    }
}

/// Whether Symphonia would decode only a part of it, or nothing. Up to 24 kHz, SBR may come without being
/// announced.
#[cfg(feature = "fdk-aac")]
fn needs_fdk(config: &AudioSpecificConfig) -> bool {
    config.extension_sample_rate.is_some()
        || config.sample_rate <= 24_000
        || config.object_type != AudioSpecificConfig::LOW_COMPLEXITY
        || config.short_frames
        || !matches!(config.channel_configuration, 1 | 2)
}

/// The first three bits of a frame without any element: `ID_END` (ISO/IEC 14496-3 table 4.85).
const END_OF_FRAME: u8 = 7;
