//! Runs that come at a steady pace with some jitter, as those of an interleaved file of constant bit rate.
//!
//! Starts and ends each go on at a pace: a level and a slope, remembered over more or fewer runs, for each run or for each
//! second one where long and short runs alternate. How far a pace misses is found by asking it about runs that have been
//! read, as many runs ahead as it is going to be asked about; that makes the margins on both sides. Where margins would take
//! most of the gaps, nothing is said.

use std::f64::consts::PI;
use std::ops::Range;

use super::runs::Runs;

/// Runs expected at a time. The farther ahead, the fewer independent tests tell the margin.
pub(super) const AHEAD_MAX: usize = 12;

/// Fewer are not worth expecting: the next question would have to wait for the answer to this one.
const AHEAD_MIN: usize = 2;

/// Paces that are tried: a level from so many of the newest runs, a slope over so many. Short memories follow a pace that
/// changes, long ones even the jitter out.
const MEMORIES: [(usize, usize); 5] = [(1, 1), (2, 2), (2, 8), (4, 16), (8, 32)];

/// Each run like the last, or like the one before the last.
const PERIODS: [usize; 2] = [1, 2];

/// Tests of a pace, on the newest runs, at most and at least.
const TESTS_MAX: usize = 8;
const TESTS_MIN: usize = 3;

/// Expecting runs must cost this share at most of reading the gaps through; the rest is for what is not reckoned with.
const GAP_SHARE_MAX: f64 = 0.75;

/// A batch as a whole costs about as much as so many misses.
const BATCH_MISSES: f64 = 1.0;

/// Margins are so many standard deviations at most: what is left outside then is outside of any pattern.
const MARGIN_MAX: f64 = 3.0;

/// A run may be expected, margins included, to be so many times as long as the longest of late.
const LENGTH_FACTOR_MAX: f64 = 4.0;

/// What the runs so far expect from `position` on, a place in the present run, where a boundary that is missed costs as much
/// as `miss_bytes` received in vain.
///
/// With margins of `z` standard deviations a boundary costs `miss_bytes * P(off by more than z)` and the margin itself. That
/// is least where one more byte of margin costs as much as it saves, `miss_bytes * density(z) = deviation`, so
///
/// ```text
/// z = sqrt(2 ln(miss_bytes / (deviation * sqrt(2 pi))))
/// ```
///
/// and something is expected only if that, and one miss for the batch as a whole, costs less than the gaps.
pub(super) fn expect(runs: &Runs, position: u64, runs_max: usize, miss_bytes: f64) -> Vec<Range<u64>> {
    let history = History::of(runs);
    let Some(end) = history.end_of_present() else { return Vec::new() };
    let margin = end.margin(miss_bytes);
    // A run that is longer than expected is expected to go on for as much as ends vary.
    let end =
        if end.number + margin > position as f64 { end.number + margin } else { position as f64 + margin };
    let mut expected = Vec::with_capacity(AHEAD_MAX);
    expected.push(position..whole(end).max(position));
    let mut cost = miss_bytes * BATCH_MISSES;
    let mut worth = 1;
    for ahead in 1..runs_max.min(AHEAD_MAX) {
        let start = Guess::of(&history.starts, ahead);
        let end = Guess::of(&history.ends, ahead + 1);
        let Some((start, end)) = start.zip(end) else { break };
        let (first, last) = (start.number - start.margin(miss_bytes), end.number + end.margin(miss_bytes));
        if last - first > history.longest * LENGTH_FACTOR_MAX {
            break;
        }
        cost += start.cost(miss_bytes) + end.cost(miss_bytes);
        let previous = expected.last().map_or(position, |last| last.end);
        expected.push(whole(first).max(previous)..whole(last).max(previous));
        if cost < history.gap * ahead as f64 * GAP_SHARE_MAX {
            worth = expected.len();
        }
    }
    expected.truncate(worth);
    if expected.len() < AHEAD_MIN.min(runs_max) { Vec::new() } else { expected }
}

/// Runs that follow each other in the file.
#[derive(Debug)]
struct History {
    /// Where they begin, oldest first, the present one too.
    starts: Vec<f64>,
    /// Where they end, oldest first, the present one not.
    ends: Vec<f64>,
    /// Bytes between two of them: the median, so that a jump does not count.
    gap: f64,
    /// Length of the longest of the [`TESTS_MAX`] newest.
    longest: f64,
}

