//! `millstream doctor`: whether this machine gives a server what its configuration asks for.
//!
//! Checks what a start would only show as an error, or at three in the morning: limits of the kernel and of
//! containers, ports in use by others, buffers, clock, certificates, disks. Each bad finding comes with the
//! line that fixes it. Nothing is changed; ports and sockets are bound for a moment and released.
//!
//! Files of `/proc` and `/sys` may be missing, as in containers: that check is then left out, or says that it
//! does not know, and the others run all the same.

mod acme;
mod certificates;
mod clock;
mod limits;
mod network;
mod ports;
mod storage;
mod system;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

pub use acme::Acme;
pub use certificates::Certificate;
pub use system::System;

/// What a server needs, by its configuration.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Threads of workers.
    pub workers: usize,
    /// Sessions of all workers.
    pub sessions: u64,
    /// Open files: sessions, and idle connections.
    pub open_files: u64,
    /// Ports by TCP and by UDP.
    pub ports: Vec<Port>,
    /// Addresses that WebRTC clients are given in place of those of the interfaces.
    pub public_addresses: Vec<IpAddr>,
    /// Directories that are written to, and the keys that name them.
    pub directories: Vec<(&'static str, PathBuf)>,
    /// Servers that are needed, as `host:port`, and the keys that name them.
    pub servers: Vec<(&'static str, String)>,
    /// Certificates of TLS listeners.
    pub certificates: Vec<Certificate>,
    /// Orders of certificates, if there are any.
    pub acme: Option<Acme>,
}

/// A port that a server listens on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The key of the configuration.
    pub key: &'static str,
    /// By what.
    pub protocol: Protocol,
    /// Where.
    pub address: SocketAddr,
}

/// What a port is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Fine,
    /// Worth knowing.
    Hint,
    /// The server starts, and gets into trouble sooner than it has to.
    Warning,
    /// The server does not start, or part of it does not work.
    Fault,
}

impl Level {
    /// In the first column, and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Hint => "hint",
            Self::Warning => "warning",
            Self::Fault => "fault",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was looked at, in a word or two.
    pub about: &'static str,
    /// What was found.
    pub found: String,
    /// The line that mends it: a command, or a key of the configuration.
    pub mend: Option<String>,
}

impl Finding {
    fn fine(about: &'static str, found: impl Into<String>) -> Self {
        Self { level: Level::Fine, about, found: found.into(), mend: None }
    }

    fn new(level: Level, about: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { level, about, found: found.into(), mend: Some(mend.into()) }
    }
}

/// As a person reads it: a line, and another with what mends it.
impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{:8} {:14} {}", self.level.name(), self.about, self.found)?;
        match &self.mend {
            Some(mend) => writeln!(out, "{:24}{mend}", ""),
            None => Ok(()),
        }
    }
}

/// Looks at everything, in the order of the report; `now` is since 1970.
pub fn examine(wanted: &Wanted, system: &System, now: Duration) -> Vec<Finding> {
    let mut findings = Vec::new();
    limits::examine(wanted, system, &mut findings);
    ports::examine(wanted, system, &mut findings);
    network::examine(wanted, system, &mut findings);
    clock::examine(system, &mut findings);
    certificates::examine(wanted, now, &mut findings);
    acme::examine(wanted, &mut findings);
    storage::examine(wanted, &mut findings);
    findings
}
