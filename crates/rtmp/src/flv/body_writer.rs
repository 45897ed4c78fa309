//! Heads of tag bodies for frames that came without; `tag.rs` draws and reads them.
//!
//! H.264, AAC and G.711 get the bodies of FLV 10.1, which every player reads; all other codecs those of
//! Enhanced RTMP. The caller appends the codec's data, or the record that `media::config` makes.

use media::Metadata;

use super::Codec;
use super::codec::{fourcc, number};
use crate::MediaKind;
use crate::amf0::{Value, encode};

/// What follows the head of a video body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VideoPart {
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
pub(super) enum AudioPart {
    /// AudioSpecificConfig, `OpusHead`; G.711 has none.
    Config,
    /// One access unit or packet.
    Frame,
    /// Nothing: no audio follows until there is another configuration. AAC has that in Enhanced RTMP only, so
    /// a player may not know it; G.711 has none.
    End,
}

/// The head of a body.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Head {
    bytes: [u8; Self::BYTES_MAX],
    len: u8,
}

impl Head {
    /// Of the longest: multitrack, FourCC, track and composition time.
    pub(super) const BYTES_MAX: usize = 10;

    /// The head of a video body. `None` for a codec that is none of H.264, H.265, AV1, VP8 and VP9. Tracks
    /// other than 0 get a multitrack body of one track.
    pub(super) fn of_video(codec: Codec, track: u8, part: VideoPart) -> Option<Self> {
        if codec.kind() != MediaKind::Video {
            return None;
        }
        let (frame_type, composition_ms) = match part {
            VideoPart::Config | VideoPart::End => (KEY, 0),
            VideoPart::Frame { is_key, composition_ms } => {
                (if is_key { KEY } else { INTER }, composition_ms.clamp(-(1 << 23), (1 << 23) - 1))
            }
        };
        let [_, composition @ ..] = composition_ms.to_be_bytes();
        let is_legacy = codec == Codec::H264 && track == 0;
        let packet_type = match (part, codec, composition_ms) {
            (VideoPart::Config, ..) => SEQUENCE_START,
            (VideoPart::End, ..) => SEQUENCE_END,
            // Saves the three bytes of a composition time that is 0.
            (_, Codec::H264 | Codec::H265, 0) if !is_legacy => CODED_FRAMES_X,
            _ => CODED_FRAMES,
        };
        let mut head = Self::default();
        if is_legacy {
            head.push(&[frame_type << 4 | AVC, packet_type]);
        } else {
            head.push_enhanced(0x80 | frame_type << 4, (packet_type, VIDEO_MULTITRACK), codec, track)?;
        }
        if is_legacy || matches!(codec, Codec::H264 | Codec::H265) && packet_type == CODED_FRAMES {
            head.push(&composition);
        }
        Some(head)
    }

    /// The head of an audio body. `None` for a codec that is none of AAC, Opus and G.711, and for a
    /// configuration or an end of G.711. Tracks other than 0 get a multitrack body of one track, which G.711
    /// has none of.
    pub(super) fn of_audio(codec: Codec, (track, channels): (u8, u8), part: AudioPart) -> Option<Self> {
        let mut head = Self::default();
        let stereo = u8::from(channels > 1);
        match (codec, part, track) {
            // Rate and channels of AAC are always said to be 44.1 kHz, 16 bits, stereo (E.4.2.1).
            (Codec::Aac, AudioPart::Config | AudioPart::Frame, 0) => {
                head.push(&[0xaf, u8::from(part == AudioPart::Frame)]);
            }
            (Codec::Pcma, AudioPart::Frame, 0) => head.push(&[0x72 | stereo]),
            (Codec::Pcmu, AudioPart::Frame, 0) => head.push(&[0x82 | stereo]),
            (Codec::Aac | Codec::Opus, ..) => {
                let packet_type = match part {
                    AudioPart::Config => SEQUENCE_START,
                    AudioPart::Frame => CODED_FRAMES,
                    AudioPart::End => SEQUENCE_END,
                };
                head.push_enhanced(ENHANCED_AUDIO, (packet_type, AUDIO_MULTITRACK), codec, track)?;
            }
            _ => return None,
        }
        Some(head)
    }

    /// First byte with `flags`, FourCC, and what names a track other than 0.
    fn push_enhanced(
        &mut self,
        flags: u8,
        (packet_type, multitrack_type): (u8, u8),
        codec: Codec,
        track: u8,
    ) -> Option<()> {
        let fourcc = fourcc(codec)?;
        if track == 0 {
            self.push(&[flags | packet_type]);
            self.push(&fourcc);
        } else {
            self.push(&[flags | multitrack_type, ONE_TRACK << 4 | packet_type]);
            self.push(&fourcc);
            self.push(&[track]);
        }
        Some(())
    }

