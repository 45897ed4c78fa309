//! All workers share one port (`rtc.single_port`): sessions of each connect there by UDP and by TCP, go on
//! when their address leads to another worker, and strangers change nothing.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};

use crate::common::rtc::{Client, Options, counter, exchange, start_flow};
use crate::common::server::Server;
use crate::common::tcp_relay::{TcpRelay, candidates};
use crate::common::{TIMEOUT, eventually};
use rtc::sdp::{Direction, Transport};
use rtc_test::stun::{Check, SUCCESS, transaction};

/// Datagrams come to a worker by the hash of their address alone.
fn server(workers: u32) -> Server {
    Server::start_workers(workers, "[rtc]\nsingle_port = true\nsingle_port_table = false\n")
}

/// The kernel has a table of addresses besides, where it lets us: not without rights, which the log says.
fn server_with_table(workers: u32) -> Server {
    Server::start_workers(workers, "[rtc]\nsingle_port = true\n")
}

/// The workers of a stream's sessions.
fn workers(server: &Server, stream: &str) -> BTreeSet<u64> {
    let sessions = server.sessions(&format!("stream={stream}"));
    sessions.iter().filter_map(|session| session["worker"].as_u64()).collect()
}

#[test]
fn sessions_of_all_workers_have_one_port_and_media_flows_between_them() {
    let mut server = server(3);
    let mut publishers: Vec<Client> =
        (0..3).map(|number| Client::publish(&server, &format!("live/{number}"))).collect();
    let mut viewers: Vec<Vec<Client>> = (0..3)
        .map(|number| (0..4).map(|_| Client::play(&server, &format!("live/{number}"))).collect())
        .collect();
    let all = || publishers.iter().chain(viewers.iter().flatten());
    let ports = |transport| -> BTreeSet<SocketAddr> {
        all().flat_map(|client| candidates(client, transport)).collect()
    };
    assert_eq!(ports(Transport::Udp).len(), 1, "{:?}", ports(Transport::Udp));
    assert_eq!(ports(Transport::Tcp).len(), 1, "{:?}", ports(Transport::Tcp));
    let used: BTreeSet<u64> = (0..3).flat_map(|number| workers(&server, &format!("live/{number}"))).collect();
    assert_eq!(used, BTreeSet::from([0, 1, 2]));
    for (publisher, viewers) in publishers.iter_mut().zip(&mut viewers) {
        let mut next = 0;
        for viewer in viewers {
            next = start_flow(publisher, viewer, next);
            exchange(publisher, viewer, next..next + 20);
            next += 20;
        }
    }
    // Of fifteen addresses some lead to another worker.
    assert!(counter(&server, "passed_on_datagrams") > 0);
    assert_eq!(counter(&server, "passed_on_dropped_datagrams"), 0);
    server.assert_healthy();
}

#[test]
fn a_session_goes_on_when_its_address_leads_to_another_worker() {
    let server = server(2);
    let mut publisher = Client::publish(&server, "live/a");
    let mut viewer = Client::play(&server, "live/a");
    let mut next = start_flow(&mut publisher, &mut viewer, 0);
    // Each new address leads to either worker by chance.
    let mut changes = [0_usize; 2];
    for round in 0..64 {
        let before = counter(&server, "passed_on_datagrams");
        publisher.socket = rtc_test::UdpClient::bind();
        if round % 2 == 0 {
            viewer.socket = rtc_test::UdpClient::bind();
        }
        next = start_flow(&mut publisher, &mut viewer, next);
        exchange(&mut publisher, &mut viewer, next..next + 20);
        next += 20;
        let passed = counter(&server, "passed_on_datagrams") - before;
        changes[usize::from(passed >= 20)] += 1;
        if changes.iter().all(|count| *count > 0) {
            return;
        }
    }
    panic!("addresses lead to one worker only: {changes:?}");
}

#[test]
fn with_a_table_in_the_kernel_nothing_crosses_once_sessions_are_connected() {
    let server = server_with_table(3);
    if server.log().contains("no table of the workers of addresses") {
        println!("the table was not tried: that takes CAP_BPF");
        return;
    }
    let mut pairs: Vec<(Client, Vec<Client>, u32)> = (0..3)
        .map(|number| {
            let stream = format!("live/{number}");
            let publisher = Client::publish(&server, &stream);
            (publisher, (0..4).map(|_| Client::play(&server, &stream)).collect(), 0)
        })
        .collect();
    let used: BTreeSet<u64> = (0..3).flat_map(|number| workers(&server, &format!("live/{number}"))).collect();
    assert_eq!(used, BTreeSet::from([0, 1, 2]));
    for round in 0..4 {
        for (publisher, viewers, next) in &mut pairs {
            if round > 0 {
                publisher.socket = rtc_test::UdpClient::bind();
                viewers[0].socket = rtc_test::UdpClient::bind();
            }
            for viewer in viewers {
                *next = start_flow(publisher, viewer, *next);
                let before = counter(&server, "passed_on_datagrams");
                exchange(publisher, viewer, *next..*next + 20);
                *next += 20;
                assert_eq!(counter(&server, "passed_on_datagrams"), before, "round {round}");
            }
        }
    }
    assert_eq!(counter(&server, "passed_on_dropped_datagrams"), 0);
}

