//! Event queues: which sockets of a program are ready, edge-triggered, and wakers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use super::{Kernel, QueueId, Socket, SocketId, with, with_any};

/// What is to be reported of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest {
    /// Input.
    pub read: bool,
    /// Room for output.
    pub write: bool,
}

/// What a socket is ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// What the socket was added with.
    pub token: u64,
    /// There may be input.
    pub readable: bool,
    /// There may be room.
    pub writable: bool,
    /// The peer has closed its side, or the connection is broken.
    pub closed: bool,
}

/// A socket in a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registration {
    queue: QueueId,
    token: u64,
    interest: Interest,
    /// What the next wait reports.
    readable: bool,
    writable: bool,
    closed: bool,
    listed: bool,
}

#[derive(Debug)]
pub(crate) struct QueueState {
    listed: Vec<SocketId>,
    announced: bool,
    registrations: crate::FastMap<SocketId, Registration>,
}

/// A program's queue.
#[derive(Debug)]
pub struct EventQueue {
    id: QueueId,
    woken: Arc<QueueWaker>,
}

#[derive(Debug, Default)]
struct QueueWaker(AtomicBool);

impl Wake for QueueWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl EventQueue {
    /// A queue without sockets.
    #[expect(clippy::new_without_default, reason = "it is entered into the kernel of the thread")]
    pub fn new() -> Self {
        let id = with(|kernel| {
            let state =
                QueueState { listed: Vec::new(), announced: false, registrations: Default::default() };
            kernel.queues.push(state);
            kernel.queues.len() as QueueId - 1
        });
        Self { id, woken: Arc::default() }
    }

    /// Its number, as [`next_ready`](super::next_ready) has it.
    pub fn id(&self) -> QueueId {
        self.id
    }

    /// What wakes it, from any thread.
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.woken))
    }

    /// Whether a waker was used since the last wait.
    pub fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::Acquire)
    }

    /// What is ready now replaces what was in `ready`, in any order. Never waits.
    pub fn wait(&self, ready: &mut Vec<Ready>) {
        self.woken.0.store(false, Ordering::Release);
        ready.clear();
        with(|kernel| {
            let state = &mut kernel.queues[self.id as usize];
            state.announced = false;
            let listed = std::mem::take(&mut state.listed);
            for socket in listed {
                let Some(entry) = state.registrations.get_mut(&socket) else { continue };
                entry.listed = false;
                let Registration { token, readable, writable, closed, .. } = *entry;
                (entry.readable, entry.writable, entry.closed) = (false, false, false);
                // It was taken out and added again meanwhile.
                if !readable && !writable && !closed {
                    continue;
                }
                ready.push(Ready { token, readable, writable, closed });
            }
            for last in (1..ready.len()).rev() {
                let other = kernel.random.below(last as u64 + 1) as usize;
                ready.swap(last, other);
            }
        });
    }

    /// Reports `socket` from now on, at once what it is ready for.
    pub fn add(&self, socket: SocketId, token: u64, interest: Interest) {
        with(|kernel| {
            let registration = Registration {
                queue: self.id,
                token,
                interest,
                readable: false,
                writable: false,
                closed: false,
                listed: false,
            };
            let registrations = &mut kernel.queues[self.id as usize].registrations;
            if let Some(before) = registrations.insert(socket, registration)
                && before.listed
            {
                registrations.entry(socket).and_modify(|entry| entry.listed = true);
            }
            kernel.queue_of.insert(socket, self.id);
            kernel.report_all(socket);
        });
    }

    /// Tokens of sockets that have input, or an end of it, which the next wait will not report: it was
    /// reported before.
    pub fn unread(&self) -> Vec<u64> {
        with(|kernel| {
            let registrations = &kernel.queues[self.id as usize].registrations;
            let waits = registrations.iter().filter(|(_, entry)| {
                entry.interest.read && !(entry.listed && (entry.readable || entry.closed))
            });
            let unread = waits.filter(|(socket, _)| match kernel.sockets.get(socket) {
                Some(Socket::Listener) => {
                    kernel.listeners.get(socket).is_some_and(|listener| !listener.backlog.is_empty())
                }
                Some(&Socket::Tcp(connection, side)) => {
                    kernel.connections.get(&connection).is_some_and(|state| state.readiness(side).0)
                }
                Some(Socket::Udp) => kernel.udp.get(socket).is_some_and(|udp| !udp.received.is_empty()),
                None => false,
            });
            unread.map(|(_, entry)| entry.token).collect()
        })
    }

    /// Whether something is to be reported that no wait has taken yet.
    pub fn has_ready(&self) -> bool {
        with(|kernel| kernel.queues[self.id as usize].announced)
    }

    /// Tokens of connections that have room of which neither the next wait nor a later one will tell.
    pub fn unreported_room(&self) -> Vec<u64> {
        with(|kernel| {
            let registrations = &kernel.queues[self.id as usize].registrations;
            let waits = registrations
                .iter()
                .filter(|(_, entry)| entry.interest.write && !(entry.listed && entry.writable));
            let untold = waits.filter(|(socket, _)| match kernel.sockets.get(socket) {
                Some(&Socket::Tcp(connection, side)) => {
                    kernel.connections.get(&connection).is_some_and(|state| state.has_untold_room(side))
                }
                _ => false,
            });
            untold.map(|(_, entry)| entry.token).collect()
        })
    }

    /// Reports nothing of `socket` any more.
    pub fn remove(&self, socket: SocketId) {
        with(|kernel| {
            kernel.queues[self.id as usize].registrations.remove(&socket);
            kernel.queue_of.remove(&socket);
        });
    }
}

