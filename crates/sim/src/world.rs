//! The scheduler: one thread, virtual time, and whoever can run is chosen at random.
//!
//! ```text
//! network events that are due ─▶ who is ready now? ─▶ one of them runs ─▶ invariants ─┐
//!        ▲                       nobody: the time goes on                            │
//!        └────────────────────────────────────────────────────────────────────────────┘
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use netsim::kernel::{self, QueueId};

use netsim::{FastMap, Random};
use sim_worker::simulated::PlayerCounts;
use worker_api::command::Command;

use crate::actors::{Actor, Next, ms};
use crate::ledger::Ledger;
use crate::server::Server;

/// Who runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Worker(usize, usize),
    Control(usize),
    Actor(usize),
}

/// What the scheduler knows of each.
#[derive(Debug, Clone, Default)]
struct Turns {
    /// When it runs at the latest; an entry of `timers` counts only if it says the same.
    due: Option<Instant>,
    is_runnable: bool,
    /// Of a worker: it does not run before.
    busy_until: Option<Instant>,
    /// A worker that was woken and has not run since.
    is_woken: bool,
}

/// Of everybody, workers first, then control sides, then actors.
#[derive(Debug)]
struct TurnsOfAll {
    /// Where the workers of each server begin, and where the control sides do.
    first: Vec<usize>,
    rows: Vec<Turns>,
}

impl TurnsOfAll {
    fn new(servers: &[Server]) -> Self {
        let mut first = vec![0];
        first.extend(servers.iter().scan(0, |workers, server| {
            *workers += server.workers.len();
            Some(*workers)
        }));
        let rows = vec![Turns::default(); first[servers.len()] + servers.len()];
        Self { first, rows }
    }

    fn of(&mut self, owner: Owner) -> &mut Turns {
        let servers = self.first.len() - 1;
        let row = match owner {
            Owner::Worker(server, worker) => self.first[server] + worker,
            Owner::Control(server) => self.first[servers] + server,
            Owner::Actor(actor) => self.first[servers] + servers + actor,
        };
        if row >= self.rows.len() {
            self.rows.resize(row + 1, Turns::default());
        }
        &mut self.rows[row]
    }
}

/// Probability that control takes what a worker has for it when it is its turn, and not at once.
const CONTROL_WAITS: f64 = 0.25;

/// How the scheduler treats workers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Schedule {
    /// Probability that a worker that is ready runs later, by up to 2 ms.
    pub delay: f64,
    /// Probability that it stands still for up to a second.
    pub stall: f64,
    /// Probability that others may run between its turn and its sleep.
    pub drowsy: f64,
}

/// Makes actors; called when their time has come.
pub type Arrival = Box<dyn FnOnce(&mut Ledger) -> Box<dyn Actor>>;

/// Servers and actors in virtual time.
pub struct World {
    /// What actors share, and what was found.
    pub ledger: Ledger,
    /// The servers.
    pub servers: Vec<Server>,
    actors: Vec<Option<Box<dyn Actor>>>,
    arrivals: VecDeque<(Duration, Arrival)>,
    by_queue: FastMap<QueueId, Owner>,
    turns: TurnsOfAll,
    timers: BinaryHeap<Reverse<(Instant, Owner)>>,
    runnable: Vec<Owner>,
    schedule: Schedule,
    random: Random,
    start: Instant,
    /// Turns so far.
    pub steps: u64,
    /// Of how many turns, of everybody, one is followed by a full audit if it was a worker's.
    pub audit_every: u64,
}

