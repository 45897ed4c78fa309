//! What workers that share a port pass on to each other (`packets/passing.rs`).

use std::net::SocketAddr;

use rtc::Path;
use rtc::tcp_framing::Deframer;

use crate::ids::PortId;
use crate::net::TcpSocket;

/// What one worker passes on to another.
#[derive(Debug)]
pub(crate) enum Passed {
    /// Datagrams of its sessions.
    Datagrams(Box<Datagrams>),
    /// A connection of ICE-TCP for one of its sessions.
    Connection(Box<Connection>),
    /// One of the sender's sessions is heard from this address, which leads to the receiver.
    Bound { port: PortId, remote: SocketAddr },
    /// No longer.
    Unbound { port: PortId, remote: SocketAddr },
    /// The sender's sessions are still heard from these, which the kernel no longer gives to the receiver;
    /// and how many milliseconds ago.
    Heard(Vec<(PortId, SocketAddr, u64)>),
    /// To the sender of [`Passed::Bound`]: the address is another session's.
    Refused { port: PortId, remote: SocketAddr },
}

/// Datagrams one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    pub(crate) bytes: Vec<u8>,
    /// Of each the port that it came to, where it is from, and its length.
    pub(crate) each: Vec<(PortId, SocketAddr, usize)>,
}

/// A connection in no event queue, and what was read from it.
pub(crate) struct Connection {
    pub(crate) socket: TcpSocket,
    pub(crate) path: Path,
    /// The datagram that says whose it is.
    pub(crate) first: Vec<u8>,
    /// What came behind it.
    pub(crate) deframer: Deframer,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("path", &self.path).finish_non_exhaustive()
    }
}
