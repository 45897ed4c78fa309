//! Where a back end that sends datagrams is tried: those that need no rights, and no network device, on
//! loopback. The others need an Ethernet interface: two hosts that are network namespaces, joined by a
//! virtual cable, and root. Without that they are left out, with a line that says so.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use group_send::BackendKind;

use crate::host::{FAR_V4, Link, NEAR_V4};
use crate::needs::Need;

/// Where things are: on two hosts, or all on loopback.
pub(crate) enum Place {
    Loopback,
    Hosts(Link),
}

impl Place {
    /// A place for a back end; `None` is any that a system without that has. Says so if there is none.
    pub(crate) fn of(kind: Option<BackendKind>) -> Option<Self> {
        let Some(kind) = kind else { return Some(Self::Loopback) };
        let needs_hosts = matches!(kind, BackendKind::AfXdp | BackendKind::TcClone);
        let missing = match needs_hosts {
            true => Need::Backend(kind).missing(),
            // The others need no hosts; what is missing of those is no reason.
            false => Need::Backend(kind).missing().filter(|_| Need::Hosts.missing().is_none()),
        };
        if let Some(missing) = missing {
            // Past what the harness keeps of a test that succeeds.
            let _ = writeln!(std::io::stderr(), "back end {}: left out, {missing}", kind.name());
            return None;
        }
        // A queue for viewers and one for nodes.
        Some(if needs_hosts { Self::Hosts(Link::with_queues(2)) } else { Self::Loopback })
    }

    /// Whether it is two hosts.
    pub(crate) fn has_hosts(&self) -> bool {
        matches!(self, Self::Hosts(_))
    }

    /// Does something on the host that sends, whose address it gets.
    pub(crate) fn near<T: Send>(&self, work: impl FnOnce(IpAddr) -> T + Send) -> T {
        match self {
            Self::Loopback => work(Ipv4Addr::LOCALHOST.into()),
            Self::Hosts(link) => link.near.run(|| work(NEAR_V4)),
        }
    }

    /// Does something on the other one.
    pub(crate) fn far<T: Send>(&self, work: impl FnOnce(IpAddr) -> T + Send) -> T {
        match self {
            Self::Loopback => work(Ipv4Addr::LOCALHOST.into()),
            Self::Hosts(link) => link.far.run(|| work(FAR_V4[0])),
        }
    }

    /// Datagrams that left the near host through the kernel's UDP stack, if that says anything.
    pub(crate) fn sent_by_stack(&self) -> u64 {
        match self {
            Self::Loopback => 0,
            Self::Hosts(link) => link.sent_by_stack(),
        }
    }
}
