//! RTP packets of a WebRTC publisher to frames, once for all players.

use std::sync::Arc;
use std::time::{Duration, Instant};

use relay::Frame;
use relay::packets::Packet;

use crate::sound::CodedSound;

/// How a stream is put together.
#[derive(Clone, Copy, Debug)]
pub struct ToFramesSettings {
    /// Longest a packet that is missing is waited for.
    pub delay_max: Duration,
    /// Longest distance between key frames; a new one is asked for then.
    pub key_frame_interval_max: Duration,
    /// Sound is handed out to be transcoded to AAC; else it stays Opus, as in Enhanced RTMP.
    pub sound_to_aac: bool,
}

/// What came out of a call.
#[derive(Debug, Default)]
pub struct FramesOut {
    /// Frames, each with its stream time.
    pub frames: Vec<Arc<Frame>>,
    /// To be transcoded to AAC, in order.
    pub sound: Vec<CodedSound>,
    /// The publisher should send a key frame.
    pub key_frame_wanted: bool,
}

/// Totals of a bridge.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToFramesStats {
    /// Frames of video made.
    pub video_frames: u64,
    /// Packets taken in.
    pub packets: u64,
    /// Packets and frames that made no sense.
    pub broken: u64,
    /// Packets that never came.
    pub lost: u64,
    /// Packets that came too late.
    pub late: u64,
    /// From the arrival of the newest frame's last packet to the frame; `None` if the last call made none.
    pub video_latency: Option<Duration>,
}

/// See the module.
#[derive(Debug)]
pub struct ToFrames {
    #[expect(dead_code, reason = "skeleton")]
    settings: ToFramesSettings,
}

impl ToFrames {
    /// A bridge nothing has gone through.
    pub fn new(settings: ToFramesSettings, _now: Instant) -> Self {
        Self { settings }
    }

    /// A packet of the publisher as the stream keeps it, in the order of arrival.
    pub fn packet(&mut self, _now: Instant, _packet: &Packet, _out: &mut FramesOut) {}

    /// A piece of sound from the transcoder.
    pub fn sound(&mut self, _now: Instant, _sound: &CodedSound, _out: &mut FramesOut) {}

    /// What time has made due.
    pub fn poll(&mut self, _now: Instant, _out: &mut FramesOut) {}

    /// Totals.
    pub fn stats(&self) -> ToFramesStats {
        ToFramesStats::default()
    }

    /// When to call [`ToFrames::poll`] at the latest.
    pub fn next_timeout(&self) -> Option<Instant> {
        None
    }
}