    fn push(&mut self, bytes: &[u8]) {
        let len = usize::from(self.len);
        self.bytes[len..len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Appends a data body with `onMetaData` (FLV 10.1, E.5); `encoder` is what made the stream.
pub(super) fn write_metadata(out: &mut Vec<u8>, metadata: &Metadata, encoder: &str) {
    let mut properties = Vec::new();
    let mut put = |name: &str, value: Value| properties.push((name.to_owned(), value));
    if let Some((codec, width, height)) = metadata.video {
        if width > 0 && height > 0 {
            put("width", f64::from(width).into());
            put("height", f64::from(height).into());
        }
        put("videocodecid", f64::from(number(codec)).into());
    }
    if let Some((codec, sample_rate, channels)) = metadata.audio {
        put("audiocodecid", f64::from(number(codec)).into());
        put("audiosamplerate", f64::from(sample_rate).into());
        put("audiosamplesize", 16.0.into());
        put("stereo", (channels > 1).into());
    }
    put("encoder", encoder.into());
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
const ENHANCED_AUDIO: u8 = 0x90;
const VIDEO_MULTITRACK: u8 = 6;
const AUDIO_MULTITRACK: u8 = 5;
const ONE_TRACK: u8 = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amf0::{Decoder, Limits};
    use crate::flv::{BodyRole, inspect};

    fn video_head(codec: Codec, part: VideoPart) -> Option<Vec<u8>> {
        Head::of_video(codec, 0, part).map(|head| head.bytes().to_vec())
    }

    fn audio_head(codec: Codec, part: AudioPart) -> Option<Vec<u8>> {
        Head::of_audio(codec, (0, 1), part).map(|head| head.bytes().to_vec())
    }

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
                    let mut body = video_head(codec, part).unwrap();
                    body.push(0);
                    let info = inspect(MediaKind::Video, &body).unwrap();
                    let expected = if role == BodyRole::Config { 0 } else { *composition_ms };
                    assert_eq!((info.codec, info.role, info.composition_ms), (codec, role, expected));
                }
            }
        }
        for (codec, part, role) in [
            (Codec::Aac, AudioPart::Config, BodyRole::Config),
            (Codec::Aac, AudioPart::Frame, BodyRole::Audio),
            (Codec::Opus, AudioPart::Config, BodyRole::Config),
            (Codec::Opus, AudioPart::Frame, BodyRole::Audio),
            (Codec::Pcma, AudioPart::Frame, BodyRole::Audio),
            (Codec::Pcmu, AudioPart::Frame, BodyRole::Audio),
        ] {
            let mut body = audio_head(codec, part).unwrap();
            body.push(0);
            let info = inspect(MediaKind::Audio, &body).unwrap();
            assert_eq!((info.codec, info.role), (codec, role));
        }
        assert_eq!(video_head(Codec::Aac, VideoPart::Config), None);
        assert_eq!(audio_head(Codec::Pcma, AudioPart::Config), None);
        assert_eq!(audio_head(Codec::Mp3, AudioPart::Frame), None);
    }

    #[test]
    fn ends_are_read_back_as_ends() {
        for codec in [Codec::H264, Codec::H265, Codec::Av1, Codec::Vp8, Codec::Vp9] {
            let body = video_head(codec, VideoPart::End).unwrap();
            let info = inspect(MediaKind::Video, &body).unwrap();
            assert_eq!((info.codec, info.role), (codec, BodyRole::End));
        }
        for codec in [Codec::Aac, Codec::Opus] {
            let body = audio_head(codec, AudioPart::End).unwrap();
            let info = inspect(MediaKind::Audio, &body).unwrap();
            assert_eq!((info.codec, info.role), (codec, BodyRole::End));
        }
        assert_eq!(audio_head(Codec::Pcma, AudioPart::End), None);
    }

    #[test]
    fn composition_times_stay_within_their_24_bits() {
        for (given, kept) in [(i32::MAX, (1 << 23) - 1), (i32::MIN, -(1 << 23))] {
            let part = VideoPart::Frame { is_key: false, composition_ms: given };
            let body = video_head(Codec::H264, part).unwrap();
            assert_eq!(inspect(MediaKind::Video, &body).unwrap().composition_ms, kept);
        }
    }

    #[test]
    fn metadata_names_codecs_and_sizes() {
        let mut body = Vec::new();
        let metadata =
            Metadata { video: Some((Codec::Av1, 1280, 720)), audio: Some((Codec::Opus, 48_000, 2)) };
        write_metadata(&mut body, &metadata, "test");
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
