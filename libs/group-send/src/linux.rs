//! What is `unsafe` in this crate, behind functions and types that are safe for every caller:
//! system calls with everything they point to, and memory shared with the kernel.
//!
//! Sending through a UDP socket is here; receiving (`recv`), the ring of `io_uring` (`uring`),
//! sockets of AF_XDP (`xsk`), the memory of a program in the kernel (`tc`) and programs that pick a
//! socket (`bpf`) are modules of this one, in its folder, and no other file has `unsafe`. There is no
//! policy here: what is asked for, and what an error means, is decided by the files that use it.

#![expect(unsafe_code, reason = "system calls take pointers")]

pub(crate) mod bpf;
pub(crate) mod recv;
#[cfg(feature = "tc-clone")]
pub(crate) mod tc;
#[cfg(feature = "io-uring")]
pub(crate) mod uring;
#[cfg(feature = "af-xdp")]
pub(crate) mod xsk;

use crate::cmsg::ControlBuffer;
use crate::datagram::{CHUNK, Datagram};
use arrayvec::ArrayVec;
use socket2::{Domain, SockRef, Type};
use std::io;
use std::mem;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Messages of one `sendmmsg`, at most. Its arguments then fit the first-level cache; the call
/// itself costs a few nanoseconds a message at this size.
pub(crate) const MESSAGES_MAX: usize = 64;

/// One message: datagrams for the recipient of the first, several only with a segment size.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) datagrams: &'a [Datagram<'a>],
    /// Segment size in bytes; 0 for a single datagram.
    pub(crate) segment: u16,
    /// Departure time; 0 for at once.
    pub(crate) departure_ns: u64,
    /// Traffic class; `None` for that of the socket.
    pub(crate) traffic_class: Option<u8>,
}

impl Message<'_> {
    /// Whether there is something to say to the kernel beside address and bytes.
    fn has_control(&self) -> bool {
        self.segment > 0 || self.departure_ns > 0 || self.traffic_class.is_some()
    }
}

/// What `sendmsg(2)` is given beside a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(libc::c_int);

impl Flags {
    /// `MSG_CONFIRM`.
    pub(crate) const CONFIRM: Self = Self(libc::MSG_CONFIRM);
}

/// What addresses a socket takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6Only,
    /// IPv6, and IPv4 as mapped addresses.
    Dual,
    /// None: the socket is connected, and all it is given goes to its peer.
    #[cfg(feature = "io-uring")]
    Connected,
}

impl Family {
    /// Whether such a socket can send to the address.
    pub(crate) fn reaches(self, address: &SocketAddr) -> bool {
        match address {
            SocketAddr::V4(_) => self != Self::V6Only,
            SocketAddr::V6(_) => self != Self::V4,
        }
    }
}

/// Sends one datagram that lies in one piece. Never waits.
///
/// # Errors
/// `errno`; `EAFNOSUPPORT` when the address is not one for a socket of that family.
pub(crate) fn send_to(
    socket: BorrowedFd<'_>,
    family: Family,
    to: &SocketAddr,
    datagram: &[u8],
    flags: Flags,
) -> Result<(), i32> {
    let address = encode(to, family)?;
    let (fd, len) = (socket.as_raw_fd(), address_len(family));
    let bytes: *const libc::c_void = datagram.as_ptr().cast();
    let name: *const libc::sockaddr = if len == 0 { ptr::null() } else { (&raw const address).cast() };
    // SAFETY: `bytes` is readable for the length given, and the address for its own, as long as the
    // call lasts.
    let sent = unsafe { libc::sendto(fd, bytes, datagram.len(), libc::MSG_DONTWAIT | flags.0, name, len) };
    if sent < 0 { Err(errno()) } else { Ok(()) }
}

