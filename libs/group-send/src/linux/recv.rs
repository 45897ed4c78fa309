//! The system calls of the receiving side: `recvmmsg(2)` into one slab, the error queue, and socket
//! options.
//!
//! Each type or function is safe for every caller and holds no policy: what is asked for, in what
//! sizes, and what follows from the answers is in `recv.rs` and `socket.rs`.

use crate::cmsg;
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Messages that one `recvmmsg` fills: a slab with a part for the payload of each, and room for
/// addresses and control messages.
pub(crate) struct Inbox {
    slab: Vec<u8>,
    /// From the beginning of one payload to that of the next.
    stride: usize,
    payload_max: usize,
    envelopes: Vec<Envelope>,
    calls: Calls,
}

/// The arguments of `recvmmsg`. The pointers are rewritten before each call, and nothing follows
/// them after it.
struct Calls {
    headers: Vec<libc::mmsghdr>,
    iovecs: Vec<libc::iovec>,
}

// SAFETY: between calls the pointers are never used, so it does not matter which thread has them.
unsafe impl Send for Calls {}

/// What is received with a payload.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Envelope {
    /// A `sockaddr_in6` is the longest of UDP, with 28 bytes.
    address: [u8; 32],
    /// Those of `recv.rs` take up to 152 bytes; the rest is for options that the owner of the
    /// socket set.
    control: [u8; 256],
}

/// A message as the kernel would have it.
#[cfg(feature = "internals")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingMessage {
    /// The sender.
    pub source: SocketAddr,
    /// A datagram, or several one behind the other.
    pub bytes: Vec<u8>,
    /// Their length, if they are several; the last may be shorter.
    pub segment_bytes: Option<u16>,
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
    /// For `messages` of up to `payload_max` bytes, `stride` bytes apart. Memory is zeroed by being
    /// fresh, so that the kernel provides a page when something is first received into it.
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

    /// Receives up to `messages` messages; waits for one if `wait` is set and the socket is
    /// blocking. Returns how many.
    pub(crate) fn receive(&mut self, socket: &SockRef<'_>, wait: bool, messages: usize) -> io::Result<usize> {
        let messages = messages.min(self.messages_max());
        self.point(messages);
        let flags = libc::MSG_TRUNC | if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        let Calls { headers, .. } = &mut self.calls;
        // SAFETY: there are at least so many headers, and `point` made each point to parts of
        // `self` of the lengths it names, no two of which overlap. `self` is borrowed mutably until
        // the call returns.
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

    /// Writes a message as the kernel does, for the next [`Inbox::head`] of this number.
    #[cfg(feature = "internals")]
    pub(crate) fn put(&mut self, index: usize, message: &IncomingMessage) {
        let IncomingMessage { source, bytes, segment_bytes } = message;
        assert!(bytes.len() <= usize::from(u16::MAX), "a message has up to 65,535 bytes");
        let written = bytes.len().min(self.payload_max);
        let start = index * self.stride;
        self.slab[start..start + written].copy_from_slice(&bytes[..written]);
        let envelope = &mut self.envelopes[index];
        let address_bytes = cmsg::write_address(source, &mut envelope.address);
        let control = segment_bytes.map(cmsg::segment_size);
        let control = control.as_ref().map_or(&[][..], |control| control);
        envelope.control[..control.len()].copy_from_slice(control);
        let call = &mut self.calls.headers[index];
        call.msg_hdr.msg_namelen = address_bytes as _;
        call.msg_hdr.msg_controllen = control.len() as _;
        call.msg_hdr.msg_flags = 0;
        call.msg_len = bytes.len() as _;
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

/// Takes one entry off the socket's error queue (`recvmsg(2)` with `MSG_ERRQUEUE`): where the
/// datagram went that failed, and control messages, one of which says why. `None` if the queue is
/// empty.
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
    // SAFETY: the header points to two arrays of the lengths it names, which outlive the call, and
    // to no payload.
    let result =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
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

/// Everything that arrives for the sockets that share this one's address (`SO_REUSEPORT`) is given
/// to the first of them (`SO_ATTACH_REUSEPORT_CBPF`, `socket(7)`).
///
/// # Errors
/// `errno`: `EINVAL` for a socket that shares nothing.
pub(crate) fn deliver_to_first(socket: BorrowedFd<'_>) -> io::Result<()> {
    // "Return 0", the number of a socket in the order in which they were bound.
    let mut program = [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 }];
    let value = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF);
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel copies `value`, and the one instruction that it points to, before it
    // returns.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Private, because there are options whose value contains pointers.
fn set_option_bytes(socket: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as `value` has, and both callers pass values without
    // pointers: one of four bytes, too short for any structure with a pointer, and one for an
    // option known to have none.
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
