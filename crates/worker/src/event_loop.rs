//! The event loop of a worker: what happens in one turn, and in which order.
//!
//! ```text
//! wait ─▶ sockets ─▶ other workers ─▶ commands ─▶ packets: audio, video ─▶ frames: players that are due ─▶ deadlines
//! ```
//!
//! Input goes first, so that a write takes along everything there is. The clock is read when a turn begins,
//! and again when it ends, for its length; nothing in between reads it but bridges, for what they cost. What
//! to do with input is in `requests.rs` (clients), `packets/` (WebRTC), `packet_relay/` (other nodes),
//! `mirror.rs` (other workers), `commands.rs` (the control side), `frames/serve.rs` (players) and
//! `timeouts.rs` (deadlines).

use std::io;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use group_send::RecvConfig;
use tokio::sync::{mpsc, oneshot};

use crate::bridges::Bridges;
use crate::context::Context;
use crate::frames::Frames;
use crate::hooks::HookQuestions;
use crate::net::accept::Acceptor;
use crate::net::listen::Accepted;
use crate::net::listen::Listeners;
use crate::net::{Readiness, ReceivedBatch, Token};
use crate::packet_relay::PacketRelay;
use crate::packets::Packets;
use crate::proto::connections::Connections;
use crate::proto::idle::IdleConnections;
use crate::proto::internal::ReadyPublishers;
use crate::rtsp::Rtsp;
use crate::segments::{SegmentQueues, Segments};
use crate::srt::Srt;
use crate::stats::columns::Outbox;
use worker_api::command::Command;
use worker_api::handoff::{Handoff, ReturnQueue};
use worker_api::overload::Overload;
use worker_api::publications::NewsSender;

/// Time between two rounds of deadline checks, milliseconds.
const SWEEP_MS: u64 = 100;

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
    /// To and from the thread that makes segments; `None` where that is off.
    pub(crate) segments: Option<SegmentQueues>,
    /// Who wants to know of streams that begin to be published; the directory reports their ends.
    pub(crate) news: NewsSender,
    /// Who has to be asked before somebody publishes or plays; `None`: nobody.
    pub(crate) hooks: Option<HookQuestions>,
}

/// What takes and sends datagrams beside WebRTC.
#[derive(Debug)]
pub(crate) struct Datagrams {
    pub(crate) srt: Srt,
    pub(crate) rtsp: Rtsp,
}

/// A worker. Lives on its thread.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) ctx: Context,
    pub(crate) control: ControlQueues,
    pub(crate) frames: Frames,
    /// Streams that are played as segments.
    pub(crate) segments: Segments,
    pub(crate) packets: Packets,
    pub(crate) bridges: Bridges,
    /// Packets to and from other nodes: on the first worker of a node that has others.
    pub(crate) relay: Option<Box<PacketRelay>>,
    /// Callers by SRT.
    pub(crate) srt: Srt,
    /// Clients by RTSP.
    pub(crate) rtsp: Rtsp,
    pub(crate) acceptor: Acceptor,
    pub(crate) connections: Connections,
    /// HTTP connections between two requests.
    pub(crate) idle: IdleConnections,
    /// Room for the datagrams of one receive call.
    pub(crate) received: ReceivedBatch,
    next_sweep_ms: u64,
    /// Until then datagrams are left to wait, and what comes from clients that could go over: another process
    /// is about to read them.
    pub(crate) datagrams_wait_until_ms: u64,
    /// Replies to `Command::Hold`, sent at the end of the turn, each with the number of undecided connections.
    pub(crate) hold_answers: Vec<(oneshot::Sender<usize>, usize)>,
    /// Why players were refused at the end of the last second.
    pub(crate) overloaded: Option<Overload>,
}

