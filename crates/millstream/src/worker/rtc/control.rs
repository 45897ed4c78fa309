//! What the control side says to a worker about WebRTC sessions, and what it gets back.
//!
//! Signalling (HTTP, SDP, tokens) happens on the control side; a worker is given the facts of an offer that has been
//! read, checked and answered. It keeps nothing of the text. Sessions that end without being asked to are reported
//! through [`Ended`], one message each, so that the control side forgets their URLs.

use std::net::SocketAddr;

use tokio::sync::mpsc;

use crate::worker::snapshot::SessionId;

/// What a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RtcRole {
    /// WHIP: the peer sends.
    Publish,
    /// WHEP: the peer receives.
    Play,
}

/// Why a worker does not open a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RtcRefusal {
    /// The stream has a publisher, and newcomers are refused.
    Taken,
    /// Nobody publishes the stream any more.
    NotFound,
    /// The worker has as many sessions as it may.
    Full,
    /// The server is shutting down.
    Draining,
    /// What was negotiated makes no peer (a defect of the control side).
    Invalid,
}

/// Addresses at which one worker takes WebRTC, with real ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RtcEndpoint {
    /// UDP, one for each address of the host.
    pub udp: Vec<SocketAddr>,
    /// TCP, for networks without UDP.
    pub tcp: Vec<SocketAddr>,
}

/// Where workers report sessions that have ended, whoever ended them.
pub type Ended = mpsc::UnboundedSender<SessionId>;
