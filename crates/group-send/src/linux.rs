//! System calls of the send path: safe functions around `send*(2)` with everything they point to.
//!
//! Here is what needs `unsafe`, and nothing else: no policy, no loops but those over what one call is given. Errors
//! are the kernel's numbers; what they mean is decided by the back ends.

#![expect(unsafe_code, reason = "system calls take pointers")]

use crate::backend::{CHUNK, Datagram};
use crate::cmsg::ControlBuffer;
use arrayvec::ArrayVec;
use socket2::{Domain, SockRef, Type};
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Messages of one `sendmmsg`, at most. Its arguments then fit the first-level cache; the call itself costs a few
/// nanoseconds a message at this size.
pub(crate) const MESSAGES_MAX: usize = 64;

/// An address as the kernel takes it.
#[derive(Clone, Copy)]
pub(crate) struct KernelAddress {
    address: AnyAddress,
    len: libc::socklen_t,
}

#[derive(Clone, Copy)]
union AnyAddress {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

/// One message: datagrams for one recipient, several only with a segment size among the control messages.
pub(crate) struct Message<'a> {
    pub(crate) to: KernelAddress,
    pub(crate) datagrams: &'a [Datagram<'a>],
    pub(crate) control: ControlBuffer,
}

/// What addresses a socket takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6Only,
    /// IPv6, and IPv4 as mapped addresses.
    Dual,
}

impl KernelAddress {
    /// None when a socket of this family cannot reach the address.
    pub(crate) fn encode(address: &SocketAddr, family: Family) -> Option<Self> {
        match (address, family) {
            (SocketAddr::V4(v4), Family::V4) => Some(Self::v4(*v4.ip(), v4.port())),
            (SocketAddr::V4(v4), Family::Dual) => Some(Self::v6(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0)),
            (SocketAddr::V6(v6), Family::Dual | Family::V6Only) => {
                Some(Self::v6(*v6.ip(), v6.port(), v6.flowinfo(), v6.scope_id()))
            }
            (SocketAddr::V4(_), Family::V6Only) | (SocketAddr::V6(_), Family::V4) => None,
        }
    }

    fn v4(ip: std::net::Ipv4Addr, port: u16) -> Self {
        let v4 = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: port.to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) },
            sin_zero: [0; 8],
        };
        Self { address: AnyAddress { v4 }, len: size_of::<libc::sockaddr_in>() as libc::socklen_t }
    }

    fn v6(ip: std::net::Ipv6Addr, port: u16, flowinfo: u32, scope_id: u32) -> Self {
        let v6 = libc::sockaddr_in6 {
            sin6_family: libc::AF_INET6 as libc::sa_family_t,
            sin6_port: port.to_be(),
            sin6_flowinfo: flowinfo,
            sin6_addr: libc::in6_addr { s6_addr: ip.octets() },
            sin6_scope_id: scope_id,
        };
        Self { address: AnyAddress { v6 }, len: size_of::<libc::sockaddr_in6>() as libc::socklen_t }
    }

    /// The address again, IPv4 from its mapped form.
    #[cfg(test)]
    pub(crate) fn decode(&self) -> SocketAddr {
        if self.len as usize == size_of::<libc::sockaddr_in>() {
            // SAFETY: only the IPv4 form has this length, and it was written whole.
            let v4 = unsafe { self.address.v4 };
            let ip = std::net::Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            return SocketAddr::new(ip.into(), u16::from_be(v4.sin_port));
        }
        // SAFETY: only the IPv6 form has this length, and it was written whole.
        let v6 = unsafe { self.address.v6 };
        let ip = std::net::Ipv6Addr::from(v6.sin6_addr.s6_addr);
        SocketAddr::new(ip.to_canonical(), u16::from_be(v6.sin6_port))
    }

    fn as_ptr(&self) -> *const libc::c_void {
        ptr::from_ref(&self.address).cast()
    }
}

/// Sends one datagram that lies in one piece. Never waits.
///
/// # Errors
/// `errno`.
pub(crate) fn send_to(socket: BorrowedFd<'_>, to: &KernelAddress, datagram: &[u8]) -> Result<(), i32> {
    let fd = socket.as_raw_fd();
    let bytes: *const libc::c_void = datagram.as_ptr().cast();
    // SAFETY: `bytes` is readable for the length given, and the address for its own, as long as the call lasts.
    let sent =
        unsafe { libc::sendto(fd, bytes, datagram.len(), libc::MSG_DONTWAIT, to.as_ptr().cast(), to.len) };
    if sent < 0 { Err(errno()) } else { Ok(()) }
}