impl Worker {
    /// A worker that accepts on `listeners`.
    pub(crate) fn new(
        ctx: Context,
        control: ControlQueues,
        packets: Packets,
        bridges: Bridges,
        relay: Option<Box<PacketRelay>>,
        datagrams: Datagrams,
        listeners: Listeners,
    ) -> io::Result<Self> {
        packets.register(&ctx.events)?;
        if let Some(relay) = &relay {
            relay.register(&ctx.events)?;
        }
        let Datagrams { srt, rtsp } = datagrams;
        srt.register(&ctx.events)?;
        rtsp.register(&ctx.events)?;
        let acceptor = Acceptor::new(listeners, &ctx.events)?;
        let mut connections = Connections::new(&ctx.settings);
        connections.rtsp_ports = rtsp.addresses();
        Ok(Self {
            ctx,
            control,
            frames: Frames::default(),
            segments: Segments::default(),
            packets,
            bridges,
            relay,
            srt,
            rtsp,
            acceptor,
            connections,
            idle: IdleConnections::default(),
            received: ReceivedBatch::new(RecvConfig::default()),
            next_sweep_ms: SWEEP_MS,
            datagrams_wait_until_ms: 0,
            hold_answers: Vec::new(),
            overloaded: None,
        })
    }

    /// Runs until drained.
    pub(crate) fn run(mut self) {
        self.ctx.load.pin();
        let mut ready = Vec::new();
        while !self.is_drained() {
            self.wait_and_turn(&mut ready);
        }
    }

    /// Waits until something is ready or due, and runs one turn. `ready` is kept for its memory.
    pub(crate) fn wait_and_turn(&mut self, ready: &mut Vec<Readiness>) {
        let timeout = self.prepare_to_sleep();
        self.ctx.events.wait(ready, timeout);
        self.turn_awake(ready);
    }

    /// Has other workers wake this one from now on, and returns how long the loop may wait: not at all if
    /// something is due or has just come.
    pub(crate) fn prepare_to_sleep(&self) -> Duration {
        match self.timeout() {
            timeout if timeout.is_zero() || self.ctx.mailboxes.prepare_to_sleep() => timeout,
            _ => Duration::ZERO,
        }
    }

    /// Runs one turn after a wait.
    pub(crate) fn turn_awake(&mut self, ready: &[Readiness]) {
        self.ctx.mailboxes.woke_up();
        self.ctx.read_clock();
        // Before any input: what a client asks for after a reload was answered meets the new rules.
        if self.ctx.has_new_settings() {
            self.take_up_settings();
        }
        let started = self.ctx.now;
        self.turn(ready);
        self.ctx.read_clock();
        self.ctx.counters.loop_turns += 1;
        self.packets.turn_took(self.ctx.now - started);
        self.ctx.counters.loop_busy_us += self.ctx.load.turn_took(self.ctx.now - started);
    }

    /// Takes up settings that were replaced, and passes them on to those that keep something made of them.
    fn take_up_settings(&mut self) {
        self.ctx.take_up_settings();
        let settings = &self.ctx.settings;
        self.connections.apply_settings(settings);
        self.packets.apply_settings(settings.workers, &settings.rtc);
        self.srt.apply_settings(&settings.srt);
        self.ctx.rtsp_pending.set_limits(usize::MAX, settings.rtsp.pending_per_address_max);
    }

