//! A port that all workers share: what the kernel gave to this worker and is another's.
//!
//! ```text
//! kernel ─▶ worker by address ─▶ not ours: whose? ─▶ ring ─▶ its worker, as if it had come there
//! ```
//!
//! A session says where it is heard from to the worker that the address leads to (`net/steer.rs`), which then
//! passes on what comes from there. That worker is also the judge of whose an address is: one that a session
//! in use is heard from stays that session's, whatever worker either is on. ICE-TCP connections, which the
//! kernel deals out as it likes, go to the worker that the first check names.
//!
//! Where the kernel has a table of addresses ([`Steering`]), that worker keeps it up to date, and what comes
//! from an address in it goes to the session's worker at once. Every two seconds the session's worker notifies
//! it of the addresses that are in use, since it receives nothing from them itself.
//!
//! Rings are bounded. Nothing is passed on by what a stranger wrote but STUN requests that name a worker, few
//! in a turn; the rest comes from addresses that have been proved.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use group_send::peer_table::{PeerKey, PeerTable};
use group_send::steering::Steering;
use rtc::Path;
use rtc::demux::{self, Kind};
use rtc::tcp_framing::Deframer;

use super::Packets;
use super::session::{HELD_MS, Route, Session};
use crate::context::Context;
use crate::ids::{PeerId, PortId, TableId, WorkerIndex};
use crate::net::passed::{Connection, Datagrams, Passed};
use crate::net::{Interest, TcpSocket, Token, steer};
use worker_api::rtc::worker_of_ufrag;
use worker_api::settings::RtcSettings;

/// Bytes of datagrams that go to a worker in one message, about.
const MESSAGE_BYTES: usize = 64 << 10;
/// STUN requests that are passed on to a worker in a turn: those that the kernel's program does not
/// understand.
const REQUESTS_MAX: usize = 64;
/// Messages that are taken from each worker in a turn.
const MESSAGES_MAX: usize = 16;
/// Datagrams of DTLS that wait for word of whose address they came from, and for how long, milliseconds: a
/// handshake may be quicker than the word.
const EARLY_MAX: usize = 64;
const EARLY_MS: u64 = 200;

/// How often other workers are notified of the addresses that sessions here are heard from.
const HEARD_MS: u64 = 2_000;

/// Whose an address is that leads here.
#[derive(Debug, Clone, Copy)]
struct Owner {
    worker: WorkerIndex,
    /// When something came from it last.
    heard_ms: u64,
}

/// DTLS from an address of which nothing is known yet.
#[derive(Debug)]
struct Early {
    at_ms: u64,
    port: PortId,
    remote: SocketAddr,
    datagram: Vec<u8>,
}

/// What waits for the end of the turn to go to another worker.
#[derive(Debug, Default)]
struct Outgoing {
    datagrams: Datagrams,
    /// STUN requests in this turn.
    requests: usize,
    /// What must arrive.
    notes: Vec<Passed>,
}

/// What a worker knows of the addresses that lead to it.
#[derive(Debug)]
pub(super) struct Passing {
    own: WorkerIndex,
    /// By port: addresses of sessions on other workers.
    owners: Vec<Owners>,
    /// By worker.
    outgoing: Vec<Outgoing>,
    early: VecDeque<Early>,
    /// When others are notified the next time of what is heard here.
    heard_due_ms: u64,
}

/// The addresses of sessions on other workers that lead to this one, at one port.
#[derive(Debug)]
struct Owners {
    table: PeerTable<Owner>,
    /// The kernel's copy of the tables of all workers.
    steering: Option<Arc<Steering>>,
}

impl Owners {
    /// Whether there was room.
    fn insert(&mut self, remote: SocketAddr, owner: Owner) -> bool {
        let is_in = self.table.insert(PeerKey::from(remote), owner).is_ok();
        if let Some(steering) = self.steering.as_ref().filter(|_| is_in)
            && let Err(error) = steering.insert(remote, owner.worker.index() as u32)
        {
            // Not with the worker that it was another's of: that one knows nothing of this one.
            let _ = steering.remove(remote);
            tracing::debug!(%remote, %error, "an address is not in the kernel's table");
        }
        is_in
    }

