//! RTSP: clients that publish and play in a connection, or by UDP beside it.
//!
//! ```text
//! proto/connections ─▶ rtsp::ServerSession ─▶ requests.rs: tokens, limits, descriptions
//! net/datagram_port ─▶ receive.rs ─▶ rtsp::Incoming ─▶ Worker::receive_frame
//!                                 or rtsp::Passing ──▶ Packets::receive_of
//! frames/serve ─▶ connection, or RtspLink::take ─▶ send.rs ─▶ net/datagram_port
//! ```
//!
//! Packets go on as they come where all of a publisher's tracks are what WebRTC takes: then viewers of WHEP
//! cost what those of WHIP do. Else they become frames, as all that other doors bring.
//!
//! A connection is a session like any other (`proto/session.rs`), whose state is an [`RtspLink`]. Players
//! share the packets that `frames/stream.rs` makes of a stream, once a worker; who plays in its connection is
//! served as players of FLV are. [`Rtsp`] has what all links of a worker share: sockets, and who is where.

mod receive;
mod requests;
mod send;

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rtsp::{Incoming, Lower, Passing, ServerSession, Setup, TRACKS};

use crate::ids::ConnId;
use crate::net::datagram_port::{DatagramPort, SocketPairs};
use crate::net::{EventQueue, Token};
use worker_api::settings::RtspSettings;
use worker_api::snapshot::RtspCounters;
use worker_api::{AddressSlot, EndReason};

/// Bytes that wait for a player beside those of its stream; it is given no more before some have left.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// What the links of a worker share.
#[derive(Debug)]
pub(crate) struct Rtsp {
    pairs: Vec<PortPair>,
    /// Who is at an address, by the port that it sends to.
    by_address: HashMap<(usize, SocketAddr), (ConnId, usize)>,
    /// Links that have datagrams to send.
    dirty: Vec<ConnId>,
    /// Links whose player waits for the description of its stream.
    describing: Vec<ConnId>,
    /// Links that publish.
    publishers: Vec<ConnId>,
    counters: RtspCounters,
}

/// Ports of RTP and RTCP at one address.
#[derive(Debug)]
struct PortPair {
    ports: [DatagramPort; 2],
}

/// Ports that SETUP answers with, by the address that they are connected to.
#[derive(Debug, Default)]
pub(crate) struct RtspPorts(Vec<(IpAddr, UdpPorts)>);

/// A pair of ports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UdpPorts {
    /// Which of the worker's pairs.
    pair: usize,
    rtp: u16,
    rtcp: u16,
}

/// A client's connection, as the state of its session.
#[derive(Debug)]
pub(crate) struct RtspLink {
    pub(crate) machine: ServerSession,
    /// What it is to publish or play, once it has said so.
    wanted: Option<Wanted>,
    publishing: Option<Publishing>,
    udp: Option<UdpPorts>,
    /// Where packets of a track go and come from, by UDP: RTP and RTCP.
    addresses: [[Option<SocketAddr>; 2]; TRACKS_MAX],
    /// Which channels of those that all get it plays.
    takes: [bool; 2 * TRACKS],
    /// It gets packets in datagrams, or not all of them.
    is_apart: bool,
    /// It plays or publishes, and has not paused.
    is_on: bool,
    /// Until it plays or publishes for the first time.
    pending: Option<AddressSlot>,
    /// The beginning of an interleaved packet whose end was not written yet.
    partial: Vec<u8>,
    /// Packets that are to leave in datagrams, interleaved.
    out: Vec<u8>,
    is_dirty: bool,
    partial_since_ms: Option<u64>,
    items: u64,
    begun_since_ms: Option<u64>,
    heard_ms: u64,
    /// When a packet of a publisher was taken last.
    media_ms: u64,
}

/// Tracks of a publisher that may come by UDP.
const TRACKS_MAX: usize = 16;

/// What takes a publisher's packets.
#[derive(Debug)]
enum Publishing {
    /// They become frames.
    Frames(Box<Incoming>),
    /// They go on as they are.
    Packets(Box<Passing>),
}

/// What a client has asked for.
#[derive(Debug)]
struct Wanted {
    app: String,
    name: String,
    token: Option<String>,
    tracks: Vec<rtsp::AnnouncedTrack>,
    /// Since when it waits for a description.
    since_ms: u64,
}