/// Sends one message. Never waits.
///
/// # Errors
/// `errno`.
pub(crate) fn send_message(socket: BorrowedFd<'_>, message: &Message<'_>) -> Result<(), i32> {
    let mut iovecs = ArrayVec::new();
    gather(message, &mut iovecs);
    let header = header(message, &iovecs);
    // SAFETY: the header points to address, control messages and slices that `message` borrows or owns, and to
    // `iovecs`; all live until the call returns, and the kernel writes to none of them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &header, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(errno()) } else { Ok(()) }
}

/// Sends up to [`MESSAGES_MAX`] messages with [`CHUNK`] datagrams in all, in order, and returns how many were taken:
/// fewer than all when the next one failed or would block, which another call that begins with it tells. Never waits.
///
/// # Errors
/// `errno` of the first message.
///
/// # Panics
/// If there are more messages or datagrams.
pub(crate) fn send_messages(socket: BorrowedFd<'_>, messages: &[Message<'_>]) -> Result<usize, i32> {
    let mut iovecs = ArrayVec::new();
    let mut ends = ArrayVec::<usize, MESSAGES_MAX>::new();
    for message in messages {
        gather(message, &mut iovecs);
        ends.push(iovecs.len());
    }
    let mut headers = ArrayVec::<libc::mmsghdr, MESSAGES_MAX>::new();
    let mut start = 0;
    for (message, &end) in messages.iter().zip(&ends) {
        headers.push(libc::mmsghdr { msg_hdr: header(message, &iovecs[start..end]), msg_len: 0 });
        start = end;
    }
    let (fd, count) = (socket.as_raw_fd(), headers.len() as libc::c_uint);
    // SAFETY: there are `count` headers, which point to addresses, control messages and slices that `messages` borrows
    // or owns, and to `iovecs`; all live until the call returns, and the kernel writes to the headers' lengths only.
    let sent = unsafe { libc::sendmmsg(fd, headers.as_mut_ptr(), count, libc::MSG_DONTWAIT as _) };
    usize::try_from(sent).map_err(|_| errno())
}

/// What addresses a UDP socket takes.
///
/// # Errors
/// It is not a datagram socket of IPv4 or IPv6.
pub(crate) fn family(socket: &SockRef<'_>) -> io::Result<Family> {
    if socket.r#type()? != Type::DGRAM {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a datagram socket"));
    }
    match socket.domain()? {
        Domain::IPV4 => Ok(Family::V4),
        Domain::IPV6 if socket.only_v6()? => Ok(Family::V6Only),
        Domain::IPV6 => Ok(Family::Dual),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "neither IPv4 nor IPv6")),
    }
}

/// Whether the kernel has `sendmmsg`, and the process may call it.
///
/// # Errors
/// `errno`: `ENOSYS` or what a system call filter answers.
pub(crate) fn probe_sendmmsg(socket: BorrowedFd<'_>) -> Result<(), i32> {
    send_messages(socket, &[]).map(drop)
}

/// Whether the kernel knows segmentation offload for UDP.
///
/// # Errors
/// `errno`: `ENOPROTOOPT` before Linux 4.18.
pub(crate) fn probe_segmentation(socket: BorrowedFd<'_>) -> Result<(), i32> {
    let mut size: libc::c_int = 0;
    let mut len = size_of_val(&size) as libc::socklen_t;
    let value: *mut libc::c_void = (&raw mut size).cast();
    // SAFETY: `value` is writable for `len` bytes, and both live until the call returns.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, value, &mut len) };
    if result < 0 { Err(errno()) } else { Ok(()) }
}

fn gather(message: &Message<'_>, iovecs: &mut ArrayVec<libc::iovec, { 3 * CHUNK }>) {
    for part in message.datagrams.iter().flat_map(|datagram| &datagram.parts).filter(|part| !part.is_empty())
    {
        // The kernel reads only; its structure is the same for reading and writing.
        iovecs.push(libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
    }
}

fn header(message: &Message<'_>, iovecs: &[libc::iovec]) -> libc::msghdr {
    let control = message.control.as_bytes();
    // SAFETY: all fields are numbers and pointers, for which zero is a value. Some systems have hidden ones.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_name = message.to.as_ptr().cast_mut();
    header.msg_namelen = message.to.len;
    header.msg_iov = iovecs.as_ptr().cast_mut();
    header.msg_iovlen = iovecs.len() as _;
    if !control.is_empty() {
        header.msg_control = control.as_ptr().cast_mut().cast();
        header.msg_controllen = control.len() as _;
    }
    header
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
