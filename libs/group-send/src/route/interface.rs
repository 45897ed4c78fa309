//! The interface that frames leave by: addresses, MTU, whether it is up, and whether it is Ethernet
//! at all.

#[cfg(any(feature = "af-xdp", feature = "tc-clone"))]
use crate::netlink::message::{RTM_GETLINK, interface_name};
use crate::netlink::objects::{self as nl, InterfaceAddress, Link};
use crate::netlink::request::Request;
#[cfg(any(feature = "af-xdp", feature = "tc-clone"))]
use crate::netlink::request::link_fixed;
use crate::netlink::socket::NetlinkSocket;
use std::io::{self, ErrorKind};
use std::net::IpAddr;

/// An Ethernet interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name when it was opened.
    pub name: String,
    /// Its number in this network namespace.
    pub index: u32,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Largest frame payload in bytes.
    pub mtu: u32,
    /// Set up by the administrator and with a carrier.
    pub up: bool,
    /// Its IPv4 and IPv6 addresses.
    pub addresses: Vec<IpAddr>,
    pub(super) ipv4: Family,
    pub(super) ipv6: Family,
}

/// Properties of the interface for one address family, for routes without their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Family {
    pub(super) mtu: u32,
    pub(super) hop_limit: u8,
}

/// Default TTL and hop limit (RFC 1700, RFC 4861 section 6.3.2).
const HOP_LIMIT: u8 = 64;

impl Interface {
    /// Fails if the link is not Ethernet.
    pub(super) fn new(name: &str, link: Link) -> io::Result<Self> {
        let loopback = link.flags & nl::IFF_LOOPBACK != 0;
        if link.hardware != nl::ARPHRD_ETHER || loopback || link.mac.is_none() {
            return Err(io::Error::new(ErrorKind::Unsupported, "it is not Ethernet"));
        }
        let ipv4_hop_limit = std::fs::read_to_string("/proc/sys/net/ipv4/ip_default_ttl")
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(HOP_LIMIT);
        let mut interface = Self {
            name: name.to_owned(),
            index: link.index,
            mac: [0; 6],
            mtu: 0,
            up: false,
            addresses: Vec::new(),
            ipv4: Family { mtu: 0, hop_limit: ipv4_hop_limit },
            ipv6: Family { mtu: 0, hop_limit: HOP_LIMIT },
        };
        interface.set_link(link);
        Ok(interface)
    }

    pub(super) fn set_link(&mut self, link: Link) {
        self.mac = link.mac.unwrap_or_default();
        self.mtu = link.mtu;
        self.up = link.mac.is_some() && link.flags & nl::IFF_UP != 0 && link.flags & nl::IFF_RUNNING != 0;
        self.ipv4.mtu = link.mtu;
        self.ipv6 = Family {
            mtu: link.ipv6_mtu.map_or(link.mtu, |mtu| mtu.min(link.mtu)),
            hop_limit: link.ipv6_hop_limit.unwrap_or(HOP_LIMIT),
        };
    }
}

/// The name of the Ethernet interface that has the address a socket is bound to or, if it is bound to
/// none, of the only one that is up.
///
/// # Errors
/// There is no such interface, there are several, or the kernel does not say.
#[cfg(any(feature = "af-xdp", feature = "tc-clone"))]
pub(crate) fn only_interface(source: IpAddr) -> Result<String, String> {
    let list = || -> io::Result<Vec<String>> {
        let (mut socket, mut request) = (NetlinkSocket::open()?, Request::default());
        let mut links = Vec::new();
        socket.all(request.all(RTM_GETLINK, &link_fixed(0)), |message| {
            let Some(message) = message else { return links.clear() };
            links.extend(Link::parse(message.body).zip(interface_name(message.body)));
        })?;
        let mut names = Vec::new();
        for (link, name) in links {
            let (index, flags) = (link.index, link.flags);
            if Interface::new(&name, link).is_err() {
                continue;
            }
            // That it has a carrier; `IFF_RUNNING` says so up to a second later.
            let up = flags & nl::IFF_UP != 0 && flags & nl::IFF_LOWER_UP != 0;
            let is_it = |addresses: Vec<IpAddr>| source.is_unspecified() || addresses.contains(&source);
            if up && is_it(addresses(&mut socket, &mut request, index)?) {
                names.push(name);
            }
        }
        Ok(names)
    };
    let mut names = list().map_err(|error| format!("interfaces: {error}"))?;
    match names.len() {
        1 => Ok(names.remove(0)),
        0 if source.is_unspecified() => Err("no Ethernet interface is up".to_owned()),
        0 => Err(format!("no Ethernet interface that is up has the socket's address {source}")),
        _ => Err(format!("several Ethernet interfaces are up, and none is named: {}", names.join(", "))),
    }
}

/// The addresses of an interface. The kernel lists those of all, with or without asking for one.
pub(super) fn addresses(
    socket: &mut NetlinkSocket,
    request: &mut Request,
    index: u32,
) -> io::Result<Vec<IpAddr>> {
    let mut addresses = Vec::new();
    socket.all(request.all(nl::RTM_GETADDR, &[0; nl::ADDRESS_FIXED]), |message| {
        let Some(message) = message else { return addresses.clear() };
        let address = InterfaceAddress::parse(message.body).filter(|_| message.kind == nl::RTM_NEWADDR);
        addresses.extend(address.filter(|a| a.interface == index).map(|a| a.address));
    })?;
    Ok(addresses)
}