impl World {
    /// Servers without actors.
    pub fn new(seed: u64, ledger: Ledger, servers: Vec<Server>, schedule: Schedule) -> Self {
        let mut world = Self {
            ledger,
            turns: TurnsOfAll::new(&servers),
            servers,
            actors: Vec::new(),
            arrivals: VecDeque::new(),
            by_queue: FastMap::default(),
            timers: BinaryHeap::new(),
            runnable: Vec::new(),
            schedule,
            random: Random::new(seed ^ 0x7363_6865_6475),
            start: kernel::now(),
            steps: 0,
            audit_every: 1,
        };
        for server in 0..world.servers.len() {
            for index in 0..world.servers[server].workers.len() {
                let owner = Owner::Worker(server, index);
                world.by_queue.insert(world.servers[server].workers[index].queue().id(), owner);
                world.make_runnable(owner);
            }
        }
        world
    }

    /// An actor comes at this time after the beginning; those that were added first come first.
    pub fn arrive(&mut self, after: Duration, arrival: Arrival) {
        let at = self.arrivals.partition_point(|(other, _)| *other <= after);
        self.arrivals.insert(at, (after, arrival));
    }

    /// Runs until this time after the beginning, or until something is found wrong.
    pub fn run_until(&mut self, end: Duration) {
        let end = self.start + end;
        while self.ledger.violations.is_empty() && self.step(end) {}
    }

    /// Actors that have not left.
    pub fn actors(&self) -> usize {
        self.actors.iter().flatten().count()
    }

    /// One turn of somebody, or a step of the time; false at the end.
    fn step(&mut self, end: Instant) -> bool {
        let now = kernel::now();
        while let Some((after, _)) = self.arrivals.front()
            && self.start + *after <= now
        {
            let Some((_, arrival)) = self.arrivals.pop_front() else { break };
            let actor = arrival(&mut self.ledger);
            let owner = Owner::Actor(self.actors.len());
            self.by_queue.insert(actor.queue().id(), owner);
            self.actors.push(Some(actor));
            self.make_runnable(owner);
            self.look_at_wakers();
        }
        while let Some(queue) = kernel::next_ready() {
            if let Some(&owner) = self.by_queue.get(&queue) {
                self.make_ready(owner);
            }
        }
        while let Some(&Reverse((at, owner))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            let turns = self.turns.of(owner);
            if turns.due == Some(at) {
                turns.due = None;
                self.make_runnable(owner);
            }
        }
        if self.runnable.is_empty() {
            let arrival = self.arrivals.front().map(|(after, _)| self.start + *after);
            let timer = self.timers.peek().map(|Reverse((at, _))| *at);
            let next = netsim::earliest([arrival, timer, kernel::next_event()]).unwrap_or(end);
            if next >= end {
                kernel::advance_to(end);
                return false;
            }
            kernel::advance_to(next);
            return true;
        }
        let chosen = self.random.below(self.runnable.len() as u64) as usize;
        let owner = self.runnable.swap_remove(chosen);
        self.turns.of(owner).is_runnable = false;
        self.steps += 1;
        match owner {
            Owner::Worker(server, worker) => self.run_worker(server, worker),
            Owner::Control(server) => {
                if let Some(at) = self.servers[server].control(&mut self.ledger) {
                    self.set_timer(Owner::Control(server), at);
                }
            }
            Owner::Actor(index) => {
                let Some(actor) = &mut self.actors[index] else { return true };
                match actor.turn(&mut self.ledger) {
                    Next::At(at) => self.set_timer(owner, at),
                    Next::Done => {
                        self.by_queue.remove(&actor.queue().id());
                        self.turns.of(owner).due = None;
                        self.actors[index] = None;
                    }
                }
            }
        }
        self.look_at_wakers();
        true
    }

