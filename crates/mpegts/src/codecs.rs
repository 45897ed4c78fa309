//! How codecs are named in a program map table: stream types (ISO/IEC 13818-1 table 2-34, ATSC
//! A/53 part 3) and descriptors.
//!
//! | codec | stream type | descriptor |
//! |---|---|---|
//! | H.264, H.265 | 0x1b, 0x24 | |
//! | AAC in ADTS, in LATM | 0x0f, 0x11 | |
//! | MPEG-1 and MPEG-2 audio | 0x03, 0x04 | |
//! | AC-3, E-AC-3 (ATSC) | 0x81, 0x87 | |
//! | AC-3, E-AC-3 (DVB) | 0x06 | 0x6a, 0x7a (EN 300 468 annex D) |
//! | Opus | 0x06 | registration `Opus`, extension 0x80 with the channels |

use media::Codec;

use crate::psi::descriptors;

/// Sampling rates by their index (ISO/IEC 14496-3 table 1.18).
pub(crate) const AAC_RATES: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];

pub(crate) const PRIVATE: u8 = 0x06;
pub(crate) const SCTE_35: u8 = 0x86;
const REGISTRATION: u8 = 0x05;
const EXTENSION: u8 = 0x7f;
/// The extension of Opus that says how many channels there are.
const OPUS_CHANNELS: u8 = 0x80;

/// What an elementary stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carried {
    H264,
    H265,
    Adts,
    Latm,
    MpegAudio,
    Ac3,
    Eac3,
    Opus {
        /// 0 if the table does not say.
        channels: u8,
    },
}

impl Carried {
    /// What a row of a program map table announces, if that is carried here.
    pub(crate) fn of(stream_type: u8, info: &[u8]) -> Option<Self> {
        Some(match stream_type {
            0x1b => Self::H264,
            0x24 => Self::H265,
            0x0f => Self::Adts,
            0x11 => Self::Latm,
            0x03 | 0x04 => Self::MpegAudio,
            0x81 => Self::Ac3,
            0x87 => Self::Eac3,
            PRIVATE => descriptors(info).find_map(|(tag, body)| match (tag, body) {
                (0x6a, _) => Some(Self::Ac3),
                (0x7a, _) => Some(Self::Eac3),
                (REGISTRATION, [b'A', b'C', b'-', b'3', ..]) => Some(Self::Ac3),
                (REGISTRATION, [b'E', b'A', b'C', b'3', ..]) => Some(Self::Eac3),
                (REGISTRATION, [b'H', b'E', b'V', b'C', ..]) => Some(Self::H265),
                (REGISTRATION, [b'O', b'p', b'u', b's', ..]) => {
                    let channels = descriptors(info).find_map(|descriptor| match descriptor {
                        (EXTENSION, [OPUS_CHANNELS, channels, ..]) => Some(*channels),
                        _ => None,
                    });
                    Some(Self::Opus { channels: channels.unwrap_or(0) })
                }
                _ => None,
            })?,
            _ => return None,
        })
    }

    /// Its codec.
    pub(crate) fn codec(self) -> Codec {
        match self {
            Self::H264 => Codec::H264,
            Self::H265 => Codec::H265,
            Self::Adts | Self::Latm => Codec::Aac,
            Self::MpegAudio => Codec::Mp3,
            Self::Ac3 => Codec::Ac3,
            Self::Eac3 => Codec::Eac3,
            Self::Opus { .. } => Codec::Opus,
        }
    }
}

/// What a row of a program map table announces that is audio or video and is not carried. `None` of
/// those that are, and of what is neither: subtitles, data.
pub(crate) fn left_out(stream_type: u8, info: &[u8]) -> Option<&'static str> {
    Some(match stream_type {
        0x01 => "MPEG-1 video",
        0x02 => "MPEG-2 video",
        0x10 => "MPEG-4 Visual",
        0x21 => "JPEG 2000",
        0x33 => "H.266",
        0x42 => "AVS",
        0x8a => "DTS",
        0xd1 => "Dirac",
        0xea => "VC-1",
        PRIVATE if Carried::of(stream_type, info).is_none() => {
            descriptors(info).find_map(|descriptor| match descriptor {
                (0x7b, _) => Some("DTS"),
                (REGISTRATION, [b'A', b'V', b'0', b'1', ..]) => Some("AV1"),
                (REGISTRATION, [b'V', b'P', b'0', b'9', ..]) => Some("VP9"),
                (REGISTRATION, [b'B', b'S', b'S', b'D', ..]) => Some("PCM of SMPTE 302M"),
                _ => None,
            })?
        }
        _ => return None,
    })
}

/// Stream type and descriptors of a codec; `None` if transport streams cannot carry it.
///
/// `channels` are those of Opus. MP3 is announced as MPEG-1 audio whatever its rate, as most do.
pub(crate) fn announce(codec: Codec, channels: u8) -> Option<(u8, Vec<u8>)> {
    let registration = |name: &[u8; 4]| [&[REGISTRATION, 4][..], name].concat();
    Some(match codec {
        Codec::H264 => (0x1b, Vec::new()),
        Codec::H265 => (0x24, registration(b"HEVC")),
        Codec::Aac => (0x0f, Vec::new()),
        Codec::Mp3 => (0x03, Vec::new()),
        Codec::Ac3 => (0x81, registration(b"AC-3")),
        Codec::Eac3 => (0x87, registration(b"EAC3")),
        Codec::Opus => {
            let channels = [EXTENSION, 2, OPUS_CHANNELS, channels];
            (PRIVATE, [&registration(b"Opus")[..], &channels].concat())
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_announced_is_read_back() {
        for codec in Codec::NUMBERED {
            let Some((stream_type, info)) = announce(codec, 2) else {
                assert!(matches!(
                    codec,
                    Codec::Av1
                        | Codec::Vp8
                        | Codec::Vp9
                        | Codec::Flac
                        | Codec::Pcma
                        | Codec::Pcmu
                        | Codec::Speex
                        | Codec::None
                ));
                continue;
            };
            let carried = Carried::of(stream_type, &info).expect("carried");
            assert_eq!(left_out(stream_type, &info), None);
            assert_eq!(carried.codec(), codec);
            assert!(codec != Codec::Opus || carried == Carried::Opus { channels: 2 });
        }
        assert_eq!(Carried::of(0x06, &[0x6a, 1, 0]), Some(Carried::Ac3), "DVB");
        assert_eq!(Carried::of(0x06, &[0x05, 200, b'O']), None, "cut");
        assert_eq!(left_out(0x06, b"\x05\x04AV01"), Some("AV1"));
        assert_eq!(left_out(0x06, &[0x59, 0]), None, "subtitles");
    }
}
