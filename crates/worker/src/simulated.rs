//! A server as a simulation has it: its workers are values that are stepped one turn at a time.
//!
//! Compiled only into `sim-worker`, where `net/` is that of a simulation. The scheduler runs a worker when
//! its queue has something ([`SimulatedWorker::queue`]), a waker was used, or [`SimulatedWorker::next_turn`]
//! has come; between two turns it looks at what no client can see ([`SimulatedWorker::audit`]). A turn and
//! the sleep behind it are two steps, so that others may run between them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delivery::PlayerId;
use tokio::sync::mpsc::Sender;

use crate::event_loop::Worker;
use crate::ids::TableId;
use crate::net::{Readiness, Token};
use crate::proto::session::Media;
use crate::publication::{Publication, Source};
use crate::registry::Origin;
use crate::{StartingWorkers, Workers};
use worker_api::AddressSlots;
use worker_api::cluster::Elsewhere;
use worker_api::columns::StatsSnapshot;
use worker_api::handoff::Handoff;
use worker_api::live::{Current, Live};
use worker_api::rtc::Notices;
use worker_api::snapshot::{SessionId, WorkerCounters};

pub use crate::net::contract::{ALL as PROMISES, Promise};
pub use netsim::kernel::EventQueue;

/// Bytes that a player may be behind over its limit: what comes between two looks at it, which are a merge
/// period or a tenth of a second apart.
const LAG_SLACK: u64 = 256 << 10;

/// Milliseconds by which a connection may be ended later than it was to be: two rounds of deadline checks.
const DEADLINE_SLACK_MS: u64 = 200;

/// A worker without a thread.
#[derive(Debug)]
pub struct SimulatedWorker {
    worker: Worker,
    ready: Vec<Readiness>,
    /// How long it sleeps, from its last turn on; `None` before it has gone to sleep.
    sleeps: Option<Duration>,
    accounts: Accounts,
}

/// What [`SimulatedWorker::add_up`] knows of players, in their order, of this turn and of the last one.
#[derive(Debug, Default)]
struct Accounts {
    now: Vec<(PlayerId, Account)>,
    before: Vec<(PlayerId, Account)>,
}

/// Of a player: its session, the publication, and the number of messages before its first one, which is what
/// came less what was written, dropped and waits.
type Account = (SessionId, Option<Source>, u64);

/// What a player of frames has been given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlayerCounts {
    /// Its address.
    pub client: SocketAddr,
    /// Messages that it did not get because it was too slow.
    pub dropped: u64,
}

/// How many entries the tables of a worker have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tables {
    /// Sessions over TCP.
    pub connections: usize,
    /// HTTP connections between two requests.
    pub idle: usize,
    /// Streams of frames.
    pub frame_streams: usize,
    /// Players of frames.
    pub players: usize,
    /// Players inside this process.
    pub taps: usize,
    /// WebRTC sessions.
    pub peers: usize,
    /// Streams of packets.
    pub packet_streams: usize,
    /// Addresses from which WebRTC sessions may send.
    pub peer_addresses: usize,
    /// Bridges.
    pub bridges: usize,
    /// Streams that other nodes get or give, and links to nodes.
    pub relayed: [usize; 3],
    /// Streams in the directory that all workers share.
    pub listed: usize,
}

impl Workers {
    /// A server whose workers the simulation steps.
    ///
    /// # Errors
    /// An address cannot be bound.
    pub fn simulated(
        live: Arc<Live<Current>>,
        kept_connections: &AddressSlots,
        handoffs: Sender<Handoff>,
        notices: Notices,
        stats: Sender<Box<StatsSnapshot>>,
        elsewhere: Option<Arc<dyn Elsewhere>>,
    ) -> io::Result<(Self, Vec<SimulatedWorker>)> {
        let prepared =
            Self::prepare(live, kept_connections, handoffs, notices, stats, elsewhere, Vec::new())?;
        let StartingWorkers { workers: server, loops } = prepared;
        let workers = loops.into_iter().map(|worker| SimulatedWorker {
            worker,
            ready: Vec::new(),
            sleeps: Some(Duration::ZERO),
            accounts: Accounts::default(),
        });
        Ok((server, workers.collect()))
    }
}

impl SimulatedWorker {
    /// Wakes up and runs one turn. Others see it awake until it [goes to sleep](Self::sleep).
    pub fn turn(&mut self) {
        self.worker.ctx.events.wait(&mut self.ready, Duration::ZERO);
        self.worker.turn_awake(&self.ready);
        self.sleeps = None;
    }

