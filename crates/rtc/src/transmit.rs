//! Datagrams of a peer's signalling that wait to be fetched, and how many may.
//!
//! Media never passes here: the worker protects it straight into its send buffers.

use std::collections::VecDeque;

use crate::Path;

/// Datagrams of one peer that may wait for [`Peer::poll_transmit`](crate::Peer::poll_transmit).
///
/// A DTLS flight has up to ten. Excess datagrams are dropped, as a network would; STUN and DTLS
/// both retransmit.
pub const TRANSMITS_MAX: usize = 32;

/// One datagram to send: STUN or DTLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// From which address of ours, to which, over what.
    pub path: Path,
    /// The datagram. On a TCP path the sender puts
    /// [`frame_header`](crate::tcp_framing::frame_header) before it.
    pub bytes: Vec<u8>,
}

/// First in, first out, at most [`TRANSMITS_MAX`].
#[derive(Default)]
pub(crate) struct TransmitQueue {
    waiting: VecDeque<Transmit>,
}

impl TransmitQueue {
    pub(crate) fn push(&mut self, path: Path, bytes: Vec<u8>) {
        if self.waiting.len() < TRANSMITS_MAX {
            self.waiting.push_back(Transmit { path, bytes });
        }
    }

    /// Gives the memory back when the last one leaves: a connected peer sends one answer in
    /// seconds.
    pub(crate) fn pop(&mut self) -> Option<Transmit> {
        let transmit = self.waiting.pop_front();
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
        transmit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_what_comes_last() {
        let path = Path::udp("192.0.2.1:1".parse().unwrap(), "192.0.2.2:2".parse().unwrap());
        let mut queue = TransmitQueue::default();
        for number in 0..TRANSMITS_MAX as u8 + 3 {
            queue.push(path, vec![number]);
        }
        assert_eq!(queue.waiting.len(), TRANSMITS_MAX);
        for number in 0..TRANSMITS_MAX as u8 {
            assert_eq!(queue.pop().unwrap().bytes, [number]);
        }
        assert_eq!(queue.pop(), None);
        assert_eq!(queue.waiting.capacity(), 0);
    }
}
