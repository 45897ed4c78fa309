//! Messages to frames where they come in, and frames to tag bodies where they leave.
//!
//! A frame keeps the body that it came in, so that it leaves byte for byte as it came, whatever it is.
//! Frames of other origin get their body here.

use std::borrow::Cow;

use media::{Codec, FlvBody, Frame, FrameRole, Metadata, Timestamp, TrackId};

use super::FlvError;
use super::tag::{
    AUDIO_MULTITRACK, ENHANCED_AUDIO, ONE_TRACK, TagHeader, VIDEO_MULTITRACK, codec_number, fourcc,
};
use crate::amf0::{Value, encode};
use crate::message::{MESSAGE_BYTES_MAX, media_kind};
use crate::{MediaKind, MediaMessage};

/// The frames of a message: the first track of its body, with the body around it, and the other tracks of
/// a multitrack body, marked as already in it. A track that is cut off ends them.
///
/// [`FlvError::Truncated`] if the body ends before its header does.
#[inline]
pub fn read_frames(message: MediaMessage) -> Result<(Frame, Vec<Frame>), FlvError> {
    let MediaMessage { kind, timestamp, payload: body, .. } = message;
    let dts = Timestamp::from_millis(timestamp.into());
    let header = match kind {
        MediaKind::Video => TagHeader::of_video(&body)?,
        MediaKind::Audio => TagHeader::of_audio(&body)?,
        MediaKind::Data => {
            let role = match &body[..] {
                [] => return Err(FlvError::Truncated),
                body if body.starts_with(ON_META_DATA) => FrameRole::Metadata,
                _ => FrameRole::Other,
            };
            let data = 0..body.len();
            let frame = Frame::in_flv_body(TrackId::DATA, role, Codec::None, (dts, dts), body, data);
            return Ok((frame, Vec::new()));
        }
    };
    let (mut others, mut end) = (Vec::new(), body.len());
    if let Some(multitrack) = header.multitrack {
        end -= multitrack.behind.len();
        let mut last = header;
        while others.len() < OTHER_TRACKS_MAX
            && let Some(Ok(next)) = last.next_track(kind)
        {
            let track = TrackId { kind, index: next.track_id };
            let frame = Frame::new(track, next.role(kind), next.codec, next.times(dts), next.data.to_vec());
            others.push(frame.in_earlier_flv_body());
            last = next;
        }
    }
    let (track, codec) = (TrackId { kind, index: header.track_id }, header.codec);
    let (role, times, data) = (header.role(kind), header.times(dts), end - header.data.len()..end);
    // Rate and channels of AAC are always said to be 44.1 kHz and stereo (FLV 10.1, E.4.2.1).
    let tells_channels = header.audio_flags != 0 && codec != Codec::Aac;
    let channels = if tells_channels { 1 + (header.audio_flags & 1) } else { 0 };
    let mut first = Frame::in_flv_body(track, role, codec, times, body, data);
    first.channels = channels;
    Ok((first, others))
}

/// What the head of a tag's body says of the data behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagHead {
    /// The track.
    pub track: TrackId,
    /// Its codec.
    pub codec: Codec,
    /// What the data is.
    pub role: FrameRole,
    /// Decoding time.
    pub dts: Timestamp,
    /// Presentation time.
    pub pts: Timestamp,
    /// Bytes of the body before the data.
    pub data_at: usize,
}

/// Reads the head of a tag of this type from the first bytes of its body, for whoever leaves the
/// data where it is. `None`: a tag of data, or one that several tracks share.
///
/// # Errors
/// [`FlvError::Truncated`] if the bytes end before the head does.
pub fn read_tag_head(tag_type: u8, timestamp: u32, body: &[u8]) -> Result<Option<TagHead>, FlvError> {
    let dts = Timestamp::from_millis(timestamp.into());
    let (kind, header) = match media_kind(tag_type & 0x3f) {
        Some(MediaKind::Video) => (MediaKind::Video, TagHeader::of_video(body)?),
        Some(MediaKind::Audio) => (MediaKind::Audio, TagHeader::of_audio(body)?),
        _ => return Ok(None),
    };
    if header.multitrack.is_some_and(|multitrack| !multitrack.behind.is_empty()) {
        return Ok(None);
    }
    let (dts, pts) = header.times(dts);
    Ok(Some(TagHead {
        track: TrackId { kind, index: header.track_id },
        codec: header.codec,
        role: header.role(kind),
        dts,
        pts,
        data_at: body.len() - header.data.len(),
    }))
}

