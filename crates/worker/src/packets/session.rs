//! A WebRTC session: a transport, and what it publishes and plays over it.
//!
//! Where media leaves to and the keys for it stand apart in [`SendTransport`], because a packet that goes to
//! two thousand viewers touches nothing else of them.

use std::net::SocketAddr;
use std::time::Instant;

use arrayvec::ArrayVec;
use rtc::{Path, Peer, SrtpKeys};
use rtp::payload::MediaKind;
use sfu::{Pacer, ViewerId};
use srtp::{InboundContext, OutboundContext};

use crate::ids::{IceTcpId, PacketStreamId, PortId};
use crate::net::udp_port::PEERS_PER_SESSION;
use crate::registry::{Epoch, PublishedTracks};
use worker_api::hooks::Admission;
use worker_api::rtc::RtcRole;
use worker_api::snapshot::{Protocol, SessionId};
use worker_api::traces::SessionTrace;
use worker_api::usage::Uses;
use worker_api::{AddressSlot, EndReason};

/// How long after its last datagram a session keeps its address against another that proves to be there,
/// milliseconds. Peers are heard from every few seconds: consent (RFC 7675 section 5.1) and reports.
pub(super) const HELD_MS: u64 = 7_000;

/// A WebRTC session: a transport, with the publications and subscriptions that use it.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// How it was opened: by WHIP or by WHEP.
    pub(crate) role: RtcRole,
    /// Who asked for it, by HTTP.
    pub(crate) address: SocketAddr,
    /// Its place among those of its address.
    pub(crate) _place: AddressSlot,
    pub(crate) user_agent: Option<Box<str>>,
    /// Most bits per second that it wants.
    pub(crate) bits_per_second_max: Option<u64>,
    /// Highest pictures that it wants.
    pub(crate) height_max: Option<u16>,
    /// When it ends because its token does.
    pub(crate) ends_at_ms: Option<u64>,
    /// The operator's hook has let it in.
    pub(crate) admission: Option<Box<Admission>>,
    /// When it ends because that said so.
    pub(crate) time_over_ms: Option<u64>,
    /// What it takes of the limits of its token and address.
    pub(crate) uses: Option<Box<Uses>>,
    /// Its trace, if it has one.
    pub(crate) trace: Option<Box<SessionTrace>>,
    /// Keys of its media, for another process.
    pub(crate) keys: Option<Box<SrtpKeys>>,
    /// Another process has it, or it is not decided yet which one has it: nothing is sent to it.
    pub(crate) is_handed_over: bool,
    /// It was to end while that was not decided, and does where it goes on.
    pub(crate) ends_with: Option<EndReason>,
    pub(crate) transport: Transport,
    pub(crate) publications: Vec<SessionPublication>,
    pub(crate) subscriptions: Vec<Subscription>,
}

/// One peer: how packets come from it, and where they come from.
pub(crate) struct Transport {
    pub(crate) peer: Box<Peer>,
    pub(crate) state: State,
    /// Since when the peer has not consented to media (RFC 7675): an ICE restart may bring it back.
    pub(crate) consent_lost_ms: Option<u64>,
    /// Where it is in the tables of the ports.
    pub(crate) addresses: ArrayVec<(PortId, SocketAddr), PEERS_PER_SESSION>,
    /// Username fragments that lead to it: the present one, and the one before a restart.
    pub(crate) ufrags: ArrayVec<Box<str>, 2>,
    /// When the peer last sent something authentic.
    pub(crate) received_ms: u64,
    /// When the timer of the peer is set to, if it is.
    pub(crate) due: Option<Instant>,
}

/// How far a transport is.
pub(crate) enum State {
    /// ICE and DTLS are not done.
    Connecting,
    /// Packets come under these keys.
    Connected(Box<InboundContext>),
}

/// A stream that a session publishes.
pub(crate) struct SessionPublication {
    pub(crate) stream: PacketStreamId,
    pub(crate) epoch: Epoch,
    /// What was negotiated.
    pub(crate) tracks: PublishedTracks,
}

/// A stream that a session plays.
pub(crate) struct Subscription {
    pub(crate) stream: PacketStreamId,
    /// The viewer it is, once media can be sent.
    pub(crate) viewer: Option<ViewerId>,
    /// What was negotiated.
    pub(crate) tracks: PublishedTracks,
    /// Which of the published tracks of its kind each of `tracks` plays.
    pub(crate) published: Box<[usize]>,
}

impl Session {
    /// How it came in.
    pub(crate) fn protocol(&self) -> Protocol {
        match self.role {
            RtcRole::Publish => Protocol::Whip,
            RtcRole::Play => Protocol::Whep,
        }
    }

    /// Whether ICE and DTLS are done.
    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.transport.state, State::Connected(_))
    }

    /// Whether it is connected and was heard from lately.
    pub(crate) fn is_in_use(&self, now_ms: u64) -> bool {
        self.is_connected() && self.transport.received_ms + HELD_MS > now_ms
    }

    /// The streams that it publishes or plays.
    pub(crate) fn streams(&self) -> impl Iterator<Item = PacketStreamId> + '_ {
        let publications = self.publications.iter().map(|publication| publication.stream);
        publications.chain(self.subscriptions.iter().map(|subscription| subscription.stream))
    }

    /// What was negotiated.
    pub(crate) fn tracks(&self) -> impl Iterator<Item = &rtc::sdp::TrackDescription> + '_ {
        let published = self.publications.iter().map(|publication| &publication.tracks);
        let played = self.subscriptions.iter().map(|subscription| &subscription.tracks);
        published.chain(played).flat_map(|tracks| tracks.iter())
    }
}

impl Subscription {
    /// Whether it has a video track.
    pub(crate) fn has_video(&self) -> bool {
        self.tracks.iter().any(|track| track.kind == MediaKind::Video)
    }
}

impl Transport {
    /// A transport that is not connected.
    pub(crate) fn new(peer: Peer, ufrag: Box<str>, now_ms: u64) -> Self {
        Self {
            peer: Box::new(peer),
            state: State::Connecting,
            consent_lost_ms: None,
            addresses: ArrayVec::new(),
            ufrags: std::iter::once(ufrag).collect(),
            received_ms: now_ms,
            due: None,
        }
    }
}

/// Where media to a session goes, and under which keys.
pub(crate) struct SendTransport {
    pub(crate) outbound: OutboundContext,
    pub(crate) route: Route,
    /// No consent: nothing may be sent.
    pub(crate) paused: bool,
    /// Congestion control of a session that plays.
    pub(crate) pacer: Option<Box<Pacer>>,
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
        /// The path, to know a successor with the same id.
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
