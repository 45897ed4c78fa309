//! The packets lane: RTP of a publisher forwarded to viewers, each packet cached once and sent
//! under a header of its own to each.
//!
//! A [`PacketStream`] is one stream on one worker. The worker drives it like this, all with
//! plaintext:
//!
//! 1. [`PacketStream::receive`] for every packet of the publisher that arrived,
//!    [`PacketStream::receive_rtcp`] for its RTCP, [`PacketStream::viewer_rtcp`] for that of
//!    viewers, which adapts what they get; [`PacketStream::adapt`] when a viewer has joined;
//! 2. [`PacketStream::take_arrivals`], for other workers and bridges; then for audio, and for video
//!    when there is time, [`PacketStream::prepare_batch`], headers for every viewer
//!    ([`Viewer::header_for`]), what changes in its payloads ([`Viewer::payload_shift`]), its repair
//!    packets ([`Viewer::protect`]), or [`Batch::fall_behind`] where its path has no room;
//!    [`PacketStream::finish_batch`];
//! 3. [`PacketStream::send_backlog`] for viewers that join or have fallen behind,
//!    [`PacketStream::send_reports`], [`PacketStream::poll_feedback`] to the publisher;
//! 4. step 3 again at [`PacketStream::next_timeout`].
//!
//! On other workers of a stream ([`PacketStream::receive_mirrored`]) the caller tells the home what is needed
//! there ([`PacketStream::poll_layers_wanted`]), and the home tells them which layers there are
//! ([`PacketStream::poll_layers_report`]).
//!
//! Another node's stream is taken in the same way ([`PacketStream::relayed_publisher_started`]).
//!
//! [`PacketStream::set_watched`] says whether anybody plays the stream: less is kept of one that nobody
//! plays.
//!
//! [`PacketStream::layers`] says which layers of a track there are; [`PacketStream::adapt`] chooses
//! one for a viewer, [`PacketStream::fix_layer`] gives it the one that it asks for.
//!
//! Numbers and timestamps are made once per rendition and are continuous whoever publishes. Viewers
//! share them, and differ in SSRC, payload types and ids of header extensions; a viewer that has
//! changed layers has numbers and timestamps of its own.
//!
//! A viewer whose transport has a [`Pacer`] gets what its path carries: packets at the pace of the path, a
//! layer by its rate, less video where there is no room for all of it; repair packets where it loses some
//! ([`Protection`]). No keys, addresses, sockets or clocks here.

mod batch;
mod clock;
mod demand;
mod dependencies;
mod early;
mod encoding;
mod feedback;
mod hand_over;
mod header_profile;
mod inputs;
mod joining;
mod layer_stats;
mod layers;
mod limits;
mod mirrored;
mod nack;
mod outlet;
mod own_loss;
mod pacer;
mod packet;
mod packet_cache;
mod pictures;
mod protection;
mod publisher;
mod receive;
mod recent;
mod reception;
mod relayed;
mod relayed_encodings;
mod rendition;
mod repeats;
mod reports;
mod resend;
mod rtp_rewriter;
mod sent_numbers;
mod share;
mod socket_rate;
mod ssrc_table;
mod stream;
mod stream_numbers;
mod switching;
mod track;
mod viewer;
mod viewers;

pub use batch::{Batch, BatchPackets};
pub use clock::{NtpRtpMapping, RemoteClock, WallClock};
pub use hand_over::{PublisherPosition, ViewerTrackPosition};
pub use header_profile::HEADER_LEN_MAX;
pub use inputs::{PublisherInput, TrackInput, TrackPayload, ViewerInput, ViewerPayload, ViewerTrackInput};
pub use joining::JoinError;
pub use layers::{Layer, LayerRate};
pub use limits::{LAYERS_MAX, Limits, TRACKS_MAX};
pub use mirrored::{KeyFrameRequest, LayersReport, LayersWanted, Outputs};
pub use outlet::{Outlet, plain_outlet, send_again};
pub use pacer::{Pacer, PacerInput, PathStats};
pub use packet::Packet;
pub use pictures::PayloadShift;
pub use protection::{
    ProtectedPath, Protection, ProtectionInput, ProtectionPlan, ProtectionStats, REPAIR_LEN_MAX,
};
pub use receive::{DropReason, PublisherEvents, Received};
pub use relayed::RelayedTrack;
pub use relayed_encodings::{ENCODINGS_REPORT_INTERVAL, EncodingSet};
pub use reports::ViewerEvents;
pub use resend::Resend;
pub use share::Share;
pub use stream::{PacketStream, Pictures, PublisherStats, StreamStats, TrackReception};
pub use track::TrackIndex;
pub use viewer::{Viewer, ViewerStats};
pub use viewers::ViewerId;

/// The example of the README, so that it stays true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
