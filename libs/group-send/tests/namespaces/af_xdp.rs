//! What only AF_XDP can get wrong: order between its two paths, a small ring, a device that goes,
//! and setting up.
//!
//! What every back end has to do is tried in the other files, with this one among them.

use crate::Privileged;
use crate::backends::{self, Need};
use crate::common::group::FRAGMENTED;
use crate::common::{Group, Private, Receivers, Sizes, assert_all_sent, send_whole};
use crate::every_byte::Family;
use crate::host::{FAR_MAC, FAR_V4, FAR_V6, Link, NEAR_DEVICE, NEAR_V4, await_reachable, sources};
use group_send::{AfXdpConfig, BackendKind, Config, SendError, Sender, SetupError};
use socket2::SockRef;
use std::net::UdpSocket;

pub(crate) fn trials() -> Vec<Privileged> {
    let trial = |name: &str, run: fn()| {
        Privileged::new(format!("af_xdp::{name}"), Need::Backend(BackendKind::AfXdp), run)
    };
    vec![
        trial("order_is_kept_past_a_queue_of_the_socket", order_is_kept_past_a_queue_of_the_socket),
        trial("small_ring_takes_large_groups", small_ring_takes_large_groups),
        trial("device_goes_down_and_comes_up", device_goes_down_and_comes_up),
        trial("device_is_removed", device_is_removed),
        trial("queue_is_free_again", queue_is_free_again),
        trial("setting_up_says_what_is_wrong", setting_up_says_what_is_wrong),
        trial("unbound_socket_gets_a_port", unbound_socket_gets_a_port),
        trial("answers_reach_the_socket", answers_reach_the_socket),
    ]
}

fn sender(link: &Link, socket: &UdpSocket, config: AfXdpConfig) -> Result<Sender, SetupError> {
    let config = Config { af_xdp: Some(config), ..backends::only(BackendKind::AfXdp) };
    link.near.run(|| Sender::new(socket, &config))
}

/// Frames pass the queue in which the datagrams that are too long for one wait.
fn order_is_kept_past_a_queue_of_the_socket() {
    let link = Link::new();
    let queue = format!("qdisc add dev {NEAR_DEVICE} root tbf rate 80mbit burst 8kb limit 16mb");
    link.near.program(&["tc", "-batch", "-"], &queue);
    let socket = link.socket(Family::Mixed.wildcard());
    let mut receivers = link.far.run(|| Receivers::bind(&Family::Mixed.far(), 6)).from(&sources(&socket));
    let mut sender = sender(&link, &socket, AfXdpConfig::new(NEAR_DEVICE)).expect("a sender");
    for (packets, sizes) in
        [(5, FRAGMENTED), (9, Sizes::Last(900, 3000)), (4, Sizes::Equal(1000)), (20, FRAGMENTED)]
    {
        for _ in 0..3 {
            let group = Group::new(&receivers.addresses(), packets, sizes, Private::Same);
            let (slots, _) = link.near.run(|| send_whole(&group, &mut sender, &socket));
            assert_all_sent(&group, &slots);
            // Not waiting for them here would be harder for the back end and no different for the
            // receivers.
            if packets == 4 {
                receivers.expect_group(&group);
                continue;
            }
            let again = Group::new(&receivers.addresses(), 3, Sizes::Equal(700), Private::Each);
            let (slots, _) = link.near.run(|| send_whole(&again, &mut sender, &socket));
            assert_all_sent(&again, &slots);
            for member in 0..receivers.addresses().len() {
                let both = group.datagrams(member).chain(again.datagrams(member));
                receivers.expect(member, both, &group.remark);
            }
        }
    }
    // The queue is empty by now, and the ring is used again.
    let group = Group::new(&receivers.addresses(), 2, Sizes::Equal(500), Private::None);
    let before = link.sent_by_stack();
    assert_all_sent(&group, &link.near.run(|| send_whole(&group, &mut sender, &socket)).0);
    assert_eq!(link.sent_by_stack(), before, "through the stack");
    receivers.expect_group(&group);
    assert_eq!(sender.lost(), 0);
}

