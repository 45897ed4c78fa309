//! Times of one stream on both sides of a bridge, so that audio and video stay together.
//!
//! Frames are stamped in milliseconds of one stream time, packets in units of a clock for each track, tied together
//! by sender reports only (RFC 3550 section 6.4.1). To packets, [`StreamClock`] says which stream time it is now,
//! [`VideoTimestamps`] and [`AudioTimestamps`] stamp the packets and [`ClockMappings`] say which
//! timestamps belong together. To frames, [`CaptureClock`] puts the timestamps of both tracks on one stream time. What is
//! measured are clocks of others: all of them may drift, jump and stand still.

mod capture;
mod mappings;
mod stream;
mod timestamps;

pub use capture::{CaptureClock, START_US, Stamp};
pub use mappings::ClockMappings;
pub(crate) use mappings::MappingSchedule;
pub use stream::StreamClock;
pub use timestamps::{AudioTimestamps, VideoTimestamps, rtp_timestamp};

use std::time::{Duration, Instant};

/// Microseconds from `base` to `at`, negative if `at` is before.
fn micros(base: Instant, at: Instant) -> i64 {
    let length = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    match at.checked_duration_since(base) {
        Some(later) => length(later),
        None => -length(base - at),
    }
}

/// Least delay in the last 10 to 20 s, in microseconds; only differences of delays mean something.
///
/// What arrives was stamped by a clock that cannot be read here, and delayed by an unknown time. The piece
/// that was under way for the shortest time says best how that clock stands to ours; but clocks drift, so old
/// pieces are forgotten. Two stretches of time take turns, as a window that moves would need every piece to
/// be kept.
#[derive(Debug, Clone, Default)]
struct LeastDelay {
    since_us: i64,
    before: Option<i64>,
    current: Option<i64>,
}

impl LeastDelay {
    /// Notes the delay of a piece that arrived at `at_us`, and returns the least.
    fn note(&mut self, at_us: i64, delay_us: i64) -> i64 {
        if self.current.is_none() {
            self.since_us = at_us;
        } else if at_us - self.since_us >= STRETCH_US {
            (self.since_us, self.before) = (at_us, self.current.take());
        }
        let current = self.current.map_or(delay_us, |least| least.min(delay_us));
        self.current = Some(current);
        self.before.map_or(current, |before| before.min(current))
    }

    /// The least, if anything was noted.
    fn least(&self) -> Option<i64> {
        let current = self.current?;
        Some(self.before.map_or(current, |before| before.min(current)))
    }
}

/// At 100 ppm clocks move apart by 1 ms in it, and in 10 s some piece comes through every network undelayed.
const STRETCH_US: i64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_forgotten_after_one_to_two_stretches() {
        let mut delay = LeastDelay::default();
        assert_eq!(delay.least(), None);
        assert_eq!(delay.note(0, 5), 5);
        assert_eq!(delay.note(STRETCH_US - 1, 9), 5);
        assert_eq!(delay.note(STRETCH_US, 9), 5, "the stretch before still counts");
        assert_eq!(delay.note(2 * STRETCH_US, 8), 8);
        assert_eq!(delay.note(2 * STRETCH_US, -3), -3);
        assert_eq!(delay.least(), Some(-3));
    }

    #[test]
    fn silence_forgets_nothing_before_the_next_piece() {
        let mut delay = LeastDelay::default();
        delay.note(0, 5);
        assert_eq!(delay.note(100 * STRETCH_US, 50), 5);
        assert_eq!(delay.note(101 * STRETCH_US, 60), 50);
    }
}