/// The tag body of a frame, which is also the payload of its RTMP message.
#[derive(Debug)]
pub struct TagBody<'a> {
    head: Head,
    rest: Cow<'a, [u8]>,
}

impl<'a> TagBody<'a> {
    /// The body a frame came in, or one that is made of it; `None` if it has none of its own, since an
    /// earlier frame's contains it, or FLV has no place for the codec or so many bytes.
    pub fn of(frame: &'a Frame) -> Option<Self> {
        let (head, rest) = match (frame.flv_body(), frame.described()) {
            (FlvBody::Sent, _) => return None,
            (FlvBody::Original(body), _) => (Head::default(), Cow::Borrowed(body)),
            (FlvBody::Missing, Some(metadata)) => {
                let mut body = Vec::new();
                write_metadata(&mut body, metadata);
                (Head::default(), Cow::Owned(body))
            }
            (FlvBody::Missing, None) => (Head::of(frame)?, Cow::Borrowed(frame.data())),
        };
        let body = Self { head, rest };
        (body.len() <= MESSAGE_BYTES_MAX).then_some(body)
    }

    /// Its bytes, in two parts.
    pub fn parts(&self) -> [&[u8]; 2] {
        [self.head.bytes(), &self.rest]
    }

    /// Number of its bytes.
    #[expect(clippy::len_without_is_empty, reason = "none is empty")]
    pub fn len(&self) -> usize {
        self.head.bytes().len() + self.rest.len()
    }
}

/// What stands ahead of the data in a body that is made here; `tag.rs` draws and reads it.
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    /// The longest: multitrack, FourCC, track and composition time.
    bytes: [u8; 10],
    len: u8,
}

impl Head {
    /// The head for a frame; `None` if FLV has none for its codec, or not for its role or track.
    ///
    /// H.264, AAC and G.711 get the bodies of FLV 10.1, which every player reads; all other codecs those of
    /// Enhanced RTMP. Tracks other than 0 get a multitrack body of one track, which G.711 has none of.
    fn of(frame: &Frame) -> Option<Self> {
        let mut head = Self::default();
        let (codec, track, role) = (frame.codec, frame.track.index, frame.role);
        let packet_type = match role {
            FrameRole::Config => SEQUENCE_START,
            FrameRole::End => SEQUENCE_END,
            _ => CODED_FRAMES,
        };
        match (frame.track.kind, role) {
            (MediaKind::Video, FrameRole::Config | FrameRole::End | FrameRole::Key | FrameRole::Inter)
                if codec.kind() == MediaKind::Video =>
            {
                let frame_type = if role == FrameRole::Inter { INTER } else { KEY };
                // Rounded before they are subtracted, so that pictures are shown at the rounded time.
                let composition_ms = match packet_type {
                    CODED_FRAMES => frame.pts.millis() - frame.dts.millis(),
                    _ => 0,
                };
                let [.., a, b, c] = composition_ms.clamp(-(1 << 23), (1 << 23) - 1).to_be_bytes();
                let has_composition = matches!(codec, Codec::H264 | Codec::H265);
                if codec == Codec::H264 && track == 0 {
                    head.push(&[frame_type << 4 | AVC, packet_type, a, b, c]);
                } else if has_composition && packet_type == CODED_FRAMES && composition_ms != 0 {
                    head.push_enhanced(0x80 | frame_type << 4, (packet_type, VIDEO_MULTITRACK), frame)?;
                    head.push(&[a, b, c]);
                } else {
                    // Saves the three bytes of a composition time that is 0.
                    let is_short = has_composition && packet_type == CODED_FRAMES;
                    let packet_type = if is_short { CODED_FRAMES_X } else { packet_type };
                    head.push_enhanced(0x80 | frame_type << 4, (packet_type, VIDEO_MULTITRACK), frame)?;
                }
            }
            (MediaKind::Audio, FrameRole::Config | FrameRole::End | FrameRole::Audio) => {
                let stereo = u8::from(frame.channels > 1);
                match (codec, role, track) {
                    // AAC has an end in Enhanced RTMP only, so a player may not know it.
                    (Codec::Aac, FrameRole::Config | FrameRole::Audio, 0) => head.push(&[0xaf, packet_type]),
                    (Codec::Pcma, FrameRole::Audio, 0) => head.push(&[0x72 | stereo]),
                    (Codec::Pcmu, FrameRole::Audio, 0) => head.push(&[0x82 | stereo]),
                    (Codec::Mp3, FrameRole::Audio, 0) => head.push(&[mp3_flags(frame.data())]),
                    (Codec::Aac | Codec::Opus, ..)
                    | (Codec::Ac3 | Codec::Eac3, FrameRole::End | FrameRole::Audio, _) => {
                        head.push_enhanced(ENHANCED_AUDIO << 4, (packet_type, AUDIO_MULTITRACK), frame)?;
                    }
                    _ => return None,
                }
            }
            // Data of other containers is in no form that FLV knows.
            (MediaKind::Data, _) if !matches!(codec, Codec::Unknown(_)) => {}
            _ => return None,
        }
        Some(head)
    }

