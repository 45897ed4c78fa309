//! How a rendition is coded, from its configuration record or, where there is none, its first frame.

use std::fmt;

use media::config::{AudioSpecificConfig, audio_format, audio_frame_format, vp9_record};
use media::{Codec, CodecConfig, Frame, FrameRole, MediaKind};

use crate::codecs::codecs;

/// How a rendition is coded.
#[derive(Debug, Clone, PartialEq)]
pub struct Format {
    /// The codec.
    pub codec: Codec,
    /// The `codecs` parameter (RFC 6381).
    pub codecs: String,
    /// Width in pixels; 0 for audio and where nothing says it.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Frames per second, if the configuration says so.
    pub frame_rate: Option<f32>,
    /// Samples per second of audio, else 0.
    pub sample_rate: u32,
    /// Channels of audio, else 0.
    pub channels: u8,
    /// Configuration record, as boxes have it; empty where there is none.
    pub(crate) record: Vec<u8>,
    /// A first frame, of codecs whose boxes are made of it.
    pub(crate) frame: Vec<u8>,
    /// Samples of a frame of AAC.
    pub(crate) frame_samples: u32,
}

/// Why a track cannot be carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Fragmented MP4 has no usual form of the codec, or players of HLS and DASH do not know it.
    Codec(Codec),
    /// The decoder configuration cannot be read.
    Configuration(Codec),
    /// There are too many tracks of its kind.
    TooManyTracks,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Codec(codec) => write!(f, "HLS and DASH players do not play {codec}"),
            Self::Configuration(codec) => write!(f, "the decoder configuration of {codec} cannot be read"),
            Self::TooManyTracks => f.write_str("too many tracks of a kind"),
        }
    }
}

impl std::error::Error for Refusal {}

impl Format {
    /// Ticks per second of the rendition: samples of audio, 90 kHz of video.
    pub fn timescale(&self) -> u32 {
        if self.kind() == MediaKind::Audio { self.sample_rate } else { VIDEO_TIMESCALE }
    }

    /// Audio or video.
    pub fn kind(&self) -> MediaKind {
        self.codec.kind()
    }

    /// The format that a configuration record tells. `Ok(None)` if frames have to tell it.
    ///
    /// # Errors
    /// It cannot be read, or no player plays the codec.
    pub fn of_record(codec: Codec, record: &[u8]) -> Result<Option<Self>, Refusal> {
        let refused = Refusal::Configuration(codec);
        match codec {
            Codec::H264 | Codec::H265 | Codec::Av1 | Codec::Vp9 => {
                // Some put version and flags of the box before the record.
                let behind = record.strip_prefix(&[1, 0, 0, 0]).filter(|rest| rest.len() >= 8);
                let record = if codec == Codec::Vp9 { behind.unwrap_or(record) } else { record };
                let codecs = codecs(codec, record).ok_or(refused)?;
                let format = CodecConfig::new(codec, record.to_vec()).video_format();
                let (width, height) = format.as_ref().map_or((0, 0), |format| (format.width, format.height));
                let frame_rate = format.and_then(|format| format.frame_rate);
                let frame_rate = frame_rate.filter(|rate| rate.is_finite() && (1.0..=1000.0).contains(rate));
                let picture = Self { codecs, width, height, frame_rate, ..Self::empty(codec) };
                Ok(Some(Self { record: record.to_vec(), ..picture }))
            }
            Codec::Aac | Codec::Opus | Codec::Flac => {
                let read = audio_format(codec, record).ok_or(refused)?;
                let codecs = codecs(codec, record).ok_or(refused)?;
                let mut frame_samples = 0;
                let mut sample_rate = read.sample_rate;
                if codec == Codec::Aac {
                    let config = AudioSpecificConfig::read(record).map_err(|_| refused)?;
                    frame_samples = if config.short_frames { 960 } else { 1024 };
                    // Frames are counted at the rate of the core: what spectral band replication adds
                    // need not be announced at all.
                    sample_rate = config.sample_rate;
                }
                if !SAMPLE_RATES.contains(&sample_rate) {
                    return Err(refused);
                }
                let audio = Self { codecs, sample_rate, frame_samples, ..Self::empty(codec) };
                Ok(Some(Self { channels: read.channels, record: record.to_vec(), ..audio }))
            }
            Codec::Mp3 | Codec::Ac3 | Codec::Eac3 => Ok(None),
            _ => Err(Refusal::Codec(codec)),
        }
    }

