//! Shared by the tests of this crate: groups whose datagrams are all different, and receivers that
//! compare every byte.
//!
//! Nothing here knows a back end or a network namespace; `tests/namespaces` adds those, the other
//! tests use loopback.

#![allow(dead_code, unused_imports, reason = "each test binary uses a part")]

#[cfg(target_os = "linux")]
pub(crate) mod filter;
pub(crate) mod group;
pub(crate) mod receivers;

pub(crate) use group::{Group, Private, Sizes};
pub(crate) use receivers::Receivers;

use group_send::{BackendKind, BatchLimits, Config, SendBatch, SendError, Sender, Slot};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;

/// How long a test waits for an event that must come; only a failing test waits so long.
pub(crate) const TIMEOUT_MS: u16 = 10_000;

/// A configuration that has these back ends, the preferred one first.
pub(crate) fn prefer(backends: &[BackendKind]) -> Config {
    Config { backends: backends.to_vec(), ..Config::default() }
}

/// Waits until the socket takes datagrams again.
pub(crate) fn wait_writable(socket: &impl AsFd) {
    let mut polled = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
    let ready = loop {
        match poll(&mut polled, PollTimeout::from(TIMEOUT_MS)) {
            Err(Errno::EINTR) => {}
            result => break result.expect("poll"),
        }
    };
    assert_eq!(ready, 1, "the socket was not writable within {TIMEOUT_MS} ms");
}

/// Sends a whole group, waiting for room as often as it takes. Returns the slots and how often it
/// waited.
pub(crate) fn send_whole(group: &Group, sender: &mut Sender, socket: &impl AsFd) -> (Vec<Slot>, usize) {
    let mut slots = vec![Slot::default(); group.members.len()];
    let mut waits = 0;
    loop {
        let progress = group.send(sender, &mut slots);
        if !progress.blocked {
            return (slots, waits);
        }
        assert!(
            slots.iter().any(|slot| slot.error == Some(SendError::WouldBlock)),
            "blocked, but no recipient waits"
        );
        waits += 1;
        wait_writable(socket);
    }
}

/// Sends a whole group as a batch, written packet by packet as a server forwards, waiting for room
/// as often as it takes.
pub(crate) fn flush_whole(group: &Group, sender: &mut Sender, socket: &impl AsFd) {
    let datagrams = group.packets.len() * group.members.len();
    let bytes = group.packets.iter().map(|packet| packet.len() + 128).sum::<usize>() * group.members.len();
    let mut batch = SendBatch::new(BatchLimits { bytes: bytes.max(1), datagrams });
    for packet in 0..group.packets.len() {
        for (member, recipient) in group.members.iter().enumerate() {
            batch.push(recipient.destination, &group.datagram(member, packet)).expect("room in the batch");
        }
    }
    let mut sent = 0;
    loop {
        let progress = sender.flush(&mut batch, usize::MAX);
        assert_eq!((progress.failed, batch.failures().len()), (0, 0), "{}", group.remark);
        sent += progress.sent;
        assert_eq!(batch.len(), datagrams - sent, "{}", group.remark);
        if !progress.blocked {
            break;
        }
        wait_writable(socket);
    }
    assert!(batch.is_empty(), "{}", group.remark);
}

/// Asserts that everything was sent to everybody.
pub(crate) fn assert_all_sent(group: &Group, slots: &[Slot]) {
    let whole = Slot { sent: group.packets.len() as u32, ..Slot::default() };
    for (member, slot) in slots.iter().enumerate() {
        assert_eq!(*slot, whole, "member {member} of {}: {}", group.members.len(), group.remark);
    }
}

/// Sockets of this machine alone, for what needs no privilege.
pub(crate) mod loopback {
    use socket2::{Domain, Socket, Type};
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

    pub(crate) const V4: [IpAddr; 2] =
        [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))];
    pub(crate) const BOTH: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

    /// A socket that sends over IPv4, without blocking.
    pub(crate) fn socket() -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("bind");
        socket.set_nonblocking(true).expect("O_NONBLOCK");
        socket
    }

    /// The same, and others may share its port, as the `io_uring` back end wants it.
    pub(crate) fn shared_socket() -> UdpSocket {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
        socket.set_reuse_port(true).expect("SO_REUSEPORT");
        socket.set_nonblocking(true).expect("O_NONBLOCK");
        socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)).into()).expect("bind");
        socket.into()
    }
}
