//! One AF_XDP socket that only sends: its memory, its rings, and the system call that makes the kernel look at them.
//!
//! The `xdp` crate maps and runs the rings; its packets are raw pointers that must not outlive their memory, which is
//! why its functions are `unsafe`. Here memory, rings and socket have one owner and no packet leaves it, so this type
//! is safe to use. Which frames are sent, and what a full ring means, is decided in `backend/af_xdp.rs`.
//! Left out: receiving. A socket that only sends needs no XDP program and takes nothing away from the kernel.
//! Facts: Documentation/networking/af_xdp.rst of the kernel.

#![expect(unsafe_code, reason = "memory shared with the kernel, and options the crates below do not know")]

use socket2::SockRef;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use xdp::nic::NicIndex;
use xdp::slab::{HeapSlab, Slab};
use xdp::socket::{OptName, SocketError, XdpSocket, XdpSocketBuilder};
use xdp::umem::{FrameSize, Umem, UmemCfgBuilder};
use xdp::{CompletionRing, RingConfigBuilder, WakableFillRing, WakableTxRing};

/// Bytes of a frame, at most: what `xdp` leaves of 2048 after the kernel's headroom for programs. Holds what a link
/// with the usual MTU of 1500 carries.
pub(crate) const FRAME_MAX: usize = 2048 - 256;

/// A socket that sends frames through one queue of one interface.
pub(crate) struct Transmitter {
    // Dropped in this order: the socket, then what it points to.
    socket: XdpSocket,
    tx: WakableTxRing,
    completions: CompletionRing,
    /// Never filled, but the kernel binds no socket without one.
    _fill: WakableFillRing,
    umem: Umem,
    /// Written frames that the kernel has not been shown. As long as the ring, so that it never grows.
    written: HeapSlab,
    /// Frames that may be under way at once.
    limit: usize,
}

impl Transmitter {
    /// Binds to `queue` of the interface with this index in the calling thread's network namespace, with memory for
    /// `frames` frames, a power of two. The driver is used without copies where it can be.
    ///
    /// # Errors
    /// The reason as text for whoever configures: a missing right, interface, queue, or memory that may be locked.
    pub(crate) fn open(interface_index: u32, queue: u32, frames: u32) -> Result<Self, String> {
        let config =
            UmemCfgBuilder { frame_size: FrameSize::TwoK, frame_count: frames, ..UmemCfgBuilder::default() };
        let config = config.build().map_err(|error| format!("frames: {error}"))?;
        let umem = Umem::map(config).map_err(|error| format!("no memory for {frames} frames: {error}"))?;
        // As many places as frames: neither ring can be full, and the kernel never waits for one.
        let rings =
            RingConfigBuilder { rx_count: 0, tx_count: frames, fill_count: 1, completion_count: frames };
        let rings = rings.build().map_err(|error| format!("rings: {error}"))?;
        let mut builder = XdpSocketBuilder::new().map_err(explain)?;
        let (rings, flags) = builder.build_wakable_rings(&umem, rings).map_err(explain)?;
        let tx = rings.tx_ring.ok_or("no transmit ring")?;
        let socket = builder.bind(NicIndex(interface_index), queue, flags).map_err(explain)?;
        let mut transmitter = Self {
            socket,
            tx,
            completions: rings.completion_ring,
            _fill: rings.fill_ring,
            umem,
            written: HeapSlab::with_capacity(frames as usize),
            limit: frames as usize,
        };
        transmitter.raise_limits(frames);
        Ok(transmitter)
    }

