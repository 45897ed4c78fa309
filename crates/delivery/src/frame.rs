//! A coded access unit on its way through the server: the frames lane of a stream.
//!
//! The payload stays as its publisher sent it (an FLV tag body, which is also an RTMP message payload).
//! What is inside is found out once, by the publisher's worker, and carried along as [`FrameRole`].

/// Which track of a stream a frame belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Track {
    /// Sound.
    Audio,
    /// Pictures.
    Video,
    /// Script data: metadata, cue points.
    Data,
}

/// What a frame is good for when some of them must be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameRole {
    /// Decoder configuration ("sequence header"); needed by every later frame of the track.
    Config,
    /// Video that can be decoded without any frame before it.
    Key,
    /// Video that needs earlier frames.
    Inter,
    /// Sound.
    Audio,
    /// Description of the whole stream (`onMetaData`); a newer one replaces it.
    Metadata,
    /// Its track is over until another configuration begins it ("end of sequence"). Players are not told.
    End,
    /// Anything else; passed on, never kept.
    Other,
}

/// One message of a publisher. Shared between workers, never changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its track.
    pub track: Track,
    /// Its role.
    pub role: FrameRole,
    /// Decode time as the publisher counts it, milliseconds; wraps at 2^32.
    pub timestamp: u32,
    /// FLV tag body.
    pub payload: Vec<u8>,
}
