//! What a relay needs to know of a tag body: its codec, and its role in the stream.

use super::tag::{Packet, TagHeader};
use super::{Codec, FlvError};
use crate::MediaKind;

/// The facts of one tag body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyInfo {
    /// Its codec; of a multitrack body, that of the first track.
    pub codec: Codec,
    /// Its role.
    pub role: BodyRole,
    /// Presentation minus decoding time, in milliseconds.
    pub composition_ms: i32,
    /// It is an Enhanced RTMP multitrack body.
    pub multitrack: bool,
}

/// What a tag body is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BodyRole {
    /// Sequence header: decoder configuration that must come before frames.
    Config,
    /// Video that can be decoded from here.
    Key,
    /// Video that needs earlier frames, and may be needed by later ones.
    Inter,
    /// Video that no other frame needs.
    Disposable,
    /// Coded audio.
    Audio,
    /// `onMetaData`, or the metadata frame of Enhanced RTMP (colour, HDR).
    Metadata,
    /// End of sequence.
    End,
    /// Anything else: commands, cue points, packet types of the future.
    Other,
}

/// Reads the header of a body. [`FlvError::Truncated`] if it ends before its header does.
pub fn inspect(kind: MediaKind, body: &[u8]) -> Result<BodyInfo, FlvError> {
    let header = match kind {
        MediaKind::Video => TagHeader::of_video(body)?,
        MediaKind::Audio => TagHeader::of_audio(body)?,
        MediaKind::Data => return inspect_data(body),
    };
    let TagHeader { codec, composition_ms, multitrack, .. } = header;
    Ok(BodyInfo { codec, role: role(kind, &header), composition_ms, multitrack: multitrack.is_some() })
}

/// Role of an audio or video body, or of one track in it.
pub(super) fn role(kind: MediaKind, header: &TagHeader<'_>) -> BodyRole {
    match header.packet {
        Packet::Config => BodyRole::Config,
        Packet::End => BodyRole::End,
        Packet::Metadata => BodyRole::Metadata,
        Packet::Other => BodyRole::Other,
        Packet::Frames if kind == MediaKind::Audio => BodyRole::Audio,
        Packet::Frames => match header.frame_type {
            1 | 4 => BodyRole::Key,
            2 => BodyRole::Inter,
            3 => BodyRole::Disposable,
            _ => BodyRole::Other,
        },
    }
}

pub(super) fn inspect_data(body: &[u8]) -> Result<BodyInfo, FlvError> {
    let role = match body {
        [] => return Err(FlvError::Truncated),
        _ if body.starts_with(ON_META_DATA) => BodyRole::Metadata,
        _ => BodyRole::Other,
    };
    Ok(BodyInfo { codec: Codec::None, role, composition_ms: 0, multitrack: false })
}

const ON_META_DATA: &[u8] = b"\x02\x00\x0aonMetaData";
