//! What the caller's UDP socket contributes to headers: address, port, and the options that the
//! kernel would apply.
//!
//! Frames carry the socket's address and port, so replies and ICMP errors arrive at the socket.
//! Options are read once: after a change of `IP_TOS`, `IP_TTL`, `IP_MTU_DISCOVER` or their IPv6
//! counterparts make a new sender. `SO_MARK` and the rest that decides about routes is read in
//! `route.rs`.

use crate::frame::Flow;
use crate::linux::{self, Family, option};
use crate::route::{self, NextHop, NextHops};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

pub(crate) struct Origin {
    /// Bound, so with a port; the address may be a wildcard.
    local: SocketAddr,
    family: Family,
    v4: Options,
    v6: Options,
    dont_fragment: bool,
    flow_labels: RandomState,
}

/// The same for either family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Options {
    /// `IP_TOS` or `IPV6_TCLASS`.
    traffic_class: u8,
    /// `IP_TTL` or `IPV6_UNICAST_HOPS`, if it is not what every socket has.
    hop_limit: Option<u8>,
}

impl Origin {
    /// Reads the socket's address and options; binds it, as sending would, when it is not bound.
    pub(crate) fn read(socket: &SockRef<'_>) -> io::Result<Self> {
        let family = linux::family(socket)?;
        let local = bound(socket)?;
        let domain = if family == Family::V4 { Domain::IPV4 } else { Domain::IPV6 };
        // Whether an option was set cannot be asked; whether it differs from a fresh socket's can.
        let fresh = Socket::new(domain, Type::DGRAM, None)?;
        let read = |level, traffic_class, hop_limit| -> io::Result<Options> {
            let hops = option(socket.as_fd(), level, hop_limit)?;
            let set = hops != option(fresh.as_fd(), level, hop_limit)?;
            Ok(Options {
                traffic_class: u8::try_from(option(socket.as_fd(), level, traffic_class)?).unwrap_or(0),
                hop_limit: u8::try_from(hops).ok().filter(|_| set),
            })
        };
        let v6 = match family {
            Family::V4 => Options::default(),
            _ => read(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::IPV6_UNICAST_HOPS)?,
        };
        Ok(Self {
            local,
            family,
            // An IPv6 socket has these as well, for the IPv4 it sends.
            v4: read(libc::IPPROTO_IP, libc::IP_TOS, libc::IP_TTL)?,
            v6,
            dont_fragment: dont_fragment(socket.as_fd())?,
            flow_labels: RandomState::new(),
        })
    }

    /// The next hops from the socket's address through an interface, as the kernel chooses them for
    /// this socket. Without a name, through the interface that it is bound to, or the only one.
    ///
    /// # Errors
    /// The socket is bound to another interface, or this one cannot be used.
    pub(crate) fn next_hops(&self, socket: &SockRef<'_>, interface: &str) -> Result<NextHops, String> {
        let device = socket.device().map_err(|error| format!("SO_BINDTODEVICE: {error}"))?;
        let device = device.map(|device| String::from_utf8_lossy(&device).into_owned());
        let interface = &match (interface, device) {
            ("", Some(device)) => device,
            ("", None) => route::only_interface(self.local.ip().to_canonical())?,
            (interface, Some(device)) if device != interface => {
                return Err(format!("the socket is bound to another interface than {interface}"));
            }
            (interface, _) => interface.to_owned(),
        };
        let mark = socket.mark().map_err(|error| format!("SO_MARK: {error}"))?;
        let flow = route::Flow { source: Some(self.local.ip()), source_port: self.local.port(), mark };
        NextHops::open(interface, &flow).map_err(|error| format!("interface {interface}: {error}"))
    }

    /// Whether this socket can send to the address at all, and frames can do the same. The other
    /// back end knows what to say of the rest.
    pub(crate) fn reaches(&self, destination: &SocketAddr) -> bool {
        let known = match destination {
            SocketAddr::V4(_) => self.family != Family::V6Only,
            // A flow label that the caller leased has to be looked up.
            SocketAddr::V6(v6) => self.family != Family::V4 && v6.flowinfo() == 0,
        };
        let (to, from) = (destination.ip().to_canonical(), self.local.ip().to_canonical());
        let mapped_only = self.family == Family::V6Only && to.is_ipv4();
        let same = if from.is_unspecified() {
            from.is_ipv6() || to.is_ipv4()
        } else {
            from.is_ipv4() == to.is_ipv4()
        };
        known && same && !mapped_only && destination.port() != 0
    }

    /// What the headers of datagrams to this recipient say.
    pub(crate) fn flow(&self, destination: &SocketAddr, hop: &NextHop) -> Flow {
        let source = SocketAddr::new(hop.source.to_canonical(), self.local.port());
        let destination = SocketAddr::new(destination.ip().to_canonical(), destination.port());
        let options = if destination.is_ipv4() { self.v4 } else { self.v6 };
        // The same for all datagrams of a flow, and evenly spread (RFC 6437 section 3).
        let flow_label =
            if destination.is_ipv6() { self.flow_labels.hash_one((source, destination)) } else { 0 };
        Flow {
            source_mac: hop.source_mac,
            destination_mac: hop.destination_mac,
            source,
            destination,
            hop_limit: options.hop_limit.unwrap_or(hop.hop_limit),
            traffic_class: options.traffic_class,
            dont_fragment: self.dont_fragment,
            flow_label: flow_label as u32 & 0xf_ffff,
        }
    }
}

/// The local address, after binding to any port as the first `sendmsg` does (udp(7)).
fn bound(socket: &SockRef<'_>) -> io::Result<SocketAddr> {
    let local =
        |address: SockAddr| address.as_socket().ok_or_else(|| io::Error::other("no internet address"));
    let address = local(socket.local_addr()?)?;
    if address.port() != 0 {
        return Ok(address);
    }
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    socket.bind(&SocketAddr::new(any, 0).into())?;
    local(socket.local_addr()?)
}

/// Whether the kernel sets the bit on datagrams that fit the path (ip(7), `IP_MTU_DISCOVER`).
fn dont_fragment(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let discover = option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER)?;
    Ok(matches!(discover, libc::IP_PMTUDISC_WANT | libc::IP_PMTUDISC_DO | libc::IP_PMTUDISC_PROBE))
}
