//! Predicts what will be read next from what has been read: a pattern of runs and gaps.
//!
//! Several predictors watch the same reads, each with its own model (tables of offsets inside the
//! file, exact repetition, an estimate with margins). Each is checked against the actual reads all
//! the time, at no cost, and only one that has been right lately is used. The prefetch distance
//! grows while it is right and shrinks when it is wrong. All of it is arithmetic on what the engine
//! reports: this module sends no requests and reads no clock.
//!
//! Knows nothing of file formats. Not used once there are hints.

mod confidence;
mod repetition;
mod runs;
mod store;
mod tables;
mod trend;

use std::collections::VecDeque;
use std::ops::Range;

use confidence::Confidence;
use runs::Runs;
use tables::Tables;
use trend::Costs;

use crate::ranges;

/// Limits of learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LearnLimits {
    /// Bytes already read that are kept to look for tables of offsets in them. Default 1 MiB,
    /// dropped as soon as tables are found or 64 seeks have found none. What does not look like a
    /// table is not kept; the oldest goes first.
    pub table_bytes_max: usize,
    /// Wasted prefetched bytes after which nothing is predicted, in addition to a quarter of what
    /// was read and of the gaps before it (each up to this size). Default 256 KiB. At most four
    /// times the remaining allowance is predicted at a time.
    pub wasted_bytes_max: u64,
}

impl Default for LearnLimits {
    fn default() -> Self {
        Self { table_bytes_max: 1 << 20, wasted_bytes_max: 256 << 10 }
    }
}

/// Limits of one prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PredictionLimits {
    /// Ranges.
    pub ranges_max: usize,
    /// Bytes of them all. The last range is cut where it passes this.
    pub bytes_max: u64,
    /// Length of the file, which no range passes; `u64::MAX` if it is not known.
    pub file_end: u64,
}

/// Watches a reader and predicts what it will read next.
///
/// **Driven by the engine:** each read handed to the caller goes to [`note_read`](Self::note_read)
/// and, while [`wants_bytes`](Self::wants_bytes), its bytes to [`note_bytes`](Self::note_bytes);
/// what came of predicted ranges goes to [`note_outcome`](Self::note_outcome).
#[derive(Debug)]
pub struct Learner {
    limits: LearnLimits,
    runs: Runs,
    tables: Tables,
    predictors: Vec<(Predictor, Confidence)>,
    waste_allowance: u64,
    /// Ranges requested because of a guess, the newest [`ASKED_MAX`].
    asked: VecDeque<Range<u64>>,
    /// The last prediction was a guess.
    is_guess: bool,
    /// Runs that have ended since there was one.
    seeks_without_guess: u32,
    /// What the link could bring between a request and its response.
    path_bytes: f64,
    misses: Misses,
}

/// What a reader pays for a wrong guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misses {
    /// A round trip of waiting, while the following data keeps arriving.
    Hidden,
    /// A round trip of waiting, or the rest of a response.
    Waited,
    /// Too much: no guess saves as much as it may cost.
    Avoided,
}

/// A model of what repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Predictor {
    Tables,
    Repetition,
    Trend,
}

impl Learner {
    /// A learner that has seen nothing.
    pub fn new(limits: LearnLimits) -> Self {
        Self {
            limits,
            runs: Runs::default(),
            tables: Tables::new(limits.table_bytes_max),
            predictors: vec![
                (Predictor::Tables, Confidence::new(confidence::AFTER_PROOF, confidence::AHEAD_MIN)),
                (Predictor::Repetition, Confidence::new(confidence::AFTER_PROOF, confidence::AHEAD_MIN)),
                (Predictor::Trend, Confidence::new(confidence::UNPROVEN, trend::AHEAD_MAX)),
            ],
            waste_allowance: limits.wasted_bytes_max,
            asked: VecDeque::new(),
            is_guess: false,
            seeks_without_guess: 0,
            path_bytes: PATH_BYTES_UNKNOWN,
            misses: Misses::Waited,
        }
    }

