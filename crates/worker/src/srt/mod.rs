//! SRT: callers that publish transport streams and play them.
//!
//! ```text
//! net/datagram_port ─▶ receive.rs ─▶ srt::Connection ─▶ mpegts::Demuxer ─▶ Worker::receive_frame
//!                 open.rs: handshakes, tokens, limits
//! frames/serve ─▶ SrtLink::write ─▶ srt::Connection ─▶ send.rs ─▶ net/datagram_port
//! ```
//!
//! A caller that is accepted is a session like any other (`proto/session.rs`), whose state is an [`SrtLink`]
//! in place of a connection: it is listed, counted, kicked and ended as they are. [`Srt`] has what all
//! links of a worker share: sockets, who has which socket id, when each is due. Nothing is kept of a
//! caller before its cookie has come back.

mod open;
mod receive;
mod report;
mod send;

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpegts::{Demuxer, PACKET_BYTES, Unreadable};
use srt::{CookieSecret, SocketId, TS_PAYLOAD_BYTES};

use crate::ids::ConnId;
use crate::net::datagram_port::DatagramPort;
use crate::net::{EventQueue, Token, UdpSocket};
use crate::timers::Timers;
use worker_api::rate::RateLimit;
use worker_api::settings::SrtSettings;
use worker_api::snapshot::SrtCounters;
use worker_api::{AddressSlot, AddressSlots};

/// Packets that wait in a link to be sent; a player is given no more before some have left.
const WAITING_MAX: usize = 128;
/// Packets are delivered and acknowledged on multiples of this, so that the loop wakes less often.
const GATHER: Duration = Duration::from_millis(2);

/// What all workers share.
#[derive(Debug)]
pub(crate) struct SrtShared {
    secret: CookieSecret,
    /// Times of cookies count from here.
    began: Instant,
    handshakes: RateLimit,
    /// Sessions of an address of which nothing has come since they were accepted.
    pending: AddressSlots,
}

impl SrtShared {
    /// New secrets.
    pub(crate) fn new(now: Instant, settings: &SrtSettings) -> Self {
        let handshakes = RateLimit::new(settings.handshakes_per_second_max);
        let pending = AddressSlots::new(usize::MAX, settings.pending_per_address_max);
        Self { secret: CookieSecret::random(), began: now, handshakes, pending }
    }
}

/// What the links of a worker share.
#[derive(Debug)]
pub(crate) struct Srt {
    ports: Vec<DatagramPort>,
    by_socket: HashMap<SocketId, ConnId>,
    /// By address and socket of the caller: one that asks again has not got the answer.
    by_caller: HashMap<(SocketAddr, SocketId), ConnId>,
    timers: Timers<Instant, ConnId>,
    /// Links that have something to send, or another deadline.
    dirty: Vec<ConnId>,
    /// Callers whose cookie was right, as they came.
    opening: Vec<(usize, SocketAddr, Vec<u8>)>,
    /// Sessions whose machine met a defect.
    failed: Vec<ConnId>,
    shared: Arc<SrtShared>,
    /// What is not of a session, or of sessions that have ended.
    counters: SrtCounters,
}

/// A caller's connection, as the state of its session.
#[derive(Debug)]
pub(crate) struct SrtLink {
    connection: srt::Connection,
    /// What reads a publisher's packets.
    demuxer: Option<Box<Demuxer>>,
    port: usize,
    peer: SocketAddr,
    /// The answer to its conclusion.
    answer: Box<[u8]>,
    /// When its timer is set to.
    due: Option<Instant>,
    is_dirty: bool,
    /// It knows that it was accepted.
    is_answered: bool,
    /// Until something has come since it was accepted.
    pending: Option<AddressSlot>,
    /// Bytes received and packets, not yet counted for the session.
    received: (u64, u64),
    /// When a publisher's packets have last made a frame of audio or video, at first when it came.
    media_ms: u64,
    /// Its place among those of its address; tests need none.
    _place: Option<AddressSlot>,
}

impl Srt {
    /// With these sockets.
    pub(crate) fn new(
        sockets: Vec<UdpSocket>,
        settings: &SrtSettings,
        shared: Arc<SrtShared>,
    ) -> io::Result<Self> {
        let ports = sockets.into_iter().map(|socket| DatagramPort::new(socket, settings.udp_backend, true));
        Ok(Self {
            ports: ports.collect::<io::Result<_>>()?,
            by_socket: HashMap::new(),
            by_caller: HashMap::new(),
            timers: Timers::default(),
            dirty: Vec::new(),
            opening: Vec::new(),
            failed: Vec::new(),
            shared,
            counters: SrtCounters::default(),
        })
    }

