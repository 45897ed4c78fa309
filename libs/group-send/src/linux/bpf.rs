//! `bpf(2)` for programs that pick a socket: a table, a program that looks into it, and the option
//! that gives it to sockets.
//!
//! What the program does is known to `steering.rs`; the kernel checks it before it takes it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

// Of `linux/bpf.h`.
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const MAP_DELETE_ELEM: libc::c_int = 3;
const PROG_LOAD: libc::c_int = 5;
const MAP_TYPE_HASH: u32 = 1;
const PROG_TYPE_SOCKET_FILTER: u32 = 1;
/// Entries are allocated as they come.
const NO_PREALLOC: u32 = 1;

#[derive(Default)]
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
}

#[derive(Default)]
#[repr(C)]
struct MapElement {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[derive(Default)]
#[repr(C)]
struct ProgramLoad {
    program_type: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
}

/// A hash table of the kernel, from keys of `N` numbers to a number.
#[derive(Debug)]
pub(crate) struct Map<const N: usize>(OwnedFd);

impl<const N: usize> Map<N> {
    /// # Errors
    /// `EPERM`: the process may not use `bpf(2)`. `ENOSYS`: the kernel has none.
    pub(crate) fn new(entries_max: u32) -> io::Result<Self> {
        let key_bytes = size_of::<[u32; N]>() as u32;
        let attributes =
            MapCreate { map_type: MAP_TYPE_HASH, key_bytes, value_bytes: 4, entries_max, flags: NO_PREALLOC };
        // SAFETY: these are the attributes of this command, and they point nowhere.
        let map = unsafe { bpf(MAP_CREATE, &attributes) }?;
        // SAFETY: a new descriptor, which nothing else has.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(map) }))
    }

    /// Puts `value` at `key`, whatever was there.
    ///
    /// # Errors
    /// `E2BIG`: it is full.
    pub(crate) fn insert(&self, key: &[u32; N], value: u32) -> io::Result<()> {
        let (key, value) = (&raw const *key as u64, &raw const value as u64);
        let attributes = MapElement { map: self.0.as_raw_fd() as u32, key, value, ..MapElement::default() };
        // SAFETY: the attributes of this command; the kernel reads a key and a value, of the sizes
        // that `new` has given it, during the call.
        unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(|_| ())
    }

    /// Takes out what is at `key`.
    ///
    /// # Errors
    /// `ENOENT`: nothing is.
    pub(crate) fn remove(&self, key: &[u32; N]) -> io::Result<()> {
        let key = &raw const *key as u64;
        let attributes = MapElement { map: self.0.as_raw_fd() as u32, key, ..MapElement::default() };
        // SAFETY: the attributes of this command; the kernel reads a key during the call.
        unsafe { bpf(MAP_DELETE_ELEM, &attributes) }.map(|_| ())
    }

    /// What instructions name it by.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Loads a program that sees datagrams, of instructions as `bpf(2)` has them.
///
/// # Errors
/// `EPERM`: the process may not. `EINVAL`, `EACCES`: the kernel does not trust it.
pub(crate) fn load_socket_filter(code: &[u64]) -> io::Result<OwnedFd> {
    let attributes = ProgramLoad {
        program_type: PROG_TYPE_SOCKET_FILTER,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: c"MIT OR Apache-2.0".as_ptr() as u64,
        ..ProgramLoad::default()
    };
    // SAFETY: the attributes of this command; the kernel reads code and license during the call.
    let program = unsafe { bpf(PROG_LOAD, &attributes) }?;
    // SAFETY: a new descriptor, which nothing else has.
    Ok(unsafe { OwnedFd::from_raw_fd(program) })
}

/// Has the program pick which of the sockets that share the address of `socket` gets a datagram.
///
/// # Errors
/// `EINVAL`: it shares its address with nobody.
pub(crate) fn attach_reuseport(socket: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_EBPF);
    super::recv::set_option(socket, level, name, program.as_raw_fd())
}

/// # Safety
/// `attributes` are those of the command, and point to what it reads and writes.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: the kernel reads as many bytes as they have, and takes the fields behind them for zero.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}