    fn remove(&mut self, remote: SocketAddr) {
        if self.table.remove(PeerKey::from(remote)).is_some()
            && let Some(steering) = &self.steering
        {
            // It is not there if there was no room.
            let _ = steering.remove(remote);
        }
    }
}

impl Passing {
    /// `None` where each worker has ports of its own.
    pub(super) fn new(
        own: WorkerIndex,
        (ports, steering): (usize, Vec<Option<Arc<Steering>>>),
        workers: usize,
        rtc: &RtcSettings,
    ) -> Option<Self> {
        let steering = steering.into_iter().chain(std::iter::repeat(None)).take(ports);
        let owners = |steering| Owners { table: PeerTable::new(owners_max(workers, rtc)), steering };
        (rtc.single_port && workers > 1).then(|| Self {
            own,
            owners: steering.map(owners).collect(),
            outgoing: (0..workers).map(|_| Outgoing::default()).collect(),
            early: VecDeque::new(),
            heard_due_ms: 0,
        })
    }

    fn worker_of(&self, remote: SocketAddr) -> WorkerIndex {
        steer::worker_of(remote, self.outgoing.len())
    }

    fn owner(&mut self, port: PortId, remote: SocketAddr) -> Option<&mut Owner> {
        self.owners[port.index()].table.get_mut(PeerKey::from(remote))
    }

    fn note(&mut self, to: WorkerIndex, note: Passed) {
        self.outgoing[to.index()].notes.push(note);
    }

    /// Whether a session on another worker is heard from an address that leads here.
    pub(super) fn is_held(&mut self, port: PortId, remote: SocketAddr, now_ms: u64) -> bool {
        self.owner(port, remote).is_some_and(|owner| owner.heard_ms + HELD_MS > now_ms)
    }

    /// A session here is heard from an address from now on.
    pub(super) fn bound(&mut self, port: PortId, remote: SocketAddr) {
        match self.worker_of(remote) {
            own if own == self.own => self.owners[port.index()].remove(remote),
            worker => self.note(worker, Passed::Bound { port, remote }),
        }
    }

    /// No longer.
    pub(super) fn unbound(&mut self, port: PortId, remote: SocketAddr) {
        let worker = self.worker_of(remote);
        if worker != self.own {
            self.note(worker, Passed::Unbound { port, remote });
        }
    }

    /// The other worker that a STUN request names.
    fn named(&self, request: &[u8]) -> Option<WorkerIndex> {
        let worker = worker_of_ufrag(demux::stun_local_ufrag(request)?)?;
        (worker < self.outgoing.len()).then(|| WorkerIndex::at(worker)).filter(|worker| *worker != self.own)
    }
}

/// Addresses of sessions on other workers that may lead to one.
fn owners_max(workers: usize, rtc: &RtcSettings) -> usize {
    crate::net::udp_port::peers_max(rtc).saturating_mul(workers)
}

impl Packets {
    /// Takes up limits that have changed.
    pub(super) fn set_owners_max(&mut self, workers: usize, rtc: &RtcSettings) {
        let passing = self.passing.iter_mut().flat_map(|passing| &mut passing.owners);
        passing.for_each(|owners| owners.table.set_limit(owners_max(workers, rtc)));
    }

