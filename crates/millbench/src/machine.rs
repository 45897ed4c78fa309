//! What the generator asks of the operating system for itself: cores, file descriptors, signals, CPU time.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Instant;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use crate::clock;
use crate::option_values::RunArgs;
use crate::procfs::{self, Usage};
use crate::report::ServerStep;

/// Pins the calling thread to one core (counted from 0).
///
/// # Errors
/// When the machine has no such core or the process may not run on it.
pub fn pin_to_core(core: usize) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(core)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|error| format!("cannot run on core {core}: {}", error.desc()))
}

/// Raises the limit of open files as far as `sessions` need.
///
/// # Errors
/// When neither the soft nor the hard limit allows it; the text says what to do.
pub fn ensure_descriptors(sessions: usize) -> Result<(), String> {
    let needed = sessions as u64 + SPARE_DESCRIPTORS;
    let (soft, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| format!("cannot read RLIMIT_NOFILE: {error}"))?;
    if soft >= needed {
        return Ok(());
    }
    // Only a privileged process may raise the hard limit; trying costs nothing.
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)).map_err(|_| {
        format!(
            "{sessions} sessions need {needed} open files, but the hard limit is {hard}; raise it (ulimit -Hn {needed}, \
             LimitNOFILE= in a unit, --ulimit nofile= in a container)"
        )
    })
}

/// SIGINT and SIGTERM as a descriptor that can be read instead of a handler.
#[derive(Debug)]
pub struct StopSignals(SignalFd);

impl StopSignals {
    /// Blocks both signals in the calling thread and in all threads it starts afterwards.
    ///
    /// # Errors
    /// When the kernel refuses a signal descriptor.
    pub fn new() -> io::Result<StopSignals> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGINT);
        mask.add(Signal::SIGTERM);
        mask.thread_block()?;
        Ok(StopSignals(SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }

    /// Whether one of the signals has arrived since the last call.
    pub fn arrived(&self) -> bool {
        matches!(self.0.read_signal(), Ok(Some(_)))
    }
}

/// CPU time of this process so far, user and system together, seconds.
pub fn own_cpu_s() -> f64 {
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    getrusage(UsageWho::RUSAGE_SELF)
        .map_or(0.0, |usage| seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// Processor, cores and kernel of this machine, as reports name it.
pub fn describe() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown processor");
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = cpu.lines().filter(|line| line.starts_with("processor")).count();
    format!("{}, {cores} cores, Linux {}", model.trim_start_matches([':', '\t', ' ']), kernel.trim())
}

/// Makes ready for a run: descriptors, the server's process, and signals that end it. What may run
/// on any core is started before [`pin`].
pub fn prepare(run: &RunArgs, sessions: usize) -> Result<StopSignals, String> {
    ensure_descriptors(sessions)?;
    if let Some(pid) = run.server_pid {
        procfs::read(pid).map_err(|error| format!("--server-pid {pid}: {error}"))?;
    }
    StopSignals::new().map_err(|error| format!("signals: {error}"))
}

/// Pins the calling thread as configured.
///
/// # Errors
/// As [`pin_to_core`].
pub fn pin(run: &RunArgs) -> Result<(), String> {
    run.core.map_or(Ok(()), pin_to_core)
}

/// The process under test: as configured, or for `--perf` the one that listens at `server`.
///
/// # Errors
/// A text for the user, when `--perf` has no process to look at.
pub fn server_pid(run: &RunArgs, server: SocketAddr) -> Result<Option<u32>, String> {
    if run.server_pid.is_some() || !run.perf {
        return Ok(run.server_pid);
    }
    let pid =
        interface_to(server).and_then(|(_, is_local)| is_local.then(|| procfs::listener(server.port())));
    pid.flatten().map(Some).ok_or_else(|| {
        format!("--perf: no process of this machine is seen to listen at {server}; give --server-pid")
    })
}

/// The interface that packets to `server` leave by, and whether the server is this machine.
pub fn interface_to(server: SocketAddr) -> Option<(String, bool)> {
    let any: SocketAddr = if server.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
    let probe = UdpSocket::bind(any).ok()?;
    probe.connect(server).ok()?;
    let own = probe.local_addr().ok()?.ip();
    // Every address of 127.0.0.0/8 is ours, and only one of them is listed.
    let is_local = own == server.ip() || server.ip().is_loopback();
    if server.ip().is_loopback() {
        return Some(("lo".to_owned(), true));
    }
    let name = nix::ifaddrs::getifaddrs().ok()?.find_map(|entry| {
        let address = entry.address?;
        let ip = address.as_sockaddr_in().map(|ip| IpAddr::from(ip.ip()));
        let ip = ip.or_else(|| address.as_sockaddr_in6().map(|ip| IpAddr::from(ip.ip())))?;
        (ip == own).then_some(entry.interface_name)
    })?;
    // Packets to an own address do not leave by its interface.
    Some((if is_local { "lo".to_owned() } else { name }, is_local))
}

/// CPU time and memory at one moment: of the server, of this program and of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// When.
    pub at: Instant,
    /// The server's.
    pub usage: Option<Usage>,
    own_cpu_s: f64,
    machine_cpu_s: Option<f64>,
}

