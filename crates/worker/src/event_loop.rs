//! The event loop of a worker: what happens in one turn, and in which order.
//!
//! ```text
//! wait ─▶ sockets ─▶ other workers ─▶ commands ─▶ players that are due ─▶ deadlines
//! ```
//!
//! Input goes first, so that a write takes along everything there is. The clock is read when a turn begins,
//! and again when it ends, for its length; nothing in between reads it but bridges, for what they cost. What
//! to do with input is in `connections.rs` and `proto/` (clients), `packets/` (WebRTC), `mirror.rs` (other
//! workers), `commands.rs` (the control side), `frames/serve.rs` (players) and `timeouts.rs` (deadlines).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use group_send::RecvConfig;
use rtmp::server::ServerConfig;
use tokio::sync::mpsc;

use crate::bridges::Bridges;
use crate::context::Context;
use crate::frames::Frames;
use crate::ids::{ConnId, Table};
use crate::net::accept::Acceptor;
use crate::net::listen::Listeners;
use crate::net::{Readiness, ReceivedBatch, Token};
use crate::packets::Packets;
use crate::proto::idle::IdleConnections;
use crate::proto::internal::ReadyPublishers;
use crate::proto::session::Session;
use crate::requests::PendingClaim;
use crate::stats::columns::{Columns, Outbox};
use worker_api::link::{Command, Handoff, ReturnQueue};
use worker_api::settings::WorkerSettings;

/// Scratch space for ciphertext; smaller than [`READ_BYTES`](crate::context::READ_BYTES), so that the
/// plaintext of it always fits there.
const CIPHER_BYTES: usize = 64 << 10;
/// Time between two rounds of deadline checks, milliseconds.
const SWEEP_MS: u64 = 100;
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
    pub(crate) frames: Frames,
    pub(crate) packets: Packets,
    pub(crate) bridges: Bridges,
    pub(crate) acceptor: Acceptor,
    pub(crate) sessions: Table<ConnId, Session>,
    /// HTTP connections between two requests.
    pub(crate) idle: IdleConnections,
    /// What `sessions` have counted, by the same id.
    pub(crate) columns: Columns,
    /// Publishers nobody watches, by the time their sockets are to be read.
    pub(crate) unwatched: BinaryHeap<Reverse<(u64, ConnId)>>,
    /// Publishers whose stream seemed taken: who asks again, and when.
    pub(crate) claims: VecDeque<(u64, PendingClaim)>,
    /// Sessions with more input than one turn takes.
    pub(crate) read_again: Vec<ConnId>,
    /// Room for the datagrams of one receive call.
    received: ReceivedBatch,
    pub(crate) cipher: Vec<u8>,
    next_sweep_ms: u64,
    pub(crate) rtmp_config: ServerConfig,
}

impl Worker {
    /// A worker that accepts on `listeners`.
    pub(crate) fn new(
        ctx: Context,
        control: ControlQueues,
        packets: Packets,
        bridges: Bridges,
        listeners: Listeners,
    ) -> io::Result<Self> {
        packets.register(&ctx.events)?;
        let acceptor = Acceptor::new(listeners, &ctx.events)?;
        let rtmp_config = rtmp_limits(&ctx.settings);
        Ok(Self {
            ctx,
            control,
            frames: Frames::default(),
            packets,
            bridges,
            acceptor,
            sessions: Table::default(),
            idle: IdleConnections::default(),
            columns: Columns::default(),
            unwatched: BinaryHeap::new(),
            claims: VecDeque::new(),
            read_again: Vec::new(),
            received: ReceivedBatch::new(RecvConfig::default()),
            cipher: vec![0; CIPHER_BYTES],
            next_sweep_ms: SWEEP_MS,
            rtmp_config,
        })
    }

    /// Runs until drained.
    pub(crate) fn run(mut self) {
        self.ctx.load.pin();
        let mut ready = Vec::new();
        while !self.is_drained() {
            let timeout = self.timeout();
            self.ctx.events.wait(&mut ready, timeout);
            self.ctx.read_clock();
            let started = self.ctx.now;
            self.turn(&ready);
            self.ctx.read_clock();
            self.ctx.counters.loop_turns += 1;
            self.ctx.counters.loop_busy_us += self.ctx.load.turn_took(self.ctx.now - started);
        }
    }

    fn turn(&mut self, ready: &[Readiness]) {
        // Input: what the turn before left, sockets, publishers inside this process.
        for conn in std::mem::take(&mut self.read_again) {
            if self.sessions.get_mut(conn).is_some_and(|session| std::mem::take(&mut session.reads_again)) {
                self.read(conn);
            }
        }
        for socket in ready {
            match socket.token {
                Token::Connection(conn) => self.connection_event(conn, socket),
                Token::Idle(id) => self.idle_event(id, socket),
                Token::Listener(listener) => self.acceptor.event(listener),
                Token::Port(port) => self.packets.port_event(port),
                Token::IceTcp(connection) => self.packets.tcp_event(&mut self.ctx, connection, socket),
                Token::IceListener(listener) => self.packets.listener_event(listener),
            }
        }
        self.packets.input(&mut self.ctx, &mut self.received);
        self.carry_out_actions();
        while let Some((entry, socket, address)) = self.acceptor.next(&mut self.ctx) {
            self.open(entry, socket, address);
        }
        if self.acceptor.is_paused() {
            // Who has a request now comes before who may have one later.
            self.idle.clear();
        }
        self.receive_internal();
        self.read_unwatched();
        self.claim_again();

        // Other threads: workers, transcoding, control.
        self.receive_messages();
        self.take_transcoded_audio();
        self.handle_commands();
        self.take_returned();

        // Output: what is due by the clock takes along all of the input, and each port is flushed once.
        self.packets.run_timers(&mut self.ctx);
        self.carry_out_actions();
        self.poll_due_bridges();
        self.packets.forward(&mut self.ctx);
        self.packets.flush(&mut self.ctx);
        self.serve_due_players();

        // Deadlines, a few times a second.
        if self.ctx.now_ms >= self.next_sweep_ms {
            self.next_sweep_ms = self.ctx.now_ms + SWEEP_MS;
            self.sweep();
        }
        self.ctx.mailboxes.flush();
    }

    /// How long nothing is due.
    fn timeout(&self) -> Duration {
        if !self.read_again.is_empty() || self.acceptor.has_more() {
            return Duration::ZERO;
        }
        let due = self.frames.next_due_ms();
        let read = self.unwatched.peek().map_or(u64::MAX, |Reverse((due, _))| *due);
        let claim = self.claims.front().map_or(u64::MAX, |(due, _)| *due);
        let next_ms = due.min(read).min(claim).min(self.next_sweep_ms);
        let now = self.ctx.now;
        let subsystems = self.packets.timeout(now).min(self.bridges.timeout(now));
        Duration::from_millis(next_ms.saturating_sub(self.ctx.now_ms)).min(subsystems)
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
