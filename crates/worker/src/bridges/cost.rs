//! What a bridge costs: CPU time on the worker, and the time media spends in it.

use std::time::Duration;

/// Latencies kept of a second; of more frames the first are representative enough.
const SAMPLES_MAX: usize = 256;

/// Costs of one bridge since it started.
#[derive(Debug, Default)]
pub(super) struct Cost {
    /// On the worker.
    pub(super) cpu: Duration,
    /// On transcoding threads.
    pub(super) transcoding: Duration,
    pub(super) audio_frames: u64,
    pub(super) audio_dropped: u64,
    /// Audio frames that could not be decoded.
    pub(super) broken: u64,
    pub(super) video: Latency,
    pub(super) audio: Latency,
}

/// The median latency of the last second.
#[derive(Debug, Default)]
pub(super) struct Latency {
    samples_us: Vec<u32>,
    median_us: u32,
}

impl Latency {
    /// Notes one.
    pub(super) fn note(&mut self, latency: Duration) {
        if self.samples_us.len() < SAMPLES_MAX {
            self.samples_us.push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
        }
    }

    /// Ends a second.
    pub(super) fn sample(&mut self) {
        if self.samples_us.is_empty() {
            return;
        }
        let middle = self.samples_us.len() / 2;
        self.median_us = *self.samples_us.select_nth_unstable(middle).1;
        self.samples_us.clear();
    }

    /// Of the last second that had any, microseconds.
    pub(super) fn median_us(&self) -> u32 {
        self.median_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_of_the_last_second_that_had_samples() {
        let mut latency = Latency::default();
        for us in [5, 1, 9] {
            latency.note(Duration::from_micros(us));
        }
        latency.sample();
        assert_eq!(latency.median_us(), 5);
        latency.sample();
        assert_eq!(latency.median_us(), 5, "a second without frames says nothing new");
        (0..2 * SAMPLES_MAX).for_each(|_| latency.note(Duration::from_micros(7)));
        latency.sample();
        assert_eq!(latency.median_us(), 7);
    }
}
