//! The clock, the core, and what many short samples come down to.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// Nanoseconds of processor time of this thread: what others do meanwhile is not counted, only what
/// they do to caches.
pub(crate) fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock");
    (time.tv_sec() * 1_000_000_000 + time.tv_nsec()) as f64
}

pub(crate) fn pin_to_core(core: usize) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// Samples of one contender, nanoseconds per element.
#[derive(Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, ns: f64) {
        self.0.push(ns);
    }

    /// Minimum, first quartile, median and third quartile.
    pub(crate) fn figures(&self) -> Figures {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
        Figures { min: at(0.0), quarter: at(0.25), median: at(0.5), three_quarters: at(0.75) }
    }
}

/// Nanoseconds per element.
#[derive(Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) min: f64,
    pub(crate) quarter: f64,
    pub(crate) median: f64,
    pub(crate) three_quarters: f64,
}

impl Figures {
    /// Interquartile range divided by the median. Extremes reflect other programs on the machine.
    pub(crate) fn spread(&self) -> f64 {
        (self.three_quarters - self.quarter) / self.median
    }
}
