//! One AF_XDP socket that only sends: its memory, its rings, and the system call that makes the
//! kernel look at them.
//!
//! Which frames are sent, and what a full ring means, is decided in `backend/af_xdp.rs`. Left out:
//! receiving. A socket that only sends needs no XDP program and takes nothing away from the kernel.
//!
//! Why not the crate `xdp` (0.8), with which this began, and which is as fast (within 1 % of a
//! datagram): its counters overflow where arithmetic is checked, after 2^32 frames, which is an
//! hour; it does not look whether the driver wants to be woken; and its packets are raw pointers,
//! so that using it is `unsafe` as well. Facts: Documentation/networking/af_xdp.rst of the kernel,
//! linux/if_xdp.h.

use socket2::{Domain, SockRef, Socket, Type};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Bytes of a frame, at most: the least that a frame's memory can be, and more than a link with the
/// usual MTU of 1500 carries.
pub(crate) const FRAME_MAX: usize = 2048;

/// A socket that sends frames through one queue of one interface.
pub(crate) struct Transmitter {
    // Dropped in this order: first what the kernel reads the others through.
    socket: Socket,
    tx: Ring<libc::xdp_desc>,
    completions: Ring<u64>,
    memory: Memory,
    /// Numbers of the free frames, the warmest last. Frame n lies at `n * FRAME_MAX`.
    free: Vec<u32>,
    frames: u32,
    /// Written entries of `tx`, which the kernel is shown by [`Transmitter::submit`]. Wraps, as the
    /// rings' counters do.
    written: u32,
    /// Read entries of `completions`.
    completed: u32,
    /// Frames that must stay free.
    reserve: usize,
}

impl Transmitter {
    /// Binds to `queue` of the interface with this index in the calling thread's network namespace,
    /// with memory for `frames` frames, a power of two from 64 to 2^20. The driver is used without
    /// copies where it can be.
    ///
    /// # Errors
    /// The reason as text for the operator: a missing privilege, interface, queue, or lockable
    /// memory.
    pub(crate) fn open(interface_index: u32, queue: u32, frames: u32) -> Result<Self, Refusal> {
        let memory = Memory::map(frames).map_err(explain("memory"))?;
        let socket = Socket::new(Domain::from(libc::AF_XDP), Type::RAW, None).map_err(explain("socket"))?;
        register(socket.as_fd(), &memory.mapping).map_err(explain("memory"))?;
        // As many slots as frames: neither ring can be full, and the kernel never waits for one.
        // The third is never filled, but the kernel binds no socket without.
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

    /// Writes the next frame: `write` gets its `len` bytes, with what an earlier frame left in
    /// them. Returns false when the limit of frames in flight is reached, or `len` exceeds
    /// [`FRAME_MAX`].
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
    /// `errno`: `EAGAIN` with frames left in the ring, `EBUSY` when the device dropped one,
    /// `ENETDOWN`, `ENXIO` without a device.
    pub(crate) fn kick(&self) -> Result<(), i32> {
        // The driver first says that it sleeps and then looks for frames; so here, the other way
        // round.
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
            // The kernel gives back what it was given; a number beyond the memory would be a defect
            // of it.
            self.free.push(u32::try_from(frame).unwrap_or(0).min(self.frames - 1));
        }
        self.completions.consumer().store(self.completed, Ordering::Release);
    }

    /// Frames that are written and not yet given back, as of the last [`Transmitter::reclaim`].
    pub(crate) fn in_flight(&self) -> usize {
        self.frames as usize - self.free.len()
    }

    /// Frames that the kernel threw away because their descriptor was wrong; always 0 unless there
    /// is a defect.
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
        // SAFETY: mapped, zeroed at first, borrowed from `self` for as long as the result, and
        // there is no other reference in this process. The kernel only reads here, and would at
        // worst send what is being written.
        unsafe { frame.cast::<[u8; FRAME_MAX]>().as_mut() }
    }
}

// SAFETY: a mapping belongs to the process, not to a thread, and this is its only owner.
unsafe impl Send for Mapping {}

