//! A second socket at the caller's address that only sends.
//!
//! It saves two things for each message. The caller's socket is in an `epoll` set, which the kernel
//! wakes for each message that has left (`sock_wfree`), also where only `EPOLLIN` was asked for. And
//! a datagram that must not be fragmented needs no identification (RFC 6864 section 4.1), which for
//! any other the kernel computes from its addresses (`__ip_select_ident`).
//!
//! Both are bound to one address by `SO_REUSEPORT`, with a program that gives the caller's socket
//! whatever arrives. It is set on the caller's only after that was bound, so an address that is in
//! use was an error. The kernel does not ask the program where it has no datagram yet: for an ICMP
//! error, and to find out whether datagrams may be joined (GRO), which is why both have the same
//! `UDP_GRO`.

use crate::linux::{self, option, recv};
use crate::socket::copy_options;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Opens the twin of `caller`, or says why there is none.
///
/// Where others share the address, a program of the caller's decides who gets what (`steered`): the
/// twin is the last of them, and the program of a single socket would take everything from the
/// others.
pub(super) fn open(caller: &SockRef<'_>, steered: bool) -> Result<OwnedFd, String> {
    let failed = |error: io::Error| format!("no second socket at the same address: {error}");
    let local = caller.local_addr().map_err(failed)?;
    if local.as_socket().is_none_or(|local| local.port() == 0) {
        return Err("the socket is not bound to a port yet".to_owned());
    }
    if option(caller.as_fd(), libc::SOL_SOCKET, libc::SO_TXTIME).is_ok_and(|clock| clock != 0) {
        return Err("the socket has departure times".to_owned());
    }
    let is_set = |(level, name)| option(caller.as_fd(), level, name).is_ok_and(|value| value != 0);
    if [(libc::SOL_IP, libc::IP_RECVERR), (libc::SOL_IPV6, libc::IPV6_RECVERR)].into_iter().any(is_set) {
        // An ICMP error comes to either of the two, and the next datagram would not meet it.
        return Err("the socket reports refusals".to_owned());
    }
    let twin = like(caller).map_err(failed)?;
    let shared = caller.reuse_port().map_err(failed)?;
    let bind = || {
        caller.set_reuse_port(true)?;
        twin.set_reuse_port(true)?;
        twin.bind(&local)?;
        if steered { Ok(()) } else { recv::deliver_to_first(twin.as_fd()) }
    };
    if let Err(error) = bind() {
        let _ = caller.set_reuse_port(shared);
        return Err(failed(error));
    }
    forbid_fragments(&twin).map_err(failed)?;
    Ok(twin.into())
}

/// An unbound socket with the options of `caller`.
fn like(caller: &SockRef<'_>) -> io::Result<Socket> {
    let domain = caller.domain()?;
    let twin = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    // A socket belongs to the network namespace of the thread that creates it.
    if !linux::same_namespace(twin.as_fd(), caller.as_fd()) {
        return Err(io::Error::other("this thread is in another network namespace"));
    }
    if domain == Domain::IPV6 {
        twin.set_only_v6(caller.only_v6()?)?;
    }
    if let Some(device) = caller.device()? {
        twin.bind_device(Some(&device))?;
    }
    copy_options(caller.as_fd(), twin.as_fd())?;
    if option(caller.as_fd(), libc::SOL_UDP, libc::UDP_GRO).is_ok_and(|gro| gro != 0) {
        recv::set_option(twin.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1)?;
    }
    Ok(twin)
}

/// Where the kernel would set DF on all that fits the path and cut the rest (`IP_PMTUDISC_WANT`, the
/// default), has it refuse the rest: that goes through the caller's socket, which cuts it.
fn forbid_fragments(twin: &Socket) -> io::Result<()> {
    let (level, name) = (libc::SOL_IP, libc::IP_MTU_DISCOVER);
    if option(twin.as_fd(), level, name)? == libc::IP_PMTUDISC_WANT {
        recv::set_option(twin.as_fd(), level, name, libc::IP_PMTUDISC_DO)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{BUFFER_BYTES, enable_gro, size_buffers};

    #[test]
    fn a_twin_has_the_send_buffer_and_joins_datagrams_as_its_caller() {
        let caller = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        size_buffers(&caller, BUFFER_BYTES).unwrap();
        enable_gro(&caller).unwrap();
        let twin = open(&SockRef::from(&caller), false).unwrap();
        for (level, name) in [(libc::SOL_SOCKET, libc::SO_SNDBUF), (libc::SOL_UDP, libc::UDP_GRO)] {
            let of = |socket| option(socket, level, name).unwrap();
            assert_eq!(of(twin.as_fd()), of(caller.as_fd()), "option {name} of level {level}");
        }
    }

    fn shared(port: u16) -> std::net::UdpSocket {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
        socket.set_reuse_port(true).unwrap();
        socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], port)).into()).unwrap();
        socket.into()
    }

    #[test]
    fn the_twin_of_a_socket_that_shares_its_address_takes_nothing_from_the_others() {
        let first = shared(0);
        let at = first.local_addr().unwrap();
        let second = shared(at.port());
        // "Return 1": all is for the second socket.
        let mut program =
            [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 1 }];
        let program = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
        nix::sys::socket::setsockopt(&first, nix::sys::socket::sockopt::AttachReusePortCbpf, &program)
            .unwrap();
        let _twins = [&first, &second].map(|socket| open(&SockRef::from(socket), true).unwrap());
        let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.send_to(b"to the second", at).unwrap();
        let mut datagram = [0; 32];
        assert_eq!(second.recv(&mut datagram).unwrap(), 13);
        first.set_nonblocking(true).unwrap();
        assert!(first.recv(&mut datagram).is_err());
    }
}
