//! Frames of an RTMP publisher to RTP packets, once for all viewers.

use std::sync::Arc;
use std::time::Instant;

use relay::Frame;
use rtp::payload::Codec;

use crate::sound::{CodedSound, SoundFormat};

/// What becomes of a stream whose pictures are not shown in the order they are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BFrames {
    /// Pictures that no other needs are left out.
    #[default]
    Drop,
    /// The stream is not bridged.
    Refuse,
}

/// How a stream is packetised.
#[derive(Clone, Copy, Debug)]
pub struct ToPacketsSettings {
    /// What becomes of B-frames.
    pub b_frames: BFrames,
    /// Longest RTP payload, bytes.
    pub payload_bytes_max: usize,
}

/// Video as viewers are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedVideo {
    /// Payload format.
    pub codec: Codec,
    /// `a=fmtp` value: profile and level; may be empty.
    pub fmtp: String,
}

/// What can be offered of a stream in packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishedFormats {
    /// Video, if there is some that can be bridged.
    pub video: Option<PublishedVideo>,
    /// Sound as it is sent in packets, if there is some that can be bridged.
    pub sound: Option<Codec>,
    /// Why video or sound is missing although the publisher sends it: for the player's error and the log.
    pub refused: Option<Arc<str>>,
}

/// What came out of a call.
#[derive(Debug, Default)]
pub struct PacketsOut {
    /// RTP packets, whole, in order.
    pub packets: Vec<Vec<u8>>,
    /// To be transcoded to Opus, in order.
    pub sound: Vec<CodedSound>,
}

/// See the module.
#[derive(Debug)]
pub struct ToPackets {
    #[expect(dead_code, reason = "skeleton")]
    settings: ToPacketsSettings,
    _format: Option<Arc<SoundFormat>>,
}

impl ToPackets {
    /// A bridge nothing has gone through.
    pub fn new(settings: ToPacketsSettings, _now: Instant) -> Self {
        Self { settings, _format: None }
    }

    /// A frame of the stream, headers included; `time_ms` is its decoding time on the stream's timeline.
    pub fn frame(&mut self, _now: Instant, _time_ms: u64, _frame: &Frame, _out: &mut PacketsOut) {}

    /// An Opus packet of the transcoder.
    pub fn sound(&mut self, _now: Instant, _sound: &CodedSound, _out: &mut PacketsOut) {}
}
