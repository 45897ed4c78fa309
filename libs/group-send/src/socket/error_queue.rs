//! ICMP errors for datagrams that were sent: the error queue of a socket (`MSG_ERRQUEUE`, `ip(7)`).

use crate::cmsg::{self, ControlMessage};
use crate::error::SendError;
use crate::linux;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// Reads ICMP errors off the socket's error queue, and hands `report` each datagram's destination
/// and error. A bounded number; the rest stays for the next call. Returns whether there was any.
pub(crate) fn drain_errors(socket: BorrowedFd<'_>, mut report: impl FnMut(SocketAddr, SendError)) -> bool {
    for taken in 0..ERRORS_PER_DRAIN {
        match linux::recv::next_error(socket, send_error) {
            Ok(Some(error)) => error.into_iter().for_each(|(destination, error)| report(destination, error)),
            // `Err`: a socket without such a queue; the sending call will report what is wrong with
            // it.
            Ok(None) | Err(_) => return taken > 0,
        }
    }
    true
}

/// Entries read in one call. The kernel's queue is bounded by the receive buffer, a thousand
/// entries and more.
const ERRORS_PER_DRAIN: usize = 64;

/// One entry of the error queue, unless it is not about delivery: times of sent datagrams
/// (`SO_TIMESTAMPING`) and missed departure times arrive here as well.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{bind_dual_stack, report_refusals};
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::io;
    use std::net::{Ipv4Addr, UdpSocket};
    use std::os::fd::AsFd;

    /// Sends to addresses with closed ports, and returns which refused.
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
    fn closed_port(ip: &str) -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind((ip, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        // A connected socket takes datagrams of its peer only, so that others find the port
        // unreachable.
        socket.connect(address).unwrap();
        (socket, address)
    }

    #[test]
    fn refusals_are_reported_by_the_address_that_was_sent_to() {
        let (_kept, four) = closed_port("127.0.0.1");
        let (_kept, six) = closed_port("::1");
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
        let (_kept, address) = closed_port("127.0.0.1");
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
