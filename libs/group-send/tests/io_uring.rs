//! The `io_uring` back end on loopback: which address sends, where answers come, and what happens
//! at each of its limits.
//!
//! Without `io_uring` on this machine every trial is ignored at run time, with a line that says so:
//! the usual harness cannot do that, so this is a binary of its own; nor is it part of `namespaces`,
//! which changes a setting of the whole machine.
//! Bytes and order over a cable are tested in `tests/namespaces`, for this back end as for all.

mod common;

use common::filter::refusing;
use common::{Group, Private, Receivers, Sizes, TIMEOUT_MS, assert_all_sent, flush_whole, send_whole};
use group_send::{
    BackendKind, Config, IoUringConfig, RecvBatch, RecvConfig, SendError, Sender, SetupError, Slot,
};
use libtest_mimic::{Arguments, Trial};
use socket2::{Domain, SockRef, Socket, Type};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

fn main() {
    let arguments = Arguments::from_args();
    let trials: [(&str, fn()); 14] = [
        ("every_recipient_gets_its_bytes_in_order", every_recipient_gets_its_bytes_in_order),
        ("one_socket_reaches_both_families", one_socket_reaches_both_families),
        ("answers_come_to_the_callers_socket", answers_come_to_the_callers_socket),
        ("the_address_is_the_callers", the_address_is_the_callers),
        ("a_refusal_is_one_recipients_own", a_refusal_is_one_recipients_own),
        ("what_cannot_be_sent_has_the_plain_reason", what_cannot_be_sent_has_the_plain_reason),
        ("more_recipients_than_sockets_are_all_sent_to", more_recipients_than_sockets_are_all_sent_to),
        ("recipients_that_are_gone_give_up_their_sockets", recipients_that_are_gone_give_up_their_sockets),
        ("a_socket_at_one_address_need_not_be_shared", a_socket_at_one_address_need_not_be_shared),
        ("a_sender_may_change_threads", a_sender_may_change_threads),
        ("options_of_the_socket_hold_for_all", options_of_the_socket_hold_for_all),
        ("a_socket_that_cannot_be_shared_is_the_reason", a_socket_that_cannot_be_shared_is_the_reason),
        ("datagrams_do_go_by_the_ring", || refusing(&[libc::SYS_sendmmsg, libc::ENOSYS.into()], "by_ring")),
        ("a_ring_that_breaks_is_done_without", || {
            refusing(&[libc::SYS_io_uring_enter, libc::EPERM.into()], "without_ring");
        }),
    ];
    let behind_a_filter: [(&str, fn()); 2] = [("by_ring", by_ring), ("without_ring", without_ring)];
    let missing = missing();
    if let Some(missing) = missing.as_ref().filter(|_| !arguments.list) {
        eprintln!("skipped: io_uring: {missing}");
    }
    let trial = |(name, run): (&str, fn()), is_ignored| {
        let run = move || {
            run();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(is_ignored)
    };
    let filtered = behind_a_filter.map(|inner| trial(inner, true));
    let trials = trials.map(|outer| trial(outer, missing.is_some())).into_iter().chain(filtered);
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// Found out without the crate under test: what breaks there must fail, not be skipped.
fn missing() -> Option<String> {
    match io_uring::IoUring::<io_uring::squeue::Entry>::builder().setup_coop_taskrun().build(4) {
        Ok(_) => None,
        Err(error) => Some(format!("needs io_uring of Linux 5.19: {error}")),
    }
}

fn shared_socket(address: IpAddr) -> UdpSocket {
    let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::DGRAM, None).expect("socket");
    socket.set_reuse_port(true).expect("SO_REUSEPORT");
    if domain == Domain::IPV6 {
        socket.set_only_v6(false).expect("IPV6_V6ONLY");
    }
    socket.bind(&SocketAddr::new(address, 0).into()).expect("bind");
    let socket = UdpSocket::from(socket);
    socket.set_read_timeout(Some(std::time::Duration::from_millis(TIMEOUT_MS.into()))).expect("SO_RCVTIMEO");
    socket
}

fn sender_of(socket: &UdpSocket, sockets_max: u32) -> Sender {
    let config = Config {
        backends: vec![BackendKind::IoUring],
        io_uring: IoUringConfig { sockets_max },
        ..Config::default()
    };
    Sender::new(socket, &config).expect("a sender")
}

/// Sends single packets until so many of these recipients, or more, have their sockets, which are
/// opened eight a call; a group may take several calls. Other tests of this machine may change its
/// interfaces, whereupon all are reopened.
fn warm_up(sender: &mut Sender, receivers: &mut Receivers, socket: &UdpSocket, sockets: usize) {
    let addresses = receivers.addresses();
    let group = Group::new(&addresses, 1, Sizes::Equal(100), Private::None);
    for _ in 0..ROUNDS_MAX {
        let (slots, _) = send_whole(&group, sender, socket);
        assert_all_sent(&group, &slots);
        receivers.expect_group(&group);
        if connected(port(socket), &addresses).len() >= sockets {
            return;
        }
    }
    panic!("never {sockets} sockets");
}

const ROUNDS_MAX: usize = 10_000;

/// Which of these addresses have a socket of the process connected to them.
fn connected(port: u16, addresses: &[SocketAddr]) -> BTreeSet<SocketAddr> {
    let table = |name: &str| std::fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    // `sl local_address rem_address ...`, numbers in hexadecimal, addresses in words of the
    // machine's byte order.
    let lines = table("udp") + &table("udp6");
    let pairs: BTreeSet<(u16, String)> = lines
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let (_, port) = fields.next()?.split_once(':')?;
            Some((u16::from_str_radix(port, 16).ok()?, fields.next()?.to_owned()))
        })
        .collect();
    let word = |bytes: &[u8]| format!("{:08X}", u32::from_ne_bytes(bytes.try_into().expect("four bytes")));
    let is_connected = |address: &&SocketAddr| {
        let ip: String = match address.ip() {
            IpAddr::V4(v4) => word(&v4.octets()),
            IpAddr::V6(v6) => v6.octets().chunks(4).map(word).collect(),
        };
        pairs.contains(&(port, format!("{ip}:{:04X}", address.port())))
    };
    addresses.iter().filter(is_connected).copied().collect()
}

