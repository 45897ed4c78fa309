//! Audio between what RTMP and what WebRTC carries: AAC and MP3 to Opus, Opus to AAC.
//!
//! ```text
//!  coded, pts ─▶ decoder ─▶ down-mix ─▶ aligned (silence, skips, resampler locked to the pts) ─▶ encoder ─▶ coded, pts
//! ```
//!
//! A presentation time (pts) is when the first sample that a decoder makes of a piece is to be heard; delays
//! of resampler and encoder are taken off, so that an impulse keeps its time. Decoding and encoding take a
//! good part of a millisecond a frame, so none of this belongs on a thread that serves sockets: [`Pool`] has
//! threads for it. G.711 and Opus need no transcoding towards WebRTC: browsers must have both (RFC 7874 §3).

mod aligned;
mod audio_specific_config;
mod decoder;
#[cfg(feature = "fdk-aac")]
mod fdk;
mod lock;
mod mix;
mod mp3;
mod pcm;
mod pool;
mod to_aac;
mod to_opus;

#[cfg(feature = "fdk-aac")]
pub use fdk::ToAac;
pub use pool::{Conversion, Pool, PoolRefused, PoolSettings, PushError, Replies, Reply, Spawn, Transcoder};
pub use to_aac::NotBuiltIn;
#[cfg(not(feature = "fdk-aac"))]
pub use to_aac::ToAac;
pub use to_opus::{OpusSettings, ToOpus};

/// Longest coded piece that is looked at, bytes; longer ones are [`TranscodeError::Oversized`].
///
/// An AAC access unit has at most 768 bytes a channel (ISO/IEC 14496-3 §4.5.1.1), an MP3 frame 2,881, an Opus
/// packet of one frame 1,275.
pub const PIECE_BYTES_MAX: usize = 16 * 768;

/// Times are held within this, about 285 years either side of zero: arithmetic on them cannot overflow.
const PTS_US_MAX: i64 = 1 << 53;

/// How AAC is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AacSettings {
    /// Bits per second, two channels at 48 kHz; 32,000 to 512,000.
    pub bits_per_second: u32,
}

/// Why a piece gave no audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TranscodeError {
    /// The decoder configuration makes no sense. Every piece fails until there is another.
    BadConfig,
    /// The configuration asks for what this build has no decoder for. Every piece fails until there is
    /// another.
    Unsupported(Unsupported),
    /// There was no format yet.
    NoFormat,
    /// The piece is longer than [`PIECE_BYTES_MAX`].
    Oversized,
    /// The piece cannot be decoded; silence is put in its place.
    Broken,
    /// A codec library failed in a way that is not the input's fault.
    Codec,
}

impl TranscodeError {
    /// Whether no piece can be transcoded until the format changes.
    pub fn is_permanent(self) -> bool {
        matches!(self, Self::BadConfig | Self::Unsupported(_))
    }
}

/// What a build may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unsupported {
    /// An AAC object type other than LC (and, with `fdk-aac`, HE-AAC): Main, SSR, LTP, LD and so on.
    AacObjectType,
    /// AAC with more than two channels, or channels described in band; `fdk-aac` decodes up to eight.
    AacChannels,
    /// A sampling rate outside 7,350 to 96,000 Hz.
    SampleRate,
}

impl TranscodeError {
    /// For the viewer's error and the log.
    pub fn text(self) -> &'static str {
        match self {
            Self::BadConfig => "the decoder configuration of the audio is broken",
            Self::Unsupported(Unsupported::AacObjectType) => {
                "this kind of AAC cannot be decoded; use AAC-LC in the encoder"
            }
            Self::Unsupported(Unsupported::AacChannels) => {
                "AAC with more than two channels is decoded only by builds with fdk-aac; use mono or stereo in the encoder"
            }
            Self::Unsupported(Unsupported::SampleRate) => {
                "the sampling rate of the audio is not supported; use 48 kHz in the encoder"
            }
            Self::NoFormat => "audio came before its decoder configuration",
            Self::Oversized => "a frame of audio is longer than its codec allows",
            Self::Broken => "a frame of audio cannot be decoded",
            Self::Codec => "the codec library failed",
        }
    }
}

impl std::fmt::Display for TranscodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for TranscodeError {}

/// The example of the README, so that it stays true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
