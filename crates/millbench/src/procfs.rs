//! CPU time and memory of a process, what cores and interfaces do, and who listens at a port, read
//! from `/proc` (Linux, proc(5)).
//!
//! CPU comes from two places. `/proc/PID/stat` has user and system time of all threads, exited ones
//! included, in ticks of 10 ms: good for the split. `/proc/PID/task/*/schedstat` has nanoseconds per
//! living thread: good for short windows. Where the kernel has no schedstat, ticks are used for both.

use std::fs;
use std::io;

use serde::Serialize;

/// CPU time a process has used since it started, and its memory now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// User time, seconds, in steps of a tick.
    pub user_s: f64,
    /// System time, seconds, in steps of a tick.
    pub system_s: f64,
    /// User and system time together, seconds, at the kernel's resolution.
    pub cpu_s: f64,
    /// Resident set, KiB.
    pub rss_kib: u64,
}

/// Reads the usage of `pid`.
///
/// # Errors
/// When the process does not exist (any more) or `/proc` has an unknown form.
pub fn read(pid: u32) -> io::Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let unknown = |what: &str| io::Error::other(format!("/proc/{pid}/{what} has an unknown form"));
    let (user_ticks, system_ticks) = parse_stat(&stat).ok_or_else(|| unknown("stat"))?;
    let rss_kib = parse_status_rss(&status).ok_or_else(|| unknown("status"))?;
    let ticks_s = |ticks: u64| ticks as f64 / TICKS_PER_SECOND;
    let (user_s, system_s) = (ticks_s(user_ticks), ticks_s(system_ticks));
    let cpu_s = read_schedstat(pid).unwrap_or(user_s + system_s);
    Ok(Usage { user_s, system_s, cpu_s, rss_kib })
}

/// Seconds on CPU of all living threads; `None` where the kernel does not report it.
fn read_schedstat(pid: u32) -> Option<f64> {
    let mut total_ns = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        // A thread may end between the listing and the reading.
        let Ok(text) = fs::read_to_string(task.ok()?.path().join("schedstat")) else { continue };
        total_ns += parse_schedstat(&text)?;
    }
    (total_ns > 0).then_some(total_ns as f64 / 1e9)
}

/// CPU time all processes of this machine have used together since it started, seconds.
///
/// # Errors
/// When `/proc/stat` is missing or has an unknown form.
pub fn machine_cpu_s() -> io::Result<f64> {
    let text = fs::read_to_string("/proc/stat")?;
    let ticks =
        parse_machine_stat(&text).ok_or_else(|| io::Error::other("/proc/stat has an unknown form"))?;
    Ok(ticks as f64 / TICKS_PER_SECOND)
}

/// Ticks that one core has spent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreTicks {
    /// In processes.
    pub user: u64,
    /// In the kernel, on behalf of processes and of devices.
    pub system: u64,
    /// In soft interrupts: where received packets are handled.
    pub soft: u64,
    /// Everything, idle time included.
    pub all: u64,
}

/// Ticks of each core, in order.
///
/// # Errors
/// When `/proc/stat` is missing.
pub fn cores() -> io::Result<Vec<CoreTicks>> {
    Ok(fs::read_to_string("/proc/stat")?.lines().filter_map(parse_core).collect())
}

/// A `cpuN` line of proc(5) `stat`.
fn parse_core(line: &str) -> Option<CoreTicks> {
    let (_, fields) = line.strip_prefix("cpu").filter(|rest| !rest.starts_with(' '))?.split_once(' ')?;
    let ticks: Vec<u64> = fields.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, idle, wait, irq, soft, steal, ..] = ticks[..] else { return None };
    let all = user + nice + system + idle + wait + irq + soft + steal;
    Some(CoreTicks { user: user + nice, system: system + irq, soft, all })
}

/// What an interface has carried so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounts {
    /// Bytes received.
    pub bytes_in: u64,
    /// Packets received; several in one where the device or the kernel joins them.
    pub packets_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Packets sent; several in one where the device or the kernel splits them.
    pub packets_out: u64,
}

/// The counts of an interface of this network namespace; `None` if there is none of that name.
pub fn interface(name: &str) -> Option<InterfaceCounts> {
    parse_interface(&fs::read_to_string("/proc/net/dev").ok()?, name)
}

fn parse_interface(text: &str, name: &str) -> Option<InterfaceCounts> {
    let fields = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let counts: Vec<u64> = fields.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
    let [bytes_in, packets_in, _, _, _, _, _, _, bytes_out, packets_out, ..] = counts[..] else {
        return None;
    };
    Some(InterfaceCounts { bytes_in, packets_in, bytes_out, packets_out })
}

/// A process of this machine that listens at a TCP port, as far as this user may see.
pub fn listener(port: u16) -> Option<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let sockets: Vec<String> = tables
        .iter()
        .flat_map(|table| table.lines())
        .filter_map(|line| parse_listener(line, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    { pids }.find(|pid| {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        let mut links = descriptors.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        links.any(|link| sockets.iter().any(|socket| link.as_os_str() == socket.as_str()))
    })
}

/// The inode of a listening socket at `port`, of a line of `/proc/net/tcp`.
fn parse_listener(line: &str, port: u16) -> Option<u64> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
    let is_listening = fields.get(3) == Some(&"0A") && u16::from_str_radix(local_port, 16) == Ok(port);
    is_listening.then(|| fields.get(9)?.parse().ok()).flatten()
}