    /// `range` has been handed to the caller. An empty range says that reading is about to begin
    /// there.
    ///
    /// Costs a comparison while reading is sequential. A seek costs up to about 100 microseconds
    /// while tables are searched or a trend is followed, and a few once a pattern without jitter
    /// has been found.
    pub fn note_read(&mut self, range: Range<u64>) {
        let Some(run) = self.runs.note(range) else { return };
        self.allow_for(&run);
        self.seeks_without_guess = self.seeks_without_guess.saturating_add(1);
        self.tables.note_run(&run, &self.runs);
        let position = self.runs.present().start;
        let mut in_charge = false;
        for number in 0..self.predictors.len() {
            let (predictor, confidence) = &mut self.predictors[number];
            if in_charge {
                confidence.rest();
            } else if confidence.note_run(&run) {
                let (predictor, ahead) = (*predictor, confidence.ahead());
                let expected = self.expect(predictor, position, ahead);
                self.predictors[number].1.expect(&expected);
            }
            in_charge |= self.predictors[number].1.leads();
        }
    }

    /// Properties of the link: how much it could deliver between a request and its response, and
    /// how misses are handled. What is not known to the byte is guessed with margins that depend on
    /// their cost.
    pub fn note_link(&mut self, path_bytes: f64, misses: Misses) {
        self.path_bytes = if path_bytes.is_finite() { path_bytes.max(0.0) } else { PATH_BYTES_UNKNOWN };
        self.misses = misses;
    }

    /// `ranges` have been asked for because they were predicted. What is guessed later leaves them
    /// as they are: a run whose margins move a little is not worth another request.
    pub fn note_requested(&mut self, ranges: &[Range<u64>]) {
        if self.is_guess {
            self.asked.extend(ranges.iter().cloned());
            let surplus = self.asked.len().saturating_sub(ASKED_MAX);
            self.asked.drain(..surplus);
        }
    }

    /// Whether the last prediction was a guess, with margins, which is made again with what has been
    /// learned since before more is asked for.
    pub fn is_guess(&self) -> bool {
        self.is_guess
    }

    /// Whether runs follow each other so slowly that guessing may pay and that a guess may still be
    /// come by: not more often than round trips, or a reader that waits for each miss falls behind;
    /// and not yet so many without one.
    pub fn may_guess(&self) -> bool {
        self.hides_misses() && self.seeks_without_guess <= SEEKS_WITHOUT_GUESS_MAX
    }

    /// `bytes`, at `start` of the file, have been handed to the caller.
    pub fn note_bytes(&mut self, start: u64, bytes: &[u8]) {
        self.tables.note_bytes(start, bytes);
    }

    /// Whether [`note_bytes`](Self::note_bytes) is useful now.
    pub fn wants_bytes(&self) -> bool {
        self.tables.wants_bytes()
    }

    /// What will be read from `position` on, in the order of reading; empty if nothing is known.
    /// The first range begins at `position`. Ranges neither overlap nor touch each other.
    ///
    /// Says that reading is about to begin at `position`, as an empty
    /// [`note_read`](Self::note_read) does.
    pub fn predict(&mut self, position: u64, limits: PredictionLimits) -> Vec<Range<u64>> {
        self.note_read(position..position);
        let bytes_max = limits.bytes_max.min(self.waste_allowance.saturating_mul(WASTE_SHARE_DIVISOR));
        let believed = self.predictors.iter().filter(|(_, confidence)| confidence.is_confident());
        let expected = believed
            .map(|(predictor, confidence)| {
                (*predictor, self.expect(*predictor, position, confidence.ahead().min(limits.ranges_max)))
            })
            .find(|(_, expected)| !expected.is_empty());
        self.is_guess = matches!(expected, Some((Predictor::Trend, _)));
        let expected = match expected {
            Some((Predictor::Trend, expected)) => {
                self.seeks_without_guess = 0;
                keep(expected, &self.asked)
            }
            Some((_, expected)) => expected,
            None => Vec::new(),
        };
        cut(expected, PredictionLimits { bytes_max, ..limits })
    }

    /// Of `fetched_bytes` that were fetched because they had been predicted, and that are now done
    /// with, `used_bytes` were read.
    pub fn note_outcome(&mut self, fetched_bytes: u64, used_bytes: u64) {
        self.waste_allowance = self.waste_allowance.saturating_sub(fetched_bytes.saturating_sub(used_bytes));
    }

