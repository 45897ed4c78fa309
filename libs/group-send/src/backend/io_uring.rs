//! `io_uring` on connected, registered sockets: datagrams for many recipients enter the kernel in one call, and none of
//! them needs a look-up of route or descriptor.
//!
//! **For one datagram a recipient.** The ring never has two datagrams of one recipient, since the order in which it
//! completes them is the kernel's choice. Where a recipient has several in a chunk, they go as runs (segmentation offload)
//! by a plain call: through the caller's socket, or through the recipient's own if it has one in use, for the sake of their
//! order (`places.rs`).
//!
//! **Sockets.** A recipient gets a socket of its own, connected to it and registered with the ring, that sends with the
//! caller's address and port. Answers still come to the caller's socket (`template.rs` says how that is). The sockets are
//! opened a few at a time while datagrams go out by the caller's, and kept in a bounded table.
//!
//! **Room.** A recipient whose own socket is full is blocked, and nobody else is. Whoever waits for the caller's socket to
//! be writable finds that it is; as long as the recipient's socket is full it alone holds as much as all together may
//! without this back end. Errors that come back for earlier datagrams come to the caller's socket, which is asked for
//! them now and then.

mod places;
mod template;

use crate::backend::mmsg::{self, Mmsg};
use crate::backend::segmentation::same_destination;
use crate::backend::{Backend, CHUNK, Datagram, Outcome};
use crate::config::{BackendKind, IoUringConfig, SetupError};
use crate::error::SendError;
use crate::linux::uring::{COPIED_MAX, RING_MESSAGES_MAX, Ring, RingMessage};
use arrayvec::ArrayVec;
use places::{Places, Way, Wish};
use socket2::SockRef;
use std::io;
use std::slice;

/// Datagrams through a ring where that is faster, and through the caller's socket otherwise.
pub(crate) struct IoUring {
    ring: Ring,
    places: Places,
    socket: Mmsg,
    /// Datagrams until the caller's socket is asked for errors.
    errors_in: usize,
}

/// Datagrams that go through the ring together.
#[derive(Default)]
struct Window<'a> {
    messages: ArrayVec<RingMessage<'a>, RING_MESSAGES_MAX>,
    /// The number of each in the chunk.
    numbers: ArrayVec<usize, RING_MESSAGES_MAX>,
}

impl IoUring {
    /// A send through the caller's socket would meet them; the ring's sockets do not.
    fn ask_for_errors(&mut self, datagrams: usize) {
        self.errors_in = self.errors_in.saturating_sub(datagrams);
        if self.errors_in == 0 {
            self.socket.read_refusals();
            self.errors_in = ERRORS_EVERY;
        }
    }

    /// Sends to all recipients that have a socket of their own in use, and returns who is to be sent to by the caller's:
    /// datagrams by number. The rest stays [`Outcome::Unsent`] as well.
    fn send_by_own<'a>(
        &mut self,
        datagrams: &'a [Datagram<'a>],
        outcomes: &mut [Outcome],
        by_ring: bool,
    ) -> [bool; CHUNK] {
        let mut by_caller = [false; CHUNK];
        let mut window = Window::default();
        let mut end = 0;
        for datagrams in datagrams.chunk_by(same_destination) {
            let start = end;
            end += datagrams.len();
            let first = &datagrams[0];
            let by_ring = by_ring && datagrams.len() == 1 && self.is_for_ring(first);
            match self.places.way(first.destination, wish(datagrams, by_ring), &self.ring) {
                Way::Caller => by_caller[start..end].fill(true),
                Way::Wait => {}
                Way::Own(socket) if by_ring => {
                    window.messages.push(RingMessage { socket, datagram: first });
                    window.numbers.push(start);
                }
                Way::Own(socket) => self.send_through(socket, datagrams, &mut outcomes[start..end]),
            }
            if window.messages.is_full() {
                self.submit(&mut window, outcomes);
            }
        }
        if !window.messages.is_empty() {
            self.submit(&mut window, outcomes);
        }
        by_caller
    }

    /// Short enough for UDP, not so long that copying it together would cost more than it spares, and not to be told of
    /// an error instead.
    fn is_for_ring(&self, datagram: &Datagram<'_>) -> bool {
        let in_one_piece = || datagram.parts.iter().filter(|part| !part.is_empty()).count() <= 1;
        let len = datagram.len();
        let is_short = len <= COPIED_MAX || (len <= UDP_BYTES_MAX && in_one_piece());
        is_short && !self.socket.has_error(datagram.destination)
    }

    fn submit(&mut self, window: &mut Window<'_>, outcomes: &mut [Outcome]) {
        let mut results = [0; RING_MESSAGES_MAX];
        let results = &mut results[..window.messages.len()];
        self.ring.send(&window.messages, results);
        for ((message, &number), &result) in window.messages.iter().zip(&window.numbers).zip(&*results) {
            match -result {
                ..=0 => outcomes[number] = Outcome::Sent,
                libc::EAGAIN => {}
                // A plain call says why.
                _ => {
                    let datagram = slice::from_ref(message.datagram);
                    self.send_through(message.socket, datagram, slice::from_mut(&mut outcomes[number]));
                }
            }
        }
        window.messages.clear();
        window.numbers.clear();
    }

    /// Sends a recipient's datagrams through its own socket by a plain call.
    fn send_through(&mut self, number: u32, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome]) {
        let Some(socket) = self.places.socket(number) else { return };
        self.socket.send_through(socket, datagrams, outcomes);
        if outcomes.iter().any(is_useless_after) {
            self.places.condemn(number);
        }
    }

    /// Hands the caller's socket these datagrams, neighbours in one call, until it has no more room.
    fn send_by_caller(
        &mut self,
        datagrams: &[Datagram<'_>],
        outcomes: &mut [Outcome],
        by_caller: &[bool; CHUNK],
    ) {
        let mut end = 0;
        for part in by_caller[..datagrams.len()].chunk_by(|left, right| left == right) {
            let start = end;
            end += part.len();
            if part[0] {
                self.socket.send(&datagrams[start..end], &mut outcomes[start..end]);
                if outcomes[end - 1] == Outcome::Unsent {
                    return;
                }
            }
        }
    }
}

