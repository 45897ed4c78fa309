//! Whether a contender is believed, and how far ahead.
//!
//! What it expects is compared with the runs that are really read, whether it is believed or not and whether anything is
//! fetched for it or not, with the same batches that would be fetched. A contender that guesses costs nothing until it has
//! been right several times in a row.

use std::ops::Range;

use crate::ranges;

/// The record of one contender.
#[derive(Debug)]
pub(super) struct Trust {
    /// Share of runs that were expected, the last ones counting most; 0 to 1.
    score: f64,
    /// Runs of a batch.
    ahead: usize,
    /// What it expects, ascending and not overlapping.
    expected: Vec<Range<u64>>,
    /// Runs left of the batch.
    runs_left: usize,
}

/// Score at the start of a contender that speaks only when it has found a proof: believed until it is wrong.
pub(super) const AFTER_PROOF: f64 = 0.8;

/// Score at the start of a contender that guesses: not believed until it has been right.
pub(super) const UNPROVEN: f64 = 0.5;

/// Believed from this score on.
const BELIEVED: f64 = 0.65;

/// Weight of the newest run in the score. From nothing four runs in a row are needed, and a miss takes one or two.
const NEWEST: f64 = 0.25;

/// Runs of the first batch; it doubles with each batch that came as expected, and halves with a miss.
const AHEAD_MIN: usize = 4;

/// Runs of a batch at most: what a request of several ranges may hold.
const AHEAD_MAX: usize = 256;

impl Trust {
    /// Begins with `score`.
    pub(super) fn new(score: f64) -> Self {
        Self { score, ahead: AHEAD_MIN, expected: Vec::new(), runs_left: 0 }
    }

    /// Whether its predictions are worth fetching.
    pub(super) fn is_believed(&self) -> bool {
        self.score >= BELIEVED
    }

    /// Runs to fetch ahead.
    pub(super) fn ahead(&self) -> usize {
        self.ahead
    }

    /// `run` has been read. Returns whether a new batch is to be expected now.
    pub(super) fn note_run(&mut self, run: &Range<u64>) -> bool {
        if self.expected.is_empty() {
            return true;
        }
        let missing = ranges::bytes_of(&ranges::subtract(std::slice::from_ref(run), &self.expected));
        let hit = missing <= (run.end - run.start) / MISSING_DIVISOR;
        self.score += (f64::from(u8::from(hit)) - self.score) * NEWEST;
        self.runs_left = self.runs_left.saturating_sub(1);
        if !hit {
            self.ahead = (self.ahead / 2).max(AHEAD_MIN);
        } else if self.runs_left == 0 {
            self.ahead = (self.ahead * 2).min(AHEAD_MAX);
        }
        !hit || self.runs_left == 0
    }

    /// What it expects from now on; empty if it has no idea, which counts as neither right nor wrong.
    pub(super) fn expect(&mut self, expected: Vec<Range<u64>>) {
        self.runs_left = expected.len();
        self.expected = ranges::merge(&expected, 0);
    }
}

/// A run counts as expected with up to this part of it missing.
const MISSING_DIVISOR: u64 = 8;
