//! However recipients take turns in a batch, each one's datagrams arrive in the order in which they
//! were written.
#![cfg(target_os = "linux")]

use crate::common::group::{Part, bytes};
use crate::common::{Receivers, loopback, prefer};
use group_send::{BackendKind, BatchLimits, SendBatch, Sender};

/// Turns of taking: which of seven recipients gets the next datagram.
const TURNS: [(&str, &[usize]); 5] = [
    ("round", &[0, 1, 2, 3, 4, 5, 6]),
    ("frames of three", &[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6]),
    ("there and back", &[0, 1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1, 0]),
    ("one often, others rarely", &[0, 0, 1, 0, 0, 2, 0, 3, 0, 4, 0, 5, 0, 0, 6]),
    ("one alone", &[4]),
];

#[test]
fn order_is_that_of_writing() {
    for kind in [BackendKind::Sendmsg, BackendKind::Sendmmsg, BackendKind::Gso] {
        let socket = loopback::socket();
        let mut sender = Sender::new(&socket, &prefer(&[kind])).unwrap();
        let mut receivers = Receivers::bind(&loopback::V4, 7);
        let addresses = receivers.addresses();
        for (remark, turns) in TURNS {
            let mut batch = SendBatch::new(BatchLimits::default());
            let mut written = [0; 7];
            for &recipient in turns.iter().cycle().take(300) {
                let datagram = datagram(recipient, written[recipient]);
                batch.push(addresses[recipient], &datagram).unwrap();
                written[recipient] += 1;
            }
            let progress = sender.flush(&mut batch, usize::MAX);
            assert_eq!((progress.sent, progress.failed, batch.len()), (300, 0, 0), "{kind}: {remark}");
            for (recipient, &count) in written.iter().enumerate() {
                receivers.expect(recipient, (0..count).map(|number| datagram(recipient, number)), remark);
            }
            receivers.expect_nothing_more(remark);
        }
    }
}

/// Equal lengths with a shorter and a longer one now and then, so that runs form and break.
fn datagram(recipient: usize, number: usize) -> Vec<u8> {
    bytes(Part::Shared, recipient, number, [300, 300, 300, 40, 300, 301, 0][number % 7])
}