impl Backend for IoUring {
    fn kind(&self) -> BackendKind {
        BackendKind::IoUring
    }

    fn send(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome]) {
        let by_ring = self.ring.is_open() && has_several_recipients(datagrams);
        if !by_ring && !self.places.are_in_use() {
            return self.socket.send(datagrams, outcomes);
        }
        self.places.begin_turn(&self.ring);
        self.ask_for_errors(datagrams.len());
        let by_caller = self.send_by_own(datagrams, outcomes, by_ring);
        self.send_by_caller(datagrams, outcomes, &by_caller);
    }

    fn read_refusals(&mut self) -> bool {
        self.socket.read_refusals()
    }
}

/// The back end over `socket`, or why it does not work here.
///
/// # Errors
/// The socket itself is of no use.
pub(crate) fn open(
    socket: &SockRef<'_>,
    config: &IoUringConfig,
) -> Result<Result<IoUring, String>, SetupError> {
    let fallback = match mmsg::open_best(socket)? {
        Ok(fallback) => fallback,
        Err(why) => return Ok(Err(why)),
    };
    Ok(places::sockets_max(config.sockets_max).and_then(|sockets_max| {
        let places = Places::open(socket, sockets_max)?;
        let ring = Ring::open(sockets_max).map_err(why_no_ring)?;
        Ok(IoUring { ring, places, socket: fallback, errors_in: 0 })
    }))
}

fn why_no_ring(error: io::Error) -> String {
    let why = match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no io_uring, or a system call filter hides it",
        Some(libc::EPERM | libc::EACCES) => match disabled_by_sysctl() {
            true => "io_uring is forbidden by the sysctl kernel.io_uring_disabled",
            false => "io_uring is forbidden by a system call filter or a security module",
        },
        Some(libc::EINVAL) => "this kernel's io_uring is older than Linux 5.19",
        Some(libc::ENOMEM) => "no memory for the ring (RLIMIT_MEMLOCK)",
        _ => "io_uring does not work",
    };
    format!("{why}: {error}")
}

fn disabled_by_sysctl() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").is_ok_and(|value| value.trim() != "0")
}

/// Few recipients take the plain way. Beside a look for changed routes, the ring is no slower for two (1018 ns a datagram
/// against 1042), but the look costs 100 ns.
fn has_several_recipients(datagrams: &[Datagram<'_>]) -> bool {
    match datagrams {
        [first, .., last] => datagrams.len() >= DATAGRAMS_MIN && !same_destination(first, last),
        _ => false,
    }
}

/// Datagrams from which on the ring is used.
const DATAGRAMS_MIN: usize = 6;

/// Connected sockets know of no time to leave at.
fn wish(datagrams: &[Datagram<'_>], by_ring: bool) -> Wish {
    if datagrams.iter().any(|datagram| datagram.departure_ns != 0) {
        Wish::Caller
    } else if by_ring {
        Wish::Own
    } else {
        Wish::Either
    }
}

/// Whether a socket is better closed: its address and route were fixed when it was connected.
fn is_useless_after(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(SendError::Unreachable | SendError::BadAddress | SendError::Kernel(_)))
}

/// Datagrams after which the caller's socket is asked for errors. It takes 130 ns.
const ERRORS_EVERY: usize = 64;

/// Bytes of a datagram over IPv4, at most.
const UDP_BYTES_MAX: usize = 65_535 - 20 - 8;