    pub(crate) fn turn(&mut self, ready: &[Readiness]) {
        self.note_send_delay();
        let is_held = self.datagrams_wait() && self.ctx.draining_until.is_none();
        if self.connections.is_held != is_held {
            self.connections.hold(is_held);
        }
        // Input: what the turn before left, sockets, publishers inside this process.
        for _ in 0..self.connections.reads() {
            if let Some(conn) = self.connections.next_read() {
                self.read(conn);
            }
        }
        let mut requests = Vec::new();
        for socket in ready {
            match socket.token {
                Token::Connection(conn) => self.connection_event(conn, socket),
                Token::Idle(id) => requests.extend(self.idle.read(&mut self.ctx, id, socket)),
                Token::Listener(listener) => self.acceptor.event(listener),
                Token::Port(port) => self.packets.port_event(port),
                Token::IceTcp(connection) => self.packets.tcp_event(&mut self.ctx, connection, socket),
                Token::IceListener(listener) => self.packets.listener_event(listener),
                Token::Relay => self.relay_readable(),
                Token::Srt(port) => self.srt.port_event(port),
                Token::Rtsp(port) => self.rtsp.port_event(port),
            }
        }
        // After all events: a new session may get the id of one that has just ended, and must not get an
        // event of its socket.
        requests.into_iter().for_each(|next| self.resume_http(next));
        if !self.datagrams_wait() {
            self.packets.input(&mut self.ctx, &mut self.received);
            self.carry_out_actions();
            self.receive_srt();
            self.receive_rtsp();
        }
        self.receive_from_nodes();
        self.accept();
        if self.acceptor.is_paused() {
            // Descriptors go to connections with a request before those that only may have one later.
            self.idle.clear();
        }
        self.receive_internal();
        self.read_unwatched();
        self.claim_again();

        // Other threads: workers, transcoding, control.
        self.receive_messages();
        self.packets.receive_passed(&mut self.ctx);
        self.carry_out_actions();
        if !(self.bridges.is_held && self.datagrams_wait()) {
            self.take_transcoded_audio();
        }
        self.handle_commands();
        self.receive_segments();
        self.take_hook_answers();
        while let Ok(handoff) = self.control.returned.try_recv() {
            if let Some(next) = self.idle.take_back(&mut self.ctx, handoff) {
                self.resume_http(next);
            }
        }

        // Output. By now all input is in, so that one write takes all of it. Each port is flushed once, or
        // twice if there is video: before it and behind it.
        self.packets.run_timers(&mut self.ctx);
        self.carry_out_actions();
        self.poll_due_bridges();
        self.packets.forward(&mut self.ctx);
        self.packets.pass_on(&mut self.ctx);
        // Other workers and nodes do not wait for the video and the players of this one.
        self.ctx.mailboxes.flush(self.ctx.now_ms);
        self.serve_taps();
        self.packets.send_video(&mut self.ctx);
        self.carry_out_actions();
        self.packets.flush(&mut self.ctx);
        self.run_relay_timers();
        self.run_srt_timers();
        self.describe_rtsp();
        self.serve_due_players();
        self.send_srt();
        self.send_rtsp();

        // Deadlines, a few times a second.
        if self.ctx.now_ms >= self.next_sweep_ms {
            self.next_sweep_ms = self.ctx.now_ms + SWEEP_MS;
            self.sweep();
        }
        self.update_fullness();
        self.packets.pass_on(&mut self.ctx);
        // Players and deadlines may have ended streams, which other workers and taps have to know.
        self.ctx.mailboxes.flush(self.ctx.now_ms);
        self.serve_taps();
        self.answer_holds();
    }

    /// Opens connections that were accepted here, but for those that a less loaded worker takes, and those
    /// that others have handed over.
    fn accept(&mut self) {
        let sessions_max = self.ctx.settings.sessions_max;
        while let Some(accepted) = self.acceptor.next(&mut self.ctx) {
            match self.ctx.mailboxes.hand_over(accepted, sessions_max) {
                Ok(()) => self.ctx.counters.handed_over += 1,
                Err(accepted) => self.open(accepted),
            }
        }
        for worker in self.ctx.mailboxes.workers() {
            while let Some(accepted) = self.ctx.mailboxes.receive_connection(worker) {
                self.open(accepted);
                self.ctx.mailboxes.fullness().arrived();
            }
        }
    }

    /// Opens a connection. One that comes when the worker stops is closed, like those the kernel still has.
    fn open(&mut self, accepted: Accepted) {
        if self.ctx.draining_until.is_none() {
            self.connections.open(&mut self.ctx, accepted);
            self.update_fullness();
        }
    }

    /// How long nothing is due.
    pub(crate) fn timeout(&self) -> Duration {
        if self.connections.reads() > 0 || self.acceptor.has_more() {
            return Duration::ZERO;
        }
        let next_ms = self.frames.next_due_ms().min(self.connections.next_due_ms()).min(self.next_sweep_ms);
        let next_ms = next_ms.min(self.ctx.mailboxes.next_wake_ms());
        let now = self.ctx.now;
        let relay = self.relay.as_ref().map_or(Duration::MAX, |relay| relay.timeout(now));
        let subsystems = self.packets.timeout(now).min(self.bridges.timeout(now)).min(relay);
        let mut subsystems = subsystems.min(self.srt.timeout(now)).min(self.rtsp.timeout());
        if self.datagrams_wait() {
            // What is left to wait is no reason to turn at once.
            subsystems = subsystems.max(Duration::from_millis(1));
        }
        Duration::from_millis(next_ms.saturating_sub(self.ctx.now_ms)).min(subsystems)
    }

    pub(crate) fn datagrams_wait(&self) -> bool {
        self.ctx.now_ms < self.datagrams_wait_until_ms
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.ctx.draining_until.is_some_and(|until| {
            (self.connections.are_all_gone() && self.packets.are_all_gone()) || self.ctx.now_ms >= until
        })
    }
}
