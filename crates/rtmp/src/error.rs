//! Why an RTMP session ended.
//!
//! One variant per cause, so that each can be a counter and a log word. No text is built on the way.

use std::fmt;

/// Why the bytes of a peer were refused, or a session did not go on in another process. The session
/// that returned it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RtmpError {
    /// The first byte is not RTMP version 3 (5.2.2), or the peer's handshake answer is malformed.
    BadHandshake,
    /// Set Chunk Size with 0 (5.4.1 asks for at least 1).
    ChunkSizeZero,
    /// Set Chunk Size with the top bit set (5.4.1 asks for zero there).
    ChunkSizeTooLarge,
    /// More than [`chunk::CHUNK_STREAMS_MAX`](crate::chunk::CHUNK_STREAMS_MAX) chunk stream ids in use.
    TooManyChunkStreams,
    /// The first header on a chunk stream leaves out the length that only a previous one could give.
    HeaderWithoutPrevious,
    /// A new message header inside an unfinished message of the same chunk stream.
    MessageInterrupted,
    /// A message declares more bytes than the session allows.
    MessageTooLarge,
    /// Unfinished and undelivered messages together hold more than the session's limit.
    MemoryLimit,
    /// A protocol control or user control message that is too short for its type.
    ControlMalformed,
    /// An aggregate message (7.1.6) whose parts do not fit into it.
    AggregateMalformed,
    /// A command or data message that is not well-formed AMF0.
    AmfMalformed,
    /// AMF0 objects or arrays nested deeper than the limit.
    AmfTooDeep,
    /// More AMF0 properties and elements than the limit.
    AmfTooManyValues,
    /// An AMF0 string longer than the limit.
    AmfStringTooLong,
    /// An AMF0 type this crate does not read: reference, movie clip, record set, complex AMF3 value.
    AmfUnsupported,
    /// An application or stream name that [`name`](crate::name) does not accept.
    NameInvalid,
    /// A command that is not allowed in the present state, e.g. `publish` before `connect`.
    CommandOutOfOrder,
    /// A [`SessionState`](crate::server::SessionState) that no session can have. Not the peer's fault.
    StateImpossible,
}

impl RtmpError {
    /// The cause in a few words, for logs and status messages.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::BadHandshake => "bad handshake",
            Self::ChunkSizeZero => "chunk size 0",
            Self::ChunkSizeTooLarge => "chunk size above 2^31-1",
            Self::TooManyChunkStreams => "too many chunk streams",
            Self::HeaderWithoutPrevious => "compressed header on a new chunk stream",
            Self::MessageInterrupted => "message header inside an unfinished message",
            Self::MessageTooLarge => "message too large",
            Self::MemoryLimit => "too many bytes in unfinished messages",
            Self::ControlMalformed => "malformed control message",
            Self::AggregateMalformed => "malformed aggregate message",
            Self::AmfMalformed => "malformed AMF0",
            Self::AmfTooDeep => "AMF0 nested too deeply",
            Self::AmfTooManyValues => "too many AMF0 values",
            Self::AmfStringTooLong => "AMF0 string too long",
            Self::AmfUnsupported => "unsupported AMF type",
            Self::NameInvalid => "invalid application or stream name",
            Self::CommandOutOfOrder => "command out of order",
            Self::StateImpossible => "impossible state of a session",
        }
    }
}

impl fmt::Display for RtmpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for RtmpError {}