    fn run_worker(&mut self, server: usize, index: usize) {
        let owner = Owner::Worker(server, index);
        let now = kernel::now();
        if let Some(until) = self.turns.of(owner).busy_until.filter(|until| *until > now) {
            return self.set_timer(owner, until);
        }
        let worker = &mut self.servers[server].workers[index];
        if worker.is_drained() {
            return;
        }
        if worker.is_awake() {
            worker.sleep();
            let (next, queue) = (worker.next_turn(), worker.queue());
            if next <= now || queue.has_ready() || queue.is_woken() {
                self.make_runnable(owner);
            } else {
                self.set_timer(owner, next);
            }
            return self.check_sleepers(server);
        }
        worker.turn();
        self.turns.of(owner).is_woken = false;
        let is_drowsy = self.schedule.drowsy > 0.0 && self.random.chance(self.schedule.drowsy);
        if !is_drowsy {
            worker.sleep();
        }
        let (next, drained) = (worker.next_turn(), worker.is_drained());
        // What a turn costs: it does not run again before.
        let mut until = now + Duration::from_micros(5 + self.random.below(40));
        if self.schedule.stall > 0.0 && self.random.chance(self.schedule.stall) {
            until += ms(self.random.below(1_000));
        }
        self.turns.of(owner).busy_until = Some(until);
        kernel::note((server as u64) << 32 | index as u64);
        for PlayerCounts { client, dropped } in worker.dropped() {
            let known = self.ledger.dropped.entry(client).or_default();
            if known.last() != Some(&dropped) {
                known.push(dropped);
            }
        }
        if let Err(found) = worker.add_up() {
            self.ledger.violation(format!("worker {index} of server {server}: {found}"));
        }
        if self.steps.is_multiple_of(self.audit_every) {
            let found = worker.audit();
            self.ledger.check(found.is_ok(), || {
                format!("worker {index} of server {server}: {}", found.err().unwrap_or_default())
            });
        }
        self.check_sleepers(server);
        if !drained {
            self.set_timer(owner, next.max(until));
        }
        // Mostly control takes at once what a worker has for it; at times others run before.
        if self.random.chance(CONTROL_WAITS) {
            self.make_runnable(Owner::Control(server));
        } else if let Some(at) = self.servers[server].control(&mut self.ledger) {
            self.set_timer(Owner::Control(server), at);
        }
    }

    /// Nobody sleeps on what another worker has left for it, unless that is about to wake it.
    fn check_sleepers(&mut self, server: usize) {
        let workers = &self.servers[server].workers;
        for (index, worker) in workers.iter().enumerate() {
            if !worker.sleeps_on_mail() || worker.queue().is_woken() || worker.is_drained() {
                continue;
            }
            let is_woken = workers.iter().any(|other| other.is_drained() || other.will_wake(index));
            self.ledger.check(is_woken, || format!("worker {index} of server {server} sleeps on its mail"));
        }
    }

    /// Wakers may have been used, by whoever ran.
    fn look_at_wakers(&mut self) {
        for server in 0..self.servers.len() {
            for worker in 0..self.servers[server].workers.len() {
                if self.servers[server].workers[worker].queue().is_woken() {
                    let owner = Owner::Worker(server, worker);
                    if !std::mem::replace(&mut self.turns.of(owner).is_woken, true) {
                        self.make_ready(owner);
                    }
                }
            }
        }
    }

    /// It has something to do; a worker may be kept waiting for it.
    fn make_ready(&mut self, owner: Owner) {
        if matches!(owner, Owner::Worker(..))
            && !self.turns.of(owner).is_runnable
            && self.schedule.delay > 0.0
            && self.random.chance(self.schedule.delay)
        {
            let at = kernel::now() + self.random.up_to(ms(2));
            return self.set_timer(owner, at);
        }
        self.make_runnable(owner);
    }

    fn make_runnable(&mut self, owner: Owner) {
        if !std::mem::replace(&mut self.turns.of(owner).is_runnable, true) {
            self.runnable.push(owner);
        }
    }

    /// It runs then, unless it does before.
    fn set_timer(&mut self, owner: Owner, at: Instant) {
        let turns = self.turns.of(owner);
        if turns.due.is_some_and(|due| due <= at) {
            return;
        }
        turns.due = Some(at);
        self.timers.push(Reverse((at, owner)));
    }

