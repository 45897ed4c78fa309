//! The event loop of a worker: what happens in one turn, and in which order.
//!
//! ```text
//! wait ─▶ sockets ─▶ other workers ─▶ commands ─▶ players that are due ─▶ deadlines
//! ```
//!
//! Input goes first, so that a write takes along everything there is. The clock is read when a turn begins, and again when it
//! ends, for its length; nothing in between reads it but bridges, for what they cost. What to do
//! with input is in `proto/requests.rs` (commands of clients), `frames/publish.rs` (frames in), `frames/serve.rs` (frames out) and
//! `timeouts.rs` (deadlines); this file only moves bytes and events.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use group_send::{RecvBatch, RecvConfig};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use rtmp::server::{ServerConfig, ServerSession};

use tokio::sync::mpsc;

use crate::bridges::Bridges;
use crate::context::{Context, READ_BYTES};
use crate::frames::streams::Streams;
use crate::ids::{ConnId, FrameStreamId, IdleId, Table, TableId};
use crate::net::accept::{Acceptor, FIRST_LISTENER};
use crate::net::connection::{Connection, ReadOutcome};
use crate::net::listen::{Entry, Listeners};
use crate::packets::Packets;
use crate::proto::idle::{FIRST_IDLE, IdleConnections};
use crate::proto::internal::ReadyPublishers;
use crate::proto::requests::PendingClaim;
use crate::proto::session::{Media, Pending, Rtmp, Session, State};
use crate::stats::columns::{Columns, Outbox};
use worker_api::EndReason;
use worker_api::link::{Command, Handoff, ReturnQueue};
use worker_api::settings::WorkerSettings;
use worker_api::snapshot::Protocol;

const WAKER: Token = Token(usize::MAX);
/// Events taken from the kernel per turn.
const EVENTS_MAX: usize = 4096;
/// The same for one that does not publish.
const COMMAND_READ_BYTES: usize = 16 << 10;
/// Scratch space for ciphertext; smaller than [`READ_BYTES`], so that the plaintext of it always fits there.
const CIPHER_BYTES: usize = 64 << 10;
/// Time between two rounds of deadline checks, milliseconds.
const SWEEP_MS: u64 = 100;
/// Silence after which the kernel asks a peer whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);
/// Time a session has to take its last bytes, milliseconds.
pub(crate) const LINGER_MS: u64 = 2_000;

/// What a worker has for the control side and from it.
#[derive(Debug)]
pub(crate) struct ControlQueues {
    pub(crate) handoffs: mpsc::Sender<Handoff>,
    /// Where control gives connections back, and what it comes out of.
    pub(crate) home: ReturnQueue,
    pub(crate) returned: mpsc::Receiver<Handoff>,
    pub(crate) commands: Receiver<Command>,
    pub(crate) outbox: Outbox,
    /// Publishers inside this process that have frames.
    pub(crate) internal: ReadyPublishers,
}

/// A worker. Lives on its thread.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) ctx: Context,
    pub(crate) control: ControlQueues,
    pub(crate) packets: Packets,
    pub(crate) bridges: Bridges,
    pub(crate) acceptor: Acceptor,
    pub(crate) sessions: Table<ConnId, Session>,
    /// HTTP connections between two requests.
    pub(crate) idle: IdleConnections,
    /// What `sessions` have counted, by the same id.
    pub(crate) columns: Columns,
    pub(crate) streams: Streams,
    /// When which channel is to be looked at: time, stream, format.
    pub(crate) timers: BinaryHeap<Reverse<(u64, FrameStreamId, usize)>>,
    /// Publishers nobody watches, by the time their sockets are to be read.
    pub(crate) unwatched: BinaryHeap<Reverse<(u64, ConnId)>>,
    /// Publishers whose stream seemed taken: who asks again, and when.
    pub(crate) claims: VecDeque<(u64, PendingClaim)>,
    /// Sessions with more input than one turn takes.
    read_again: Vec<ConnId>,
    /// Room for the datagrams of one receive call.
    received: RecvBatch,
    pub(crate) cipher: Vec<u8>,
    pub(crate) scratch_players: Vec<delivery::PlayerId>,
    next_sweep_ms: u64,
    rtmp_config: ServerConfig,
}

