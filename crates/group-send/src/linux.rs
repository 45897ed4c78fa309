//! What is `unsafe` in this crate, behind functions and types that are safe for every caller: system calls with
//! everything they point to, and memory shared with the kernel.
//!
//! One file, so that there is one place to look: first sending through a UDP socket, then a module each for receiving
//! (`recv`), the ring of `io_uring` (`uring`), sockets of AF_XDP (`xsk`) and the memory of a program in the kernel (`tc`).
//! There is no policy here: what is asked for, and what an error means, is decided by the files that use it.

#![expect(unsafe_code, reason = "system calls take pointers")]

use crate::backend::{CHUNK, Datagram};
use crate::cmsg::ControlBuffer;
use arrayvec::ArrayVec;
use socket2::{Domain, SockRef, Type};
use std::io;
use std::mem;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Messages of one `sendmmsg`, at most. Its arguments then fit the first-level cache; the call itself costs a few
/// nanoseconds a message at this size.
pub(crate) const MESSAGES_MAX: usize = 64;

/// One message: datagrams for the recipient of the first, several only with a segment size.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) datagrams: &'a [Datagram<'a>],
    /// Where the kernel shall cut, in bytes; 0 for a single datagram.
    pub(crate) segment: u16,
    /// When it shall leave; 0 for at once.
    pub(crate) departure_ns: u64,
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
) -> Result<(), i32> {
    let address = encode(to, family)?;
    let (fd, len) = (socket.as_raw_fd(), address_len(family));
    let bytes: *const libc::c_void = datagram.as_ptr().cast();
    let name: *const libc::sockaddr = if len == 0 { ptr::null() } else { (&raw const address).cast() };
    // SAFETY: `bytes` is readable for the length given, and the address for its own, as long as the call lasts.
    let sent = unsafe { libc::sendto(fd, bytes, datagram.len(), libc::MSG_DONTWAIT, name, len) };
    if sent < 0 { Err(errno()) } else { Ok(()) }
}

