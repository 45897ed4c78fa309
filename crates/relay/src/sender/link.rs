//! One link of a sender: its numbers, and which packet each of them was.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::{OutLinkStats, OutStream};
use crate::authenticator::Authenticator;
use crate::control::{ControlOpener, ControlSealer};
use crate::keys::SenderKeys;
use crate::limits::{HEARTBEAT_FIRST, PINGS_MAX, RUNS_MAX};
use crate::repair_budget::RepairBudget;
use crate::table::{Id, Table};

pub(super) struct OutLink {
    pub(super) authenticator: Authenticator,
    pub(super) sealer: ControlSealer,
    pub(super) opener: ControlOpener,
    /// The next link number.
    pub(super) next: u64,
    /// What was sent, in order; and when, of each call.
    runs: VecDeque<(Instant, Run)>,
    /// Streams it gets, by handle.
    pub(super) streams: HashMap<u16, Id<OutStream>>,
    pub(super) budget: RepairBudget,
    /// Pings to be answered.
    pub(super) pongs: Vec<u32>,
    /// It asked for what is no longer kept, and needs a message about it.
    pub(super) asked_too_late: bool,
    /// Key frames that wait for their time because this link asked first.
    pub(super) key_frames_waiting: usize,
    /// When it is asked what it has to say.
    pub(super) polled_at: Option<Instant>,
    pub(super) heartbeat_at: Instant,
    pub(super) heartbeat_interval: Duration,
    pub(super) stats: OutLinkStats,
}

/// Consecutive link numbers that one call gave to consecutive packets of a stream.
///
/// A run and not an entry per packet: written for each node of each call, read after losses only.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) first: u64,
    pub(super) packets: u32,
    pub(super) handle: u16,
    pub(super) stream: Id<OutStream>,
    /// Number of the first packet in the stream's history.
    pub(super) number: u64,
}

impl OutLink {
    pub(super) fn new(now: Instant, keys: SenderKeys) -> Self {
        let (authenticator, sealer, opener) = keys.build();
        Self {
            authenticator,
            sealer,
            opener,
            next: 0,
            runs: VecDeque::new(),
            streams: HashMap::new(),
            budget: RepairBudget::new(now),
            pongs: Vec::new(),
            asked_too_late: false,
            key_frames_waiting: 0,
            polled_at: None,
            heartbeat_at: now + HEARTBEAT_FIRST,
            heartbeat_interval: HEARTBEAT_FIRST,
            stats: OutLinkStats::default(),
        }
    }

    /// A run was sent, of so many bytes in all.
    #[inline]
    pub(super) fn sent(&mut self, now: Instant, run: Run, bytes: usize, history: Duration) {
        self.next += u64::from(run.packets);
        while let Some((at, _)) = self.runs.front()
            && (now.saturating_duration_since(*at) > history || self.runs.len() >= RUNS_MAX)
        {
            self.runs.pop_front();
        }
        self.runs.push_back((now, run));
        self.budget.earn(now, bytes);
        (self.heartbeat_at, self.heartbeat_interval) = (now + HEARTBEAT_FIRST, HEARTBEAT_FIRST);
        self.stats.packets += u64::from(run.packets);
        self.stats.bytes += bytes as u64;
    }

    /// Forgets what is too old, or kept by no stream any more. Returns the oldest number that is left;
    /// from there to the next one, each number belongs to a run.
    pub(super) fn oldest_kept(&mut self, now: Instant, history: Duration, streams: &Table<OutStream>) -> u64 {
        while let Some((at, run)) = self.runs.front() {
            let kept = streams.get(run.stream).map_or(u64::MAX, |stream| stream.history.first());
            let gone = kept.saturating_sub(run.number);
            if gone < u64::from(run.packets) && now.saturating_duration_since(*at) <= history {
                return run.first + gone;
            }
            self.runs.pop_front();
        }
        self.next
    }

    /// The run that a number belongs to.
    pub(super) fn run_of(&self, sequence: u64) -> Option<&Run> {
        let at = self.runs.partition_point(|(_, run)| run.first <= sequence);
        let (_, run) = self.runs.get(at.checked_sub(1)?)?;
        (sequence - run.first < u64::from(run.packets)).then_some(run)
    }

    #[cfg(test)]
    pub(super) fn keeps_nothing(&self) -> bool {
        self.runs.is_empty()
    }

    /// A ping is to be answered; of many at once the last ones.
    pub(super) fn pong(&mut self, id: u32) {
        if self.pongs.len() == PINGS_MAX {
            self.pongs.remove(0);
        }
        self.pongs.push(id);
    }
}
