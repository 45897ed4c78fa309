//! What is asked of the operating system besides sending: cores, limits, and the CPU time somebody has used.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

pub(crate) fn pin_to_core(core: usize) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(core)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|error| format!("core {core}: {error}"))
}

pub(crate) fn ensure_descriptors(count: u64) -> Result<(), String> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| error.to_string())?;
    if soft >= count {
        return Ok(());
    }
    setrlimit(Resource::RLIMIT_NOFILE, count, hard.max(count))
        .map_err(|error| format!("{count} open files: {error}"))
}

/// CPU time of this process with the kernel's workers for it, user and system, nanoseconds.
pub(crate) fn own_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("every process has this clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// CPU time of a single-threaded process, nanoseconds.
pub(crate) fn cpu_ns_of(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// The kernel's thread that runs a core's softirqs when they do not end.
pub(crate) fn softirq_thread(core: usize) -> Option<u32> {
    let name = format!("ksoftirqd/{core}\n");
    let processes =
        fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    processes
        .into_iter()
        .find(|pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == name))
}

/// Time a core was not idle since boot, nanoseconds, given the time now since boot: tasks of everybody,
/// interrupts and softirqs. The kernel counts idle time exactly and shows it in units of 10 ms.
pub(crate) fn core_busy_ns(core: usize) -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let name = format!("cpu{core} ");
    let Some(line) = text.lines().find(|line| line.starts_with(&name)) else { return 0 };
    let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    let idle: u64 = fields.iter().skip(3).take(2).sum();
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every machine has this clock");
    (now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64).saturating_sub(idle * 10_000_000)
}

/// Sets an integer socket option that the crates in use do not offer.
pub(crate) fn set_option(socket: impl AsFd, level: i32, name: i32, value: i32) -> Result<(), String> {
    let size = size_of::<i32>() as nix::libc::socklen_t;
    // SAFETY: the kernel reads `size` bytes of `value`, which outlives the call.
    #[expect(unsafe_code, reason = "SO_ZEROCOPY and TCP_WINDOW_CLAMP have no safe wrapper")]
    let result = unsafe {
        nix::libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, (&raw const value).cast(), size)
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().to_string()) }
}