impl Rtsp {
    /// With these sockets.
    pub(crate) fn new(sockets: SocketPairs, settings: &RtspSettings) -> io::Result<Self> {
        let pair = |(rtp, rtcp)| {
            let port = |socket| DatagramPort::new(socket, settings.udp_backend, false);
            Ok(PortPair { ports: [port(rtp)?, port(rtcp)?] })
        };
        Ok(Self {
            pairs: sockets.into_iter().map(pair).collect::<io::Result<_>>()?,
            by_address: HashMap::new(),
            dirty: Vec::new(),
            describing: Vec::new(),
            publishers: Vec::new(),
            counters: RtspCounters::default(),
        })
    }

    /// Puts the sockets into the event queue.
    pub(crate) fn register(&self, events: &EventQueue) -> io::Result<()> {
        let mut ports = self.pairs.iter().flat_map(|pair| &pair.ports).enumerate();
        ports.try_for_each(|(index, port)| port.register(Token::Rtsp(index), events))
    }

    /// Ports that SETUP answers with.
    pub(crate) fn addresses(&self) -> RtspPorts {
        let ports = self.pairs.iter().enumerate().map(|(pair, ports)| {
            let [rtp, rtcp] = [0, 1].map(|at| ports.ports[at].local());
            (rtp.ip(), UdpPorts { pair, rtp: rtp.port(), rtcp: rtcp.port() })
        });
        RtspPorts(ports.collect())
    }

    /// A socket has datagrams.
    pub(crate) fn port_event(&mut self, port: usize) {
        self.port(port).readable = true;
    }

    fn port(&mut self, port: usize) -> &mut DatagramPort {
        &mut self.pairs[port / 2].ports[port % 2]
    }

    /// Whether the next turn reads a socket without being woken.
    #[cfg(feature = "simulated")]
    pub(crate) fn reads_later(&self, port: usize) -> bool {
        self.pairs[port / 2].ports[port % 2].readable
    }

    /// How long nothing is due.
    pub(crate) fn timeout(&self) -> Duration {
        let mut ports = self.pairs.iter().flat_map(|pair| &pair.ports);
        if ports.clone().any(|port| port.readable) {
            return Duration::ZERO;
        }
        ports.by_ref().filter_map(DatagramPort::retry_after).min().unwrap_or(Duration::MAX)
    }

    /// A link may have datagrams to send.
    pub(crate) fn mark_dirty(&mut self, conn: ConnId, link: &mut RtspLink) {
        if !link.out.is_empty() && !std::mem::replace(&mut link.is_dirty, true) {
            self.dirty.push(conn);
        }
    }

    /// A session is over, or what it played or published: nothing comes for it any more.
    pub(crate) fn ended(&mut self, conn: ConnId, link: &mut RtspLink) {
        self.counters.unknown += link.machine.take_strays();
        self.unbind(conn);
        self.publishers.retain(|known| *known != conn);
        self.describing.retain(|known| *known != conn);
    }

    fn unbind(&mut self, conn: ConnId) {
        if !self.by_address.is_empty() {
            self.by_address.retain(|_, (known, _)| *known != conn);
        }
    }

    /// Counters of all sessions there are and were.
    pub(crate) fn counters(&self) -> RtspCounters {
        let ports = self.pairs.iter().flat_map(|pair| &pair.ports);
        let failures: u64 = ports.map(|port| port.failures).sum();
        RtspCounters { send_failures: self.counters.send_failures + failures, ..self.counters }
    }
}

impl RtspPorts {
    /// The ports at this address of ours.
    pub(crate) fn at(&self, ip: IpAddr) -> Option<UdpPorts> {
        let ip = ip.to_canonical();
        self.0.iter().find(|(known, _)| known.to_canonical() == ip).map(|(_, ports)| *ports)
    }
}

impl RtspLink {
    /// A connection on which nothing has come, with the slot that it has until it plays or publishes.
    pub(crate) fn new(udp: Option<UdpPorts>, pending: AddressSlot) -> Self {
        let ports = udp.map(|udp| (udp.rtp, udp.rtcp));
        Self {
            machine: ServerSession::new(rtsp::Limits::default(), rtsp::random(), ports),
            wanted: None,
            publishing: None,
            udp,
            addresses: [[None; 2]; TRACKS_MAX],
            takes: [false; 2 * TRACKS],
            is_apart: false,
            is_on: false,
            pending: Some(pending),
            partial: Vec::new(),
            out: Vec::new(),
            is_dirty: false,
            partial_since_ms: None,
            items: 0,
            begun_since_ms: None,
            heard_ms: 0,
            media_ms: 0,
        }
    }

