//! A WebRTC session on a worker: its peer, its keys, and what it does with which stream.
//!
//! Where media leaves to and the keys for it stand apart in [`SendTransport`], because a packet that goes to two thousand
//! viewers touches nothing else of them.

use std::net::SocketAddr;
use std::time::Instant;

use arrayvec::ArrayVec;
use rtc::{Path, Peer};
use sfu::ViewerId;
use srtp::{InboundContext, OutboundContext};

use crate::ids::{IceTcpId, PacketStreamId, PortId};
use crate::net::udp_port::PEERS_PER_SESSION;
use crate::registry::{Epoch, PublishedTracks};
use worker_api::rtc::RtcRole;
use worker_api::snapshot::{Protocol, SessionId};

/// See the module.
pub(crate) struct RtcSession {
    pub(crate) id: SessionId,
    pub(crate) role: RtcRole,
    /// Who asked for it, by HTTP.
    pub(crate) address: SocketAddr,
    pub(crate) user_agent: Option<Box<str>>,
    /// The stream that it publishes or plays.
    pub(crate) stream: PacketStreamId,
    /// The publication it is, if it publishes.
    pub(crate) epoch: Option<Epoch>,
    /// The viewer it is, once it is connected, if it plays.
    pub(crate) viewer: Option<ViewerId>,
    pub(crate) peer: Box<Peer>,
    /// What was negotiated.
    pub(crate) tracks: PublishedTracks,
    /// Which of the published tracks each of `tracks` plays, if it plays.
    pub(crate) published: Box<[usize]>,
    /// Keys of what it sends to us; there once DTLS is done.
    pub(crate) inbound: Option<Box<InboundContext>>,
    /// Where it is in the tables of the ports: port, address.
    pub(crate) places: ArrayVec<(PortId, SocketAddr), PEERS_PER_SESSION>,
    /// Username fragments that lead to it: the present one, and the one before a restart.
    pub(crate) ufrags: ArrayVec<Box<str>, 2>,
    /// Since when the peer has not consented to media.
    pub(crate) lost_ms: Option<u64>,
    /// When the peer last sent something authentic.
    pub(crate) received_ms: u64,
    /// Since when a player has been without a publisher.
    pub(crate) waiting_since_ms: Option<u64>,
    /// When the timer of the peer is set to, if it is.
    pub(crate) due: Option<Instant>,
}

/// Where media to a session goes, and under which keys.
pub(crate) struct SendTransport {
    pub(crate) outbound: OutboundContext,
    pub(crate) route: Route,
    /// No consent: nothing may be sent.
    pub(crate) paused: bool,
}

/// A path in this worker's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// From a UDP port to an address.
    Udp {
        /// The port.
        port: PortId,
        /// Address of the peer.
        remote: SocketAddr,
    },
    /// By a TCP connection, as long as that is there.
    Tcp {
        /// The connection.
        connection: IceTcpId,
        /// The path, to know a successor at the same index.
        path: Path,
    },
}

impl Route {
    /// Until there is one.
    pub(crate) const NOWHERE: Self = Self::Udp {
        port: PortId(0),
        remote: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0),
    };
}

impl RtcSession {
    /// How it came in.
    pub(crate) fn protocol(&self) -> Protocol {
        match self.role {
            RtcRole::Publish => Protocol::Whip,
            RtcRole::Play => Protocol::Whep,
        }
    }

    /// Whether ICE and DTLS are done.
    pub(crate) fn is_connected(&self) -> bool {
        self.inbound.is_some()
    }
}