    /// Goes to sleep after a turn, unless there is something to do.
    pub fn sleep(&mut self) {
        self.sleeps = Some(self.worker.prepare_to_sleep());
    }

    /// Whether it has run a turn and not gone to sleep yet.
    pub fn is_awake(&self) -> bool {
        self.sleeps.is_none()
    }

    /// Whether it sleeps although another worker has left something for it.
    pub fn sleeps_on_mail(&self) -> bool {
        self.worker.ctx.mailboxes.sleeps_on_mail()
    }

    /// Whether it is about to wake that worker.
    pub fn will_wake(&self, worker: usize) -> bool {
        self.worker.ctx.mailboxes.will_wake(worker)
    }

    /// Its sockets.
    pub fn queue(&self) -> &EventQueue {
        self.worker.ctx.events.queue()
    }

    /// When it runs a turn although nothing happens.
    pub fn next_turn(&self) -> Instant {
        self.worker.ctx.now + self.sleeps.unwrap_or_default()
    }

    /// Whether another worker has sent it something that it has not taken in.
    pub fn has_messages(&self) -> bool {
        self.worker.ctx.mailboxes.has_messages()
    }

    /// Whether it has ended after a drain.
    pub fn is_drained(&self) -> bool {
        self.worker.is_drained()
    }

    /// Its counters, those that a snapshot collects from subsystems included.
    pub fn counters(&mut self) -> WorkerCounters {
        self.worker.snapshot(&worker_api::command::Listed::Nothing).counters
    }

    /// How many entries its tables have.
    pub fn tables(&self) -> Tables {
        let worker = &self.worker;
        Tables {
            connections: worker.connections.sessions.len(),
            idle: worker.idle.len(),
            frame_streams: worker.frames.streams.len(),
            players: worker.frames.players.len(),
            taps: worker.frames.taps.len(),
            peers: worker.packets.sessions.len(),
            packet_streams: worker.packets.streams.iter().count(),
            peer_addresses: worker.packets.addresses(),
            bridges: worker.bridges.len(),
            relayed: worker.relay.as_ref().map_or([0; 3], |relay| relay.tables()),
            listed: worker.ctx.directory.len(),
        }
    }

    /// Players that have not got all, and how much; those too that have left since the last call, who may
    /// have gone on at a key frame and been ended within one turn.
    pub fn dropped(&mut self) -> impl Iterator<Item = PlayerCounts> {
        let left = std::mem::take(&mut self.worker.frames.left);
        let worker = &self.worker;
        let present = worker.frames.players.iter().filter_map(|(_, player)| {
            Some((worker.connections.sessions.get(player.conn)?.address, player.cursor.dropped()))
        });
        let all = left.into_iter().chain(present).filter(|(_, dropped)| *dropped > 0);
        all.map(|(client, dropped)| PlayerCounts { client, dropped })
    }

    /// After every turn: each message of the stream of a player, from its first one on, was written to it, is
    /// counted as dropped, or waits. A player that pauses begins again, and with a publication it may.
    ///
    /// # Errors
    /// The first player for which they do not add up.
    pub fn add_up(&mut self) -> Result<(), String> {
        let worker = &self.worker;
        let Accounts { now, before } = &mut self.accounts;
        std::mem::swap(now, before);
        now.clear();
        let mut before = before.iter().peekable();
        for (id, player) in worker.frames.players.iter() {
            let stream = worker.frames.streams.get(player.stream);
            let channel = stream.and_then(|stream| stream.channels[player.format as usize].as_ref());
            let Some((stream, log)) = stream.zip(channel.map(|channel| &channel.log)) else { continue };
            let Some(session) = worker.connections.sessions.get(player.conn) else { continue };
            let Some(waiting) = player.cursor.unsettled(log) else { continue };
            let written = worker.connections.columns.passed_by(player.conn);
            let (came, dropped) = (log.next_message(), player.cursor.dropped());
            let account = (session.id, stream.publication.source, came - written - dropped - waiting);
            while before.next_if(|(earlier, _)| *earlier < id).is_some() {}
            let known = before.next_if(|(same, _)| *same == id).map(|(_, known)| known);
            let known = known.filter(|known| (known.0, known.1) == (account.0, account.1));
            if let Some(known) = known.filter(|known| known.2 != account.2) {
                return Err(format!(
                    "{id:?}: {written} messages written, {dropped} dropped and {waiting} waiting make {} of {came}, \
                     not {}",
                    came - account.2,
                    came - known.2
                ));
            }
            now.push((id, account));
        }
        if let Some(relay) = &self.worker.relay {
            relay.add_up()?;
        }
        self.worker.packets.add_up()
    }

