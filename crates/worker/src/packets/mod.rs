//! WebRTC on a worker: sockets, sessions and the path of a packet from a publisher to its viewers.
//!
//! ```text
//! port ─▶ receive.rs ─▶ session's peer (STUN, DTLS)  or  unprotect ─▶ sfu ─▶ forward.rs ─▶ port
//! ```
//!
//! A session lives on one worker, at a port of that worker. `signal.rs` carries out what a peer wants,
//! `lifecycle.rs` ends sessions, `net/ice_tcp.rs` is for networks without UDP. Nothing here decides about
//! media: that is `sfu`. What bridges and other nodes have to do about packets is returned as [`Action`]s.

#[cfg(feature = "simulated")]
mod audit;
mod forward;
pub(crate) mod hand_over;
pub(crate) mod inputs;
mod layers;
mod lifecycle;
mod passing;
mod receive;
mod report;
pub(crate) mod session;
mod signal;
mod streams;
mod video_queue;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sfu::{EncodingSet, Packet, Resend, TrackIndex, WallClock};

use self::forward::{SendTransports, Sockets};
use self::passing::Passing;
use self::session::Session;
use self::streams::Streams;
use self::video_queue::VideoQueue;
use crate::context::Context;
use crate::ids::{BridgeId, IceTcpId, PacketStreamId, PeerId, Table, WorkerIndex};
use crate::net::ice_tcp::TcpPeers;
use crate::net::udp_bind::RtcSockets;
use crate::net::udp_port::{self, SendCounters};
use crate::net::{EventQueue, Interest, TcpListener, Token};
use crate::registry::{Epoch, StreamId};
use crate::stats::columns::Columns;
use crate::timers::Timers;
use worker_api::rtc::Notices;
use worker_api::settings::RtcSettings;
use worker_api::snapshot::{RtcCounters, SessionId};

/// Ports of a worker at most, and listeners.
const PORTS_MAX: usize = 1024;
/// Soonest a timer fires again. What claims to be due for ever, by a defect of ours or of a library, then
/// costs a thousand calls a second and not the worker.
const TIMER_MIN: Duration = Duration::from_millis(1);

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Session(PeerId),
    Stream(PacketStreamId),
}

/// What bridges and other nodes have to do about packets.
#[derive(Debug)]
pub(crate) enum Action {
    /// Packets of the stream that a bridge takes: this range of [`Actions::packets`].
    Bridge { bridge: BridgeId, packets: Range<usize> },
    /// The same of a stream that other nodes get: this range of [`Actions::relayed`].
    Serve { stream: StreamId, packets: Range<usize> },
    /// A publication of a client, or of another node, has ended.
    PublicationEnded { stream: StreamId, epoch: Epoch },
    /// A stream that other nodes get has lost its source.
    ServedEnded(StreamId),
    /// Players of another node's stream cannot go on without a key frame.
    KeyFrameWanted { stream: StreamId, track: TrackIndex, encoding: Option<u8> },
    /// Players of another node's stream use these encodings of a track.
    EncodingsWanted { stream: StreamId, track: TrackIndex, encodings: EncodingSet },
    /// A defect of ours has ended a stream's sessions.
    StreamFailed(StreamId),
}

/// Actions in the order in which they came up.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    pub(crate) queue: VecDeque<Action>,
    /// What [`Action::Bridge`] is about.
    pub(crate) packets: Vec<Arc<Packet>>,
    /// What [`Action::Serve`] is about, each with its number in its encoding if it crosses by that.
    pub(crate) relayed: Vec<(Arc<Packet>, Option<u64>)>,
}

