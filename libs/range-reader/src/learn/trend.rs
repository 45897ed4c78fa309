//! Runs that come at a steady pace with some jitter, as those of an interleaved file of constant
//! bit rate.
//!
//! Starts and ends are each extrapolated from the newer half of those known, because files begin
//! differently from how they continue: along a line around which they vary, or by steps from the
//! last one; where long and short runs alternate, from every second one. Their deviation determines
//! the error of a guess, and so the margins on both sides. Where margins would cover most of the
//! gaps, nothing is predicted.

use std::f64::consts::PI;
use std::ops::Range;

use super::runs::Runs;

/// Runs expected at a time, and no more than half of those known: farther ahead a line says little.
/// Each batch is a request, and one more is needed for each miss.
pub(super) const AHEAD_MAX: usize = 32;

/// Fewer are not worth expecting: the next question would have to wait for the response to this
/// one.
const AHEAD_MIN: usize = 2;

/// Minimum number of samples: with fewer, their deviation is chance.
const LINE_MIN: usize = 4;

/// Below this the statistic of Durbin and Watson says that numbers wander off rather than stray
/// from a line.
const WANDERING: f64 = 0.5;

/// Every second number is used only if that halves the error of guesses.
const ALTERNATION_FACTOR: f64 = 2.0;

/// Runs of late whose longest says what is too long.
const LENGTHS: usize = 8;

/// Expecting runs must cost this share at most of reading the gaps through, or of asking for each
/// run when it is read; the rest is for what is not reckoned with.
const SPARED_SHARE_MAX: f64 = 0.6;

/// A miss that is hidden costs this part of its round trip all the same: those that come too close
/// upon each other, and those near the end, where nothing else comes.
const HIDDEN_MISS_DIVISOR: f64 = 2.5;

/// A batch as a whole costs about as much as so many misses.
const BATCH_MISSES: f64 = 1.0;

/// Margins are so many standard deviations at most: what is left outside then is outside of any
/// pattern.
const MARGIN_MAX: f64 = 3.0;

/// And so many at least where misses are hidden: with them one run in fourteen still wants a byte that
/// has not been asked for, at the cost of a request.
const MARGIN_MIN: f64 = 1.8;

/// A run may be expected, margins included, to be so many times as long as the longest of late.
const LENGTH_FACTOR_MAX: f64 = 4.0;

/// The cost of guessing wrong, and of not guessing, in bytes that could have arrived meanwhile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Costs {
    /// A boundary that is missed.
    miss_bytes: f64,
    /// A run that is not expected costs its gap, or this if it is less.
    spared_max: f64,
    /// Margins are so many standard deviations at least.
    margin_min: f64,
}

impl Costs {
    /// Of a reader that waits for each miss while nothing else comes, on a link that could bring
    /// `path_bytes` in that time.
    pub(super) fn waited(path_bytes: f64) -> Self {
        Self { miss_bytes: path_bytes, spared_max: f64::INFINITY, margin_min: 0.0 }
    }

    /// For a reader that waits while the following data continues to arrive. What is not guessed is
    /// read through, or requested when it is read, whichever is cheaper.
    pub(super) fn hidden(path_bytes: f64) -> Self {
        Self { miss_bytes: path_bytes / HIDDEN_MISS_DIVISOR, spared_max: path_bytes, margin_min: MARGIN_MIN }
    }
}

