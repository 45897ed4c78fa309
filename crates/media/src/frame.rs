//! A coded frame on its way through the server, from whatever protocol to whatever other.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Codec, CodecConfig, MediaKind, Timestamp};

/// One track of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TrackId {
    /// What it carries.
    pub kind: MediaKind,
    /// Which one of its kind: 0 unless the publisher sends several.
    pub index: u8,
}

impl TrackId {
    /// The first audio track, for most streams the only one.
    pub const AUDIO: Self = Self { kind: MediaKind::Audio, index: 0 };
    /// The first video track.
    pub const VIDEO: Self = Self { kind: MediaKind::Video, index: 0 };
    /// Data of the whole stream.
    pub const DATA: Self = Self { kind: MediaKind::Data, index: 0 };
}

/// What a frame is for, which decides what may be left out and what must be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FrameRole {
    /// Decoder configuration ("sequence header"); needed by every later frame of the track.
    Config,
    /// Video that can be decoded without any frame before it.
    Key,
    /// Video that needs earlier frames.
    Inter,
    /// Audio.
    Audio,
    /// Description of the whole stream (`onMetaData`); a newer one replaces it.
    Metadata,
    /// Its track is over until another configuration begins it ("end of sequence").
    End,
    /// Anything else; passed on, never kept.
    Other,
}

/// What a stream carries as a whole, as far as formats announce it (`onMetaData`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Codec of the video, its width and its height in pixels; 0 if unknown.
    pub video: Option<(Codec, u32, u32)>,
    /// Codec of the audio, samples per second, channels.
    pub audio: Option<(Codec, u32, u8)>,
}

/// One access unit of one track, or what stands between access units: a configuration, metadata, the
/// end of a track. Shared between threads and never changed.
///
/// Data is as MP4 and FLV have it: NAL units with lengths of four bytes, AV1 temporal units without
/// delimiters, raw AAC, bare Opus packets; configurations are the records of [`crate::config`]. A frame
/// that came in an FLV tag body still has that body around its data, so that RTMP and FLV outputs repeat
/// it byte for byte, codecs and fields unknown to this server included; all other outputs use the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its track.
    pub track: TrackId,
    /// Its role.
    pub role: FrameRole,
    /// Its codec; [`Codec::None`] for data.
    pub codec: Codec,
    /// Channels of audio that has no configuration (G.711, MP3), as its container tells; else 0.
    pub channels: u8,
    /// When it is to be decoded, as its publisher counts time.
    pub dts: Timestamp,
    /// When it is to be shown or heard; [`Frame::dts`] but for video with B-frames.
    pub pts: Timestamp,
    content: Content,
    /// Where the data is in the bytes.
    data: Range<u32>,
    origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Bytes(Vec<u8>),
    /// Boxed so that a frame is no larger than with bytes alone.
    Metadata(Box<Metadata>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Made here, or read from a format that puts nothing around its data.
    Bare,
    /// The bytes are an FLV tag body.
    FlvBody,
    /// In the FLV tag body of an earlier frame, whose first track is another.
    EarlierFlvBody,
}

/// What RTMP and FLV outputs send of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlvBody<'a> {
    /// The tag body that it came in.
    Original(&'a [u8]),
    /// Nothing: it came in the same body as an earlier frame ("multitrack" of Enhanced RTMP).
    Sent,
    /// It came without one: the output makes it.
    Missing,
}

/// One audio frame on its way to a transcoder or back: an access unit, a frame, a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodedAudio {
    /// When its first sample is to be heard: stream time in microseconds. Never decreases within a stream.
    pub pts_us: i64,
    /// The format, when it is the first piece or the format has changed.
    pub format: Option<Arc<CodecConfig>>,
    /// The coded bytes.
    pub data: Vec<u8>,
}

impl Frame {
    /// A frame that was made here, or came in a format that puts nothing around its data.
    ///
    /// # Panics
    ///
    /// If the data is longer than 4 GiB.
    #[inline]
    pub fn new(
        track: TrackId,
        role: FrameRole,
        codec: Codec,
        (dts, pts): (Timestamp, Timestamp),
        data: Vec<u8>,
    ) -> Self {
        let range = 0..u32::try_from(data.len()).expect("a frame is shorter than 4 GiB");
        let (content, origin) = (Content::Bytes(data), Origin::Bare);
        Self { track, role, codec, channels: 0, dts, pts, content, data: range, origin }
    }

    /// What formats announce of the stream, to be sent before frames at `time`.
    pub fn metadata(metadata: Metadata, time: Timestamp) -> Self {
        let content = Content::Metadata(Box::new(metadata));
        Self {
            content,
            ..Self::new(TrackId::DATA, FrameRole::Metadata, Codec::None, (time, time), Vec::new())
        }
    }

