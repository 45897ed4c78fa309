//! Streams and who gets what of them, in two lanes: frames (RTMP, FLV) in this module, packets (WebRTC) in [`packets`].
//!
//! Everything here only decides. There are no sockets, keys, addresses or clocks: input is a frame or a packet and `now`,
//! output is positions in bytes that all receivers share. The caller writes. The lanes do not know each other.
//!
//! **Packets.** A [`packets::PacketStream`] keeps one history a track, from which packets are forwarded, sent again and
//! given to new viewers; its numbers are made once a track, so that viewers share headers but for a few fields.
//!
//! **Frames.** Timeline, GOP cache, delivery logs and player cursors. A stream is driven like this: [`Stream::receive`] for every frame of its publisher; what it returns is
//! serialised by the caller into a [`DeliveryLog`] per wire format; each player has a [`Cursor`] into such a log,
//! and a [`Schedule`] says which players are served when, so that writes are merged and spread over time.

mod cursor;
mod frame;
mod gop;
mod log;
pub mod packets;
mod schedule;
mod stream;
mod timeline;

pub use cursor::{Cursor, QueueLimits, Verdict};
pub use frame::{Frame, FrameRole, Track};
pub use gop::{GopCache, GopLimits};
pub use log::{DeliveryLog, Mark, SEGMENT_BYTES};
pub use schedule::{Schedule, SlotIndex};
pub use stream::{Headers, Received, Stream, StreamRates};
pub use timeline::Timeline;

/// The examples of the README, so that they stay true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