/// Sends up to [`MESSAGES_MAX`] messages with [`CHUNK`] datagrams in all, in order, and returns how many were taken:
/// fewer than all when the next one failed or would block, which another call that begins with it tells. Never waits.
///
/// # Errors
/// `errno` of the first message; `EAFNOSUPPORT` when an address is not one for a socket of that family.
///
/// # Panics
/// If there are more messages or datagrams.
pub(crate) fn send_messages(
    socket: BorrowedFd<'_>,
    family: Family,
    messages: &[Message<'_>],
) -> Result<usize, i32> {
    let mut addresses = ArrayVec::<Address, MESSAGES_MAX>::new();
    let mut controls = ArrayVec::<ControlBuffer, MESSAGES_MAX>::new();
    let mut iovecs = ArrayVec::<libc::iovec, { 3 * CHUNK }>::new();
    let mut ends = ArrayVec::<usize, MESSAGES_MAX>::new();
    let mut headers = ArrayVec::<libc::mmsghdr, MESSAGES_MAX>::new();
    for message in messages {
        let first = &message.datagrams[0];
        addresses.push(encode(first.destination, family)?);
        if message.segment > 0 || message.departure_ns > 0 {
            controls.push(control(message.segment, message.departure_ns));
        }
        for part in
            message.datagrams.iter().flat_map(|datagram| &datagram.parts).filter(|part| !part.is_empty())
        {
            // The kernel reads only; its structure is the same for reading and writing.
            iovecs.push(libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
        }
        ends.push(iovecs.len());
    }
    // The arrays are complete and do not move any more, so there can be pointers into them.
    let (mut start, mut controls) = (0, controls.iter());
    for ((message, address), &end) in messages.iter().zip(&addresses).zip(&ends) {
        // SAFETY: all fields are numbers and pointers, for which zero is a value. Some systems have hidden ones.
        let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
        header.msg_hdr.msg_name = (&raw const *address).cast_mut().cast();
        header.msg_hdr.msg_namelen = address_len(family);
        header.msg_hdr.msg_iov = iovecs[start..end].as_ptr().cast_mut();
        header.msg_hdr.msg_iovlen = (end - start) as _;
        if (message.segment > 0 || message.departure_ns > 0)
            && let Some(control) = controls.next()
        {
            header.msg_hdr.msg_control = control.as_bytes().as_ptr().cast_mut().cast();
            header.msg_hdr.msg_controllen = control.as_bytes().len() as _;
        }
        headers.push(header);
        start = end;
    }
    let (fd, count) = (socket.as_raw_fd(), headers.len() as libc::c_uint);
    // SAFETY: there are `count` headers, which point into the arrays above and to slices that `messages` borrows; all
    // live until the call returns, the arrays did not move, and the kernel writes to the headers' lengths only.
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
pub(crate) fn probe_sendmmsg(socket: BorrowedFd<'_>) -> io::Result<()> {
    send_messages(socket, Family::V4, &[]).map(drop).map_err(io::Error::from_raw_os_error)
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
/// For `SO_GET_FILTER`, the one option whose length is not in bytes (`sock_getsockopt` of the kernel).
pub(crate) fn option(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> io::Result<i32> {
    assert!((level, name) != (libc::SOL_SOCKET, libc::SO_GET_FILTER), "a filter is not a number");
    let mut value: libc::c_int = 0;
    let mut len = size_of_val(&value) as libc::socklen_t;
    let pointer: *mut libc::c_void = (&raw mut value).cast();
    // SAFETY: the kernel writes at most `len` bytes to `value`, and the new length to `len`, before it returns.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, pointer, &raw mut len) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// Bytes of datagrams that the kernel's stack holds for `socket`, in a queueing discipline, a device, or waiting for a
/// neighbour's address (`SIOCOUTQ`, udp(7)). 0 says that all it was given has left.
///
/// # Errors
/// `errno`.
#[cfg(any(feature = "af-xdp", feature = "io-uring", feature = "tc-clone"))]
pub(crate) fn bytes_under_way(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: this request writes one `int`, which `bytes` is, before it returns.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(u32::try_from(bytes).unwrap_or(0)) }
}

/// Whether two sockets are of one network namespace (`SO_NETNS_COOKIE`). True on kernels before Linux 5.14, which cannot
/// tell.
#[cfg(any(feature = "af-xdp", feature = "io-uring", feature = "tc-clone"))]
pub(crate) fn same_namespace(left: BorrowedFd<'_>, right: BorrowedFd<'_>) -> bool {
    match (namespace(left), namespace(right)) {
        (Ok(left), Ok(right)) => left == right,
        _ => true,
    }
}

#[cfg(any(feature = "af-xdp", feature = "io-uring", feature = "tc-clone"))]
fn namespace(socket: BorrowedFd<'_>) -> io::Result<u64> {
    /// asm-generic/socket.h; libc does not name it for every target.
    const SO_NETNS_COOKIE: libc::c_int = 71;
    let mut cookie = 0u64;
    let mut len = size_of_val(&cookie) as libc::socklen_t;
    let (fd, pointer) = (socket.as_raw_fd(), (&raw mut cookie).cast());
    // SAFETY: the kernel writes at most `len` bytes to `cookie`, and the new length to `len`, before it returns.
    let result = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, SO_NETNS_COOKIE, pointer, &raw mut len) };
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

fn control(segment: u16, departure_ns: u64) -> ControlBuffer {
    let mut control = ControlBuffer::new();
    if segment > 0 {
        control.push_segment_size(segment);
    }
    if departure_ns > 0 {
        control.push_departure(departure_ns);
    }
    control
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

pub(crate) mod recv {
    //! The system calls of the receiving side: `recvmmsg(2)` into one slab, the error queue, and socket options.
    //!
    //! Each type or function is safe for every caller and holds no policy: what is asked for, in what sizes, and what
    //! follows from the answers is in `recv.rs` and `socket.rs`.

    use crate::cmsg;
    use socket2::SockRef;
    use std::io;
    use std::net::SocketAddr;
    use std::os::fd::{AsRawFd, BorrowedFd};

    /// Messages that one `recvmmsg` fills: a slab with a part for the payload of each, and room for addresses and control
    /// messages.
    pub(crate) struct Inbox {
        slab: Vec<u8>,
        /// From the beginning of one payload to that of the next.
        stride: usize,
        payload_max: usize,
        envelopes: Vec<Envelope>,
        calls: Calls,
    }

    /// What `recvmmsg` is handed. The pointers are written anew before each call, and nothing follows them after it.
    struct Calls {
        headers: Vec<libc::mmsghdr>,
        iovecs: Vec<libc::iovec>,
    }

    // SAFETY: between calls the pointers are never used, so it does not matter which thread has them.
    unsafe impl Send for Calls {}

    /// What comes with a payload.
    #[derive(Clone, Copy)]
    #[repr(C, align(8))]
    struct Envelope {
        /// A `sockaddr_in6` is the longest of UDP, with 28 bytes.
        address: [u8; 32],
        /// Those of `recv.rs` take up to 152 bytes; the rest is for options that the owner of the socket set.
        control: [u8; 256],
    }

    /// A received message beside its payload.
    pub(crate) struct Head<'a> {
        /// None if the socket is not one of IPv4 or IPv6.
        pub(crate) source: Option<SocketAddr>,
        /// Its length; more than the slab has for it if it was cut off.
        pub(crate) bytes: usize,
        pub(crate) control: &'a [u8],
        /// Whether there were more control messages than room.
        pub(crate) control_cut: bool,
    }

    impl Inbox {
        /// For `messages` of up to `payload_max` bytes, `stride` bytes apart. Memory is zeroed by being fresh, so that the
        /// kernel provides a page when something is first received into it.
        pub(crate) fn new(messages: usize, payload_max: usize, stride: usize) -> Self {
            assert!(stride >= payload_max, "payloads lie behind one another");
            // SAFETY: null pointers and zeros are valid in all fields of this structure.
            let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            let iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
            Self {
                slab: vec![0; messages * stride],
                stride,
                payload_max,
                envelopes: vec![Envelope { address: [0; 32], control: [0; 256] }; messages],
                calls: Calls { headers: vec![header; messages], iovecs: vec![iovec; messages] },
            }
        }

        /// Receives what is there, up to `messages` of them, or waits for one if told to and the socket is a blocking one.
        /// Returns how many.
        pub(crate) fn receive(
            &mut self,
            socket: &SockRef<'_>,
            wait: bool,
            messages: usize,
        ) -> io::Result<usize> {
            let messages = messages.min(self.messages_max());
            self.point(messages);
            let flags = libc::MSG_TRUNC | if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
            let Calls { headers, .. } = &mut self.calls;
            // SAFETY: there are at least so many headers, and `point` made each point to parts of `self` of the lengths it
            // names, no two of which overlap. `self` is borrowed mutably until the call returns.
            let received = unsafe {
                libc::recvmmsg(
                    socket.as_raw_fd(),
                    headers.as_mut_ptr(),
                    messages as libc::c_uint,
                    flags as _,
                    std::ptr::null_mut(),
                )
            };
            usize::try_from(received).map_err(|_| io::Error::last_os_error())
        }

        pub(crate) fn messages_max(&self) -> usize {
            self.calls.headers.len()
        }

        /// Points the first headers to payloads and envelopes.
        fn point(&mut self, messages: usize) {
            let payloads = self.slab.chunks_exact_mut(self.stride);
            let calls = self.calls.headers.iter_mut().zip(&mut self.calls.iovecs);
            for ((payload, envelope), (header, iovec)) in
                payloads.zip(&mut self.envelopes).zip(calls).take(messages)
            {
                iovec.iov_base = payload.as_mut_ptr().cast();
                iovec.iov_len = self.payload_max;
                let header = &mut header.msg_hdr;
                header.msg_name = envelope.address.as_mut_ptr().cast();
                header.msg_namelen = size_of_val(&envelope.address) as _;
                header.msg_iov = iovec;
                header.msg_iovlen = 1;
                header.msg_control = envelope.control.as_mut_ptr().cast();
                header.msg_controllen = size_of_val(&envelope.control) as _;
            }
        }

        /// The message of this number in the last call.
        #[allow(clippy::unnecessary_cast, reason = "the length is a `u32` in some C libraries")]
        pub(crate) fn head(&self, index: usize) -> Head<'_> {
            let envelope = &self.envelopes[index];
            let call = &self.calls.headers[index];
            let address_bytes = (call.msg_hdr.msg_namelen as usize).min(envelope.address.len());
            let control_bytes = (call.msg_hdr.msg_controllen as usize).min(envelope.control.len());
            Head {
                source: cmsg::parse_address(&envelope.address[..address_bytes]),
                bytes: call.msg_len as usize,
                control: &envelope.control[..control_bytes],
                control_cut: call.msg_hdr.msg_flags & libc::MSG_CTRUNC != 0,
            }
        }

        /// The slab: payloads begin at multiples of the stride.
        pub(crate) fn slab(&self) -> &[u8] {
            &self.slab
        }

        pub(crate) fn slab_mut(&mut self) -> &mut [u8] {
            &mut self.slab
        }
    }

    /// Takes one entry off the socket's error queue (`recvmsg(2)` with `MSG_ERRQUEUE`): where the datagram went that
    /// failed, and control messages, one of which says why. `None` if the queue is empty.
    #[allow(clippy::unnecessary_cast, reason = "the length is a `u32` in some C libraries")]
    pub(crate) fn next_error<T>(
        socket: BorrowedFd<'_>,
        read: impl FnOnce(Option<SocketAddr>, &[u8]) -> T,
    ) -> io::Result<Option<T>> {
        let mut envelope = Envelope { address: [0; 32], control: [0; 256] };
        // SAFETY: null pointers and zeros are valid in all fields of this structure.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_name = envelope.address.as_mut_ptr().cast();
        header.msg_namelen = size_of_val(&envelope.address) as _;
        header.msg_control = envelope.control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&envelope.control) as _;
        // SAFETY: the header points to two arrays of the lengths it names, which outlive the call, and to no payload.
        let result = unsafe {
            libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)
        };
        if result < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
        }
        let address_bytes = (header.msg_namelen as usize).min(envelope.address.len());
        let control_bytes = (header.msg_controllen as usize).min(envelope.control.len());
        let destination = cmsg::parse_address(&envelope.address[..address_bytes]);
        Ok(Some(read(destination, &envelope.control[..control_bytes])))
    }

    /// Sets an option whose value is an `int` (`setsockopt(2)`).
    pub(crate) fn set_option(socket: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
        set_option_bytes(socket, level, name, &value.to_ne_bytes())
    }

    /// Gives the socket's departure times a clock (`SO_TXTIME`, `socket(7)`), without flags.
    pub(crate) fn set_txtime(socket: BorrowedFd<'_>, clock: libc::clockid_t) -> io::Result<()> {
        // `struct sock_txtime`: clock and flags.
        let mut value = [0; 8];
        value[..4].copy_from_slice(&clock.to_ne_bytes());
        set_option_bytes(socket, libc::SOL_SOCKET, libc::SO_TXTIME, &value)
    }

    /// Private, because there are options whose value contains pointers.
    fn set_option_bytes(socket: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
        // SAFETY: the kernel reads as many bytes as `value` has, and both callers pass values without pointers: one of
        // four bytes, too short for any structure with a pointer, and one for an option known to have none.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                level,
                name,
                value.as_ptr().cast(),
                value.len() as libc::socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(feature = "io-uring")]
pub(crate) mod uring {
    //! The kernel's side of the `io_uring` back end: one call that sends a batch through registered sockets, and the
    //! options that one socket takes over from another.
    //!
    //! Safe for every caller because nothing stays lent: [`Ring::send`] returns when the kernel has answered every message
    //! or has never seen it. Which sockets there are, what is sent and what follows from an error is in
    //! `backend/io_uring.rs`.

    use crate::backend::Datagram;
    use crate::linux::{option, recv};
    use io_uring::squeue::Entry;
    use io_uring::types::Fixed;
    use io_uring::{IoUring, opcode};
    use std::io;
    use std::os::fd::{AsRawFd, BorrowedFd};

    /// Messages of one call, at most.
    ///
    /// Measured with 1000 bytes to 1000 recipients: 32 took 1000 ns a datagram, 64 took 1070 and 256 took 1180, because
    /// the copies and what the kernel touches then leave the caches. What the call itself costs is 3 ns a message at 32.
    pub(crate) const RING_MESSAGES_MAX: usize = 32;

    /// A datagram for one registered socket.
    #[derive(Clone, Copy)]
    pub(crate) struct RingMessage<'a> {
        /// Number of the socket, see [`Ring::set_socket`].
        pub(crate) socket: u32,
        /// In one piece, or of no more than [`COPIED_MAX`] bytes.
        pub(crate) datagram: &'a Datagram<'a>,
    }

    /// An `io_uring` with a table of registered sockets.
    ///
    /// `IORING_SETUP_SINGLE_ISSUER` and `DEFER_TASKRUN` are left out: they bind a ring to one thread, and these sends,
    /// which complete while they are submitted, were no faster with them (874 and 879 ns).
    pub(crate) struct Ring {
        /// None after an error that leaves messages in the queue which must never be submitted.
        ring: Option<IoUring>,
        /// Room for one copied datagram a message.
        copies: Box<[[u8; COPIED_MAX]; RING_MESSAGES_MAX]>,
    }

    impl Ring {
        /// A ring with `sockets` empty places for sockets.
        ///
        /// # Errors
        /// `ENOSYS`: a kernel without it; `EPERM`: forbidden; `EINVAL`: Linux before 5.19; `EMFILE`: more places than
        /// descriptors allowed.
        pub(crate) fn open(sockets: u32) -> io::Result<Self> {
            let ring =
                IoUring::builder().setup_coop_taskrun().setup_submit_all().build(RING_MESSAGES_MAX as u32)?;
            ring.submitter().register_files_sparse(sockets)?;
            Ok(Self { ring: Some(ring), copies: Box::new([[0; COPIED_MAX]; RING_MESSAGES_MAX]) })
        }

        /// Puts a socket into a place, or takes out the one that is there. The table holds it beyond the descriptor's end.
        ///
        /// # Errors
        /// There is no such place, the kernel has no memory, or the ring is closed (`EBADF`).
        pub(crate) fn set_socket(&self, place: u32, socket: Option<BorrowedFd<'_>>) -> io::Result<()> {
            let ring = self.ring.as_ref().ok_or_else(closed)?;
            let fd = socket.map_or(-1, |socket| socket.as_raw_fd());
            ring.submitter().register_files_update(place, &[fd]).map(drop)
        }

        /// Whether it still works. It does not after an error of the ring itself, as opposed to one of a message.
        pub(crate) fn is_open(&self) -> bool {
            self.ring.is_some()
        }

        /// Sends the messages without waiting for room in a socket, and writes the result of each: a number of bytes, or a
        /// negative `errno`. `-ECANCELED`: the kernel has not tried it. In what order they are sent is the kernel's choice.
        ///
        /// # Panics
        /// If there are more than [`RING_MESSAGES_MAX`] messages or not as many results.
        pub(crate) fn send(&mut self, messages: &[RingMessage<'_>], results: &mut [i32]) {
            assert_eq!(messages.len(), results.len(), "a result for each message");
            assert!(messages.len() <= RING_MESSAGES_MAX, "the ring's entries");
            results.fill(-libc::ECANCELED);
            let Some(ring) = &mut self.ring else { return };
            let mut queue = ring.submission();
            let mut queued = 0;
            for ((message, copy), number) in messages.iter().zip(self.copies.iter_mut()).zip(0..) {
                let entry = match single_piece(message.datagram, copy) {
                    Some(bytes) => send_entry(message.socket, bytes),
                    None => opcode::Nop::new().build(),
                };
                // SAFETY: what the entry points to is borrowed or owned by this call until it returns, and it returns when
                // every entry is completed, or when those that are not can never be submitted. Nothing here panics.
                let pushed = unsafe { queue.push(&entry.user_data(number)) };
                // All of them are: the queue is empty before each call, and has an entry for each message.
                queued += usize::from(pushed.is_ok());
            }
            drop(queue);
            if submit_and_wait(ring, queued, results).is_err() {
                self.ring = None;
            }
        }
    }

    /// A datagram in one piece, copied together if it has several; none if that would be too long. A copy of 1000 bytes costs
    /// 16 ns, having the kernel read a message header and a list of pieces 45 ns.
    fn single_piece<'a>(datagram: &Datagram<'a>, copy: &'a mut [u8; COPIED_MAX]) -> Option<&'a [u8]> {
        let [first, second, third] = datagram.parts;
        match (first.len(), second.len(), third.len()) {
            (_, 0, 0) => Some(first),
            (0, _, 0) => Some(second),
            (0, 0, _) => Some(third),
            (a, b, c) if a + b + c <= COPIED_MAX => {
                copy[..a].copy_from_slice(first);
                copy[a..a + b].copy_from_slice(second);
                copy[a + b..a + b + c].copy_from_slice(third);
                Some(&copy[..a + b + c])
            }
            _ => None,
        }
    }

    fn send_entry(socket: u32, bytes: &[u8]) -> Entry {
        opcode::Send::new(Fixed(socket), bytes.as_ptr(), bytes.len() as u32).flags(FLAGS).build()
    }

    /// Submits the entries that are queued, and returns when the kernel has completed every one.
    ///
    /// # Errors
    /// The kernel does not take entries any more. Those without a result it has not seen, and the ring must be dropped,
    /// because they still are in its queue.
    fn submit_and_wait(ring: &mut IoUring, queued: usize, results: &mut [i32]) -> io::Result<()> {
        let mut done = 0;
        while done < queued {
            let entered = ring.submit_and_wait(queued - done);
            for completion in ring.completion() {
                done += 1;
                if let Some(result) = results.get_mut(completion.user_data() as usize) {
                    *result = completion.result();
                }
            }
            let Err(error) = entered else { continue };
            let unseen = ring.submission().len();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                _ if done + unseen == queued => return Err(error),
                Some(libc::EAGAIN | libc::EBUSY) => {}
                // The kernel has what is lent, and will not say when it is done with it: there is nowhere to go on. No
                // documented error of a ring that has taken entries is left for this.
                _ => std::process::abort(),
            }
        }
        Ok(())
    }

    fn closed() -> io::Error {
        io::Error::from_raw_os_error(libc::EBADF)
    }

    /// Gives a new socket the options of another one that change what leaves: type of service, lifetime, path MTU
    /// discovery, mark, priority, the size of its buffer, and whether a full queue is told (`IP_RECVERR`).
    ///
    /// # Errors
    /// The new one does not take a value, for want of a right (mark, priority above 6).
    pub(crate) fn copy_options(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
        for &(level, name) in COPIED {
            // What neither knows (of IPv6, on an IPv4 socket) is no difference.
            let (Ok(wanted), Ok(present)) = (option(from, level, name), option(to, level, name)) else {
                continue;
            };
            if wanted != present {
                // Of a buffer's size the kernel reports the double of what it is asked for (`socket(7)`).
                let doubled = (level, name) == (libc::SOL_SOCKET, libc::SO_SNDBUF);
                recv::set_option(to, level, name, if doubled { wanted / 2 } else { wanted })?;
            }
        }
        Ok(())
    }

    /// In this order: the type of service sets the priority as well.
    const COPIED: &[(i32, i32)] = &[
        (libc::SOL_IP, libc::IP_TOS),
        (libc::SOL_IP, libc::IP_TTL),
        (libc::SOL_IP, libc::IP_MTU_DISCOVER),
        (libc::SOL_IP, libc::IP_RECVERR),
        (libc::SOL_IP, libc::IP_FREEBIND),
        (libc::SOL_IP, libc::IP_TRANSPARENT),
        (libc::SOL_IPV6, libc::IPV6_TCLASS),
        (libc::SOL_IPV6, libc::IPV6_UNICAST_HOPS),
        (libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER),
        (libc::SOL_IPV6, libc::IPV6_RECVERR),
        (libc::SOL_SOCKET, libc::SO_PRIORITY),
        (libc::SOL_SOCKET, libc::SO_MARK),
        (libc::SOL_SOCKET, libc::SO_SNDBUF),
    ];

    const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

    /// Bytes of a datagram that is copied together from several pieces, at most.
    pub(crate) const COPIED_MAX: usize = 2048;
}

