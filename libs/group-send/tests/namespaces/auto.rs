//! `Config::auto` takes what costs least, by an interface that nobody has named, where rights and the
//! device allow, and says why not where they do not.

use crate::Privileged;
use crate::backends::Need;
use crate::common::{Group, Private, Receivers, Sizes, assert_all_sent, flush_whole, send_whole};
use crate::every_byte::Family;
use crate::host::{Host, Link, NEAR_DEVICE, NEAR_V4, cable, sources};
use group_send::{BackendKind, Config, Sender, Traffic};
use socket2::SockRef;

pub(crate) fn trials() -> Vec<Privileged> {
    let af_xdp = Need::Backend(BackendKind::AfXdp);
    vec![
        #[cfg(feature = "tc-clone")]
        Privileged::new(
            "auto::groups_are_copied_in_the_kernel",
            Need::Backend(BackendKind::TcClone),
            groups_are_copied_in_the_kernel,
        ),
        Privileged::new("auto::datagrams_go_by_a_ring", af_xdp, datagrams_go_by_a_ring),
        Privileged::new("auto::a_second_sender_says_the_queue_is_taken", af_xdp, second_sender),
        Privileged::new("auto::of_several_interfaces_none_is_guessed", af_xdp, several_interfaces),
        Privileged::new("auto::an_interface_that_is_down_is_none", af_xdp, interface_down),
    ]
}

#[cfg(feature = "tc-clone")]
fn groups_are_copied_in_the_kernel() {
    let link = Link::new();
    let socket = link.socket(Family::Mixed.wildcard());
    let mut receivers = link.far.run(|| Receivers::bind(&Family::V4.far(), 100)).from(&sources(&socket));
    let mut sender =
        link.near.run(|| Sender::new(&socket, &Config::auto(Traffic::Groups))).expect("a sender");
    assert_eq!((sender.backend(), sender.not_chosen()), (BackendKind::TcClone, &[][..]));
    let group = Group::new(&receivers.addresses(), 2, Sizes::Equal(1000), Private::Same);
    let before = link.sent_by_stack();
    assert_all_sent(&group, &link.near.run(|| send_whole(&group, &mut sender, &socket)).0);
    assert!(link.sent_by_stack() - before <= 2, "a datagram for each packet, and copies of it");
    receivers.expect_group(&group);
}

fn datagrams_go_by_a_ring() {
    let link = Link::new();
    for bind in [Family::Mixed.wildcard(), NEAR_V4] {
        let socket = link.socket(bind);
        let mut receivers = link.far.run(|| Receivers::bind(&Family::V4.far(), 50)).from(&sources(&socket));
        let mut sender =
            link.near.run(|| Sender::new(&socket, &Config::auto(Traffic::Datagrams))).expect("a sender");
        assert_eq!((sender.backend(), sender.not_chosen()), (BackendKind::AfXdp, &[][..]));
        let group = Group::new(&receivers.addresses(), 3, Sizes::Distinct, Private::Each);
        let before = link.sent_by_stack();
        link.near.run(|| flush_whole(&group, &mut sender, &socket));
        assert_eq!(link.sent_by_stack(), before, "through the stack");
        receivers.expect_group(&group);
    }
}

fn second_sender() {
    let link = Link::new();
    let socket = link.socket(NEAR_V4);
    let sender = || link.near.run(|| Sender::new(&socket, &Config::auto(Traffic::Datagrams)));
    let first = sender().expect("a sender");
    let second = sender().expect("a sender");
    assert_eq!((first.backend(), second.backend()), (BackendKind::AfXdp, BackendKind::Gso));
    let [reason] = second.not_chosen() else { panic!("{:?}", second.not_chosen()) };
    assert_eq!(reason.backend, BackendKind::AfXdp);
}

/// Two that are up: the address of a socket or its device say which.
fn several_interfaces() {
    let link = Link::new();
    let other = Host::new().expect("a namespace");
    cable(&link.near, &other, ("near1", "02:00:00:00:77:11"), ("far1", "02:00:00:00:77:12"));
    other.ip("link set far1 up");
    link.near.ip("link set near1 up");
    let sender = |socket: &std::net::UdpSocket| {
        link.near.run(|| Sender::new(socket, &Config::auto(Traffic::Datagrams))).expect("a sender")
    };
    let wildcard = link.socket(Family::V4.wildcard());
    let doubtful = sender(&wildcard);
    assert_eq!(doubtful.backend(), BackendKind::Gso);
    let why = &doubtful.not_chosen()[0].why;
    assert!(why.contains(NEAR_DEVICE) && why.contains("near1"), "{why}");
    drop(doubtful);

    assert_eq!(sender(&link.socket(NEAR_V4)).backend(), BackendKind::AfXdp);

    SockRef::from(&wildcard).bind_device(Some(NEAR_DEVICE.as_bytes())).expect("SO_BINDTODEVICE");
    assert_eq!(sender(&wildcard).backend(), BackendKind::AfXdp);
}

fn interface_down() {
    let link = Link::new();
    let socket = link.socket(Family::V4.wildcard());
    link.near.ip(&format!("link set {NEAR_DEVICE} down"));
    let sender = link.near.run(|| Sender::new(&socket, &Config::auto(Traffic::Groups))).expect("a sender");
    assert_eq!(sender.backend(), BackendKind::Gso);
    for reason in sender.not_chosen() {
        assert!(reason.why.contains("no Ethernet interface is up"), "{reason}");
    }
}
