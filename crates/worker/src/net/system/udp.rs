//! UDP sockets; batches are received and sent by `group_send`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use group_send::steering::{Instruction, Steering};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

pub(crate) use group_send::{RecvBatch as ReceivedBatch, Sender as UdpSender};

/// A UDP socket. Never blocks.
#[derive(Debug)]
pub(crate) struct UdpSocket(std::net::UdpSocket);

impl UdpSocket {
    /// Binds `address`; one of IPv6 is for IPv6 alone.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        Ok(Self(socket.into()))
    }

    /// Lets others be bound to its address from now on, by [`UdpSocket::bind_shared`]. Until then another
    /// server there was an error, and a free port nobody else's: of sockets that share, the kernel gives the
    /// same free port to two.
    pub(crate) fn share(&self) -> io::Result<()> {
        SockRef::from(&self.0).set_reuse_port(true)
    }

    /// The same, with others at one address (`SO_REUSEPORT`): the kernel gives all datagrams of one sender
    /// to one of them.
    pub(crate) fn bind_shared(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_reuse_port(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        Ok(Self(socket.into()))
    }

    /// A socket that another process has bound.
    pub(crate) fn adopt(socket: OwnedFd) -> io::Result<Self> {
        let socket = std::net::UdpSocket::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// The same socket once more, for another process.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }

    /// Has a program pick which of the sockets at this address gets a datagram. Those that come later are
    /// never picked.
    pub(crate) fn steer(&self, program: &[Instruction]) -> io::Result<()> {
        use nix::libc::{sock_filter, sock_fprog};
        let to_filter = |&Instruction { code, jump_if, jump_else, operand }: &Instruction| sock_filter {
            code,
            jt: jump_if,
            jf: jump_else,
            k: operand,
        };
        let mut filter: Vec<sock_filter> = program.iter().map(to_filter).collect();
        let len = u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let program = sock_fprog { len, filter: filter.as_mut_ptr() };
        nix::sys::socket::setsockopt(&self.0, nix::sys::socket::sockopt::AttachReusePortCbpf, &program)?;
        Ok(())
    }

    /// The same with a program that has a table.
    pub(crate) fn steer_by_table(&self, steering: &Steering) -> io::Result<()> {
        steering.attach(&self.0)
    }

    /// The address it is bound to.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Buffers for a burst of all publishers, and datagrams of one sender received together (GRO). What the
    /// system does not grant is in the log.
    pub(crate) fn enlarge(&self) -> io::Result<()> {
        let local = self.local_addr()?;
        match group_send::socket::size_buffers(&self.0, group_send::socket::BUFFER_BYTES) {
            Ok(buffers) => {
                if let Some(warning) = buffers.warning {
                    tracing::warn!(%local, "{warning}");
                }
            }
            Err(error) => tracing::warn!(%local, %error, "UDP buffers keep the system's size"),
        }
        if let Err(error) = group_send::socket::enable_gro(&self.0) {
            tracing::debug!(%local, %error, "UDP GRO is not available: each datagram is received on its own");
        }
        Ok(())
    }

    /// What sends from it.
    pub(crate) fn sender(&self, config: &group_send::Config) -> io::Result<UdpSender> {
        UdpSender::new(&self.0, config).map_err(io::Error::other)
    }

    /// Receives what has arrived into `batch`.
    pub(crate) fn receive(&self, batch: &mut ReceivedBatch) -> io::Result<usize> {
        batch.recv(&self.0)
    }
}

impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The interface that has an address of this host.
pub(crate) fn interface_of(address: IpAddr) -> Option<String> {
    let mut interfaces = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let found = interfaces.find(|interface| address_of(interface) == Some(address));
    found.map(|interface| interface.interface_name)
}

fn address_of(interface: &nix::ifaddrs::InterfaceAddress) -> Option<IpAddr> {
    let address = interface.address?;
    let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
}

/// Addresses of this host's interfaces that are up, without those that are valid on one link only: a peer
/// elsewhere cannot use them, and they need a scope no candidate has (RFC 8839 section 5.1). Of one
/// interface, if it is named.
pub(crate) fn local_addresses(only: Option<&str>) -> Vec<IpAddr> {
    use nix::net::if_::InterfaceFlags;
    let interfaces = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let mut addresses: Vec<IpAddr> = interfaces
        .filter(|interface| interface.flags.contains(InterfaceFlags::IFF_UP))
        .filter(|interface| only.is_none_or(|only| interface.interface_name == only))
        .filter_map(|interface| address_of(&interface))
        .filter(|address| match address {
            IpAddr::V4(address) => !address.is_link_local(),
            IpAddr::V6(address) => !address.is_unicast_link_local(),
        })
        .collect();
    // Those that reach further first; a stable order for the answers.
    addresses.sort_by_key(|address| (address.is_loopback(), address.is_ipv6(), *address));
    addresses.dedup();
    addresses
}
