//! The kernel's UDP socket: `sendmmsg` with segmentation offload, and down from there.
//!
//! One back end in three modes, because each is the fallback of the one before: runs of a
//! recipient's datagrams in one message (GSO), a message a datagram (`sendmmsg`), a system call a
//! datagram (`sendto`). What a device or a path refuses of the first is remembered in
//! `segmentation.rs`. Nothing here waits, and only refusals allocate.

use crate::backend::Backend;
use crate::backend::segmentation::{self, Refusals};
use crate::config::{BackendKind, SetupError};
use crate::datagram::{Datagram, Outcome};
use crate::error::SendError;
use crate::linux::{self, Family, Flags, MESSAGES_MAX, Message};
use crate::pending_errors::PendingErrors;
use crate::recv::Ecn;
use arrayvec::ArrayVec;
use socket2::SockRef;
#[cfg(feature = "io-uring")]
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::slice;

/// The kernel as this file sees it; tests substitute one that refuses.
pub(crate) trait Kernel: Send {
    fn send_to(&mut self, to: &SocketAddr, datagram: &[u8]) -> Result<(), i32>;
    fn send_messages(&mut self, messages: &[Message<'_>]) -> Result<usize, i32>;
    /// Whether the socket has a clock for departure times; one without it refuses datagrams that
    /// have any.
    fn has_departure_clock(&self) -> bool;
    /// The traffic class that the socket gives to what it sends over IPv4, or over IPv6.
    fn traffic_class(&self, is_ipv4: bool) -> u8;
    /// [`Backend::use_twin`].
    fn use_twin(&mut self, caller: &SockRef<'_>, steered: bool) -> Result<(), String>;
    /// Reads pending errors of earlier datagrams; returns whether there were any.
    fn drain_errors(&mut self, errors: &mut PendingErrors) -> bool;
}

/// Datagrams through a UDP socket.
pub(crate) struct Mmsg<K = Socket> {
    kernel: K,
    kind: BackendKind,
    family: Family,
    refusals: Refusals,
    pending: PendingErrors,
    has_departure_clock: bool,
}

/// The real kernel behind a socket.
pub(crate) struct Socket {
    fd: OwnedFd,
    /// What sends in its place.
    twin: Option<OwnedFd>,
    family: Family,
}

impl<K: Kernel> Mmsg<K> {
    pub(crate) fn new(kernel: K, kind: BackendKind, family: Family) -> Self {
        Self {
            kernel,
            kind,
            family,
            refusals: Refusals::default(),
            pending: PendingErrors::default(),
            has_departure_clock: false,
        }
    }

    /// Whether an ICMP error is pending that the next datagram for this address will report.
    #[cfg(feature = "io-uring")]
    pub(crate) fn has_error(&self, destination: &SocketAddr) -> bool {
        self.pending.contains(destination)
    }

    /// Sends one datagram by one call.
    fn send_single(&mut self, datagram: &Datagram<'_>) -> Outcome {
        if let Some(error) = self.pending.take(datagram.destination) {
            return Outcome::Failed(error);
        }
        let result = self.send_alone(datagram);
        if result.is_ok() || result == Err(libc::EAGAIN) || !self.kernel.drain_errors(&mut self.pending) {
            return outcome(result);
        }
        // The kernel reports an ICMP error for an earlier datagram to the next send, whatever its
        // destination.
        match self.pending.take(datagram.destination) {
            Some(error) => Outcome::Failed(error),
            None => outcome(self.send_alone(datagram)),
        }
    }

    /// In one piece if it is short: copying it costs less than having the kernel read a message
    /// header and a list.
    fn send_alone(&mut self, datagram: &Datagram<'_>) -> Result<(), i32> {
        let traffic_class = self.traffic_class(datagram);
        let is_plain = self.departure_ns(datagram) == 0 && traffic_class.is_none();
        if is_plain && datagram.len() <= COPIED_MAX {
            let mut copy = ArrayVec::new();
            let piece = one_piece(datagram, &mut copy);
            return retried(|| self.kernel.send_to(datagram.destination, piece));
        }
        let message = Message {
            datagrams: slice::from_ref(datagram),
            segment: 0,
            departure_ns: self.departure_ns(datagram),
            traffic_class,
        };
        retried(|| self.kernel.send_messages(&[message])).map(drop)
    }

    /// Sends the messages that begin with the first datagram, and returns how many datagrams were
    /// handled.
    fn send_some(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome]) -> usize {
        let messages = self.plan(datagrams);
        let [first, _, ..] = &messages[..] else {
            return self.send_first(datagrams, outcomes, messages.first().map_or(1, |m| m.datagrams.len()));
        };
        let first_len = first.datagrams.len();
        if messages.len() <= PLAIN_MAX && first_len == 1 {
            return self.send_first(datagrams, outcomes, 1);
        }
        match retried(|| self.kernel.send_messages(&messages)) {
            Ok(0) => 0,
            Ok(sent) => {
                let done: usize = messages[..sent].iter().map(|message| message.datagrams.len()).sum();
                if messages[..sent].iter().any(|message| message.segment > 0) {
                    self.refusals.accepted();
                }
                outcomes[..done].fill(Outcome::Sent);
                if sent < messages.len() {
                    self.kernel.drain_errors(&mut self.pending);
                }
                done
            }
            Err(libc::EAGAIN) => 0,
            Err(_) => {
                self.kernel.drain_errors(&mut self.pending);
                self.send_first(datagrams, outcomes, first_len)
            }
        }
    }

    /// Sends the run at the front, or only the first datagram when the run is refused; returns how
    /// many were handled.
    fn send_first(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome], run: usize) -> usize {
        if run == 1 || self.pending.contains(datagrams[0].destination) {
            outcomes[0] = self.send_single(&datagrams[0]);
            return usize::from(outcomes[0] != Outcome::Unsent);
        }
        let first = &datagrams[0];
        let refused = match self.send_run(&datagrams[..run]) {
            Ok(()) => {
                outcomes[..run].fill(Outcome::Sent);
                return run;
            }
            Err(libc::EAGAIN) => return 0,
            Err(errno) => errno,
        };
        self.kernel.drain_errors(&mut self.pending);
        outcomes[0] = self.send_single(first);
        // If it fails alone too, it was not refused for being a run.
        if segmentation::is_refusal(refused) && outcomes[0] == Outcome::Sent {
            self.refusals.note(first.destination.ip(), first.len(), refused);
        }
        usize::from(outcomes[0] != Outcome::Unsent)
    }

    fn departure_ns(&self, datagram: &Datagram<'_>) -> u64 {
        if self.has_departure_clock { datagram.departure_ns } else { 0 }
    }

    /// The socket's traffic class with the datagram's own mark, if it has one.
    fn traffic_class(&self, datagram: &Datagram<'_>) -> Option<u8> {
        if datagram.ecn == Ecn::NotEct {
            return None;
        }
        let is_ipv4 = datagram.destination.ip().to_canonical().is_ipv4();
        Some(self.kernel.traffic_class(is_ipv4) & !ECN_BITS | datagram.ecn.bits())
    }

    /// Sends several datagrams as one message.
    fn send_run(&mut self, run: &[Datagram<'_>]) -> Result<(), i32> {
        let message = Message {
            datagrams: run,
            segment: run[0].len() as u16,
            departure_ns: self.departure_ns(&run[0]),
            traffic_class: self.traffic_class(&run[0]),
        };
        retried(|| self.kernel.send_messages(&[message]))?;
        self.refusals.accepted();
        Ok(())
    }

    /// The messages that begin with the first datagram: up to as many as one call takes, or none
    /// when the first one has a pending error to report.
    fn plan<'a>(&self, datagrams: &'a [Datagram<'a>]) -> ArrayVec<Message<'a>, MESSAGES_MAX> {
        let mut messages = ArrayVec::new();
        let mut start = 0;
        while start < datagrams.len() && !messages.is_full() {
            let first = &datagrams[start];
            if !self.family.reaches(first.destination) || self.pending.contains(first.destination) {
                break;
            }
            let run =
                if self.kind == BackendKind::Gso && !self.refusals.forbid(first.destination, first.len()) {
                    segmentation::run_len(&datagrams[start..])
                } else {
                    1
                };
            let segment = if run > 1 { first.len() as u16 } else { 0 };
            messages.push(Message {
                datagrams: &datagrams[start..start + run],
                segment,
                departure_ns: self.departure_ns(first),
                traffic_class: self.traffic_class(first),
            });
            start += run;
        }
        messages
    }
}

impl<K: Kernel> Backend for Mmsg<K> {
    fn kind(&self) -> BackendKind {
        self.kind
    }

    fn send(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome]) {
        self.pending.age(datagrams.len());
        if datagrams.iter().any(|datagram| datagram.departure_ns > 0) {
            self.has_departure_clock = self.kernel.has_departure_clock();
        }
        let mut start = 0;
        while start < datagrams.len() {
            let (rest, outcomes) = (&datagrams[start..], &mut outcomes[start..]);
            let done = if rest.len() == 1 || self.kind == BackendKind::Sendmsg {
                self.send_first(rest, outcomes, 1)
            } else {
                self.send_some(rest, outcomes)
            };
            if done == 0 {
                return;
            }
            start += done;
        }
    }

    fn use_twin(&mut self, caller: &SockRef<'_>, steered: bool) -> Result<(), String> {
        self.kernel.use_twin(caller, steered)
    }

    fn read_refusals(&mut self) -> bool {
        self.kernel.drain_errors(&mut self.pending)
    }
}

#[cfg(feature = "io-uring")]
impl Mmsg {
    /// Sends to the peer of another socket, which is connected, through that one. What is
    /// remembered of refused runs and of errors that came back is the same.
    pub(crate) fn send_through(
        &mut self,
        connected: &mut Socket,
        datagrams: &[Datagram<'_>],
        outcomes: &mut [Outcome],
    ) {
        let family = mem::replace(&mut self.family, connected.family);
        mem::swap(&mut self.kernel, connected);
        self.send(datagrams, outcomes);
        mem::swap(&mut self.kernel, connected);
        self.family = family;
    }
}

/// The back end of one of the three kinds over `socket`, or why the kernel does not offer it.
///
/// # Errors
/// The socket cannot be used at all.
pub(crate) fn open(kind: BackendKind, socket: &SockRef<'_>) -> Result<Result<Mmsg, String>, SetupError> {
    let family = linux::family(socket).map_err(SetupError::Socket)?;
    let fd: OwnedFd = socket.try_clone().map_err(SetupError::Socket)?.into();
    Ok(probe(kind, fd.as_fd()).map(|()| Mmsg::new(Socket { fd, twin: None, family }, kind, family)))
}

/// Why the kernel does not offer one of the three kinds, if so.
fn probe(kind: BackendKind, socket: BorrowedFd<'_>) -> Result<(), String> {
    let missing = match kind {
        BackendKind::Gso => linux::probe_sendmmsg(socket).and_then(|()| linux::probe_segmentation(socket)),
        BackendKind::Sendmmsg => linux::probe_sendmmsg(socket),
        _ => Ok(()),
    };
    missing.map_err(|error| format!("the kernel does not offer it: {error}"))
}

impl Socket {
    /// One that is connected.
    #[cfg(feature = "io-uring")]
    pub(crate) fn connected(fd: OwnedFd) -> Self {
        Self { fd, twin: None, family: Family::Connected }
    }

    /// Sends by the twin, if there is one. What the path does not carry in one piece, that refuses
    /// and the caller's socket may send in several.
    fn by_twin<T>(&self, send: impl Fn(BorrowedFd<'_>) -> Result<T, i32>) -> Result<T, i32> {
        let Some(twin) = &self.twin else { return send(self.fd.as_fd()) };
        match send(twin.as_fd()) {
            Err(libc::EMSGSIZE) => send(self.fd.as_fd()),
            result => result,
        }
    }
}

#[cfg(feature = "io-uring")]
impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Kernel for Socket {
    fn send_to(&mut self, to: &SocketAddr, datagram: &[u8]) -> Result<(), i32> {
        self.by_twin(|socket| linux::send_to(socket, self.family, to, datagram, Flags::default()))
    }

    fn send_messages(&mut self, messages: &[Message<'_>]) -> Result<usize, i32> {
        self.by_twin(|socket| linux::send_messages(socket, self.family, messages, Flags::default()))
    }

    /// Both clocks that can be asked for have other numbers than 0, which the kernel answers
    /// without one.
    fn has_departure_clock(&self) -> bool {
        has_departure_clock(self.fd.as_fd())
    }

    /// Asked for each time: one system call for a message with marks is little, and the caller may change
    /// it at any time.
    fn traffic_class(&self, is_ipv4: bool) -> u8 {
        traffic_class(self.fd.as_fd(), is_ipv4)
    }

    fn use_twin(&mut self, caller: &SockRef<'_>, steered: bool) -> Result<(), String> {
        self.twin = Some(twin::open(caller, steered)?);
        Ok(())
    }

    fn drain_errors(&mut self, errors: &mut PendingErrors) -> bool {
        errors.drain(self.fd.as_fd())
    }
}

fn has_departure_clock(socket: BorrowedFd<'_>) -> bool {
    linux::option(socket, libc::SOL_SOCKET, libc::SO_TXTIME).is_ok_and(|clock| clock != 0)
}

fn traffic_class(socket: BorrowedFd<'_>, is_ipv4: bool) -> u8 {
    let (level, name) =
        if is_ipv4 { (libc::IPPROTO_IP, libc::IP_TOS) } else { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) };
    linux::option(socket, level, name).ok().and_then(|class| class.try_into().ok()).unwrap_or(0)
}

/// The best of them that works: what other back ends send by that they cannot send themselves.
///
/// # Errors
/// The socket cannot be used at all.
#[cfg(any(feature = "io-uring", feature = "af-xdp", feature = "tc-clone"))]
pub(crate) fn open_best(socket: &SockRef<'_>) -> Result<Result<Mmsg, String>, SetupError> {
    match open(BackendKind::Gso, socket)? {
        Ok(backend) => Ok(Ok(backend)),
        Err(_) => open(BackendKind::Sendmsg, socket),
    }
}

/// What a datagram's `errno` means to its recipient.
pub(crate) fn outcome(result: Result<(), i32>) -> Outcome {
    match result {
        Ok(()) => Outcome::Sent,
        Err(libc::EAGAIN) => Outcome::Unsent,
        Err(errno) => Outcome::Failed(SendError::from_errno(errno)),
    }
}

/// The bytes of a datagram of up to [`COPIED_MAX`], copied only if they lie apart.
fn one_piece<'a>(datagram: &Datagram<'a>, copy: &'a mut ArrayVec<u8, COPIED_MAX>) -> &'a [u8] {
    match datagram.parts {
        [piece, [], []] | [[], piece, []] | [[], [], piece] => piece,
        parts => {
            copy.clear();
            for part in parts {
                copy.try_extend_from_slice(part).expect("the length was compared with the capacity");
            }
            copy
        }
    }
}

fn retried<T>(mut call: impl FnMut() -> Result<T, i32>) -> Result<T, i32> {
    loop {
        match call() {
            Err(libc::EINTR) => {}
            result => return result,
        }
    }
}

/// Messages up to which single datagrams go one by one, copied together: two in one call cost 3 %
/// more than that, four 3 % less.
const PLAIN_MAX: usize = 3;

/// The part of a traffic class that is the mark (RFC 3168 section 5).
const ECN_BITS: u8 = 0b11;

/// Bytes of a datagram that are copied into one piece rather than listed for the kernel.
const COPIED_MAX: usize = 2048;

mod lent;
#[cfg(test)]
mod tests;
mod twin;

pub use lent::{LentSender, SendFlags};
