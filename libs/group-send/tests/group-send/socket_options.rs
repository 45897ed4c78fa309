//! What a socket reports with each datagram, and the buffers it gets: real sockets on loopback.
#![cfg(target_os = "linux")]

use group_send::socket::{self, DepartureClock};
use group_send::{Ecn, RecvBatch, RecvConfig};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::SockRef;
use std::io::{ErrorKind, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime};

const IPV4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const IPV6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// A receiver and a sender's address family, for each path on which a datagram can arrive.
fn paths() -> Vec<(UdpSocket, IpAddr)> {
    let bind = |ip| UdpSocket::bind(SocketAddr::new(ip, 0)).unwrap();
    let dual = || socket::bind_dual_stack(0).unwrap();
    vec![(bind(IPV4), IPV4), (bind(IPV6), IPV6), (dual(), IPV4), (dual(), IPV6)]
}

/// Sends a datagram to the receiver and returns what came, with the name of the path.
fn exchange<T>(
    (receiver, family): &(UdpSocket, IpAddr),
    prepare: impl FnOnce(SockRef<'_>),
    read: impl FnOnce(&group_send::Received<&[u8]>) -> T,
) -> T {
    let sender = UdpSocket::bind(SocketAddr::new(*family, 0)).unwrap();
    prepare(SockRef::from(&sender));
    sender.send_to(b"x", SocketAddr::new(*family, receiver.local_addr().unwrap().port())).unwrap();
    receiver.set_nonblocking(false).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    let mut batch = RecvBatch::new(RecvConfig::default());
    assert_eq!(batch.recv_wait(receiver).unwrap(), 1);
    let datagram = batch.iter().next().unwrap();
    assert_eq!((datagram.payload, datagram.source), (&b"x"[..], sender.local_addr().unwrap()));
    read(&datagram)
}

#[test]
fn congestion_marks_are_told_when_asked_for() {
    for path in paths() {
        assert_eq!(exchange(&path, |_| {}, |datagram| datagram.ecn), None, "not asked for");
        socket::enable_ecn(&path.0).unwrap();
        for (bits, ecn) in [(0, Ecn::NotEct), (1, Ecn::Ect1), (2, Ecn::Ect0), (3, Ecn::Ce)] {
            // Other bits of the byte are a code point of differentiated services (RFC 2474) and
            // stay out.
            let traffic_class = 0b1011_1000 | bits;
            let mark = |sender: SockRef<'_>| match path.1 {
                IpAddr::V4(_) => sender.set_tos_v4(traffic_class).unwrap(),
                IpAddr::V6(_) => sender.set_tclass_v6(traffic_class).unwrap(),
            };
            assert_eq!(exchange(&path, mark, |datagram| datagram.ecn), Some(ecn), "{:?}", path);
            assert_eq!(u32::from(ecn.bits()), bits);
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the kernel's clock is compared with this one")]
fn times_of_arrival_are_told_when_asked_for() {
    for path in paths() {
        assert_eq!(exchange(&path, |_| {}, |datagram| datagram.received_at), None, "not asked for");
        socket::enable_timestamps(&path.0).unwrap();
        let now = SystemTime::now();
        let received_at = exchange(&path, |_| {}, |datagram| datagram.received_at).unwrap();
        let difference = received_at.duration_since(now).unwrap_or_else(|error| error.duration());
        assert!(difference < Duration::from_secs(60), "{difference:?}");
    }
}

#[test]
fn destinations_are_told_when_asked_for() {
    for path in paths() {
        assert_eq!(exchange(&path, |_| {}, |datagram| datagram.destination), None, "not asked for");
        socket::enable_destination(&path.0).unwrap();
        assert_eq!(exchange(&path, |_| {}, |datagram| datagram.destination), Some(path.1));
    }
}

#[test]
fn everything_is_told_at_once_and_fits() {
    for path in paths() {
        socket::enable_gro(&path.0).unwrap();
        socket::enable_ecn(&path.0).unwrap();
        socket::enable_timestamps(&path.0).unwrap();
        socket::enable_destination(&path.0).unwrap();
        let reported = exchange(&path, |_| {}, |d| (d.ecn, d.destination, d.received_at.is_some()));
        assert_eq!(reported, (Some(Ecn::NotEct), Some(path.1), true));
    }
}

#[test]
fn refusals_do_not_disturb_receiving() {
    for path in paths() {
        socket::report_refusals(&path.0).unwrap();
        let closed_port = UdpSocket::bind(SocketAddr::new(path.1, 0)).unwrap().local_addr().unwrap();
        path.0.send_to(b"anybody?", closed_port).unwrap();
        let mut ready = [PollFd::new(path.0.as_fd(), PollFlags::empty())];
        assert_eq!(poll(&mut ready, PollTimeout::from(15_000u16)).unwrap(), 1, "an answer waits");
        exchange(&path, |_| {}, |_| {});
    }
}

#[test]
fn buffers_grow_and_never_shrink() {
    let socket = UdpSocket::bind((IPV4, 0)).unwrap();
    let before = socket::size_buffers(&socket, 1).unwrap();
    assert!(before.receive_bytes > 1 && before.send_bytes > 1, "{before:?}");
    assert_eq!(before.warning, None);
    let twice = socket::size_buffers(&socket, 2 * before.receive_bytes).unwrap();
    assert!(twice.receive_bytes >= before.receive_bytes && twice.send_bytes >= before.send_bytes);
    let after = socket::size_buffers(&socket, 1).unwrap();
    assert_eq!((after.receive_bytes, after.send_bytes), (twice.receive_bytes, twice.send_bytes));
}

#[test]
fn a_buffer_smaller_than_asked_for_names_the_limits_to_raise() {
    let socket = UdpSocket::bind((IPV4, 0)).unwrap();
    // More than the kernel can count, so that rights do not matter.
    let asked = 3 << 30;
    let buffers = socket::size_buffers(&socket, asked).unwrap();
    let warning = buffers.warning.unwrap();
    for part in ["net.core.rmem_max=3221225472", "net.core.wmem_max=3221225472"] {
        assert!(warning.contains(part), "{warning}");
    }
    assert!(warning.contains(&buffers.receive_bytes.to_string()), "{warning}");
    assert!(buffers.receive_bytes < asked && buffers.send_bytes < asked);
}

#[test]
fn departure_times_by_the_monotonic_clock_need_no_right() {
    for path in paths() {
        socket::enable_txtime(&path.0, DepartureClock::Monotonic).unwrap();
    }
}

#[test]
fn a_dual_stack_socket_says_that_its_port_is_taken() -> Result<()> {
    let first = socket::bind_dual_stack(0)?;
    let port = first.local_addr()?.port();
    assert_eq!(socket::bind_dual_stack(port).unwrap_err().kind(), ErrorKind::AddrInUse);
    Ok(())
}
