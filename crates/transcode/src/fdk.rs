//! AAC by libfdk-aac: decoding of what Symphonia leaves out, and encoding. Only with feature `fdk-aac`.
//!
//! The library's licence is its own and grants no patent rights, so that it is never part of an
//! ordinary build.

mod encoder;

use fdk_aac::dec;

use crate::pcm::Pcm;
use crate::{TranscodeError, Unsupported};

pub use encoder::ToAac;

/// Samples of the longest frame: 2,048 in each of eight channels.
const FRAME_SAMPLES_MAX: usize = 2_048 * 8;
/// Delay of the filter banks of spectral band replication, in samples of its output. Encoders count
/// it as their own (as libfdk-aac's `nDelay` does), so that the timestamps that arrive have it
/// taken off already.
const BAND_REPLICATION_DELAY: u32 = 962;

/// Decoder of any AAC that RTMP publishers send.
pub(crate) struct Decoder {
    config: Vec<u8>,
    decoder: dec::Decoder,
    samples: Vec<i16>,
}

impl Decoder {
    /// A decoder for the AudioSpecificConfig `config`.
    pub(crate) fn new(config: &[u8]) -> Result<Self, TranscodeError> {
        let decoder = open(config)?;
        Ok(Self { config: config.to_vec(), decoder, samples: vec![0; FRAME_SAMPLES_MAX] })
    }

    /// Decodes an access unit into `pcm`.
    pub(crate) fn decode(&mut self, data: &[u8], pcm: &mut Pcm) -> Result<(), TranscodeError> {
        pcm.samples.clear();
        let decoded = self.decoder.fill(data).and_then(|_| self.decoder.decode_frame(&mut self.samples));
        if decoded.is_err() {
            // What is left of the broken unit would be taken for the start of the next.
            self.decoder = open(&self.config)?;
            return Err(TranscodeError::Broken);
        }
        let info = self.decoder.stream_info();
        let (rate, channels, frames) = (info.sampleRate, info.numChannels, info.frameSize);
        let sizes = (u32::try_from(rate), usize::try_from(channels), usize::try_from(frames));
        let (Ok(rate @ 7_350..=96_000), Ok(channels @ 1..=8), Ok(frames)) = sizes else {
            return Err(TranscodeError::Broken);
        };
        let samples = self.samples.get(..frames * channels).ok_or(TranscodeError::Broken)?;
        pcm.samples.extend(samples.iter().map(|sample| f32::from(*sample) / 32_768.0));
        (pcm.rate, pcm.channels) = (rate, channels);
        pcm.delay_samples = delay(info.outputDelay, info.extSamplingRate > 0 && info.frameSize > 1_024);
        Ok(())
    }
}

/// What the timestamps do not know of: the limiter's delay.
fn delay(output_delay: u32, is_band_replicated: bool) -> u32 {
    output_delay.saturating_sub(if is_band_replicated { BAND_REPLICATION_DELAY } else { 0 })
}

fn open(config: &[u8]) -> Result<dec::Decoder, TranscodeError> {
    let mut decoder = dec::Decoder::new(dec::Transport::Raw);
    decoder.config_raw(config).map_err(|error| match error {
        dec::DecoderError::UNSUPPORTED_CHANNELCONFIG => TranscodeError::Unsupported(Unsupported::AacChannels),
        dec::DecoderError::UNSUPPORTED_SAMPLINGRATE => TranscodeError::Unsupported(Unsupported::SampleRate),
        dec::DecoderError::UNSUPPORTED_AOT | dec::DecoderError::UNSUPPORTED_FORMAT => {
            TranscodeError::Unsupported(Unsupported::AacObjectType)
        }
        _ => TranscodeError::BadConfig,
    })?;
    Ok(decoder)
}
