//! One socket of IPv6 reaches recipients of both families, in one group and in one batch.
#![cfg(target_os = "linux")]

use crate::common::{
    Group, Private, Receivers, Sizes, assert_all_sent, flush_whole, loopback, prefer, send_whole,
};
use group_send::{BackendKind, Config, SendError, Sender, Slot, socket};
use std::net::SocketAddr;

#[test]
fn a_dual_stack_socket_reaches_both() {
    for kind in [BackendKind::Sendmsg, BackendKind::Sendmmsg, BackendKind::Gso] {
        let socket = socket::bind_dual_stack(0).unwrap();
        let mut sender = Sender::new(&socket, &prefer(&[kind])).unwrap();
        let mut receivers = Receivers::bind(&loopback::BOTH, 9);
        for packets in [1, 4, 70] {
            let mut group = Group::new(&receivers.addresses(), packets, Sizes::Equal(333), Private::Mixed);
            assert_all_sent(&group, &send_whole(&group, &mut sender, &socket).0);
            receivers.expect_group(&group);
            flush_whole(&group, &mut sender, &socket);
            receivers.expect_group(&group);
            // The same addresses in the form that an IPv6 socket receives them in.
            for member in &mut group.members {
                member.destination = mapped(member.destination);
            }
            assert_all_sent(&group, &send_whole(&group, &mut sender, &socket).0);
            receivers.expect_group(&group);
        }
    }
}

#[test]
fn an_ipv4_socket_says_which_recipients_it_cannot_reach() {
    let socket = loopback::socket();
    let mut sender = Sender::new(&socket, &Config::default()).unwrap();
    let mut receivers = Receivers::bind(&loopback::BOTH, 4);
    let group = Group::new(&receivers.addresses(), 3, Sizes::Equal(50), Private::None);
    let (slots, _) = send_whole(&group, &mut sender, &socket);
    for (member, slot) in slots.iter().enumerate() {
        if group.members[member].destination.is_ipv4() {
            assert_eq!(*slot, Slot { sent: 3, failed: 0, error: None });
            receivers.expect(member, group.datagrams(member), &group.remark);
        } else {
            assert_eq!(*slot, Slot { sent: 0, failed: 3, error: Some(SendError::WrongFamily) });
        }
    }
    receivers.expect_nothing_more(&group.remark);
}

fn mapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped(), v4.port()).into(),
        v6 => v6,
    }
}
