//! What a UDP socket of a media server is asked for: large buffers, and more said about each datagram.
//!
//! Every function takes a reference to a socket of any library (`std`, `mio`, `tokio`, `socket2`) and does one thing to
//! it; none is needed for sending or receiving as such. Where a system or an old kernel does not have something, it says so by an error, and the rest
//! works without it.

#[cfg(target_os = "linux")]
use crate::cmsg::{self, ControlMessage};
#[cfg(target_os = "linux")]
use crate::error::SendError;
#[cfg(target_os = "linux")]
use crate::linux_recv;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, BorrowedFd};

/// Socket buffers that a server of real-time media should have, in bytes: 16 MiB.
///
/// The kernel counts a datagram as two to three times its size, and while a worker does something else for 10 ms,
/// 1 Gbit/s brings 1.25 MB.
pub const BUFFER_BYTES: usize = 16 << 20;

/// What [`size_buffers`] got.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Buffers {
    /// Bytes of the receive buffer.
    pub receive_bytes: usize,
    /// Bytes of the send buffer.
    pub send_bytes: usize,
    /// For a log, if either is smaller than asked for: by how much, and what would change it.
    pub warning: Option<String>,
}

/// Asks for receive and send buffers of at least `bytes` ([`BUFFER_BYTES`] if nothing else is known), and never makes
/// one smaller.
///
/// With `CAP_NET_ADMIN` a Linux kernel grants any size (`SO_RCVBUFFORCE`, `SO_SNDBUFFORCE`), without it no more than
/// `net.core.rmem_max` and `net.core.wmem_max` (`socket(7)`).
///
/// # Errors
/// Only if the socket cannot be asked for its sizes. A smaller size than wished for is a warning.
pub fn size_buffers<'s>(socket: impl Into<SockRef<'s>>, bytes: usize) -> io::Result<Buffers> {
    let socket = &socket.into();
    let receive_bytes = Side::Receive.grow(socket, bytes)?;
    let send_bytes = Side::Send.grow(socket, bytes)?;
    let short =
        [(Side::Receive, receive_bytes), (Side::Send, send_bytes)].into_iter().filter(|s| s.1 < bytes);
    let warnings: Vec<String> = short.map(|(side, granted)| side.warning(granted, bytes)).collect();
    let warning = (!warnings.is_empty()).then(|| warnings.join("; "));
    Ok(Buffers { receive_bytes, send_bytes, warning })
}

/// One of a socket's two buffers.
#[derive(Clone, Copy)]
enum Side {
    Receive,
    Send,
}

impl Side {
    /// Returns the size the buffer has in the end.
    fn grow(self, socket: &SockRef<'_>, bytes: usize) -> io::Result<usize> {
        let before = self.size(socket)?;
        if before >= bytes {
            return Ok(before);
        }
        // A refusal shows in the size afterwards, as does a limit that was applied in silence.
        let _ = self.force(socket, bytes).or_else(|_| self.set(socket, bytes));
        let after = self.size(socket)?;
        if after < before {
            let _ = self.set(socket, before);
        }
        self.size(socket)
    }

    fn set(self, socket: &SockRef<'_>, bytes: usize) -> io::Result<()> {
        match self {
            Self::Receive => socket.set_recv_buffer_size(bytes),
            Self::Send => socket.set_send_buffer_size(bytes),
        }
    }

    /// In the unit of [`Side::set`]: Linux doubles what it was asked for, for its own needs, and reports the double.
    fn size(self, socket: &SockRef<'_>) -> io::Result<usize> {
        let bytes = match self {
            Self::Receive => socket.recv_buffer_size(),
            Self::Send => socket.send_buffer_size(),
        }?;
        Ok(if cfg!(target_os = "linux") { bytes / 2 } else { bytes })
    }

    #[cfg(target_os = "linux")]
    fn force(self, socket: &SockRef<'_>, bytes: usize) -> io::Result<()> {
        let name = match self {
            Self::Receive => libc::SO_RCVBUFFORCE,
            Self::Send => libc::SO_SNDBUFFORCE,
        };
        let bytes = i32::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        linux_recv::set_option(socket.as_fd(), libc::SOL_SOCKET, name, bytes)
    }

    #[cfg(not(target_os = "linux"))]
    fn force(self, _: &SockRef<'_>, _: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn warning(self, granted: usize, asked: usize) -> String {
        let (name, sysctl) = match self {
            Self::Receive => ("receive", "net.core.rmem_max"),
            Self::Send => ("send", "net.core.wmem_max"),
        };
        let cure = if cfg!(target_os = "linux") {
            format!(": `sysctl -w {sysctl}={asked}` allows it")
        } else {
            String::new()
        };
        format!("the socket's {name} buffer is {granted} bytes instead of {asked}{cure}")
    }
}

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
/// (`ip(7)`), `IPV6_RECVTCLASS` (RFC 3542 section 6.5).
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] on other systems than Linux.
pub fn enable_ecn<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<()> {
    enable(&socket.into(), Wish::TrafficClass)
}

/// Has the time of arrival told with each datagram ([`Received::received_at`](crate::Received::received_at)):
/// `SO_TIMESTAMPNS` (`socket(7)`). The kernel takes the time when the datagram leaves the device's driver.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] on other systems than Linux.
pub fn enable_timestamps<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<()> {
    enable(&socket.into(), Wish::Timestamps)
}