#[cfg(feature = "af-xdp")]
pub(crate) mod xsk {
    //! One AF_XDP socket that only sends: its memory, its rings, and the system call that makes the kernel look at them.
    //!
    //! Which frames are sent, and what a full ring means, is decided in `backend/af_xdp.rs`. Left out: receiving. A socket
    //! that only sends needs no XDP program and takes nothing away from the kernel.
    //!
    //! Why not the crate `xdp` (0.8), with which this began, and which is as fast (within 1 % of a datagram): its counters
    //! overflow where arithmetic is checked, after 2^32 frames, which is an hour; it does not look whether the driver wants
    //! to be woken; and its packets are raw pointers, so that using it is `unsafe` as well.
    //! Facts: Documentation/networking/af_xdp.rst of the kernel, linux/if_xdp.h.

    use socket2::{Domain, SockRef, Socket, Type};
    use std::io;
    use std::marker::PhantomData;
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
    use std::ptr::{self, NonNull};
    use std::sync::atomic::{AtomicU32, Ordering, fence};

    /// Bytes of a frame, at most: the least that a frame's memory can be, and more than a link with the usual MTU of 1500
    /// carries.
    pub(crate) const FRAME_MAX: usize = 2048;

    /// A socket that sends frames through one queue of one interface.
    pub(crate) struct Transmitter {
        // Dropped in this order: first what the kernel reads the others through.
        socket: Socket,
        tx: Ring<libc::xdp_desc>,
        completions: Ring<u64>,
        memory: Memory,
        /// Numbers of the frames that nobody has, the warmest last. Frame n lies at `n * FRAME_MAX`.
        free: Vec<u32>,
        frames: u32,
        /// Written entries of `tx`, which the kernel is shown by [`Transmitter::submit`]. Wraps, as the rings' counters do.
        written: u32,
        /// Read entries of `completions`.
        completed: u32,
        /// Frames that must stay free.
        reserve: usize,
    }

