//! One stream from frames (RTMP, FLV) to packets (WebRTC), and from packets to frames.
//!
//! ```text
//!  media::Frame  ─▶ frame_to_rtp (B-frames, rtp::packetize)    ─▶ RTP packets  ─▶ sfu::PacketStream
//!                     └▶ audio to be transcoded ─▶ caller's threads ─▶ back in
//!  media::Frame  ◀─ rtp_to_frame (reorder, rtp::depacketize)   ◀─ RTP packets  ◀─ sfu::PacketStream
//! ```
//!
//! State machines without sockets, threads or clock: `now` is an argument, and what is to be transcoded is
//! handed to the caller. One bridge serves all players of a stream in the other lane.

pub mod b_frames;
pub mod clock;
pub mod frame_to_rtp;
mod refusal;
pub mod reorder_buffer;
pub mod rtp_to_frame;

pub use b_frames::BFrames;
pub use frame_to_rtp::{
    AUDIO_SSRC, FrameToRtp, FrameToRtpSettings, FrameToRtpState, FrameToRtpStats, PacketsOut,
    PublishedFormats, PublishedVideo, VIDEO_SSRC, describe, payload_type,
};
pub use refusal::{Refused, TrackRefusal};
pub use rtp_to_frame::{FramesOut, RtpToFrame, RtpToFrameSettings, RtpToFrameStats, key_frame_format};

/// The example of the README, so that it stays true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
