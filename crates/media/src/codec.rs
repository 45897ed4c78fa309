//! Codecs and kinds of media, independent of how a format names them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a track carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MediaKind {
    /// Audio.
    Audio,
    /// Video.
    Video,
    /// Anything else: metadata, cue points, subtitles.
    Data,
}

/// Four characters by which ISO base media files and Enhanced RTMP name things.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FourCc(pub [u8; 4]);

/// A codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Codec {
    /// H.264 / AVC.
    H264,
    /// H.265 / HEVC.
    H265,
    /// AV1.
    Av1,
    /// VP8.
    Vp8,
    /// VP9.
    Vp9,
    /// AAC.
    Aac,
    /// MP3.
    Mp3,
    /// Opus.
    Opus,
    /// AC-3.
    Ac3,
    /// E-AC-3.
    Eac3,
    /// FLAC.
    Flac,
    /// G.711 A-law.
    Pcma,
    /// G.711 mu-law.
    Pcmu,
    /// Speex.
    Speex,
    /// Any other, which is relayed as it is. Three zeros and a number below 16 are a codec id of FLV.
    Unknown(FourCc),
    /// No codec: data, commands.
    None,
}

impl Codec {
    /// Audio or video; [`MediaKind::Data`] of [`Codec::None`] and of codecs that only their
    /// container can place.
    pub fn kind(self) -> MediaKind {
        match self {
            Self::H264 | Self::H265 | Self::Av1 | Self::Vp8 | Self::Vp9 => MediaKind::Video,
            Self::Unknown(_) | Self::None => MediaKind::Data,
            _ => MediaKind::Audio,
        }
    }

    /// Its number in what nodes of a cluster tell each other; 0 if only its four characters name it.
    pub fn number(self) -> u8 {
        match self {
            Self::Unknown(_) => 0,
            Self::H264 => 1,
            Self::H265 => 2,
            Self::Av1 => 3,
            Self::Vp8 => 4,
            Self::Vp9 => 5,
            Self::Aac => 6,
            Self::Mp3 => 7,
            Self::Opus => 8,
            Self::Ac3 => 9,
            Self::Eac3 => 10,
            Self::Flac => 11,
            Self::Pcma => 12,
            Self::Pcmu => 13,
            Self::Speex => 14,
            Self::None => 15,
        }
    }

    /// The codec with this number, if one has it besides those of number 0.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::NUMBERED.into_iter().find(|codec| codec.number() == number)
    }

    /// All but [`Codec::Unknown`].
    pub const NUMBERED: [Self; 15] = [
        Self::H264,
        Self::H265,
        Self::Av1,
        Self::Vp8,
        Self::Vp9,
        Self::Aac,
        Self::Mp3,
        Self::Opus,
        Self::Ac3,
        Self::Eac3,
        Self::Flac,
        Self::Pcma,
        Self::Pcmu,
        Self::Speex,
        Self::None,
    ];
}

impl fmt::Display for FourCc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for FourCc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FourCc({self})")
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::H264 => "H.264",
            Self::H265 => "H.265",
            Self::Av1 => "AV1",
            Self::Vp8 => "VP8",
            Self::Vp9 => "VP9",
            Self::Aac => "AAC",
            Self::Mp3 => "MP3",
            Self::Opus => "Opus",
            Self::Ac3 => "AC-3",
            Self::Eac3 => "E-AC-3",
            Self::Flac => "FLAC",
            Self::Pcma => "G.711 A-law",
            Self::Pcmu => "G.711 mu-law",
            Self::Speex => "Speex",
            Self::Unknown(FourCc([0, 0, 0, id @ 0..16])) => return write!(f, "codec {id}"),
            Self::Unknown(fourcc) => return fourcc.fmt(f),
            Self::None => "none",
        })
    }
}