    impl Transmitter {
        /// Binds to `queue` of the interface with this index in the calling thread's network namespace, with memory for
        /// `frames` frames, a power of two from 64 to 2^20. The driver is used without copies where it can be.
        ///
        /// # Errors
        /// The reason as text for whoever configures: a missing right, interface, queue, or memory that may be locked.
        pub(crate) fn open(interface_index: u32, queue: u32, frames: u32) -> Result<Self, Refusal> {
            let memory = Memory::map(frames).map_err(explain("memory"))?;
            let socket =
                Socket::new(Domain::from(libc::AF_XDP), Type::RAW, None).map_err(explain("socket"))?;
            register(socket.as_fd(), &memory.mapping).map_err(explain("memory"))?;
            // As many places as frames: neither ring can be full, and the kernel never waits for one. The third is never
            // filled, but the kernel binds no socket without.
            let sizes = [
                (libc::XDP_UMEM_FILL_RING, 1),
                (libc::XDP_UMEM_COMPLETION_RING, frames),
                (libc::XDP_TX_RING, frames),
            ];
            for (ring, size) in sizes {
                set_option(socket.as_fd(), libc::SOL_XDP, ring, &size).map_err(explain("rings"))?;
            }
            let offsets: libc::xdp_mmap_offsets =
                option(socket.as_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS).map_err(explain("rings"))?;
            let tx = Ring::map(socket.as_fd(), libc::XDP_PGOFF_TX_RING as u64, &offsets.tx, frames);
            let page = libc::XDP_UMEM_PGOFF_COMPLETION_RING;
            let completions = Ring::map(socket.as_fd(), page, &offsets.cr, frames);
            let (tx, completions) = (tx.map_err(explain("rings"))?, completions.map_err(explain("rings"))?);
            bind(socket.as_fd(), interface_index, queue).map_err(explain("bind"))?;
            let reserve = frames as usize - raise_limits(&socket, frames).min(frames as usize);
            let free = (0..frames).rev().collect();
            Ok(Self { socket, tx, completions, memory, free, frames, written: 0, completed: 0, reserve })
        }

