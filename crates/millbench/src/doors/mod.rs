//! Players and publishers of what carries the same frames in other forms: MPEG-TS over HTTP, SRT, RTSP.
//!
//! ```text
//! socket ─▶ srt::Connection ─▶ mpegts::Demuxer ─▶ frames ─▶ Arrival ─▶ tally
//!        └▶ rtsp::PlaySession ────────────────────▶┘
//! ```
//! Every player takes its stream apart to frames and counts them as an FLV player counts tags: a byte
//! that is lost, or changed in number, is missed. The machines are the server's own crates.

pub mod frames;
pub mod rtsp;
pub mod srt;
pub mod ts;
pub mod udp;
