//! How a recipient's own socket is made: with the caller's options, and for sending only.
//!
//! A connected socket bound to the caller's own address would receive its peer's replies in place
//! of the caller. These are bound to the caller's port of an unassigned multicast address: the
//! kernel then uses the address for receiving only, where nothing matches it, and gives what is
//! sent the source address of the route (`inet_saddr` and `inet_rcv_saddr`, net/ipv4/af_inet.c and
//! net/ipv6/af_inet6.c). If the caller's socket is bound to the wildcard address, both need
//! `SO_REUSEPORT`. Such a socket costs kernel memory and a descriptor, and nothing when datagrams
//! arrive: it is in none of the lists that the kernel searches then.

use crate::linux::{self, Family};
use crate::socket::copy_options;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

/// The options that new sockets copy.
pub(super) struct Template {
    caller: Socket,
    local: SocketAddr,
    family: Family,
    device: Option<Vec<u8>>,
}

impl Template {
    /// The template of sockets beside `caller`, or the reason why there can be none.
    pub(super) fn new(caller: &SockRef<'_>) -> Result<Self, String> {
        let failed = |error: io::Error| format!("the socket's options cannot be read: {error}");
        let local = caller.local_addr().map_err(failed)?.as_socket();
        let Some(local) = local.filter(|local| local.port() != 0) else {
            return Err("the socket is not bound to a port yet".to_owned());
        };
        let family = linux::family(caller).map_err(failed)?;
        let device = caller.device().map_err(failed)?;
        let template = Self { caller: caller.try_clone().map_err(failed)?, local, family, device };
        let probe = if family == Family::V4 { Domain::IPV4 } else { Domain::IPV6 };
        match template.bind(probe) {
            Ok(_) => Ok(template),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(NOT_SHARED.to_owned()),
            Err(error) => Err(format!("no second socket can have the socket's port: {error}")),
        }
    }

    /// Whether a connected socket sends to this address as an unconnected one would. `connect`
    /// accepts port 0 and fixes the flow label; multicast has options of its own.
    pub(super) fn suits(&self, destination: &SocketAddr) -> bool {
        let ip = destination.ip().to_canonical();
        let label = match destination {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(v6) => v6.flowinfo(),
        };
        self.family.reaches(destination)
            && label == 0
            && destination.port() != 0
            && !ip.is_multicast()
            && !ip.is_unspecified()
    }

    /// Whether the kernel holds no datagram of the caller's.
    pub(super) fn caller_is_idle(&self) -> bool {
        linux::bytes_in_flight(self.caller.as_fd()).is_ok_and(|bytes| bytes == 0)
    }

    /// A socket with the caller's options, for sending only.
    fn bind(&self, domain: Domain) -> io::Result<Socket> {
        let socket = self.socket_like_callers(domain)?;
        socket.set_reuse_port(true)?;
        let unassigned = if domain == Domain::IPV4 { UNASSIGNED_V4 } else { UNASSIGNED_V6 };
        socket.bind(&SocketAddr::new(unassigned, self.local.port()).into())?;
        Ok(socket)
    }

    fn socket_like_callers(&self, domain: Domain) -> io::Result<Socket> {
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        // A socket belongs to the network namespace of the thread that creates it.
        if !linux::same_namespace(socket.as_fd(), self.caller.as_fd()) {
            return Err(io::Error::other("this thread is in another network namespace"));
        }
        if domain == Domain::IPV6 {
            socket.set_only_v6(true)?;
        }
        if let Some(device) = &self.device {
            socket.bind_device(Some(device))?;
        }
        copy_options(self.caller.as_fd(), socket.as_fd())?;
        Ok(socket)
    }

    /// A socket of the recipient's own.
    ///
    /// # Errors
    /// `errno`, or it would not send as the caller's does.
    pub(super) fn connect(&self, destination: &SocketAddr) -> io::Result<Socket> {
        let ip = destination.ip().to_canonical();
        let domain = if ip.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let destination = if ip.is_ipv4() { SocketAddr::new(ip, destination.port()) } else { *destination };
        let own = self.local.ip().to_canonical();
        if !own.is_unspecified() && self.source(domain, destination)? != own {
            return Err(io::Error::other("the route's source address is not the one the socket is bound to"));
        }
        let socket = self.bind(domain)?;
        socket.connect(&destination.into())?;
        Ok(socket)
    }

    /// The source address of the route, which a connected socket has that is not bound.
    fn source(&self, domain: Domain, destination: SocketAddr) -> io::Result<IpAddr> {
        let socket = self.socket_like_callers(domain)?;
        socket.connect(&destination.into())?;
        let local = socket.local_addr()?.as_socket();
        local.map(|local| local.ip()).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }
}

const NOT_SHARED: &str = "no second socket can have the socket's port: SO_REUSEPORT is not set on it";

/// Guaranteed not to be assigned to any group (RFC 1112 section 4).
const UNASSIGNED_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0));

/// Reserved, and never to be assigned to any group (RFC 4291 section 2.7.1).
const UNASSIGNED_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 0));
