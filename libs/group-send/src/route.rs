//! Next hops: which frame header carries a datagram to an address, as the kernel would decide it.
//! For back ends that hand frames to a device themselves. The kernel still decides: it is asked
//! once for each destination (`RTM_GETROUTE`, about 2 us, at its first datagram), so that policy
//! routing, several next hops, exceptions for the path MTU and unreachable routes are what they are
//! for a socket. Answers are cached until the kernel announces a change, and asked for again every
//! [`RECHECK_MS`], since it does not announce changes of a path's MTU. The neighbour's MAC address
//! comes from the kernel's table, which is mirrored.
//!
//! **What is not seen here: netfilter (iptables, nftables), IPsec policies (xfrm), traffic control
//! and rules by destination port. Frames pass them by, as `AF_XDP` does.** What is not a plain
//! Ethernet next hop on the one interface is [`Unresolved`]: the caller uses the socket for it.
//! `table.rs` holds what is known and no descriptor.

#![cfg_attr(not(feature = "internals"), allow(unreachable_pub, reason = "public for tests and fuzzing only"))]

mod answers;
mod interface;
#[cfg(feature = "internals")]
mod known_hops;
mod neighbours;
mod table;

pub use interface::Interface;
#[cfg(any(feature = "af-xdp", feature = "tc-clone"))]
pub(crate) use interface::only_interface;
#[cfg(feature = "internals")]
pub use known_hops::KnownHops;

use crate::netlink;
use crate::netlink::objects::{self as nl, route_fixed};
use crate::netlink::request::Request;
use crate::netlink::socket::NetlinkSocket;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;
use table::Table;

/// How a destination is reached: all that a frame's headers need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The interface to send by.
    pub interface_index: u32,
    /// Its MAC address.
    pub source_mac: [u8; 6],
    /// The neighbour's MAC address: the destination's, or the gateway's.
    pub destination_mac: [u8; 6],
    /// The source address the kernel would take, which is the socket's if that is bound to one. Of
    /// the destination's family: IPv4 for an IPv4-mapped IPv6 destination (RFC 4291 section
    /// 2.5.5.2).
    pub source: IpAddr,
    /// Largest IP packet on the path, as far as known, in bytes with the IP header.
    pub mtu: u32,
    /// TTL or hop limit, unless the socket has one of its own.
    pub hop_limit: u8,
}

/// Why a datagram has to go through the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// There is no route, or one that discards or forbids. The socket says which.
    NoRoute,
    /// The route leads through another interface.
    OtherInterface,
    /// This host itself.
    Local,
    /// Broadcast or multicast.
    Multicast,
    /// The route puts a header of its own before the packet (MPLS, tunnels, segment routing).
    Encapsulated,
    /// The MAC address is not known. The socket makes the kernel ask for it.
    NoNeighbour,
    /// The MAC address is known but was not confirmed lately: datagrams to this destination go
    /// through the socket, which makes the kernel check it, while others may use it.
    StaleNeighbour,
    /// The interface is down or has been removed.
    LinkDown,
    /// The kernel did not answer.
    NoAnswer,
}

/// What the kernel's decision depends on beside the destination: the sending socket's settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// The address that the socket is bound to; unspecified for none.
    pub source: Option<IpAddr>,
    /// Its port, for rules by source port; 0 for none.
    pub source_port: u16,
    /// `SO_MARK`, for rules by mark; 0 for none.
    pub mark: u32,
}

/// The next hops of all destinations resolved so far, through one interface.
///
/// **Call [`refresh`](Self::refresh) before each batch, then [`resolve`](Self::resolve) for each
/// recipient. A [`NextHop`] may be kept as long as [`generation`](Self::generation) stays the same;
/// an [`Unresolved`] must be asked for again.**
pub struct NextHops {
    questions: NetlinkSocket,
    changes: NetlinkSocket,
    request: Request,
    flow: Flow,
    table: Table,
    opened: Instant,
}

/// Answers older than this, in milliseconds, are asked for again; so late does a changed path MTU
/// become known.
pub(crate) const RECHECK_MS: u64 = 5_000;

/// Answers that one refresh asks for again, at most: 20 us.
const RECHECKS_PER_REFRESH: usize = 8;

/// Maximum datagrams of changes that one refresh reads. The next one continues.
const CHANGES_PER_REFRESH: usize = 256;

impl NextHops {
    /// Begins to follow routes and neighbours of an interface, in the network namespace of the
    /// calling thread.
    ///
    /// Needs no privilege. Fails if there is no such interface, or if it is not Ethernet.
    pub fn open(interface: &str, flow: &Flow) -> io::Result<Self> {
        // Subscribe first, so that changes made while the lists are read are not missed.
        let changes = NetlinkSocket::subscribed(&GROUPS)?;
        let mut questions = NetlinkSocket::open()?;
        let mut request = Request::default();
        let index = netlink::index_of(&mut questions, &mut request, interface)?;
        let link = netlink::link(&mut questions, &mut request, index)?;
        let table = Table::new(Interface::new(interface, link)?);
        let mut hops = Self { questions, changes, request, flow: *flow, table, opened: now() };
        hops.read_everything()?;
        Ok(hops)
    }

