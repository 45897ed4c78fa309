//! Takes new connections from the listening sockets of one worker.
//!
//! A part of what waits is taken per turn, so that media goes first. While the system has no descriptors
//! left, nothing is taken: trying again at once would only turn the loop.

use std::io;
use std::net::SocketAddr;

use crate::context::Context;
use crate::net::listen::{Accepted, Listeners};
use crate::net::{EventQueue, Interest, Token};

/// Connections accepted per listener and turn; the rest wait for the next turn, media goes first.
const ACCEPTS_MAX: usize = 256;
/// Pause after the system ran out of file descriptors, milliseconds.
const PAUSE_MS: u64 = 200;

/// The listening sockets of a worker, and which of them have connections.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listeners: Listeners,
    ready: Vec<usize>,
    /// Those that had their share of this turn.
    later: Vec<usize>,
    /// How many the last of `ready` has given this turn.
    taken: usize,
    paused_until_ms: Option<u64>,
    /// Another process may be about to accept instead.
    held_until_ms: Option<u64>,
}

impl Acceptor {
    /// Adds `listeners` to the event queue.
    pub(crate) fn new(listeners: Listeners, events: &EventQueue) -> io::Result<Self> {
        for (index, (_, listener)) in listeners.iter().enumerate() {
            events.add(listener, Token::Listener(index), Interest::Read)?;
        }
        Ok(Self {
            listeners,
            ready: Vec::new(),
            later: Vec::new(),
            taken: 0,
            paused_until_ms: None,
            held_until_ms: None,
        })
    }

    /// A listener has connections.
    pub(crate) fn event(&mut self, listener: usize) {
        // After a pause all of them are looked at. One that had its share is there already.
        if !self.is_paused() && !self.ready.contains(&listener) {
            self.ready.push(listener);
        }
    }

    /// Whether connections wait for the next turn.
    pub(crate) fn has_more(&self) -> bool {
        !self.ready.is_empty() && self.held_until_ms.is_none()
    }

    /// Leaves connections to wait in the kernel until then.
    pub(crate) fn hold(&mut self, until_ms: u64) {
        self.held_until_ms = Some(until_ms);
    }

    /// Whether the system has no descriptors left.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused_until_ms.is_some()
    }

    /// The next connection of this turn.
    pub(crate) fn next(&mut self, ctx: &mut Context) -> Option<Accepted> {
        // Deadlines are looked at often enough to notice the end of it.
        self.held_until_ms.take_if(|until_ms| ctx.now_ms >= *until_ms);
        if self.held_until_ms.is_some() {
            return None;
        }
        if let Some(until_ms) = self.paused_until_ms {
            if ctx.now_ms < until_ms {
                return None;
            }
            self.paused_until_ms = None;
            self.ready = (0..self.listeners.len()).collect();
        }
        while let Some((entry, socket)) = self.ready.last().and_then(|last| self.listeners.get(*last)) {
            if self.taken < ACCEPTS_MAX {
                self.taken += 1;
                match socket.accept() {
                    Ok((socket, address)) => {
                        return Some(Accepted { entry: *entry, socket, address: unmapped(address) });
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) if out_of_descriptors(&error) => {
                        self.pause(ctx, &error);
                        return None;
                    }
                    Err(error) => {
                        // The connection was gone before it was accepted; the next one may be fine.
                        tracing::debug!(%error, "accept failed");
                        continue;
                    }
                }
                self.ready.pop();
            } else {
                self.later.extend(self.ready.pop());
            }
            self.taken = 0;
        }
        self.ready.clear();
        std::mem::swap(&mut self.ready, &mut self.later);
        None
    }

    fn pause(&mut self, ctx: &mut Context, error: &io::Error) {
        ctx.counters.accept_pauses += 1;
        self.paused_until_ms = Some(ctx.now_ms + PAUSE_MS);
        self.ready.clear();
        self.later.clear();
        self.taken = 0;
        if ctx.counters.accept_pauses % 50 == 1 {
            tracing::warn!(%error, "out of file descriptors: accepting pauses");
        }
    }

    /// Stops accepting for good.
    pub(crate) fn stop(&mut self, events: &EventQueue) {
        for (_, listener) in std::mem::take(&mut self.listeners) {
            events.remove(&listener);
        }
    }
}

fn out_of_descriptors(error: &io::Error) -> bool {
    // Per process, system-wide, or no kernel memory for a socket.
    matches!(
        error.raw_os_error(),
        Some(nix::libc::EMFILE | nix::libc::ENFILE | nix::libc::ENOBUFS | nix::libc::ENOMEM)
    )
}

