//! What route messages are about: routes, neighbours, interfaces and their addresses
//! (rtnetlink(7)).
//!
//! Each reads the body of one message: a fixed structure, then attributes in any order. Unknown
//! ones are skipped, and one of unexpected size counts as absent: newer kernels add both. `route`
//! decides what follows.

use super::message::{Attributes, LINK_FIXED, u16_at, u32_at};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A route: the kernel's answer for one destination, or a reported change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) family: u8,
    /// Length of the prefix in bits.
    pub(crate) prefix_len: u8,
    /// `RTN_UNICAST`, `RTN_LOCAL` ...
    pub(crate) kind: u8,
    pub(crate) flags: u32,
    /// Absent for the default route.
    pub(crate) destination: Option<IpAddr>,
    pub(crate) interface: Option<u32>,
    /// Absent if the destination is on the link. May be of the other family (RFC 5549).
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) preferred_source: Option<IpAddr>,
    pub(crate) mtu: Option<u32>,
    pub(crate) hop_limit: Option<u8>,
    /// A tunnel's header or labels are put before the packet.
    pub(crate) encapsulated: bool,
    /// A set of next hops of which none was chosen yet.
    pub(crate) multipath: bool,
}

impl Route {
    /// The body of an `RTM_NEWROUTE` or `RTM_DELROUTE` (`struct rtmsg`).
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let flags = u32_at(body, 8)?;
        let (family, prefix_len, kind) = (*body.first()?, *body.get(1)?, *body.get(7)?);
        let mut route = Self { family, prefix_len, kind, flags, ..Self::default() };
        for (kind, payload) in Attributes::after(body, ROUTE_FIXED) {
            match kind {
                RTA_DST => route.destination = address(payload),
                RTA_OIF => route.interface = u32_at(payload, 0),
                RTA_GATEWAY => route.gateway = address(payload),
                RTA_VIA => route.gateway = payload.get(2..).and_then(address),
                RTA_PREFSRC => route.preferred_source = address(payload),
                RTA_METRICS => route.set_metrics(payload),
                RTA_MULTIPATH => route.multipath = true,
                RTA_ENCAP | RTA_ENCAP_TYPE | RTA_NEWDST => route.encapsulated = true,
                _ => {}
            }
        }
        Some(route)
    }

    fn set_metrics(&mut self, payload: &[u8]) {
        for (kind, payload) in Attributes(payload) {
            let value = u32_at(payload, 0).filter(|value| *value != 0);
            match kind {
                RTAX_MTU => self.mtu = value,
                RTAX_HOPLIMIT => self.hop_limit = value.and_then(|limit| u8::try_from(limit).ok()),
                _ => {}
            }
        }
    }
}

/// `struct rtmsg` of a request for the route to one address, from `source` if given.
pub(crate) fn route_fixed(destination: IpAddr, source: Option<IpAddr>) -> [u8; ROUTE_FIXED] {
    let bits = |address: IpAddr| if address.is_ipv4() { 32 } else { 128 };
    let mut fixed = [0; ROUTE_FIXED];
    fixed[0] = if destination.is_ipv4() { AF_INET } else { AF_INET6 };
    fixed[1] = bits(destination);
    fixed[2] = source.map_or(0, bits);
    fixed
}

/// A neighbour: an address on the link and its MAC address, if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) interface: u32,
    /// `NUD_REACHABLE` and so on.
    pub(crate) state: u16,
    pub(crate) address: IpAddr,
    pub(crate) mac: Option<[u8; 6]>,
}

impl Neighbour {
    /// The body of an `RTM_NEWNEIGH` or `RTM_DELNEIGH` (`struct ndmsg`). Nothing for a bridge's
    /// table or an address answered for on behalf of others.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let (interface, state, flags) = (u32_at(body, 4)?, u16_at(body, 8)?, *body.get(10)?);
        let of_ip = matches!(*body.first()?, AF_INET | AF_INET6);
        if !of_ip || flags & NTF_PROXY != 0 {
            return None;
        }
        let (mut destination, mut mac) = (None, None);
        for (kind, payload) in Attributes::after(body, NEIGHBOUR_FIXED) {
            match kind {
                NDA_DST => destination = address(payload),
                NDA_LLADDR => mac = payload.try_into().ok(),
                _ => {}
            }
        }
        Some(Self { interface, state, address: destination?, mac })
    }
}

