//! How fast packets leave: a bucket of bytes that fills at a rate.

use std::time::{Duration, Instant};

/// Time whose bytes may leave at once.
const BURST: Duration = Duration::from_millis(10);
/// Bytes that may leave at once in any case.
const BURST_BYTES_MIN: u64 = 6_000;

/// A bucket.
#[derive(Debug)]
pub(crate) struct Pacer {
    bytes_per_second: u64,
    burst: u64,
    /// Bytes that may leave, in billionths.
    level: u128,
    at: Instant,
}

const NANO: u128 = 1_000_000_000;

impl Pacer {
    /// Of this rate, or none for 0.
    pub(crate) fn new(now: Instant, bits_per_second: u64) -> Self {
        let bytes_per_second = bits_per_second / 8;
        let burst = (bytes_per_second / 1000 * BURST.as_millis() as u64).max(BURST_BYTES_MIN);
        Self { bytes_per_second, burst, level: u128::from(burst) * NANO, at: now }
    }

    fn fill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.at).as_nanos();
        self.at = self.at.max(now);
        let full = u128::from(self.burst) * NANO;
        self.level = (self.level + elapsed * u128::from(self.bytes_per_second)).min(full);
    }

    /// Whether so many bytes may leave; if so, they have.
    pub(crate) fn take(&mut self, now: Instant, bytes: usize) -> bool {
        if self.bytes_per_second == 0 {
            return true;
        }
        self.fill(now);
        let taken = self.level.checked_sub(bytes as u128 * NANO);
        self.level = taken.unwrap_or(self.level);
        taken.is_some()
    }

    /// When the next packet may leave.
    pub(crate) fn next_at(&mut self, now: Instant) -> Instant {
        if self.bytes_per_second == 0 {
            return now;
        }
        self.fill(now);
        let wanted = 1_500 * NANO;
        let lacking = wanted.saturating_sub(self.level);
        now + Duration::from_nanos((lacking / u128::from(self.bytes_per_second)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any moment does")]
    fn bytes_leave_at_the_rate_and_a_burst_at_once() {
        let start = Instant::now();
        let mut pacer = Pacer::new(start, 8_000_000);
        let mut sent = 0;
        let mut now = start;
        while now < start + Duration::from_secs(1) {
            while pacer.take(now, 1_000) {
                sent += 1_000;
            }
            let next = pacer.next_at(now);
            assert!(next > now);
            now = next;
        }
        assert!((1_000_000..=1_010_000).contains(&sent), "{sent}");
        let mut unlimited = Pacer::new(start, 0);
        assert!(unlimited.take(start, usize::MAX));
        assert_eq!(unlimited.next_at(start), start);
    }
}