/// Sends up to [`MESSAGES_MAX`] messages with [`CHUNK`] datagrams in all, in order, and returns how
/// many were taken: fewer than all when the next one failed or would block, which another call that
/// begins with it reports. Never waits.
///
/// # Errors
/// `errno` of the first message; `EAFNOSUPPORT` when an address is not one for a socket of that
/// family.
///
/// # Panics
/// If there are more messages or datagrams.
pub(crate) fn send_messages(
    socket: BorrowedFd<'_>,
    family: Family,
    messages: &[Message<'_>],
    flags: Flags,
) -> Result<usize, i32> {
    let mut addresses = ArrayVec::<Address, MESSAGES_MAX>::new();
    let mut controls = ArrayVec::<ControlBuffer, MESSAGES_MAX>::new();
    let mut iovecs = ArrayVec::<libc::iovec, { 3 * CHUNK }>::new();
    let mut ends = ArrayVec::<usize, MESSAGES_MAX>::new();
    let mut headers = ArrayVec::<libc::mmsghdr, MESSAGES_MAX>::new();
    for message in messages {
        let first = &message.datagrams[0];
        addresses.push(encode(first.destination, family)?);
        if message.has_control() {
            controls.push(control(message));
        }
        for part in
            message.datagrams.iter().flat_map(|datagram| &datagram.parts).filter(|part| !part.is_empty())
        {
            // The kernel reads only; its structure is the same for reading and writing.
            let next = libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
            // Datagrams of a run that were written one behind the other are one piece to it.
            let start = ends.last().copied().unwrap_or(0);
            match iovecs[start..].last_mut() {
                Some(last) if last.iov_base.wrapping_byte_add(last.iov_len) == next.iov_base => {
                    last.iov_len += next.iov_len;
                }
                _ => iovecs.push(next),
            }
        }
        ends.push(iovecs.len());
    }
    // The arrays are complete and do not move any more, so there can be pointers into them.
    let (mut start, mut controls) = (0, controls.iter());
    for ((message, address), &end) in messages.iter().zip(&addresses).zip(&ends) {
        // SAFETY: all fields are numbers and pointers, for which zero is a value. Some systems have
        // hidden ones.
        let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
        header.msg_hdr.msg_name = (&raw const *address).cast_mut().cast();
        header.msg_hdr.msg_namelen = address_len(family);
        header.msg_hdr.msg_iov = iovecs[start..end].as_ptr().cast_mut();
        header.msg_hdr.msg_iovlen = (end - start) as _;
        if message.has_control()
            && let Some(control) = controls.next()
        {
            header.msg_hdr.msg_control = control.as_bytes().as_ptr().cast_mut().cast();
            header.msg_hdr.msg_controllen = control.as_bytes().len() as _;
        }
        headers.push(header);
        start = end;
    }
    let (fd, count) = (socket.as_raw_fd(), headers.len() as libc::c_uint);
    let flags = libc::MSG_DONTWAIT | flags.0;
    // SAFETY: there are `count` headers, which point into the arrays above and to slices that
    // `messages` borrows, or to several that are adjacent; all live until the call returns, the
    // arrays did not move, and the kernel writes to the headers' lengths only.
    let sent = unsafe { libc::sendmmsg(fd, headers.as_mut_ptr(), count, flags as _) };
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
pub(crate) fn probe_sendmmsg(socket: BorrowedFd<'_>) -> io::Result<()> {
    send_messages(socket, Family::V4, &[], Flags::default()).map(drop).map_err(io::Error::from_raw_os_error)
}

/// Whether the kernel knows segmentation offload for UDP.
///
/// # Errors
/// `errno`: `ENOPROTOOPT` before Linux 4.18.
pub(crate) fn probe_segmentation(socket: BorrowedFd<'_>) -> io::Result<()> {
    option(socket, libc::SOL_UDP, libc::UDP_SEGMENT).map(drop)
}

/// A socket option that is one `int`, or begins with one.
///
/// # Errors
/// `errno`.
///
/// # Panics
/// For `SO_GET_FILTER`, the one option whose length is not in bytes (`sock_getsockopt` of the
/// kernel).
pub(crate) fn option(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> io::Result<i32> {
    assert!((level, name) != (libc::SOL_SOCKET, libc::SO_GET_FILTER), "a filter is not a number");
    let mut value: libc::c_int = 0;
    let mut len = size_of_val(&value) as libc::socklen_t;
    let pointer: *mut libc::c_void = (&raw mut value).cast();
    // SAFETY: the kernel writes at most `len` bytes to `value`, and the new length to `len`, before
    // it returns.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, pointer, &raw mut len) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// Bytes of datagrams that the kernel's stack holds for `socket`, in a queueing discipline, a
/// device, or waiting for a neighbour's address (`SIOCOUTQ`, udp(7)). 0 says that all it was given
/// has left.
///
/// # Errors
/// `errno`.
#[cfg(any(feature = "af-xdp", feature = "io-uring", feature = "tc-clone"))]
pub(crate) fn bytes_in_flight(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: this request writes one `int`, which `bytes` is, before it returns.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(u32::try_from(bytes).unwrap_or(0)) }
}

/// Whether two sockets are of one network namespace (`SO_NETNS_COOKIE`). True on kernels before
/// Linux 5.14, which cannot say.
pub(crate) fn same_namespace(left: BorrowedFd<'_>, right: BorrowedFd<'_>) -> bool {
    match (namespace(left), namespace(right)) {
        (Ok(left), Ok(right)) => left == right,
        _ => true,
    }
}

fn namespace(socket: BorrowedFd<'_>) -> io::Result<u64> {
    /// asm-generic/socket.h; libc does not name it for every target.
    const SO_NETNS_COOKIE: libc::c_int = 71;
    number(socket, SO_NETNS_COOKIE)
}

/// The number of a socket, which no other socket gets while the system runs (`SO_COOKIE`, Linux 4.12).
///
/// # Errors
/// `errno`.
pub(crate) fn cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    number(socket, libc::SO_COOKIE)
}

/// An option of 64 bits.
fn number(socket: BorrowedFd<'_>, name: libc::c_int) -> io::Result<u64> {
    let mut cookie = 0u64;
    let mut len = size_of_val(&cookie) as libc::socklen_t;
    let (fd, pointer) = (socket.as_raw_fd(), (&raw mut cookie).cast());
    // SAFETY: the kernel writes at most `len` bytes to `cookie`, and the new length to `len`,
    // before it returns.
    let result = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, pointer, &raw mut len) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(cookie) }
}

