//! The kernel's side of the `io_uring` back end: one call that sends a batch through registered
//! sockets.
//!
//! Safe for every caller because no borrow outlives the call: [`Ring::send`] returns when the
//! kernel has completed every message or has never seen it. `backend/io_uring.rs` decides which
//! sockets exist, what is sent, and what follows from an error.

use crate::datagram::Datagram;
use io_uring::squeue::Entry;
use io_uring::types::Fixed;
use io_uring::{IoUring, opcode};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Messages of one call, at most.
///
/// Measured with 1000 bytes to 1000 recipients: 32 took 1000 ns a datagram, 64 took 1070 and 256
/// took 1180, because the copies and what the kernel touches then leave the caches. What the call
/// itself costs is 3 ns a message at 32.
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
/// `IORING_SETUP_SINGLE_ISSUER` and `DEFER_TASKRUN` are left out: they bind a ring to one thread,
/// and these sends, which complete while they are submitted, were no faster with them (874 and 879
/// ns).
pub(crate) struct Ring {
    /// None after an error that leaves messages in the queue which must never be submitted.
    ring: Option<IoUring>,
    /// Room for one copied datagram a message.
    copies: Box<[[u8; COPIED_MAX]; RING_MESSAGES_MAX]>,
}

impl Ring {
    /// A ring with `sockets` empty slots for sockets.
    ///
    /// # Errors
    /// `ENOSYS`: a kernel without it; `EPERM`: forbidden; `EINVAL`: Linux before 5.19; `EMFILE`:
    /// more slots than descriptors allowed.
    pub(crate) fn open(sockets: u32) -> io::Result<Self> {
        let ring =
            IoUring::builder().setup_coop_taskrun().setup_submit_all().build(RING_MESSAGES_MAX as u32)?;
        ring.submitter().register_files_sparse(sockets)?;
        Ok(Self { ring: Some(ring), copies: Box::new([[0; COPIED_MAX]; RING_MESSAGES_MAX]) })
    }

    /// Puts a socket into a slot, or clears the slot. The table keeps the socket open even after
    /// its descriptor is closed.
    ///
    /// # Errors
    /// There is no such slot, the kernel has no memory, or the ring is closed (`EBADF`).
    pub(crate) fn set_socket(&self, slot: u32, socket: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let ring = self.ring.as_ref().ok_or_else(closed)?;
        let fd = socket.map_or(-1, |socket| socket.as_raw_fd());
        ring.submitter().register_files_update(slot, &[fd]).map(drop)
    }

    /// Whether it still works. It does not after an error of the ring itself, as opposed to one of
    /// a message.
    pub(crate) fn is_open(&self) -> bool {
        self.ring.is_some()
    }

    /// Sends the messages without waiting for room in a socket, and writes the result of each: a
    /// number of bytes, or a negative `errno`. `-ECANCELED`: the kernel has not tried it. In what
    /// order they are sent is the kernel's choice.
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
            // SAFETY: what the entry points to is borrowed or owned by this call until it returns,
            // and it returns when every entry is completed, or when those that are not can never be
            // submitted. Nothing here panics.
            let pushed = unsafe { queue.push(&entry.user_data(number)) };
            // All of them are: the queue is empty before each call, and has an entry for each
            // message.
            queued += usize::from(pushed.is_ok());
        }
        drop(queue);
        if submit_and_wait(ring, queued, results).is_err() {
            self.ring = None;
        }
    }
}

/// A datagram in one piece, copied together if it has several; none if that would be too long. A
/// copy of 1000 bytes costs 16 ns, having the kernel read a message header and a list of pieces 45
/// ns.
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
/// The kernel does not take entries any more. Those without a result it has not seen, and the ring
/// must be dropped, because they still are in its queue.
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
            // The kernel has the borrowed buffers and will not report when it is done with them:
            // continuing is impossible. No documented error of a ring that has accepted entries
            // leads here.
            _ => std::process::abort(),
        }
    }
    Ok(())
}

fn closed() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}

const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// Bytes of a datagram that is copied together from several pieces, at most.
pub(crate) const COPIED_MAX: usize = 2048;