/// The waker of a worker's event queue.
pub(crate) fn waker(poll: &Poll) -> io::Result<Arc<Waker>> {
    Waker::new(poll.registry(), WAKER).map(Arc::new)
}

impl Worker {
    /// A worker that accepts on `listeners`.
    pub(crate) fn new(
        ctx: Context,
        control: ControlQueues,
        mut packets: Packets,
        bridges: Bridges,
        listeners: Listeners,
    ) -> io::Result<Self> {
        packets.register(ctx.poll.registry())?;
        let acceptor = Acceptor::new(listeners, ctx.poll.registry())?;
        let rtmp_config = rtmp_limits(&ctx.settings);
        Ok(Self {
            ctx,
            control,
            packets,
            bridges,
            acceptor,
            sessions: Table::default(),
            idle: IdleConnections::default(),
            columns: Columns::default(),
            streams: Streams::default(),
            timers: BinaryHeap::new(),
            unwatched: BinaryHeap::new(),
            claims: VecDeque::new(),
            read_again: Vec::new(),
            received: RecvBatch::new(RecvConfig::default()),
            cipher: vec![0; CIPHER_BYTES],
            scratch_players: Vec::new(),
            next_sweep_ms: SWEEP_MS,
            rtmp_config,
        })
    }

    /// Runs until drained.
    pub(crate) fn run(mut self) {
        self.ctx.load.pin();
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.is_drained() {
            let timeout = self.timeout();
            match self.ctx.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => result.expect("epoll_wait fails only for a bad descriptor or pointer"),
            }
            self.ctx.read_clock();
            let started = self.ctx.now;
            self.turn(&events);
            self.ctx.read_clock();
            self.ctx.counters.loop_turns += 1;
            self.ctx.counters.loop_busy_us += self.ctx.load.turn_took(self.ctx.now - started);
        }
    }

    fn turn(&mut self, events: &Events) {
        for conn in std::mem::take(&mut self.read_again) {
            if self.sessions.get_mut(conn).is_some_and(|session| std::mem::take(&mut session.reads_again)) {
                self.read(conn);
            }
        }
        for event in events {
            match event.token() {
                WAKER => {}
                token if Packets::owns(token) => self.packets.socket_event(&mut self.ctx, event),
                token if token.0 >= FIRST_LISTENER => self.acceptor.event(token),
                Token(token) if token >= FIRST_IDLE => self.idle_event(IdleId::at(token - FIRST_IDLE), event),
                Token(index) => self.session_event(ConnId::at(index), event),
            }
        }
        while let Some((entry, socket, address)) = self.acceptor.next(&mut self.ctx) {
            self.open(entry, socket, address);
        }
        if self.acceptor.is_paused() {
            // Who has a request now comes before who may have one later.
            self.idle.clear();
        }
        self.receive_internal();
        self.packets.input(&mut self.ctx, &mut self.received);
        self.carry_out_actions();
        self.read_unwatched();
        self.claim_again();
        self.receive_messages();
        self.take_transcoded_audio();
        self.handle_commands();
        self.take_returned();
        self.packets.run_timers(&mut self.ctx);
        self.carry_out_actions();
        self.poll_due_bridges();
        self.packets.forward(&mut self.ctx);
        self.packets.flush(&mut self.ctx);
        self.serve_due_players();
        if self.ctx.now_ms >= self.next_sweep_ms {
            self.next_sweep_ms = self.ctx.now_ms + SWEEP_MS;
            self.sweep();
        }
        self.ctx.mailboxes.flush();
    }

    fn timeout(&self) -> Duration {
        if !self.read_again.is_empty() || self.acceptor.has_more() {
            return Duration::ZERO;
        }
        let due = self.timers.peek().map_or(u64::MAX, |Reverse((due, ..))| *due);
        let read = self.unwatched.peek().map_or(u64::MAX, |Reverse((due, _))| *due);
        let claim = self.claims.front().map_or(u64::MAX, |(due, _)| *due);
        let next_ms = due.min(read).min(claim).min(self.next_sweep_ms);
        let now = self.ctx.now;
        let subsystems = self.packets.timeout(now).min(self.bridges.timeout(now));
        Duration::from_millis(next_ms.saturating_sub(self.ctx.now_ms)).min(subsystems)
    }

    fn session_event(&mut self, conn: ConnId, event: &mio::event::Event) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        session.peer_closed |= event.is_read_closed() || event.is_error();
        // One read per session and turn: one that sends without pause must not come round twice as often.
        if (event.is_readable() || session.peer_closed) && !session.reads_again {
            self.read(conn);
        }
        if event.is_writable() {
            let Some(session) = self.sessions.get_mut(conn) else { return };
            if std::mem::take(&mut session.blocked) || session.holds_ciphertext() {
                self.write(conn);
            }
        }
    }

    /// Reads once from a session, or until its end when the peer is known to have closed.
    pub(crate) fn read(&mut self, conn: ConnId) {
        loop {
            let Some(session) = self.sessions.get_mut(conn) else { return };
            let Some(connection) = &mut session.connection else { return self.take_frames(conn) };
            let to_end = session.peer_closed;
            let mut plain = std::mem::take(&mut self.ctx.read_buffer);
            // Only publishers have much to say. What answers to the rest of it would take is bounded by this.
            let is_publisher = matches!(session.media, Media::Publish(_));
            let most = if is_publisher || connection.tls.is_some() { READ_BYTES } else { COMMAND_READ_BYTES };
            let outcome = connection.read(&mut plain[..most], &mut self.cipher);
            let again = match outcome {
                Ok(ReadOutcome::Data { bytes, more }) => {
                    session.received_ms = self.ctx.now_ms;
                    self.columns.received(conn, bytes as u64);
                    self.ctx.counters.bytes_in += bytes as u64;
                    self.ctx.load.bytes_in += bytes as u64;
                    self.handle_input(conn, &plain[..bytes]);
                    if more && !to_end {
                        self.read_next_turn(conn);
                    }
                    to_end
                }
                Ok(ReadOutcome::WouldBlock) => false,
                Ok(ReadOutcome::Closed) => {
                    self.remove(conn, EndReason::ClosedByPeer);
                    false
                }
                Err(error) => {
                    self.connection_failed(conn, &error);
                    false
                }
            };
            self.ctx.read_buffer = plain;
            if !again {
                return;
            }
        }
    }

    pub(crate) fn read_next_turn(&mut self, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        if !std::mem::replace(&mut session.reads_again, true) {
            self.read_again.push(conn);
        }
    }

    fn connection_failed(&mut self, conn: ConnId, error: &io::Error) {
        let Some(session) = self.sessions.get(conn) else { return };
        let id = session.id;
        if session.is_tls() && error.kind() == io::ErrorKind::Other {
            self.ctx.counters.protocol_errors += 1;
            tracing::debug!(session = %id, %error, "TLS failed");
            self.remove(conn, EndReason::TlsFailed);
        } else {
            tracing::debug!(session = %id, %error, "connection failed");
            self.remove(conn, EndReason::ConnectionFailed);
        }
    }

    fn open(&mut self, entry: Entry, socket: TcpStream, address: SocketAddr) {
        self.ctx.counters.accepted += 1;
        if self.sessions.len() >= self.ctx.settings.sessions_max {
            self.ctx.counters.refused_full += 1;
            return;
        }
        let settings = &self.ctx.settings;
        let tls = if entry.rtmp { &settings.rtmps_tls } else { &settings.https_tls };
        let tls = match tls {
            Some(config) if entry.tls => match rustls::ServerConnection::new(Arc::clone(config)) {
                Ok(tls) => Some(Box::new(tls)),
                Err(error) => return tracing::error!(%error, "no TLS session"),
            },
            _ => None,
        };
        let (state, protocol) = if entry.rtmp {
            let machine = ServerSession::new(&self.rtmp_config, Self::seed());
            let rtmp = Rtmp { machine, app: String::new(), token: None };
            (State::Rtmp(Box::new(rtmp)), if entry.tls { Protocol::Rtmps } else { Protocol::Rtmp })
        } else {
            let protocol = if entry.tls { Protocol::HttpsFlv } else { Protocol::HttpFlv };
            (State::HttpHead(Box::default()), protocol)
        };
        let conn = self.add_session(Some(Connection { socket, tls }), address, state, protocol);
        if let Err(error) = self.register(conn) {
            self.drop_unregistered(conn, &error);
        }
    }

    /// Adds a session; its socket, if it has one, is not registered yet.
    pub(crate) fn add_session(
        &mut self,
        connection: Option<Connection>,
        address: SocketAddr,
        state: State,
        protocol: Protocol,
    ) -> ConnId {
        let id = self.ctx.next_session_id();
        let conn = self.sessions.insert(Session {
            connection,
            id,
            address,
            state,
            media: Media::None,
            pending: Pending::default(),
            blocked: false,
            reads_again: false,
            peer_closed: false,
            closing_at_ms: None,
            unused_since_ms: self.ctx.now_ms,
            received_ms: self.ctx.now_ms,
            written_ms: self.ctx.now_ms,
            user_agent: None,
        });
        self.columns.open(conn, id, protocol, self.ctx.now_ms);
        conn
    }

    /// Drops a session that the system gives no events of.
    pub(crate) fn drop_unregistered(&mut self, conn: ConnId, error: &io::Error) {
        if let Some(session) = self.sessions.remove(conn) {
            tracing::warn!(session = %session.id, %error, "connection not registered");
            self.columns.close(conn);
        }
    }

    pub(crate) fn register(&mut self, conn: ConnId) -> io::Result<()> {
        let Some(Connection { socket, .. }) = &mut self.sessions[conn].connection else { return Ok(()) };
        // Messages are merged here, on purpose and for a known time; Nagle's algorithm would add its own.
        socket.set_nodelay(true)?;
        let options = socket2::SockRef::from(&*socket);
        options.set_tcp_notsent_lowat(self.ctx.settings.socket_unsent_bytes_max)?;
        options.set_tcp_keepalive(&socket2::TcpKeepalive::new().with_time(KEEPALIVE))?;
        if let Some(bytes) = self.ctx.settings.socket_send_buffer_bytes {
            options.set_send_buffer_size(bytes as usize)?;
        }
        self.ctx.poll.registry().register(
            socket,
            Token(conn.index()),
            Interest::READABLE | Interest::WRITABLE,
        )
    }

    /// Random bytes of an RTMP handshake need not be secret (Adobe RTMP 1.0 section 5.2.3), only different.
    fn seed() -> u64 {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(())
    }

    /// Sets whether input of a session is an event.
    pub(crate) fn set_readable(&mut self, conn: ConnId, readable: bool) -> io::Result<()> {
        let session = &mut self.sessions[conn];
        let Some(Connection { socket, .. }) = &mut session.connection else {
            if let State::Internal(frames) = &mut session.state {
                frames.set_wakes(readable);
                if readable {
                    // What came meanwhile has woken nobody.
                    self.read_next_turn(conn);
                }
            }
            return Ok(());
        };
        let interest = if readable { Interest::READABLE | Interest::WRITABLE } else { Interest::WRITABLE };
        self.ctx.poll.registry().reregister(socket, Token(conn.index()), interest)
    }

    /// Takes a session's socket out of the loop, for good.
    pub(crate) fn take(&mut self, conn: ConnId) -> Option<Session> {
        let mut session = self.sessions.remove(conn)?;
        self.columns.close(conn);
        if let Some(Connection { socket, .. }) = &mut session.connection {
            // Fails only when it was never registered.
            let _ = self.ctx.poll.registry().deregister(socket);
        }
        Some(session)
    }

    fn is_drained(&self) -> bool {
        self.ctx.draining_until.is_some_and(|until| {
            (self.sessions.is_empty() && self.packets.sessions.is_empty()) || self.ctx.now_ms >= until
        })
    }
}

fn rtmp_limits(settings: &WorkerSettings) -> ServerConfig {
    let max_message_bytes = settings.message_bytes_max;
    // One message of audio and one of video may be unfinished at a time.
    let publish_memory_bytes = max_message_bytes.saturating_mul(2);
    ServerConfig { max_message_bytes, publish_memory_bytes, ..ServerConfig::default() }
}
