//! A coded frame on its way through the server, from whatever protocol to whatever other.

use std::ops::Range;

use crate::{Codec, MediaKind, Timestamp};

/// One track of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// Its track is over until another configuration begins it ("end of sequence"). Players are not told.
    End,
    /// Anything else; passed on, never kept.
    Other,
}

/// One access unit of one track, or what stands between access units: a configuration, metadata, the end of a track.
/// Shared between threads and never changed.
///
/// Data is as MP4 and FLV have it: NAL units with lengths of four bytes, AV1 temporal units without delimiters, raw
/// AAC, bare Opus packets; configurations are the records of [`crate::config`]. A frame that came in a container body
/// (FLV) still has that body around its data, so that outputs of the same format repeat it byte for byte, codecs and
/// fields unknown to this server included; all other outputs look at the data alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its track.
    pub track: TrackId,
    /// Its role.
    pub role: FrameRole,
    /// Its codec; [`Codec::None`] for data.
    pub codec: Codec,
    /// When it is to be decoded, as its publisher counts time.
    pub dts: Timestamp,
    /// When it is to be shown or heard; [`Frame::dts`] but for video with B-frames.
    pub pts: Timestamp,
    bytes: Vec<u8>,
    /// Where the data is in `bytes`.
    data: Range<usize>,
    has_flv_body: bool,
}

impl Frame {
    /// A frame that was made here, or came in a format that puts nothing around its data.
    pub fn new(
        track: TrackId,
        role: FrameRole,
        codec: Codec,
        (dts, pts): (Timestamp, Timestamp),
        data: Vec<u8>,
    ) -> Self {
        let range = 0..data.len();
        Self { track, role, codec, dts, pts, bytes: data, data: range, has_flv_body: false }
    }

    /// The same with `body`, the FLV tag body (and RTMP payload) that the data is a part of, as it came.
    ///
    /// # Panics
    ///
    /// If `data` is not a range within `body`.
    pub fn in_flv_body(
        track: TrackId,
        role: FrameRole,
        codec: Codec,
        (dts, pts): (Timestamp, Timestamp),
        body: Vec<u8>,
        data: Range<usize>,
    ) -> Self {
        assert!(data.start <= data.end && data.end <= body.len(), "the data is a part of the body");
        Self { track, role, codec, dts, pts, bytes: body, data, has_flv_body: true }
    }

    /// The access unit, or the configuration record.
    pub fn data(&self) -> &[u8] {
        &self.bytes[self.data.clone()]
    }

    /// The FLV tag body that the frame came in, if it came in one.
    pub fn flv_body(&self) -> Option<&[u8]> {
        self.has_flv_body.then_some(&self.bytes[..])
    }

    /// Bytes it holds in memory.
    pub fn bytes_held(&self) -> usize {
        self.bytes.len()
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
        assert_eq!((made.data(), made.flv_body(), made.is_key()), (&b"nal"[..], None, true));
        let body = b"\x17\x01\x00\x00\x28nal".to_vec();
        let came = Frame::in_flv_body(TrackId::VIDEO, FrameRole::Key, Codec::H264, times, body.clone(), 5..8);
        assert_eq!((came.data(), came.flv_body()), (&b"nal"[..], Some(&body[..])));
        assert_eq!(came.bytes_held(), 8);
    }
}
