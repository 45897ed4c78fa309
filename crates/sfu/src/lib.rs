//! The packets lane: RTP of a publisher forwarded to viewers, each packet cached once and sent
//! under a header of its own to each.
//!
//! A [`PacketStream`] is one stream on one worker. The worker drives it like this, all with
//! plaintext:
//!
//! 1. [`PacketStream::receive`] for every packet of the publisher that arrived,
//!    [`PacketStream::receive_rtcp`] for its RTCP, [`PacketStream::viewer_rtcp`] for that of
//!    viewers;
//! 2. [`PacketStream::take_arrivals`], for other workers and bridges; then for audio, and for video
//!    when there is time, [`PacketStream::prepare_batch`], headers for every viewer
//!    ([`Viewer::header_for`]), [`PacketStream::finish_batch`];
//! 3. [`PacketStream::send_backlog`] and [`PacketStream::send_reports`] for viewers that join,
//!    [`PacketStream::poll_feedback`] to the publisher;
//! 4. the last two again at [`PacketStream::next_timeout`].
//!
//! Another node's stream is taken in the same way ([`PacketStream::relayed_publisher_started`]).
//!
//! [`PacketStream::set_watched`] says whether anybody plays the stream: less is kept of one that nobody
//! plays.
//!
//! Numbers and timestamps of the output are made once per track and are continuous whoever
//! publishes; viewers share them, and differ in SSRC, payload types and ids of header extensions.
//! No keys, addresses, sockets or clocks here. Left out: choosing layers by a viewer's bandwidth,
//! sender-side estimates, FEC.

mod batch;
mod clock;
mod demand;
mod early;
mod encoding;
mod feedback;
mod header_profile;
mod inputs;
mod joining;
mod layers;
mod limits;
mod nack;
mod packet;
mod packet_cache;
mod publisher;
mod receive;
mod recent;
mod reception;
mod relayed;
mod reports;
mod resend;
mod rtp_rewriter;
mod ssrc_table;
mod stream;
mod track;
mod viewer;
mod viewers;

pub use batch::{Batch, BatchPackets};
pub use clock::{NtpRtpMapping, WallClock};
pub use header_profile::HEADER_LEN_MAX;
pub use inputs::{PublisherInput, TrackInput, TrackPayload, ViewerInput, ViewerPayload, ViewerTrackInput};
pub use joining::JoinError;
pub use limits::{LAYERS_MAX, Limits, TRACKS_MAX};
pub use packet::Packet;
pub use receive::{DropReason, PublisherEvents, Received};
pub use reports::ViewerEvents;
pub use resend::Resend;
pub use stream::{PacketStream, Pictures, PublisherStats, StreamStats, TrackReception};
pub use track::TrackIndex;
pub use viewer::{Viewer, ViewerStats};
pub use viewers::ViewerId;

/// The example of the README, so that it stays true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
