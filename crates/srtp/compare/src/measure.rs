//! Time by which contenders are compared: CPU time of the thread, in many short samples whose median counts.

use std::fmt;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// CPU time this thread has used, nanoseconds. Other threads on the core do not count; what they do
/// to its caches does.
pub fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every thread has this clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// What two readings of the clock one after the other differ by, nanoseconds: part of everything measured.
pub fn clock_ns() -> f64 {
    let difference = |_| {
        let first = cpu_ns();
        (cpu_ns() - first) as f64
    };
    Cost::of((0..1000).map(difference).collect()).median
}

/// Keeps this thread on one core.
///
/// # Errors
/// What the kernel says, as when there is no such core.
pub fn pin_to_core(core: usize) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(core)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|error| format!("core {core}: {error}"))
}

/// The cost of one contender, nanoseconds per packet.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub median: f64,
    /// (third quartile - first quartile) / median. Extremes reflect other programs on the machine.
    pub spread: f64,
    pub samples: usize,
}

impl Cost {
    /// # Panics
    /// When `samples` is empty.
    pub fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let at = |share: f64| samples[((samples.len() - 1) as f64 * share).round() as usize];
        let median = at(0.5);
        Self { median, spread: (at(0.75) - at(0.25)) / median, samples: samples.len() }
    }
}

/// The median, and the spread where it is worth mentioning.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}", self.median)?;
        if self.spread > 0.10 { write!(f, " (spread {:.0} %)", self.spread * 100.0) } else { Ok(()) }
    }
}

/// Name of the CPU and of the kernel.
pub fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let cpu = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1))
        .unwrap_or("unknown CPU");
    format!("{cpu}, Linux {}", read("/proc/sys/kernel/osrelease").trim())
}
