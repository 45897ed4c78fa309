//! Heads of tag bodies, for those who make frames of their own; `tag.rs` draws and reads them.
//!
//! H.264, AAC and G.711 get the bodies of FLV 10.1, which every player reads; all other codecs those of Enhanced RTMP.
//! The caller appends the codec's data, or the record that `media::config` makes.

use super::Codec;
use super::codec::{fourcc, number};
use crate::MediaKind;
use crate::amf0::{Value, encode};

/// What follows the head of a video body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VideoPart {
    /// Configuration record.
    Config,
    /// An access unit.
    Frame {
        /// A decoder can start here.
        is_key: bool,
        /// Presentation minus decoding time in milliseconds. H.264 and H.265 carry it; kept within 24 bits.
        composition_ms: i32,
    },
    /// Nothing: no picture follows until there is another configuration (Enhanced RTMP, "SequenceEnd").
    End,
}

/// What follows the head of an audio body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoundPart {
    /// AudioSpecificConfig, `OpusHead`; G.711 has none.
    Config,
    /// One access unit or packet.
    Frame,
    /// Nothing: no sound follows until there is another configuration. AAC has that in Enhanced RTMP only, so a player
    /// may not know it; G.711 has none.
    End,
}

/// Appends the head of a video body. `None`, with nothing appended, for a codec that is none of H.264, H.265, AV1, VP8
/// and VP9.
pub fn write_video_head(out: &mut Vec<u8>, codec: Codec, part: VideoPart) -> Option<()> {
    let (frame_type, composition_ms) = match part {
        VideoPart::Config | VideoPart::End => (KEY, 0),
        VideoPart::Frame { is_key, composition_ms } => {
            (if is_key { KEY } else { INTER }, composition_ms.clamp(-(1 << 23), (1 << 23) - 1))
        }
    };
    let [_, composition @ ..] = composition_ms.to_be_bytes();
    let four_cc = match codec {
        Codec::H264 => {
            let packet_type = match part {
                VideoPart::Config => SEQUENCE_START,
                VideoPart::Frame { .. } => CODED_FRAMES,
                VideoPart::End => SEQUENCE_END,
            };
            out.extend_from_slice(&[frame_type << 4 | AVC, packet_type]);
            out.extend_from_slice(&composition);
            return Some(());
        }
        _ if codec.kind() == MediaKind::Video => fourcc(codec)?,
        _ => return None,
    };
    let packet_type = match (part, codec, composition_ms) {
        (VideoPart::Config, ..) => SEQUENCE_START,
        (VideoPart::End, ..) => SEQUENCE_END,
        // Saves the three bytes of a composition time that is 0.
        (_, Codec::H265, 0) => CODED_FRAMES_X,
        _ => CODED_FRAMES,
    };
    out.push(0x80 | frame_type << 4 | packet_type);
    out.extend_from_slice(&four_cc);
    if codec == Codec::H265 && packet_type == CODED_FRAMES {
        out.extend_from_slice(&composition);
    }
    Some(())
}

/// Appends the head of an audio body. `None`, with nothing appended, for a codec that is none of AAC, Opus and G.711
/// (of one channel), and for a configuration or an end of G.711.
pub fn write_sound_head(out: &mut Vec<u8>, codec: Codec, part: SoundPart) -> Option<()> {
    match (codec, part) {
        // Rate and channels of AAC are always said to be 44.1 kHz, 16 bits, stereo (E.4.2.1).
        (Codec::Aac, SoundPart::End) => out.extend_from_slice(b"\x92mp4a"),
        (Codec::Aac, _) => out.extend_from_slice(&[0xaf, u8::from(part == SoundPart::Frame)]),
        (Codec::Pcma, SoundPart::Frame) => out.push(0x72),
        (Codec::Pcmu, SoundPart::Frame) => out.push(0x82),
        (Codec::Opus, SoundPart::Config) => out.extend_from_slice(b"\x90Opus"),
        (Codec::Opus, SoundPart::Frame) => out.extend_from_slice(b"\x91Opus"),
        (Codec::Opus, SoundPart::End) => out.extend_from_slice(b"\x92Opus"),
        _ => return None,
    }
    Some(())
}

/// What `onMetaData` tells of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Metadata<'a> {
    /// Codec of the video and its size in pixels, 0 if unknown.
    pub video: Option<(Codec, u32, u32)>,
    /// Codec of the sound, samples per second, channels.
    pub sound: Option<(Codec, u32, u8)>,
    /// What made the stream.
    pub encoder: &'a str,
}

/// Appends a data body with `onMetaData` (FLV 10.1, E.5).
pub fn write_metadata(out: &mut Vec<u8>, metadata: &Metadata<'_>) {
    let mut properties = Vec::new();
    let mut put = |name: &str, value: Value| properties.push((name.to_owned(), value));
    if let Some((codec, width, height)) = metadata.video {
        if width > 0 && height > 0 {
            put("width", f64::from(width).into());
            put("height", f64::from(height).into());
        }
        put("videocodecid", f64::from(number(codec)).into());
    }
    if let Some((codec, sample_rate, channels)) = metadata.sound {
        put("audiocodecid", f64::from(number(codec)).into());
        put("audiosamplerate", f64::from(sample_rate).into());
        put("audiosamplesize", 16.0.into());
        put("stereo", (channels > 1).into());
    }
    put("encoder", metadata.encoder.into());
    encode(out, &"onMetaData".into());
    encode(out, &Value::EcmaArray(properties));
}

