//! Coded audio on its way to a transcoder and back.

/// Codecs of audio that a bridge meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AudioCodec {
    /// AAC, raw access units with an AudioSpecificConfig (ISO/IEC 14496-3).
    Aac,
    /// MP3 frames (ISO/IEC 11172-3 and 13818-3).
    Mp3,
    /// Opus packets (RFC 6716).
    Opus,
    /// G.711 mu-law.
    Pcmu,
    /// G.711 A-law.
    Pcma,
}

/// What a decoder must know before the first piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AudioFormat {
    /// The codec.
    pub codec: AudioCodec,
    /// Decoder configuration: AudioSpecificConfig of AAC, `OpusHead` without its magic of Opus; else empty.
    pub config: Vec<u8>,
    /// Samples per second as the container tells, 0 if it does not.
    pub sample_rate: u32,
    /// Channels as the container tells, 0 if it does not.
    pub channels: u8,
}

/// One coded audio frame: an access unit, a frame, a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodedAudio {
    /// When its first sample is to be heard: stream time in microseconds. Never decreases within a stream.
    pub pts_us: i64,
    /// The format, when it is the first piece or the format has changed.
    pub format: Option<std::sync::Arc<AudioFormat>>,
    /// The coded bytes.
    pub data: Vec<u8>,
}