/// An IPv4 peer of an IPv6 socket is an IPv4 peer.
fn unmapped(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;
    use crate::event_loop::Worker;
    use crate::fullness::Second;
    use crate::net::listen;
    use crate::net::shared_sockets::SharedSockets;
    use crate::packets::panic_tests::workers;
    use worker_api::settings::WorkerSettings;

    const SESSIONS_MAX: usize = 4;

    /// Two workers, of which the first has the only listener, at this address.
    fn two_workers(sessions_max: usize) -> (Worker, Worker, SocketAddr) {
        let http = vec!["127.0.0.1:0".parse().expect("an address")];
        let settings = WorkerSettings { workers: 1, http, sessions_max, ..WorkerSettings::default() };
        let (addresses, mut listeners) =
            listen::bind(&settings, &mut SharedSockets::default()).expect("a port");
        let both = vec![listeners.remove(0), Vec::new()];
        let mut both = workers(settings, both).into_iter().map(|(worker, _)| worker);
        (both.next().expect("a worker"), both.next().expect("a worker"), addresses.http[0])
    }

    /// Has the first worker accept so many connections.
    fn connect(worker: &mut Worker, address: SocketAddr, count: usize) -> Vec<TcpStream> {
        let connect = |_| TcpStream::connect(address).expect("a connection");
        let clients: Vec<TcpStream> = (0..count).map(connect).collect();
        worker.acceptor.event(0);
        worker.turn(&[]);
        clients
    }

    fn is_closed(client: &mut TcpStream) -> bool {
        client.set_nonblocking(true).expect("a socket option");
        !client.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Accepted, handed over, refused.
    fn counted(worker: &Worker) -> (u64, u64, u64) {
        let counters = &worker.ctx.counters;
        (counters.accepted, counters.handed_over, counters.refused_full)
    }

    #[test]
    fn connections_of_a_full_worker_are_taken_by_another_and_counted_once() {
        let (mut first, mut second, address) = two_workers(SESSIONS_MAX);
        let mut clients = connect(&mut first, address, 2 * SESSIONS_MAX);
        second.turn(&[]);
        assert_eq!((counted(&first), counted(&second)), ((4, 4, 0), (4, 0, 0)));
        assert_eq!((first.connections.sessions.len(), second.connections.sessions.len()), (4, 4));
        assert!(!clients.iter_mut().any(is_closed));
        // No worker has room: the one that accepted it refuses it.
        let mut late = connect(&mut first, address, 1);
        second.turn(&[]);
        assert_eq!((counted(&first), counted(&second)), ((5, 4, 1), (4, 0, 0)));
        assert!(is_closed(&mut late[0]));
    }

    /// A second of a worker that is full.
    fn busy() -> Second {
        Second { load_percent: 90.0, ..Second::default() }
    }

    #[test]
    fn what_is_on_its_way_counts_and_a_full_queue_keeps_the_rest() {
        let (mut first, mut second, address) = two_workers(1000);
        first.ctx.mailboxes.fullness().sample(busy());
        let clients = connect(&mut first, address, 50);
        // The other does not turn meanwhile: as many as the queue holds are handed over.
        assert_eq!(counted(&first), (18, 32, 0));
        assert_eq!(second.ctx.mailboxes.fullness().read().connections, 32, "they are promised");
        second.turn(&[]);
        assert_eq!((counted(&second), second.connections.sessions.len()), ((32, 0, 0), 32));
        assert_eq!(second.ctx.mailboxes.fullness().read().connections, 32, "and are there");
        let more = connect(&mut first, address, 1);
        second.turn(&[]);
        assert_eq!((counted(&first), counted(&second)), ((18, 33, 0), (33, 0, 0)));
        drop((clients, more));
    }

    #[test]
    fn a_worker_that_stops_is_handed_nothing_and_closes_what_was_on_its_way() {
        let (mut first, mut second, address) = two_workers(1000);
        first.ctx.mailboxes.fullness().sample(busy());
        let mut clients = connect(&mut first, address, 2);
        second.drain(Duration::from_secs(5));
        second.turn(&[]);
        assert!(second.connections.sessions.len() == 0);
        assert!(clients.iter_mut().all(is_closed));
        let _kept = connect(&mut first, address, 1);
        assert_eq!((counted(&first), counted(&second)), ((1, 2, 0), (0, 0, 0)));
    }
}
