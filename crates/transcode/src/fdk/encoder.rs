//! Opus packets of WebRTC to AAC-LC, as RTMP players expect it, by libfdk-aac.

use std::collections::VecDeque;
use std::sync::Arc;

use fdk_aac::enc;
use media::{Codec, CodecConfig, CodedAudio};

use crate::aligned::{Aligned, RATE_OUT};
use crate::{AacSettings, NotBuiltIn, PIECE_BYTES_MAX, PTS_US_MAX, TranscodeError};

/// Channels of what comes out.
const CHANNELS: usize = 2;
/// Samples of an access unit.
const FRAME_SAMPLES: usize = 1_024;
/// Longest access unit: 768 bytes a channel (ISO/IEC 14496-3 §4.5.1.1), and room for what the library wants.
const FRAME_BYTES_MAX: usize = 2 * 768 * CHANNELS;
/// Samples of the longest Opus packet: 120 ms (RFC 6716 §3.2.5).
const PACKET_SAMPLES_MAX: usize = 5_760;
/// Unit in which holes are concealed: 10 ms. Shorter differences are drift.
const CONCEAL_SAMPLES: usize = 480;
/// Longest hole that is concealed; after a longer one the times jump.
const HOLE_US_MAX: i64 = 1_000_000;

/// Decodes and encodes: always two channels at 48 kHz, 1,024 samples a frame. **Call [`ToAac::push`] with
/// every packet in order, off the threads that serve sockets.**
pub struct ToAac {
    decoder: opus::Decoder,
    aligned: Aligned,
    encoder: Encoder,
    samples: Vec<f32>,
    /// When the next packet is due, if none is missing.
    next_pts_us: Option<i64>,
}

struct Encoder {
    encoder: enc::Encoder,
    config: Arc<CodecConfig>,
    /// A frame has said what `config` is.
    is_described: bool,
    /// Of encoder and decoder together.
    delay_us: i64,
    /// Times of the blocks that have not come out yet.
    times_us: VecDeque<i64>,
    block: Vec<i16>,
    frame: Vec<u8>,
}

impl ToAac {
    /// A transcoder nothing has gone through.
    ///
    /// # Errors
    /// [`NotBuiltIn`] without the feature `fdk-aac`, or when the library gets no memory.
    pub fn new(settings: AacSettings) -> Result<Self, NotBuiltIn> {
        // The libraries refuse only parameters they do not know, and memory they do not get.
        Ok(Self {
            decoder: opus::Decoder::new(RATE_OUT, opus::Channels::Stereo).map_err(|_| NotBuiltIn)?,
            aligned: Aligned::new(RATE_OUT, CHANNELS, FRAME_SAMPLES).ok_or(NotBuiltIn)?,
            encoder: Encoder::new(settings).map_err(|_| NotBuiltIn)?,
            samples: vec![0.0; PACKET_SAMPLES_MAX * CHANNELS],
            next_pts_us: None,
        })
    }

    /// The AudioSpecificConfig (ISO/IEC 14496-3 §1.6.2.1) of everything that comes out.
    pub fn config(&self) -> &[u8] {
        &self.encoder.config.record
    }

    /// Transcodes an Opus packet and appends the frames that it completes to `out`, usually one. The first
    /// frame has the format.
    ///
    /// A hole of up to a second is concealed by the Opus decoder; after a longer one the times jump.
    pub fn push(
        &mut self,
        pts_us: i64,
        opus: &[u8],
        out: &mut Vec<CodedAudio>,
    ) -> Result<(), TranscodeError> {
        if opus.is_empty() {
            return Err(TranscodeError::Broken);
        }
        if opus.len() > PIECE_BYTES_MAX {
            return Err(TranscodeError::Oversized);
        }
        let pts_us = pts_us.clamp(-PTS_US_MAX, PTS_US_MAX);
        self.conceal(pts_us, out)?;
        let decoded = self.decoder.decode_float(opus, &mut self.samples, false);
        let samples = decoded.map_err(|_| TranscodeError::Broken)?;
        self.encode(pts_us, samples, out)
    }

    /// Lets the Opus decoder fill the time since the packet before: lost packets, and those it need
    /// not send in silence.
    fn conceal(&mut self, pts_us: i64, out: &mut Vec<CodedAudio>) -> Result<(), TranscodeError> {
        let Some(mut next_us) = self.next_pts_us else { return Ok(()) };
        if pts_us.saturating_sub(next_us) > HOLE_US_MAX {
            return Ok(());
        }
        while pts_us.saturating_sub(next_us) >= 10_000 {
            let room = &mut self.samples[..CONCEAL_SAMPLES * CHANNELS];
            let samples = self.decoder.decode_float(&[], room, false).map_err(|_| TranscodeError::Codec)?;
            self.encode(next_us, samples, out)?;
            next_us += 10_000;
        }
        Ok(())
    }

    fn encode(
        &mut self,
        pts_us: i64,
        samples: usize,
        out: &mut Vec<CodedAudio>,
    ) -> Result<(), TranscodeError> {
        self.next_pts_us = Some(pts_us + samples as i64 * 1_000_000 / i64::from(RATE_OUT));
        let mut result = Ok(());
        let encoder = &mut self.encoder;
        self.aligned.push(pts_us, &self.samples[..samples * CHANNELS], |time_us, block| {
            if encoder.encode(time_us, block, out).is_err() {
                result = Err(TranscodeError::Codec);
            }
        });
        result
    }
}

impl Encoder {
    fn new(settings: AacSettings) -> Result<Self, enc::EncoderError> {
        let encoder = enc::Encoder::new(enc::EncoderParams {
            bit_rate: enc::BitRate::Cbr(settings.bits_per_second.clamp(32_000, 512_000)),
            sample_rate: RATE_OUT,
            transport: enc::Transport::Raw,
            channels: enc::ChannelMode::Stereo,
            audio_object_type: enc::AudioObjectType::Mpeg4LowComplexity,
        })?;
        let info = encoder.info()?;
        Ok(Self {
            encoder,
            config: Arc::new(CodecConfig {
                codec: Codec::Aac,
                record: info.confBuf[..(info.confSize as usize).min(info.confBuf.len())].to_vec(),
                sample_rate: RATE_OUT,
                channels: CHANNELS as u8,
            }),
            is_described: false,
            delay_us: i64::from(info.nDelay) * 1_000_000 / i64::from(RATE_OUT),
            times_us: VecDeque::new(),
            block: Vec::new(),
            frame: vec![0; FRAME_BYTES_MAX],
        })
    }

    fn encode(
        &mut self,
        time_us: i64,
        block: &[f32],
        out: &mut Vec<CodedAudio>,
    ) -> Result<(), enc::EncoderError> {
        self.times_us.push_back(time_us);
        self.block.clear();
        self.block.extend(block.iter().map(|sample| (sample * 32_768.0) as i16));
        let encoded = self.encoder.encode(&self.block, &mut self.frame)?;
        if encoded.output_size > 0 {
            let pts_us = self.times_us.pop_front().unwrap_or(time_us) - self.delay_us;
            if pts_us >= 0 {
                let format = (!self.is_described).then(|| Arc::clone(&self.config));
                self.is_described = true;
                out.push(CodedAudio { pts_us, format, data: self.frame[..encoded.output_size].to_vec() });
            }
        }
        Ok(())
    }
}