fn small_ring_takes_large_groups() {
    let link = Link::new();
    let socket = link.socket(Family::Mixed.wildcard());
    let mut receivers = link.far.run(|| Receivers::bind(&Family::Mixed.far(), 300)).from(&sources(&socket));
    let mut config = AfXdpConfig::new(NEAR_DEVICE);
    config.frames = 64;
    let mut sender = sender(&link, &socket, config).expect("a sender");
    for (packets, sizes) in [(1, Sizes::Equal(1200)), (7, Sizes::Distinct), (3, Sizes::Equal(1))] {
        let group = Group::new(&receivers.addresses(), packets, sizes, Private::Mixed);
        let before = link.sent_by_stack();
        assert_all_sent(&group, &link.near.run(|| send_whole(&group, &mut sender, &socket)).0);
        assert_eq!(link.sent_by_stack(), before, "through the stack: {}", group.remark);
        receivers.expect_group(&group);
    }
    assert_eq!(sender.lost(), 0);
}

fn device_goes_down_and_comes_up() {
    let link = Link::new();
    let socket = link.socket(Family::V4.wildcard());
    let mut receivers = link.far.run(|| Receivers::bind(&[FAR_V4[0]], 20)).from(&sources(&socket));
    let mut sender = sender(&link, &socket, AfXdpConfig::new(NEAR_DEVICE)).expect("a sender");
    let group = Group::new(&receivers.addresses(), 2, Sizes::Equal(800), Private::Same);
    for round in 0..3 {
        assert_all_sent(&group, &link.near.run(|| send_whole(&group, &mut sender, &socket)).0);
        receivers.expect_group(&group);
        link.near.ip(&format!("link set {NEAR_DEVICE} down"));
        let (slots, _) = link.near.run(|| send_whole(&group, &mut sender, &socket));
        assert!(
            slots.iter().all(|slot| slot.error == Some(SendError::Unreachable)),
            "round {round}: {slots:?}"
        );
        let entry = format!("neigh replace {} lladdr {FAR_MAC} dev {NEAR_DEVICE} nud permanent", FAR_V4[0]);
        link.near.ip(&format!("link set {NEAR_DEVICE} up\n{entry}"));
        await_reachable(&link.near, &link.far, FAR_V4[0]);
        await_reachable(&link.far, &link.near, NEAR_V4);
    }
    // By the ring, or by it again after some time on the socket.
    let by_ring = (0..2000).any(|_| {
        let before = link.sent_by_stack();
        assert_all_sent(&group, &link.near.run(|| send_whole(&group, &mut sender, &socket)).0);
        receivers.expect_group(&group);
        link.sent_by_stack() == before
    });
    assert!(by_ring, "never by the ring again");
}

fn device_is_removed() {
    let link = Link::new();
    let socket = link.socket(Family::Mixed.wildcard());
    let mut receivers = link.far.run(|| Receivers::bind(&[FAR_V4[0], FAR_V6[0]], 20)).from(&sources(&socket));
    let mut sender = sender(&link, &socket, AfXdpConfig::new(NEAR_DEVICE)).expect("a sender");
    let group = Group::new(&receivers.addresses(), 2, Sizes::Equal(800), Private::Same);
    assert_all_sent(&group, &link.near.run(|| send_whole(&group, &mut sender, &socket)).0);
    receivers.expect_group(&group);
    link.near.ip(&format!("link del {NEAR_DEVICE}"));
    for _ in 0..600 {
        let (slots, _) = link.near.run(|| send_whole(&group, &mut sender, &socket));
        assert!(slots.iter().all(|slot| slot.error == Some(SendError::Unreachable)), "{slots:?}");
    }
}

/// After a sender is closed, another may be opened immediately.
fn queue_is_free_again() {
    let link = Link::new();
    let socket = link.socket(Family::V4.wildcard());
    let mut receivers = link.far.run(|| Receivers::bind(&[FAR_V4[0]], 1)).from(&sources(&socket));
    for _ in 0..5 {
        let mut sender = sender(&link, &socket, AfXdpConfig::new(NEAR_DEVICE)).expect("a sender");
        let group = Group::new(&receivers.addresses(), 3, Sizes::Equal(100), Private::None);
        assert_all_sent(&group, &link.near.run(|| send_whole(&group, &mut sender, &socket)).0);
        receivers.expect_group(&group);
    }
}