    /// Passes on a datagram of no session here, if it is for another worker, or may turn out to be.
    pub(super) fn pass_datagram(
        &mut self,
        ctx: &mut Context,
        (kind, route): (Kind, Route),
        datagram: &[u8],
    ) -> bool {
        let (Some(passing), Route::Udp { port, remote }) = (&mut self.passing, route) else { return false };
        let named = if kind == Kind::Stun { passing.named(datagram) } else { None };
        let may_be_early = kind == Kind::Dtls && passing.worker_of(remote) == passing.own;
        let worker = match named {
            Some(worker) => {
                let requests = &mut passing.outgoing[worker.index()].requests;
                *requests += 1;
                if *requests > REQUESTS_MAX {
                    self.counters.passed_on_dropped += 1;
                    return true;
                }
                worker
            }
            None => match passing.owner(port, remote) {
                Some(owner) if kind != Kind::Other => {
                    owner.heard_ms = ctx.now_ms;
                    owner.worker
                }
                None if may_be_early => {
                    if passing.early.len() == EARLY_MAX {
                        passing.early.pop_front();
                    }
                    let datagram = datagram.to_vec();
                    passing.early.push_back(Early { at_ms: ctx.now_ms, port, remote, datagram });
                    // Until then it is of nobody.
                    return false;
                }
                _ => return false,
            },
        };
        // Somebody may wait for it there.
        self.batch_is_urgent = true;
        self.pass_to(ctx, worker, (port, remote), datagram);
        true
    }

    fn pass_to(
        &mut self,
        ctx: &mut Context,
        worker: WorkerIndex,
        (port, remote): (PortId, SocketAddr),
        datagram: &[u8],
    ) {
        let Some(passing) = &mut self.passing else { return };
        let Datagrams { bytes, each } = &mut passing.outgoing[worker.index()].datagrams;
        bytes.extend_from_slice(datagram);
        each.push((port, remote, datagram.len()));
        if bytes.len() >= MESSAGE_BYTES {
            self.send_datagrams(ctx, worker);
        }
    }

    /// Gives a worker the datagrams that are for it. Without room they are lost, as they are in a socket.
    fn send_datagrams(&mut self, ctx: &mut Context, worker: WorkerIndex) {
        let Some(passing) = &mut self.passing else { return };
        let datagrams = std::mem::take(&mut passing.outgoing[worker.index()].datagrams);
        let count = datagrams.each.len() as u64;
        if ctx.mailboxes.try_pass(worker, Passed::Datagrams(Box::new(datagrams))) {
            self.counters.passed_on += count;
        } else {
            self.counters.passed_on_dropped += count;
            tracing::trace!(?worker, count, "datagrams not passed on: the ring is full");
        }
    }

    /// Gives other workers what is for them; call it before they are woken.
    pub(crate) fn pass_on(&mut self, ctx: &mut Context) {
        self.notify_of_heard(ctx);
        let workers = self.passing.as_ref().map_or(0, |passing| passing.outgoing.len());
        for worker in (0..workers).map(WorkerIndex::at) {
            let Some(passing) = &mut self.passing else { return };
            let outgoing = &mut passing.outgoing[worker.index()];
            outgoing.requests = 0;
            for note in outgoing.notes.drain(..) {
                ctx.mailboxes.pass(worker, note);
            }
            if !outgoing.datagrams.each.is_empty() {
                self.send_datagrams(ctx, worker);
            }
        }
    }

    /// Has the kernel use the tables of this process; until now those of the other one have served.
    pub(super) fn steer_by_own_tables(&self) {
        let Some(passing) = &self.passing else { return };
        for ((_, port), owners) in self.sockets.ports.iter().zip(&passing.owners) {
            port.steer(owners.steering.as_deref(), passing.outgoing.len());
        }
    }

    /// Notifies the workers that addresses lead to of those that sessions here are heard from, where the
    /// kernel gives what comes from there to this one.
    fn notify_of_heard(&mut self, ctx: &mut Context) {
        let Some(passing) = &mut self.passing else { return };
        let has_table = passing.owners.iter().any(|owners| owners.steering.is_some());
        if !has_table || ctx.now_ms < passing.heard_due_ms {
            return;
        }
        passing.heard_due_ms = ctx.now_ms + HEARD_MS;
        let mut heard: Vec<Vec<(PortId, SocketAddr, u64)>> = vec![Vec::new(); passing.outgoing.len()];
        for (peer, session) in self.sessions.iter().filter(|(_, session)| session.is_in_use(ctx.now_ms)) {
            // Where it is now: others of its addresses may be somebody else's by now.
            let route = self.transports.get(peer).map(|transport| transport.route);
            if let Some(Route::Udp { port, remote }) = route {
                let ago_ms = ctx.now_ms - session.transport.received_ms;
                heard[passing.worker_of(remote).index()].push((port, remote, ago_ms));
            }
        }
        for (worker, heard) in heard.into_iter().enumerate() {
            let worker = WorkerIndex::at(worker);
            if worker != passing.own && !heard.is_empty() {
                passing.note(worker, Passed::Heard(heard));
            }
        }
    }