/// A number that is expected, and how far off it may be.
#[derive(Debug, Clone, Copy)]
struct Guess {
    number: f64,
    /// Standard deviation of earlier guesses of this kind.
    deviation: f64,
}

/// How numbers go on: from a level, by a slope, each one like those whole periods before it.
#[derive(Debug, Clone, Copy)]
struct Pace {
    period: usize,
    /// Numbers that the level is the mean of, and periods that the slope is taken over.
    level: usize,
    slope: usize,
}

impl History {
    fn of(runs: &Runs) -> Self {
        let mut next = runs.present().start;
        let (mut starts, mut ends) = (vec![next as f64], Vec::new());
        for run in runs.newest_first().take_while(|run| std::mem::replace(&mut next, run.start) > run.end) {
            starts.push(run.start as f64);
            ends.push(run.end as f64);
        }
        starts.reverse();
        ends.reverse();
        let mut gaps: Vec<f64> = ends.iter().zip(&starts[1..]).map(|(end, start)| start - end).collect();
        gaps.sort_unstable_by(f64::total_cmp);
        let gap = gaps.get(gaps.len() / 2).copied().unwrap_or(0.0);
        let lengths = ends.iter().zip(&starts).rev().take(TESTS_MAX).map(|(end, start)| end - start);
        let longest = lengths.fold(0.0, f64::max);
        Self { starts, ends, gap, longest }
    }

    /// Where the present run ends: by the ends of others, or by its own start and the lengths of others,
    /// whichever is the surer.
    fn end_of_present(&self) -> Option<Guess> {
        let lengths: Vec<f64> = self.ends.iter().zip(&self.starts).map(|(end, start)| end - start).collect();
        let (mut by_length, by_end) = (Guess::of(&lengths, 1)?, Guess::of(&self.ends, 1)?);
        by_length.number += self.starts.last()?;
        Some(if by_length.deviation < by_end.deviation { by_length } else { by_end })
    }
}

impl Guess {
    /// The number `ahead` behind the last of `numbers`: what the paces say on average, those that would have guessed the
    /// last ones well counting far more than the others. (Choosing the best by so few tests chooses luck, too.)
    fn of(numbers: &[f64], ahead: usize) -> Option<Self> {
        let (mut weights, mut sum, mut deviation) = (0.0, 0.0, f64::INFINITY);
        for pace in PERIODS
            .into_iter()
            .flat_map(|period| MEMORIES.map(|(level, slope)| Pace { period, level, slope }))
        {
            let tested = pace.deviation(numbers, ahead).zip(pace.extrapolate(numbers, ahead));
            let Some((of_pace, number)) = tested else { continue };
            let weight = of_pace.max(1.0).powi(-4);
            (weights, sum, deviation) = (weights + weight, sum + weight * number, of_pace.min(deviation));
        }
        (weights > 0.0).then(|| Self { number: sum / weights, deviation })
    }

    /// The margin that is worth its bytes.
    fn margin(self, miss_bytes: f64) -> f64 {
        let ratio = miss_bytes / (self.deviation.max(1.0) * (2.0 * PI).sqrt());
        self.deviation * (2.0 * ratio.max(1.0).ln()).sqrt().min(MARGIN_MAX)
    }

    /// What the margin and the misses in spite of it cost: for `z` over 1 the tail of the normal distribution is about
    /// `density(z) / z`, and `miss_bytes * density(z)` is the deviation.
    fn cost(self, miss_bytes: f64) -> f64 {
        let margin = self.margin(miss_bytes);
        margin + self.deviation * self.deviation / margin.max(self.deviation).max(1.0)
    }
}

impl Pace {
    /// The number `ahead` behind the last of `numbers`.
    fn extrapolate(self, numbers: &[f64], ahead: usize) -> Option<f64> {
        let last = numbers.len().checked_sub(1)?;
        let periods = self.slope.min(last / self.period);
        if periods == 0 {
            return None;
        }
        let slope = (numbers[last] - numbers[last - periods * self.period]) / periods as f64;
        let target = last + ahead;
        let back = (ahead.div_ceil(self.period)..).take(self.level);
        let levels = back
            .map_while(|back| Some(numbers[target.checked_sub(back * self.period)?] + slope * back as f64));
        let (count, sum) = levels.fold((0.0, 0.0), |(count, sum), level| (count + 1.0, sum + level));
        (count > 0.0).then(|| sum / count)
    }

