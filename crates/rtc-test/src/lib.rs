//! Test only: a WebRTC client that does what its test says.
//!
//! [`Client`] has no socket and no clock: it connects as a browser does (SDP, ICE, DTLS) and then
//! sends what the test protects with its keys. [`UdpClient`] runs one on a UDP socket. How the
//! offer gets to the server and the answer back is left to the caller. [`stun`] writes STUN by hand.
//!
//! The load generator has a client of its own (`millbench::rtc`). SDP, ICE, DTLS and SRTP are the same
//! code there, that of `rtc` and `srtp`; what is around them has another purpose. It offers what browsers
//! offer, runs thousands of sockets in one event loop, decrypts whole batches in place, keeps no packet
//! but when each came, and counts failures as text; this one offers what its test says, keeps a copy of
//! each packet for the test to look at, and panics.

mod answer;
mod client;
mod media;
mod offer;
pub mod stun;
mod udp;

pub use answer::{Answered, answer};
pub use client::{Client, DATAGRAM_MAX};
pub use media::{audio_fields, audio_payload, video_fields, vp8_frame};
pub use offer::{
    AUDIO_SSRC, FLEXFEC, OPUS, OfferOptions, VIDEO_RTX_SSRC, VIDEO_SSRC, VP8, VP8_RTX, certificate,
    credentials, offer, random,
};
pub use udp::UdpClient;