    /// Takes in what other workers have passed on.
    pub(crate) fn receive_passed(&mut self, ctx: &mut Context) {
        if self.passing.is_none() {
            return;
        }
        for from in ctx.mailboxes.workers() {
            for _ in 0..MESSAGES_MAX {
                let Some(passed) = ctx.mailboxes.receive_passed(from) else { break };
                self.take_passed(ctx, from, passed);
            }
        }
    }

    fn take_passed(&mut self, ctx: &mut Context, from: WorkerIndex, passed: Passed) {
        match passed {
            Passed::Datagrams(datagrams) => {
                let Datagrams { mut bytes, each } = *datagrams;
                let mut rest = &mut bytes[..];
                for (port, remote, len) in each {
                    let (datagram, others) = rest.split_at_mut(len);
                    rest = others;
                    // All workers have the same ports in the same order.
                    let path = Path::udp(self.sockets.ports[port].local, remote);
                    self.datagram(ctx, Route::Udp { port, remote }, path, datagram);
                }
                self.forward(ctx);
            }
            Passed::Connection(connection) => self.take_connection(ctx, *connection),
            Passed::Bound { port, remote } => self.note_owner(ctx, from, (port, remote)),
            Passed::Unbound { port, remote } => {
                let Some(passing) = &mut self.passing else { return };
                if passing.owner(port, remote).is_some_and(|owner| owner.worker == from) {
                    passing.owners[port.index()].remove(remote);
                }
            }
            Passed::Heard(heard) => {
                let Some(passing) = &mut self.passing else { return };
                for (port, remote, ago_ms) in heard {
                    let owner = passing.owner(port, remote).filter(|owner| owner.worker == from);
                    if let Some(owner) = owner {
                        owner.heard_ms = owner.heard_ms.max(ctx.now_ms.saturating_sub(ago_ms));
                    }
                }
            }
            // The next check asks again.
            Passed::Refused { port, remote } => {
                self.sockets.ports[port].peers.remove(PeerKey::from(remote));
            }
        }
    }

    /// A session on another worker is heard from an address that leads here.
    fn note_owner(&mut self, ctx: &mut Context, from: WorkerIndex, (port, remote): (PortId, SocketAddr)) {
        let Some(passing) = &mut self.passing else { return };
        let in_use = |session: &Session| session.is_in_use(ctx.now_ms);
        let holder = self.sockets.ports[port].session_at(remote);
        let is_ours = holder.and_then(|holder| self.sessions.get(holder)).is_some_and(in_use);
        let is_held = passing.is_held(port, remote, ctx.now_ms)
            && passing.owner(port, remote).is_some_and(|owner| owner.worker != from);
        let owner = Owner { worker: from, heard_ms: ctx.now_ms };
        if is_ours || is_held || !passing.owners[port.index()].insert(remote, owner) {
            return passing.note(from, Passed::Refused { port, remote });
        }
        self.sockets.ports[port].peers.remove(PeerKey::from(remote));
        let is_here = |early: &Early| (early.port, early.remote) == (port, remote);
        for early in std::mem::take(&mut passing.early) {
            if !is_here(&early) {
                let Some(passing) = &mut self.passing else { return };
                passing.early.push_back(early);
            } else if early.at_ms + EARLY_MS > ctx.now_ms {
                self.pass_to(ctx, from, (port, remote), &early.datagram);
            }
        }
    }