    /// Its input has been read.
    pub(crate) fn note_input(&mut self, now_ms: u64) {
        self.heard_ms = now_ms;
        // What is sent without a pause ends in the middle of a packet all the time, each time of another.
        let is_same = std::mem::replace(&mut self.items, self.machine.items()) == self.machine.items();
        self.partial_since_ms = match self.machine.is_partial() {
            true if is_same => self.partial_since_ms.or(Some(now_ms)),
            true => Some(now_ms),
            false => None,
        };
    }

    /// Why it ends, once it does.
    pub(crate) fn ends(&self) -> Option<EndReason> {
        self.machine.ends().map(|ends| EndReason::Protocol(ends.reason()))
    }

    /// Since when a message has begun that has not ended.
    pub(crate) fn partial_since_ms(&self) -> Option<u64> {
        self.partial_since_ms
    }

    /// Since when it has had a stream described that it does not play yet.
    pub(crate) fn begun_since_ms(&self) -> Option<u64> {
        self.begun_since_ms
    }

    /// Since when a player is not heard from, of whom nothing else says that it is there: it plays by UDP, or
    /// has paused.
    pub(crate) fn silent_since_ms(&self) -> Option<u64> {
        let is_by_udp = self.machine.setups().iter().any(|setup| matches!(setup.lower, Lower::Udp { .. }));
        (is_by_udp || !self.is_on).then_some(self.heard_ms)
    }

    /// When a publisher has sent something that was taken: that it says that it is there is not enough.
    pub(crate) fn media_ms(&self) -> u64 {
        self.media_ms
    }

    /// Whether it plays packets that are taken out of what others get as it is.
    pub(crate) fn is_served_apart(&self) -> bool {
        self.is_apart
    }

    /// Whether a player that is served apart may be given more; `pending` bytes wait for its connection.
    pub(crate) fn has_room(&self, pending: usize) -> bool {
        self.out.len().max(pending) < WAITING_BYTES_MAX
    }

    /// How its tracks go.
    fn set_up(&mut self, peer: IpAddr) {
        self.addresses = [[None; 2]; TRACKS_MAX];
        self.takes = [false; 2 * TRACKS];
        let mut is_udp = false;
        for &Setup { track, lower } in self.machine.setups() {
            if let Some(takes) = self.takes.get_mut(2 * track..2 * track + 2) {
                takes.fill(true);
            }
            if let (Lower::Udp { rtp, rtcp }, Some(addresses)) = (lower, self.addresses.get_mut(track)) {
                *addresses = [Some(SocketAddr::new(peer, rtp)), Some(SocketAddr::new(peer, rtcp))];
                is_udp = true;
            }
        }
        self.is_apart = is_udp;
    }

    /// Takes bytes of the stream as all get it: packets of tracks that it plays, to its datagrams, or behind
    /// `pending` for its connection.
    pub(crate) fn take(&mut self, slices: &[IoSlice<'_>], pending: &mut Vec<u8>) {
        let is_udp = self.addresses.iter().any(|address| address[0].is_some());
        let Self { partial, out, takes, .. } = self;
        let out = if is_udp { out } else { pending };
        for slice in slices {
            let mut rest: &[u8] = slice;
            while !rest.is_empty() {
                // The framing first, then as much as it says.
                let wanted = match partial[..] {
                    [_, _, high, low, ..] => 4 + usize::from(u16::from_be_bytes([high, low])),
                    _ => 4,
                };
                let (taken, behind) = rest.split_at(rest.len().min(wanted - partial.len()));
                partial.extend_from_slice(taken);
                rest = behind;
                let [_, channel, high, low, ..] = partial[..] else { continue };
                if partial.len() == 4 + usize::from(u16::from_be_bytes([high, low])) {
                    if takes.get(usize::from(channel)).copied().unwrap_or(false) {
                        out.extend_from_slice(partial);
                    }
                    partial.clear();
                }
            }
        }
    }
}
