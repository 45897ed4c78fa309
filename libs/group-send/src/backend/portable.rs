//! One datagram a system call, by what every system has: the socket back end where there is no
//! `sendmmsg(2)`.
//!
//! Chosen instead of `mmsg.rs` in `backend.rs`. Without `unsafe`; departure times and marks of
//! congestion (ECN) are ignored, and errors for earlier datagrams are reported however the system
//! does it. Compiled into the tests on Linux as well.

use crate::backend::Backend;
use crate::config::{BackendKind, SetupError};
use crate::datagram::{Datagram, Outcome};
use crate::error::SendError;
use socket2::{SockAddr, SockRef, Socket, Type};
use std::io::{self, IoSlice};
use std::net::SocketAddr;

/// Datagrams through a UDP socket, one at a time.
pub(crate) struct Portable {
    socket: Socket,
    family: Family,
}

/// What addresses a socket takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6Only,
    /// IPv6, and IPv4 as mapped addresses.
    Dual,
}

impl Portable {
    fn send_single(&self, datagram: &Datagram<'_>) -> Outcome {
        let Some(to) = self.family.encode(datagram.destination) else {
            return Outcome::Failed(SendError::WrongFamily);
        };
        if datagram.len() > UDP_BYTES_MAX {
            return Outcome::Failed(SendError::TooLong);
        }
        let parts = datagram.parts.map(IoSlice::new);
        loop {
            match send(&self.socket, &parts, &to) {
                Ok(_) => return Outcome::Sent,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Outcome::Unsent,
                Err(error) => return Outcome::Failed(send_error(&error)),
            }
        }
    }
}

impl Backend for Portable {
    fn kind(&self) -> BackendKind {
        BackendKind::Sendmsg
    }

    fn send(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome]) {
        for (datagram, outcome) in datagrams.iter().zip(outcomes) {
            *outcome = self.send_single(datagram);
            if *outcome == Outcome::Unsent {
                return;
            }
        }
    }
}

/// The back end over `socket`, or why there is none of that kind.
///
/// # Errors
/// The socket cannot be used at all.
pub(crate) fn open(kind: BackendKind, socket: &SockRef<'_>) -> Result<Result<Portable, String>, SetupError> {
    let family = Family::of(socket).map_err(SetupError::Socket)?;
    if kind != BackendKind::Sendmsg {
        return Ok(Err("only Linux has it".to_owned()));
    }
    let socket = socket.try_clone().map_err(SetupError::Socket)?;
    Ok(Ok(Portable { socket, family }))
}

impl Family {
    fn of(socket: &SockRef<'_>) -> io::Result<Self> {
        if socket.r#type()? != Type::DGRAM {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a datagram socket"));
        }
        // An unbound socket has no address on Windows, and no system knows this option of an IPv4
        // socket.
        match (socket.only_v6(), socket.local_addr()) {
            (_, Ok(local)) if local.as_socket().is_none() => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "neither IPv4 nor IPv6"))
            }
            (_, Ok(local)) if local.is_ipv4() => Ok(Self::V4),
            (Ok(true), _) => Ok(Self::V6Only),
            (Ok(false), _) => Ok(Self::Dual),
            (Err(_), _) => Ok(Self::V4),
        }
    }

    /// None when a socket of this family cannot reach the address.
    fn encode(self, address: &SocketAddr) -> Option<SockAddr> {
        match (address, self) {
            (SocketAddr::V4(v4), Self::Dual) => {
                Some(SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()).into())
            }
            (SocketAddr::V4(_), Self::V4) | (SocketAddr::V6(_), Self::V6Only | Self::Dual) => {
                Some((*address).into())
            }
            (SocketAddr::V4(_), Self::V6Only) | (SocketAddr::V6(_), Self::V4) => None,
        }
    }
}

