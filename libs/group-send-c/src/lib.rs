//! `group-send` for C and C++: `include/sendgroup.h`, `libgroup_send_c.a` and `libgroup_send_c.so`.
//!
//! One call sends shared packets to many recipients, each with private bytes before and after, and
//! fills an error slot for each: the shape of sendgroup() (Lahav, Brecht, Karsten, Wang, Zhao;
//! NOSSDAV 2008), which was a system call and took one packet at a time. That one is `published.rs`.
//! The calls here take several, for only then can the kernel join a recipient's. The header is made
//! from both files by cbindgen and compared by `tests/group-send-c/main.rs`; reading what C passes is
//! `call.rs`, options are `options.rs`.
//!
//! A panic, which would be a bug, is answered by `-ENOTRECOVERABLE` at the boundary and never
//! unwinds into C.

#![cfg(unix)]

mod call;
mod options;
#[cfg(target_os = "linux")]
mod published;

#[cfg(target_os = "linux")]
pub use published::{GroupVec, Member, sendgroup};

use call::Scratch;
use libc::{c_char, c_int, iovec, sockaddr, socklen_t, ssize_t};
use std::ffi::{CStr, CString};
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// Most packets of one call.
pub const SENDGROUP_PACKETS_MAX: usize = 1024;

/// Most recipients of one call.
pub const SENDGROUP_RECIPIENTS_MAX: usize = 1 << 20;

/// One recipient of a group: its address, its private bytes, and the result.
///
/// Set it to zero and fill in the first members. Afterwards the last three hold the result; they
/// are also read, so that a call with the same arguments continues where the previous one stopped.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Recipient {
    /// Where to send: a sockaddr_in or a sockaddr_in6.
    pub destination: *const sockaddr,
    /// Its size in bytes.
    pub destination_len: socklen_t,
    /// Bytes before the shared payload: none if prepend_len is 0, the same before each packet if it
    /// is 1, or one for each packet.
    pub prepend: *const iovec,
    /// 0, 1, or the number of packets.
    pub prepend_len: usize,
    /// Bytes after the shared payload, in the same form.
    pub append: *const iovec,
    /// 0, 1, or the number of packets.
    pub append_len: usize,
    /// Packets handed to the network. Begin with 0.
    pub sent: u32,
    /// Packets that failed for good. Begin with 0.
    pub failed: u32,
    /// Why packets were not sent, as a number of errno.h, otherwise 0. EAGAIN for every recipient
    /// whose packets wait for room: call again when the socket is writable; with io_uring, af_xdp
    /// and tc_clone after a millisecond, since what is full there need not be the socket.
    /// Everything else is final: of the failed packets the latest.
    pub error: c_int,
}

/// What a sender may use. All zero (or NULL instead of it) is the default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Names of back ends with commas between them, the preferred one first: "gso", "sendmmsg",
    /// "sendmsg", "io_uring", "af_xdp", "tc_clone". The first that works here is used. NULL for
    /// "gso,sendmmsg,sendmsg", which works everywhere. "auto" for what costs least of all that this
    /// build, the process's rights and the device allow: "tc_clone,af_xdp,gso,sendmmsg,sendmsg".
    pub backends: *const c_char,
    /// For "af_xdp" and "tc_clone", the interface to send through: "eth0". With "auto" it may be NULL
    /// for the one that the socket is bound to, or the only Ethernet interface that is up. Otherwise
    /// NULL.
    pub network_interface: *const c_char,
    /// For "af_xdp", the interface's transmit queue, from 0.
    pub queue: u32,
}

