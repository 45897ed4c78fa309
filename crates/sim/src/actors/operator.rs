//! What the control side asks workers for while they serve: how things are, and that sessions end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use netsim::kernel::{self, EventQueue};
use tokio::sync::oneshot;
use worker_api::command::{Command, Listed};
use worker_api::rtc::RtcPatch;
use worker_api::snapshot::{SessionId, WorkerSnapshot};

use super::{Actor, Next, ms};
use crate::ledger::Ledger;

/// Longest time for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Longest time for a session that was ended to be off the list: what it has yet to be told is sent first.
const GONE_MAX: Duration = Duration::from_secs(15);

/// Somebody at the API of a server.
pub struct Operator {
    server: usize,
    queue: EventQueue,
    until: Instant,
    asks_at: Instant,
    /// Ends sessions as well.
    kicks: bool,
    snapshots: Vec<(usize, Instant, oneshot::Receiver<WorkerSnapshot>)>,
    answers: Vec<(Ask, Instant, oneshot::Receiver<bool>)>,
    /// What grew, the last time: counters never shrink.
    before: BTreeMap<usize, [u64; 8]>,
    ended: BTreeMap<SessionId, Instant>,
    leaving: bool,
}

/// What it asked about a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Kick(SessionId),
    Close(SessionId),
    Patch(SessionId),
    /// The same of one that never was.
    Nobody,
}

impl Operator {
    /// One that looks at a server for this long.
    pub fn new(server: usize, lasts: Duration, kicks: bool) -> Self {
        let queue = EventQueue::new();
        let (asks_at, until) = (kernel::now(), kernel::now() + lasts);
        let (snapshots, answers) = (Vec::new(), Vec::new());
        let (before, ended) = (BTreeMap::new(), BTreeMap::new());
        Self { server, queue, until, asks_at, kicks, snapshots, answers, before, ended, leaving: false }
    }

    fn ask(&mut self, ledger: &mut Ledger) {
        let now = kernel::now();
        for (worker, handle) in ledger.servers[self.server].handles.iter().enumerate() {
            let (reply, answer) = oneshot::channel();
            if handle.send(Command::Snapshot { sessions: Listed::All, reply }).is_ok() {
                self.snapshots.push((worker, now, answer));
            }
        }
    }

    fn snapshot(&mut self, ledger: &mut Ledger, worker: usize, snapshot: &WorkerSnapshot) {
        let now = kernel::now();
        let who = format!("worker {worker} of server {}", self.server);
        ledger.check(snapshot.index == worker, || format!("{who} says it is {}", snapshot.index));
        let ids: BTreeSet<SessionId> = snapshot.sessions.iter().map(|session| session.id).collect();
        ledger.check(ids.len() == snapshot.sessions.len(), || format!("{who} lists a session twice"));
        ledger.check(ids.iter().all(|id| id.worker() == worker), || format!("{who} lists others' sessions"));
        for (id, since) in &self.ended {
            let is_gone = !ids.contains(id) || now < *since + GONE_MAX + ledger.slack;
            ledger.check(is_gone, || format!("{who} lists {id} {:?} after its end", now - *since));
        }
        let counters = &snapshot.counters;
        let ended: u64 = counters.ended.iter().map(|(_, count)| count).sum();
        let after = [
            counters.accepted,
            counters.bytes_in,
            counters.bytes_out,
            counters.frames_in,
            counters.frames_out,
            counters.queue_drops,
            counters.rtc.packets_out,
            ended,
        ];
        let before = self.before.insert(worker, after).unwrap_or_default();
        let grows = before.iter().zip(after).all(|(before, after)| *before <= after);
        ledger.check(grows, || format!("{who}: counters went from {before:?} to {after:?}"));
        let playing: u32 = snapshot.streams.iter().map(|stream| stream.players).sum();
        let listed = snapshot.sessions.len();
        ledger.check(playing as usize <= listed, || format!("{who}: {playing} of {listed} sessions play"));
        if !self.kicks || snapshot.sessions.is_empty() || !ledger.random.chance(0.3) {
            return;
        }
        let at = ledger.random.below(snapshot.sessions.len() as u64) as usize;
        let session = snapshot.sessions[at].id;
        let (reply, answer) = oneshot::channel();
        let (ask, command) = match ledger.random.below(10) {
            0 => (Ask::Close(session), Command::RtcClose { session, reply }),
            1 | 2 => {
                let patch = RtcPatch::Candidates(Vec::new());
                (Ask::Patch(session), Command::RtcPatch { session, patch, reply })
            }
            3 => {
                let session = SessionId::new(worker, session.serial() + 1_000_000);
                (Ask::Nobody, Command::Kick { session, reply })
            }
            _ => (Ask::Kick(session), Command::Kick { session, reply }),
        };
        ledger.say(|| format!("operator of server {}: {ask:?}", self.server));
        if ledger.servers[self.server].handles[worker].send(command).is_ok() {
            self.answers.push((ask, now, answer));
        }
    }

    fn answer(&mut self, ledger: &mut Ledger, ask: Ask, yes: bool) {
        match ask {
            Ask::Nobody => ledger.check(!yes, || "a session that never was has been ended".to_owned()),
            Ask::Kick(session) | Ask::Close(session) if yes => {
                let first = self.ended.insert(session, kernel::now()).is_none();
                ledger.check(first, || format!("{session} was ended twice"));
            }
            Ask::Kick(_) | Ask::Close(_) | Ask::Patch(_) => {}
        }
    }
}

impl Actor for Operator {
    fn turn(&mut self, ledger: &mut Ledger) -> Next {
        self.queue.wait(&mut Vec::new());
        let now = kernel::now();
        for (worker, asked, mut answer) in std::mem::take(&mut self.snapshots) {
            match answer.try_recv() {
                Ok(snapshot) => self.snapshot(ledger, worker, &snapshot),
                Err(oneshot::error::TryRecvError::Empty) => {
                    let late = now > asked + ANSWER_MAX + ledger.slack && !ledger.is_draining;
                    ledger.check(!late, || format!("no snapshot of worker {worker}"));
                    self.snapshots.push((worker, asked, answer));
                }
                Err(oneshot::error::TryRecvError::Closed) => {}
            }
        }
        for (ask, asked, mut answer) in std::mem::take(&mut self.answers) {
            match answer.try_recv() {
                Ok(yes) => self.answer(ledger, ask, yes),
                Err(oneshot::error::TryRecvError::Empty) => {
                    let late = now > asked + ANSWER_MAX + ledger.slack && !ledger.is_draining;
                    ledger.check(!late, || format!("no answer to {ask:?}"));
                    self.answers.push((ask, asked, answer));
                }
                Err(oneshot::error::TryRecvError::Closed) => {}
            }
        }
        if self.leaving || now >= self.until {
            return Next::Done;
        }
        if !self.snapshots.is_empty() || !self.answers.is_empty() {
            return Next::At(now + ms(50));
        }
        if now >= self.asks_at {
            self.asks_at = now + ms(50 + ledger.random.below(400));
            self.ask(ledger);
            return Next::At(now + ms(50));
        }
        Next::At(self.asks_at)
    }

    fn queue(&self) -> &EventQueue {
        &self.queue
    }

    fn leave(&mut self) {
        self.leaving = true;
    }
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operator").field("server", &self.server).finish_non_exhaustive()
    }
}
