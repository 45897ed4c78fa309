//! How long to wait before a source that failed is tried again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// A source that has sent media for this long counts as healthy: its next failure is a first one.
const HEALTHY_AFTER: Duration = Duration::from_secs(10);

/// Pauses of one source.
#[derive(Debug, Clone)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    /// Pauses from `min` to `max`.
    pub fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min), failures: 0 }
    }

    /// The pause after a failure that came when the source had sent media for `live`.
    ///
    /// `min * 2^(failures in a row - 1)`, at most `max`, and of that between three and five
    /// quarters: sources that fail together are not tried together. `random` is any number.
    pub fn pause(&mut self, live: Duration, random: u32) -> Duration {
        if live >= HEALTHY_AFTER {
            self.failures = 0;
        }
        let doubled = self.min.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        let part = f64::from(random) / f64::from(u32::MAX);
        doubled.min(self.max).mul_f64(0.75 + part / 2.0)
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

/// A number that differs from source to source and from time to time; it need not be secret.
pub fn random() -> u32 {
    RandomState::new().hash_one(0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIDDLE: u32 = u32::MAX / 2;

    fn seconds(pause: Duration) -> f64 {
        (pause.as_secs_f64() * 100.0).round() / 100.0
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew_after_health() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));
        let cases = [
            (0, 1.0),
            (0, 2.0),
            (9, 4.0), // too short to count as healthy
            (0, 5.0),
            (0, 5.0),
            (10, 1.0),
            (0, 2.0),
        ];
        for (live, expected) in cases {
            assert_eq!(
                seconds(backoff.pause(Duration::from_secs(live), MIDDLE)),
                expected,
                "live for {live}"
            );
        }
        assert_eq!(backoff.failures(), 2);
    }

    #[test]
    fn pauses_vary_by_a_quarter_and_never_overflow() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::MAX);
        assert_eq!(seconds(backoff.pause(Duration::ZERO, 0)), 0.75);
        assert_eq!(seconds(backoff.pause(Duration::ZERO, u32::MAX)), 2.5);
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        for _ in 0..100 {
            assert!(backoff.pause(Duration::ZERO, u32::MAX) <= Duration::from_millis(37_500));
        }
    }
}
