//! Takes new connections from the listening sockets of one worker.
//!
//! A part of what waits is taken per turn, so that media goes first. While the system has no descriptors
//! left, nothing is taken: trying again at once would only turn the loop.

use std::io;
use std::net::SocketAddr;

use crate::context::Context;
use crate::net::listen::{Entry, Listeners};
use crate::net::{EventQueue, Interest, TcpSocket, Token};

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
}

impl Acceptor {
    /// Adds `listeners` to the event queue.
    pub(crate) fn new(listeners: Listeners, events: &EventQueue) -> io::Result<Self> {
        for (index, (_, listener)) in listeners.iter().enumerate() {
            events.add(listener, Token::Listener(index), Interest::Read)?;
        }
        Ok(Self { listeners, ready: Vec::new(), later: Vec::new(), taken: 0, paused_until_ms: None })
    }

    /// A listener has connections.
    pub(crate) fn event(&mut self, listener: usize) {
        // After a pause all of them are looked at.
        if !self.is_paused() {
            self.ready.push(listener);
        }
    }

    /// Whether connections wait for the next turn.
    pub(crate) fn has_more(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether the system has no descriptors left.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused_until_ms.is_some()
    }

    /// The next connection of this turn.
    pub(crate) fn next(&mut self, ctx: &mut Context) -> Option<(Entry, TcpSocket, SocketAddr)> {
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
                    Ok((socket, address)) => return Some((*entry, socket, unmapped(address))),
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
