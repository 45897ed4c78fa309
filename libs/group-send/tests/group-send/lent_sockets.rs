//! A sender that is lent a socket for each call keeps none, and knows one from another.
#![cfg(target_os = "linux")]

use crate::common::{Group, Private, Receivers, Sizes, assert_all_sent, loopback, wait_writable};
use group_send::{LentSender, SendError, SendFlags, SetupError, Slot};
use std::io;
use std::net::UdpSocket;

#[test]
fn groups_go_through_the_socket_that_is_lent() {
    let socket = loopback::socket();
    let mut sender = LentSender::new(&socket).unwrap();
    let mut receivers = Receivers::bind(&loopback::V4, 5);
    for confirm in [false, true] {
        let group = Group::new(&receivers.addresses(), 3, Sizes::Equal(900), Private::Each);
        let mut slots = vec![Slot::default(); 5];
        let progress = group.send_by(|packets, recipients| {
            sender.send_group(&socket, SendFlags { confirm }, packets, recipients, &mut slots)
        });
        assert_eq!((progress.sent, progress.failed, progress.blocked), (15, 0, false));
        assert_all_sent(&group, &slots);
        for member in 0..5 {
            receivers.expect(member, group.datagrams(member), "by a lent socket");
        }
    }
    receivers.expect_nothing_more("by a lent socket");
}

#[test]
fn a_full_socket_is_resumed() {
    let socket = loopback::socket();
    socket2::SockRef::from(&socket).set_send_buffer_size(0).unwrap();
    let mut sender = LentSender::new(&socket).unwrap();
    let receivers = Receivers::bind(&loopback::V4, 3);
    let group = Group::new(&receivers.addresses(), 200, Sizes::Equal(1200), Private::Same);
    let mut slots = vec![Slot::default(); 3];
    while group
        .send_by(|packets, recipients| {
            sender.send_group(&socket, SendFlags::default(), packets, recipients, &mut slots)
        })
        .blocked
    {
        assert!(slots.iter().any(|slot| slot.error == Some(SendError::WouldBlock)));
        wait_writable(&socket);
    }
    assert_all_sent(&group, &slots);
}

#[test]
fn the_socket_is_closed_when_its_owner_closes_it() {
    let socket = loopback::socket();
    let address = socket.local_addr().unwrap();
    let sender = LentSender::new(&socket).unwrap();
    drop(socket);
    let next = UdpSocket::bind(address).expect("the port is free again");
    assert_ne!(LentSender::cookie_of(&next).unwrap(), sender.cookie(), "another socket at the same port");
}

#[test]
fn duplicates_of_a_descriptor_are_one_socket() {
    let socket = loopback::socket();
    let sender = LentSender::new(&socket).unwrap();
    assert_eq!(LentSender::cookie_of(&socket.try_clone().unwrap()).unwrap(), sender.cookie());
    assert_ne!(LentSender::cookie_of(&loopback::socket()).unwrap(), sender.cookie());
}

#[test]
fn what_is_no_udp_socket_is_refused() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    match LentSender::new(&listener) {
        Err(SetupError::Socket(error)) => assert_eq!(error.kind(), io::ErrorKind::InvalidInput),
        other => panic!("{other:?}"),
    }
}