    /// The same as [`Frame::new`] with `body`, the FLV tag body (and RTMP payload) that the data is a
    /// part of, as it came.
    ///
    /// # Panics
    ///
    /// If `data` is not a range within `body`, or ends beyond 4 GiB.
    #[inline]
    pub fn in_flv_body(
        track: TrackId,
        role: FrameRole,
        codec: Codec,
        times: (Timestamp, Timestamp),
        body: Vec<u8>,
        data: Range<usize>,
    ) -> Self {
        assert!(data.start <= data.end && data.end <= body.len(), "the data is a part of the body");
        let frame = Self::new(track, role, codec, times, body);
        Self { data: data.start as u32..data.end as u32, origin: Origin::FlvBody, ..frame }
    }

    /// The same frame as one whose data is a part of the FLV tag body of an earlier frame.
    #[must_use]
    pub fn in_earlier_flv_body(self) -> Self {
        Self { origin: Origin::EarlierFlvBody, ..self }
    }

    /// The access unit, or the configuration record; empty for metadata as values ([`Frame::described`]).
    pub fn data(&self) -> &[u8] {
        match &self.content {
            Content::Bytes(bytes) => &bytes[self.data.start as usize..self.data.end as usize],
            Content::Metadata(_) => &[],
        }
    }

    /// Where the data is in the bytes of [`Frame::flv_body`], or all of it if there are none.
    pub fn data_range(&self) -> Range<usize> {
        self.data.start as usize..self.data.end as usize
    }

    /// What RTMP and FLV outputs send of it.
    pub fn flv_body(&self) -> FlvBody<'_> {
        match (&self.content, self.origin) {
            (Content::Bytes(bytes), Origin::FlvBody) => FlvBody::Original(bytes),
            (_, Origin::EarlierFlvBody) => FlvBody::Sent,
            _ => FlvBody::Missing,
        }
    }

    /// The metadata of a frame made by [`Frame::metadata`].
    pub fn described(&self) -> Option<&Metadata> {
        match &self.content {
            Content::Bytes(_) => None,
            Content::Metadata(metadata) => Some(metadata),
        }
    }

    /// Bytes it came in or was made as: the FLV tag body, else the data. 0 for what came in the body of an
    /// earlier frame.
    pub fn bytes(&self) -> usize {
        match (&self.content, self.origin) {
            (Content::Bytes(bytes), Origin::Bare | Origin::FlvBody) => bytes.len(),
            _ => 0,
        }
    }

    /// Bytes it holds in memory, besides 64 of its own.
    pub fn bytes_held(&self) -> usize {
        match &self.content {
            Content::Bytes(bytes) => bytes.len(),
            Content::Metadata(_) => size_of::<Metadata>(),
        }
    }

    /// Whether it says the same as `other`, at whatever time.
    pub fn repeats(&self, other: &Self) -> bool {
        (self.track, self.role, self.codec) == (other.track, other.role, other.codec)
            && self.content == other.content
    }

    /// Whether a decoder can start with it.
    pub fn is_key(&self) -> bool {
        self.role == FrameRole::Key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_data_and_the_body_that_it_came_in() {
        let times = (Timestamp::ZERO, Timestamp::from_millis(40));
        let made = Frame::new(TrackId::VIDEO, FrameRole::Key, Codec::H264, times, b"nal".to_vec());
        assert_eq!((made.data(), made.flv_body(), made.is_key()), (&b"nal"[..], FlvBody::Missing, true));
        let body = b"\x17\x01\x00\x00\x28nal".to_vec();
        let came = Frame::in_flv_body(TrackId::VIDEO, FrameRole::Key, Codec::H264, times, body.clone(), 5..8);
        assert_eq!((came.data(), came.flv_body()), (&b"nal"[..], FlvBody::Original(&body)));
        assert_eq!((made.data_range(), came.data_range()), (0..3, 5..8));
        assert_eq!((made.bytes(), came.bytes()), (3, 8));
        assert!(came.repeats(&Frame { dts: times.1, ..came.clone() }) && !came.repeats(&made));
        let second = Frame { track: TrackId { index: 1, ..TrackId::VIDEO }, ..made }.in_earlier_flv_body();
        assert_eq!((second.data(), second.flv_body(), second.bytes()), (&b"nal"[..], FlvBody::Sent, 0));
    }

    #[test]
    fn metadata_is_given_as_values() {
        let metadata = Metadata { video: Some((Codec::Av1, 1280, 720)), audio: None };
        let frame = Frame::metadata(metadata, Timestamp::from_millis(7));
        assert_eq!((frame.track, frame.role, frame.data()), (TrackId::DATA, FrameRole::Metadata, &[][..]));
        assert_eq!((frame.described(), frame.flv_body()), (Some(&metadata), FlvBody::Missing));
    }

    /// Thousands of frames are kept in GOP caches.
    #[test]
    fn a_frame_takes_64_bytes_besides_its_data() {
        assert!(size_of::<Frame>() <= 64, "{}", size_of::<Frame>());
    }
}
