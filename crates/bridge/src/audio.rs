//! Coded audio on its way to a transcoder and back.

use std::sync::Arc;

use media::CodecConfig;

/// One coded audio frame: an access unit, a frame, a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodedAudio {
    /// When its first sample is to be heard: stream time in microseconds. Never decreases within a stream.
    pub pts_us: i64,
    /// The format, when it is the first piece or the format has changed.
    pub format: Option<Arc<CodecConfig>>,
    /// The coded bytes.
    pub data: Vec<u8>,
}