        /// Writes the next frame: `write` gets its `len` bytes, with what an earlier frame left in them. Returns false
        /// when as many frames are under way as may be, or `len` exceeds [`FRAME_MAX`].
        #[inline]
        pub(crate) fn push(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> bool {
            if len > FRAME_MAX || self.free.len() <= self.reserve {
                return false;
            }
            let Some(frame) = self.free.pop() else { return false };
            write(&mut self.memory.frame(frame)[..len]);
            let start = frame as usize * FRAME_MAX;
            self.tx.write(self.written, libc::xdp_desc { addr: start as u64, len: len as u32, options: 0 });
            self.written = self.written.wrapping_add(1);
            true
        }

        /// Shows the kernel the frames that are written.
        pub(crate) fn submit(&mut self) {
            self.tx.producer().store(self.written, Ordering::Release);
        }

        /// Makes the kernel send what it has been shown, unless a driver is at it anyway. Never waits.
        ///
        /// # Errors
        /// `errno`: `EAGAIN` with frames left in the ring, `EBUSY` when the device dropped one, `ENETDOWN`, `ENXIO`
        /// without a device.
        pub(crate) fn kick(&self) -> Result<(), i32> {
            // The driver first says that it sleeps and then looks for frames; so here, the other way round.
            fence(Ordering::SeqCst);
            if self.tx.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP == 0 {
                return Ok(());
            }
            match self.socket.send_with_flags(&[], libc::MSG_DONTWAIT) {
                Ok(_) => Ok(()),
                Err(error) => Err(error.raw_os_error().unwrap_or(0)),
            }
        }

        /// Takes back the frames that the kernel has done with.
        pub(crate) fn reclaim(&mut self) {
            let produced = self.completions.producer().load(Ordering::Acquire);
            while self.completed != produced && self.free.len() < self.frames as usize {
                let frame = self.completions.read(self.completed) / FRAME_MAX as u64;
                self.completed = self.completed.wrapping_add(1);
                // The kernel gives back what it was given; a number beyond the memory would be a defect of it.
                self.free.push(u32::try_from(frame).unwrap_or(0).min(self.frames - 1));
            }
            self.completions.consumer().store(self.completed, Ordering::Release);
        }

        /// Frames that are written and not yet given back, as of the last [`Transmitter::reclaim`].
        pub(crate) fn under_way(&self) -> usize {
            self.frames as usize - self.free.len()
        }

        /// Frames that the kernel threw away because their descriptor was wrong; always 0 unless there is a defect.
        pub(crate) fn invalid_descriptors(&self) -> u64 {
            option::<libc::xdp_statistics>(self.socket.as_fd(), libc::SOL_XDP, libc::XDP_STATISTICS)
                .map_or(0, |statistics| statistics.tx_invalid_descs)
        }
    }

