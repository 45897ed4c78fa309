//! A TCP connection of an actor: bytes in, bytes out, and how fast it reads.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use netsim::kernel::{EventQueue, Interest, TcpSocket};

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The server said that nothing follows.
    Closed,
    /// It was reset, or never came about.
    Broken,
}

/// A connection to a server.
#[derive(Debug)]
pub struct Line {
    socket: Option<TcpSocket>,
    /// What waits to be sent.
    pub out: Vec<u8>,
    ended: Option<Ended>,
}

impl Line {
    /// Connects, and is in `queue`.
    pub fn connect(queue: &EventQueue, from: IpAddr, to: SocketAddr) -> Self {
        let socket = TcpSocket::connect(from, to);
        queue.add(socket.id(), 0, Interest { read: true, write: true });
        Self { socket: Some(socket), out: Vec::new(), ended: None }
    }

    /// Reads up to `most` bytes into `into`; says whether there was an end.
    pub fn read(&mut self, most: usize, into: &mut Vec<u8>) -> Option<Ended> {
        let mut buffer = [0; 16 << 10];
        let mut left = most;
        while left > 0
            && self.ended.is_none()
            && let Some(socket) = &mut self.socket
        {
            let len = left.min(buffer.len());
            match socket.read(&mut buffer[..len]) {
                Ok(0) => self.ended = Some(Ended::Closed),
                Ok(len) => {
                    into.extend_from_slice(&buffer[..len]);
                    left -= len;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.ended = Some(Ended::Broken),
            }
        }
        self.ended
    }

    /// Sends as much as the socket takes.
    pub fn flush(&mut self) {
        while !self.out.is_empty()
            && let Some(socket) = &mut self.socket
        {
            match socket.write(&self.out) {
                Ok(len) => drop(self.out.drain(..len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.ended.get_or_insert(Ended::Broken);
                    self.out.clear();
                }
            }
        }
    }

    /// Says that nothing follows.
    pub fn finish(&mut self) {
        if let Some(socket) = &self.socket {
            let _ = socket.shutdown_write();
        }
    }

    /// Closes it; with a reset if it is to be.
    pub fn close(&mut self, reset: bool) {
        match self.socket.take() {
            Some(socket) if reset => socket.reset(),
            socket => drop(socket),
        }
    }

    /// Whether it is closed on this side.
    pub fn is_closed(&self) -> bool {
        self.socket.is_none()
    }

    /// Whether the connection has come about.
    pub fn is_established(&self) -> bool {
        self.socket.as_ref().is_some_and(TcpSocket::is_established)
    }

    /// Whether a worker has accepted the connection. Before that it may wait for as long as the server has
    /// no descriptor for it.
    pub fn is_accepted(&self) -> bool {
        self.socket.as_ref().is_some_and(TcpSocket::is_accepted)
    }

    /// When the last of what was sent so far reaches the server, or has reached it: on a slow line that is
    /// seconds after it was sent.
    pub fn last_arrival(&self) -> Option<Instant> {
        self.socket.as_ref()?.last_arrival()
    }

    /// Our address.
    pub fn local(&self) -> Option<SocketAddr> {
        self.socket.as_ref()?.local_addr().ok()
    }
}
