//! Control messages: what the kernel is told about a datagram beside its bytes, and what it tells.
//!
//! A row of `struct cmsghdr` and data (`cmsg(3)`), written and read as plain bytes: lengths are checked instead of
//! pointers trusted, so neither side needs `unsafe`. Whose messages they are and what follows from them is for
//! `linux.rs`, `recv.rs` and `socket.rs`.
//!
//! ```text
//! | length: usize | level: i32 | type: i32 | data, `length - HEADER` bytes | padding to a multiple of usize |
//! ```

/// Bytes before the data of a control message.
const HEADER: usize = size_of::<usize>() + 8;

/// Bytes that a control message with `data` bytes takes, with its padding: `CMSG_SPACE`.
const fn space(data: usize) -> usize {
    (HEADER + data).next_multiple_of(size_of::<usize>())
}

/// Control messages of one datagram to send: at most one of each kind that can be pushed. Belongs in `msg_control`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct ControlBuffer {
    bytes: [u8; Self::CAPACITY],
    len: usize,
}

impl ControlBuffer {
    const CAPACITY: usize = space(size_of::<u16>()) + space(size_of::<u64>());

    pub(crate) const fn new() -> Self {
        Self { bytes: [0; Self::CAPACITY], len: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// The kernel or the device shall cut the payload into datagrams of so many bytes, the last of which may be
    /// shorter (`UDP_SEGMENT`, `udp(7)`).
    #[inline]
    pub(crate) fn push_segment_size(&mut self, bytes: u16) {
        self.push(libc::SOL_UDP, libc::UDP_SEGMENT, bytes.to_ne_bytes());
    }

    /// The datagram shall leave at this time of the clock that the socket was given, in nanoseconds (`SCM_TXTIME`,
    /// `socket(7)` under `SO_TXTIME`).
    #[inline]
    pub(crate) fn push_departure(&mut self, nanoseconds: u64) {
        self.push(libc::SOL_SOCKET, libc::SCM_TXTIME, nanoseconds.to_ne_bytes());
    }

    /// For `msg_control`, with [`ControlBuffer::len`] for `msg_controllen`; aligned as `struct cmsghdr` is. The kernel
    /// only reads it.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    #[inline]
    fn push<const N: usize>(&mut self, level: i32, kind: i32, data: [u8; N]) {
        let room = &mut self.bytes[self.len..self.len + space(N)];
        let (length, rest) = room.split_at_mut(size_of::<usize>());
        length.copy_from_slice(&(HEADER + N).to_ne_bytes());
        rest[..4].copy_from_slice(&level.to_ne_bytes());
        rest[4..8].copy_from_slice(&kind.to_ne_bytes());
        rest[8..8 + N].copy_from_slice(&data);
        self.len += space(N);
    }
}
