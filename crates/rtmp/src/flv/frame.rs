//! Messages to frames where they come in, and frames to tag bodies where they leave.
//!
//! A frame keeps the body that it came in, so that it leaves byte for byte as it came, whatever it is.
//! Frames of other origin get their body here.

use std::borrow::Cow;

use media::{Codec, FlvBody, Frame, FrameRole, Timestamp, TrackId};

use super::FlvError;
use super::body_writer::{AudioPart, Head, VideoPart, write_metadata};
use super::inspect::{BodyRole, inspect_data, role};
use super::tag::TagHeader;
use crate::message::MESSAGE_BYTES_MAX;
use crate::{MediaKind, MediaMessage};

/// The frames of a message: the first track of its body, with the body around it, and the other tracks of
/// a multitrack body, marked as already in it. A track that is cut off ends them.
///
/// [`FlvError::Truncated`] if the body ends before its header does.
pub fn read_frames(message: MediaMessage) -> Result<(Frame, Vec<Frame>), FlvError> {
    let MediaMessage { kind, timestamp, payload: body, .. } = message;
    let dts = Timestamp::from_millis(timestamp.into());
    let header = match kind {
        MediaKind::Video => TagHeader::of_video(&body)?,
        MediaKind::Audio => TagHeader::of_audio(&body)?,
        MediaKind::Data => {
            let role = match inspect_data(&body)?.role {
                BodyRole::Metadata => FrameRole::Metadata,
                _ => FrameRole::Other,
            };
            let data = 0..body.len();
            let frame = Frame::in_flv_body(TrackId::DATA, role, Codec::None, (dts, dts), body, data);
            return Ok((frame, Vec::new()));
        }
    };
    let mut others = Vec::new();
    let mut last = header;
    while others.len() < OTHER_TRACKS_MAX
        && let Some(Ok(next)) = last.next_track(kind)
    {
        let (track, role, times) = facts(kind, &next, dts);
        others.push(Frame::new(track, role, next.codec, times, next.data.to_vec()).in_earlier_flv_body());
        last = next;
    }
    let (track, role, times) = facts(kind, &header, dts);
    let behind = header.multitrack.map_or(0, |multitrack| multitrack.behind.len());
    let end = body.len() - behind;
    let (codec, data) = (header.codec, end - header.data.len()..end);
    // Rate and channels of AAC are always said to be 44.1 kHz and stereo (FLV 10.1, E.4.2.1).
    let tells_channels = header.audio_flags != 0 && codec != Codec::Aac;
    let channels = if tells_channels { 1 + (header.audio_flags & 1) } else { 0 };
    let mut first = Frame::in_flv_body(track, role, codec, times, body, data);
    first.channels = channels;
    Ok((first, others))
}

fn facts(
    kind: MediaKind,
    header: &TagHeader<'_>,
    dts: Timestamp,
) -> (TrackId, FrameRole, (Timestamp, Timestamp)) {
    let role = match role(kind, header) {
        BodyRole::Config => FrameRole::Config,
        BodyRole::Key => FrameRole::Key,
        BodyRole::Inter | BodyRole::Disposable => FrameRole::Inter,
        BodyRole::Audio => FrameRole::Audio,
        BodyRole::End => FrameRole::End,
        // The metadata frame of video (colour, HDR) does not describe the stream as a whole.
        BodyRole::Metadata | BodyRole::Other => FrameRole::Other,
    };
    let mut pts = dts + Timestamp::from_millis(header.composition_ms.into());
    if header.offset_ns > 0 {
        // More than a millisecond is not what the standard allows.
        pts += Timestamp::from_ticks(header.offset_ns.min(999_999).into(), 1_000_000_000);
    }
    (TrackId { kind, index: header.track_id }, role, (dts, pts))
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
                write_metadata(&mut body, metadata, ENCODER);
                (Head::default(), Cow::Owned(body))
            }
            (FlvBody::Missing, None) => (head_of(frame)?, Cow::Borrowed(frame.data())),
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

fn head_of(frame: &Frame) -> Option<Head> {
    let track = frame.track.index;
    // Rounded before they are subtracted, so that pictures are shown at the rounded time.
    let composition_ms = (frame.pts.millis() - frame.dts.millis()).clamp(i32::MIN.into(), i32::MAX.into());
    let is_key = frame.is_key();
    match (frame.track.kind, frame.role) {
        (MediaKind::Video, FrameRole::Config) => Head::of_video(frame.codec, track, VideoPart::Config),
        (MediaKind::Video, FrameRole::End) => Head::of_video(frame.codec, track, VideoPart::End),
        (MediaKind::Video, FrameRole::Key | FrameRole::Inter) => {
            let part = VideoPart::Frame { is_key, composition_ms: composition_ms as i32 };
            Head::of_video(frame.codec, track, part)
        }
        (MediaKind::Audio, FrameRole::Config) => {
            Head::of_audio(frame.codec, (track, frame.channels), AudioPart::Config)
        }
        (MediaKind::Audio, FrameRole::End) => {
            Head::of_audio(frame.codec, (track, frame.channels), AudioPart::End)
        }
        (MediaKind::Audio, FrameRole::Audio) => {
            Head::of_audio(frame.codec, (track, frame.channels), AudioPart::Frame)
        }
        (MediaKind::Data, _) => Some(Head::default()),
        _ => None,
    }
}

/// What `onMetaData` names as what made a stream that came without.
const ENCODER: &str = concat!("Millstream ", env!("CARGO_PKG_VERSION"));

/// Tracks of one body besides the first. Ids have 8 bits, but a track can be four bytes long and repeat its
/// id: without a limit a body of a megabyte would be a quarter of a million frames. Further ones leave with
/// the body all the same.
const OTHER_TRACKS_MAX: usize = 15;

#[cfg(test)]
mod tests {
    use media::Metadata;

    use super::*;

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
        for (track, codec) in [(audio, Codec::Speex), (second(audio), Codec::Pcma), (video, Codec::None)] {
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
}