/// A socket opened for sending to groups. It remembers what the device has refused.
///
/// One thread at a time may use it.
pub struct Sender {
    sender: group_send::Sender,
    /// Name and reason of each back end that was preferred and is not used.
    not_chosen: Vec<(&'static CStr, CString)>,
    scratch: Scratch,
}

/// Opens a UDP socket for sending to groups and stores the sender in `*opened`. Free it with
/// `sendgroup_close`.
///
/// The sender has a descriptor of its own for the socket: the caller's may be used as before, and
/// closed. `options` may be NULL. Returns 0, or a negative errno value, and then `*opened` is NULL:
/// -EFAULT if `opened` is NULL, -EBADF if `fd` is no descriptor, -EINVAL if it is no UDP socket, a
/// name of a back end is unknown or a string is not UTF-8, -EOPNOTSUPP if none of the back ends
/// works here. `why` may be NULL; otherwise up to `why_size` bytes of it become a text that
/// explains the error, "" if there is none, which ends with a zero.
///
/// # Safety
/// `options` is NULL or points to options whose strings are NULL or end with a zero, `opened` is
/// NULL or may be written to, `why` is NULL or `why_size` bytes there may be written to. `fd` stays
/// open during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendgroup_open(
    fd: c_int,
    options: *const Options,
    opened: *mut *mut Sender,
    why: *mut c_char,
    why_size: usize,
) -> c_int {
    // SAFETY: `opened` is as the contract says.
    let Some(opened) = (unsafe { opened.as_mut() }) else { return -libc::EFAULT };
    *opened = ptr::null_mut();
    // SAFETY: the same contract as this function's.
    let result = guard(|| unsafe { open(fd, options) });
    let (code, text) = match result {
        Ok(sender) => {
            *opened = Box::into_raw(Box::new(sender));
            (0, String::new())
        }
        Err(failure) => (-failure.errno, failure.why),
    };
    // SAFETY: `why` is as the contract says.
    unsafe { options::write_text(why, why_size, &text) };
    code
}

/// Sends each of `packets_len` packets to each of `recipients_len` recipients, with its private
/// bytes around it. A recipient's failure does not affect the others. It never waits.
///
/// Pass the packets of a whole video frame together: those of equal length for one recipient then
/// cost little more than one. Returns the number of recipients fully served, by this call and those
/// before it: all packets sent. If there are fewer than `recipients_len`, look at `sent`, `failed`
/// and `error` of each. Or a negative errno value, and then nothing was sent and no recipient has
/// changed: -EFAULT if a pointer that is needed is NULL or not aligned, -EINVAL if there are more
/// packets or recipients than the limits say, -EMSGSIZE if a packet is longer than 65,535 bytes,
/// -ENOTRECOVERABLE after a bug in the library; close the sender then.
///
/// A recipient whose own pointers, lengths or counts are wrong fails alone, with EFAULT, EINVAL,
/// EMSGSIZE or EAFNOSUPPORT.
///
/// # Safety
/// `sender` is NULL or a sender that is used nowhere else meanwhile. `packets` and `recipients`
/// point to the stated number of elements, and what those point to may be read; none of it changes
/// during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendgroup_send(
    sender: *mut Sender,
    packets: *const iovec,
    packets_len: usize,
    recipients: *mut Recipient,
    recipients_len: usize,
) -> ssize_t {
    // SAFETY: `sender` is as the contract says.
    let Some(Sender { sender, scratch, .. }) = (unsafe { sender.as_mut() }) else {
        return refusal(libc::EFAULT);
    };
    let sent = guard(|| {
        // SAFETY: the same contract as this function's.
        let (packets, recipients) =
            unsafe { call::arguments(packets, packets_len, recipients, recipients_len) }?;
        // SAFETY: what the recipients point to is as the contract says.
        Ok(unsafe { scratch.send(sender, &packets, recipients) })
    });
    match sent {
        Ok(served) => served as ssize_t,
        Err(failure) => refusal(failure.errno),
    }
}

