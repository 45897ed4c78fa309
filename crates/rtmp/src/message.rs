//! Messages: what travels in chunks, and the numbers that name their kinds.
//!
//! Adobe RTMP 1.0 section 6.1.1 (message header) and sections 5.4 and 7.1 (type ids).

use media::MediaKind;

/// Set Chunk Size (5.4.1).
pub const SET_CHUNK_SIZE: u8 = 1;
/// Abort Message (5.4.2).
pub const ABORT: u8 = 2;
/// Acknowledgement (5.4.3).
pub const ACKNOWLEDGEMENT: u8 = 3;
/// User Control Message (7.1.7).
pub const USER_CONTROL: u8 = 4;
/// Window Acknowledgement Size (5.4.4).
pub const WINDOW_ACK_SIZE: u8 = 5;
/// Set Peer Bandwidth (5.4.5).
pub const SET_PEER_BANDWIDTH: u8 = 6;
/// Audio (7.1.4).
pub const AUDIO: u8 = 8;
/// Video (7.1.5).
pub const VIDEO: u8 = 9;
/// Data in the AMF3 wrapper (7.1.2): a zero byte, then AMF0.
pub const DATA_AMF3: u8 = 15;
/// Command in the AMF3 wrapper (7.1.1): a zero byte, then AMF0.
pub const COMMAND_AMF3: u8 = 17;
/// Data, AMF0 (7.1.2).
pub const DATA_AMF0: u8 = 18;
/// Command, AMF0 (7.1.1).
pub const COMMAND_AMF0: u8 = 20;
/// Aggregate (7.1.6).
pub const AGGREGATE: u8 = 22;

/// Longest message the 24-bit length field can declare, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 0xff_ffff;

/// Longest command that is read, in bytes; a longer one is an error at its header. `connect` with four URLs
/// of the longest query that a name may have is shorter.
pub const COMMAND_BYTES_MAX: u32 = 32 * 1024;
/// Longest data message that is kept, in bytes; the payload of a longer one is skipped. What is kept of a
/// stream's metadata is shorter.
pub const DATA_BYTES_MAX: u32 = 128 * 1024;

/// Header of a message (6.1.1), as the chunk stream gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageHeader {
    /// Message type id.
    pub type_id: u8,
    /// Message stream id; 0 for the connection itself.
    pub stream_id: u32,
    /// Milliseconds from an arbitrary start; wraps at 2^32.
    pub timestamp: u32,
    /// Declared payload bytes, at most 2^24-1.
    pub length: u32,
}

/// A whole message from the chunk stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its header.
    pub header: MessageHeader,
    /// Its payload: `header.length` bytes unless the reader was told to keep less.
    pub payload: Vec<u8>,
}

impl Message {
    /// The media of a message of type 8, 9, 15 or 18; anything else is given back.
    pub(super) fn into_media(self) -> Result<MediaMessage, Self> {
        let Self { header, payload } = self;
        let (kind, skip) = match header.type_id {
            DATA_AMF3 => {
                (MediaKind::Data, data_prefix_bytes(&payload, usize::from(payload.first() == Some(&0))))
            }
            DATA_AMF0 => (MediaKind::Data, data_prefix_bytes(&payload, 0)),
            other => match media_kind(other) {
                Some(kind) => (kind, 0),
                None => return Err(Self { header, payload }),
            },
        };
        let payload = if skip == 0 { payload } else { payload[skip..].to_vec() };
        Ok(MediaMessage { kind, timestamp: header.timestamp, length: header.length - skip as u32, payload })
    }
}

/// RTMP message type id of a media message, equal to the FLV tag type.
pub fn type_id(kind: MediaKind) -> u8 {
    match kind {
        MediaKind::Audio => AUDIO,
        MediaKind::Video => VIDEO,
        MediaKind::Data => DATA_AMF0,
    }
}

/// What a media message of this type id, or an FLV tag of this type, carries; `None` for anything
/// else, type 15 included (it is converted to 18).
pub fn media_kind(type_id: u8) -> Option<MediaKind> {
    match type_id {
        AUDIO => Some(MediaKind::Audio),
        VIDEO => Some(MediaKind::Video),
        DATA_AMF0 => Some(MediaKind::Data),
        _ => None,
    }
}

/// One audio, video or data message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaMessage {
    /// What it carries.
    pub kind: MediaKind,
    /// Milliseconds; wraps at 2^32.
    pub timestamp: u32,
    /// Payload bytes as declared on the wire (for [`MediaKind::Data`] after the changes named below).
    pub length: u32,
    /// The payload: `length` bytes, or the first `min(n, length)` when the session keeps only `n`.
    ///
    /// [`MediaKind::Data`] is AMF0 that begins with e.g. `"onMetaData"`: a leading `"@setDataFrame"` and the
    /// zero byte of the AMF3 wrapper are already removed.
    pub payload: Vec<u8>,
}

/// What goes before metadata that a publisher wants kept for later players (7.1.2 in Flash Media Server's
/// form): the string `@setDataFrame`.
pub(super) const SET_DATA_FRAME: &[u8] = b"\x02\x00\x0d@setDataFrame";

/// Bytes to drop from the front of a data message: the AMF3 wrapper and `@setDataFrame`.
fn data_prefix_bytes(payload: &[u8], wrapper: usize) -> usize {
    if payload[wrapper..].starts_with(SET_DATA_FRAME) { wrapper + SET_DATA_FRAME.len() } else { wrapper }
}
