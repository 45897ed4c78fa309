//! Limits of processes and of containers.

use std::thread::available_parallelism;

use nix::sys::resource::{Resource, getrlimit};

use crate::{Finding, Level, System, Wanted};

pub(crate) fn examine(wanted: &Wanted, system: &System, findings: &mut Vec<Finding>) {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        findings.push(open_files(hard, wanted.open_files));
    }
    let cores = available_parallelism().map_or(1, usize::from);
    findings.push(workers(wanted.workers, cores, cpu_quota(system)));
    findings.extend(memory(system));
    findings.extend(connection_tracking(system, wanted.sessions));
}

fn open_files(allowed: u64, wanted: u64) -> Finding {
    let found = format!("{allowed} allowed, {wanted} for all sessions and idle connections");
    if allowed >= wanted {
        return Finding::fine("open files", found);
    }
    let mend = format!("LimitNOFILE={wanted} in the systemd unit, or `ulimit -Hn {wanted}` before the start");
    Finding::new(Level::Warning, "open files", found, mend)
}

/// Cores that a container may use, by its cgroup: `max 100000`, or `50000 100000`.
fn cpu_quota(system: &System) -> Option<f64> {
    let text = system.read("/sys/fs/cgroup/cpu.max")?;
    let (quota, period) = text.split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok().filter(|period| *period > 0.0)?)
}

fn workers(workers: usize, cores: usize, quota: Option<f64>) -> Finding {
    match quota {
        Some(quota) if quota < workers as f64 => {
            let found = format!(
                "{workers} workers, and {quota:.1} cores by the container's quota: they are stopped for tens \
                 of milliseconds whenever that is used up"
            );
            let fitting = (quota.floor() as usize).max(1);
            let mend = format!("server.workers = {fitting}, or a quota of {workers} cores or none");
            Finding::new(Level::Warning, "workers", found, mend)
        }
        _ if workers > cores => {
            let found = format!("{workers} workers on {cores} cores wait for each other");
            Finding::new(Level::Warning, "workers", found, format!("server.workers = {cores}"))
        }
        _ => Finding::fine("workers", format!("{workers} on {cores} cores")),
    }
}

/// Memory that is left for the process to grow into.
fn memory(system: &System) -> Option<Finding> {
    let limit: Option<u64> = system.number("/sys/fs/cgroup/memory.max");
    let text = system.read("/proc/meminfo")?;
    let available = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let available = available.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10;
    let left = match limit.zip(system.number::<u64>("/sys/fs/cgroup/memory.current")) {
        Some((limit, used)) => limit.saturating_sub(used).min(available),
        None => available,
    };
    let found = format!("{} MB available", left / 1_000_000);
    Some(match left < MEMORY_MIN {
        false => Finding::fine("memory", found),
        true => {
            let mend = "stop what else is on this machine, or raise the container's memory limit";
            Finding::new(Level::Warning, "memory", found, mend)
        }
    })
}

/// A firewall that keeps track of connections keeps an entry for each address and port that talks to us.
fn connection_tracking(system: &System, sessions: u64) -> Option<Finding> {
    let most: u64 = system.number("/proc/sys/net/netfilter/nf_conntrack_max")?;
    let used: u64 = system.number("/proc/sys/net/netfilter/nf_conntrack_count").unwrap_or(0);
    let found =
        format!("{used} of {most} connections that the firewall can keep track of, {sessions} sessions");
    if most.saturating_sub(used) >= sessions {
        return Some(Finding::fine("firewall", found));
    }
    let mend =
        format!("sysctl -w net.netfilter.nf_conntrack_max={}", (used + 2 * sessions).next_power_of_two());
    Some(Finding::new(Level::Warning, "firewall", found, mend))
}

/// Below this a server does not begin with any room.
const MEMORY_MIN: u64 = 256_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::tests::Files;

    #[test]
    fn too_few_open_files_name_the_limit_to_set() {
        assert_eq!(open_files(2_000, 2_000).level, Level::Fine);
        let short = open_files(1_024, 20_000);
        assert_eq!(short.level, Level::Warning);
        assert!(short.mend.unwrap().starts_with("LimitNOFILE=20000"));
    }

    #[test]
    fn a_quota_below_the_workers_is_said() {
        let files = Files::new(&[("/sys/fs/cgroup/cpu.max", "150000 100000\n")]);
        let quota = cpu_quota(&files.system());
        assert_eq!(quota, Some(1.5));
        assert_eq!(workers(2, 4, quota).mend.unwrap(), "server.workers = 1, or a quota of 2 cores or none");
        assert_eq!(workers(1, 4, quota).level, Level::Fine);
        assert_eq!(workers(5, 4, None).mend.unwrap(), "server.workers = 4");
        for text in ["max 100000", "", "1", "1 0", "x 100000"] {
            assert_eq!(cpu_quota(&Files::new(&[("/sys/fs/cgroup/cpu.max", text)]).system()), None, "{text}");
        }
    }

    #[test]
    fn memory_is_that_of_the_container_where_it_has_less() {
        let meminfo = ("/proc/meminfo", "MemTotal: 8000000 kB\nMemAvailable:    4000000 kB\n");
        let level = |files: &[_]| memory(&Files::new(files).system()).map(|finding| finding.level);
        assert_eq!(level(&[meminfo]), Some(Level::Fine));
        let (most, used) = (("/sys/fs/cgroup/memory.max", "300000000"), "/sys/fs/cgroup/memory.current");
        assert_eq!(level(&[meminfo, most, (used, "200000000")]), Some(Level::Warning));
        assert_eq!(level(&[meminfo, ("/sys/fs/cgroup/memory.max", "max"), (used, "1")]), Some(Level::Fine));
        assert_eq!(level(&[]), None, "no /proc");
    }

    #[test]
    fn a_table_of_connections_that_is_too_small_is_found() {
        let directory = "/proc/sys/net/netfilter";
        let (most, used) =
            (format!("{directory}/nf_conntrack_max"), format!("{directory}/nf_conntrack_count"));
        let files = Files::new(&[(&most, "4096"), (&used, "4000")]);
        let finding = connection_tracking(&files.system(), 1_000).unwrap();
        assert_eq!(finding.mend.unwrap(), "sysctl -w net.netfilter.nf_conntrack_max=8192");
        assert_eq!(connection_tracking(&files.system(), 96).unwrap().level, Level::Fine);
        assert_eq!(connection_tracking(&Files::new(&[]).system(), 96), None, "no such firewall");
    }
}
