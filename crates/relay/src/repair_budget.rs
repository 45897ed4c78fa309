//! How much a link may be sent again: a token bucket, filled by what it is sent anyway and by time.
//!
//! A part of the media, so that a link that loses much is not made to lose more; a little by time as
//! well, for streams that have little to lose. What is not repaired is asked for again, until it is
//! given up.

use std::time::Instant;

use crate::limits::{REPAIR_BYTES_LIMIT, REPAIR_BYTES_MAX, REPAIR_BYTES_PER_SECOND_MIN, REPAIR_SHARE};

#[derive(Debug)]
pub(crate) struct RepairBudget {
    bytes: f64,
    at: Instant,
    /// The most that can be saved up, by what was sent in a second.
    most: f64,
    /// Media sent since then.
    counted: f64,
    counted_since: Instant,
}

impl RepairBudget {
    /// With a quarter of what can be saved up: links lose packets from their beginning on.
    pub(crate) fn new(now: Instant) -> Self {
        let bytes = REPAIR_BYTES_MAX / 4.0;
        Self { bytes, at: now, most: REPAIR_BYTES_MAX, counted: 0.0, counted_since: now }
    }

    /// So many bytes of media are sent.
    #[inline]
    pub(crate) fn earn(&mut self, now: Instant, media_bytes: usize) {
        let passed = now.saturating_duration_since(self.counted_since).as_secs_f64();
        if passed >= 1.0 {
            let by_rate = self.counted / passed * REPAIR_SHARE;
            self.most = by_rate.clamp(REPAIR_BYTES_MAX, REPAIR_BYTES_LIMIT);
            (self.counted, self.counted_since) = (0.0, now);
        }
        self.counted += media_bytes as f64;
        self.bytes = (self.bytes + media_bytes as f64 * REPAIR_SHARE).min(self.most);
    }

    /// Whether so many bytes may be sent again; they count as sent then.
    pub(crate) fn spend(&mut self, now: Instant, bytes: usize) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.bytes = (self.bytes + passed * REPAIR_BYTES_PER_SECOND_MIN).min(self.most);
        let may = self.bytes >= bytes as f64;
        if may {
            self.bytes -= bytes as f64;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn repairs_stay_below_their_share_and_what_time_adds() {
        let start = netsim::Clock::new().now();
        let mut budget = RepairBudget::new(start);
        let (mut media, mut repaired) = (0, 0);
        for second in 0..100 {
            let now = start + Duration::from_secs(second);
            for _ in 0..100 {
                budget.earn(now, 1_200);
                media += 1_200;
            }
            while budget.spend(now, 1_000) {
                repaired += 1_000;
            }
        }
        let by_share = f64::from(media) * REPAIR_SHARE + REPAIR_BYTES_MAX / 4.0;
        let by_time = 99.0 * REPAIR_BYTES_PER_SECOND_MIN;
        assert!(f64::from(repaired) <= by_share + by_time);
        assert!(f64::from(repaired) > by_share + by_time - 1_001.0);
    }

    #[test]
    fn a_fast_link_saves_up_what_a_second_of_it_adds() {
        let start = netsim::Clock::new().now();
        // Bytes of media in 10 ms, and what is saved up in the end.
        for (media, expected) in
            [(1_000, REPAIR_BYTES_MAX), (100_000, 2_500_000.0), (10_000_000, REPAIR_BYTES_LIMIT)]
        {
            let mut budget = RepairBudget::new(start);
            for turn in 0..3_000 {
                budget.earn(start + Duration::from_millis(turn * 10), media);
            }
            let end = start + Duration::from_secs(30);
            let mut saved = 0.0;
            while budget.spend(end, 1_000) {
                saved += 1_000.0;
            }
            assert!((saved / expected - 1.0).abs() < 0.02, "{saved} of {expected}");
        }
    }
}