    /// Everybody leaves, and the servers come to rest: nothing of anybody is left.
    pub fn come_to_rest(&mut self) {
        self.arrivals.clear();
        for actor in self.actors.iter_mut().flatten() {
            actor.leave();
        }
        // Consent (30 s), a restart of ICE (5 s), idle HTTP connections (75 s), and whoever never came back.
        let mut quiet = kernel::elapsed();
        let mut alone_since = None;
        for _ in 0..40 {
            quiet += ms(5_000);
            self.run_until(quiet);
            if !self.ledger.violations.is_empty() || (self.actors() == 0 && self.is_empty()) {
                break;
            }
            // Idle connections are closed when their clients are, and not when their time is up.
            if self.actors() > 0 {
                continue;
            }
            let alone_since = *alone_since.get_or_insert(quiet);
            let workers = self.servers.iter().flat_map(|server| &server.workers);
            let idle: usize = workers.map(|worker| worker.tables().idle).sum();
            let is_right = idle == 0 || self.ledger.is_crowded || quiet < alone_since + ms(35_000);
            self.ledger.check(is_right, || format!("{idle} idle connections of clients that have gone"));
        }
        if self.ledger.violations.is_empty() {
            self.check_end();
        }
    }

    fn is_empty(&self) -> bool {
        let workers = self.servers.iter().flat_map(|server| &server.workers);
        workers.into_iter().all(|worker| worker.tables() == Default::default())
    }

    fn check_end(&mut self) {
        let left = self.actors();
        self.ledger.check(left == 0, || format!("{left} actors have not left"));
        for (index, server) in self.servers.iter_mut().enumerate() {
            let (ledger, mut drops, mut opened) = (&mut self.ledger, 0, 0);
            let (mut ring_drops, mut rtc_ring_drops, mut frames_in, mut cut) = (0, 0, 0, 0);
            for (number, worker) in server.workers.iter_mut().enumerate() {
                let (tables, counters) = (worker.tables(), worker.counters());
                let who = format!("worker {number} of server {index}");
                ledger.check(tables == Default::default(), || format!("{who} still has {tables:?}"));
                ledger.check(counters.panics == 0, || format!("{who} met {} panics", counters.panics));
                let gauges = (counters.sessions, counters.players, counters.publishers, counters.rtc.pending);
                ledger.check(gauges == (0, 0, 0, 0), || format!("{who} counts {gauges:?} at the end"));
                frames_in += counters.frames_in;
                let relay = &counters.relay;
                ledger.relayed += relay.datagrams_in;
                // A layer that was off begins with a key frame from before the key that a new node has.
                let unknown_key = if ledger.has_shared_layers { 0 } else { relay.unknown_key };
                let strange = [relay.malformed, relay.forged, unknown_key, relay.not_taken];
                let is_right = !ledger.has_good_links || ledger.has_strangers || strange == [0; 4];
                ledger.check(is_right, || format!("{who} got what makes no sense from nodes: {relay:?}"));
                drops += counters.queue_drops;
                ring_drops += counters.ring_drops;
                rtc_ring_drops += counters.rtc.ring_drops;
                opened += counters.rtc.opened;
                let is_cut = |cause: &str| matches!(cause, "taken_over" | "kicked");
                let ended = counters.ended.iter();
                cut += ended.filter(|(cause, _)| is_cut(cause)).map(|(_, count)| count).sum::<u64>();
                // What came in is what ended, or was refused.
                let ended: u64 = counters.ended.iter().map(|(_, count)| count).sum();
                let least = counters.accepted + counters.rtc.opened;
                let least = least.saturating_sub(counters.refused_full + counters.http_handed_over);
                ledger.check(ended >= least, || format!("{who}: {least} sessions, {ended} reasons"));
                let most = counters.accepted + counters.rtc.opened + counters.http_returned;
                let is_plain = counters.http_handed_over == 0 && ledger.is_plain_http;
                ledger.check(!is_plain || ended <= most, || {
                    format!("{who}: {most} sessions came, {ended} reasons")
                });
            }
            // Rings of the usual size hold all that comes while a worker stands still.
            let lost = ring_drops + rtc_ring_drops;
            let may = ledger.loses_between_workers;
            ledger.check(lost == 0 || may, || format!("server {index}: {lost} lost between workers"));
            let missed = ledger.missed_by_server[index];
            ledger.check(ring_drops > 0 || missed <= drops, || {
                format!("server {index}: players missed {missed} frames, {drops} are counted")
            });
            // Two headers go before the frames of a publication. Who leaves when it is ended does not know that.
            let sent = ledger.publications.values().filter(|record| record.key.server == index);
            let sent: u64 = sent.map(|record| record.sent.len() as u64 + 2).sum();
            let is_right = frames_in == sent || frames_in < sent && (ledger.is_cut[index] || cut > 0);
            ledger.check(is_right, || {
                format!("server {index}: {frames_in} messages came of publishers, {sent} were sent")
            });
            let ended = server.ended_sessions.len() as u64;
            ledger.check(ended == opened, || format!("server {index}: {opened} opened, {ended} ended"));
            let (open, own) = (kernel::descriptors(server.ip), server.own_descriptors);
            ledger.check(open == own, || format!("server {index} has {open} sockets, {own} are its own"));
            let waiting = kernel::waiting(server.ip);
            ledger.check(waiting == 0, || format!("server {index} has not accepted {waiting} connections"));
            let kept = server.kept.taken();
            ledger.check(kept == 0, || format!("server {index}: {kept} places of connections are taken"));
        }
        self.check_rest();
    }