/// All fields of the `cpu` line of proc(5) `stat` but `idle` and `iowait`; guest time is in `user` already.
fn parse_machine_stat(text: &str) -> Option<u64> {
    let fields = text.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks[..] else { return None };
    Some(user + nice + system + irq + softirq + steal)
}

/// `utime` and `stime` in ticks: fields 14 and 15 of proc(5) `stat`. The command name in field 2 is in
/// parentheses and may itself hold spaces and parentheses.
fn parse_stat(text: &str) -> Option<(u64, u64)> {
    let (_, after_name) = text.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// `VmRSS` of proc(5) `status`, KiB; 0 for a process without memory (a zombie).
fn parse_status_rss(text: &str) -> Option<u64> {
    if !text.starts_with("Name:") {
        return None;
    }
    let Some(line) = text.lines().find_map(|line| line.strip_prefix("VmRSS:")) else { return Some(0) };
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// First field of `schedstat`: nanoseconds on CPU.
fn parse_schedstat(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// `USER_HZ`: 100 on every architecture this runs on (proc(5), `sysconf(_SC_CLK_TCK)`).
const TICKS_PER_SECOND: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_past_any_command_name() {
        let tail = " S 1 9 9 0 -1 4194560 100 0 1 0 1234 5678 7 8 20 0 3 0 99 1000 200";
        for name in ["millstream", "a b", "x) S 1 2", "((", ""] {
            assert_eq!(parse_stat(&format!("42 ({name}){tail}")), Some((1234, 5678)), "{name:?}");
        }
        for broken in ["", "42", "42 (x)", "42 (x) S 1 2", "42 (x) S 1 9 9 0 -1 4194560 100 0 1 0 a b"] {
            assert_eq!(parse_stat(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn resident_memory_is_read_from_status() {
        let text = "Name:\tmillstream\nVmPeak:\t  9000 kB\nVmRSS:\t    5120 kB\nThreads:\t3\n";
        assert_eq!(parse_status_rss(text), Some(5120));
        assert_eq!(parse_status_rss("Name:\tzombie\nState:\tZ\n"), Some(0));
        assert_eq!(parse_status_rss("garbage"), None);
    }

    #[test]
    fn schedstat_starts_with_nanoseconds() {
        assert_eq!(parse_schedstat("442670 0 1\n"), Some(442_670));
        assert_eq!(parse_schedstat(""), None);
    }

    #[test]
    fn machine_time_is_all_but_idle() {
        assert_eq!(parse_machine_stat("cpu  1 2 4 1000 1000 8 16 32 5 5\ncpu0 1 1 1\n"), Some(63));
        assert_eq!(parse_machine_stat("cpu  1 2 4\n"), None);
        assert_eq!(parse_machine_stat(""), None);
        assert!(machine_cpu_s().is_ok_and(|seconds| seconds > 0.0));
    }

    #[test]
    fn this_process_has_used_cpu_and_memory() {
        let usage = read(std::process::id()).expect("a process can read its own /proc entry");
        assert!(usage.rss_kib > 100 && usage.cpu_s > 0.0, "{usage:?}");
    }

    #[test]
    fn a_process_that_does_not_exist_is_an_error() {
        assert!(read(u32::MAX).is_err());
    }

    #[test]
    fn cores_and_interfaces_are_read_by_their_columns() {
        let line = "cpu11 100 20 300 4000 50 6 70 8 9 9";
        assert_eq!(parse_core(line), Some(CoreTicks { user: 120, system: 306, soft: 70, all: 4554 }));
        for other in ["cpu  1 2 3 4 5 6 7 8 0 0", "cpu0 1 2 3", "intr 1 2 3", ""] {
            assert_eq!(parse_core(other), None, "{other}");
        }
        let table = "Inter-|   Receive\n face |bytes\n    lo: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n  eth0:5 6 0 0 0 0 0 0 7 8 0 0 0 0 0 0\n";
        let counts = |bytes_in, packets_in, bytes_out, packets_out| {
            Some(InterfaceCounts { bytes_in, packets_in, bytes_out, packets_out })
        };
        assert_eq!(parse_interface(table, "lo"), counts(1, 2, 3, 4));
        assert_eq!(parse_interface(table, "eth0"), counts(5, 6, 7, 8));
        assert_eq!(parse_interface(table, "eth"), None);
    }

    #[test]
    fn a_listening_process_is_found_by_its_port() {
        let listener_at = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener_at.local_addr().expect("it is bound").port();
        assert_eq!(listener(port), Some(std::process::id()));
        drop(listener_at);
        assert_eq!(
            parse_listener("0: 0100007F:07E8 00000000:0000 0A 0:0 00:0 0 0 0 1682 1 0", 2024),
            Some(1682)
        );
        assert_eq!(parse_listener("0: 0100007F:07E8 0100007F:1000 01 0:0 00:0 0 0 0 1682 1 0", 2024), None);
    }
}
