//! Groups through a socket that the caller lends for each call.
//!
//! What was learned about the socket (what it reaches, what its device refuses) is kept from call
//! to call, and the socket is not: closing it frees its port, as it does without this library. Made
//! for interfaces that are given a descriptor with each call, such as that of `sendgroup()` in C.

use super::{Kernel, Mmsg, has_departure_clock, traffic_class};
use crate::backend::Backend;
use crate::backend::segmentation::Refusals;
use crate::config::{BackendKind, NotChosen, SetupError};
use crate::group::{Progress, Recipient, Slot};
use crate::linux::{self, Family, Flags, Message};
use crate::pending_errors::PendingErrors;
use crate::sender::send_counted;
use socket2::SockRef;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Sends groups through a socket that it is lent for each call, and that it holds no descriptor of.
/// Linux. Where the socket stays, [`Sender`](crate::Sender) has more back ends and costs less.
///
/// It belongs to one socket. Descriptors are numbers that are used again, so each call costs a
/// question to the kernel which socket it is (`SO_COOKIE`, 0.1 us).
pub struct LentSender {
    cookie: u64,
    kind: BackendKind,
    family: Family,
    refusals: Refusals,
    pending: PendingErrors,
}

/// The flags that go to the kernel with each datagram of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// `MSG_CONFIRM` of `sendmsg(2)`: the recipient has answered lately, so that the kernel need not
    /// probe for its link-layer address.
    pub confirm: bool,
}

impl LentSender {
    /// For this socket: by segmentation offload, `sendmmsg` or `sendmsg`, the first that the kernel
    /// has.
    ///
    /// # Errors
    /// [`SetupError`]: not a UDP socket, or a kernel before Linux 4.12, which has no numbers of
    /// sockets.
    pub fn new<'s>(socket: impl Into<SockRef<'s>>) -> Result<Self, SetupError> {
        let socket = socket.into();
        let family = linux::family(&socket).map_err(SetupError::Socket)?;
        let cookie = linux::cookie(socket.as_fd()).map_err(SetupError::Socket)?;
        let mut not_chosen = Vec::new();
        for kind in [BackendKind::Gso, BackendKind::Sendmmsg, BackendKind::Sendmsg] {
            match super::probe(kind, socket.as_fd()) {
                Ok(()) => {
                    let (refusals, pending) = Default::default();
                    return Ok(Self { cookie, kind, family, refusals, pending });
                }
                Err(why) => not_chosen.push(NotChosen { backend: kind, why }),
            }
        }
        Err(SetupError::NoBackend(not_chosen))
    }

    /// The number of a socket: no other one has it until the system is restarted, unlike its
    /// descriptor.
    ///
    /// # Errors
    /// Those of `getsockopt(2)`: not a socket, closed, or a kernel before Linux 4.12.
    pub fn cookie_of<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<u64> {
        linux::cookie(socket.into().as_fd())
    }

    /// The number of the socket that this is for.
    pub fn cookie(&self) -> u64 {
        self.cookie
    }

    /// The back end in use.
    pub fn backend(&self) -> BackendKind {
        self.kind
    }

    /// As [`Sender::send_group`](crate::Sender::send_group), through `socket`, which must be the one
    /// that this was made for ([`cookie`](Self::cookie)): of another one it would assume the wrong
    /// family and refusals, and recipients fail for that.
    ///
    /// # Panics
    /// If there are not as many slots as recipients, or more than 2^32 - 1 packets.
    pub fn send_group<'s>(
        &mut self,
        socket: impl Into<SockRef<'s>>,
        flags: SendFlags,
        packets: &[&[u8]],
        recipients: &[Recipient<'_>],
        slots: &mut [Slot],
    ) -> Progress {
        let socket = socket.into();
        let flags = if flags.confirm { Flags::CONFIRM } else { Flags::default() };
        let kernel = Lent { socket: socket.as_fd(), family: self.family, flags };
        let mut backend = Mmsg::new(kernel, self.kind, self.family);
        mem::swap(&mut backend.refusals, &mut self.refusals);
        mem::swap(&mut backend.pending, &mut self.pending);
        let progress = send_counted(packets, recipients, slots, |packets, recipients, slots| {
            backend.send_group(packets, recipients, slots)
        });
        self.refusals = backend.refusals;
        self.pending = backend.pending;
        progress
    }
}

impl std::fmt::Debug for LentSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LentSender").field("cookie", &self.cookie).field("backend", &self.kind).finish()
    }
}

/// The kernel behind a socket of the caller.
struct Lent<'s> {
    socket: BorrowedFd<'s>,
    family: Family,
    flags: Flags,
}

impl Kernel for Lent<'_> {
    fn send_to(&mut self, to: &SocketAddr, datagram: &[u8]) -> Result<(), i32> {
        linux::send_to(self.socket, self.family, to, datagram, self.flags)
    }

    fn send_messages(&mut self, messages: &[Message<'_>]) -> Result<usize, i32> {
        linux::send_messages(self.socket, self.family, messages, self.flags)
    }

    fn has_departure_clock(&self) -> bool {
        has_departure_clock(self.socket)
    }

    fn traffic_class(&self, is_ipv4: bool) -> u8 {
        traffic_class(self.socket, is_ipv4)
    }

    fn use_twin(&mut self, _caller: &SockRef<'_>, _steered: bool) -> Result<(), String> {
        Err("the socket is lent for a call, and a twin stays".to_owned())
    }

    fn drain_errors(&mut self, errors: &mut PendingErrors) -> bool {
        errors.drain(self.socket)
    }
}
