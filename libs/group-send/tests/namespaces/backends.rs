//! The back ends of this build, and what each needs of the machine.
//!
//! Whether something is missing is found out without the crate under test: a back end that breaks
//! must fail here, not be skipped.

use crate::host::Host;
use group_send::{BackendKind, Config};
use socket2::{Domain, Socket, Type};
use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// What a trial needs beyond two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Hosts,
    Backend(BackendKind),
    /// A back end, and hosts on a switch.
    Switched(BackendKind),
}

impl Need {
    /// What of it this machine lacks, for one line.
    pub(crate) fn missing(self) -> Option<&'static str> {
        static HOSTS: LazyLock<Option<String>> = LazyLock::new(hosts_missing);
        static XDP: LazyLock<Option<String>> = LazyLock::new(xdp_missing);
        static TC: LazyLock<Option<String>> = LazyLock::new(tc_missing);
        static URING: LazyLock<Option<String>> = LazyLock::new(uring_missing);
        static SWITCH: LazyLock<Option<String>> = LazyLock::new(switch_missing);
        let own = match self {
            Self::Switched(kind) => Self::Backend(kind).missing().or(SWITCH.as_deref()),
            Self::Backend(BackendKind::AfXdp) => XDP.as_deref(),
            Self::Backend(BackendKind::TcClone) => TC.as_deref(),
            Self::Backend(BackendKind::IoUring) => URING.as_deref(),
            _ => None,
        };
        HOSTS.as_deref().or(own)
    }
}

/// The back ends that this build has, and the configuration that makes a sender use one and no
/// other.
pub(crate) fn all() -> Vec<BackendKind> {
    let mut kinds = vec![BackendKind::Sendmsg, BackendKind::Sendmmsg, BackendKind::Gso];
    if cfg!(feature = "io-uring") {
        kinds.push(BackendKind::IoUring);
    }
    if cfg!(feature = "af-xdp") {
        kinds.push(BackendKind::AfXdp);
    }
    if cfg!(feature = "tc-clone") {
        kinds.push(BackendKind::TcClone);
    }
    kinds
}

/// A configuration with which this back end and no other will do, on the near host of a link.
pub(crate) fn only(kind: BackendKind) -> Config {
    Config {
        backends: vec![kind],
        af_xdp: Some(group_send::AfXdpConfig::new(crate::host::NEAR_DEVICE)),
        tc_clone: Some(group_send::TcCloneConfig::new(crate::host::NEAR_DEVICE)),
        ..Config::default()
    }
}

fn hosts_missing() -> Option<String> {
    if let Err(error) = Host::new() {
        return Some(format!(
            "needs root (CAP_SYS_ADMIN, CAP_NET_ADMIN) to make network namespaces: {error}"
        ));
    }
    let has = |program: &str| {
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    ["ip", "ethtool"]
        .into_iter()
        .find(|program| !has(program))
        .map(|program| format!("needs the program {program}"))
}

fn xdp_missing() -> Option<String> {
    /// `AF_XDP` (linux/socket.h).
    const AF_XDP: i32 = 44;
    let error = Socket::new(Domain::from(AF_XDP), Type::RAW, None).err()?;
    Some(match error.kind() {
        io::ErrorKind::PermissionDenied => format!("needs CAP_NET_RAW: {error}"),
        _ => format!("needs a kernel with AF_XDP: {error}"),
    })
}

/// Programs are loaded by rights of the first user namespace only, whatever a process has in one of
/// its own.
fn tc_missing() -> Option<String> {
    // linux/capability.h: numbers of CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN and CAP_BPF.
    const NET_ADMIN_AND_RAW: u64 = 1 << 12 | 1 << 13;
    const SYS_ADMIN_OR_BPF: u64 = 1 << 21 | 1 << 39;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or_default();
    let rights = u64::from_str_radix(effective.trim(), 16).unwrap_or(0);
    let users = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_first = users.split_whitespace().eq(["0", "0", "4294967295"]);
    if !is_first || rights & NET_ADMIN_AND_RAW != NET_ADMIN_AND_RAW || rights & SYS_ADMIN_OR_BPF == 0 {
        return Some("needs CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW outside of user namespaces".into());
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-', '+']).map_while(|number| number.trim().parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (version < (6, 6)).then(|| format!("needs Linux 6.6, this is {}", release.trim()))
}

fn switch_missing() -> Option<String> {
    let host = Host::new().ok()?;
    let output = host.program(&["sh", "-c", "ip link add switch type bridge 2>&1 || :"], "");
    (!output.trim().is_empty()).then(|| format!("needs bridges, which the kernel lacks: {}", output.trim()))
}

fn uring_missing() -> Option<String> {
    let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    (disabled.trim() == "2")
        .then(|| "needs io_uring, which the sysctl kernel.io_uring_disabled turns off".into())
}