    /// By how much it would have missed the last of `numbers`, asked `ahead` before each: the standard deviation, estimated
    /// by the median so that single jumps do not count. `None` with too few numbers.
    fn deviation(self, numbers: &[f64], ahead: usize) -> Option<f64> {
        let known = (self.period + 1..=numbers.len().checked_sub(ahead)?).rev();
        let mut missed: Vec<f64> = known
            .take(TESTS_MAX)
            .map_while(|known| {
                Some((numbers[known + ahead - 1] - self.extrapolate(&numbers[..known], ahead)?).abs())
            })
            .collect();
        if missed.len() < TESTS_MIN {
            return None;
        }
        missed.sort_unstable_by(f64::total_cmp);
        Some(missed[missed.len() / 2] * DEVIATIONS_PER_MEDIAN)
    }
}

/// The median of the absolute value is 0.6745 standard deviations of a normal distribution.
const DEVIATIONS_PER_MEDIAN: f64 = 1.4826;

/// A place in a file: no less than its beginning.
fn whole(number: f64) -> u64 {
    number.max(0.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs at a pace of 140,000 bytes, 90,000 long, `jitter` bytes off at most.
    fn steady(count: u64, jitter: u64) -> Vec<Range<u64>> {
        let mut random = 1_u64;
        let mut off = move || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % (2 * jitter + 1)
        };
        (0..count).map(|n| n * 140_000 + off()..n * 140_000 + 90_000 + off()).collect()
    }

    fn expected_after(reads: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut runs = Runs::default();
        for read in reads {
            runs.note(read.clone());
        }
        let position = runs.present().start;
        expect(&runs, position, 100, 16_000.0)
    }

    #[test]
    fn an_even_pace_is_continued_to_the_byte() {
        let runs = steady(30, 0);
        assert_eq!(expected_after(&runs[..18]), runs[17..17 + AHEAD_MAX]);
        assert_eq!(expected_after(&runs[..9]), runs[8..12]);
    }

    #[test]
    fn alternating_runs_are_continued_in_turn() {
        let runs: Vec<_> = (0..40_u64)
            .map(|n| n * 50_000 + (n & 1) * 9000..n * 50_000 + 20_000 + (n & 1) * 15_000)
            .collect();
        assert_eq!(expected_after(&runs[..25]), runs[24..24 + AHEAD_MAX]);
    }

    #[test]
    fn jitter_becomes_margins_that_cover_most_of_each_run() {
        let runs = steady(120, 4000);
        let (mut missing, mut surplus) = (0, 0);
        for present in 30..110 {
            let expected = expected_after(&runs[..=present]);
            assert_eq!(expected.len(), AHEAD_MAX, "run {present}");
            for (expected, run) in expected.iter().zip(&runs[present..]).skip(1) {
                missing += expected.start.saturating_sub(run.start) + run.end.saturating_sub(expected.end);
                surplus += run.start.saturating_sub(expected.start) + expected.end.saturating_sub(run.end);
            }
        }
        let runs_compared = 80 * (AHEAD_MAX as u64 - 1);
        assert!(missing / runs_compared < 1500, "missing {missing}");
        assert!(surplus / runs_compared < 9000, "surplus {surplus}");
    }

    #[test]
    fn what_keeps_no_pace_is_expected_to_be_small() {
        let mut random = 7_u64;
        let mut start = 0;
        let reads: Vec<_> = (0..60)
            .map(|_| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                start += 1000 + (random >> 40) % (1 << (10 + (random >> 33) % 14));
                start..start + 500
            })
            .collect();
        for present in 0..60 {
            let expected = expected_after(&reads[..=present]);
            let longest = expected.iter().map(|range| range.end - range.start).max();
            assert!(longest.is_none_or(|longest| longest <= 4 * 500), "run {present}: {expected:?}");
        }
    }

    #[test]
    fn few_runs_say_nothing() {
        let runs = steady(10, 0);
        for count in 0..5 {
            assert_eq!(expected_after(&runs[..count]), [], "{count} runs");
        }
    }

    #[test]
    fn a_run_that_goes_on_is_expected_to_go_on_a_little() {
        let mut runs = Runs::default();
        for run in steady(30, 2000) {
            runs.note(run);
        }
        let position = runs.present().start + 97_000;
        runs.note(runs.present().start..position);
        let expected = expect(&runs, position, 4, 16_000.0);
        assert_eq!(expected[0].start, position);
        assert!((position + 1..position + 5000).contains(&expected[0].end), "{expected:?}");
    }
}