    impl AsFd for Transmitter {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.socket.as_fd()
        }
    }

    /// Why there is no socket.
    #[derive(Debug)]
    pub(crate) struct Refusal {
        /// Another socket has the queue. The kernel frees the queue of a closed socket a little later.
        pub(crate) is_busy: bool,
        pub(crate) why: String,
    }

    /// Memory that is mapped as long as this lives.
    struct Mapping {
        address: NonNull<u8>,
        len: usize,
    }

    impl Mapping {
        fn map(len: usize, flags: libc::c_int, fd: libc::c_int, offset: u64) -> io::Result<Self> {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: without an address of ours the kernel chooses one where nothing is.
            let address = unsafe { libc::mmap64(ptr::null_mut(), len, protection, flags, fd, offset as _) };
            match NonNull::new(address.cast::<u8>()) {
                Some(address) if address.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { address, len }),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: this was mapped with this length, and what borrows from it has ended.
            unsafe { libc::munmap(self.address.as_ptr().cast(), self.len) };
        }
    }

    /// Memory for frames: of this process, and read by the kernel where it was shown a frame.
    struct Memory {
        mapping: Mapping,
    }

    impl Memory {
        fn map(frames: u32) -> io::Result<Self> {
            let len = frames as usize * FRAME_MAX;
            Ok(Self { mapping: Mapping::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)? })
        }