    /// The format that a configuration frame tells.
    pub(crate) fn of_config(frame: &Frame) -> Result<Option<Self>, Refusal> {
        Self::of_record(frame.codec, frame.data())
    }

    /// The format that a frame of a codec without configurations tells.
    pub(crate) fn of_frame(frame: &Frame) -> Result<Self, Refusal> {
        Self::of_sample(frame.codec, frame.data(), frame.role == FrameRole::Key)
    }

    /// The format that a sample of a codec without configurations tells; of audio its first bytes
    /// ([`FRAME_HEAD_BYTES`]) will do.
    ///
    /// # Errors
    /// It does not, or no player plays the codec.
    pub fn of_sample(codec: Codec, data: &[u8], is_key: bool) -> Result<Self, Refusal> {
        let refused = Refusal::Configuration(codec);
        match codec {
            Codec::Mp3 | Codec::Ac3 | Codec::Eac3 => {
                let read = audio_frame_format(codec, data).ok_or(refused)?;
                let codecs = codecs(codec, &[]).ok_or(refused)?;
                if !SAMPLE_RATES.contains(&read.sample_rate) {
                    return Err(refused);
                }
                let audio = Self { codecs, sample_rate: read.sample_rate, ..Self::empty(codec) };
                let frame = data[..data.len().min(FRAME_HEAD_BYTES)].to_vec();
                Ok(Self { channels: read.channels, frame, ..audio })
            }
            // Publishers of packets and some encoders send no configuration.
            Codec::Vp9 if is_key => {
                let record = vp9_record(data).ok_or(refused)?;
                let codecs = codecs(codec, &record.bytes).ok_or(refused)?;
                let picture =
                    Self { codecs, width: record.width, height: record.height, ..Self::empty(codec) };
                Ok(Self { record: record.bytes, ..picture })
            }
            Codec::H264 | Codec::H265 | Codec::Av1 | Codec::Vp9 | Codec::Aac | Codec::Opus | Codec::Flac => {
                Err(refused)
            }
            _ => Err(Refusal::Codec(codec)),
        }
    }

    /// Samples of audio in a frame that begins with these bytes, at the sampling rate; `None` if
    /// they do not say it.
    pub fn samples_of_frame(&self, data: &[u8]) -> Option<u32> {
        crate::audio::frame_samples(self, data)
    }

    /// Whether init segments for the two are the same.
    pub fn is_same(&self, other: &Self) -> bool {
        let of =
            |format: &Self| (format.codec, format.width, format.height, format.sample_rate, format.channels);
        of(self) == of(other) && self.record == other.record
    }

    fn empty(codec: Codec) -> Self {
        Self {
            codec,
            codecs: String::new(),
            width: 0,
            height: 0,
            frame_rate: None,
            sample_rate: 0,
            channels: 0,
            record: Vec::new(),
            frame: Vec::new(),
            frame_samples: 0,
        }
    }
}

/// Ticks per second of video: exact for milliseconds, for MPEG-TS and RTP, and for all usual frame rates
/// with 1001 in them.
pub(crate) const VIDEO_TIMESCALE: u32 = 90_000;
/// Sampling rates that occur. One out of this range is a configuration that lies.
const SAMPLE_RATES: std::ops::RangeInclusive<u32> = 7_350..=384_000;
/// What the headers of AC-3 and E-AC-3 frames take.
pub const FRAME_HEAD_BYTES: usize = 64;