fn port(socket: &UdpSocket) -> u16 {
    socket.local_addr().expect("bound").port()
}

fn every_recipient_gets_its_bytes_in_order() {
    for (address, count) in [(V4, 1), (V4, 2), (V6, 7), (V4, 33), (V6, 100), (V4, 300)] {
        let socket = shared_socket(address);
        let mut sender = sender_of(&socket, 4096);
        assert_eq!(sender.backend(), BackendKind::IoUring);
        let source = socket.local_addr().expect("bound");
        let mut receivers = Receivers::bind(&[address], count).from(&[source]);
        let sockets = if count < 6 { 0 } else { count };
        let addresses = receivers.addresses();
        warm_up(&mut sender, &mut receivers, &socket, sockets);
        for (packets, sizes, private) in [
            (1, Sizes::Equal(1200), Private::Each),
            (1, Sizes::Equal(0), Private::None),
            (1, Sizes::Equal(1), Private::After),
            (1, Sizes::Equal(2048), Private::Before),
            (1, Sizes::Equal(2026), Private::Same),
            (1, Sizes::Equal(65_507), Private::None),
            (2, Sizes::Equal(1000), Private::Same),
            (3, Sizes::Distinct, Private::Mixed),
            (8, Sizes::Last(700, 11), Private::Uneven),
            (9, common::group::BORDERS, Private::None),
            (5, common::group::FRAGMENTED, Private::Before),
        ] {
            let group = Group::new(&addresses, packets, sizes, private);
            let (slots, _) = send_whole(&group, &mut sender, &socket);
            assert_all_sent(&group, &slots);
            receivers.expect_group(&group);
            flush_whole(&group, &mut sender, &socket);
            receivers.expect_group(&group);
        }
    }
}