#[test]
fn ice_tcp_connections_find_the_worker_of_their_session() {
    let server = server(2);
    let mut publisher = Client::publish(&server, "live/a");
    // The kernel deals connections out: half of them to the wrong worker.
    for number in 0..8 {
        let (mut viewer, _relay) = TcpRelay::connect(&server, "/whep/live/a", Direction::Receive);
        start_flow(&mut publisher, &mut viewer, number * 1_000);
        exchange(&mut publisher, &mut viewer, number * 1_000 + 500..number * 1_000 + 510);
        assert_eq!(viewer.delete(), 200);
    }
    // Datagrams of the publisher count as well, but not before there is a viewer: checks come straight.
    assert!(counter(&server, "passed_on_datagrams") > 0);
    assert_eq!(counter(&server, "passed_on_dropped_datagrams"), 0);
}

#[test]
fn a_check_from_the_address_of_another_session_takes_nothing_away() {
    [server(2), server_with_table(2)].into_iter().for_each(takes_nothing_away);
}

fn takes_nothing_away(server: Server) {
    let mut publisher = Client::publish(&server, "live/a");
    let mut viewer = Client::play(&server, "live/a");
    let mut next = start_flow(&mut publisher, &mut viewer, 0);
    // Sessions of a stranger on either worker, whose checks come from where publisher and viewer are.
    for number in 0..4 {
        let stranger = Client::open(&server, "/whep/live/a", Direction::Receive, &Options::default());
        let names = format!("{}:{}", stranger.answer.remote.ice.ufrag, stranger.offer.ice.ufrag);
        let check = Check::new(&names, &stranger.answer.remote.ice.password, transaction(number));
        for victim in [&publisher, &viewer] {
            victim.send_raw(victim.remote(), &check.bytes());
        }
        exchange(&mut publisher, &mut viewer, next..next + 20);
        next += 20;
    }
}

#[test]
fn what_names_no_worker_or_too_many_times_one_holds_nobody_up() {
    [server(2), server_with_table(2)].into_iter().for_each(holds_nobody_up);
}

fn holds_nobody_up(mut server: Server) {
    let mut publisher = Client::publish(&server, "live/a");
    let mut viewer = Client::play(&server, "live/a");
    let mut next = start_flow(&mut publisher, &mut viewer, 0);
    let at = publisher.remote();
    let strangers: Vec<UdpSocket> =
        (0..8).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a socket")).collect();
    let password = "p".repeat(24);
    let refused = || counter(&server, "unknown_source_datagrams") + counter(&server, "signals_refused");
    let before = refused();
    for round in 0..50_u64 {
        for (number, stranger) in strangers.iter().enumerate() {
            let id = transaction(round << 8 | number as u64);
            // Of a worker that does not exist, of one that does, not ours; first and behind so many
            // attributes that the kernel's program does not see it; DTLS, media and nothing at all.
            for name in ["PPPabcdefgh:x", "AAAabcdefgh:x", "AABabcdefgh:x", "+/+/abcdefgh:x"] {
                stranger.send_to(&Check::new(name, &password, id).bytes(), at).expect("it is sent");
                let mut hidden = rtc_test::stun::Writer::new(rtc_test::stun::REQUEST, id);
                for _ in 0..8 {
                    hidden = hidden.attribute(0x8022, b"none");
                }
                let hidden = hidden.attribute(rtc_test::stun::USERNAME, name.as_bytes());
                let hidden = hidden.integrity(&password).fingerprint().0;
                stranger.send_to(&hidden, at).expect("it is sent");
            }
            for other in [&[22, 1, 2, 3][..], &[0x80, 96, 0, 0], &[0x80, 200, 0, 0], &[]] {
                stranger.send_to(other, at).expect("it is sent");
            }
        }
        exchange(&mut publisher, &mut viewer, next..next + 1);
        next += 1;
    }
    eventually("they are counted", || (refused() >= before + 1_000).then_some(()));
    let mut buffer = [0; 2048];
    for stranger in &strangers {
        stranger.set_nonblocking(true).expect("a socket option");
        assert!(stranger.recv(&mut buffer).is_err(), "a stranger was answered");
    }
    exchange(&mut publisher, &mut viewer, next..next + 50);
    server.assert_healthy();
}

#[test]
fn a_check_whose_username_the_kernel_does_not_see_is_answered_by_the_worker_it_names() {
    let server = server(2);
    let _publisher = Client::publish(&server, "live/a");
    let before = counter(&server, "passed_on_datagrams");
    // From several addresses, of which some lead to the other worker.
    for number in 0..16 {
        let viewer = Client::open(&server, "/whep/live/a", Direction::Receive, &Options::default());
        let at = candidates(&viewer, Transport::Udp)[0];
        let names = format!("{}:{}", viewer.answer.remote.ice.ufrag, viewer.offer.ice.ufrag);
        let mut check = rtc_test::stun::Writer::new(rtc_test::stun::REQUEST, transaction(number));
        for _ in 0..8 {
            check = check.attribute(0x8022, b"none");
        }
        let check = check
            .attribute(rtc_test::stun::USERNAME, names.as_bytes())
            .attribute(rtc_test::stun::ICE_CONTROLLING, &7u64.to_be_bytes())
            .attribute(rtc_test::stun::PRIORITY, &1u32.to_be_bytes())
            .integrity(&viewer.answer.remote.ice.password)
            .fingerprint();
        viewer.socket.set_nonblocking(false).expect("a socket option");
        viewer.socket.set_read_timeout(Some(TIMEOUT)).expect("a socket option");
        viewer.socket.send_to(&check.0, at).expect("it is sent");
        let mut answer = [0; 2048];
        let (len, from) = viewer.socket.recv_from(&mut answer).expect("an answer");
        assert_eq!((from, &answer[..2]), (at, &SUCCESS.to_be_bytes()[..]), "{len} bytes");
    }
    assert!(counter(&server, "passed_on_datagrams") > before);
}