    /// What `predictor` expects to be read from `position` on, `runs_max` runs at most.
    fn expect(&self, predictor: Predictor, position: u64, runs_max: usize) -> Vec<Range<u64>> {
        match predictor {
            Predictor::Tables => self.tables.expect(position, runs_max),
            Predictor::Repetition => repetition::expect(&self.runs, position, runs_max),
            Predictor::Trend => {
                let costs = match self.misses {
                    Misses::Hidden if self.hides_misses() => Costs::hidden(self.path_bytes),
                    Misses::Waited => Costs::waited(self.path_bytes),
                    Misses::Hidden | Misses::Avoided => return Vec::new(),
                };
                trend::expect(&self.runs, position, runs_max, costs)
            }
        }
    }

    /// While the reader waits for a miss, the following data continues to arrive; where a round
    /// trip delivers no more than about a run, the reader has caught up before the next miss.
    fn hides_misses(&self) -> bool {
        let run = self.runs.newest_first().next().map_or(0, |run| run.end - run.start);
        let pace = run.saturating_add(self.runs.gap_before_last());
        self.misses == Misses::Hidden && self.path_bytes <= pace as f64 * HIDING_PACE_FACTOR
    }

    /// A run that has been read, and the gap before it, allow for wasted bytes.
    fn allow_for(&mut self, run: &Range<u64>) {
        let gap = self.runs.gap_before_last().min(self.limits.wasted_bytes_max);
        let share = (run.end - run.start).saturating_add(gap) / WASTE_SHARE_DIVISOR;
        let most = self.limits.wasted_bytes_max.saturating_mul(WASTE_SHARE_DIVISOR);
        self.waste_allowance = self.waste_allowance.saturating_add(share).min(most);
    }
}

/// What a link brings from a request to its response, while it is not known: 50 ms at 20 Mbit/s.
const PATH_BYTES_UNKNOWN: f64 = 125_000.0;

/// Times a run and its gap that a round trip may bring while misses are hidden.
const HIDING_PACE_FACTOR: f64 = 1.5;

/// Seeks without anything to guess after which none is hoped for.
const SEEKS_WITHOUT_GUESS_MAX: u32 = 24;

/// What was asked of a run is all of it unless so much is missing; margins move by less.
const ASKED_IN_PART_DIVISOR: u64 = 4;

/// Ranges that are remembered as asked for.
const ASKED_MAX: usize = 64;

/// What was read and left out allows for this part of it to be wasted.
const WASTE_SHARE_DIVISOR: u64 = 4;

/// `expected`, but where it overlaps what was `asked` before, that is left as it was.
fn keep(mut expected: Vec<Range<u64>>, asked: &VecDeque<Range<u64>>) -> Vec<Range<u64>> {
    for (number, range) in expected.iter_mut().enumerate() {
        let overlaps = |before: &&Range<u64>| before.start < range.end && range.start < before.end;
        let (start, end) = asked
            .iter()
            .filter(overlaps)
            .fold((u64::MAX, 0), |(start, end), before| (before.start.min(start), before.end.max(end)));
        if start < end {
            // The first one begins where reading is. What is much longer than what was asked was
            // asked in part.
            let start = if number == 0 { range.start } else { start };
            let in_part = range.end.saturating_sub(end) > (range.end - range.start) / ASKED_IN_PART_DIVISOR;
            *range = start..if in_part { range.end } else { end.max(start) };
        }
    }
    expected
}

/// `expected`, joined where ranges touch, as far as it is wanted.
fn cut(expected: Vec<Range<u64>>, limits: PredictionLimits) -> Vec<Range<u64>> {
    let mut cut: Vec<Range<u64>> = Vec::with_capacity(expected.len());
    let mut left = limits.bytes_max;
    for range in expected {
        let range = range.start..range.end.min(range.start.saturating_add(left)).min(limits.file_end);
        left -= ranges::bytes_of(std::slice::from_ref(&range));
        match cut.last_mut() {
            _ if range.is_empty() => {}
            Some(last) if range.start <= last.end && range.start >= last.start => {
                last.end = last.end.max(range.end)
            }
            _ => cut.push(range),
        }
    }
    cut
}