/// The packets lane of one worker.
pub(crate) struct Packets {
    sockets: Sockets,
    listeners: Vec<TcpListener>,
    pub(crate) sessions: Table<PeerId, Session>,
    /// A packet to many touches only these of the sessions.
    transports: SendTransports,
    /// What sessions have counted.
    pub(crate) columns: Columns,
    by_ufrag: HashMap<Box<str>, PeerId>,
    by_id: HashMap<SessionId, PeerId>,
    pub(crate) streams: Streams,
    /// Where all workers share a port.
    passing: Option<Passing>,
    video: VideoQueue,
    timers: Timers<Instant, Due>,
    /// Listeners with connections left to be accepted.
    accept_again: VecDeque<usize>,
    /// Listeners where accepting failed, for the next sweep.
    accept_later: Vec<usize>,
    /// Connections that may have bytes to be read.
    tcp_read_again: VecDeque<IceTcpId>,
    /// Whether somebody waits for a datagram of the batch that is being read: it is of a stream that is
    /// watched, or of a viewer.
    batch_is_urgent: bool,
    actions: Actions,
    /// Kept for their memory.
    resends: Vec<Resend>,
    scratch: Vec<u8>,
    /// `sockets.sent.bytes` at the last sample.
    sampled_bytes: u64,
    /// `sockets.sent.packets` at the end of the last turn.
    packets_before: u64,
    pub(crate) counters: RtcCounters,
    notices: Notices,
    /// Sessions were said to another process: nothing is sent until it is known whether it has them.
    is_frozen: bool,
}

impl Packets {
    /// Takes the sockets that were bound for this worker.
    pub(crate) fn new(
        worker: WorkerIndex,
        workers: usize,
        bound: RtcSockets,
        settings: &RtcSettings,
        clock: WallClock,
        notices: Notices,
    ) -> io::Result<Self> {
        let ports = udp_port::open(bound.udp, worker, settings)?;
        let passing = Passing::new(worker, (ports.len(), bound.steering), workers, settings);
        Ok(Self {
            sockets: Sockets { ports, tcp: TcpPeers::default(), sent: SendCounters::default() },
            listeners: bound.tcp,
            sessions: Table::default(),
            transports: SendTransports::default(),
            columns: Columns::default(),
            by_ufrag: HashMap::new(),
            by_id: HashMap::new(),
            streams: Streams::new(settings, clock),
            passing,
            video: VideoQueue::default(),
            timers: Timers::default(),
            accept_again: VecDeque::new(),
            accept_later: Vec::new(),
            tcp_read_again: VecDeque::new(),
            batch_is_urgent: false,
            actions: Actions::default(),
            resends: Vec::new(),
            scratch: Vec::new(),
            sampled_bytes: 0,
            packets_before: 0,
            counters: RtcCounters::default(),
            notices,
            is_frozen: false,
        })
    }

    /// Sessions from now on have these limits.
    pub(crate) fn apply_settings(&mut self, workers: usize, settings: &RtcSettings) {
        self.set_owners_max(workers, settings);
        self.sockets.ports.iter_mut().for_each(|(_, port)| port.apply_settings(settings));
    }

