//! Runs that repeat to the byte: records of fixed size, parts of them, several fields of each.
//!
//! A pattern is a few lengths and the steps from each start to the next, forward or back. It is
//! recognized when the last runs went through all of it twice.

use std::ops::Range;

use super::runs::Runs;

/// Runs of a pattern at most.
const PERIOD_MAX: usize = 8;

/// Runs that must be as those one period before, even where the pattern is shorter.
const PROOFS_MIN: usize = 2;

/// What the pattern of the last runs, if there is one, expect from `position` on, a position in the
/// current run.
pub(super) fn expect(runs: &Runs, position: u64, runs_max: usize) -> Vec<Range<u64>> {
    let present = runs.present().start;
    let mut next = present;
    // Newest first: how far each run lies behind the one before it, and how long the one before it
    // was.
    let steps: Vec<Step> = runs
        .newest_first()
        .take(2 * PERIOD_MAX + 1)
        .map(|run| Step {
            forward: i128::from(std::mem::replace(&mut next, run.start)) - i128::from(run.start),
            length: run.end - run.start,
        })
        .collect();
    let Some(period) = (1..=PERIOD_MAX).find(|period| repeats(&steps, *period)) else { return Vec::new() };
    let mut expected = Vec::new();
    let mut start = present;
    for step in steps[..period].iter().rev().cycle().take(runs_max) {
        let Some(end) = start.checked_add(step.length) else { break };
        // The first one is in flight, and may have exceeded its expected length.
        let from = if expected.is_empty() { position } else { start };
        expected.push(from..end.max(from));
        let Ok(next) = u64::try_from(i128::from(start) + step.forward) else { break };
        start = next;
    }
    expected
}

/// A run, and the distance from its start to the next one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    forward: i128,
    length: u64,
}

/// Whether the newest steps are those of one period before.
fn repeats(steps: &[Step], period: usize) -> bool {
    let proofs = period.max(PROOFS_MIN);
    steps.len() >= period + proofs && steps[..proofs] == steps[period..period + proofs]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected_after(reads: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut runs = Runs::default();
        for read in reads {
            runs.note(read.clone());
        }
        let position = runs.present().start;
        expect(&runs, position, 6)
    }

    /// Steps and lengths.
    type Pattern = &'static [(i64, u64)];

    /// The first runs of a pattern.
    fn pattern(pattern: Pattern, count: usize) -> Vec<Range<u64>> {
        let mut start = 1_000_000_u64;
        let steps = pattern.iter().cycle().take(count);
        steps
            .map(|(step, length)| {
                let run = start..start + length;
                start = start.checked_add_signed(*step).expect("patterns stay in the file");
                run
            })
            .collect()
    }

    #[test]
    fn patterns_are_continued_after_two_rounds() {
        let cases: [(&str, Pattern, usize); 4] = [
            ("records", &[(1000, 100)], 3),
            ("backwards", &[(-5000, 300)], 3),
            ("two fields of each record", &[(300, 8), (4000, 64)], 4),
            ("two tracks, one behind the other", &[(500_000, 900), (-490_000, 80), (700, 20)], 6),
        ];
        for (name, steps, proven_by) in cases {
            let runs = pattern(steps, 40);
            for seen in 1..30 {
                let expected = expected_after(&runs[..=seen]);
                let right = if seen < proven_by { &[] } else { &runs[seen..seen + 6] };
                assert_eq!(expected, right, "{name}, {seen} runs");
            }
        }
    }

    #[test]
    fn one_deviation_ends_a_pattern() {
        let mut runs = pattern(&[(1000, 100)], 20);
        runs[12].end += 1;
        runs.truncate(14);
        assert_eq!(expected_after(&runs), []);
    }

    #[test]
    fn patterns_do_not_leave_the_numbers() {
        let down: Vec<_> = (0..5_u64).rev().map(|n| n * 1000..n * 1000 + 10).collect();
        assert_eq!(expected_after(&down).len(), 1);
        let up: Vec<_> = (0..5_u64).rev().map(|n| u64::MAX - n * 1000 - 10..u64::MAX - n * 1000).collect();
        assert_eq!(expected_after(&up).len(), 1);
    }
}
