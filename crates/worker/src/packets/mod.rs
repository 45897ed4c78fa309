//! WebRTC on a worker: sockets, sessions and the path of a packet from a publisher to its viewers.
//!
//! ```text
//! port ─▶ receive.rs ─▶ session's peer (STUN, DTLS)  or  unprotect ─▶ sfu ─▶ forward.rs ─▶ port
//! ```
//!
//! A session lives on one worker, at a port of that worker. `transport.rs` carries out what a peer wants, `open.rs` begins
//! and ends sessions, `net/ice_tcp.rs` is for networks without UDP. Nothing here decides about media: that is `sfu`.

mod events;
mod forward;
pub(crate) mod inputs;
mod open;
mod receive;
mod report;
mod session;
mod streams;
mod tcp_input;
mod transport;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::time::Instant;

use group_send::{AfXdpConfig, RecvBatch, RecvConfig};
use mio::net::TcpListener;
use sfu::{Resend, WallClock};

use crate::ids::{BridgeId, IceTcpId, PacketStreamId, PeerId, PortId, Table, TableId, WorkerIndex};
use crate::net::ice_tcp::TcpPeers;
use crate::net::udp_bind::RtcSockets;
use crate::net::udp_port::{SendCounters, UdpPort};
use crate::packets::session::{RtcSession, SendTransport};
use crate::packets::streams::RtcStreams;
use crate::stats::columns::{Columns, packets_reference};
use worker_api::rtc::Notices;
use worker_api::settings::{RtcSettings, UdpBackend};
use worker_api::snapshot::{Role, RtcCounters, SessionId};

/// Tokens of connections begin here, far above those of other sessions.
const FIRST_CONNECTION: usize = 1 << 40;
/// Tokens of ports.
const FIRST_PORT: usize = 1 << 41;
/// Tokens of listeners.
const FIRST_LISTENER: usize = FIRST_PORT + PORTS_MAX;
/// Ports of a worker at most, and listeners.
const PORTS_MAX: usize = 1024;

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Session(PeerId),
    Stream(PacketStreamId),
    Bridge(BridgeId),
}

/// All of WebRTC on one worker.
pub(crate) struct Rtc {
    ports: Table<PortId, UdpPort>,
    listeners: Vec<TcpListener>,
    tcp: TcpPeers,
    /// Taken out while its datagrams are handled.
    received: Option<RecvBatch>,
    pub(crate) sessions: Table<PeerId, RtcSession>,
    /// By session; a packet to many touches only these.
    send_transports: Vec<Option<SendTransport>>,
    /// What sessions have counted.
    pub(crate) columns: Columns,
    by_ufrag: HashMap<Box<str>, PeerId>,
    by_id: HashMap<SessionId, PeerId>,
    pub(crate) streams: RtcStreams,
    /// Earliest first. An entry counts only if it is the one its session or stream was last set to.
    timers: BinaryHeap<Reverse<(Instant, Due)>>,
    /// Streams with packets to be forwarded.
    dirty_streams: Vec<PacketStreamId>,
    /// Listeners with connections left to be accepted.
    accept_again: Vec<usize>,
    /// Listeners where accepting failed, for the next sweep.
    accept_later: Vec<usize>,
    /// Connections with bytes left to be read.
    tcp_read_again: Vec<IceTcpId>,
    resends: Vec<Resend>,
    pub(crate) scratch: Vec<u8>,
    sent: SendCounters,
    /// `sent.bytes` at the last sample.
    sampled_bytes: u64,
    pub(crate) counters: RtcCounters,
    notices: Notices,
}