fn setting_up_says_what_is_wrong() {
    let link = Link::new();
    let socket = link.socket(Family::V4.wildcard());
    let why = |socket: &UdpSocket, change: &dyn Fn(&mut AfXdpConfig)| {
        let mut config = AfXdpConfig::new(NEAR_DEVICE);
        change(&mut config);
        match sender(&link, socket, config) {
            Err(SetupError::NoBackend(reasons)) => reasons[0].why.clone(),
            other => panic!("{other:?}"),
        }
    };
    type Change = fn(&mut AfXdpConfig);
    let cases: [(Change, &str); 6] = [
        (|config| config.interface = "none0".into(), "none0"),
        (|config| config.interface = "a-name-longer-than-any".into(), "a-name-longer-than-any"),
        (|config| config.interface = "lo".into(), "not Ethernet"),
        (|config| config.queue = 9, "no such queue"),
        (|config| config.frames = 1000, "a power of two"),
        (|config| config.frames = 1 << 20, "from 64 to 65536"),
    ];
    for (change, reason) in cases {
        let why = why(&socket, &change);
        assert!(why.contains(reason), "{why:?} does not say {reason:?}");
    }
    let unconfigured = link
        .near
        .run(|| Sender::new(&socket, &Config { af_xdp: None, ..backends::only(BackendKind::AfXdp) }));
    assert!(format!("{unconfigured:?}").contains("no interface is configured"), "{unconfigured:?}");

    let first = sender(&link, &socket, AfXdpConfig::new(NEAR_DEVICE)).expect("a sender");
    assert!(why(&socket, &|_| {}).contains("another AF_XDP socket has this queue"));
    drop(first);

    let elsewhere = link.socket(Family::V4.wildcard());
    link.near.run(|| SockRef::from(&elsewhere).bind_device(Some(b"lo"))).expect("SO_BINDTODEVICE");
    assert!(why(&elsewhere, &|_| {}).contains("bound to another interface"));

    let strange = link.far.run(|| UdpSocket::bind("0.0.0.0:0")).expect("bind");
    assert!(why(&strange, &|_| {}).contains("another network namespace"));
}

fn unbound_socket_gets_a_port() {
    let link = Link::new();
    let socket = link.near.run(|| socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None));
    let socket = UdpSocket::from(socket.expect("socket"));
    let mut sender = sender(&link, &socket, AfXdpConfig::new(NEAR_DEVICE)).expect("a sender");
    assert_ne!(socket.local_addr().expect("bound").port(), 0);
    let mut receivers = link.far.run(|| Receivers::bind(&[FAR_V4[0]], 5)).from(&sources(&socket));
    let group = Group::new(&receivers.addresses(), 1, Sizes::Equal(100), Private::None);
    assert_all_sent(&group, &link.near.run(|| send_whole(&group, &mut sender, &socket)).0);
    receivers.expect_group(&group);
}

/// The source address of frames is one at which the caller's socket receives.
fn answers_reach_the_socket() {
    let link = Link::new();
    for (family, far) in [(Family::V4, FAR_V4[0]), (Family::V6, FAR_V6[0])] {
        let socket = link.socket(family.wildcard());
        let mut receivers = link.far.run(|| Receivers::bind(&[far], 1)).from(&sources(&socket));
        let mut sender = sender(&link, &socket, AfXdpConfig::new(NEAR_DEVICE)).expect("a sender");
        let group = Group::new(&receivers.addresses(), 1, Sizes::Equal(100), Private::None);
        let before = link.sent_by_stack();
        assert_all_sent(&group, &link.near.run(|| send_whole(&group, &mut sender, &socket)).0);
        assert_eq!(link.sent_by_stack(), before);
        receivers.expect_group(&group);
        let port = socket.local_addr().expect("bound").port();
        let near =
            sources(&socket).into_iter().find(|near| near.is_ipv4() == far.is_ipv4()).expect("both families");
        assert_eq!(near.port(), port);
        receivers.socket(0).send_to(b"answer", near).expect("sent");
        socket.set_nonblocking(false).expect("blocking");
        socket.set_read_timeout(Some(std::time::Duration::from_secs(10))).expect("SO_RCVTIMEO");
        let mut bytes = [0; 16];
        let (length, from) = socket.recv_from(&mut bytes).expect("an answer");
        assert_eq!((&bytes[..length], from), (&b"answer"[..], receivers.addresses()[0]));
    }
}