/// An interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    /// `ARPHRD_ETHER` and so on.
    pub(crate) hardware: u16,
    /// `IFF_UP` and so on.
    pub(crate) flags: u32,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) mtu: u32,
    /// Set by router advertisements (RFC 4861 section 4.6.4) or the administrator; not above `mtu`.
    pub(crate) ipv6_mtu: Option<u32>,
    pub(crate) ipv6_hop_limit: Option<u8>,
}

impl Link {
    /// The body of an `RTM_NEWLINK` (`struct ifinfomsg`).
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let (hardware, index, flags) = (u16_at(body, 2)?, u32_at(body, 4)?, u32_at(body, 8)?);
        let mut link = Self { index, hardware, flags, ..Self::default() };
        for (kind, payload) in Attributes::after(body, LINK_FIXED) {
            match kind {
                IFLA_ADDRESS => link.mac = payload.try_into().ok(),
                IFLA_MTU => link.mtu = u32_at(payload, 0).unwrap_or(0),
                IFLA_AF_SPEC => link.set_ipv6(payload),
                _ => {}
            }
        }
        Some(link)
    }

    /// Reads the table of the interface's IPv6 settings (linux/ipv6.h: `DEVCONF_*` are its
    /// indices).
    fn set_ipv6(&mut self, families: &[u8]) {
        let of_ipv6 = Attributes(families).filter(|(family, _)| *family == u16::from(AF_INET6));
        let settings = of_ipv6.flat_map(|(_, settings)| Attributes(settings));
        for (_, table) in settings.filter(|(kind, _)| *kind == IFLA_INET6_CONF) {
            self.ipv6_hop_limit = u32_at(table, 4).and_then(|limit| u8::try_from(limit).ok());
            self.ipv6_mtu = u32_at(table, 8).filter(|mtu| *mtu != 0);
        }
    }
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceAddress {
    pub(crate) interface: u32,
    pub(crate) address: IpAddr,
}

impl InterfaceAddress {
    /// The body of an `RTM_NEWADDR` (`struct ifaddrmsg`). The local end, where the link is point to
    /// point.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let interface = u32_at(body, 4)?;
        let (mut local, mut remote) = (None, None);
        for (kind, payload) in Attributes::after(body, ADDRESS_FIXED) {
            match kind {
                IFA_LOCAL => local = address(payload),
                IFA_ADDRESS => remote = address(payload),
                _ => {}
            }
        }
        Some(Self { interface, address: local.or(remote)? })
    }
}

/// An address of 4 or 16 bytes.
pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(octets).into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|octets| Ipv6Addr::from(octets).into())
}

// Numbers of linux/rtnetlink.h, neighbour.h, if_link.h, if_addr.h, ipv6.h.
pub(crate) const ROUTE_FIXED: usize = 12;
pub(crate) const NEIGHBOUR_FIXED: usize = 12;
pub(crate) const ADDRESS_FIXED: usize = 8;
pub(crate) const AF_INET: u8 = 2;
pub(crate) const AF_INET6: u8 = 10;
pub(crate) const RTM_DELLINK: u16 = 17;
pub(crate) const RTM_NEWADDR: u16 = 20;
pub(crate) const RTM_DELADDR: u16 = 21;
pub(crate) const RTM_GETADDR: u16 = 22;
pub(crate) const RTM_NEWROUTE: u16 = 24;
pub(crate) const RTM_DELROUTE: u16 = 25;
pub(crate) const RTM_GETROUTE: u16 = 26;
pub(crate) const RTM_NEWNEIGH: u16 = 28;
pub(crate) const RTM_DELNEIGH: u16 = 29;
pub(crate) const RTM_GETNEIGH: u16 = 30;
pub(crate) const RTN_UNICAST: u8 = 1;
pub(crate) const RTN_LOCAL: u8 = 2;
pub(crate) const RTN_BROADCAST: u8 = 3;
pub(crate) const RTN_ANYCAST: u8 = 4;
pub(crate) const RTN_MULTICAST: u8 = 5;
pub(crate) const RTA_DST: u16 = 1;
pub(crate) const RTA_SRC: u16 = 2;
pub(crate) const RTA_OIF: u16 = 4;
pub(crate) const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
pub(crate) const RTA_MARK: u16 = 16;
const RTA_VIA: u16 = 18;
const RTA_NEWDST: u16 = 19;
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_ENCAP: u16 = 22;
pub(crate) const RTA_IP_PROTO: u16 = 27;
pub(crate) const RTA_SPORT: u16 = 28;
const RTAX_MTU: u16 = 2;
const RTAX_HOPLIMIT: u16 = 10;
pub(crate) const NUD_REACHABLE: u16 = 0x02;
pub(crate) const NUD_STALE: u16 = 0x04;
pub(crate) const NUD_DELAY: u16 = 0x08;
pub(crate) const NUD_PROBE: u16 = 0x10;
pub(crate) const NUD_NOARP: u16 = 0x40;
pub(crate) const NUD_PERMANENT: u16 = 0x80;
const NTF_PROXY: u8 = 0x08;
pub(crate) const NDA_DST: u16 = 1;
pub(crate) const NDA_LLADDR: u16 = 2;
const IFLA_ADDRESS: u16 = 1;
const IFLA_MTU: u16 = 4;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_INET6_CONF: u16 = 2;
pub(crate) const ARPHRD_ETHER: u16 = 1;
pub(crate) const IFF_UP: u32 = 1;
pub(crate) const IFF_LOOPBACK: u32 = 8;
pub(crate) const IFF_RUNNING: u32 = 0x40;
#[cfg(any(feature = "af-xdp", feature = "tc-clone"))]
pub(crate) const IFF_LOWER_UP: u32 = 0x1_0000;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

