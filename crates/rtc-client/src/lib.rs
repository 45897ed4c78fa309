//! WebRTC clients: one that publishes frames (WHIP) and one that plays them (WHEP).
//!
//! ```text
//! offer.rs: what is offered ─▶ HTTP, the caller's ─▶ answer ─▶ Client: ICE, DTLS, SRTP
//! media::Frame ─▶ Sender: bridge::FrameToRtp, history, reports ─▶ packets ─▶ Client ─▶ datagrams
//! media::Frame ◀─ Receiver: sfu::PacketStream, bridge::RtpToFrame ◀─ packets ◀─ Client ◀─ datagrams
//! ```
//!
//! No socket, thread or clock: `now` is an argument, and what is to be transcoded is handed to the
//! caller. ICE, DTLS, SDP and SRTP are those of [`rtc`] and [`srtp`], what the server's own
//! sessions use; order, loss and timing are those of the server's bridges and of its packets lane.
//! Nothing of an answer or a datagram panics; what waits is bounded by named limits.
//!
//! Left out on purpose: trickle by PATCH, TURN, simulcast, congestion control of what is sent, FEC.

mod client;
mod offer;
mod receiver;
mod sender;

pub use client::{Client, Ended, Outgoing, Received};
pub use offer::{Identity, carried, received, sent};
pub use receiver::Receiver;
pub use sender::{NotSent, Sender, SenderStats, formats};