impl Kernel {
    /// What happened at a socket is to be reported by the queue that has it.
    pub(crate) fn report(&mut self, socket: SocketId, readable: bool, writable: bool, closed: bool) {
        let Some(&queue) = self.queue_of.get(&socket) else { return };
        let state = &mut self.queues[queue as usize];
        let Some(entry) = state.registrations.get_mut(&socket) else { return };
        debug_assert_eq!(entry.queue, queue);
        let (readable, writable) = (readable && entry.interest.read, writable && entry.interest.write);
        if !readable && !writable && !closed {
            return;
        }
        entry.readable |= readable;
        entry.writable |= writable;
        entry.closed |= closed;
        if !entry.listed {
            entry.listed = true;
            state.listed.push(socket);
        }
        if !state.announced {
            state.announced = true;
            self.ready_queues.push_back(queue);
        }
    }

    /// Reports all that a socket is ready for.
    pub(crate) fn report_all(&mut self, socket: SocketId) {
        match self.sockets.get(&socket) {
            Some(Socket::Listener) => {
                let waits = self.listeners.get(&socket).is_some_and(|listener| !listener.backlog.is_empty());
                self.report(socket, waits, false, false);
            }
            Some(&Socket::Tcp(connection, side)) => {
                let Some(state) = self.connections.get(&connection) else { return };
                let (readable, writable, closed) = state.readiness(side);
                self.report(socket, readable, writable, closed);
            }
            Some(Socket::Udp) => {
                let waits = self.udp.get(&socket).is_some_and(|udp| !udp.received.is_empty());
                self.report(socket, waits, true, false);
            }
            None => {}
        }
    }

    /// A handle is closed.
    pub(crate) fn forget_socket(&mut self, socket: SocketId) {
        self.sockets.remove(&socket);
        if let Some(queue) = self.queue_of.remove(&socket) {
            self.queues[queue as usize].registrations.remove(&socket);
        }
    }

    /// A call is interrupted, or something is reported that is not so.
    pub(crate) fn disturb(&mut self, socket: SocketId) -> std::io::Result<()> {
        if self.faults.false_report > 0.0 && self.random.chance(self.faults.false_report) {
            let (readable, writable) = (self.random.chance(0.5), self.random.chance(0.5));
            self.report(socket, readable, writable, false);
        }
        if self.faults.interrupt > 0.0 && self.random.chance(self.faults.interrupt) {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        Ok(())
    }
}

impl Drop for EventQueue {
    fn drop(&mut self) {
        with_any(|kernel| {
            if let Some(state) = kernel.queues.get_mut(self.id as usize) {
                let sockets: Vec<SocketId> = state.registrations.drain().map(|(socket, _)| socket).collect();
                for socket in sockets {
                    kernel.queue_of.remove(&socket);
                }
            }
        });
    }
}
