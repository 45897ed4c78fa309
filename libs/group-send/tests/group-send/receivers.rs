//! The receivers of these tests distinguish datagrams that were lost, overtaken, sent twice or
//! changed.

use crate::common::receivers::{NOT_COME, OVERTAKEN};
use crate::common::{Receivers, loopback};
use std::net::UdpSocket;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The message when these bytes arrive instead of `abc`, one a datagram.
fn complaint(sent: &[u8]) -> Option<String> {
    let mut receivers = Receivers::bind(&loopback::V4, 1);
    let sender = UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
    for byte in sent {
        sender.send_to(&[*byte], receivers.addresses()[0]).expect("loopback takes it");
    }
    let expected = b"abc".iter().map(|&byte| vec![byte]);
    let result = catch_unwind(AssertUnwindSafe(|| receivers.expect(0, expected, "a test of the test")));
    result.err().map(|panic| panic.downcast_ref::<String>().expect("a formatted panic").clone())
}

#[test]
fn what_was_lost_did_not_come_and_what_was_overtaken_did() {
    assert_eq!(complaint(b"abc"), None);
    let cases: [(&[u8], &[&str]); 6] = [
        (b"ac", &[NOT_COME]),
        (b"bc", &[NOT_COME]),
        (b"acb", &[OVERTAKEN]),
        (b"cab", &[OVERTAKEN]),
        (b"aabc", &[]),
        (b"xbc", &[]),
    ];
    for (sent, said) in cases {
        let complaint = complaint(sent).expect("this is not abc");
        for word in [NOT_COME, OVERTAKEN] {
            assert_eq!(complaint.contains(word), said.contains(&word), "{sent:?}: {complaint}");
        }
    }
}