/// Has the address told that each datagram was sent to ([`Received::destination`](crate::Received::destination)), for
/// sockets bound to all addresses of a host: `IP_PKTINFO` (`ip(7)`), `IPV6_RECVPKTINFO` (RFC 3542 section 6.1).
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
    return linux_recv::set_txtime(
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
    options.iter().try_for_each(|&(level, name)| linux_recv::set_option(socket.as_fd(), level, name, 1))
}

/// Takes what the network answered to datagrams of this socket off its error queue, and tells `tell` where each datagram
/// was sent to and what became of it. A bounded number; the rest is there for the next call. Returns whether there was
/// anything.
#[cfg(target_os = "linux")]
pub(crate) fn drain_errors(socket: BorrowedFd<'_>, mut tell: impl FnMut(SocketAddr, SendError)) -> bool {
    for taken in 0..ERRORS_PER_DRAIN {
        match linux_recv::next_error(socket, send_error) {
            Ok(Some(error)) => error.into_iter().for_each(|(destination, error)| tell(destination, error)),
            // The latter is not a socket with such a queue; what is wrong with it is told by the call that sends.
            Ok(None) | Err(_) => return taken > 0,
        }
    }
    true
}

/// Entries read in one call. The kernel's queue is bounded by the receive buffer, a thousand entries and more.
#[cfg(target_os = "linux")]
const ERRORS_PER_DRAIN: usize = 64;

/// One entry of the error queue, unless it is not about delivery: times of sent datagrams (`SO_TIMESTAMPING`) and
/// departure times that were missed come this way as well.
#[cfg(target_os = "linux")]
fn send_error(destination: Option<SocketAddr>, control: &[u8]) -> Option<(SocketAddr, SendError)> {
    use libc::{SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6, SO_EE_ORIGIN_LOCAL};
    let destination = destination?;
    cmsg::parse(control).find_map(|message| match message {
        ControlMessage::Error {
            errno,
            origin: SO_EE_ORIGIN_LOCAL | SO_EE_ORIGIN_ICMP | SO_EE_ORIGIN_ICMP6,
        } => Some((destination, SendError::from_errno(errno))),
        _ => None,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    /// Sends to addresses where nobody listens, and returns who refused in the end.
    fn refused_by(socket: &UdpSocket, addresses: &[SocketAddr]) -> Vec<(SocketAddr, SendError)> {
        let mut refused = Vec::new();
        for address in addresses {
            socket.send_to(b"anybody?", address).unwrap();
            wait_for_answer(socket);
            assert!(drain_errors(socket.as_fd(), |destination, error| refused.push((destination, error))));
        }
        refused
    }

    fn wait_for_answer(socket: &UdpSocket) {
        let mut ready = [PollFd::new(socket.as_fd(), PollFlags::empty())];
        assert_eq!(poll(&mut ready, PollTimeout::from(15_000u16)).unwrap(), 1, "no answer came");
    }

    /// An address whose port was free a moment ago; the socket keeps others from getting it.
    fn nobody(ip: &str) -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind((ip, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        // A connected socket takes datagrams of its peer only, so that others find the port unreachable.
        socket.connect(address).unwrap();
        (socket, address)
    }

    #[test]
    fn refusals_are_told_by_the_address_that_was_sent_to() {
        let (_kept, four) = nobody("127.0.0.1");
        let (_kept, six) = nobody("::1");
        let dual = bind_dual_stack(0).unwrap();
        let ipv4 = UdpSocket::bind("127.0.0.1:0").unwrap();
        let ipv6 = UdpSocket::bind("[::1]:0").unwrap();
        for socket in [&dual, &ipv4, &ipv6] {
            assert!(!drain_errors(socket.as_fd(), |_, _| panic!("nothing was sent")));
            report_refusals(socket).unwrap();
        }
        let refused = |address| (address, SendError::Refused);
        assert_eq!(refused_by(&ipv4, &[four, four]), [refused(four); 2]);
        assert_eq!(refused_by(&ipv6, &[six]), [refused(six)]);
        // `std` leaves it to the caller to give an IPv6 socket an IPv4 address in its IPv6 form.
        let mapped = SocketAddr::new(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), four.port());
        assert_eq!(refused_by(&dual, &[six, mapped]), [refused(six), refused(four)]);
    }

    #[test]
    fn one_call_takes_a_bounded_number() {
        let (_kept, address) = nobody("127.0.0.1");
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        report_refusals(&socket).unwrap();
        for _ in 0..ERRORS_PER_DRAIN + 1 {
            socket.send_to(b"first", address).unwrap();
            wait_for_answer(&socket);
            // Fails by what the first was answered, which stays in the queue.
            assert_eq!(
                socket.send_to(b"second", address).unwrap_err().kind(),
                io::ErrorKind::ConnectionRefused
            );
        }
        let mut taken = 0;
        assert!(drain_errors(socket.as_fd(), |_, _| taken += 1));
        assert_eq!(taken, ERRORS_PER_DRAIN);
        assert!(drain_errors(socket.as_fd(), |_, _| taken += 1));
        assert_eq!(taken, ERRORS_PER_DRAIN + 1, "the rest");
        assert!(!drain_errors(socket.as_fd(), |_, _| panic!("all were taken")));
    }
}
