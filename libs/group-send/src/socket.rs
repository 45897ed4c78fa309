//! Options of a media server's UDP socket: large buffers, and more information with each datagram.
//!
//! Every function takes a reference to a socket of any library (`std`, `mio`, `tokio`, `socket2`)
//! and sets one thing; none is needed for sending or receiving as such. A system or kernel without
//! the feature returns an error, and the rest works without it.

mod buffers;
#[cfg(target_os = "linux")]
mod copy;
#[cfg(target_os = "linux")]
mod error_queue;

pub use buffers::{BUFFER_BYTES, Buffers, size_buffers};
#[cfg(target_os = "linux")]
pub(crate) use copy::copy_options;
#[cfg(target_os = "linux")]
pub(crate) use error_queue::drain_errors;

#[cfg(target_os = "linux")]
use crate::linux;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;

/// A non-blocking UDP socket at `port` (0: any free one) of all addresses of the host, IPv6 and
/// IPv4, or of all IPv4 addresses if the host has no IPv6. Whether IPv4 is included does not depend
/// on `net.ipv6.bindv6only`.
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

/// Makes the kernel coalesce datagrams of one sender that arrive together into one message
/// (`UDP_GRO`, `udp(7)`), which [`RecvBatch`](crate::RecvBatch) takes apart again. Linux 5.0. Code
/// that receives from this socket by other means gets several datagrams as one.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] on other systems, and `ENOPROTOOPT` of an older kernel.
pub fn enable_gro<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<()> {
    enable(&socket.into(), Report::Segments)
}

/// Reports the ECN bits of each datagram ([`Received::ecn`](crate::Received::ecn)): `IP_RECVTOS`
/// (`ip(7)`), `IPV6_RECVTCLASS` (RFC 3542 section 6.5). Costs about 40 ns a datagram.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] on other systems than Linux.
pub fn enable_ecn<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<()> {
    enable(&socket.into(), Report::TrafficClass)
}

/// Reports the arrival time of each datagram
/// ([`Received::received_at`](crate::Received::received_at)): `SO_TIMESTAMPNS` (`socket(7)`). The
/// kernel takes the time when the datagram leaves the device's driver. Costs about 40 ns a
/// datagram.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] on other systems than Linux.
pub fn enable_timestamps<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<()> {
    enable(&socket.into(), Report::Timestamps)
}

/// Reports the address that each datagram was sent to
/// ([`Received::destination`](crate::Received::destination)), for sockets bound to all addresses of
/// a host: `IP_PKTINFO` (`ip(7)`), `IPV6_RECVPKTINFO` (RFC 3542 section 6.1). Costs about 30 ns a
/// datagram.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] on other systems than Linux.
pub fn enable_destination<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<()> {
    enable(&socket.into(), Report::Destination)
}

/// Makes the kernel keep the ICMP errors for datagrams that could not be delivered, so that the
/// next send to that recipient fails, as with a connected socket: `IP_RECVERR` (`ip(7)`),
/// `IPV6_RECVERR`.
///
/// **Call [`Sender::read_refusals`](crate::Sender::read_refusals) whenever the socket reports an
/// error** (`EPOLLERR`), which it does until the errors are read. [`RecvBatch`](crate::RecvBatch)
/// skips them; other receive calls return errors that belong to datagrams sent earlier. ICMP errors
/// are not authenticated: any host that guesses ports can send them.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] on other systems than Linux.
pub fn report_refusals<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<()> {
    enable(&socket.into(), Report::Refusals)
}

/// Enables departure times of datagrams, by this clock (`SO_TXTIME`, `socket(7)`). Linux 4.19. The
/// device's queueing discipline must support them: `fq` uses [`DepartureClock::Monotonic`], `etf`
/// uses [`DepartureClock::Tai`]; others send at once.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] on other systems, and `EPERM` for any clock but the monotonic one
/// without `CAP_NET_ADMIN`.
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

/// What a socket can be made to report.
#[derive(Clone, Copy)]
enum Report {
    Segments,
    TrafficClass,
    Timestamps,
    Destination,
    Refusals,
}

#[cfg(not(target_os = "linux"))]
fn enable(_: &SockRef<'_>, _: Report) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Enables one kind of report. An IPv6 socket gets the IPv4 options as well, because it may be
/// dual-stack; only the destination is reported by the IPv6 option for both.
#[cfg(target_os = "linux")]
fn enable(socket: &SockRef<'_>, report: Report) -> io::Result<()> {
    use libc::{IP_PKTINFO, IP_RECVERR, IP_RECVTOS, IPPROTO_IP, IPPROTO_IPV6, IPV6_RECVERR};
    use libc::{IPV6_RECVPKTINFO, IPV6_RECVTCLASS, SO_TIMESTAMPNS, SOL_SOCKET, SOL_UDP, UDP_GRO};
    let is_ipv6 = socket.domain()? == Domain::IPV6;
    let options: &[(i32, i32)] = match (report, is_ipv6) {
        (Report::Segments, _) => &[(SOL_UDP, UDP_GRO)],
        (Report::Timestamps, _) => &[(SOL_SOCKET, SO_TIMESTAMPNS)],
        (Report::TrafficClass, false) => &[(IPPROTO_IP, IP_RECVTOS)],
        (Report::TrafficClass, true) => &[(IPPROTO_IPV6, IPV6_RECVTCLASS), (IPPROTO_IP, IP_RECVTOS)],
        (Report::Destination, false) => &[(IPPROTO_IP, IP_PKTINFO)],
        (Report::Destination, true) => &[(IPPROTO_IPV6, IPV6_RECVPKTINFO)],
        (Report::Refusals, false) => &[(IPPROTO_IP, IP_RECVERR)],
        (Report::Refusals, true) => &[(IPPROTO_IPV6, IPV6_RECVERR), (IPPROTO_IP, IP_RECVERR)],
    };
    options.iter().try_for_each(|&(level, name)| linux::recv::set_option(socket.as_fd(), level, name, 1))
}
