//! Coded audio of RTMP to Opus packets of 20 ms, as WebRTC carries them.
//!
//! One or two channels, 48 kHz. Packets follow one another in steps of exactly 20 ms as long as the input's
//! timestamps do.

use std::sync::Arc;

use media::{Codec, CodecConfig, CodedAudio};
use opus::{Application, Bitrate, Channels, Encoder};

use crate::aligned::{Aligned, RATE_OUT};
use crate::decoder::Decoder;
use crate::pcm::Pcm;
use crate::{PIECE_BYTES_MAX, PTS_US_MAX, TranscodeError, mix};

/// Samples of a packet: 20 ms, what WebRTC uses (RFC 7874 §3).
const FRAME_SAMPLES: usize = 960;
const FRAME_US: i64 = 20_000;
/// Longest Opus packet of one frame (RFC 6716 §3.4).
const PACKET_BYTES_MAX: usize = 1_275;
/// An output time that goes back by less is the edge of a new beginning, and not sent; by more, the input's
/// times did.
const OVERLAP_US_MAX: i64 = 1_000_000;

/// How audio is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpusSettings {
    /// Bits per second of two channels, 6,000 to 510,000; one channel has half.
    pub bits_per_second: u32,
}

/// Decodes, resamples and encodes. **Call [`ToOpus::push`] with every piece in order, off the threads that
/// serve sockets.**
pub struct ToOpus {
    settings: OpusSettings,
    /// Of the current format, or why there is none.
    decoder: Result<Decoder, TranscodeError>,
    format: Option<CodecConfig>,
    /// What comes out, until the first packet has said so.
    opus: Option<Arc<CodecConfig>>,
    pcm: Pcm,
    mixed: Vec<f32>,
    /// Samples of the last piece that was decoded: what a lost one stands for.
    piece_samples: usize,
    output: Option<Output>,
    packet: Vec<u8>,
    last_pts_us: Option<i64>,
}

/// Everything after the down-mix, for one sampling rate and number of channels.
struct Output {
    aligned: Aligned,
    encoder: Encoder,
    /// The encoder's delay.
    lookahead_us: i64,
}

impl ToOpus {
    /// A transcoder nothing has gone through.
    pub fn new(settings: OpusSettings) -> Self {
        let opus = CodecConfig { codec: Codec::Opus, record: Vec::new(), sample_rate: RATE_OUT, channels: 2 };
        Self {
            settings,
            decoder: Err(TranscodeError::NoFormat),
            format: None,
            opus: Some(Arc::new(opus)),
            pcm: Pcm::default(),
            mixed: Vec::new(),
            piece_samples: 0,
            output: None,
            packet: vec![0; PACKET_BYTES_MAX],
            last_pts_us: None,
        }
    }

    /// Transcodes a piece and appends the packets that it completes to `out`, usually one or two. The
    /// first packet has the format.
    ///
    /// `format`, of AAC (raw access units) or MP3 (frames of layer III, one or more in a piece), is given
    /// with the first piece and whenever it may have changed. Packets due before time 0 are left out. After
    /// an error that [`TranscodeError::is_permanent`], every piece fails until the format changes.
    pub fn push(
        &mut self,
        format: Option<&CodecConfig>,
        pts_us: i64,
        data: &[u8],
        out: &mut Vec<CodedAudio>,
    ) -> Result<(), TranscodeError> {
        if format.is_some() && format != self.format.as_ref() {
            self.format = format.cloned();
            self.decoder = format.map_or(Err(TranscodeError::NoFormat), Decoder::open);
        }
        let decoder = self.decoder.as_mut().map_err(|error| *error)?;
        if data.len() > PIECE_BYTES_MAX {
            return Err(TranscodeError::Oversized);
        }
        if let Err(error) = decoder.decode(data, &mut self.pcm) {
            if let Some(output) = &mut self.output {
                output.aligned.lost(self.piece_samples);
            }
            return Err(error);
        }
        self.mixed.clear();
        mix::append(&self.pcm.samples, self.pcm.channels, &mut self.mixed);
        self.piece_samples = self.pcm.samples.len() / self.pcm.channels.max(1);
        self.encode(pts_us.clamp(-PTS_US_MAX, PTS_US_MAX), out)
    }

    fn encode(&mut self, pts_us: i64, out: &mut Vec<CodedAudio>) -> Result<(), TranscodeError> {
        let (rate, channels) = (self.pcm.rate, mix::channels_out(self.pcm.channels));
        let output = match &mut self.output {
            Some(output) if (output.aligned.rate(), output.aligned.channels()) == (rate, channels) => output,
            other => other.insert(Output::new(rate, channels, self.settings)?),
        };
        let delay_us = i64::from(self.pcm.delay_samples) * 1_000_000 / i64::from(rate.max(1));
        let mut result = Ok(());
        let lookahead_us = output.lookahead_us;
        output.aligned.push(pts_us - delay_us, &self.mixed, |time_us, block| {
            let pts_us = time_us - lookahead_us;
            let Ok(length) = output.encoder.encode_float(block, &mut self.packet) else {
                result = Err(TranscodeError::Codec);
                return;
            };
            let overlaps = self
                .last_pts_us
                .is_some_and(|last| (last - OVERLAP_US_MAX..last + FRAME_US).contains(&pts_us));
            if pts_us >= 0 && !overlaps {
                self.last_pts_us = Some(pts_us);
                let data = self.packet[..length].to_vec();
                out.push(CodedAudio { pts_us, format: self.opus.take(), data });
            }
        });
        result
    }
}

impl Output {
    fn new(rate: u32, channels: usize, settings: OpusSettings) -> Result<Self, TranscodeError> {
        let aligned = Aligned::new(rate, channels, FRAME_SAMPLES).ok_or(TranscodeError::Codec)?;
        let (encoder, lookahead) = encoder(channels, settings).map_err(|_| TranscodeError::Codec)?;
        Ok(Self { aligned, encoder, lookahead_us: i64::from(lookahead) * 1_000_000 / i64::from(RATE_OUT) })
    }
}

/// An encoder and its delay in samples.
fn encoder(channels: usize, settings: OpusSettings) -> opus::Result<(Encoder, i32)> {
    let bits_per_second = settings.bits_per_second.clamp(6_000, 510_000) as i32;
    let (layout, bits_per_second) = if channels == 1 {
        (Channels::Mono, bits_per_second / 2)
    } else {
        (Channels::Stereo, bits_per_second)
    };
    let mut encoder = Encoder::new(RATE_OUT, layout, Application::Audio)?;
    encoder.set_bitrate(Bitrate::Bits(bits_per_second))?;
    encoder.set_complexity(COMPLEXITY)?;
    let lookahead = encoder.get_lookahead()?;
    Ok((encoder, lookahead))
}

/// Effort of the encoder, 0 to 10; see `benches/transcode.rs` for what it costs.
const COMPLEXITY: i32 = 5;
