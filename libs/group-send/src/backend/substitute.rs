//! The socket back end over something that takes the kernel's place, for simulations.
//!
//! Everything above the system call is as with a socket: the order of a flush, runs, what is tried
//! again and what is given up.

use super::Backend;
use super::mmsg::{Kernel, Mmsg};
use crate::config::BackendKind;
use crate::datagram::Datagram;
use crate::linux::{Family, Message};
use crate::pending_errors::PendingErrors;
use crate::recv::Ecn;
use crate::sender::Sender;
use socket2::SockRef;
use std::net::SocketAddr;

/// A message as `sendmmsg(2)` gets it: a datagram, or a run of them (`UDP_SEGMENT`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// The recipient.
    pub destination: SocketAddr,
    /// Its datagrams: all of one length, but the last that may be shorter.
    pub segments: Vec<Vec<u8>>,
    /// Their mark.
    pub ecn: Ecn,
}

/// What takes the kernel's place in sending.
pub trait OutgoingMessages: Send {
    /// Takes messages in order and says how many were taken.
    ///
    /// # Errors
    /// `errno` of the first message. Of a later one it is not said.
    fn send(&mut self, messages: Vec<OutgoingMessage>) -> Result<usize, i32>;
}

/// A sender by this way ([`BackendKind::Gso`], [`BackendKind::Sendmmsg`] or
/// [`BackendKind::Sendmsg`]) over what takes the kernel's place, for recipients of both families.
pub fn sender_over(kind: BackendKind, kernel: impl OutgoingMessages + 'static) -> Sender {
    let backend: Box<dyn Backend> = Box::new(Mmsg::new(Substitute(kernel), kind, Family::Dual));
    Sender::over(backend)
}

struct Substitute<K>(K);

impl<K: OutgoingMessages> Kernel for Substitute<K> {
    fn send_to(&mut self, to: &SocketAddr, datagram: &[u8]) -> Result<(), i32> {
        let message =
            OutgoingMessage { destination: *to, segments: vec![datagram.to_vec()], ecn: Ecn::NotEct };
        self.0.send(vec![message]).map(drop)
    }

    fn send_messages(&mut self, messages: &[Message<'_>]) -> Result<usize, i32> {
        let bytes = |datagram: &Datagram<'_>| datagram.parts.concat();
        let messages = messages.iter().map(|message| OutgoingMessage {
            destination: *message.datagrams[0].destination,
            segments: message.datagrams.iter().map(bytes).collect(),
            ecn: message.datagrams[0].ecn,
        });
        self.0.send(messages.collect())
    }

    fn has_departure_clock(&self) -> bool {
        false
    }

    fn traffic_class(&self, _is_ipv4: bool) -> u8 {
        0
    }

    fn use_twin(&mut self, _caller: &SockRef<'_>, _steered: bool) -> Result<(), String> {
        Err("there is no socket".to_owned())
    }

    fn drain_errors(&mut self, _errors: &mut PendingErrors) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BatchLimits, SendBatch};

    /// Has room for so many messages, and passes what it takes on.
    struct Room(usize, std::sync::mpsc::Sender<OutgoingMessage>);

    impl OutgoingMessages for Room {
        fn send(&mut self, messages: Vec<OutgoingMessage>) -> Result<usize, i32> {
            let taken = messages.len().min(self.0);
            self.0 -= taken;
            messages.into_iter().take(taken).for_each(|message| self.1.send(message).expect("it is there"));
            if taken == 0 { Err(libc::EAGAIN) } else { Ok(taken) }
        }
    }

    #[test]
    fn a_flush_is_cut_into_runs_and_stops_between_two_of_them() {
        let to = |port| SocketAddr::from(([127, 0, 0, 1], port));
        for (kind, sent, shapes) in [
            (BackendKind::Gso, 6, vec![(1, 3), (1, 1), (2, 2)]),
            (BackendKind::Sendmmsg, 3, vec![(1, 1), (1, 1), (1, 1)]),
        ] {
            let (passed, taken) = std::sync::mpsc::channel();
            let mut sender = sender_over(kind, Room(3, passed));
            let mut batch = SendBatch::new(BatchLimits::default());
            for (port, len) in [(1, 9), (2, 5), (1, 9), (2, 4), (1, 7), (1, 8), (3, 1)] {
                batch.push(to(port), &vec![port as u8; len]).expect("room");
            }
            let progress = sender.flush(&mut batch, usize::MAX);
            assert_eq!((progress.sent, progress.failed, progress.blocked), (sent, 0, true), "{kind}");
            assert_eq!(batch.len(), 7 - sent);
            let taken = taken.try_iter();
            let taken: Vec<_> =
                taken.map(|message| (message.destination.port(), message.segments.len())).collect();
            assert_eq!(taken, shapes, "{kind}");
        }
    }
}