    /// What is asked for from now on has these limits.
    pub(crate) fn apply_settings(&self, settings: &SrtSettings) {
        self.shared.handshakes.set(settings.handshakes_per_second_max);
        self.shared.pending.set_limits(usize::MAX, settings.pending_per_address_max);
    }

    /// Puts the sockets into the event queue.
    pub(crate) fn register(&self, events: &EventQueue) -> io::Result<()> {
        let mut ports = self.ports.iter().enumerate();
        ports.try_for_each(|(index, port)| port.register(Token::Srt(index), events))
    }

    /// A socket has datagrams.
    pub(crate) fn port_event(&mut self, port: usize) {
        self.ports[port].readable = true;
    }

    /// Whether the next turn reads a socket without being woken.
    #[cfg(feature = "simulated")]
    pub(crate) fn reads_later(&self, port: usize) -> bool {
        self.ports[port].readable
    }

    /// How long nothing is due.
    pub(crate) fn timeout(&self, now: Instant) -> Duration {
        if self.ports.iter().any(|port| port.readable) {
            return Duration::ZERO;
        }
        let retry = self.ports.iter().filter_map(DatagramPort::retry_after).min();
        let due = self.timers.next().map(|due| due.saturating_duration_since(now));
        retry.into_iter().chain(due).min().unwrap_or(Duration::MAX)
    }

    /// A link has something to send, or another deadline.
    pub(crate) fn mark_dirty(&mut self, conn: ConnId, link: &mut SrtLink) {
        if !std::mem::replace(&mut link.is_dirty, true) {
            self.dirty.push(conn);
        }
    }

    /// A session is over: its peer is told, and its link is forgotten.
    pub(crate) fn ended(&mut self, mut link: SrtLink, now: Instant, now_ms: u64) {
        self.counters.add(&link.connection.counters());
        self.counters.pending -= u64::from(link.pending.is_some());
        self.by_socket.remove(&link.connection.local());
        self.by_caller.remove(&(link.peer, link.connection.peer()));
        // Who was never accepted gets a refusal, and nothing before.
        if !link.is_answered {
            return;
        }
        link.connection.close(now);
        let port = &mut self.ports[link.port];
        while port.has_room(now_ms)
            && port.datagram(link.peer, now_ms, |out| link.connection.poll_transmit(now, out))
        {}
        // The worker may end with this turn.
        port.flush(now_ms);
    }
}

impl SrtLink {
    /// Since when a publisher sends nothing that can be played, and why it cannot be.
    pub(crate) fn unreadable(&self) -> (u64, Option<Unreadable>) {
        (self.media_ms, self.demuxer.as_ref().and_then(|demuxer| demuxer.unreadable()))
    }

    /// Whether a player may be given more.
    pub(crate) fn has_room(&self) -> bool {
        self.connection.waiting() < WAITING_MAX && self.connection.room() > 0
    }

    /// Takes packets of a transport stream, as many as there is room for. Says how many bytes.
    pub(crate) fn write(&mut self, now: Instant, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let payload_max = self.connection.payload_bytes_max().min(TS_PAYLOAD_BYTES);
        let payload_max = payload_max / PACKET_BYTES * PACKET_BYTES;
        let mut payload = [0; TS_PAYLOAD_BYTES];
        let (mut filled, mut taken) = (0, 0);
        let mut rest = slices.iter().map(|slice| &slice[..]).peekable();
        let mut slice = rest.next().unwrap_or_default();
        while self.has_room() {
            let bytes = slice.len().min(payload_max - filled);
            payload[filled..filled + bytes].copy_from_slice(&slice[..bytes]);
            (filled, slice) = (filled + bytes, &slice[bytes..]);
            let is_end = slice.is_empty() && rest.peek().is_none();
            if filled > 0 && (filled == payload_max || is_end) {
                self.connection.send(now, &payload[..filled]);
                taken += filled;
                filled = 0;
            }
            if is_end {
                break;
            }
            if slice.is_empty() {
                slice = rest.next().unwrap_or_default();
            }
        }
        if taken == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }
}

#[cfg(test)]
mod tests;