    /// A server that nobody uses sleeps: it does little more than look at its deadlines.
    fn check_rest(&mut self) {
        let before: Vec<u64> = self.loop_turns();
        let end = kernel::elapsed() + ms(2_000);
        self.run_until(end);
        for (before, after) in before.into_iter().zip(self.loop_turns()) {
            let turns = after - before;
            self.ledger.check(turns < 100, || format!("{turns} turns in 2 s without anybody"));
            let is_slow = !self.ledger.slack.is_zero();
            self.ledger.check(turns >= 18 || is_slow, || {
                format!("{turns} turns in 2 s: deadlines are not looked at")
            });
        }
    }

    fn loop_turns(&mut self) -> Vec<u64> {
        let workers = self.servers.iter_mut().flat_map(|server| &mut server.workers);
        workers.map(|worker| worker.counters().loop_turns).collect()
    }

    /// All servers are told to stop, and have `deadline` for it.
    pub fn drain(&mut self, deadline: Duration) {
        // Whoever is thrown out does not come back, and is not promised to be in time.
        self.ledger.is_draining = true;
        for view in &self.ledger.servers {
            for handle in &view.handles {
                let sent = handle.send(Command::Drain { deadline });
                assert!(sent.is_ok(), "a queue of commands has room");
            }
        }
        self.look_at_wakers();
        let end = kernel::elapsed() + deadline + ms(1_500);
        self.run_until(end);
        for (index, server) in self.servers.iter_mut().enumerate() {
            for (number, worker) in server.workers.iter_mut().enumerate() {
                let (drained, tables) = (worker.is_drained(), worker.tables());
                let who = format!("worker {number} of server {index}");
                self.ledger.check(drained, || format!("{who} goes on: {tables:?}"));
                // Who sends, and who has no queue of bytes to be read first, is told at once.
                let publishers = worker.counters().publishers;
                self.ledger.check(publishers == 0, || format!("{who} stops with {publishers} publishers"));
                let peers = tables.peers;
                self.ledger.check(peers == 0, || format!("{who} stops with {peers} WebRTC sessions"));
            }
        }
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("steps", &self.steps).finish_non_exhaustive()
    }
}