        #[inline]
        fn frame(&mut self, number: u32) -> &mut [u8; FRAME_MAX] {
            let start = number as usize * FRAME_MAX;
            assert!(start + FRAME_MAX <= self.mapping.len, "there are not as many frames");
            // SAFETY: the assertion keeps the frame within the mapping.
            let frame = unsafe { self.mapping.address.add(start) };
            // SAFETY: mapped, zeroed at first, borrowed from `self` for as long as the result, and nobody else in this
            // process has a reference. The kernel only reads here, and would at worst send what is being written.
            unsafe { frame.cast::<[u8; FRAME_MAX]>().as_mut() }
        }
    }

    // SAFETY: a mapping belongs to the process, not to a thread, and this is its only owner.
    unsafe impl Send for Mapping {}

    /// A ring that the kernel has the other end of: two counters that wrap, and a power of two of entries.
    struct Ring<T> {
        mapping: Mapping,
        producer: usize,
        consumer: usize,
        flags: usize,
        entries: usize,
        size: u32,
        entry: PhantomData<T>,
    }

    impl<T: Numbers> Ring<T> {
        fn map(
            socket: BorrowedFd<'_>,
            page: u64,
            offsets: &libc::xdp_ring_offset,
            size: u32,
        ) -> io::Result<Self> {
            let [producer, consumer, flags, entries] =
                [offsets.producer, offsets.consumer, offsets.flags, offsets.desc]
                    .map(|offset| offset as usize);
            let aligned =
                [producer, consumer, flags].iter().all(|offset| offset % 4 == 0 && offset + 4 <= entries);
            if !aligned || !entries.is_multiple_of(align_of::<T>()) || !size.is_power_of_two() {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            let len = entries + size as usize * size_of::<T>();
            let flags_of_map = libc::MAP_SHARED | libc::MAP_POPULATE;
            let mapping = Mapping::map(len, flags_of_map, socket.as_raw_fd(), page)?;
            Ok(Self { mapping, producer, consumer, flags, entries, size, entry: PhantomData })
        }

        fn producer(&self) -> &AtomicU32 {
            self.counter(self.producer)
        }

        fn consumer(&self) -> &AtomicU32 {
            self.counter(self.consumer)
        }

        fn flags(&self) -> &AtomicU32 {
            self.counter(self.flags)
        }

        fn counter(&self, offset: usize) -> &AtomicU32 {
            // SAFETY: `map` has checked that the offset is one of three that end before the entries, so within the mapping.
            let counter = unsafe { self.mapping.address.add(offset) };
            // SAFETY: mapped for as long as the result is borrowed, aligned as `map` has checked (mappings begin with a
            // page), and both sides use it as an atomic number only.
            unsafe { AtomicU32::from_ptr(counter.cast().as_ptr()) }
        }

        /// The entry that a counter of this value stands for.
        #[inline]
        fn entry(&self, counter: u32) -> NonNull<T> {
            let index = (counter & (self.size - 1)) as usize;
            // SAFETY: the mapping has `size` entries from this offset on, and the mask keeps the index below `size`.
            unsafe { self.mapping.address.add(self.entries + index * size_of::<T>()).cast() }
        }

        #[inline]
        fn write(&mut self, counter: u32, entry: T) {
            // SAFETY: within the mapping and aligned, as `entry` and `map` say. Volatile, because the kernel reads it.
            unsafe { self.entry(counter).write_volatile(entry) }
        }

        #[inline]
        fn read(&self, counter: u32) -> T {
            // SAFETY: within the mapping and aligned, as `entry` and `map` say; any bytes are a `T`. Volatile, because the
            // kernel writes it.
            unsafe { self.entry(counter).read_volatile() }
        }
    }

    /// Structures of the kernel that are numbers through and through.
    ///
    /// # Safety
    /// Any bytes are a value of the type, and it has no padding.
    unsafe trait Numbers: Copy {}
    // SAFETY: a number.
    unsafe impl Numbers for u32 {}
    // SAFETY: a number.
    unsafe impl Numbers for u64 {}
    // SAFETY: a number of 64 bits and two of 32 bits.
    unsafe impl Numbers for libc::xdp_desc {}
    // SAFETY: numbers of 64 bits.
    unsafe impl Numbers for libc::xdp_mmap_offsets {}
    // SAFETY: numbers of 64 bits.
    unsafe impl Numbers for libc::xdp_statistics {}
    // SAFETY: two numbers of 64 bits and four of 32 bits.
    unsafe impl Numbers for libc::xdp_umem_reg {}

    fn set_option<T: Numbers>(
        socket: BorrowedFd<'_>,
        level: libc::c_int,
        name: libc::c_int,
        value: &T,
    ) -> io::Result<()> {
        let (fd, len) = (socket.as_raw_fd(), size_of::<T>() as libc::socklen_t);
        // SAFETY: the kernel reads at most `len` bytes of `value` before it returns.
        let result = unsafe { libc::setsockopt(fd, level, name, ptr::from_ref(value).cast(), len) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn option<T: Numbers>(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> io::Result<T> {
        let mut value = std::mem::MaybeUninit::<T>::zeroed();
        let mut len = size_of::<T>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to `value`, and the new length to `len`, before it returns.
        let result = unsafe {
            libc::getsockopt(socket.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut len)
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: zeroed before, and any bytes are a `T`.
        Ok(unsafe { value.assume_init() })
    }

    /// Hands the memory to the socket, which locks it. The caller keeps it mapped as long as the socket sends from it; a
    /// kernel whose socket outlives it reads pages that it holds itself.
    fn register(socket: BorrowedFd<'_>, memory: &Mapping) -> io::Result<()> {
        let registration = libc::xdp_umem_reg {
            addr: memory.address.as_ptr().expose_provenance() as u64,
            len: memory.len as u64,
            chunk_size: FRAME_MAX as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set_option(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)
    }

    fn bind(socket: BorrowedFd<'_>, interface_index: u32, queue: u32) -> io::Result<()> {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            // Copying is asked for: drivers that could do without transmit only with an XDP program on the interface
            // (`ixgbe_xsk_wakeup`, `ice_xsk_wakeup`), and would take the queue's receiving for it as well.
            sxdp_flags: libc::XDP_USE_NEED_WAKEUP | libc::XDP_COPY,
            sxdp_ifindex: interface_index,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the kernel reads at most `len` bytes of `address` before it returns.
        let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Asks for what makes one kick enough for many frames, and returns how many may be under way with what is granted.
    fn raise_limits(socket: &Socket, frames: u32) -> usize {
        // Frames sent by one kick, by default 32 (Linux 6.17 and later; older ones have a fixed 32).
        let budget = frames.min(KICK_FRAMES);
        let _ = set_option(socket.as_fd(), libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &budget);
        // Without a driver's help every frame becomes a socket buffer of the kernel, which counts against this limit.
        let bytes = frames * SOCKET_BUFFER_BYTES;
        if set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_err() {
            let _ = set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
        }
        // Beyond it frames would stay in the ring after a kick, and nobody could tell their senders.
        let granted = SockRef::from(socket).send_buffer_size().unwrap_or(0);
        (granted / SOCKET_BUFFER_BYTES as usize).max(FRAMES_UNDER_WAY_MIN)
    }

    /// What an administrator can do about an error of this step.
    fn explain(step: &'static str) -> impl FnOnce(io::Error) -> Refusal {
        move |error| {
            let advice = match (step, error.raw_os_error()) {
                ("socket", Some(libc::EPERM | libc::EACCES)) => "needs CAP_NET_RAW",
                ("socket", Some(libc::EAFNOSUPPORT)) => {
                    "the kernel is built without AF_XDP (CONFIG_XDP_SOCKETS)"
                }
                ("memory", Some(libc::ENOBUFS | libc::ENOMEM | libc::EPERM)) => {
                    "not that much memory may be locked: fewer frames, a higher RLIMIT_MEMLOCK, or CAP_IPC_LOCK"
                }
                ("bind", Some(libc::EBUSY)) => "another AF_XDP socket has this queue",
                ("bind", Some(libc::EINVAL)) => "the interface has no such queue",
                ("bind", Some(libc::ENETDOWN)) => "the interface is down",
                ("bind", Some(libc::ENODEV)) => "the interface is gone",
                ("bind", Some(libc::EPERM)) => "needs CAP_NET_RAW in the network namespace of the interface",
                _ => return Refusal { is_busy: false, why: format!("AF_XDP {step}: {error}") },
            };
            let is_busy = step == "bind" && error.raw_os_error() == Some(libc::EBUSY);
            Refusal { is_busy, why: format!("AF_XDP {step}: {advice} ({error})") }
        }
    }

    /// `XDP_MAX_TX_SKB_BUDGET` of linux/if_xdp.h, which libc does not name yet.
    const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
    /// Frames that one kick may send: those of a call of the back end (`backend::CHUNK`).
    const KICK_FRAMES: u32 = 256;
    /// What the kernel counts for a frame that a link with an MTU of 1500 carries: 2304 bytes on 64-bit machines.
    const SOCKET_BUFFER_BYTES: u32 = 2304;
    /// However little is granted, the kernel sends this many.
    const FRAMES_UNDER_WAY_MIN: usize = 32;

    #[cfg(test)]
    mod tests;
}

#[cfg(feature = "tc-clone")]
pub(crate) mod tc {
    //! What the tc clone back end needs of the kernel beyond safe crates: a map's memory, and a packet socket's device.
    //!
    //! Here is what needs `unsafe`, and nothing else. What the memory contains is known to `backend/tc_clone/replicator.rs`
    //! and to the program that shares it. Loading and attaching the program is the `aya` crate's part.

    use std::io;
    use std::mem;
    use std::os::fd::{AsRawFd, BorrowedFd};
    use std::ptr::{self, NonNull};

    /// Memory shared with a program in the kernel: the values of a map that was made with `BPF_F_MMAPABLE` (bpf(2)).
    ///
    /// No references into it leave this type, since the kernel writes to it: all is copied in and out.
    pub(crate) struct SharedMemory {
        start: NonNull<u8>,
        len: usize,
    }

    // SAFETY: the mapping belongs to the process, not to a thread; it has one owner, and nothing else points to it.
    unsafe impl Send for SharedMemory {}

    impl SharedMemory {
        /// Maps the first `len` bytes of a map's values.
        ///
        /// # Errors
        /// `EINVAL`: the map is smaller. `EPERM`, `ENOTSUPP`: it is not made for that.
        pub(crate) fn map(map: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
            let (access, share) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
            // SAFETY: the kernel chooses a place where nothing is mapped, so no memory of the process changes.
            let start = unsafe { libc::mmap(ptr::null_mut(), len, access, share, map.as_raw_fd(), 0) };
            if start == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
            Ok(Self { start, len })
        }

        /// Copies `bytes` to `at`.
        ///
        /// # Panics
        /// If they end beyond the memory.
        pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
            let to = self.range(at, bytes.len());
            // SAFETY: `to` is writable for as many bytes; `bytes` lies elsewhere, as nothing borrows the mapping.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
        }

        /// Copies the 32-bit numbers from `at` on into `numbers`.
        ///
        /// # Panics
        /// If they end beyond the memory, or `at` is not a multiple of 4.
        pub(crate) fn read_numbers(&self, at: usize, numbers: &mut [i32]) {
            assert!(
                at.is_multiple_of(align_of::<i32>()),
                "the mapping begins with a page, so offsets are aligned"
            );
            let from = self.range(at, size_of_val(numbers)).cast::<i32>();
            for (index, number) in numbers.iter_mut().enumerate() {
                // SAFETY: `index` is below the length that `range` has checked.
                let from = unsafe { from.add(index) };
                // SAFETY: aligned, readable, and any bits are a number. Volatile: the kernel wrote it meanwhile.
                *number = unsafe { from.read_volatile() };
            }
        }

        /// A pointer to `len` bytes inside the mapping.
        fn range(&self, at: usize, len: usize) -> NonNull<u8> {
            assert!(at <= self.len && len <= self.len - at, "{len} bytes at {at} of {}", self.len);
            // SAFETY: at most one past the end of the mapping, as was just compared.
            unsafe { self.start.add(at) }
        }
    }

    impl Drop for SharedMemory {
        fn drop(&mut self) {
            // SAFETY: mapped at this place with this length by `map`, and unmapped only here.
            let result = unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
            debug_assert_eq!(result, 0, "a mapping that exists");
        }
    }

    /// Gives a packet socket (packet(7)) the device through which it sends. It receives nothing.
    ///
    /// # Errors
    /// `ENODEV`: there is no such device. `EINVAL`: not a packet socket.
    pub(crate) fn bind_packet_socket(socket: BorrowedFd<'_>, interface_index: i32) -> io::Result<()> {
        // SAFETY: all fields are numbers, for which zero is a value.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as libc::c_ushort;
        address.sll_ifindex = interface_index;
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address is readable for its length as long as the call lasts.
        let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
