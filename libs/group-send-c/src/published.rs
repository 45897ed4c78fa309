//! The call as it was published in 2008, for programs that were written for a system call: one
//! descriptor, flags, an error for each member, and `errno`.
//!
//! The socket stays the caller's. Its number is asked for with each call, and a few senders are kept
//! for each thread by that number, not by descriptor: a descriptor that was closed and used again
//! for another socket gets another sender, and no port stays in use on account of this cache.
//! Threads have caches of their own, so that no lock is held when a process forks.

use crate::call::{self, Scratch};
use crate::{Failure, SENDGROUP_PACKETS_MAX, SENDGROUP_RECIPIENTS_MAX, guard, options};
use group_send::{LentSender, SendFlags, Slot};
use libc::{c_int, iovec, sockaddr, socklen_t};
use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::slice;

/// A member of a group: its address, and the bytes that only it gets.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Where to send: a sockaddr_in or a sockaddr_in6.
    pub name: *const sockaddr,
    /// Its size in bytes.
    pub namelen: socklen_t,
    /// Bytes before the shared payload; none if iov_len is 0.
    pub prepend: iovec,
    /// Bytes after the shared payload; none if iov_len is 0.
    pub append: iovec,
}

/// What goes to a group: the bytes that all get, and the members.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GroupVec {
    /// The shared payload: one datagram, gathered from these pieces as sendmsg() does.
    pub payload: *const iovec,
    /// Number of pieces, at most 1024.
    pub payload_len: usize,
    /// The members of the group.
    pub members: *const Member,
}

/// Sends one datagram to each of `count` members: its own bytes before, the shared payload, its own
/// bytes after. The call of 2008 (Lahav, Brecht, Karsten, Wang, Zhao, NOSSDAV). Linux.
///
/// `flags`: MSG_DONTWAIT does not wait for room in the socket's buffer; without it the call waits as
/// sendmsg() does, unless the socket is non-blocking (O_NONBLOCK), at most for SO_SNDTIMEO, and
/// goes on after signals. MSG_CONFIRM tells the kernel that the members have answered lately.
/// MSG_NOSIGNAL changes nothing.
///
/// `errors` is NULL or has room for `count` numbers of errno.h: 0 for a member whose datagram was
/// handed to the network, EAGAIN where there was no room for it, ECONNREFUSED, ENETUNREACH and
/// others as sendmsg() has them; EFAULT, EINVAL, EMSGSIZE, EAFNOSUPPORT for members that are wrong
/// in themselves. A member's error does not affect the others. Members may be others with each call.
///
/// Returns the number of members without an error. Or -1 with `errno`, when the call as a whole is
/// refused; then nothing was sent and `errors` is as it was: EBADF, ENOTSOCK, EINVAL if it is no UDP
/// socket, or for a count below 0 or above 2^20 or more than 1024 pieces, EFAULT if a pointer that is
/// needed is NULL or not aligned, EMSGSIZE for a payload above 65,535 bytes, EOPNOTSUPP for other
/// flags, ENOTRECOVERABLE after a bug in the library.
///
/// # Safety
/// `vec` is NULL or may be read, and so may what it points to; `errors` is NULL or may be written
/// to. Nothing of it changes during the call. No other thread closes `sd` meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendgroup(
    sd: c_int,
    vec: *const GroupVec,
    count: c_int,
    flags: c_int,
    errors: *mut c_int,
) -> c_int {
    // SAFETY: the same contract as this function's.
    match guard(|| unsafe { send(sd, vec, count, flags, errors) }) {
        Ok(sent) => sent,
        Err(failure) => {
            // SAFETY: it is the calling thread's own `errno`.
            unsafe { *libc::__errno_location() = failure.errno };
            -1
        }
    }
}