fn one_socket_reaches_both_families() {
    let socket = shared_socket(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    let mut sender = sender_of(&socket, 4096);
    let port = socket.local_addr().expect("bound").port();
    let sources = [SocketAddr::new(V4, port), SocketAddr::new(V6, port)];
    let mut receivers = Receivers::bind(&[V4, V6], 50).from(&sources);
    let group = Group::new(&receivers.addresses(), 4, Sizes::Distinct, Private::Mixed);
    warm_up(&mut sender, &mut receivers, &socket, 50);
    let (slots, _) = send_whole(&group, &mut sender, &socket);
    assert_all_sent(&group, &slots);
    receivers.expect_group(&group);
    let mut buffer = [0; 100];
    for member in 0..50 {
        let peer = receivers.socket(member);
        let to = sources[usize::from(peer.local_addr().expect("bound").is_ipv6())];
        peer.send_to(&[member as u8], to).expect("room");
        assert_eq!(socket.recv(&mut buffer).expect("an answer"), 1);
        assert_eq!(buffer[0], member as u8);
    }
}

fn answers_come_to_the_callers_socket() {
    for address in [V4, IpAddr::V4(Ipv4Addr::UNSPECIFIED)] {
        let socket = shared_socket(address);
        let mut sender = sender_of(&socket, 4096);
        let to = (V4, port(&socket));
        let mut receivers = Receivers::bind(&[V4], 100).from(&[to.into()]);
        let addresses = receivers.addresses();
        let group = Group::new(&addresses, 1, Sizes::Equal(100), Private::None);
        let mut buffer = [0; 100];
        let mut ask_all = |receivers: &Receivers| {
            for (member, address) in addresses.iter().enumerate() {
                let text = address.to_string();
                receivers.socket(member).send_to(text.as_bytes(), to).expect("room");
                let (length, from) = socket.recv_from(&mut buffer).expect("at the caller's socket");
                assert_eq!((&buffer[..length], from), (text.as_bytes(), *address));
            }
        };
        ask_all(&receivers);
        for _ in 0..13 {
            send_whole(&group, &mut sender, &socket);
            receivers.expect_group(&group);
            ask_all(&receivers);
        }
        warm_up(&mut sender, &mut receivers, &socket, 100);
        ask_all(&receivers);
    }
}

/// Loopback has many addresses: a route's source address need not be the one a socket is bound to.
fn the_address_is_the_callers() {
    for (address, of_their_own) in [("127.0.0.1", 20), ("127.0.0.9", 0), ("0.0.0.0", 20)] {
        let address: IpAddr = address.parse().expect("an address");
        let socket = shared_socket(address);
        let mut sender = sender_of(&socket, 4096);
        let source = if address.is_unspecified() { V4 } else { address };
        let mut receivers = Receivers::bind(&[V4], 20).from(&[(source, port(&socket)).into()]);
        let group = Group::new(&receivers.addresses(), 1, Sizes::Equal(100), Private::Same);
        warm_up(&mut sender, &mut receivers, &socket, of_their_own);
        for _ in 0..4 {
            let (slots, _) = send_whole(&group, &mut sender, &socket);
            assert_all_sent(&group, &slots);
            receivers.expect_group(&group);
        }
        let most = connected(port(&socket), &receivers.addresses()).len();
        assert!(most <= of_their_own, "{address}: {most}");
    }
}

fn a_refusal_is_one_recipients_own() {
    let socket = shared_socket(V4);
    let mut sender = sender_of(&socket, 4096);
    let mut receivers = Receivers::bind(&[V4], 20);
    let mut addresses = receivers.addresses();
    // A closed port: bound, and released.
    let gone = UdpSocket::bind((V4, 0)).expect("bind").local_addr().expect("bound");
    addresses.insert(7, gone);
    group_send::socket::report_refusals(&socket).expect("IP_RECVERR");
    let group = Group::new(&addresses, 1, Sizes::Equal(100), Private::None);
    let mut refusals = 0;
    for round in 0..30 {
        let (slots, _) = send_whole(&group, &mut sender, &socket);
        for (member, slot) in slots.iter().enumerate() {
            if member == 7 && slot.failed > 0 {
                assert_eq!(*slot, Slot { sent: 0, failed: 1, error: Some(SendError::Refused) });
                refusals += 1;
                continue;
            }
            assert_eq!(*slot, Slot { sent: 1, ..Slot::default() }, "member {member}, round {round}");
        }
        for member in (0..21).filter(|&member| member != 7) {
            receivers.expect(member - usize::from(member > 7), group.datagrams(member), "beside a refusal");
        }
    }
    // On loopback the answer is there before the call returns; the caller's socket is asked every
    // 64 datagrams.
    assert!(refusals >= 30 * 21 / 64 - 1, "{refusals} refusals in 30 rounds");
    receivers.expect_nothing_more("beside a refusal");
}

/// The errors of the plain back end are the oracle.
fn what_cannot_be_sent_has_the_plain_reason() {
    let bad: [SocketAddr; 6] = [
        "203.0.113.1:5000".parse().expect("an address"), // no route there from 127.0.0.1
        "127.0.0.1:0".parse().expect("an address"),
        "255.255.255.255:5000".parse().expect("an address"), // broadcast, which the socket may not
        "[::1]:5000".parse().expect("an address"),
        "[::ffff:127.0.0.1]:5000".parse().expect("an address"),
        "240.0.0.1:5000".parse().expect("an address"),
    ];
    let socket = shared_socket(V4);
    let plain = Config { backends: vec![BackendKind::Sendmsg], ..Config::default() };
    let mut plain = Sender::new(&socket, &plain).expect("a sender");
    let mut sender = sender_of(&socket, 4096);
    let mut receivers = Receivers::bind(&[V4], 5);
    let mut addresses = receivers.addresses();
    addresses.extend(bad);
    for (packets, sizes) in [(1, Sizes::Equal(100)), (3, Sizes::Equal(200)), (2, Sizes::Last(50, 65_508))] {
        let group = Group::new(&addresses, packets, sizes, Private::None);
        let (expected, _) = send_whole(&group, &mut plain, &socket);
        assert!(expected[5..].iter().all(|slot| slot.failed > 0), "{expected:?}");
        for round in 0..3 {
            let (slots, _) = send_whole(&group, &mut sender, &socket);
            assert_eq!(slots, expected, "round {round}: {}", group.remark);
        }
        for (member, slot) in expected[..5].iter().enumerate() {
            for _ in 0..4 {
                receivers.expect(member, group.datagrams(member).take(slot.sent as usize), &group.remark);
            }
        }
        receivers.expect_nothing_more(&group.remark);
    }
}

fn more_recipients_than_sockets_are_all_sent_to() {
    let socket = shared_socket(V4);
    let mut sender = sender_of(&socket, 16);
    let mut receivers = Receivers::bind(&[V4], 100);
    let group = Group::new(&receivers.addresses(), 1, Sizes::Equal(1300), Private::Mixed);
    for _ in 0..20 {
        let (slots, _) = send_whole(&group, &mut sender, &socket);
        assert_all_sent(&group, &slots);
        receivers.expect_group(&group);
    }
    warm_up(&mut sender, &mut receivers, &socket, 16);
}

fn recipients_that_are_gone_give_up_their_sockets() {
    let socket = shared_socket(V4);
    let mut sender = sender_of(&socket, 16);
    let mut old = Receivers::bind(&[V4], 16);
    warm_up(&mut sender, &mut old, &socket, 16);
    // Not asked for again at once where there was none to have: after 65,536 sends.
    let mut new = Receivers::bind(&[V4], 16);
    warm_up(&mut sender, &mut new, &socket, 16);
    assert_eq!(connected(port(&socket), &old.addresses()).len(), 0);
}

fn a_socket_at_one_address_need_not_be_shared() {
    let socket = UdpSocket::bind((V4, 0)).expect("bind");
    let mut sender = sender_of(&socket, 4096);
    let mut receivers = Receivers::bind(&[V4], 20).from(&[socket.local_addr().expect("bound")]);
    let group = Group::new(&receivers.addresses(), 2, Sizes::Last(100, 7), Private::Each);
    warm_up(&mut sender, &mut receivers, &socket, 20);
    let (slots, _) = send_whole(&group, &mut sender, &socket);
    assert_all_sent(&group, &slots);
    receivers.expect_group(&group);
    // Still no other socket can have it.
    let other = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("socket");
    other.set_reuse_port(true).expect("SO_REUSEPORT");
    other.bind(&socket.local_addr().expect("bound").into()).expect_err("the port is taken");
}

fn a_sender_may_change_threads() {
    let socket = shared_socket(V4);
    let mut sender = sender_of(&socket, 4096);
    let mut receivers = Receivers::bind(&[V4], 40);
    // The end of a thread takes nothing with it.
    for sockets in [8, 16, 24, 32, 40] {
        let run = || warm_up(&mut sender, &mut receivers, &socket, sockets);
        std::thread::scope(|scope| scope.spawn(run).join()).expect("the thread sent");
    }
}

fn options_of_the_socket_hold_for_all() {
    let socket = shared_socket(V4);
    SockRef::from(&socket).set_tos_v4(0xb9).expect("IP_TOS"); // expedited forwarding, ECT(1)
    let mut sender = sender_of(&socket, 4096);
    let peers: Vec<UdpSocket> = (0..8).map(|_| shared_socket(V4)).collect();
    let addresses: Vec<_> = peers.iter().map(|peer| peer.local_addr().expect("bound")).collect();
    let group = Group::new(&addresses, 1, Sizes::Equal(100), Private::None);
    let mut batch = RecvBatch::new(RecvConfig::default());
    for peer in &peers {
        group_send::socket::enable_ecn(peer).expect("IP_RECVTOS");
    }
    let mut on_their_own = 0;
    for _ in 0..ROUNDS_MAX {
        send_whole(&group, &mut sender, &socket);
        for peer in &peers {
            assert_eq!(batch.recv_wait(peer).expect("a datagram"), 1);
            assert_eq!(batch.iter().next().and_then(|d| d.ecn), Some(group_send::Ecn::Ect1));
        }
        on_their_own += usize::from(connected(port(&socket), &addresses).len() == 8);
        if on_their_own == 2 {
            return;
        }
    }
    panic!("never sockets for all, twice");
}

fn a_socket_that_cannot_be_shared_is_the_reason() {
    let config = Config {
        backends: vec![BackendKind::IoUring, BackendKind::Sendmsg],
        io_uring: IoUringConfig { sockets_max: 0 },
        ..Config::default()
    };
    let why = |socket: &Socket, config: &Config| {
        let sender = Sender::new(socket, config).expect("the plain back end at least");
        assert_eq!(sender.backend(), BackendKind::Sendmsg);
        assert_eq!(sender.not_chosen()[0].backend, BackendKind::IoUring);
        sender.not_chosen()[0].why.clone()
    };
    assert!(why(&shared_socket(V4).into(), &config).contains("sockets_max"));

    let config = Config { io_uring: IoUringConfig::default(), ..config };
    let alone = UdpSocket::bind("0.0.0.0:0").expect("bind");
    assert!(why(&alone.into(), &config).contains("SO_REUSEPORT is not set"));
    let unbound = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("socket");
    unbound.set_reuse_port(true).expect("SO_REUSEPORT");
    assert!(why(&unbound, &config).contains("not bound"));

    let stream = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
    assert!(matches!(Sender::new(&stream, &config), Err(SetupError::Socket(_))));
}

/// Behind a filter without `sendmmsg`, which plain sending needs for what is longer than it copies
/// together. Eight recipients get their sockets in the first call.
fn by_ring() {
    let socket = shared_socket(V4);
    let mut sender = sender_of(&socket, 8);
    let mut receivers = Receivers::bind(&[V4], 8);
    let group = Group::new(&receivers.addresses(), 1, Sizes::Equal(3000), Private::None);
    for _ in 0..100 {
        let (slots, _) = send_whole(&group, &mut sender, &socket);
        assert_all_sent(&group, &slots);
        receivers.expect_group(&group);
    }
    let alone = Group::new(&receivers.addresses()[..1], 1, Sizes::Equal(3000), Private::None);
    let (slots, _) = send_whole(&alone, &mut sender, &socket);
    assert_eq!(slots[0].sent, 0, "there is a plain path nevertheless");
}

/// Behind a filter that refuses to enter a ring, though there is one.
fn without_ring() {
    let socket = shared_socket(V4);
    let mut sender = sender_of(&socket, 8);
    let mut receivers = Receivers::bind(&[V4], 20);
    for packets in [1, 3, 1, 1, 2] {
        let group = Group::new(&receivers.addresses(), packets, Sizes::Equal(500), Private::Mixed);
        let (slots, _) = send_whole(&group, &mut sender, &socket);
        assert_all_sent(&group, &slots);
        receivers.expect_group(&group);
    }
    // Those that had sockets by then keep them.
    assert_eq!(connected(port(&socket), &receivers.addresses()).len(), 8);
}
