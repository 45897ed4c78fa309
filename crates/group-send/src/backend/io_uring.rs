//! `io_uring` on connected, registered sockets: a batch enters the kernel in one call, and no datagram of it needs a
//! look-up of route or descriptor.
//!
//! **Sockets.** A recipient gets a socket of its own, connected to it and registered with the ring, that sends with the
//! caller's address and port. Answers still come to the caller's socket (`places.rs` says how that is). The sockets are
//! opened a few at a time while datagrams go out by the caller's, and kept in a bounded table.
//!
//! **Order of a recipient.** The ring never has two messages of one recipient: the next one is submitted when the
//! result of the one before is there. Submission order alone would not do, since of two sends the first may find the
//! buffer full and the second find room; linked entries keep the order and cost 100 ns each.
//!
//! **What a connected socket does not take** goes through the caller's, with all that follows for that recipient: it
//! tells the true reason, and is the one whose room the caller waits for. Errors that come back for earlier datagrams
//! come to the caller's socket as well, which is asked for them now and then.

mod places;

use crate::backend::mmsg::{self, Mmsg};
use crate::backend::segmentation::{self, Refusals};
use crate::backend::{Backend, CHUNK, Datagram, Outcome};
use crate::config::{BackendKind, IoUringConfig, SetupError};
use crate::linux_uring::{RING_MESSAGES_MAX, Ring, RingMessage};
use arrayvec::ArrayVec;
use places::Places;
use socket2::SockRef;
use std::io;
use std::ops::Range;

/// Datagrams through a ring where that is faster, and through the caller's socket otherwise.
pub(crate) struct IoUring {
    ring: Ring,
    places: Places,
    socket: Mmsg,
    refusals: Refusals,
    /// Datagrams until the caller's socket is asked for errors.
    errors_in: usize,
}

/// The datagrams of one recipient in a chunk.
struct Course {
    /// Those that remain.
    rest: Range<usize>,
    /// Its socket's number, if they go through the ring.
    place: Option<u32>,
}

/// A message that the ring was given.
struct Pending {
    course: usize,
    datagrams: usize,
}

impl IoUring {
    /// Finds a socket for each recipient that may have one.
    fn courses(&mut self, datagrams: &[Datagram<'_>]) -> ArrayVec<Course, CHUNK> {
        let mut courses = ArrayVec::<Course, CHUNK>::new();
        let mut start = 0;
        for own in datagrams.chunk_by(|left, right| segmentation::same_destination(left, right)) {
            courses.push(Course { rest: start..start + own.len(), place: None });
            start += own.len();
        }
        if courses.len() < RECIPIENTS_MIN || !self.ring.is_open() {
            return courses;
        }
        self.places.begin_turn();
        self.ask_for_errors(datagrams.len());
        for course in &mut courses {
            let own = &datagrams[course.rest.clone()];
            if own.iter().all(is_for_ring) && !self.socket.has_error(own[0].destination) {
                course.place = self.places.find_or_open(own[0].destination, &self.ring);
            }
        }
        courses
    }

    /// A send through the caller's socket would meet them; the ring's sockets do not.
    fn ask_for_errors(&mut self, datagrams: usize) {
        self.errors_in = self.errors_in.saturating_sub(datagrams);
        if self.errors_in == 0 {
            self.socket.read_refusals();
            self.errors_in = ERRORS_EVERY;
        }
    }

    /// Sends what these recipients get, message by message.
    fn send_window(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome], courses: &mut [Course]) {
        loop {
            let mut messages = ArrayVec::<RingMessage<'_>, RING_MESSAGES_MAX>::new();
            let mut pending = ArrayVec::<Pending, RING_MESSAGES_MAX>::new();
            for (number, course) in courses.iter().enumerate().filter(|(_, course)| !course.rest.is_empty()) {
                let Some(place) = course.place else { continue };
                let run = self.run(&datagrams[course.rest.clone()]);
                messages.push(RingMessage { socket: place, datagrams: run });
                pending.push(Pending { course: number, datagrams: run.len() });
            }
            if messages.is_empty() {
                return;
            }
            let mut results = [0; RING_MESSAGES_MAX];
            self.ring.send(&messages, &mut results[..messages.len()]);
            for (pending, &result) in pending.iter().zip(&results) {
                let course = &mut courses[pending.course];
                self.note(datagrams, outcomes, course, pending.datagrams, result);
            }
        }
    }