/// The larger of the two kinds of address, of which a socket takes one.
#[derive(Clone, Copy)]
#[repr(C)]
union Address {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

fn encode(address: &SocketAddr, family: Family) -> Result<Address, i32> {
    match (address, family) {
        (SocketAddr::V4(v4), Family::V4) => Ok(Address {
            v4: libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: v4.ip().to_bits().to_be() },
                sin_zero: [0; 8],
            },
        }),
        (SocketAddr::V4(v4), Family::Dual) => Ok(encode_v6(&v4.ip().to_ipv6_mapped(), v4.port(), 0, 0)),
        (SocketAddr::V6(v6), Family::Dual | Family::V6Only) => {
            Ok(encode_v6(v6.ip(), v6.port(), v6.flowinfo(), v6.scope_id()))
        }
        // Of length 0, so that the kernel does not look at it.
        #[cfg(feature = "io-uring")]
        (_, Family::Connected) => Ok(encode_v6(&Ipv6Addr::UNSPECIFIED, 0, 0, 0)),
        (SocketAddr::V4(_), Family::V6Only) | (SocketAddr::V6(_), Family::V4) => Err(libc::EAFNOSUPPORT),
    }
}

fn encode_v6(ip: &Ipv6Addr, port: u16, flowinfo: u32, scope_id: u32) -> Address {
    Address {
        v6: libc::sockaddr_in6 {
            sin6_family: libc::AF_INET6 as libc::sa_family_t,
            sin6_port: port.to_be(),
            sin6_flowinfo: flowinfo,
            sin6_addr: libc::in6_addr { s6_addr: ip.octets() },
            sin6_scope_id: scope_id,
        },
    }
}

fn address_len(family: Family) -> libc::socklen_t {
    match family {
        Family::V4 => size_of::<libc::sockaddr_in>() as libc::socklen_t,
        Family::V6Only | Family::Dual => size_of::<libc::sockaddr_in6>() as libc::socklen_t,
        #[cfg(feature = "io-uring")]
        Family::Connected => 0,
    }
}

fn control(message: &Message<'_>) -> ControlBuffer {
    let mut control = ControlBuffer::new();
    if message.segment > 0 {
        control.push_segment_size(message.segment);
    }
    if message.departure_ns > 0 {
        control.push_departure(message.departure_ns);
    }
    if let Some(traffic_class) = message.traffic_class {
        // A socket of both families sends to a mapped address as one of IPv4.
        let is_ipv4 = message.datagrams[0].destination.ip().to_canonical().is_ipv4();
        control.push_traffic_class(traffic_class, is_ipv4);
    }
    control
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