/// As `sendgroup_send`, through a sender that is opened for this call only: for groups now and
/// then. Opening costs some system calls, and what a device refuses is found out each time.
///
/// Returns also what `sendgroup_open` returns when it fails.
///
/// # Safety
/// As `sendgroup_send`. `fd` stays open during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendgroup_once(
    fd: c_int,
    packets: *const iovec,
    packets_len: usize,
    recipients: *mut Recipient,
    recipients_len: usize,
) -> ssize_t {
    // SAFETY: NULL is allowed for the options.
    match guard(|| unsafe { open(fd, ptr::null()) }) {
        // SAFETY: the same contract as this function's, and the sender is used here only.
        Ok(mut sender) => unsafe {
            sendgroup_send(&raw mut sender, packets, packets_len, recipients, recipients_len)
        },
        Err(failure) => refusal(failure.errno),
    }
}

/// Name of the back end in use; NULL if `sender` is NULL. The string is never freed.
///
/// # Safety
/// `sender` is NULL or a sender.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendgroup_backend(sender: *const Sender) -> *const c_char {
    // SAFETY: `sender` is as the contract says.
    let sender = unsafe { sender.as_ref() };
    sender.map_or(ptr::null(), |sender| options::c_name(sender.sender.backend()).as_ptr())
}

/// Name of the `index`-th back end, from 0, that was preferred to the one in use; NULL if there are
/// not as many. `*why` becomes the reason why it is not used, NULL if there is none; it belongs to
/// the sender. `why` may be NULL.
///
/// # Safety
/// `sender` is NULL or a sender; `why` is NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendgroup_not_chosen(
    sender: *const Sender,
    index: usize,
    why: *mut *const c_char,
) -> *const c_char {
    // SAFETY: `sender` is as the contract says.
    let entry = unsafe { sender.as_ref() }.and_then(|sender| sender.not_chosen.get(index));
    let (name, reason) =
        entry.map_or((ptr::null(), ptr::null()), |(name, reason)| (name.as_ptr(), reason.as_ptr()));
    if !why.is_null() {
        // SAFETY: it is not NULL, so it may be written to.
        unsafe { why.write(reason) };
    }
    name
}

/// Frees a sender. The caller's socket stays open. NULL is allowed and does nothing.
///
/// # Safety
/// `sender` is NULL or a sender that has not been closed, and is not used by anything else during
/// the call or afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendgroup_close(sender: *mut Sender) {
    if !sender.is_null() {
        // SAFETY: by the contract it comes from `Box::into_raw` in `sendgroup_open`, and only once.
        let sender = unsafe { Box::from_raw(sender) };
        let _ = guard(move || {
            drop(sender);
            Ok(())
        });
    }
}

/// Why a call as a whole was refused.
struct Failure {
    errno: c_int,
    why: String,
}

impl From<c_int> for Failure {
    fn from(errno: c_int) -> Self {
        Self { errno, why: std::io::Error::from_raw_os_error(errno).to_string() }
    }
}

/// # Safety
/// `options` is NULL or points to options whose strings are NULL or end with a zero. `fd` stays
/// open during the call.
unsafe fn open(fd: c_int, options: *const Options) -> Result<Sender, Failure> {
    // SAFETY: the same contract as this function's.
    let config = unsafe { options::config(options.as_ref()) }?;
    // SAFETY: this call has no memory to do with, and is for asking whether a number is a
    // descriptor.
    if fd < 0 || unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(libc::EBADF.into());
    }
    // SAFETY: it is open, as has just been asked, and stays so by the contract.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let sender = group_send::Sender::new(&socket, &config).map_err(options::failure)?;
    let not_chosen = sender.not_chosen().iter();
    let not_chosen =
        not_chosen.map(|not| (options::c_name(not.backend), options::c_text(&not.why))).collect();
    Ok(Sender { sender, not_chosen, scratch: Scratch::default() })
}

/// Runs `work`, and turns a panic into an error.
fn guard<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    // After a panic the return value asks the caller to close the sender, and until then it is
    // memory-safe like any Rust value.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(libc::ENOTRECOVERABLE.into()))
}

fn refusal(errno: c_int) -> ssize_t {
    -(errno as ssize_t)
}