impl Rtc {
    /// Takes the sockets that were bound for this worker.
    pub(crate) fn new(
        worker: WorkerIndex,
        sockets: RtcSockets,
        settings: &RtcSettings,
        clock: WallClock,
        notices: Notices,
    ) -> io::Result<Self> {
        let mut frames = frames(worker, settings);
        let port = |socket: UdpSocket| {
            let local = socket.local_addr()?.ip();
            // A queue is one port's: the first at that interface.
            let own = frames.take_if(|(_, addresses)| addresses.contains(&local));
            UdpPort::new(socket, settings, own.map(|(config, _)| config))
        };
        Ok(Self {
            ports: sockets.udp.into_iter().map(port).collect::<io::Result<_>>()?,
            listeners: sockets.tcp,
            tcp: TcpPeers::default(),
            received: Some(RecvBatch::new(RecvConfig::default())),
            sessions: Table::default(),
            send_transports: Vec::new(),
            columns: Columns::default(),
            by_ufrag: HashMap::new(),
            by_id: HashMap::new(),
            streams: RtcStreams::new(settings, clock),
            timers: BinaryHeap::new(),
            dirty_streams: Vec::new(),
            accept_again: Vec::new(),
            accept_later: Vec::new(),
            tcp_read_again: Vec::new(),
            resends: Vec::new(),
            scratch: Vec::new(),
            sent: SendCounters::default(),
            sampled_bytes: 0,
            counters: RtcCounters::default(),
            notices,
        })
    }

    /// Whether there is no session.
    pub(crate) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Whether a port or a connection has input that was left for this turn.
    pub(crate) fn has_input(&self) -> bool {
        !self.accept_again.is_empty()
            || !self.tcp_read_again.is_empty()
            || self.ports.iter().any(|(_, port)| port.readable)
    }

    fn find(&self, id: SessionId) -> Option<PeerId> {
        self.by_id.get(&id).copied()
    }

    /// Inserts a session.
    fn insert(&mut self, session: RtcSession, now_ms: u64) -> PeerId {
        let peer = self.sessions.vacant_id();
        self.columns.open(peer, session.id, session.protocol(), now_ms);
        self.columns.takes_role(peer, Role::Pending, packets_reference(session.stream));
        self.by_id.insert(session.id, peer);
        for ufrag in &session.ufrags {
            self.by_ufrag.insert(ufrag.clone(), peer);
        }
        self.sessions.insert(session);
        self.set_send_transport(peer, None);
        peer
    }

    fn set_send_transport(&mut self, peer: PeerId, transport: Option<SendTransport>) {
        if self.send_transports.len() <= peer.index() {
            self.send_transports.resize_with(peer.index() + 1, || None);
        }
        self.send_transports[peer.index()] = transport;
    }

    /// Takes a session out of every table; returns its TCP connections, which are to be closed.
    fn forget(&mut self, peer: PeerId) -> Vec<IceTcpId> {
        let Some(session) = self.sessions.remove(peer) else { return Vec::new() };
        for (port, remote) in &session.places {
            self.unbind_address(peer, *port, *remote);
        }
        for ufrag in &session.ufrags {
            self.by_ufrag.remove(ufrag);
        }
        self.by_id.remove(&session.id);
        self.send_transports[peer.index()] = None;
        self.columns.close(peer);
        self.tcp.of_session(peer)
    }

    /// A bridge is to be asked at `due`.
    pub(crate) fn wake_bridge(&mut self, bridge: BridgeId, due: Instant) {
        self.timers.push(Reverse((due, Due::Bridge(bridge))));
    }

    /// The stream has something to forward.
    pub(crate) fn mark_dirty(&mut self, stream: PacketStreamId) {
        if let Some(entry) = self.streams.slab.get_mut(stream)
            && !std::mem::replace(&mut entry.dirty, true)
        {
            self.dirty_streams.push(stream);
        }
    }

    /// Sends everything of this turn. Returns TCP connections that broke.
    fn flush(&mut self, now_ms: u64) -> Vec<IceTcpId> {
        for (_, port) in self.ports.iter_mut() {
            port.flush(now_ms, &mut self.sent);
        }
        self.tcp.flush()
    }
}

/// The interface and queue of a worker for sending past the kernel's UDP stack, and the interface's addresses.
fn frames(worker: WorkerIndex, settings: &RtcSettings) -> Option<(AfXdpConfig, Vec<IpAddr>)> {
    let interface =
        settings.af_xdp_interface.as_ref().filter(|_| settings.udp_backend == UdpBackend::AfXdp)?;
    let mut config = AfXdpConfig::new(interface);
    config.queue = worker.0;
    Some((config, crate::net::udp_bind::local_addresses(Some(interface))))
}

impl std::fmt::Debug for Rtc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rtc").field("ports", &self.ports).field("sessions", &self.sessions.len()).finish()
    }
}

#[cfg(test)]
mod panic_tests;