/// What the runs so far expect from `position` on, a place in the present run.
///
/// With margins of `z` standard deviations a boundary costs `miss_bytes * P(off by more than z)`
/// and the margin itself. That is least where one more byte of margin costs as much as it saves,
/// `miss_bytes * density(z) = deviation`, so
///
/// ```text
/// z = sqrt(2 ln(miss_bytes / (deviation * sqrt(2 pi))))
/// ```
///
/// and something is expected only if that, and one miss for the batch as a whole, costs less than
/// what it spares.
pub(super) fn expect(runs: &Runs, position: u64, runs_max: usize, costs: Costs) -> Vec<Range<u64>> {
    let history = History::of(runs);
    let spared = history.gap.min(costs.spared_max);
    let Some(end) = history.end_of_present() else { return Vec::new() };
    // A run that is longer than expected is expected to continue for as much as ends vary; one that
    // is longer still is outside any pattern.
    let beyond = position as f64 - end.number;
    if beyond > end.deviation * MARGIN_MAX {
        return Vec::new();
    }
    let end = if beyond < 0.0 {
        end.number + end.margin(costs)
    } else {
        position as f64 + end.margin(costs).max(end.deviation)
    };
    let end = end.min(position as f64 + history.longest * LENGTH_FACTOR_MAX);
    let mut expected = Vec::with_capacity(AHEAD_MAX);
    expected.push(position..whole(end).max(position));
    let mut cost = costs.miss_bytes * BATCH_MISSES;
    let mut worth = 1;
    for ahead in 1..runs_max.min(AHEAD_MAX).min((history.ends.len() / 2).max(LINE_MIN)) {
        let start = Guess::of(&history.starts, ahead);
        let end = Guess::of(&history.ends, ahead + 1);
        let Some((start, end)) = start.zip(end) else { break };
        let (first, last) = (start.number - start.margin(costs), end.number + end.margin(costs));
        if last - first > history.longest * LENGTH_FACTOR_MAX {
            break;
        }
        let own = start.cost(costs) + end.cost(costs);
        // What wanders off is guessed the worse the farther ahead it is.
        if own > spared * SPARED_SHARE_MAX {
            break;
        }
        cost += own;
        let previous = expected.last().map_or(position, |last| last.end);
        let first = whole(first).max(previous);
        expected.push(first..whole(last).max(first));
        if cost < spared * ahead as f64 * SPARED_SHARE_MAX {
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
    /// Length of the longest of the [`LENGTHS`] newest.
    longest: f64,
}

/// A number that is expected, and how far off it may be.
#[derive(Debug, Clone, Copy)]
struct Guess {
    number: f64,
    /// Standard deviation of its predictions.
    deviation: f64,
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
        let lengths = ends.iter().zip(&starts).rev().take(LENGTHS).map(|(end, start)| end - start);
        let longest = lengths.fold(0.0, f64::max);
        Self { starts, ends, gap, longest }
    }

    /// Where the present run ends: by the ends of others, or by its own start and the lengths of
    /// others, whichever is the surer.
    fn end_of_present(&self) -> Option<Guess> {
        let lengths: Vec<f64> = self.ends.iter().zip(&self.starts).map(|(end, start)| end - start).collect();
        let (mut by_length, by_end) = (Guess::of(&lengths, 1)?, Guess::of(&self.ends, 1)?);
        by_length.number += self.starts.last()?;
        Some(if by_length.deviation < by_end.deviation { by_length } else { by_end })
    }
}

impl Guess {
    /// The number `ahead` behind the last of `numbers`.
    fn of(numbers: &[f64], ahead: usize) -> Option<Self> {
        let each = Self::from_each(numbers, ahead, 1)?;
        let second = Self::from_each(numbers, ahead, 2);
        let alternates = |second: &Self| second.deviation * ALTERNATION_FACTOR < each.deviation;
        Some(second.filter(alternates).unwrap_or(each))
    }

    /// The same from those `numbers` alone that are a multiple of `step` before the one that is
    /// asked for, the newer half.
    ///
    /// If they stray from a line to either side by turns, as they do where something holds the pace
    /// (a constant bit rate), it is on the line of least squares. With `n` of them around the mean
    /// place `m`, straying by `s` (`n - 2` degrees of freedom), the one at place `x` strays from
    /// the line by `s * sqrt(1 + 1/n + (x - m)^2 / sum((place - m)^2))`.
    ///
    /// If each deviates from the previous one (the Durbin-Watson statistic, 2 in the first case,
    /// tends to 0), it continues from the last by the mean step; `k` steps of deviation `d` deviate
    /// by `d * sqrt(k + k^2 / (n - 1))`.
    fn from_each(numbers: &[f64], ahead: usize, step: usize) -> Option<Self> {
        let target = (numbers.len() + ahead).checked_sub(1)?;
        let places = (ahead.div_ceil(step)..).map_while(|back| target.checked_sub(back * step));
        let known: Vec<(f64, f64)> = places
            .take((numbers.len() / 2 / step).max(LINE_MIN))
            .map(|place| (place as f64, numbers[place]))
            .collect();
        let (&[newest, .., oldest], true) = (&known[..], known.len() >= LINE_MIN) else { return None };
        let count = known.len() as f64;
        let freedom = count - 2.0;
        let mean_place = known.iter().map(|(place, _)| place).sum::<f64>() / count;
        let mean = known.iter().map(|(_, number)| number).sum::<f64>() / count;
        let squares: f64 = known.iter().map(|(place, _)| (place - mean_place).powi(2)).sum();
        let products: f64 = known.iter().map(|(place, number)| (place - mean_place) * (number - mean)).sum();
        let slope = products / squares;
        let at = |place: f64| mean + slope * (place - mean_place);
        let strays: f64 = known.iter().map(|&(place, number)| (number - at(place)).powi(2)).sum();
        let step_mean = (newest.1 - oldest.1) / (count - 1.0);
        let steps: f64 = known.windows(2).map(|pair| (pair[0].1 - pair[1].1 - step_mean).powi(2)).sum();
        let target = target as f64;
        if steps < strays * WANDERING {
            let ahead = (target - newest.0) / step as f64;
            let deviation = (steps / freedom * (ahead + ahead * ahead / (count - 1.0))).sqrt();
            return Some(Self { number: newest.1 + step_mean * ahead, deviation });
        }
        let widening = 1.0 + 1.0 / count + (target - mean_place).powi(2) / squares;
        Some(Self { number: at(target), deviation: (strays / freedom * widening).sqrt() })
    }

    /// The margin that is worth its bytes.
    fn margin(self, costs: Costs) -> f64 {
        let ratio = costs.miss_bytes / (self.deviation.max(1.0) * (2.0 * PI).sqrt());
        self.deviation * (2.0 * ratio.max(1.0).ln()).sqrt().clamp(costs.margin_min, MARGIN_MAX)
    }

    /// What the margin and the misses in spite of it cost: `density(z) / z` is a little more than
    /// the tail of the normal distribution from `z` on, for `z` of 1 and more.
    fn cost(self, costs: Costs) -> f64 {
        let margin = self.margin(costs);
        let z = margin / self.deviation.max(1.0);
        let density = (-z * z / 2.0).exp() / (2.0 * PI).sqrt();
        margin + costs.miss_bytes * density / z.max(1.0)
    }
}

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
        expect(&runs, position, 12, Costs::waited(16_000.0))
    }

    #[test]
    fn an_even_pace_is_continued_to_the_byte() {
        let runs = steady(40, 0);
        assert_eq!(expected_after(&runs[..25]), runs[24..36]);
        assert_eq!(expected_after(&runs[..9]), runs[8..12]);
        assert_eq!(expected_after(&runs[..5]), runs[4..8]);
    }

    #[test]
    fn alternating_runs_are_continued_in_turn() {
        let runs: Vec<_> = (0..40_u64)
            .map(|n| n * 50_000 + (n & 1) * 9000..n * 50_000 + 20_000 + (n & 1) * 15_000)
            .collect();
        assert_eq!(expected_after(&runs[..25]), runs[24..36]);
    }

    #[test]
    fn jitter_becomes_margins_that_cover_most_of_each_run() {
        let runs = steady(120, 4000);
        let (mut missing, mut surplus) = (0, 0);
        for present in 30..110 {
            let expected = expected_after(&runs[..=present]);
            assert_eq!(expected.len(), 12, "run {present}");
            for (expected, run) in expected.iter().zip(&runs[present..]).skip(1) {
                missing += expected.start.saturating_sub(run.start) + run.end.saturating_sub(expected.end);
                surplus += run.start.saturating_sub(expected.start) + expected.end.saturating_sub(run.end);
            }
        }
        let runs_compared = 80 * 11;
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
        for count in 0..LINE_MIN {
            assert_eq!(expected_after(&runs[..count]), [], "{count} runs");
        }
    }

    #[test]
    fn a_run_that_goes_on_is_expected_to_go_on_a_little() {
        let mut runs = Runs::default();
        for run in steady(30, 2000) {
            runs.note(run);
        }
        let position = runs.present().start + 94_000;
        runs.note(runs.present().start..position);
        let expected = expect(&runs, position, 4, Costs::waited(16_000.0));
        assert_eq!(expected[0].start, position);
        assert!((position + 1..position + 5000).contains(&expected[0].end), "{expected:?}");
        let beyond = position + 50_000;
        runs.note(position..beyond);
        assert_eq!(expect(&runs, beyond, 4, Costs::waited(16_000.0)), [], "that is no jitter");
    }
}
