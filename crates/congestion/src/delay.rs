//! How long packets wait in the path, from one-way delays against the least of the last ten
//! seconds.
//!
//! The two clocks need not agree: only differences count, and ten seconds of drift are a
//! millisecond.

/// Least delays of the last ten seconds, and what counts as a delay at all.
#[derive(Debug)]
pub(crate) struct Delay {
    /// Least one-way delay in each period of 2.5 s.
    least: [Option<i64>; PERIODS],
    period: u64,
    absurd: u32,
}

impl Delay {
    pub(crate) fn new() -> Self {
        Self { least: [None; PERIODS], period: 0, absurd: 0 }
    }

    /// Takes the one-way delay of a packet, without the time it took itself on the slowest link.
    /// How long it waited; `None` if such a delay cannot be.
    #[inline]
    pub(crate) fn waited(&mut self, one_way_us: i64, now_us: u64, keep: bool) -> Option<i64> {
        let period = now_us / PERIOD_US;
        if keep && period != self.period {
            // What is least now is no empty queue: what was counts on, and for ten seconds more.
            let base = self.base();
            self.least = [None; PERIODS];
            self.least[period as usize % PERIODS] = base;
            self.period = period;
        } else if period != self.period {
            for passed in 1..=(period - self.period).min(PERIODS as u64) {
                self.least[(self.period + passed) as usize % PERIODS] = None;
            }
            self.period = period;
        }
        if let Some(base) = self.base() {
            let waited = one_way_us - base;
            if !(-ABSURD_US..=ABSURD_US).contains(&waited) {
                self.absurd += 1;
                if self.absurd < ABSURD_MAX {
                    return None;
                }
                // The receiver's clock was set, and has stayed there.
                self.least = [None; PERIODS];
            }
        }
        self.absurd = 0;
        let least = &mut self.least[period as usize % PERIODS];
        *least = Some(least.map_or(one_way_us, |least| least.min(one_way_us)));
        self.base().map(|base| one_way_us - base)
    }

    /// Takes what has been least lately as the path without a queue: the route has become longer,
    /// or others keep a queue that does not go away.
    pub(crate) fn accept_queue(&mut self, queue_us: i64) {
        if let Some(base) = self.base() {
            self.least = [None; PERIODS];
            self.least[self.period as usize % PERIODS] = Some(base + queue_us);
        }
    }

    /// The delay of the path without a queue, by the receiver's clock.
    pub(crate) fn base(&self) -> Option<i64> {
        self.least.iter().flatten().min().copied()
    }
}

const PERIODS: usize = 4;
const PERIOD_US: u64 = 2_500_000;
/// No queue that a call survives is longer.
const ABSURD_US: i64 = 10_000_000;
const ABSURD_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_against_the_least_of_ten_seconds() {
        let mut delay = Delay::new();
        for (seconds, one_way_us, waited, remark) in [
            (0, 5_000_020_000, Some(0), "first, by another clock"),
            (1, 5_000_050_000, Some(30_000), "later"),
            (2, 5_000_010_000, Some(0), "the route got shorter"),
            (8, 5_000_015_000, Some(5_000), "not yet forgotten"),
            (13, 5_000_025_000, Some(10_000), "the least is forgotten"),
            (14, 5_020_000_000, None, "nothing waits so long"),
            (15, 4_980_000_000, None, "nor arrives so early"),
        ] {
            assert_eq!(delay.waited(one_way_us, seconds * 1_000_000, false), waited, "{remark}");
        }
    }

    #[test]
    fn what_is_kept_is_not_forgotten_at_once_afterwards() {
        for kept_until in 20..30 {
            let mut delay = Delay::new();
            delay.waited(10_000, 0, false);
            (1..kept_until).for_each(|second| _ = delay.waited(300_000, second * 1_000_000, true));
            let after = delay.waited(300_000, (kept_until + 6) * 1_000_000, false);
            assert_eq!(after, Some(290_000), "{kept_until}");
            assert_eq!(delay.waited(300_000, (kept_until + 12) * 1_000_000, false), Some(0), "{kept_until}");
        }
    }

    #[test]
    fn a_clock_that_stays_set_is_taken() {
        let mut delay = Delay::new();
        assert_eq!(delay.waited(0, 0, false), Some(0));
        let waits: Vec<_> = (0..70).map(|_| delay.waited(3_600_000_000, 1, false)).collect();
        assert_eq!((waits[62], waits[63], waits[69]), (None, Some(0), Some(0)));
    }

    #[test]
    fn a_queue_that_is_accepted_is_none() {
        let mut delay = Delay::new();
        delay.waited(10_000, 0, false);
        assert_eq!(delay.waited(60_000, 1, false), Some(50_000));
        delay.accept_queue(50_000);
        assert_eq!(delay.waited(61_000, 2, false), Some(1_000));
    }
}
