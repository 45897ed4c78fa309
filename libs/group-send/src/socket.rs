//! What a UDP socket of a media server is asked for: large buffers, and more said about each datagram.
//!
//! Every function takes a reference to a socket of any library (`std`, `mio`, `tokio`, `socket2`) and does one thing to
//! it; none is needed for sending or receiving as such. Where a system or an old kernel does not have something, it says so by an error, and the rest
//! works without it.

mod buffers;
#[cfg(target_os = "linux")]
mod error_queue;

pub use buffers::{BUFFER_BYTES, Buffers, size_buffers};
#[cfg(target_os = "linux")]
pub(crate) use error_queue::drain_errors;

#[cfg(target_os = "linux")]
use crate::linux;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;

/// A non-blocking UDP socket at `port` (0: any free one) of all addresses of the host, IPv6 and IPv4, or of all IPv4
/// addresses if the host has no IPv6. Whether IPv4 is included does not depend on `net.ipv6.bindv6only`.
///
/// # Errors
/// Those of `socket(2)` and `bind(2)`: the port is taken or not allowed.
pub fn bind_dual_stack(port: u16) -> io::Result<UdpSocket> {
    let bind = |domain, address: SocketAddr| {
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        if domain == Domain::IPV6 {
            socket.set_only_v6(false)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        Ok(socket.into())
    };
    bind(Domain::IPV6, (Ipv6Addr::UNSPECIFIED, port).into()).or_else(|error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err(error),
        _ => bind(Domain::IPV4, (Ipv4Addr::UNSPECIFIED, port).into()),
    })
}

/// Has the kernel put datagrams of one sender that arrive together into one message (`UDP_GRO`, `udp(7)`), which
/// [`RecvBatch`](crate::RecvBatch) takes apart again. Linux 5.0.
///
/// Whoever receives from this socket in another way gets several datagrams as one.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] on other systems, and `ENOPROTOOPT` of an older kernel.
pub fn enable_gro<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<()> {
    enable(&socket.into(), Wish::Segments)
}

/// Has the mark of congestion told with each datagram ([`Received::ecn`](crate::Received::ecn)): `IP_RECVTOS`
/// (`ip(7)`), `IPV6_RECVTCLASS` (RFC 3542 section 6.5). Costs about 40 ns a datagram.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] on other systems than Linux.
pub fn enable_ecn<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<()> {
    enable(&socket.into(), Wish::TrafficClass)
}

/// Has the time of arrival told with each datagram ([`Received::received_at`](crate::Received::received_at)):
/// `SO_TIMESTAMPNS` (`socket(7)`). The kernel takes the time when the datagram leaves the device's driver.
/// Costs about 40 ns a datagram.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] on other systems than Linux.
pub fn enable_timestamps<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<()> {
    enable(&socket.into(), Wish::Timestamps)
}

/// Has the address told that each datagram was sent to ([`Received::destination`](crate::Received::destination)), for
/// sockets bound to all addresses of a host: `IP_PKTINFO` (`ip(7)`), `IPV6_RECVPKTINFO` (RFC 3542 section 6.1).
/// Costs about 30 ns a datagram.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] on other systems than Linux.
pub fn enable_destination<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<()> {
    enable(&socket.into(), Wish::Destination)
}

/// Has the kernel keep what the network answers to datagrams that cannot be delivered, so that sending to that
/// recipient again fails, as with a connected socket: `IP_RECVERR` (`ip(7)`), `IPV6_RECVERR`.
///
/// **Call [`Sender::read_refusals`](crate::Sender::read_refusals) whenever the socket reports an error** (`EPOLLERR`),
/// which it does until the answers are read. [`RecvBatch`](crate::RecvBatch) passes over them; who receives in another
/// way gets errors that belong to datagrams sent before. Answers are not authenticated: any host that guesses ports can
/// send them.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] on other systems than Linux.
pub fn report_refusals<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<()> {
    enable(&socket.into(), Wish::Refusals)
}

/// Makes departure times of datagrams possible, by this clock (`SO_TXTIME`, `socket(7)`). Linux 4.19.
///
/// The queue of the device must know them: `fq` goes by [`DepartureClock::Monotonic`], `etf` by
/// [`DepartureClock::Tai`]; others send at once.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] on other systems, and `EPERM` for any clock but the monotonic one without
/// `CAP_NET_ADMIN`.
pub fn enable_txtime<'s>(socket: impl Into<SockRef<'s>>, clock: DepartureClock) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return linux::recv::set_txtime(
        socket.into().as_fd(),
        match clock {
            DepartureClock::Monotonic => libc::CLOCK_MONOTONIC,
            DepartureClock::Tai => libc::CLOCK_TAI,
        },
    );
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (socket.into(), clock);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The clock of a socket's departure times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DepartureClock {
    /// `CLOCK_MONOTONIC`.
    Monotonic,
    /// `CLOCK_TAI`, international atomic time.
    Tai,
}

/// What a socket can be asked to tell.
#[derive(Clone, Copy)]
enum Wish {
    Segments,
    TrafficClass,
    Timestamps,
    Destination,
    Refusals,
}

#[cfg(not(target_os = "linux"))]
fn enable(_: &SockRef<'_>, _: Wish) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Sets what the wish takes. An IPv6 socket gets the options of IPv4 as well, because it may be a dual-stack one; only
/// the destination is told by the IPv6 option for both.
#[cfg(target_os = "linux")]
fn enable(socket: &SockRef<'_>, wish: Wish) -> io::Result<()> {
    use libc::{IP_PKTINFO, IP_RECVERR, IP_RECVTOS, IPPROTO_IP, IPPROTO_IPV6, IPV6_RECVERR};
    use libc::{IPV6_RECVPKTINFO, IPV6_RECVTCLASS, SO_TIMESTAMPNS, SOL_SOCKET, SOL_UDP, UDP_GRO};
    let is_ipv6 = socket.domain()? == Domain::IPV6;
    let options: &[(i32, i32)] = match (wish, is_ipv6) {
        (Wish::Segments, _) => &[(SOL_UDP, UDP_GRO)],
        (Wish::Timestamps, _) => &[(SOL_SOCKET, SO_TIMESTAMPNS)],
        (Wish::TrafficClass, false) => &[(IPPROTO_IP, IP_RECVTOS)],
        (Wish::TrafficClass, true) => &[(IPPROTO_IPV6, IPV6_RECVTCLASS), (IPPROTO_IP, IP_RECVTOS)],
        (Wish::Destination, false) => &[(IPPROTO_IP, IP_PKTINFO)],
        (Wish::Destination, true) => &[(IPPROTO_IPV6, IPV6_RECVPKTINFO)],
        (Wish::Refusals, false) => &[(IPPROTO_IP, IP_RECVERR)],
        (Wish::Refusals, true) => &[(IPPROTO_IPV6, IPV6_RECVERR), (IPPROTO_IP, IP_RECVERR)],
    };
    options.iter().try_for_each(|&(level, name)| linux::recv::set_option(socket.as_fd(), level, name, 1))
}
