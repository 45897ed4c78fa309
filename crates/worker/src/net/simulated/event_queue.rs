//! Which sockets of a simulated worker are ready.

use std::io;
use std::os::fd::AsRawFd;
use std::task::Waker;
use std::time::Duration;

use netsim::kernel;

use crate::net::readiness::{Interest, Readiness, Token};

/// The sockets of one worker. See [`net`](crate::net) for what it promises.
#[derive(Debug)]
pub(crate) struct EventQueue {
    queue: kernel::EventQueue,
    ready: Vec<kernel::Ready>,
}

impl EventQueue {
    /// A queue without sockets.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { queue: kernel::EventQueue::new(), ready: Vec::new() })
    }

    /// What wakes it.
    pub(crate) fn waker(&self) -> io::Result<Waker> {
        Ok(self.queue.waker())
    }

    /// The queue in the kernel.
    pub(crate) fn queue(&self) -> &kernel::EventQueue {
        &self.queue
    }

    /// What is ready now; it is the scheduler that waits.
    pub(crate) fn wait(&mut self, ready: &mut Vec<Readiness>, _timeout: Duration) {
        self.queue.wait(&mut self.ready);
        ready.clear();
        ready.extend(self.ready.iter().map(|event| Readiness {
            token: Token::from_number(event.token as usize),
            readable: event.readable,
            writable: event.writable,
            closed: event.closed,
        }));
    }

    /// Reports `socket` from now on.
    pub(crate) fn add(&self, socket: &impl AsRawFd, token: Token, interest: Interest) -> io::Result<()> {
        self.queue.add(socket.as_raw_fd() as u32, token.to_number() as u64, to_kernel(interest));
        Ok(())
    }

    /// Changes what is reported of `socket`.
    pub(crate) fn change(&self, socket: &impl AsRawFd, token: Token, interest: Interest) -> io::Result<()> {
        self.add(socket, token, interest)
    }

    /// Reports nothing of `socket` any more.
    pub(crate) fn remove(&self, socket: &impl AsRawFd) {
        self.queue.remove(socket.as_raw_fd() as u32);
    }
}

fn to_kernel(interest: Interest) -> kernel::Interest {
    kernel::Interest {
        read: matches!(interest, Interest::Read | Interest::ReadWrite),
        write: matches!(interest, Interest::Write | Interest::ReadWrite),
    }
}
