//! Round trip and its variance (draft-sharabayko-srt-01 section 4.10).

use std::time::Duration;

/// Smoothed round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoundTrip {
    mean: Duration,
    variance: Duration,
    is_measured: bool,
}

/// Longest round trip that is believed: packets that claim more would only delay what repairs losses.
const MAX: Duration = Duration::from_secs(10);

impl Default for RoundTrip {
    /// What is assumed before anything is known (section 4.10).
    fn default() -> Self {
        Self { mean: Duration::from_millis(100), variance: Duration::from_millis(50), is_measured: false }
    }
}

impl RoundTrip {
    /// An acknowledgement was acknowledged after this long, or the peer measured this.
    pub(crate) fn sample(&mut self, sample: Duration) {
        let sample = sample.min(MAX);
        if !self.is_measured {
            *self = Self { mean: sample, variance: sample / 2, is_measured: true };
            return;
        }
        self.variance = (self.variance * 3 + self.mean.abs_diff(sample)) / 4;
        self.mean = (self.mean * 7 + sample) / 8;
    }

    pub(crate) fn mean(&self) -> Duration {
        self.mean
    }

    pub(crate) fn variance(&self) -> Duration {
        self.variance
    }

    /// Whether there was a sample.
    pub(crate) fn is_measured(&self) -> bool {
        self.is_measured
    }

    /// A time by which most answers are there.
    pub(crate) fn long(&self) -> Duration {
        self.mean + self.variance * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sample_replaces_the_assumption_and_later_ones_are_smoothed() {
        let ms = Duration::from_millis;
        let mut round_trip = RoundTrip::default();
        assert_eq!((round_trip.mean(), round_trip.is_measured()), (ms(100), false));
        round_trip.sample(ms(40));
        assert_eq!((round_trip.mean(), round_trip.variance()), (ms(40), ms(20)));
        round_trip.sample(ms(80));
        assert_eq!((round_trip.mean(), round_trip.variance()), (ms(45), ms(25)));
        round_trip.sample(Duration::MAX);
        assert!(round_trip.long() < MAX * 2);
    }
}
