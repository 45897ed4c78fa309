//! Which sockets of a worker are ready, and how other threads wake it.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Poll};

use crate::ids::{ConnId, IceTcpId, IdleId, PortId, TableId};

/// Events taken from the kernel per turn.
const EVENTS_MAX: usize = 4096;
const WAKER: mio::Token = mio::Token(usize::MAX);
/// Bits of a token that are the index; the kind of socket is above.
const INDEX_BITS: u32 = 56;

/// What a socket is to the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// A connection for frames.
    Connection(ConnId),
    /// An HTTP connection between two requests.
    Idle(IdleId),
    /// A listener for such connections.
    Listener(usize),
    /// A connection of ICE-TCP.
    IceTcp(IceTcpId),
    /// A listener of ICE-TCP.
    IceListener(usize),
    /// A UDP port.
    Port(PortId),
}

/// What is to be reported of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Input.
    Read,
    /// Room for output.
    Write,
    /// Both.
    ReadWrite,
}

/// What a socket is ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub(crate) token: Token,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The peer has closed its side, or the connection is broken: there is an end to be read.
    pub(crate) closed: bool,
}

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
            token: Token::from_system(event.token()),
            readable: event.is_readable(),
            writable: event.is_writable(),
            closed: event.is_read_closed() || event.is_error(),
        }));
    }

    /// Reports `socket` from now on.
    pub(crate) fn add(&self, socket: &impl AsRawFd, token: Token, interest: Interest) -> io::Result<()> {
        let (source, interest) = (socket.as_raw_fd(), interest.to_system());
        self.poll.registry().register(&mut SourceFd(&source), token.to_system(), interest)
    }

    /// Changes what is reported of `socket`.
    pub(crate) fn change(&self, socket: &impl AsRawFd, token: Token, interest: Interest) -> io::Result<()> {
        let (source, interest) = (socket.as_raw_fd(), interest.to_system());
        self.poll.registry().reregister(&mut SourceFd(&source), token.to_system(), interest)
    }

    /// Reports nothing of `socket` any more. One that was never added stays what it is.
    pub(crate) fn remove(&self, socket: &impl AsRawFd) {
        // Fails only when it was never added.
        let _ = self.poll.registry().deregister(&mut SourceFd(&socket.as_raw_fd()));
    }
}

impl Token {
    fn to_system(self) -> mio::Token {
        let (kind, index) = match self {
            Self::Connection(id) => (0, id.index()),
            Self::Idle(id) => (1, id.index()),
            Self::Listener(index) => (2, index),
            Self::IceTcp(id) => (3, id.index()),
            Self::IceListener(index) => (4, index),
            Self::Port(id) => (5, id.index()),
        };
        mio::Token(kind << INDEX_BITS | index)
    }

    fn from_system(mio::Token(token): mio::Token) -> Self {
        let index = token & ((1 << INDEX_BITS) - 1);
        match token >> INDEX_BITS {
            0 => Self::Connection(ConnId::at(index)),
            1 => Self::Idle(IdleId::at(index)),
            2 => Self::Listener(index),
            3 => Self::IceTcp(IceTcpId::at(index)),
            4 => Self::IceListener(index),
            _ => Self::Port(PortId::at(index)),
        }
    }
}

impl Interest {
    fn to_system(self) -> mio::Interest {
        match self {
            Self::Read => mio::Interest::READABLE,
            Self::Write => mio::Interest::WRITABLE,
            Self::ReadWrite => mio::Interest::READABLE | mio::Interest::WRITABLE,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_it_went() {
        let last = u32::MAX as usize;
        for index in [0, 1, last] {
            for token in [
                Token::Connection(ConnId::at(index)),
                Token::Idle(IdleId::at(index)),
                Token::Listener(index),
                Token::IceTcp(IceTcpId::at(index)),
                Token::IceListener(index),
                Token::Port(PortId::at(index)),
            ] {
                assert_eq!(Token::from_system(token.to_system()), token);
                assert_ne!(token.to_system(), WAKER);
            }
        }
    }

    #[test]
    fn wake_ups_merge_and_none_is_lost() {
        let mut queue = EventQueue::new().unwrap();
        let waker = queue.waker().unwrap();
        let mut ready = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..3).for_each(|_| waker.wake_by_ref()));
            // A wake-up that was lost would be waited for until the test runner gives up.
            queue.wait(&mut ready, Duration::from_secs(3600));
        });
        assert_eq!(ready, []);
    }
}
