//! Codecs, by the numbers of FLV and the FourCCs of Enhanced RTMP.

use std::fmt;

/// A codec of a tag body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// H.264 / AVC: codec id 7, `avc1`.
    H264,
    /// H.265 / HEVC: `hvc1`, and codec id 12 as used before Enhanced RTMP.
    H265,
    /// AV1: `av01`.
    Av1,
    /// VP8: `vp08`.
    Vp8,
    /// VP9: `vp09`.
    Vp9,
    /// AAC: sound format 10, `mp4a`.
    Aac,
    /// MP3: sound formats 2 and 14, `.mp3`.
    Mp3,
    /// Opus: `Opus`.
    Opus,
    /// AC-3: `ac-3`.
    Ac3,
    /// E-AC-3: `ec-3`.
    Eac3,
    /// FLAC: `fLaC`.
    Flac,
    /// G.711 A-law: sound format 7.
    G711A,
    /// G.711 mu-law: sound format 8.
    G711U,
    /// Speex: sound format 11.
    Speex,
    /// Any other: the codec id or sound format (below 16), or the FourCC, big endian.
    Other(u32),
    /// The body names none: data, commands.
    None,
}

impl Codec {
    /// Codec of a legacy `CodecID` (E.4.3.1).
    pub(super) fn from_video_id(id: u8) -> Self {
        match id {
            7 => Self::H264,
            12 => Self::H265,
            _ => Self::Other(u32::from(id)),
        }
    }

    /// Codec of a legacy `SoundFormat` (E.4.2.1).
    pub(super) fn from_sound_format(format: u8) -> Self {
        match format {
            2 | 14 => Self::Mp3,
            7 => Self::G711A,
            8 => Self::G711U,
            10 => Self::Aac,
            11 => Self::Speex,
            _ => Self::Other(u32::from(format)),
        }
    }

    /// Codec of a FourCC (Enhanced RTMP v2, tables of "Enhanced Audio" and "Enhanced Video").
    pub(super) fn from_fourcc(fourcc: [u8; 4]) -> Self {
        match &fourcc {
            b"avc1" => Self::H264,
            b"hvc1" => Self::H265,
            b"av01" => Self::Av1,
            b"vp08" => Self::Vp8,
            b"vp09" => Self::Vp9,
            b"mp4a" => Self::Aac,
            b".mp3" => Self::Mp3,
            b"Opus" => Self::Opus,
            b"ac-3" => Self::Ac3,
            b"ec-3" => Self::Eac3,
            b"fLaC" => Self::Flac,
            _ => Self::Other(u32::from_be_bytes(fourcc)),
        }
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
            Self::G711A => "G.711 A-law",
            Self::G711U => "G.711 mu-law",
            Self::Speex => "Speex",
            Self::Other(id @ 0..16) => return write!(f, "codec {id}"),
            Self::Other(fourcc) => {
                return write!(f, "{}", fourcc.to_be_bytes().escape_ascii());
            }
            Self::None => "none",
        })
    }
}