/// What the time between two readings cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// How long it was.
    pub seconds: f64,
    /// The server's CPU time.
    pub server_cpu_s: Option<f64>,
    /// This program's CPU time.
    pub own_cpu_s: f64,
    /// CPU time of everything else, percent of one core.
    pub others_core_percent: Option<f64>,
    /// The server's cost per session.
    pub server: Option<ServerStep>,
}

impl Reading {
    /// As of now.
    pub fn now(server_pid: Option<u32>) -> Reading {
        Reading {
            at: clock::monotonic(),
            usage: server_pid.and_then(|pid| procfs::read(pid).ok()),
            own_cpu_s: own_cpu_s(),
            machine_cpu_s: procfs::machine_cpu_s().ok(),
        }
    }

    /// What `sessions` have cost since `before`; without any, the server's memory was `baseline_rss_kib`.
    pub fn since(&self, before: &Reading, sessions: usize, baseline_rss_kib: u64) -> Cost {
        let seconds = (self.at - before.at).as_secs_f64();
        let own_cpu_s = self.own_cpu_s - before.own_cpu_s;
        let usage = before.usage.zip(self.usage);
        let server_cpu_s = usage.map(|(before, after)| after.cpu_s - before.cpu_s);
        let machine_cpu_s =
            before.machine_cpu_s.zip(self.machine_cpu_s).map(|(before, after)| after - before);
        let others_s = machine_cpu_s.zip(server_cpu_s).map(|(all, server)| all - server - own_cpu_s);
        let client_seconds = (sessions as f64 * seconds).max(f64::MIN_POSITIVE);
        let server = usage.map(|(before, after)| ServerStep {
            cpu_ms_per_client_s: (after.cpu_s - before.cpu_s) * 1000.0 / client_seconds,
            core_percent: (after.cpu_s - before.cpu_s) * 100.0 / seconds,
            user_percent: (after.user_s - before.user_s) * 100.0 / seconds,
            system_percent: (after.system_s - before.system_s) * 100.0 / seconds,
            rss_kib: after.rss_kib,
            rss_kib_per_client: after.rss_kib.saturating_sub(baseline_rss_kib) as f64 / sessions as f64,
        });
        let others_core_percent = others_s.map(|others_s| others_s.max(0.0) * 100.0 / seconds);
        Cost { seconds, server_cpu_s, own_cpu_s, others_core_percent, server }
    }
}

/// Descriptors beside the sessions: standard streams, epoll, /proc files, a listener.
const SPARE_DESCRIPTORS: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_descriptors_need_no_change_and_too_many_are_explained() {
        assert_eq!(ensure_descriptors(1), Ok(()));
        let refused = ensure_descriptors(usize::MAX / 4);
        assert!(refused.is_err_and(|text| text.contains("hard limit") && text.contains("ulimit")));
    }

    #[test]
    fn a_core_that_does_not_exist_is_an_error() {
        assert!(pin_to_core(100_000).is_err_and(|text| text.contains("core 100000")));
    }
}
