//! Pauses between attempts.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use tokio::time::Instant;

use crate::settings::UploadSettings;

/// Pause after so many failures in a row: it doubles with each, and a random part of up to a half is taken
/// off, so that servers that failed together do not come back together.
pub(crate) fn pause(failures: u32, settings: &UploadSettings) -> Duration {
    // A hasher's keys are random for each process and differ between hashers.
    let random = RandomState::new().hash_one(failures) as f64 / u64::MAX as f64;
    longest(failures, settings.retry_min, settings.retry_max).mul_f64(1.0 - random / 2.0)
}

/// Attempts of all that share a store, which pause after failures of it.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Failures of the store since its last success.
    failures: u32,
    not_before: Option<Instant>,
}

impl Pace {
    /// The store has failed. Whether it is the first time since it worked; the next attempt pauses for `most`
    /// at most.
    pub(crate) fn failed(&mut self, now: Instant, settings: &UploadSettings, most: Duration) -> bool {
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + pause(self.failures, settings).min(most));
        self.failures == 1
    }

    /// The store works. How often it had failed.
    pub(crate) fn worked(&mut self) -> u32 {
        std::mem::take(self).failures
    }

    /// No attempt begins before.
    pub(crate) fn not_before(&self) -> Option<Instant> {
        self.not_before
    }
}

fn longest(failures: u32, min: Duration, max: Duration) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    min.saturating_mul(doubled).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let (min, max) = (Duration::from_secs(1), Duration::from_secs(300));
        let seconds: Vec<u64> = (0..12).map(|failures| longest(failures, min, max).as_secs()).collect();
        assert_eq!(seconds, [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(longest(u32::MAX, min, max), max);
    }
}