const KEY: u8 = 1;
const INTER: u8 = 2;
const AVC: u8 = 7;
const SEQUENCE_START: u8 = 0;
const CODED_FRAMES: u8 = 1;
const SEQUENCE_END: u8 = 2;
const CODED_FRAMES_X: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amf0::{Decoder, Limits};
    use crate::flv::{BodyRole, inspect};

    #[test]
    fn heads_are_read_back_as_what_they_were_written_for() {
        for codec in [Codec::H264, Codec::H265, Codec::Av1, Codec::Vp8, Codec::Vp9] {
            let times = if matches!(codec, Codec::H264 | Codec::H265) { &[0, 40, -3][..] } else { &[0] };
            for composition_ms in times {
                for (part, role) in [
                    (VideoPart::Config, BodyRole::Config),
                    (VideoPart::Frame { is_key: true, composition_ms: *composition_ms }, BodyRole::Key),
                    (VideoPart::Frame { is_key: false, composition_ms: *composition_ms }, BodyRole::Inter),
                ] {
                    let mut body = Vec::new();
                    write_video_head(&mut body, codec, part).unwrap();
                    body.push(0);
                    let info = inspect(MediaKind::Video, &body).unwrap();
                    let expected = if role == BodyRole::Config { 0 } else { *composition_ms };
                    assert_eq!((info.codec, info.role, info.composition_ms), (codec, role, expected));
                }
            }
        }
        for (codec, part, role) in [
            (Codec::Aac, SoundPart::Config, BodyRole::Config),
            (Codec::Aac, SoundPart::Frame, BodyRole::Audio),
            (Codec::Opus, SoundPart::Config, BodyRole::Config),
            (Codec::Opus, SoundPart::Frame, BodyRole::Audio),
            (Codec::Pcma, SoundPart::Frame, BodyRole::Audio),
            (Codec::Pcmu, SoundPart::Frame, BodyRole::Audio),
        ] {
            let mut body = Vec::new();
            write_sound_head(&mut body, codec, part).unwrap();
            body.push(0);
            let info = inspect(MediaKind::Audio, &body).unwrap();
            assert_eq!((info.codec, info.role), (codec, role));
        }
        let mut body = Vec::new();
        assert_eq!(write_video_head(&mut body, Codec::Aac, VideoPart::Config), None);
        assert_eq!(write_sound_head(&mut body, Codec::Pcma, SoundPart::Config), None);
        assert_eq!(write_sound_head(&mut body, Codec::Mp3, SoundPart::Frame), None);
        assert!(body.is_empty());
    }

    #[test]
    fn ends_are_read_back_as_ends() {
        for codec in [Codec::H264, Codec::H265, Codec::Av1, Codec::Vp8, Codec::Vp9] {
            let mut body = Vec::new();
            write_video_head(&mut body, codec, VideoPart::End).unwrap();
            let info = inspect(MediaKind::Video, &body).unwrap();
            assert_eq!((info.codec, info.role), (codec, BodyRole::End));
        }
        for codec in [Codec::Aac, Codec::Opus] {
            let mut body = Vec::new();
            write_sound_head(&mut body, codec, SoundPart::End).unwrap();
            let info = inspect(MediaKind::Audio, &body).unwrap();
            assert_eq!((info.codec, info.role), (codec, BodyRole::End));
        }
        assert_eq!(write_sound_head(&mut Vec::new(), Codec::Pcma, SoundPart::End), None);
    }

    #[test]
    fn composition_times_stay_within_their_24_bits() {
        for (given, kept) in [(i32::MAX, (1 << 23) - 1), (i32::MIN, -(1 << 23))] {
            let mut body = Vec::new();
            let part = VideoPart::Frame { is_key: false, composition_ms: given };
            write_video_head(&mut body, Codec::H264, part).unwrap();
            assert_eq!(inspect(MediaKind::Video, &body).unwrap().composition_ms, kept);
        }
    }

    #[test]
    fn metadata_names_codecs_and_sizes() {
        let mut body = Vec::new();
        let metadata = Metadata {
            video: Some((Codec::Av1, 1280, 720)),
            sound: Some((Codec::Opus, 48_000, 2)),
            encoder: "test",
        };
        write_metadata(&mut body, &metadata);
        assert_eq!(inspect(MediaKind::Data, &body).unwrap().role, BodyRole::Metadata);
        let mut decoder = Decoder::new(&body, Limits::METADATA);
        assert_eq!(decoder.next_value().unwrap(), Some("onMetaData".into()));
        let values = decoder.next_value().unwrap().unwrap();
        let number = |name: &str| values.get(name).and_then(Value::as_number);
        assert_eq!((number("width"), number("height")), (Some(1280.0), Some(720.0)));
        assert_eq!(number("videocodecid"), Some(f64::from(0x6176_3031)));
        assert_eq!(number("audiosamplerate"), Some(48_000.0));
        assert_eq!(values.get("stereo").and_then(Value::as_bool), Some(true));
    }
}
