//! ICMP errors that came back from the network, kept until the next send to their recipient.
//!
//! An error such as "port unreachable" arrives after the datagram has left. As with a connected
//! socket, the next datagram to that address fails in its place; on a socket with many recipients
//! the kernel's error queue says whose it was. Recipients that are never sent to again must not
//! stay here for ever, and this crate reads no clock: errors age by the number of datagrams sent to
//! others.

use crate::error::SendError;
use crate::socket;
use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, SocketAddrV6};
use std::os::fd::BorrowedFd;

/// Addresses remembered, at most. Then the oldest is forgotten; it is reported again when its next
/// datagram is refused.
const ERRORS_MAX: usize = 256;

/// Datagrams after which an error is forgotten.
const DATAGRAMS_MAX: u64 = 65_536;

/// Errors by the address that the datagram was sent to.
#[derive(Default)]
pub(crate) struct PendingErrors {
    errors: HashMap<SocketAddr, SendError>,
    /// Oldest first, with the number of datagrams that had been sent.
    ages: VecDeque<(SocketAddr, u64)>,
    datagrams: u64,
}

impl PendingErrors {
    /// Reads what the socket has queued, and says whether there was anything.
    pub(crate) fn drain(&mut self, socket: BorrowedFd<'_>) -> bool {
        socket::drain_errors(socket, |destination, error| self.add(destination, error))
    }

    pub(crate) fn add(&mut self, destination: SocketAddr, error: SendError) {
        let address = canonical(&destination);
        if self.errors.contains_key(&address) {
            return;
        }
        if self.ages.len() >= ERRORS_MAX {
            self.forget_oldest();
        }
        self.errors.insert(address, error);
        self.ages.push_back((address, self.datagrams));
    }

    /// This many datagrams are about to be sent.
    pub(crate) fn age(&mut self, datagrams: usize) {
        self.datagrams += datagrams as u64;
        while self.ages.front().is_some_and(|&(_, since)| self.datagrams - since > DATAGRAMS_MAX) {
            self.forget_oldest();
        }
    }

    /// The pending error of this address, which is reported once.
    pub(crate) fn take(&mut self, destination: &SocketAddr) -> Option<SendError> {
        if self.errors.is_empty() {
            return None;
        }
        let address = canonical(destination);
        let error = self.errors.remove(&address)?;
        self.ages.retain(|(other, _)| *other != address);
        Some(error)
    }

    #[cfg(feature = "tc-clone")]
    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    pub(crate) fn contains(&self, destination: &SocketAddr) -> bool {
        !self.errors.is_empty() && self.errors.contains_key(&canonical(destination))
    }

    fn forget_oldest(&mut self) {
        if let Some((address, _)) = self.ages.pop_front() {
            self.errors.remove(&address);
        }
    }
}

/// The form of an address that both the kernel and the caller use: no flow label, and a scope only
/// where it distinguishes hosts (RFC 4007 section 6).
fn canonical(address: &SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => {
            SocketAddrV6::new(*v6.ip(), v6.port(), 0, v6.scope_id()).into()
        }
        _ => SocketAddr::new(address.ip().to_canonical(), address.port()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: usize) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port as u16))
    }

    #[test]
    fn unread_errors_make_room_for_others() {
        let mut errors = PendingErrors::default();
        for port in 1..=3 * ERRORS_MAX {
            errors.add(address(port), SendError::Refused);
            assert!(errors.contains(&address(port)));
        }
        assert!(!errors.contains(&address(1)));
        assert_eq!((errors.errors.len(), errors.ages.len()), (ERRORS_MAX, ERRORS_MAX));
    }

    #[test]
    fn an_error_is_reported_once_and_not_for_ever() {
        let mut errors = PendingErrors::default();
        errors.add(address(1), SendError::Refused);
        errors.add(address(2), SendError::Unreachable);
        assert_eq!(errors.take(&"[::ffff:192.0.2.1]:1".parse().unwrap()), Some(SendError::Refused));
        assert_eq!(errors.take(&address(1)), None);
        errors.age(DATAGRAMS_MAX as usize);
        assert!(errors.contains(&address(2)));
        errors.age(1);
        assert!(!errors.contains(&address(2)) && errors.ages.is_empty());
    }

    #[test]
    fn the_same_link_local_address_on_another_link_is_another_host() {
        let on = |link, flow| SocketAddrV6::new("fe80::1".parse().unwrap(), 5004, flow, link).into();
        let mut errors = PendingErrors::default();
        errors.add(on(2, 0), SendError::Refused);
        assert_eq!(errors.take(&on(3, 0)), None);
        assert_eq!(errors.take(&on(2, 7)), Some(SendError::Refused));
    }
}
