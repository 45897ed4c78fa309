//! Distributions of times: thin rules around `hdrhistogram`, so that every figure has one meaning.
//!
//! Values are recorded in microseconds from 1 µs to 10 minutes with two significant digits (an error of at
//! most 1 %); larger ones are recorded as 10 minutes rather than lost.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Distribution of durations.
#[derive(Clone, Debug)]
pub struct Times {
    histogram: Histogram<u64>,
}

/// The percentiles of a distribution that reports show, milliseconds.
#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
pub struct Percentiles {
    /// Values recorded.
    pub count: u64,
    /// Half of the values are not larger.
    pub p50_ms: f64,
    /// 95 % of the values are not larger.
    pub p95_ms: f64,
    /// 99 % of the values are not larger.
    pub p99_ms: f64,
    /// The largest value.
    pub max_ms: f64,
}

impl Times {
    /// An empty distribution.
    pub fn new() -> Times {
        let histogram =
            Histogram::new_with_bounds(1, LONGEST_US, 2).expect("the bounds are constant and valid");
        Times { histogram }
    }

    /// Adds one duration given in nanoseconds.
    pub fn record_ns(&mut self, value_ns: u64) {
        self.histogram.saturating_record((value_ns / 1000).max(1));
    }

    /// Adds all values of another distribution.
    pub fn merge(&mut self, other: &Times) {
        self.histogram.add(&other.histogram).expect("all distributions have the same bounds");
    }

    /// Forgets all values and keeps the memory.
    pub fn clear(&mut self) {
        self.histogram.clear();
    }

    /// The percentiles, or `None` while nothing was recorded.
    pub fn percentiles(&self) -> Option<Percentiles> {
        let at = |quantile| self.histogram.value_at_quantile(quantile) as f64 / 1000.0;
        (!self.histogram.is_empty()).then(|| Percentiles {
            count: self.histogram.len(),
            p50_ms: at(0.50),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            max_ms: self.histogram.max() as f64 / 1000.0,
        })
    }
}

impl Default for Times {
    fn default() -> Times {
        Times::new()
    }
}

/// Counters that are summed over sessions, and whose growth is looked at.
pub trait Counted {
    /// Adds those of `other`.
    fn add(&mut self, other: &Self);

    /// What was added since `earlier`, an older copy.
    #[must_use]
    fn since(&self, earlier: &Self) -> Self;
}

macro_rules! counted_numbers {
    ($($number:ty),*) => {
        $(impl Counted for $number {
            fn add(&mut self, other: &Self) {
                *self += *other;
            }

            fn since(&self, earlier: &Self) -> Self {
                self.saturating_sub(*earlier)
            }
        })*
    };
}

counted_numbers!(u64, usize);

/// A struct of counters is [`Counted`] field by field.
macro_rules! counted {
    ($Name:ident { $($field:ident),* }) => {
        impl $crate::stats::Counted for $Name {
            fn add(&mut self, other: &Self) {
                $($crate::stats::Counted::add(&mut self.$field, &other.$field);)*
            }

            fn since(&self, earlier: &Self) -> Self {
                Self { $($field: $crate::stats::Counted::since(&self.$field, &earlier.$field)),* }
            }
        }
    };
}
pub(crate) use counted;

const LONGEST_US: u64 = 600_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_follow_the_values() {
        let mut times = Times::new();
        assert_eq!(times.percentiles(), None);
        for ms in 1..=100 {
            times.record_ns(ms * 1_000_000);
        }
        let percentiles = times.percentiles().expect("values were recorded");
        assert_eq!(percentiles.count, 100);
        for (value, exact) in [
            (percentiles.p50_ms, 50.0),
            (percentiles.p95_ms, 95.0),
            (percentiles.p99_ms, 99.0),
            (percentiles.max_ms, 100.0),
        ] {
            assert!((value - exact).abs() <= exact * 0.011, "{value} is not {exact}");
        }
    }

    #[test]
    fn values_out_of_bounds_are_kept_at_the_bound() {
        let mut times = Times::new();
        times.record_ns(0);
        times.record_ns(u64::MAX);
        let percentiles = times.percentiles().expect("values were recorded");
        assert_eq!(percentiles.count, 2);
        assert!(percentiles.p50_ms <= 0.002 && percentiles.max_ms >= 590_000.0, "{percentiles:?}");
    }

    #[test]
    fn merging_adds_and_clearing_empties() {
        let (mut a, mut b) = (Times::new(), Times::new());
        a.record_ns(1_000_000);
        b.record_ns(9_000_000);
        a.merge(&b);
        assert_eq!(a.percentiles().map(|p| p.count), Some(2));
        a.clear();
        assert_eq!(a.percentiles(), None);
    }
}