    /// Whose an unclaimed connection is by what it brings, if that is another worker.
    pub(super) fn owner_of_connection(
        &self,
        session: Option<PeerId>,
        datagram: &[u8],
    ) -> Option<WorkerIndex> {
        let passing = self.passing.as_ref().filter(|_| session.is_none())?;
        passing.named(datagram)
    }

    /// Hands a connection over that is taken out of all tables here. It is closed if there is no room.
    pub(super) fn pass_connection(
        &mut self,
        ctx: &mut Context,
        worker: WorkerIndex,
        (socket, path): (TcpSocket, Path),
        (first, deframer): (Vec<u8>, Deframer),
    ) {
        ctx.events.remove(&socket);
        let connection = Connection { socket, path, first, deframer };
        if ctx.mailboxes.try_pass(worker, Passed::Connection(Box::new(connection))) {
            self.counters.passed_on += 1;
        } else {
            self.counters.passed_on_dropped += 1;
            tracing::debug!(remote = %path.remote, "ICE-TCP connection closed: the ring is full");
        }
    }

    fn take_connection(&mut self, ctx: &mut Context, connection: Connection) {
        let Connection { socket, path, mut first, deframer } = connection;
        let id = self.sockets.tcp.vacant_id();
        if let Err(error) = ctx.events.add(&socket, Token::IceTcp(id), Interest::ReadWrite) {
            return tracing::warn!(%error, "ICE-TCP connection not registered");
        }
        if self.sockets.tcp.insert(socket, path.local, path.remote, ctx.now_ms).is_none() {
            return tracing::debug!(remote = %path.remote, "ICE-TCP connection refused: too many unclaimed");
        }
        self.datagram(ctx, Route::Tcp { connection: id, path }, path, &mut first);
        self.take_framed(ctx, id, path, deframer);
        self.forward(ctx);
    }
}

#[cfg(all(test, not(feature = "simulated")))]
mod tests {
    use rtc_test::stun::{Check, REQUEST, USERNAME, Writer, transaction};

    use super::*;
    use crate::event_loop::Worker;
    use crate::packets::panic_tests::workers;
    use worker_api::settings::{RtcSettings, WorkerSettings};

    const WORKERS: usize = 3;
    const PORT: PortId = PortId(0);

    /// The first of several workers that share a port.
    fn first() -> Worker {
        let rtc = RtcSettings { single_port: true, ..RtcSettings::default() };
        let settings = WorkerSettings { rtc, ..WorkerSettings::default() };
        workers(settings, (0..WORKERS).map(|_| Vec::new()).collect()).remove(0).0
    }

    /// An address that leads to the first worker.
    fn address() -> SocketAddr {
        let mut all = (1..u16::MAX).map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
        all.find(|address| steer::worker_of(*address, WORKERS).index() == 0).expect("a third of them")
    }

    fn arrives(worker: &mut Worker, remote: SocketAddr, mut datagram: Vec<u8>) {
        let path = Path::udp(worker.packets.sockets.ports[PORT].local, remote);
        let route = Route::Udp { port: PORT, remote };
        worker.packets.datagram(&mut worker.ctx, route, path, &mut datagram);
    }

    /// Datagrams that wait to be passed on to a worker.
    fn waiting(worker: &Worker, to: usize) -> usize {
        worker.packets.passing.as_ref().expect("it shares").outgoing[to].datagrams.each.len()
    }

    fn bound(worker: &mut Worker, from: usize, remote: SocketAddr) -> bool {
        let bound = Passed::Bound { port: PORT, remote };
        worker.packets.take_passed(&mut worker.ctx, WorkerIndex::at(from), bound);
        let outgoing = &mut worker.packets.passing.as_mut().expect("it shares").outgoing[from];
        !outgoing.notes.drain(..).any(|note| matches!(note, Passed::Refused { .. }))
    }

