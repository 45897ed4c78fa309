//! A flush sends no more bytes than its budget, and the next one continues where it stopped.
#![cfg(target_os = "linux")]

use crate::common::group::{Part, bytes};
use crate::common::{Receivers, loopback};
use group_send::{BatchLimits, Config, SendBatch, Sender};

#[test]
fn flushes_within_a_budget_send_everything_in_turn() {
    for budget in [500, 501, 999, 1000, 1700, 65_000] {
        let socket = loopback::socket();
        let mut sender = Sender::new(&socket, &Config::default()).unwrap();
        let mut receivers = Receivers::bind(&loopback::V4, 3);
        let mut batch = filled(&receivers);
        let (mut sent_bytes, mut flushes) = (0, 0);
        while !batch.is_empty() {
            let before = bytes_waiting(&mut batch);
            let progress = sender.flush(&mut batch, budget);
            let sent = before - bytes_waiting(&mut batch);
            assert!(sent <= budget, "{sent} bytes in a budget of {budget}");
            assert!(progress.sent > 0 && !progress.blocked && progress.failed == 0, "{progress:?}, {budget}");
            // It stops only at a datagram that does not fit, and none is longer than 500.
            assert!(batch.is_empty() || sent + 500 > budget, "{sent} bytes of a budget of {budget}");
            sent_bytes += sent;
            flushes += 1;
        }
        assert_eq!(sent_bytes, (0..60).map(|number| datagram(number).len()).sum::<usize>());
        assert_eq!(flushes > 1, sent_bytes > budget);
        for recipient in 0..3 {
            receivers.expect(recipient, (0..20).map(|turn| datagram(3 * turn + recipient)), "in budgets");
        }
        receivers.expect_nothing_more("in budgets");
    }
}

#[test]
fn a_budget_of_nothing_sends_nothing_that_has_bytes() {
    let socket = loopback::socket();
    let mut sender = Sender::new(&socket, &Config::default()).unwrap();
    let mut receivers = Receivers::bind(&loopback::V4, 3);
    let mut batch = filled(&receivers);
    let progress = sender.flush(&mut batch, 0);
    assert_eq!((progress.sent, progress.failed, progress.blocked, batch.len()), (0, 0, false, 60));
    receivers.expect_nothing_more("in no budget");
}

fn filled(receivers: &Receivers) -> SendBatch {
    let mut batch = SendBatch::new(BatchLimits::default());
    for number in 0..60 {
        batch.push(receivers.addresses()[number % 3], &datagram(number)).unwrap();
    }
    batch
}

fn datagram(number: usize) -> Vec<u8> {
    bytes(Part::Shared, 0, number, [500, 500, 123][number % 3])
}

fn bytes_waiting(batch: &mut SendBatch) -> usize {
    let mut waiting = 0;
    batch.retain(|_, bytes| {
        waiting += bytes.len();
        true
    });
    waiting
}