    /// First byte with `flags`, FourCC, and what names a track other than 0.
    fn push_enhanced(
        &mut self,
        flags: u8,
        (packet_type, multitrack_type): (u8, u8),
        frame: &Frame,
    ) -> Option<()> {
        let fourcc = fourcc(frame.codec)?;
        match frame.track.index {
            0 => self.push(&[flags | packet_type]),
            _ => self.push(&[flags | multitrack_type, ONE_TRACK << 4 | packet_type]),
        }
        self.push(&fourcc);
        match frame.track.index {
            0 => {}
            track => self.push(&[track]),
        }
        Some(())
    }

    fn push(&mut self, bytes: &[u8]) {
        let len = usize::from(self.len);
        self.bytes[len..len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The first byte of a body of MP3: format, rate, 16 bits, channels (FLV E.4.2.1), as its header has them
/// (ISO/IEC 11172-3 section 2.4.1.3). FLV has no 48 and 32 kHz: the nearest is written, and readers take the
/// header's.
fn mp3_flags(data: &[u8]) -> u8 {
    let [version, mode] = match data {
        [_, second, _, fourth, ..] => [second >> 3 & 3, fourth >> 6],
        _ => [3, 0],
    };
    let rate = match version {
        3 => 3,
        2 => 2,
        _ => 1,
    };
    MP3 << 4 | rate << 2 | 0x02 | u8::from(mode != 3)
}

/// `SoundFormat` of MP3.
const MP3: u8 = 2;

/// Appends a data body with `onMetaData` (FLV 10.1, E.5).
fn write_metadata(out: &mut Vec<u8>, metadata: &Metadata) {
    let mut properties = Vec::new();
    let mut put = |name: &str, value: Value| properties.push((name.to_owned(), value));
    if let Some((codec, width, height)) = metadata.video {
        if width > 0 && height > 0 {
            put("width", f64::from(width).into());
            put("height", f64::from(height).into());
        }
        put("videocodecid", f64::from(codec_number(codec)).into());
    }
    if let Some((codec, sample_rate, channels)) = metadata.audio {
        put("audiocodecid", f64::from(codec_number(codec)).into());
        put("audiosamplerate", f64::from(sample_rate).into());
        put("audiosamplesize", 16.0.into());
        put("stereo", (channels > 1).into());
    }
    put("encoder", ENCODER.into());
    encode(out, &"onMetaData".into());
    encode(out, &Value::EcmaArray(properties));
}

/// What `onMetaData` names as what made a stream that came without.
const ENCODER: &str = concat!("Millstream ", env!("CARGO_PKG_VERSION"));

/// Tracks of one body besides the first. Ids have 8 bits, but a track can be four bytes long and repeat its
/// id: without a limit a body of a megabyte would be a quarter of a million frames. Further ones leave with
/// the body all the same.
const OTHER_TRACKS_MAX: usize = 15;

const ON_META_DATA: &[u8] = b"\x02\x00\x0aonMetaData";
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

    fn read(kind: MediaKind, body: &[u8]) -> (Frame, Vec<Frame>) {
        let length = body.len() as u32;
        read_frames(MediaMessage { kind, timestamp: 1_000, length, payload: body.to_vec() }).unwrap()
    }

    fn body(frame: &Frame) -> Vec<u8> {
        let body = TagBody::of(frame).expect("a body");
        let bytes = body.parts().concat();
        assert_eq!(bytes.len(), body.len());
        bytes
    }

    #[test]
    fn frames_know_what_their_body_says_and_leave_as_they_came() {
        for (kind, bytes, track, role, codec, cts_us, data) in [
            (
                MediaKind::Video,
                &b"\x17\x01\xff\xff\xfenal"[..],
                0,
                FrameRole::Key,
                Codec::H264,
                -2_000,
                &b"nal"[..],
            ),
            (MediaKind::Video, b"\x93hvc1nal", 0, FrameRole::Key, Codec::H265, 0, b"nal"),
            (MediaKind::Video, b"\xa3hvc1nal", 0, FrameRole::Inter, Codec::H265, 0, b"nal"),
            (MediaKind::Video, b"\xb3hvc1nal", 0, FrameRole::Inter, Codec::H265, 0, b"nal"),
            (MediaKind::Video, b"\x17\x00\x00\x00\x00avcC", 0, FrameRole::Config, Codec::H264, 0, b"avcC"),
            (MediaKind::Video, b"\x17\x02\x00\x00\x00", 0, FrameRole::End, Codec::H264, 0, b""),
            (MediaKind::Video, b"\x94hvc1amf", 0, FrameRole::Other, Codec::H265, 0, b"amf"),
            (
                MediaKind::Video,
                b"\x96\x01avc1\x07\x00\x00\x05nal",
                7,
                FrameRole::Key,
                Codec::H264,
                5_000,
                b"nal",
            ),
            (MediaKind::Video, b"\x96\x02avc1\x07", 7, FrameRole::End, Codec::H264, 0, b""),
            (MediaKind::Video, b"\x91avc1\xff\xff\xfenal", 0, FrameRole::Key, Codec::H264, -2_000, b"nal"),
            // Another ModEx with one byte, then 66,051 ns.
            (
                MediaKind::Video,
                b"\x97\x00\x55\x17\x02\x01\x02\x03\x01avc1\xff\xff\xfenal",
                0,
                FrameRole::Key,
                Codec::H264,
                66 - 2_000,
                b"nal",
            ),
            // 500,000 ns, then coded frames.
            (
                MediaKind::Video,
                b"\xa7\x02\x07\xa1\x20\x01vp09nal",
                0,
                FrameRole::Inter,
                Codec::Vp9,
                500,
                b"nal",
            ),
            (MediaKind::Audio, b"\xaf\x00asc", 0, FrameRole::Config, Codec::Aac, 0, b"asc"),
            (MediaKind::Audio, b"\x95\x01Opus\x03data", 3, FrameRole::Audio, Codec::Opus, 0, b"data"),
            (
                MediaKind::Data,
                b"\x02\x00\x0aonMetaData",
                0,
                FrameRole::Metadata,
                Codec::None,
                0,
                b"\x02\x00\x0aonMetaData",
            ),
            (MediaKind::Data, b"\x02\x00\x00", 0, FrameRole::Other, Codec::None, 0, b"\x02\x00\x00"),
        ] {
            let (frame, others) = read(kind, bytes);
            let remark = bytes.escape_ascii();
            assert_eq!((frame.track, frame.role), (TrackId { kind, index: track }, role), "{remark}");
            assert_eq!((frame.codec, frame.data()), (codec, data), "{remark}");
            assert_eq!((frame.dts.millis(), (frame.pts - frame.dts).micros()), (1_000, cts_us), "{remark}");
            assert!(others.is_empty() && body(&frame) == bytes, "{remark}");
        }
    }

    #[test]
    fn each_track_of_a_body_is_a_frame_and_the_body_leaves_once() {
        let bytes = b"\x96\x21avc1\x00\x00\x00\x06\xff\xff\xfenalhvc1\x01\x00\x00\x04\x00\x00\x00x";
        let (first, others) = read(MediaKind::Video, bytes);
        assert_eq!((first.codec, first.data(), body(&first)), (Codec::H264, &b"nal"[..], bytes.to_vec()));
        let [second] = &others[..] else { panic!("one other track") };
        assert_eq!((second.track.index, second.role, second.codec), (1, FrameRole::Key, Codec::H265));
        assert_eq!((second.data(), second.pts, second.bytes()), (&b"x"[..], second.dts, 0));
        assert!(TagBody::of(second).is_none());
        let (first, others) =
            read(MediaKind::Audio, b"\x95\x10Opus\x00\x00\x00\x02ab\x01\x00\x00\x01c\x02\x00\x00\x00");
        assert_eq!((first.role, first.data(), others.len()), (FrameRole::Config, &b"ab"[..], 2));
        assert_eq!((others[0].data(), others[1].data(), others[1].track.index), (&b"c"[..], &b""[..], 2));
        let (_, others) = read(MediaKind::Audio, b"\x95\x10Opus\x00\x00\x00\x02ab\x01\x00\x00\x02c");
        assert!(others.is_empty(), "cut off");
    }

    #[test]
    fn legacy_audio_tells_its_channels() {
        for (bytes, channels) in [
            (&b"\x2fdata"[..], 2),
            (b"\x2adata", 1),
            (b"\x7fdata", 2),
            (b"\x82data", 1),
            (b"\xaf\x01data", 0),
            (b"\x91Opusdata", 0),
        ] {
            assert_eq!(read(MediaKind::Audio, bytes).0.channels, channels, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn frames_of_files_get_the_bodies_that_every_player_reads() {
        let (key, inter, config) = (FrameRole::Key, FrameRole::Inter, FrameRole::Config);
        for (track, role, codec, composition_ms, bytes) in [
            (TrackId::VIDEO, config, Codec::H264, 0, &b"\x17\0\0\0\0data"[..]),
            (TrackId::VIDEO, key, Codec::H264, 40, b"\x17\x01\0\0\x28data"),
            (TrackId::VIDEO, inter, Codec::H264, -1, b"\x27\x01\xff\xff\xffdata"),
            (TrackId::VIDEO, FrameRole::End, Codec::H264, 0, b"\x17\x02\0\0\0"),
            (TrackId::VIDEO, key, Codec::H265, 7, b"\x91hvc1\0\0\x07data"),
            (TrackId::VIDEO, inter, Codec::H265, 0, b"\xa3hvc1data"),
            (TrackId::VIDEO, config, Codec::Av1, 0, b"\x90av01data"),
            (TrackId::VIDEO, key, Codec::Vp9, 0, b"\x91vp09data"),
            (TrackId::AUDIO, config, Codec::Aac, 0, b"\xaf\0data"),
            (TrackId::AUDIO, FrameRole::Audio, Codec::Aac, 0, b"\xaf\x01data"),
            (TrackId::AUDIO, FrameRole::End, Codec::Aac, 0, b"\x92mp4a"),
            (TrackId::AUDIO, config, Codec::Opus, 0, b"\x90Opusdata"),
            (TrackId::AUDIO, FrameRole::Audio, Codec::Opus, 0, b"\x91Opusdata"),
        ] {
            let data = if role == FrameRole::End { Vec::new() } else { b"data".to_vec() };
            let dts = Timestamp::from_millis(1_000);
            let times = (dts, dts + Timestamp::from_millis(composition_ms));
            assert_eq!(body(&Frame::new(track, role, codec, times, data)), bytes, "{role:?} of {codec}");
        }
    }

    #[test]
    fn frames_of_other_origin_get_a_body_that_says_the_same() {
        let second = |track: TrackId| TrackId { index: 1, ..track };
        let (video, audio) = (TrackId::VIDEO, TrackId::AUDIO);
        for (track, role, codec) in [
            (video, FrameRole::Config, Codec::H264),
            (video, FrameRole::Key, Codec::H264),
            (video, FrameRole::Inter, Codec::H265),
            (video, FrameRole::End, Codec::Av1),
            (second(video), FrameRole::Config, Codec::H264),
            (second(video), FrameRole::Inter, Codec::H264),
            (second(video), FrameRole::Key, Codec::Vp9),
            (audio, FrameRole::Config, Codec::Aac),
            (audio, FrameRole::Audio, Codec::Opus),
            (second(audio), FrameRole::Audio, Codec::Aac),
            (second(audio), FrameRole::Config, Codec::Opus),
        ] {
            let has_composition = matches!(codec, Codec::H264 | Codec::H265)
                && matches!(role, FrameRole::Key | FrameRole::Inter);
            let dts = Timestamp::from_millis(1_000);
            let pts = if has_composition { Timestamp::from_millis(1_040) } else { dts };
            let made = Frame::new(track, role, codec, (dts, pts), b"data".to_vec());
            let (read, others) = read(track.kind, &body(&made));
            assert!(others.is_empty());
            assert_eq!(
                (read.track, read.role, read.codec, read.dts, read.pts, read.data()),
                (track, role, codec, dts, pts, &b"data"[..])
            );
        }
        let mut stereo =
            Frame::new(audio, FrameRole::Audio, Codec::Pcmu, Default::default(), b"data".to_vec());
        stereo.channels = 2;
        assert_eq!(read(MediaKind::Audio, &body(&stereo)).0.channels, 2);
        let cue = Codec::Unknown(media::FourCc(*b"CUEI"));
        for (track, codec) in
            [(audio, Codec::Speex), (second(audio), Codec::Pcma), (video, Codec::None), (TrackId::DATA, cue)]
        {
            let frame = Frame::new(track, FrameRole::Config, codec, Default::default(), Vec::new());
            assert!(TagBody::of(&frame).is_none(), "{codec}");
        }
        let metadata =
            Metadata { video: Some((Codec::Vp9, 1920, 1080)), audio: Some((Codec::Opus, 48_000, 2)) };
        let body = body(&Frame::metadata(metadata, Timestamp::ZERO));
        assert_eq!(read(MediaKind::Data, &body).0.role, FrameRole::Metadata);
    }

    #[test]
    fn tracks_of_one_body_are_bounded_and_the_body_stays_whole() {
        let mut payload = b"\x96\x13avc1".to_vec();
        for _ in 0..10_000 {
            payload.extend([0, 0, 0, 0]);
        }
        let length = payload.len() as u32;
        let message = MediaMessage { kind: MediaKind::Video, timestamp: 0, length, payload: payload.clone() };
        let (first, others) = read_frames(message).expect("a body");
        assert!(others.len() <= OTHER_TRACKS_MAX, "{} frames", others.len());
        assert_eq!(body(&first), payload);
    }
    /// The body of a frame whose data is `data`; `None` if FLV has none.
    fn made(
        track: TrackId,
        role: FrameRole,
        codec: Codec,
        composition_ms: i64,
        data: &[u8],
    ) -> Option<Vec<u8>> {
        let dts = Timestamp::from_millis(1_000);
        let times = (dts, dts + Timestamp::from_millis(composition_ms));
        let frame = Frame::new(track, role, codec, times, data.to_vec());
        TagBody::of(&frame).map(|body| body.parts().concat())
    }

    #[test]
    fn heads_are_read_back_as_what_they_were_written_for() {
        for codec in [Codec::H264, Codec::H265, Codec::Av1, Codec::Vp8, Codec::Vp9] {
            let times = if matches!(codec, Codec::H264 | Codec::H265) { &[0, 40, -3][..] } else { &[0] };
            for composition_ms in times {
                for role in [FrameRole::Config, FrameRole::Key, FrameRole::Inter] {
                    let body = made(TrackId::VIDEO, role, codec, *composition_ms, &[0]).unwrap();
                    let (frame, _) = read(MediaKind::Video, &body);
                    let expected = if role == FrameRole::Config { 0 } else { *composition_ms };
                    let read_ms = (frame.pts - frame.dts).millis();
                    assert_eq!((frame.codec, frame.role, read_ms), (codec, role, expected));
                }
            }
        }
        for (codec, role) in [
            (Codec::Aac, FrameRole::Config),
            (Codec::Aac, FrameRole::Audio),
            (Codec::Opus, FrameRole::Config),
            (Codec::Opus, FrameRole::Audio),
            (Codec::Pcma, FrameRole::Audio),
            (Codec::Pcmu, FrameRole::Audio),
            (Codec::Mp3, FrameRole::Audio),
            (Codec::Ac3, FrameRole::Audio),
            (Codec::Eac3, FrameRole::Audio),
        ] {
            let (frame, _) = read(MediaKind::Audio, &made(TrackId::AUDIO, role, codec, 0, &[0]).unwrap());
            assert_eq!((frame.codec, frame.role), (codec, role));
        }
        assert_eq!(made(TrackId::VIDEO, FrameRole::Config, Codec::Aac, 0, &[]), None);
        assert_eq!(made(TrackId::AUDIO, FrameRole::Config, Codec::Pcma, 0, &[]), None);
        assert_eq!(made(TrackId::AUDIO, FrameRole::Config, Codec::Ac3, 0, &[]), None);
        // MPEG-1 at 48 kHz in two channels, at 44.1 kHz in one; MPEG-2 at 22.05 kHz; MPEG-2.5 at 8 kHz.
        for (header, flags) in [
            ([0xff, 0xfb, 0x94, 0x00], 0x2f),
            ([0xff, 0xfb, 0x90, 0xc0], 0x2e),
            ([0xff, 0xf3, 0x90, 0x00], 0x2b),
            ([0xff, 0xe3, 0x98, 0xc0], 0x26),
            ([0xff; 4], 0x2e),
        ] {
            let body = made(TrackId::AUDIO, FrameRole::Audio, Codec::Mp3, 0, &header).unwrap();
            assert_eq!(body[0], flags, "{header:x?}");
        }
        assert_eq!(made(TrackId::AUDIO, FrameRole::Audio, Codec::Mp3, 0, &[]).unwrap(), [0x2f]);
    }

    #[test]
    fn ends_are_read_back_as_ends() {
        for codec in [Codec::H264, Codec::H265, Codec::Av1, Codec::Vp8, Codec::Vp9] {
            let body = made(TrackId::VIDEO, FrameRole::End, codec, 0, &[]).unwrap();
            let (frame, _) = read(MediaKind::Video, &body);
            assert_eq!((frame.codec, frame.role), (codec, FrameRole::End));
        }
        for codec in [Codec::Aac, Codec::Opus] {
            let body = made(TrackId::AUDIO, FrameRole::End, codec, 0, &[]).unwrap();
            let (frame, _) = read(MediaKind::Audio, &body);
            assert_eq!((frame.codec, frame.role), (codec, FrameRole::End));
        }
        assert_eq!(made(TrackId::AUDIO, FrameRole::End, Codec::Pcma, 0, &[]), None);
    }

    #[test]
    fn composition_times_stay_within_their_24_bits() {
        for (given, kept) in [(i64::from(i32::MAX), (1 << 23) - 1), (i64::from(i32::MIN), -(1 << 23))] {
            let body = made(TrackId::VIDEO, FrameRole::Inter, Codec::H264, given, &[]).unwrap();
            let (frame, _) = read(MediaKind::Video, &body);
            assert_eq!((frame.pts - frame.dts).millis(), kept);
        }
    }

    #[test]
    fn metadata_names_codecs_and_sizes() {
        let metadata =
            Metadata { video: Some((Codec::Av1, 1280, 720)), audio: Some((Codec::Opus, 48_000, 2)) };
        let body = body(&Frame::metadata(metadata, Timestamp::ZERO));
        assert_eq!(read(MediaKind::Data, &body).0.role, FrameRole::Metadata);
        let mut decoder = Decoder::new(&body, Limits::COMMAND);
        assert_eq!(decoder.next_value().unwrap(), Some("onMetaData".into()));
        let values = decoder.next_value().unwrap().unwrap();
        for (name, value) in [
            ("width", 1280.0.into()),
            ("height", 720.0.into()),
            ("videocodecid", f64::from(0x6176_3031).into()),
            ("audiosamplerate", 48_000.0.into()),
            ("stereo", true.into()),
        ] {
            assert_eq!(values.get(name), Some(&value), "{name}");
        }
    }
}