    #[test]
    fn requests_of_strangers_are_passed_on_few_in_a_turn_and_only_to_workers_that_exist() {
        let mut worker = first();
        let name = |worker| [&worker_api::rtc::ufrag_prefix(worker)[..], b"abcdefgh:x"].concat();
        for number in 0..200 {
            for named in [1, WORKERS] {
                let request = Writer::new(REQUEST, transaction(number)).attribute(USERNAME, &name(named));
                arrives(&mut worker, address(), request.integrity("password").fingerprint().0);
            }
            let own = Check::new("AAAabcdefgh:x", "password", transaction(number));
            arrives(&mut worker, address(), own.bytes());
        }
        let counters = worker.packets.counters;
        assert_eq!(
            (waiting(&worker, 1), counters.passed_on_dropped),
            (REQUESTS_MAX, 200 - REQUESTS_MAX as u64)
        );
        assert_eq!(counters.unknown_source, 400, "of no worker, and of no session of this one");
        worker.packets.pass_on(&mut worker.ctx);
        assert_eq!((waiting(&worker, 1), worker.packets.counters.passed_on), (0, REQUESTS_MAX as u64));
    }

    #[test]
    fn a_full_ring_drops_datagrams_and_no_word_of_addresses() {
        let mut worker = first();
        assert!(bound(&mut worker, 1, address()));
        for _ in 0..100 {
            arrives(&mut worker, address(), vec![0x80, 96, 0, 1]);
            worker.packets.pass_on(&mut worker.ctx);
        }
        let counters = worker.packets.counters;
        assert_eq!(counters.passed_on + counters.passed_on_dropped, 100);
        assert!(counters.passed_on > 10 && counters.passed_on_dropped > 10, "{counters:?}");
    }

    #[test]
    fn an_address_stays_with_the_session_that_is_heard_from_there() {
        let mut worker = first();
        assert!(bound(&mut worker, 1, address()));
        assert!(bound(&mut worker, 1, address()), "its own worker says it again");
        worker.ctx.now_ms += HELD_MS - 1;
        arrives(&mut worker, address(), vec![0x80, 200, 0, 1]);
        worker.ctx.now_ms += HELD_MS - 1;
        assert!(!bound(&mut worker, 2, address()));
        worker.ctx.now_ms += 1;
        assert!(bound(&mut worker, 2, address()), "nothing has come for too long");
        // Where the kernel gives its datagrams to its own worker, that one says that they come.
        let heard = |worker: &mut Worker, from: usize| {
            let heard = Passed::Heard(vec![(PORT, address(), 0)]);
            worker.packets.take_passed(&mut worker.ctx, WorkerIndex::at(from), heard);
            worker.ctx.now_ms += HELD_MS - 1;
        };
        heard(&mut worker, 2);
        assert!(!bound(&mut worker, 1, address()));
        heard(&mut worker, 1);
        assert!(bound(&mut worker, 1, address()), "from another worker it means nothing");
        let gone = Passed::Unbound { port: PORT, remote: address() };
        worker.packets.take_passed(&mut worker.ctx, WorkerIndex::at(2), gone);
        arrives(&mut worker, address(), vec![0x80, 96, 0, 1]);
        assert_eq!((waiting(&worker, 1), waiting(&worker, 2)), (2, 0), "it was no longer the second one's");
    }

    #[test]
    fn a_handshake_that_is_quicker_than_the_word_waits_for_it() {
        let mut worker = first();
        let hello = vec![22, 254, 253, 0];
        arrives(&mut worker, address(), hello.clone());
        assert!(bound(&mut worker, 2, address()));
        assert_eq!(waiting(&worker, 2), 1);
        // Not long, and not any number of them.
        let mut worker = first();
        arrives(&mut worker, address(), hello.clone());
        worker.ctx.now_ms += EARLY_MS;
        assert!(bound(&mut worker, 2, address()));
        assert_eq!(waiting(&worker, 2), 0);
        let mut worker = first();
        for _ in 0..2 * EARLY_MAX {
            arrives(&mut worker, address(), hello.clone());
        }
        assert!(bound(&mut worker, 2, address()));
        assert_eq!(waiting(&worker, 2), EARLY_MAX);
    }
}