/// A ring that the kernel has the other end of: two counters that wrap, and a power of two of
/// entries.
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
            [offsets.producer, offsets.consumer, offsets.flags, offsets.desc].map(|offset| offset as usize);
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
        // SAFETY: `map` has checked that the offset is one of three that end before the entries, so
        // within the mapping.
        let counter = unsafe { self.mapping.address.add(offset) };
        // SAFETY: mapped for as long as the result is borrowed, aligned as `map` has checked
        // (mappings begin with a page), and both sides use it as an atomic number only.
        unsafe { AtomicU32::from_ptr(counter.cast().as_ptr()) }
    }

    /// The entry that a counter of this value stands for.
    #[inline]
    fn entry(&self, counter: u32) -> NonNull<T> {
        let index = (counter & (self.size - 1)) as usize;
        // SAFETY: the mapping has `size` entries from this offset on, and the mask keeps the index
        // below `size`.
        unsafe { self.mapping.address.add(self.entries + index * size_of::<T>()).cast() }
    }

    #[inline]
    fn write(&mut self, counter: u32, entry: T) {
        // SAFETY: within the mapping and aligned, as `entry` and `map` say. Volatile, because the
        // kernel reads it.
        unsafe { self.entry(counter).write_volatile(entry) }
    }

    #[inline]
    fn read(&self, counter: u32) -> T {
        // SAFETY: within the mapping and aligned, as `entry` and `map` say; any bytes are a `T`.
        // Volatile, because the kernel writes it.
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
    // SAFETY: the kernel writes at most `len` bytes to `value`, and the new length to `len`, before
    // it returns.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut len) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed before, and any bytes are a `T`.
    Ok(unsafe { value.assume_init() })
}

/// Hands the memory to the socket, which locks it. The caller keeps it mapped as long as the socket
/// sends from it; a kernel whose socket outlives it reads pages that it holds itself.
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
        // Copying is asked for: drivers that could do without transmit only with an XDP program on
        // the interface (`ixgbe_xsk_wakeup`, `ice_xsk_wakeup`), and would take the queue's
        // receiving for it as well.
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

/// Asks for what makes one kick enough for many frames, and returns how many may be in flight with
/// what is granted.
fn raise_limits(socket: &Socket, frames: u32) -> usize {
    // Frames sent by one kick, by default 32 (Linux 6.17 and later; older ones have a fixed 32).
    let budget = frames.min(KICK_FRAMES);
    let _ = set_option(socket.as_fd(), libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &budget);
    // Without a driver's help every frame becomes a socket buffer of the kernel, which counts
    // against this limit.
    let bytes = frames * SOCKET_BUFFER_BYTES;
    if set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_err() {
        let _ = set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
    }
    // Beyond it frames would stay in the ring after a kick, and their senders could not be
    // informed.
    let granted = SockRef::from(socket).send_buffer_size().unwrap_or(0);
    (granted / SOCKET_BUFFER_BYTES as usize).max(FRAMES_IN_FLIGHT_MIN)
}

/// What an administrator can do about an error of this step.
fn explain(step: &'static str) -> impl FnOnce(io::Error) -> Refusal {
    move |error| {
        let advice = match (step, error.raw_os_error()) {
            ("socket", Some(libc::EPERM | libc::EACCES)) => "needs CAP_NET_RAW",
            ("socket", Some(libc::EAFNOSUPPORT)) => "the kernel is built without AF_XDP (CONFIG_XDP_SOCKETS)",
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
/// Frames that one kick may send: those of a call of the back end (`datagram::CHUNK`).
const KICK_FRAMES: u32 = 256;
/// What the kernel counts for a frame that a link with an MTU of 1500 carries: 2304 bytes on 64-bit
/// machines.
const SOCKET_BUFFER_BYTES: u32 = 2304;
/// However little is granted, the kernel sends this many.
const FRAMES_IN_FLIGHT_MIN: usize = 32;

#[cfg(test)]
mod tests;
