//! Which sockets of a worker are ready, and how other threads wake it.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Poll};

use crate::net::readiness::{Interest, Readiness, Token};

/// Events taken from the kernel per turn.
const EVENTS_MAX: usize = 4096;
const WAKER: mio::Token = mio::Token(usize::MAX);

/// The sockets of one worker. See [`net`](crate::net) for what it promises.
#[derive(Debug)]
pub(crate) struct EventQueue {
    poll: Poll,
    events: Events,
}

impl EventQueue {
    /// A queue without sockets.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { poll: Poll::new()?, events: Events::with_capacity(EVENTS_MAX) })
    }

    /// What wakes it from other threads. There is one per queue; clones of it do the same.
    pub(crate) fn waker(&self) -> io::Result<Waker> {
        let waker = mio::Waker::new(self.poll.registry(), WAKER)?;
        Ok(Waker::from(Arc::new(QueueWaker(waker))))
    }

    /// Waits until a socket is ready, a waker was used, or `timeout` has passed. What is ready replaces what
    /// was in `ready`.
    pub(crate) fn wait(&mut self, ready: &mut Vec<Readiness>, timeout: Duration) {
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => result.expect("epoll_wait fails only for a bad descriptor or pointer"),
        }
        ready.clear();
        ready.extend(self.events.iter().filter(|event| event.token() != WAKER).map(|event| Readiness {
            token: Token::from_number(event.token().0),
            readable: event.is_readable(),
            writable: event.is_writable(),
            closed: event.is_read_closed() || event.is_error(),
        }));
    }

    /// Reports `socket` from now on.
    pub(crate) fn add(&self, socket: &impl AsRawFd, token: Token, interest: Interest) -> io::Result<()> {
        let (source, interest) = (socket.as_raw_fd(), to_mio(interest));
        self.poll.registry().register(&mut SourceFd(&source), mio::Token(token.to_number()), interest)
    }

    /// Changes what is reported of `socket`.
    pub(crate) fn change(&self, socket: &impl AsRawFd, token: Token, interest: Interest) -> io::Result<()> {
        let (source, interest) = (socket.as_raw_fd(), to_mio(interest));
        self.poll.registry().reregister(&mut SourceFd(&source), mio::Token(token.to_number()), interest)
    }

    /// Reports nothing of `socket` any more. One that was never added stays what it is.
    pub(crate) fn remove(&self, socket: &impl AsRawFd) {
        // Fails only when it was never added.
        let _ = self.poll.registry().deregister(&mut SourceFd(&socket.as_raw_fd()));
    }
}

fn to_mio(interest: Interest) -> mio::Interest {
    match interest {
        Interest::Read => mio::Interest::READABLE,
        Interest::Write => mio::Interest::WRITABLE,
        Interest::ReadWrite => mio::Interest::READABLE | mio::Interest::WRITABLE,
    }
}

struct QueueWaker(mio::Waker);

impl Wake for QueueWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Fails only when the counter behind it is full: then a wake-up is pending.
        let _ = self.0.wake();
    }
}
