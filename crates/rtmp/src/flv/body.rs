//! A tag body taken apart: codec, kind, times, and the bytes of the codec.
//!
//! Legacy and Enhanced RTMP give the same [`Body`]; of a multitrack body it is the first track. What the bytes mean is
//! left to others.

use super::tag::{Packet, TagHeader};
use super::{Codec, FlvError};

/// The parts of an audio or video tag body. Nothing is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Body<'a> {
    /// Its codec.
    pub codec: Codec,
    /// Which track of its kind: 0 in a body that names none (Enhanced RTMP v2, "Multitrack").
    pub track_id: u8,
    /// What [`Body::data`] is.
    pub kind: BodyKind,
    /// Video only: the publisher says that a decoder can start here.
    pub is_key: bool,
    /// Presentation minus decoding time, in milliseconds. A signed number of 24 bits on the wire.
    pub composition_ms: i32,
    /// What is to be added to the presentation time, in nanoseconds, below 1,000,000 if the publisher keeps to the
    /// standard (Enhanced RTMP v2, `TimestampOffsetNano`); else 0.
    pub offset_ns: u32,
    /// Sample rate and channels of legacy audio, where they mean something: not AAC.
    pub legacy: Option<LegacyAudio>,
    /// Configuration record, or coded data of one access unit.
    pub data: &'a [u8],
}

/// What a tag body carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// Decoder configuration.
    Config,
    /// Coded data.
    Frames,
    /// End of sequence: no data.
    End,
    /// Anything else.
    Other,
}

/// What the first byte of a legacy audio tag says (FLV 10.1, E.4.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LegacyAudio {
    /// 5500, 11,000, 22,000 or 44,000 Hz nominally, as 5512, 11,025, 22,050 and 44,100; 8000 for G.711.
    pub sample_rate: u32,
    /// 1 or 2.
    pub channels: u8,
}

/// Takes the body of a video tag apart. [`FlvError::Truncated`] if it ends before its header does.
pub fn video_body(body: &[u8]) -> Result<Body<'_>, FlvError> {
    TagHeader::of_video(body).map(|header| Body::of(&header, None))
}

/// Takes the body of an audio tag apart. [`FlvError::Truncated`] if it ends before its header does.
pub fn audio_body(body: &[u8]) -> Result<Body<'_>, FlvError> {
    let header = TagHeader::of_audio(body)?;
    let legacy = (header.audio_flags != 0 && header.codec != Codec::Aac).then(|| LegacyAudio {
        sample_rate: match (header.codec, header.audio_flags >> 4, header.audio_flags >> 2 & 3) {
            (Codec::Pcma | Codec::Pcmu, ..) | (_, MP3_8_KHZ, _) => 8_000,
            (_, _, rate) => [5_512, 11_025, 22_050, 44_100][usize::from(rate)],
        },
        channels: 1 + (header.audio_flags & 1),
    });
    Ok(Body::of(&header, legacy))
}

impl<'a> Body<'a> {
    fn of(header: &TagHeader<'a>, legacy: Option<LegacyAudio>) -> Self {
        Self {
            codec: header.codec,
            track_id: header.track_id,
            kind: match header.packet {
                Packet::Config => BodyKind::Config,
                Packet::Frames => BodyKind::Frames,
                Packet::End => BodyKind::End,
                Packet::Metadata | Packet::Other => BodyKind::Other,
            },
            is_key: matches!(header.frame_type, 1 | 4),
            composition_ms: header.composition_ms,
            offset_ns: header.offset_ns,
            legacy,
            data: header.data,
        }
    }
}

/// `SoundFormat` of MP3 at 8 kHz.
const MP3_8_KHZ: u8 = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_and_enhanced_bodies_have_the_same_parts() {
        let plain = Body {
            codec: Codec::H264,
            track_id: 0,
            kind: BodyKind::Frames,
            is_key: true,
            composition_ms: -2,
            offset_ns: 0,
            legacy: None,
            data: b"nal",
        };
        for (body, expected) in [
            (&b"\x17\x01\xff\xff\xfenal"[..], plain),
            (b"\x91avc1\xff\xff\xfenal", plain),
            (b"\x27\x01\xff\xff\xfenal", Body { is_key: false, ..plain }),
            (b"\x17\x00\xff\xff\xfenal", Body { kind: BodyKind::Config, ..plain }),
            (b"\x93hvc1nal", Body { codec: Codec::H265, composition_ms: 0, ..plain }),
            // Nanoseconds: ModEx with three bytes, type 0, then coded frames.
            (b"\x97\x02\x01\x02\x03\x01avc1\xff\xff\xfenal", Body { offset_ns: 0x01_0203, ..plain }),
            // Another ModEx, with one byte, in front of it.
            (
                b"\x97\x00\x55\x17\x02\x01\x02\x03\x01avc1\xff\xff\xfenal",
                Body { offset_ns: 0x01_0203, ..plain },
            ),
            // One track, and the first of many.
            (b"\x96\x01avc1\x00\xff\xff\xfenal", plain),
            (b"\x96\x01avc1\x07\xff\xff\xfenal", Body { track_id: 7, ..plain }),
            (b"\x96\x11avc1\x00\x00\x00\x06\xff\xff\xfenal\x01\x00\x00\x04\x00\x00\x00x", plain),
            (b"\x96\x21avc1\x00\x00\x00\x06\xff\xff\xfenalhvc1\x01\x00\x00\x04\x00\x00\x00x", plain),
        ] {
            assert_eq!(video_body(body), Ok(expected), "{}", body.escape_ascii());
        }
    }

    #[test]
    fn legacy_audio_says_rate_and_channels_where_they_are_true() {
        let legacy = |sample_rate, channels| Some(LegacyAudio { sample_rate, channels });
        for (body, codec, expected) in [
            (&b"\xaf\x01data"[..], Codec::Aac, None),
            (b"\x91Opusdata", Codec::Opus, None),
            (b"\x2fdata", Codec::Mp3, legacy(44_100, 2)),
            (b"\x2adata", Codec::Mp3, legacy(22_050, 1)),
            (b"\xe2data", Codec::Mp3, legacy(8_000, 1)),
            (b"\x82data", Codec::Pcmu, legacy(8_000, 1)),
            (b"\x7fdata", Codec::Pcma, legacy(8_000, 2)),
        ] {
            let body = audio_body(body).unwrap();
            assert_eq!((body.codec, body.legacy, body.data), (codec, expected, &b"data"[..]));
        }
    }
}