    /// What contradicts itself in its tables.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn audit(&mut self) -> Result<(), String> {
        self.worker.packets.audit_timers(self.worker.ctx.now)?;
        self.worker.packets.audit_video(self.worker.ctx.now)?;
        let worker = &self.worker;
        let sessions = &worker.connections.sessions;
        if sessions.len() > worker.ctx.settings.sessions_max {
            return Err(format!("{} sessions", sessions.len()));
        }
        if worker.packets.sessions.len() > worker.ctx.settings.rtc.sessions_max {
            return Err(format!("{} WebRTC sessions", worker.packets.sessions.len()));
        }
        self.audit_input()?;
        self.audit_output()?;
        self.audit_deadlines()?;
        // Players, publishers and streams name each other.
        let mut players = vec![0_u32; worker.frames.streams.rows()];
        for (id, player) in worker.frames.players.iter() {
            let session = sessions.get(player.conn).and_then(|session| session.player());
            if session != Some(id) {
                return Err(format!("{id:?} is of {:?}, which plays {session:?}", player.conn));
            }
            let Some(stream) = worker.frames.streams.get(player.stream) else {
                return Err(format!("{id:?} plays {:?}, which is gone", player.stream));
            };
            if stream.channels[player.format as usize].is_none() {
                return Err(format!("{id:?} plays {:?} without a channel", player.stream));
            }
            let (lag, most) = (worker.frames.lag_bytes(player), stream.queue_limits.bytes_max);
            if lag > 2 * most + LAG_SLACK {
                return Err(format!("{id:?} is {lag} bytes behind, {most} are allowed"));
            }
            players[player.stream.index()] += 1;
        }
        for (id, tap) in worker.frames.taps.iter() {
            let media = sessions.get(tap.conn).map(|session| session.media);
            if !matches!(media, Some(Media::Tap(tap)) if tap == id) {
                return Err(format!("{id:?} is of {:?}, which has {media:?}", tap.conn));
            }
            let stream = worker.frames.streams.get(tap.stream);
            if stream.is_none_or(|stream| !stream.taps.contains(&id)) {
                return Err(format!("{id:?} takes {:?}, which does not know it", tap.stream));
            }
            players[tap.stream.index()] += 1;
        }
        for (id, stream) in worker.frames.streams.iter() {
            let publication = &stream.publication;
            if publication.players != players[id.index()] {
                return Err(format!(
                    "{id:?} counts {} of {} players",
                    publication.players,
                    players[id.index()]
                ));
            }
            self.audit_publication(publication)?;
            if !stream.delivery.gop().is_within_limits() {
                let gop = stream.delivery.gop();
                return Err(format!("{id:?} keeps a GOP of {} bytes, {} ms", gop.bytes(), gop.duration_ms()));
            }
            if let Some(Source { epoch, origin: Origin::Connection(conn) }) = publication.source {
                let media = sessions.get(conn).map(|session| session.media);
                if !matches!(media, Some(Media::Publish(publish)) if publish.stream == id && publish.epoch == epoch)
                {
                    return Err(format!("{id:?} is published by {conn:?}, which has {media:?}"));
                }
                let read_later =
                    matches!(media, Some(Media::Publish(publish)) if publish.read_at_ms.is_some());
                if read_later == publication.is_watched() {
                    return Err(format!("{id:?} is watched, and is its publisher read later? {read_later}"));
                }
            }
        }
        for (conn, session) in sessions.iter() {
            if let Media::Play(player) = session.media
                && worker.frames.players.get(player).is_none_or(|player| player.conn != conn)
            {
                return Err(format!("{conn:?} plays as {player:?}, which is not its own"));
            }
            if let Media::Publish(publish) = session.media {
                let stream = worker.frames.streams.get(publish.stream);
                let source = stream.and_then(|stream| stream.publication.source);
                let own = Source { epoch: publish.epoch, origin: Origin::Connection(conn) };
                if source != Some(own) {
                    return Err(format!("{conn:?} publishes {:?}, which has {source:?}", publish.stream));
                }
            }
        }
        for (id, stream) in worker.packets.streams.iter() {
            let subscriptions = worker.packets.sessions.iter();
            let subscriptions = subscriptions.flat_map(|(_, session)| &session.subscriptions);
            let players = subscriptions.filter(|subscription| subscription.stream == id).count();
            let players = players + usize::from(stream.is_served);
            if stream.publication.players as usize != players {
                return Err(format!("{id:?} counts {} of {players} players", stream.publication.players));
            }
            self.audit_publication(&stream.publication)?;
        }
        if let Some(relay) = &worker.relay {
            relay.audit(|id, epoch| {
                let stream = worker.packets.streams.find(id);
                let source = stream.and_then(|stream| worker.packets.streams[stream].publication.source);
                source.is_some_and(|source| source.epoch == epoch)
            })?;
        }
        worker.packets.audit()
    }

    /// Nobody is there for longer than the limits of time allow.
    fn audit_deadlines(&self) -> Result<(), String> {
        let worker = &self.worker;
        let now_ms = worker.ctx.now_ms;
        for (conn, session) in worker.connections.sessions.iter() {
            if session.closing_at_ms.is_some_and(|at_ms| at_ms + DEADLINE_SLACK_MS < now_ms) {
                return Err(format!("{conn:?} was to be closed at {:?} ms", session.closing_at_ms));
            }
            let Media::Play(player) = session.media else { continue };
            let stream = worker.frames.players.get(player).map(|player| player.stream);
            let Some(stream) = stream.and_then(|stream| worker.frames.streams.get(stream)) else { continue };
            let limit_ms = stream.settings.player_stall_timeout.as_millis() as u64 + DEADLINE_SLACK_MS;
            let takes_nothing =
                session.blocked && session.pending.len() > 0 && session.closing_at_ms.is_none();
            if takes_nothing && session.written_ms + limit_ms < now_ms {
                return Err(format!("{conn:?} has taken nothing since {} ms", session.written_ms));
            }
        }
        Ok(())
    }

    /// Right after a turn: what can be read and will not be reported again is read later by itself.
    fn audit_input(&self) -> Result<(), String> {
        let worker = &self.worker;
        for token in self.queue().unread() {
            let token = Token::from_number(token as usize);
            let is_read_later = match token {
                Token::Connection(conn) => worker.connections.sessions.get(conn).is_some_and(|session| {
                    session.reads_again || session.closing_at_ms.is_some() || session.peer_closed
                }),
                Token::Idle(_) => false,
                Token::Listener(_) => worker.acceptor.has_more() || worker.acceptor.is_paused(),
                Token::Port(port) => worker.packets.reads_later(port),
                Token::IceTcp(_) | Token::IceListener(_) => true,
                Token::Relay => worker.relay.as_ref().is_some_and(|relay| relay.reads_later()),
                Token::Srt(port) => worker.srt.reads_later(port),
                Token::Rtsp(port) => worker.rtsp.reads_later(port),
            };
            if !is_read_later {
                return Err(format!("{token:?} has input that nobody will read"));
            }
        }
        Ok(())
    }

    /// The same of room: nobody waits for it who has it.
    fn audit_output(&self) -> Result<(), String> {
        for token in self.queue().unreported_room() {
            if let Token::Connection(conn) = Token::from_number(token as usize)
                && self.worker.connections.sessions.get(conn).is_some_and(|session| session.blocked)
            {
                return Err(format!("{conn:?} waits for room that it has"));
            }
        }
        Ok(())
    }

    /// A publication of a client here is the home of its stream, or a newer one is.
    fn audit_publication(&self, publication: &Publication) -> Result<(), String> {
        let Some(Source { epoch, origin }) = publication.source else {
            return if publication.remotes.is_empty() {
                Ok(())
            } else {
                Err(format!("{} has no source and {:?}", publication.key, publication.remotes))
            };
        };
        // Whoever was replaced may have the news still before it, and the newer one may have ended.
        if origin.is_publisher() && !self.has_messages() {
            let home = self.worker.ctx.directory.home(&publication.key);
            let is_known = home.is_some_and(|(id, home)| id == publication.id && home.epoch >= epoch);
            if !is_known {
                return Err(format!("{} is published here, and its home is {home:?}", publication.key));
            }
        }
        let mut workers: Vec<_> = publication.remotes.iter().map(|remote| remote.worker).collect();
        workers.sort_unstable();
        workers.dedup();
        if workers.len() != publication.remotes.len() {
            return Err(format!("{} goes twice to a worker: {:?}", publication.key, publication.remotes));
        }
        Ok(())
    }
}
