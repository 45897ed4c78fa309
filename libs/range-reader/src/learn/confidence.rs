//! Whether a predictor's output is used, and how far ahead.
//!
//! Its expectation is compared with the actual runs, whether or not it is used and anything is
//! fetched for it, with the same batches that would be fetched. A predictor that guesses costs
//! nothing until it has been right several times in a row.

use std::ops::Range;

use crate::ranges;

/// The track record of one predictor.
#[derive(Debug)]
pub(super) struct Confidence {
    /// Share of runs that were expected, the last ones counting most; 0 to 1.
    score: f64,
    /// Runs of a batch.
    ahead: usize,
    ahead_min: usize,
    /// What it expects, ascending and not overlapping.
    expected: Vec<Range<u64>>,
    /// Runs left of the batch.
    runs_left: usize,
}

/// Initial score of a predictor that needs proof before it predicts: used until it is wrong.
pub(super) const AFTER_PROOF: f64 = 0.8;

/// Initial score of a predictor that guesses: unused until it has been right.
pub(super) const UNPROVEN: f64 = 0.5;

/// Used from this score on.
const CONFIDENT: f64 = 0.65;

/// Weight of the newest run in the score. From nothing four runs in a row are needed, and a miss
/// takes one or two.
const NEWEST: f64 = 0.25;

/// Runs of the first batch; it doubles with each batch that came as expected, and halves with a
/// miss.
pub(super) const AHEAD_MIN: usize = 4;

/// Runs of a batch at most: what a request of several ranges may hold.
const AHEAD_MAX: usize = 256;

impl Confidence {
    /// Begins with `score`, and batches of `ahead_min` runs.
    pub(super) fn new(score: f64, ahead_min: usize) -> Self {
        Self { score, ahead: ahead_min, ahead_min, expected: Vec::new(), runs_left: 0 }
    }

    /// Whether its predictions are worth fetching.
    pub(super) fn is_confident(&self) -> bool {
        self.score >= CONFIDENT
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
            self.ahead = (self.ahead / 2).max(self.ahead_min);
        } else if self.runs_left == 0 {
            self.ahead = (self.ahead * 2).min(AHEAD_MAX);
        }
        !hit || self.runs_left == 0
    }

    /// The runs that it expects from now on; none if it has no prediction, which counts as neither
    /// right nor wrong.
    pub(super) fn expect(&mut self, expected: &[Range<u64>]) {
        self.runs_left = expected.len();
        self.expected = ranges::merge(expected, 0);
    }

    /// It is not consulted now, and the next runs count neither for nor against it.
    pub(super) fn rest(&mut self) {
        self.expected.clear();
    }

    /// Whether it has a prediction and is used.
    pub(super) fn leads(&self) -> bool {
        self.is_confident() && !self.expected.is_empty()
    }
}

/// A run counts as expected with up to this part of it missing.
const MISSING_DIVISOR: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u64) -> Range<u64> {
        number * 1000..number * 1000 + 100
    }

    /// Reads `runs`, each expected if it is `true`.
    fn after(score: f64, runs: &[bool]) -> Confidence {
        let mut confidence = Confidence::new(score, AHEAD_MIN);
        for (number, expected) in runs.iter().enumerate() {
            let number = number as u64;
            let at = if *expected { run(number) } else { run(number + 500) };
            confidence.expect(&[at]);
            assert!(confidence.note_run(&run(number)), "a batch of one is over after one");
        }
        confidence
    }

    #[test]
    fn a_guesser_is_used_after_several_hits_and_no_longer_after_misses() {
        assert!(!after(UNPROVEN, &[]).is_confident());
        assert!(!after(UNPROVEN, &[true]).is_confident());
        assert!(after(UNPROVEN, &[true; 4]).is_confident());
        assert!(!after(UNPROVEN, &[true, true, true, true, false, false]).is_confident());
        assert!(!after(UNPROVEN, &[false; 50]).is_confident());
    }

    #[test]
    fn a_proof_is_used_until_it_is_wrong() {
        assert!(after(AFTER_PROOF, &[]).is_confident());
        assert!(!after(AFTER_PROOF, &[false]).is_confident());
    }

    #[test]
    fn one_miss_of_many_is_forgiven() {
        assert!(after(UNPROVEN, &[true, true, true, true, true, true, true, true, false]).is_confident());
    }

    #[test]
    fn batches_double_while_right_and_halve_when_wrong() {
        assert_eq!(after(UNPROVEN, &[]).ahead(), AHEAD_MIN);
        assert_eq!(after(UNPROVEN, &[true; 2]).ahead(), 4 * AHEAD_MIN);
        assert_eq!(after(UNPROVEN, &[true, true, false]).ahead(), 2 * AHEAD_MIN);
        assert_eq!(after(UNPROVEN, &[true; 40]).ahead(), AHEAD_MAX);
        assert_eq!(after(UNPROVEN, &[false; 40]).ahead(), AHEAD_MIN);
    }

    #[test]
    fn a_batch_lasts_as_long_as_it_is_right() {
        let mut confidence = Confidence::new(UNPROVEN, AHEAD_MIN);
        confidence.expect(&[run(1), run(2), run(3)]);
        assert!(!confidence.note_run(&run(1)));
        assert!(confidence.note_run(&(2000..2200)), "half of it was not expected");
        confidence.expect(&[run(3), run(4)]);
        assert!(!confidence.note_run(&run(3)));
        assert!(confidence.note_run(&run(4)));
    }

    #[test]
    fn no_prediction_counts_as_neither_right_nor_wrong() {
        let mut confidence = after(UNPROVEN, &[true; 6]);
        confidence.expect(&[]);
        for number in 0..50 {
            assert!(confidence.note_run(&run(number)), "it is asked again");
        }
        assert!(confidence.is_confident() && !confidence.leads());
    }
}