    /// Applies changes. Never waits; 0.3 us when there are none.
    pub fn refresh(&mut self) {
        self.table.begin_refresh(now().duration_since(self.opened).as_millis() as u64);
        let mut lost = false;
        for _ in 0..CHANGES_PER_REFRESH {
            match self.changes.receive() {
                Ok(Some(messages)) => messages.for_each(|message| self.table.handle(message)),
                Ok(None) => break,
                Err(_) => lost = true,
            }
        }
        if lost {
            self.table.forget_everything();
        }
        if self.table.is_interface_outdated() {
            // Tried again by the next refresh; until then all goes by the socket.
            self.read_everything().unwrap_or_else(|_| self.table.interface_is_gone());
        }
        self.recheck();
    }

    /// The next hop of a destination: cached, or asked of the kernel the first time.
    ///
    /// A link-local IPv6 destination needs its scope (RFC 4007), as it does on a socket.
    pub fn resolve(&mut self, destination: &SocketAddr) -> Result<NextHop, Unresolved> {
        let address = destination.ip().to_canonical();
        let link_local = self.check_scope(destination)?;
        if let Some(known) = self.table.resolve(address, destination.port()) {
            return known;
        }
        if address.is_multicast() {
            return Err(Unresolved::Multicast);
        }
        let route = self.ask(address, link_local)?;
        self.table.learn(address, route);
        self.table.resolve(address, destination.port()).unwrap_or(Err(Unresolved::NoAnswer))
    }

    /// Changes whenever an answer that was given may no longer be right.
    pub fn generation(&self) -> u64 {
        self.table.generation()
    }

    /// The interface through which all of this goes.
    pub fn interface(&self) -> &Interface {
        self.table.interface()
    }

    /// Whether the destination is link-local; an error if it is so on another link.
    fn check_scope(&self, destination: &SocketAddr) -> Result<bool, Unresolved> {
        match destination {
            SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => match v6.scope_id() {
                0 => Err(Unresolved::NoRoute),
                scope if scope != self.table.interface().index => Err(Unresolved::OtherInterface),
                _ => Ok(true),
            },
            _ => Ok(false),
        }
    }

    /// The kernel's decision for one destination. An error of the kernel is a decision as well.
    fn ask(&mut self, address: IpAddr, link_local: bool) -> Result<Option<nl::Route>, Unresolved> {
        let Flow { source, source_port, mark } = self.flow;
        let source = source.map(|source| source.to_canonical());
        let source = source.filter(|s| s.is_ipv4() == address.is_ipv4() && !s.is_unspecified());
        let request = self.request.one(nl::RTM_GETROUTE, &route_fixed(address, source));
        request.address(nl::RTA_DST, address).attribute(nl::RTA_IP_PROTO, &[IPPROTO_UDP]);
        if let Some(source) = source {
            request.address(nl::RTA_SRC, source);
        }
        if source_port != 0 {
            request.attribute(nl::RTA_SPORT, &source_port.to_be_bytes());
        }
        if mark != 0 {
            request.attribute(nl::RTA_MARK, &mark.to_ne_bytes());
        }
        if link_local {
            request.attribute(nl::RTA_OIF, &self.table.interface().index.to_ne_bytes());
        }
        let answer = self.questions.one(request, |message| {
            (message.kind == nl::RTM_NEWROUTE).then(|| nl::Route::parse(message.body)).flatten()
        });
        match answer {
            // The kernel leaves out the source that it was given.
            Ok(route) => Ok(Some(nl::Route { preferred_source: route.preferred_source.or(source), ..route })),
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOBUFS | libc::ENOMEM | libc::EAGAIN | libc::EBUSY) | None => {
                    Err(Unresolved::NoAnswer)
                }
                Some(_) => Ok(None),
            },
        }
    }

    /// Asks again for the oldest answers, a few at a time.
    fn recheck(&mut self) {
        for _ in 0..RECHECKS_PER_REFRESH {
            let Some(address) = self.table.next_outdated() else { return };
            let link_local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
            if let Ok(route) = self.ask(address, link_local) {
                self.table.learn(address, route);
            }
        }
    }

    /// Reads the interface, its addresses and its neighbours.
    fn read_everything(&mut self) -> io::Result<()> {
        let Self { questions, request, table, .. } = self;
        let index = table.interface().index;
        let link = netlink::link(questions, request, index)?;
        let addresses = interface::addresses(questions, request, index)?;
        let neighbours = neighbours::ask(questions, request, index)?;
        table.set_interface(link, addresses, neighbours);
        Ok(())
    }
}

fn now() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "paces questions to the kernel; nothing of it is seen outside"
    )]
    Instant::now()
}

const IPPROTO_UDP: u8 = 17;

/// The groups of change notifications (linux/rtnetlink.h).
const GROUPS: [i32; 10] = [
    1,  // RTNLGRP_LINK
    3,  // RTNLGRP_NEIGH
    5,  // RTNLGRP_IPV4_IFADDR
    7,  // RTNLGRP_IPV4_ROUTE
    8,  // RTNLGRP_IPV4_RULE
    9,  // RTNLGRP_IPV6_IFADDR
    11, // RTNLGRP_IPV6_ROUTE
    12, // RTNLGRP_IPV6_IFINFO
    19, // RTNLGRP_IPV6_RULE
    32, // RTNLGRP_NEXTHOP
];