/// # Safety
/// That of [`sendgroup`].
unsafe fn send(
    sd: c_int,
    vec: *const GroupVec,
    count: c_int,
    flags: c_int,
    errors: *mut c_int,
) -> Result<c_int, Failure> {
    if flags & !(libc::MSG_DONTWAIT | libc::MSG_CONFIRM | libc::MSG_NOSIGNAL) != 0 {
        return Err(libc::EOPNOTSUPP.into());
    }
    let count = usize::try_from(count).ok().filter(|&count| count <= SENDGROUP_RECIPIENTS_MAX);
    let count = count.ok_or(libc::EINVAL)?;
    if sd < 0 {
        return Err(libc::EBADF.into());
    }
    // SAFETY: it is open by the contract. Were it not, the first thing it is used for is to ask the
    // kernel for the socket's number, which answers EBADF.
    let socket = unsafe { BorrowedFd::borrow_raw(sd) };
    if vec.is_null() || !vec.is_aligned() || !errors.is_aligned() {
        return Err(libc::EFAULT.into());
    }
    // SAFETY: it is not NULL and aligned, and may be read by the contract.
    let GroupVec { payload, payload_len, members } = unsafe { *vec };
    if payload_len > SENDGROUP_PACKETS_MAX {
        return Err(libc::EINVAL.into());
    }
    let mut pieces = Vec::with_capacity(payload_len);
    // SAFETY: pointer and length are as the contract says, and the length was checked.
    unsafe { call::gather(payload, payload_len, &mut pieces) }?;
    if pieces.iter().map(|piece| piece.len()).sum::<usize>() > call::LEN_MAX {
        return Err(libc::EMSGSIZE.into());
    }
    if count > 0 && (members.is_null() || !members.is_aligned()) {
        return Err(libc::EFAULT.into());
    }
    let members: &[Member] = match count {
        0 => &[],
        // SAFETY: not NULL, aligned, of the stated length, which was checked, and not written to
        // during the call.
        _ => unsafe { slice::from_raw_parts(members, count) },
    };
    let errors: &mut [c_int] = match errors.is_null() || count == 0 {
        true => &mut [],
        // SAFETY: not NULL, aligned, of the stated length, and used by nothing else meanwhile. What
        // it holds is overwritten before it is read, and any number is an `int`.
        false => unsafe { slice::from_raw_parts_mut(errors, count) },
    };
    let gathered: Vec<u8>;
    let payload = match &pieces[..] {
        [] => &[],
        [one] => *one,
        several => {
            gathered = several.concat();
            &gathered[..]
        }
    };
    let call = Call { socket, flags, payload };
    with_sender(socket, |known| {
        // SAFETY: what members point to is as the contract says.
        unsafe { known.send(&call, members, errors) }
    })
}

/// What is the same for all members.
struct Call<'a> {
    socket: BorrowedFd<'a>,
    flags: c_int,
    payload: &'a [u8],
}

/// A sender, and buffers that hold nothing of the caller between calls.
struct Known {
    sender: LentSender,
    scratch: Scratch,
}

impl Known {
    /// # Safety
    /// What the members point to may be read and is not changed meanwhile.
    unsafe fn send(&mut self, call: &Call<'_>, members: &[Member], errors: &mut [c_int]) -> c_int {
        let flags = SendFlags { confirm: call.flags & libc::MSG_CONFIRM != 0 };
        let Self { sender, scratch } = self;
        let send = |recipients: &[group_send::Recipient<'_>], slots: &mut [Slot]| {
            let packets = [call.payload];
            while sender.send_group(&call.socket, flags, &packets, recipients, slots).blocked {
                if call.flags & libc::MSG_DONTWAIT != 0 || !wait_for_room(call.socket) {
                    break;
                }
            }
        };
        // SAFETY: the same contract as this function's.
        let slots = unsafe { scratch.send_members(members, send) };
        for (error, slot) in errors.iter_mut().zip(slots) {
            *error = slot.error.map_or(0, call::errno);
        }
        slots.iter().filter(|slot| slot.sent == 1 && slot.error.is_none()).count() as c_int
    }
}

/// Senders that a thread keeps. A server has few sockets to send by.
const KEPT: usize = 8;

thread_local! {
    /// The latest used last.
    static SENDERS: RefCell<Vec<Known>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work` with the sender of a socket: one that was kept, or a new one.
fn with_sender<T>(socket: BorrowedFd<'_>, work: impl FnOnce(&mut Known) -> T) -> Result<T, Failure> {
    // EBADF and ENOTSOCK come from here.
    let cookie = LentSender::cookie_of(&socket).map_err(options::socket_failure)?;
    let kept = SENDERS.with(|senders| {
        let mut senders = senders.try_borrow_mut().ok()?;
        let place = senders.iter().rposition(|known| known.sender.cookie() == cookie)?;
        Some(senders.remove(place))
    });
    let mut known = match kept {
        Some(known) => known,
        None => {
            let sender = LentSender::new(&socket).map_err(options::failure)?;
            Known { sender, scratch: Scratch::default() }
        }
    };
    // It is in nobody's hands meanwhile: a panic loses it, and a signal handler that calls in makes
    // one of its own.
    let result = work(&mut known);
    SENDERS.with(|senders| {
        if let Ok(mut senders) = senders.try_borrow_mut() {
            if senders.len() >= KEPT {
                senders.remove(0);
            }
            senders.push(known);
        }
    });
    Ok(result)
}

/// Waits until the socket has room, if it is a blocking one. Returns whether to try again.
fn wait_for_room(socket: BorrowedFd<'_>) -> bool {
    use std::os::fd::AsRawFd;
    let fd = socket.as_raw_fd();
    // SAFETY: this call has no memory to do with.
    let status = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if status < 0 || status & libc::O_NONBLOCK != 0 {
        return false;
    }
    let timeout = socket2::SockRef::from(&socket).write_timeout().ok().flatten();
    let timeout = timeout.map_or(-1, |time| c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX));
    let mut polled = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    loop {
        // SAFETY: one element, which lives until the call returns.
        match unsafe { libc::poll(&raw mut polled, 1, timeout) } {
            0 => return false,
            ready if ready > 0 => return polled.revents & libc::POLLNVAL == 0,
            // After a signal the whole time again: signals that come all the time do not end it.
            _ if std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            _ => return false,
        }
    }
}
