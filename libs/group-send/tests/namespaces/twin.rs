//! A twin that only sends takes nothing from the socket that receives.

use crate::Privileged;
use crate::backends::{self, Need};
use crate::every_byte::Family;
use crate::host::{FAR_V4, Link, NEAR_DEVICE, NEAR_V4};
use group_send::{BackendKind, Config, Sender, socket};
use std::collections::HashMap;
use std::net::UdpSocket;
use std::time::Duration;

pub(crate) fn trials() -> Vec<Privileged> {
    let kind = BackendKind::Sendmmsg;
    vec![Privileged::new("twin::joined_datagrams", Need::Backend(kind), move || joined_datagrams(kind))]
}

const FLOWS: usize = 40;
const DATAGRAMS: usize = 8;
const BYTES: usize = 1_000;

/// Datagrams in a row from one sender come joined (`UDP_GRO`), whoever it is: before it knows which of two
/// sockets at the address a datagram is for, the kernel asks either whether it takes them joined.
fn joined_datagrams(kind: BackendKind) {
    let link = Link::new();
    link.near.program(&["ethtool", "-K", NEAR_DEVICE, "gro", "on"], "");
    // What has come waits 50 ms for more.
    link.near.write_setting(NEAR_DEVICE, "gro_flush_timeout", "50000000");
    link.near.write_setting(NEAR_DEVICE, "napi_defer_hard_irqs", "1000");
    let receiver = link.socket(Family::V4.wildcard());
    receiver.set_nonblocking(false).expect("O_NONBLOCK");
    receiver.set_read_timeout(Some(Duration::from_secs(5))).expect("SO_RCVTIMEO");
    socket::enable_gro(&receiver).expect("UDP_GRO");
    let config = Config { twin: true, ..backends::only(kind) };
    let sender = link.near.run(|| Sender::new(&receiver, &config)).expect("a sender");
    assert_eq!(sender.twin_refused(), None);

    let port = receiver.local_addr().expect("bound").port();
    let senders: Vec<_> =
        (0..FLOWS).map(|_| link.far.run(|| UdpSocket::bind((FAR_V4[0], 0)).expect("bind"))).collect();
    let (mut buffer, mut longest) = (vec![0; 1 << 16], HashMap::new());
    for sender in &senders {
        for _ in 0..DATAGRAMS {
            sender.send_to(&[7; BYTES], (NEAR_V4, port)).expect("sent");
        }
        let mut bytes = 0;
        while bytes < DATAGRAMS * BYTES {
            let (len, source) = receiver.recv_from(&mut buffer).expect("a datagram");
            let longest = longest.entry(source).or_insert(0);
            *longest = len.max(*longest);
            bytes += len;
        }
    }
    let apart = longest.values().filter(|longest| **longest == BYTES).count();
    assert_eq!(apart, 0, "of {FLOWS} senders");
}
