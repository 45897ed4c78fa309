//! `io_uring` on connected, registered sockets: datagrams for many recipients enter the kernel in
//! one call, and none of them needs a route or descriptor look-up.
//!
//! **For one datagram a recipient.** The ring never holds two datagrams for one recipient, because
//! the kernel may complete them in any order. If a recipient has several in a chunk, they go as GSO
//! runs by a plain call: through the caller's socket or, to keep their order, through the
//! recipient's own if that is in use (`pool.rs`).
//!
//! **Sockets.** Each recipient gets its own socket, connected to it and registered with the ring,
//! that sends with the caller's address and port. Replies still arrive at the caller's socket
//! (`template.rs` says why). The sockets are opened a few at a time, while datagrams go through the
//! caller's socket, and kept in a bounded pool.
//!
//! **Room.** A recipient whose own socket is full is blocked; the others are not. The caller's
//! socket polls as writable meanwhile, so callers retry by timer. A full socket of one recipient
//! holds as much as all recipients together may without this back end. ICMP errors for earlier
//! datagrams arrive at the caller's socket, which is polled for them every [`ERRORS_EVERY`]
//! datagrams.
//!
//! Whether this back end stays is open: only if the relay between nodes shows a gain by it
//! (docs/decisions/0011).

mod pool;
mod template;

use crate::backend::Backend;
use crate::backend::mmsg::{self, Mmsg};
use crate::backend::segmentation::same_destination;
use crate::config::{BackendKind, IoUringConfig, SetupError};
use crate::datagram::{CHUNK, Datagram, Outcome};
use crate::error::SendError;
use crate::linux::uring::{COPIED_MAX, RING_MESSAGES_MAX, Ring, RingMessage};
use crate::recv::Ecn;
use arrayvec::ArrayVec;
use pool::{Route, SocketPool, SocketPreference};
use socket2::SockRef;
use std::io;
use std::slice;

/// Datagrams through a ring where that is faster, and through the caller's socket otherwise.
pub(crate) struct IoUring {
    ring: Ring,
    pool: SocketPool,
    socket: Mmsg,
    /// Datagrams until the caller's socket is polled for errors.
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
    /// Polls for errors, which a send through the caller's socket would report; the ring's do not.
    fn poll_errors(&mut self, datagrams: usize) {
        self.errors_in = self.errors_in.saturating_sub(datagrams);
        if self.errors_in == 0 {
            self.socket.read_refusals();
            self.errors_in = ERRORS_EVERY;
        }
    }

    /// Sends to all recipients whose own socket is in use, and marks the datagrams that have to go
    /// through the caller's. The rest stay [`Outcome::Unsent`].
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
            let preference = if datagrams.iter().any(|datagram| datagram.departure_ns != 0) {
                // Departure times need `SO_TXTIME`, which only the caller's socket may have.
                SocketPreference::Caller
            } else if by_ring {
                SocketPreference::Own
            } else {
                SocketPreference::Either
            };
            match self.pool.route(first.destination, preference, &self.ring) {
                Route::Caller => by_caller[start..end].fill(true),
                Route::Blocked => {}
                Route::Own(socket) if by_ring => {
                    window.messages.push(RingMessage { socket, datagram: first });
                    window.numbers.push(start);
                }
                Route::Own(socket) => self.send_through(socket, datagrams, &mut outcomes[start..end]),
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

    /// Short enough for UDP, not so long that copying its parts together costs more than it saves,
    /// and without a pending error to report instead.
    fn is_for_ring(&self, datagram: &Datagram<'_>) -> bool {
        let in_one_piece = || datagram.parts.iter().filter(|part| !part.is_empty()).count() <= 1;
        let len = datagram.len();
        let is_short = len <= COPIED_MAX || (len <= UDP_BYTES_MAX && in_one_piece());
        // The ring's messages have no room for a mark.
        let is_unmarked = datagram.ecn == Ecn::NotEct;
        is_short && is_unmarked && !self.socket.has_error(datagram.destination)
    }

    fn submit(&mut self, window: &mut Window<'_>, outcomes: &mut [Outcome]) {
        let mut results = [0; RING_MESSAGES_MAX];
        let results = &mut results[..window.messages.len()];
        self.ring.send(&window.messages, results);
        for ((message, &number), &result) in window.messages.iter().zip(&window.numbers).zip(&*results) {
            match -result {
                ..=0 => outcomes[number] = Outcome::Sent,
                libc::EAGAIN => {}
                // A plain call reports the reason.
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
        let Some(socket) = self.pool.socket(number) else { return };
        self.socket.send_through(socket, datagrams, outcomes);
        if outcomes.iter().any(is_useless_after) {
            self.pool.close_when_idle(number);
        }
    }

    /// Sends the marked datagrams through the caller's socket, adjacent ones in one call, until it
    /// is full.
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
        if !by_ring && !self.pool.is_in_use() {
            return self.socket.send(datagrams, outcomes);
        }
        self.pool.begin_turn(&self.ring);
        self.poll_errors(datagrams.len());
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
/// The socket itself is unusable.
pub(crate) fn open(
    socket: &SockRef<'_>,
    config: &IoUringConfig,
) -> Result<Result<IoUring, String>, SetupError> {
    let fallback = match mmsg::open_best(socket)? {
        Ok(fallback) => fallback,
        Err(why) => return Ok(Err(why)),
    };
    Ok(pool::sockets_max(config.sockets_max).and_then(|sockets_max| {
        let pool = SocketPool::open(socket, sockets_max)?;
        let ring = Ring::open(sockets_max).map_err(why_no_ring)?;
        Ok(IoUring { ring, pool, socket: fallback, errors_in: 0 })
    }))
}

fn why_no_ring(error: io::Error) -> String {
    let why = match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no io_uring, or a system call filter hides it",
        Some(libc::EPERM | libc::EACCES) => {
            match std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled") {
                Ok(value) if value.trim() != "0" => {
                    "io_uring is forbidden by the sysctl kernel.io_uring_disabled"
                }
                _ => "io_uring is forbidden by a system call filter or a security module",
            }
        }
        Some(libc::EINVAL) => "this kernel's io_uring is older than Linux 5.19",
        Some(libc::ENOMEM) => "no memory for the ring (RLIMIT_MEMLOCK)",
        _ => "io_uring does not work",
    };
    format!("{why}: {error}")
}

/// Small calls use plain sends. Apart from the check for changed routes, the ring is no slower for
/// two datagrams (1018 ns each against 1042), but the check costs 100 ns.
fn has_several_recipients(datagrams: &[Datagram<'_>]) -> bool {
    match datagrams {
        [first, .., last] => datagrams.len() >= DATAGRAMS_MIN && !same_destination(first, last),
        _ => false,
    }
}

/// Datagrams per call from which the ring is used.
const DATAGRAMS_MIN: usize = 6;

/// Whether a socket should be closed: its address and route were fixed when it was connected.
fn is_useless_after(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(SendError::Unreachable | SendError::BadAddress | SendError::Kernel(_)))
}

/// Datagrams after which the caller's socket is polled for errors. A poll takes 130 ns.
const ERRORS_EVERY: usize = 64;

/// Bytes of a datagram over IPv4, at most.
const UDP_BYTES_MAX: usize = 65_535 - 20 - 8;