    /// The datagrams at the front that go as one message.
    fn run<'a>(&self, datagrams: &'a [Datagram<'a>]) -> &'a [Datagram<'a>] {
        let first = &datagrams[0];
        match self.refusals.forbid(first.destination, first.len()) {
            true => &datagrams[..1],
            false => &datagrams[..segmentation::run_len(datagrams)],
        }
    }

    /// What the ring answered for the message at the front of a course.
    fn note(
        &mut self,
        datagrams: &[Datagram<'_>],
        outcomes: &mut [Outcome],
        course: &mut Course,
        run: usize,
        result: i32,
    ) {
        let start = course.rest.start;
        if result >= 0 {
            outcomes[start..start + run].fill(Outcome::Sent);
            course.rest.start += run;
            if run > 1 {
                self.refusals.accepted();
            }
            return;
        }
        let (errno, first) = (-result, &datagrams[start]);
        let Some(place) = course.place else { return };
        if run > 1 && segmentation::is_refusal(errno) {
            self.refusals.note(first.destination.ip(), first.len(), errno);
        } else if is_useless_after(errno) {
            self.places.close(place, &self.ring);
        }
        course.place = None;
    }

    /// Hands the caller's socket what the ring did not take, neighbours in one call.
    fn send_rest(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome], courses: &[Course]) {
        let mut left = courses.iter().map(|course| course.rest.clone()).filter(|rest| !rest.is_empty());
        let Some(mut range) = left.next() else { return };
        for rest in left {
            if rest.start == range.end {
                range.end = rest.end;
                continue;
            }
            if !self.send_by_socket(datagrams, outcomes, range) {
                return;
            }
            range = rest;
        }
        self.send_by_socket(datagrams, outcomes, range);
    }

    /// Returns false when the socket has no more room.
    fn send_by_socket(
        &mut self,
        datagrams: &[Datagram<'_>],
        outcomes: &mut [Outcome],
        range: Range<usize>,
    ) -> bool {
        let outcomes = &mut outcomes[range.clone()];
        self.socket.send(&datagrams[range], outcomes);
        outcomes.last() != Some(&Outcome::Unsent)
    }
}

impl Backend for IoUring {
    fn kind(&self) -> BackendKind {
        BackendKind::IoUring
    }

    fn read_refusals(&mut self) -> bool {
        self.socket.read_refusals()
    }

    fn send(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome]) {
        let mut courses = self.courses(datagrams);
        for window in courses.chunks_mut(RING_MESSAGES_MAX) {
            self.send_window(datagrams, outcomes, window);
        }
        self.send_rest(datagrams, outcomes, &courses);
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
        Ok(IoUring { ring, places, socket: fallback, refusals: Refusals::default(), errors_in: 0 })
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

/// Without a time to leave at, which connected sockets are not told of, and short enough for UDP over either family.
fn is_for_ring(datagram: &Datagram<'_>) -> bool {
    datagram.departure_ns == 0 && datagram.len() <= UDP_BYTES_MAX
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

/// Recipients in a chunk from which on the ring is used. To one the plain way takes 1035 ns a datagram and the ring
/// 1045, to two 1055 and 950, to three 1050 and 915.
const RECIPIENTS_MIN: usize = 2;

/// Datagrams after which the caller's socket is asked for errors. It takes 130 ns.
const ERRORS_EVERY: usize = 64;

/// Bytes of a datagram over IPv4, at most; longer ones are the caller's socket's to refuse.
const UDP_BYTES_MAX: usize = 65_535 - 20 - 8;
