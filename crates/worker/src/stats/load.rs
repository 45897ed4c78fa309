//! How busy a worker is: time per loop turn, CPU time of the thread, bytes per second.

use std::time::Duration;

use hdrhistogram::Histogram;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::net::Clock;

/// Longest turn told apart, microseconds.
const TURN_US_MAX: u64 = 60_000_000;

/// Measures the current second and remembers the last full one.
#[derive(Debug)]
pub(crate) struct LoadMeter {
    pub(crate) core: Option<usize>,
    turns: Histogram<u32>,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// How long media has waited beyond its time, at most.
    send_delay: Duration,
    cpu: Duration,
    sampled_ms: u64,
    pub(crate) last: LastSecond,
}

/// What the last full second was like.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LastSecond {
    pub(crate) loop_time_us_p50: u32,
    pub(crate) loop_time_us_p99: u32,
    pub(crate) load_percent: f32,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) send_delay: Duration,
}

impl LoadMeter {
    /// A meter of a worker that is to run on `core`.
    pub(crate) fn new(core: Option<usize>) -> Self {
        let turns = Histogram::new_with_bounds(1, TURN_US_MAX, 2).expect("the bounds are valid");
        Self {
            core,
            turns,
            bytes_in: 0,
            bytes_out: 0,
            send_delay: Duration::ZERO,
            cpu: Duration::ZERO,
            sampled_ms: 0,
            last: LastSecond::default(),
        }
    }

    /// Binds the calling thread to the core; a core that is not there is a warning, not the end.
    pub(crate) fn pin(&mut self) {
        let Some(core) = self.core else { return };
        let mut set = CpuSet::new();
        if let Err(error) = set.set(core).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set)) {
            tracing::warn!(core, %error, "worker not pinned");
            self.core = None;
        }
    }

    /// A loop turn was busy for `time`; returns it in microseconds.
    pub(crate) fn turn_took(&mut self, time: Duration) -> u64 {
        let us = (time.as_micros() as u64).min(TURN_US_MAX);
        self.turns.saturating_record(us);
        us
    }

    /// Media has waited so long beyond its time.
    pub(crate) fn media_waited(&mut self, time: Duration) {
        self.send_delay = self.send_delay.max(time);
    }

    /// Whether a second is over at `now_ms`.
    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        now_ms >= self.sampled_ms + 1000
    }

    /// Ends the second; says how long it was, in milliseconds.
    pub(crate) fn sample(&mut self, now_ms: u64) -> u64 {
        let elapsed_ms = (now_ms - self.sampled_ms).max(1);
        let cpu = Clock::thread_cpu_time();
        self.last = LastSecond {
            loop_time_us_p50: self.turns.value_at_quantile(0.5) as u32,
            loop_time_us_p99: self.turns.value_at_quantile(0.99) as u32,
            load_percent: (cpu.saturating_sub(self.cpu).as_secs_f64() * 100_000.0 / elapsed_ms as f64) as f32,
            bytes_in: std::mem::take(&mut self.bytes_in) * 1000 / elapsed_ms,
            bytes_out: std::mem::take(&mut self.bytes_out) * 1000 / elapsed_ms,
            send_delay: std::mem::take(&mut self.send_delay),
        };
        self.turns.reset();
        self.cpu = cpu;
        self.sampled_ms = now_ms;
        elapsed_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_scaled_to_one_second() {
        let mut meter = LoadMeter::new(None);
        for ms in 1..=100 {
            meter.turn_took(Duration::from_millis(ms));
        }
        meter.bytes_in = 3000;
        assert!(!meter.is_due(999));
        assert_eq!(meter.sample(1500), 1500);
        assert_eq!(meter.last.bytes_in, 2000);
        assert!((49_000..=51_000).contains(&meter.last.loop_time_us_p50), "{:?}", meter.last);
        assert!((98_000..=100_000).contains(&meter.last.loop_time_us_p99), "{:?}", meter.last);
        meter.sample(2500);
        assert_eq!((meter.last.bytes_in, meter.last.loop_time_us_p50), (0, 0));
    }
}
