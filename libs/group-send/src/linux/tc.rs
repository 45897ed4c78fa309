//! What the tc clone back end needs of the kernel beyond safe crates: a map's memory, and a packet
//! socket's device.
//!
//! Here is what needs `unsafe`, and nothing else. What the memory contains is known to
//! `backend/tc_clone/replicator.rs` and to the program that shares it. Loading and attaching the
//! program is the `aya` crate's part.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

/// Memory shared with a program in the kernel: the values of a map that was made with
/// `BPF_F_MMAPABLE` (bpf(2)).
///
/// No references into it leave this type, since the kernel writes to it: all is copied in and out.
pub(crate) struct SharedMemory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; it has one owner, and nothing else
// points to it.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// Maps the first `len` bytes of a map's values.
    ///
    /// # Errors
    /// `EINVAL`: the map is smaller. `EPERM`, `ENOTSUPP`: it is not made for that.
    pub(crate) fn map(map: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        let (access, share) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: the kernel chooses a place where nothing is mapped, so no memory of the process
        // changes.
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
        // SAFETY: `to` is writable for as many bytes; `bytes` lies elsewhere, as nothing borrows
        // the mapping.
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
            // SAFETY: aligned, readable, and any bits are a number. Volatile: the kernel wrote it
            // meanwhile.
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
