//! `io_uring` on connected, registered sockets: datagrams for many recipients enter the kernel in one call, and none of
//! them needs a look-up of route or descriptor.
//!
//! **For one datagram a recipient.** Where a recipient has several in a chunk, segmentation offload on the caller's
//! socket is as fast or faster (550 ns a datagram against 566 for two each), so these go there. The ring never has two
//! datagrams of one recipient, which is why their order is kept whatever order it completes in.
//!
//! **Sockets.** A recipient gets a socket of its own, connected to it and registered with the ring, that sends with the
//! caller's address and port. Answers still come to the caller's socket (`places.rs` says how that is). The sockets are
//! opened a few at a time while datagrams go out by the caller's, and kept in a bounded table.
//!
//! **What a connected socket does not take** goes through the caller's: it tells the true reason, and is the one whose
//! room the caller waits for. Errors that come back for earlier datagrams come to the caller's socket as well, which is
//! asked for them now and then.

mod places;

use crate::backend::mmsg::{self, Mmsg};
use crate::backend::segmentation::same_destination;
use crate::backend::{Backend, Datagram, Outcome};
use crate::config::{BackendKind, IoUringConfig, SetupError};
use crate::linux::uring::{COPIED_MAX, RING_MESSAGES_MAX, Ring, RingMessage};
use arrayvec::ArrayVec;
use places::Places;
use socket2::SockRef;
use std::io;

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

    /// Sends by the ring what may go that way. The rest stays [`Outcome::Unsent`].
    fn send_by_ring<'a>(&mut self, datagrams: &'a [Datagram<'a>], outcomes: &mut [Outcome]) {
        let mut window = Window::default();
        let mut number = 0;
        for own in datagrams.chunk_by(same_destination) {
            if let [single] = own
                && is_for_ring(single)
                && !self.socket.has_error(single.destination)
                && let Some(socket) = self.places.find_or_open(single.destination, &self.ring)
            {
                window.messages.push(RingMessage { socket, datagram: single });
                window.numbers.push(number);
            }
            number += own.len();
            if window.messages.is_full() {
                self.submit(&mut window, outcomes);
            }
        }
        if !window.messages.is_empty() {
            self.submit(&mut window, outcomes);
        }
    }

    fn submit(&mut self, window: &mut Window<'_>, outcomes: &mut [Outcome]) {
        let mut results = [0; RING_MESSAGES_MAX];
        let results = &mut results[..window.messages.len()];
        self.ring.send(&window.messages, results);
        for ((message, &number), &result) in window.messages.iter().zip(&window.numbers).zip(&*results) {
            if result >= 0 {
                outcomes[number] = Outcome::Sent;
            } else if is_useless_after(-result) {
                self.places.close(message.socket, &self.ring);
            }
        }
        window.messages.clear();
        window.numbers.clear();
    }

    /// Hands the caller's socket what the ring did not send, neighbours in one call, until it has no more room.
    fn send_by_socket(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome]) {
        let mut end = 0;
        for part in outcomes.chunk_by_mut(|left, right| left == right) {
            let start = end;
            end += part.len();
            if part[0] == Outcome::Unsent {
                self.socket.send(&datagrams[start..end], part);
                if part.last() == Some(&Outcome::Unsent) {
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
        if self.ring.is_open() && has_several_recipients(datagrams) {
            self.places.begin_turn(&self.ring);
            self.ask_for_errors(datagrams.len());
            self.send_by_ring(datagrams, outcomes);
        }
        self.send_by_socket(datagrams, outcomes);
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
    let fallback = match mmsg::open(BackendKind::Gso, socket)? {
        Ok(gso) => gso,
        Err(_) => match mmsg::open(BackendKind::Sendmsg, socket)? {
            Ok(plain) => plain,
            Err(why) => return Ok(Err(why)),
        },
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

/// Without a time to leave at, which connected sockets are not told of; short enough for UDP, whose refusal is the
/// caller's socket's to tell; and not so long that copying it together would cost more than it spares.
fn is_for_ring(datagram: &Datagram<'_>) -> bool {
    let in_one_piece = || datagram.parts.iter().filter(|part| !part.is_empty()).count() <= 1;
    let len = datagram.len();
    datagram.departure_ns == 0 && (len <= COPIED_MAX || (len <= UDP_BYTES_MAX && in_one_piece()))
}

/// Whether a socket is better closed: its address and route were fixed when it was connected, and with `IP_RECVERR` it
/// keeps a note of each datagram that was too long, which nobody reads.
fn is_useless_after(errno: i32) -> bool {
    matches!(
        errno,
        libc::EINVAL
            | libc::EBADF
            | libc::EMSGSIZE
            | libc::EADDRNOTAVAIL
            | libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::ENETDOWN
            | libc::ENODEV
    )
}

/// Datagrams after which the caller's socket is asked for errors. It takes 130 ns.
const ERRORS_EVERY: usize = 64;

/// Bytes of a datagram over IPv4, at most.
const UDP_BYTES_MAX: usize = 65_535 - 20 - 8;
