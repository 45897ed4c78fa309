//! Departure times change when datagrams leave and nothing else: all arrive, in order, also where
//! no queue knows them.
#![cfg(target_os = "linux")]

use crate::common::group::{Part, bytes};
use crate::common::{Receivers, loopback, prefer};
use group_send::socket::{self, DepartureClock};
use group_send::{BackendKind, BatchLimits, Envelope, SendBatch, Sender};

#[test]
fn datagrams_with_departure_times_arrive() {
    for kind in [BackendKind::Sendmsg, BackendKind::Sendmmsg, BackendKind::Gso] {
        let socket = loopback::socket();
        socket::enable_txtime(&socket, DepartureClock::Monotonic).unwrap();
        let mut sender = Sender::new(&socket, &prefer(&[kind])).unwrap();
        let mut receivers = Receivers::bind(&loopback::V4, 3);
        let addresses = receivers.addresses();
        // None, the same for a whole frame, one for each; all of them past.
        for departure in [|_| 0, |turn| 1 + turn / 4, |turn| 1 + turn] {
            let mut batch = SendBatch::new(BatchLimits::default());
            for turn in 0..20 {
                for (recipient, &address) in addresses.iter().enumerate() {
                    let envelope = Envelope { departure_ns: departure(turn), ..address.into() };
                    batch.push(envelope, &datagram(recipient, turn)).unwrap();
                }
            }
            let progress = sender.flush(&mut batch, usize::MAX);
            assert_eq!((progress.sent, progress.failed, progress.blocked), (60, 0, false), "{kind}");
            for recipient in 0..3 {
                let expected = (0..20).map(|turn| datagram(recipient, turn));
                receivers.expect(recipient, expected, "with departure times");
            }
            receivers.expect_nothing_more("with departure times");
        }
    }
}

/// Without the option the kernel refuses no datagram for having a time.
#[test]
fn a_socket_that_was_not_asked_for_times_sends_at_once() {
    let socket = loopback::socket();
    let mut sender = Sender::new(&socket, &prefer(&[BackendKind::Gso])).unwrap();
    let mut receivers = Receivers::bind(&loopback::V4, 1);
    let mut batch = SendBatch::new(BatchLimits::default());
    for turn in 0..4 {
        let envelope = Envelope { departure_ns: 1 + turn, ..receivers.addresses()[0].into() };
        batch.push(envelope, &datagram(0, turn)).unwrap();
    }
    let progress = sender.flush(&mut batch, usize::MAX);
    assert_eq!((progress.sent, progress.failed), (4, 0), "{:?}", batch.failures());
    receivers.expect(0, (0..4).map(|turn| datagram(0, turn)), "at once");
}

fn datagram(recipient: usize, turn: u64) -> Vec<u8> {
    bytes(Part::Shared, recipient, turn as usize, if turn % 4 == 3 { 99 } else { 600 })
}
