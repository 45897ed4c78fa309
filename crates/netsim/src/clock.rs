//! The time of a simulation: moves only when the test moves it, and only forward.

use std::time::{Duration, Instant};

/// A virtual clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    now: Instant,
}

impl Clock {
    /// A clock at the beginning of a simulation.
    #[expect(
        clippy::disallowed_methods,
        reason = "std has no other way to make an Instant; which one it is decides nothing"
    )]
    pub fn new() -> Self {
        let start = Instant::now();
        Self { start, now: start }
    }

    /// Advances to `at`, unless that is in the past.
    pub fn advance_to(&mut self, at: Instant) {
        self.now = self.now.max(at);
    }

    /// Advances by `by`.
    pub fn advance(&mut self, by: Duration) {
        self.now += by;
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    /// The moment `after` the beginning.
    pub fn at(&self, after: Duration) -> Instant {
        self.start + after
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// The earliest of the timeouts of all parts of a simulation; `None` if there is none.
pub fn earliest(timeouts: impl IntoIterator<Item = Option<Instant>>) -> Option<Instant> {
    timeouts.into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_forward_only() {
        let mut clock = Clock::new();
        let start = clock.now();
        clock.advance(Duration::from_secs(5));
        clock.advance_to(start);
        assert_eq!(clock.elapsed(), Duration::from_secs(5));
        clock.advance_to(clock.at(Duration::from_secs(9)));
        assert_eq!(clock.now(), start + Duration::from_secs(9));
        assert_eq!(earliest([None, Some(clock.now()), Some(start)]), Some(start));
        assert_eq!(earliest([None]), None);
    }
}