    /// Writes the next frame: `write` gets its `len` bytes, with what an earlier frame left in them. Returns false
    /// when as many frames are under way as may be, or `len` exceeds [`FRAME_MAX`].
    #[inline]
    pub(crate) fn push(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> bool {
        if len > FRAME_MAX || self.umem.outstanding() >= self.limit {
            return false;
        }
        // SAFETY: a packet must not outlive its memory. This one goes into `written`, from there into the ring, both
        // of which have the owner that the memory has; otherwise it is dropped here, and nothing hands it out.
        let Some(mut packet) = (unsafe { self.umem.alloc() }) else { return false };
        if packet.adjust_tail(len as i32).is_err() {
            self.umem.free_packet(packet);
            return false;
        }
        write(&mut packet);
        let refused = self.written.push_front(packet);
        debug_assert!(refused.is_none(), "as long as there are frames");
        true
    }

    /// Puts written frames into the ring, where the kernel finds them at the next [`Transmitter::kick`].
    pub(crate) fn submit(&mut self) {
        // SAFETY: the memory must outlive the socket. Both live as long as `self`, which drops the socket first.
        let sent = unsafe { self.tx.send(&mut self.written, false) };
        // The ring has a place for every frame there is, and without waking nothing can fail.
        debug_assert!(sent.is_ok() && self.written.is_empty());
    }

    /// Makes the kernel send what is in the ring. Never waits.
    ///
    /// # Errors
    /// `errno`: `EAGAIN` with frames left in the ring, `EBUSY` when the device dropped one, `ENETDOWN`, `ENXIO`
    /// without a device.
    pub(crate) fn kick(&self) -> Result<(), i32> {
        match SockRef::from(&self.as_fd()).send_with_flags(&[], libc::MSG_DONTWAIT) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.raw_os_error().unwrap_or(0)),
        }
    }

    /// Takes back the frames that the kernel has done with.
    pub(crate) fn reclaim(&mut self) {
        let all = self.umem.capacity();
        self.completions.dequeue(&mut self.umem, all);
    }

    /// Frames that are written and not yet given back, as of the last [`Transmitter::reclaim`].
    pub(crate) fn under_way(&self) -> usize {
        self.umem.outstanding()
    }

    /// Frames that the kernel threw away because their descriptor was wrong; always 0 unless there is a defect.
    pub(crate) fn invalid_descriptors(&self) -> u64 {
        self.socket.statistics().map_or(0, |statistics| statistics.tx_invalid_descs)
    }

    /// Asks for what makes one kick enough for many frames, and stays within what is granted.
    fn raise_limits(&mut self, frames: u32) {
        // Frames sent by one kick, by default 32 (Linux 6.17 and later; older ones have a fixed 32).
        let _ = set_option(self.as_fd(), libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, frames.min(KICK_FRAMES));
        // Without a driver's help every frame becomes a socket buffer of the kernel, which counts against this limit.
        let bytes = frames * SOCKET_BUFFER_BYTES;
        if set_option(self.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, bytes).is_err() {
            let _ = set_option(self.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, bytes);
        }
        // Beyond it frames would stay in the ring after a kick, and nobody could tell their senders.
        let granted = SockRef::from(&self.as_fd()).send_buffer_size().unwrap_or(0);
        let room = granted / SOCKET_BUFFER_BYTES as usize;
        self.limit = self.limit.min(room.max(FRAMES_UNDER_WAY_MIN));
    }
}

// SAFETY: what keeps it on one thread are the pointers of written packets. They point into the memory that `self` owns,
// so they move together, and nothing of it belongs to a thread.
unsafe impl Send for Transmitter {}

impl AsFd for Transmitter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket is open as long as `self`, from which the result borrows.
        unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) }
    }
}

fn set_option(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: u32) -> io::Result<()> {
    let pointer: *const libc::c_void = (&raw const value).cast();
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel reads at most `len` bytes of `value` before it returns.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, pointer, len) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What an administrator can do about it.
fn explain(error: SocketError) -> String {
    let (step, errno) = match &error {
        SocketError::SocketCreation(error) => ("socket", error),
        SocketError::SetSockOpt { inner, option: OptName::UmemRegion } => ("memory", inner),
        SocketError::SetSockOpt { inner, .. } | SocketError::GetSockOpt { inner, .. } => ("rings", inner),
        SocketError::RingMap { inner, .. } => ("rings", inner),
        SocketError::Bind(error) => ("bind", error),
    };
    let advice = match (step, errno.raw_os_error()) {
        ("socket", Some(libc::EPERM | libc::EACCES)) => "needs CAP_NET_RAW",
        ("socket", Some(libc::EAFNOSUPPORT)) => "the kernel is built without AF_XDP (CONFIG_XDP_SOCKETS)",
        ("memory", Some(libc::ENOBUFS | libc::ENOMEM)) => {
            "not that much memory may be locked: fewer frames, a higher RLIMIT_MEMLOCK, or CAP_IPC_LOCK"
        }
        ("bind", Some(libc::EBUSY)) => "another AF_XDP socket has this queue",
        ("bind", Some(libc::EINVAL)) => "the interface has no such queue",
        ("bind", Some(libc::ENETDOWN)) => "the interface is down",
        ("bind", Some(libc::ENODEV)) => "the interface is gone",
        ("bind", Some(libc::EPERM)) => "needs CAP_NET_RAW in the network namespace of the interface",
        _ => return format!("AF_XDP {step}: {errno}"),
    };
    format!("AF_XDP {step}: {advice} ({errno})")
}

/// `XDP_MAX_TX_SKB_BUDGET` of linux/if_xdp.h, which libc does not name yet.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
/// Frames that one kick may send, of those a call of the back end makes (`backend::CHUNK`).
const KICK_FRAMES: u32 = 256;
/// What the kernel counts for a frame that a link with an MTU of 1500 carries: 2304 bytes on 64-bit machines.
const SOCKET_BUFFER_BYTES: u32 = 2304;
/// However little is granted, the kernel sends this many.
const FRAMES_UNDER_WAY_MIN: usize = 32;