    /// Puts ports and listeners into the event queue.
    pub(crate) fn register(&self, events: &EventQueue) -> io::Result<()> {
        if self.sockets.ports.len() > PORTS_MAX || self.listeners.len() > PORTS_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "more than 1024 addresses for WebRTC"));
        }
        for (id, port) in self.sockets.ports.iter() {
            port.register(id, events)?;
        }
        for (index, listener) in self.listeners.iter().enumerate() {
            events.add(listener, Token::IceListener(index), Interest::Read)?;
        }
        Ok(())
    }

    /// Forwards what other workers and bridges gave, and does what is due by the clock.
    pub(crate) fn run_timers(&mut self, ctx: &mut Context) {
        if self.is_frozen {
            return;
        }
        self.forward(ctx);
        while let Some((due, what)) = self.timers.pop(ctx.now) {
            match what {
                Due::Session(peer) => {
                    let Some(session) = self.sessions.get_mut(peer) else { continue };
                    if session.transport.due.take_if(|set| *set == due).is_some() {
                        self.guard(ctx, peer, |packets, ctx| {
                            packets.sessions[peer].transport.peer.handle_timeout(ctx.now);
                            packets.drive(ctx, peer);
                        });
                    }
                }
                Due::Stream(id) => {
                    let Some(stream) = self.streams.get_mut(id) else { continue };
                    if stream.due.take_if(|set| *set == due).is_some() {
                        self.guard_stream(ctx, id, |packets, ctx| packets.stream_due(ctx, id));
                    }
                }
            }
        }
    }

    /// Sends everything of this turn.
    pub(crate) fn flush(&mut self, ctx: &mut Context) {
        for (_, port) in self.sockets.ports.iter_mut() {
            port.flush(ctx.now_ms, &mut self.sockets.sent);
        }
        for connection in self.sockets.tcp.flush() {
            self.close_tcp(ctx, connection);
        }
    }

    /// How long video has waited beyond its time.
    pub(crate) fn send_delay(&self, now: Instant) -> Duration {
        self.video.delay(now)
    }

    /// A turn has taken this long.
    pub(crate) fn turn_took(&mut self, took: Duration) {
        let packets = self.sockets.sent.packets;
        let before = std::mem::replace(&mut self.packets_before, packets);
        self.video.turn_took(took, packets - before);
    }

    /// What bridges have to do since the last time; given back empty to [`Packets::recycle`] for its memory.
    pub(crate) fn take_actions(&mut self) -> Actions {
        std::mem::take(&mut self.actions)
    }

    /// Takes the memory of actions that were carried out.
    pub(crate) fn recycle(&mut self, mut actions: Actions) {
        if self.actions.queue.is_empty() {
            actions.packets.clear();
            actions.relayed.clear();
            self.actions = actions;
        }
    }

    /// How long the loop may sleep as far as WebRTC is concerned.
    pub(crate) fn timeout(&self, now: Instant) -> Duration {
        // The end of a turn may leave actions, too: closed connections of ICE-TCP, sessions whose time is up.
        let has_work = !self.actions.queue.is_empty()
            || !self.accept_again.is_empty()
            || !self.tcp_read_again.is_empty()
            || self.has_video_to_send()
            || self.sockets.ports.iter().any(|(_, port)| port.readable);
        if has_work {
            return Duration::ZERO;
        }
        let timer = self.timers.next().map_or(Duration::MAX, |due| due.saturating_duration_since(now));
        let round = self.sockets.ports.iter().filter_map(|(_, port)| port.reading.next()).min();
        let round = round.map_or(Duration::MAX, |round| round.saturating_duration_since(now));
        let timer = timer.min(round);
        let retry = self.sockets.ports.iter().filter_map(|(_, port)| port.retry_after()).min();
        retry.map_or(timer, |retry| timer.min(retry))
    }

    /// Whether there is video, or are viewers that join, and not all of it waits for room.
    fn has_video_to_send(&self) -> bool {
        let is_any_blocked = || self.sockets.ports.iter().any(|(_, port)| port.is_blocked());
        let waits = self.video.waits_for_room && is_any_blocked();
        !self.video.is_empty() && !waits
    }

    /// Bytes sent since this was asked last.
    pub(crate) fn take_sent_bytes(&mut self) -> u64 {
        let bytes = self.sockets.sent.bytes;
        bytes - std::mem::replace(&mut self.sampled_bytes, bytes)
    }

    /// Stops taking connections; sessions go on.
    pub(crate) fn stop_listening(&mut self, events: &EventQueue) {
        for listener in std::mem::take(&mut self.listeners) {
            events.remove(&listener);
        }
        self.accept_again.clear();
        self.accept_later.clear();
    }

    fn find(&self, id: SessionId) -> Option<PeerId> {
        self.by_id.get(&id).copied()
    }
}

impl std::fmt::Debug for Packets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sessions = self.sessions.len();
        f.debug_struct("Packets").field("ports", &self.sockets.ports).field("sessions", &sessions).finish()
    }
}

#[cfg(all(test, not(feature = "simulated")))]
mod hand_over_tcp_tests;
#[cfg(test)]
pub(crate) mod panic_tests;
#[cfg(test)]
pub(crate) mod slice_tests;
