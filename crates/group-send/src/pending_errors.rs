//! Errors that came back from the network, until their recipients are sent to again.
//!
//! An answer such as "port unreachable" arrives after the datagram has left. As with a connected socket, the next
//! datagram for that address fails in its stead; on a socket with many recipients the kernel's queue of errors says
//! whose it was.

use crate::error::SendError;
use crate::socket;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// Addresses remembered at most; what comes in beyond is forgotten, and told again when the next datagram is refused.
const ERRORS_MAX: usize = 256;

/// Errors by the address that the datagram was sent to.
#[derive(Default)]
pub(crate) struct PendingErrors {
    errors: Vec<(SocketAddr, SendError)>,
}

impl PendingErrors {
    /// Takes in what the socket has queued, and says whether that was anything.
    pub(crate) fn drain(&mut self, socket: BorrowedFd<'_>) -> bool {
        socket::drain_errors(socket, |destination, error| self.add(destination, error))
    }

    pub(crate) fn add(&mut self, destination: SocketAddr, error: SendError) {
        if self.errors.len() < ERRORS_MAX && !self.contains(&destination) {
            self.errors.push((destination, error));
        }
    }

    /// The error that waits for this address, which is told once.
    pub(crate) fn take(&mut self, destination: &SocketAddr) -> Option<SendError> {
        let index = self.errors.iter().position(|(address, _)| same_address(address, destination))?;
        Some(self.errors.swap_remove(index).1)
    }

    #[cfg(feature = "tc-clone")]
    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    pub(crate) fn contains(&self, destination: &SocketAddr) -> bool {
        self.errors.iter().any(|(address, _)| same_address(address, destination))
    }
}

/// The kernel's answer has neither the flow label nor always the scope that the caller gave.
fn same_address(left: &SocketAddr, right: &SocketAddr) -> bool {
    left.port() == right.port() && left.ip().to_canonical() == right.ip().to_canonical()
}