#[cfg(test)]
mod tests {
    use super::super::message::Messages;
    use super::*;

    /// A neighbour in the words of a little-endian kernel: `ip neigh add 10.77.0.2 lladdr
    /// 02:00:00:00:77:02 dev 2`.
    #[cfg(target_endian = "little")]
    const NEIGHBOUR: [u8; 48] = [
        48, 0, 0, 0, 28, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, // length, RTM_NEWNEIGH, flags, sequence, port
        2, 0, 0, 0, 2, 0, 0, 0, 0x80, 0, 0, 1, // AF_INET, interface 2, permanent, flags, unicast
        8, 0, 1, 0, 10, 77, 0, 2, // NDA_DST
        10, 0, 2, 0, 2, 0, 0, 0, 0x77, 2, 0, 0, // NDA_LLADDR and padding
    ];

    #[cfg(target_endian = "little")]
    #[test]
    fn a_neighbour_is_read_from_its_bytes() {
        let message = Messages(&NEIGHBOUR).next().expect("one");
        assert_eq!((message.kind, message.flags, message.sequence), (RTM_NEWNEIGH, 0, 5));
        let expected = Neighbour {
            interface: 2,
            state: NUD_PERMANENT,
            address: IpAddr::from([10, 77, 0, 2]),
            mac: Some([2, 0, 0, 0, 0x77, 2]),
        };
        assert_eq!(Neighbour::parse(message.body), Some(expected));
        for other in [0_u8, 7 /* AF_BRIDGE */] {
            let mut body = message.body.to_vec();
            body[0] = other;
            assert_eq!(Neighbour::parse(&body), None, "family {other}");
        }
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn what_is_cut_short_ends_the_walk() {
        for length in 0..NEIGHBOUR.len() {
            assert_eq!(Messages(&NEIGHBOUR[..length]).next(), None, "length {length}");
        }
        // A length below the header's own would not advance.
        for length in 0..16 {
            let mut bytes = NEIGHBOUR;
            bytes[0] = length;
            assert_eq!(Messages(&bytes).next(), None, "length {length}");
        }
        for length in 0..4 {
            let mut bytes = NEIGHBOUR;
            bytes[28] = length;
            assert_eq!(Attributes::after(&bytes[16..], NEIGHBOUR_FIXED).next(), None, "length {length}");
        }
        // Padding that is missing behind the last one is no fault.
        assert_eq!(Attributes::after(&NEIGHBOUR[16..46], NEIGHBOUR_FIXED).count(), 2);
    }

    #[test]
    fn a_route_that_changes_packets_is_told_from_one_that_does_not() {
        // Destination, source for the answer, gateway, and what newer kernels may add.
        for (kind, changes) in
            [(1, false), (5, false), (7, false), (19, true), (21, true), (22, true), (99, false)]
        {
            let mut body = route_fixed(IpAddr::from([192, 0, 2, 1]), None).to_vec();
            body.extend([8_u16, kind].iter().flat_map(|number| number.to_ne_bytes()));
            body.extend([10, 0, 0, 1]);
            assert_eq!(Route::parse(&body).expect("a route").encapsulated, changes, "attribute {kind}");
        }
    }

    #[test]
    fn every_attribute_of_a_wrong_size_counts_as_absent() {
        for length in 0..=20 {
            let bytes = vec![1; length];
            assert_eq!(address(&bytes).is_some(), matches!(length, 4 | 16), "length {length}");
        }
    }
}
