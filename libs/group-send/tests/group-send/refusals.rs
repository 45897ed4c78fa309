//! Only the recipient that refuses fails, also when the kernel's report went to a receive instead
//! of a send.

#![cfg(target_os = "linux")]

use group_send::{
    BatchLimits, Config, Recipient, RecvBatch, RecvConfig, SendBatch, SendError, Sender, Slot, socket,
};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

fn bound() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports")
}

/// An address with a closed port.
fn closed() -> SocketAddr {
    bound().local_addr().expect("a bound socket has an address")
}

#[test]
fn a_report_that_a_receive_swallowed_is_told_to_its_recipient() {
    let (socket, listener, refusing) = (bound(), bound(), closed());
    socket::report_refusals(&socket).expect("Linux has it");
    let mut sender = Sender::new(&socket, &Config::default()).expect("a plain socket");
    let recipients = [refusing, listener.local_addr().unwrap()].map(Recipient::plain);

    let mut slots = [Slot::default(); 2];
    let progress = sender.send_group(&[b"one"], &recipients[..1], &mut slots[..1]);
    assert_eq!(progress.sent, 1);
    let mut received = RecvBatch::new(RecvConfig::default());
    assert_eq!(
        received.recv(&socket).expect_err("nothing was sent here").kind(),
        std::io::ErrorKind::WouldBlock
    );

    assert!(sender.read_refusals());
    assert!(!sender.read_refusals(), "the queue is empty afterwards");
    let mut slots = [Slot::default(); 2];
    let progress = sender.send_group(&[b"two"], &recipients, &mut slots);
    assert_eq!((progress.sent, progress.failed), (1, 1));
    assert_eq!(slots[0].error, Some(SendError::Refused));
    let mut bytes = [0; 8];
    listener.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(listener.recv(&mut bytes).expect("the other one got its datagram"), 3);
}

#[test]
fn without_a_wish_for_reports_nobody_is_told() {
    let (socket, refusing) = (bound(), closed());
    let mut sender = Sender::new(&socket, &Config::default()).expect("a plain socket");
    let mut batch = SendBatch::new(BatchLimits::default());
    for _ in 0..3 {
        batch.push(refusing, b"x").unwrap();
        assert_eq!(sender.flush(&mut batch, usize::MAX).sent, 1);
    }
    assert!(!sender.read_refusals());
}

#[test]
fn slots_of_a_longer_group_are_no_reason_to_panic() {
    let (socket, listener) = (bound(), bound());
    let mut sender = Sender::new(&socket, &Config::default()).expect("a plain socket");
    let malformed =
        Recipient { destination: listener.local_addr().unwrap(), prepend: &[b"one", b"two"], append: &[] };
    let mut slots = [Slot { sent: 0, failed: 5, error: None }];
    let progress = sender.send_group(&[b"1", b"2", b"3"], &[malformed], &mut slots);
    assert_eq!((progress.sent, progress.failed), (0, 0));
    assert_eq!(slots[0].error, Some(SendError::BadPrivate));
}
