//! One stream from frames (RTMP, FLV) to packets (WebRTC), and from packets to frames.
//!
//! ```text
//!  delivery::Frame  ─▶ to_packets (pictures, rtp::packetize) ─▶ RTP packets  ─▶ sfu::PacketStream
//!                        └▶ sound to be transcoded ─▶ caller's threads ─▶ back in
//!  delivery::Frame  ◀─ to_frames (jitter, rtp::depacketize)  ◀─ RTP packets  ◀─ sfu::PacketStream
//! ```
//!
//! State machines without sockets, threads or clock: `now` is an argument, and what is to be transcoded is handed to the
//! caller. One bridge serves all players of a stream in the other lane.

pub mod clock;
pub mod jitter;
mod numbers;
pub mod pictures;
mod sound;
pub mod to_frames;
pub mod to_packets;

pub use numbers::{SOUND_SSRC, VIDEO_SSRC, payload_type};
pub use sound::{CodedSound, SoundCodec, SoundFormat};
pub use to_frames::{FramesOut, ToFrames, ToFramesSettings, ToFramesStats};
pub use to_packets::{
    BFrames, PacketsOut, PublishedFormats, PublishedVideo, ToPackets, ToPacketsSettings, ToPacketsStats,
};

/// The example of the README, so that it stays true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