/// Never waits.
#[cfg(unix)]
fn send(socket: &Socket, parts: &[IoSlice<'_>], to: &SockAddr) -> io::Result<usize> {
    socket.send_to_vectored_with_flags(parts, to, libc::MSG_DONTWAIT)
}

/// Waits for room if the caller's socket is a blocking one: Windows has no flag for a single call.
#[cfg(not(unix))]
fn send(socket: &Socket, parts: &[IoSlice<'_>], to: &SockAddr) -> io::Result<usize> {
    socket.send_to_vectored(parts, to)
}

#[cfg(unix)]
fn send_error(error: &io::Error) -> SendError {
    SendError::from_errno(error.raw_os_error().unwrap_or(0))
}

/// By the numbers of Windows Sockets.
#[cfg(not(unix))]
fn send_error(error: &io::Error) -> SendError {
    match error.raw_os_error().unwrap_or(0) {
        10055 | 8 => SendError::NoBuffers,   // WSAENOBUFS, WSA_NOT_ENOUGH_MEMORY
        10061 | 10054 => SendError::Refused, // WSAECONNREFUSED, WSAECONNRESET
        10013 => SendError::NotPermitted,    // WSAEACCES
        10050 | 10051 | 10065 => SendError::Unreachable, // WSAENETDOWN, WSAENETUNREACH, WSAEHOSTUNREACH
        10040 => SendError::TooLong,         // WSAEMSGSIZE
        10047 => SendError::WrongFamily,     // WSAEAFNOSUPPORT
        10014 | 10022 | 10049 | 10039 => SendError::BadAddress, // WSAEFAULT, WSAEINVAL, WSAEADDRNOTAVAIL, WSAEDESTADDRREQ
        number => SendError::Kernel(number),
    }
}

/// Bytes of a datagram over IPv4, at most, and within two of what IPv6 takes without jumbograms:
/// systems disagree on the error.
const UDP_BYTES_MAX: usize = 65_535 - 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recv::Ecn;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
    use std::time::Duration;

    const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

    fn portable(socket: &UdpSocket) -> Portable {
        open(BackendKind::Sendmsg, &SockRef::from(socket)).expect("a UDP socket").expect("everywhere")
    }

    fn receiver(address: IpAddr) -> UdpSocket {
        let socket = UdpSocket::bind((address, 0)).expect("bind");
        socket.set_read_timeout(Some(Duration::from_secs(15))).expect("SO_RCVTIMEO");
        socket
    }

    fn to<'a>(destination: &'a SocketAddr, parts: [&'a [u8]; 3]) -> Datagram<'a> {
        Datagram { destination, parts, departure_ns: 0, ecn: Ecn::NotEct }
    }

    #[test]
    fn parts_arrive_as_one_datagram_each_in_order() {
        for (bound, address) in [(V4, V4), (V6, V6), (Ipv6Addr::UNSPECIFIED.into(), V4)] {
            let socket = UdpSocket::bind((bound, 0)).expect("bind");
            let receivers = [receiver(address), receiver(address)];
            let addresses = receivers.each_ref().map(|receiver| receiver.local_addr().expect("bound"));
            let long = vec![7; 9000];
            let forms: [[&[u8]; 3]; 4] =
                [[b"a", b"bc", b"d"], [&[], &[], &[]], [&[], &long, &[]], [b"e", &[], b"f"]];
            let datagrams: Vec<_> =
                addresses.iter().flat_map(|address| forms.iter().map(|form| to(address, *form))).collect();
            let mut outcomes = [Outcome::Unsent; 8];
            portable(&socket).send(&datagrams, &mut outcomes);
            assert_eq!(outcomes, [Outcome::Sent; 8]);
            let mut buffer = vec![0; 1 << 16];
            for receiver in &receivers {
                for form in &forms {
                    let length = receiver.recv(&mut buffer).expect("a datagram");
                    assert_eq!(buffer[..length], form.concat());
                }
            }
        }
    }

    #[test]
    fn what_fails_stops_nothing_behind_it() {
        let socket = UdpSocket::bind((V4, 0)).expect("bind");
        let receiver = receiver(V4);
        let good = receiver.local_addr().expect("bound");
        let other_family: SocketAddr = (V6, good.port()).into();
        let broadcast: SocketAddr = (Ipv4Addr::BROADCAST, good.port()).into();
        let long = vec![0; 65_536];
        let datagrams = [
            to(&other_family, [b"1", &[], &[]]),
            to(&good, [&long, &[], &[]]),
            to(&good, [&long[..65_508], &[], &[]]),
            to(&broadcast, [b"3", &[], &[]]),
            to(&good, [b"4", &[], &[]]),
        ];
        let mut outcomes = [Outcome::Unsent; 5];
        portable(&socket).send(&datagrams, &mut outcomes);
        let failed =
            [SendError::WrongFamily, SendError::TooLong, SendError::TooLong, SendError::NotPermitted];
        assert_eq!(outcomes[..4], failed.map(Outcome::Failed));
        assert_eq!(outcomes[4], Outcome::Sent);
        let mut buffer = [0; 10];
        assert_eq!(receiver.recv(&mut buffer).expect("the last one"), 1);
        assert_eq!(buffer[0], b'4');
    }

    #[test]
    fn families_are_known_before_and_after_bind() {
        use socket2::Domain;
        for (domain, only_v6, family) in [
            (Domain::IPV4, None, Family::V4),
            (Domain::IPV6, Some(true), Family::V6Only),
            (Domain::IPV6, Some(false), Family::Dual),
        ] {
            let socket = Socket::new(domain, Type::DGRAM, None).expect("socket");
            if let Some(only_v6) = only_v6 {
                socket.set_only_v6(only_v6).expect("IPV6_V6ONLY");
            }
            assert_eq!(Family::of(&SockRef::from(&socket)).expect("UDP"), family);
            // Bound to one IPv6 address a socket is of IPv6 only.
            let any: IpAddr =
                if only_v6.is_some() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
            socket.bind(&SocketAddr::from((any, 0)).into()).expect("bind");
            assert_eq!(Family::of(&SockRef::from(&socket)).expect("UDP"), family);
        }
        let stream = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
        assert!(matches!(open(BackendKind::Sendmsg, &SockRef::from(&stream)), Err(SetupError::Socket(_))));
        let datagram = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("socket");
        for kind in [BackendKind::Gso, BackendKind::Sendmmsg] {
            assert!(matches!(open(kind, &SockRef::from(&datagram)), Ok(Err(_))), "{kind}");
        }
    }
}
