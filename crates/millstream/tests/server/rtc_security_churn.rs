//! Many who come and go: a race of ClientHellos while sessions connect, sessions that leave in every way, and
//! viewers who fall silent. Everybody with a right to it gets in, and nothing is left of those who have gone.
//!
//! `TEST_AT_FULL_SIZE=1`: 200 sessions and 10 000 cycles in place of 40 and 400.

#![expect(clippy::disallowed_methods, reason = "attacks are timed by the real clock")]

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::common::rtc::{
    Client, Options, certificate, counter, exchange, full_size, start_flow, wait_for_no_sessions,
};
use crate::common::server::Server;
use rtc::sdp::Direction;

/// Connects `count` viewers at once and returns how long each took from its offer to keys and path, sorted.
fn connect_all(server: &Server, count: usize, mut meanwhile: impl FnMut(&Client)) -> Vec<Duration> {
    let mut waiting: Vec<(Instant, Client)> = Vec::new();
    let (mut connected, mut times) = (Vec::new(), Vec::new());
    let deadline = Instant::now() + 2 * crate::common::TIMEOUT;
    while times.len() < count {
        if connected.len() + waiting.len() < count {
            let began = Instant::now();
            waiting.push((
                began,
                Client::open(server, "/whep/live/raced", Direction::Receive, &Options::default()),
            ));
        }
        for (_, client) in &mut waiting {
            client.turn();
            meanwhile(client);
        }
        for at in (0..waiting.len()).rev() {
            if waiting[at].1.is_connected() {
                let (began, client) = waiting.swap_remove(at);
                times.push(began.elapsed());
                connected.push(client);
            }
        }
        assert!(Instant::now() < deadline, "{} of {count} connected; {:?}", times.len(), waiting[0].1.failed);
    }
    for client in connected {
        assert_eq!(client.delete(), 200);
    }
    times.sort();
    times
}

#[test]
fn everybody_connects_while_client_hellos_are_sprayed() {
    let mut server = Server::start("[rtc]\nrequests_per_second = 0\n");
    let mut publisher = Client::publish(&server, "live/raced");
    let count = if full_size() { 200 } else { 40 };
    let quiet = connect_all(&server, count, |_| publisher.turn());
    // The attacker's ClientHellos are there before, between and after those of the clients.
    let attacker = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let config = rtc::dtls::Config::new(certificate(), vec![certificate().fingerprint()]);
    let mut dtls = rtc::dtls::Dtls::client(config, Instant::now()).expect("a client");
    let hello = dtls.poll_transmit().expect("a ClientHello");
    let server_address = publisher.remote();
    let mut sprayed = 0;
    let raced = connect_all(&server, count, |client| {
        if !client.is_connected() {
            attacker.send_to(&hello, server_address).expect("sent");
            sprayed += 1;
        }
        publisher.turn();
    });
    let p95 = |times: &[Duration]| times[times.len() * 95 / 100];
    println!(
        "RESULT rtc-hello-race sessions={count} sprayed={sprayed} quiet_p95_ms={} raced_p95_ms={}",
        p95(&quiet).as_millis(),
        p95(&raced).as_millis()
    );
    publisher.turn();
    server.assert_healthy();
}

#[test]
fn sessions_that_leave_take_everything_with_them() {
    let mut server = Server::spawn("[rtc]\nrequests_per_second = 0\npending_timeout_ms = 2000\n");
    let mut publisher = Client::publish(&server, "live/visited");
    // The first ones fill what is kept for reuse on purpose: pools, the allocator's, the table of
    // connections.
    let cycles = if full_size() { 2_500 } else { 100 };
    visit(&server, &mut publisher, 100);
    let descriptors = server.descriptors();
    // Memory comes and goes in pages for other reasons, too; what sessions leave behind would show every
    // time.
    let mut grown = Vec::new();
    for _ in 0..4 {
        let before = server.resident_bytes();
        visit(&server, &mut publisher, cycles);
        grown.push(server.resident_bytes().saturating_sub(before));
    }
    let least = grown.iter().min().copied().unwrap_or_default();
    println!(
        "RESULT rtc-churn cycles=4x{cycles} descriptors={descriptors}->{} grown_bytes={grown:?}",
        server.descriptors()
    );
    // That of the last request may still be open, now as well as when they were counted first.
    crate::common::eventually("no descriptor is left behind", || {
        (server.descriptors() <= descriptors).then_some(())
    });
    assert!(least <= 64 * u64::from(cycles), "{grown:?} bytes more after {cycles} sessions each");
    server.wait_for_session_count(1);
    server.assert_healthy();
}

/// Viewers come and go: by DELETE, by DTLS's close, before they have connected, and without a word.
fn visit(server: &Server, publisher: &mut Client, cycles: u32) {
    for cycle in 0..cycles {
        publisher.turn();
        let options = Options::default();
        let mut viewer = Client::open(server, "/whep/live/visited", Direction::Receive, &options);
        match cycle % 10 {
            // Before it has connected: by DELETE, and without a word.
            0 => assert_eq!(viewer.delete(), 200),
            1 => {}
            2 => {
                viewer.connect();
                viewer.peer.close(Instant::now());
                viewer.turn();
            }
            _ => {
                viewer.connect();
                assert_eq!(viewer.delete(), 200);
            }
        }
    }
    crate::common::eventually("all viewers are gone", || {
        publisher.turn();
        (server.session_count() == 1).then_some(())
    });
}

#[test]
fn a_viewer_who_falls_silent_is_sent_nothing_after_thirty_seconds() {
    let mut server = Server::start("");
    let mut publisher = Client::publish(&server, "live/abandoned");
    let mut viewer = Client::play(&server, "live/abandoned");
    let mut witness = Client::play(&server, "live/abandoned");
    let known = start_flow(&mut publisher, &mut viewer, 0);
    // The header of each packet says which one it is, and when that one was published is known: how late this
    // process reads it, on a busy machine, does not count.
    publisher.send_audio(known);
    viewer.until("a packet whose number is known", |viewer| !viewer.media.is_empty());
    let sequence_of = |packet: &[u8]| u32::from(u16::from_be_bytes([packet[2], packet[3]]));
    let offset = sequence_of(&viewer.media[0]).wrapping_sub(known);
    let first = start_flow(&mut publisher, &mut witness, known + 1);
    let mut number = first;
    // From here on the viewer only listens: no checks, no reports.
    let silent_since = Instant::now();
    let (mut published, mut last) = (Vec::new(), 0);
    viewer.socket.set_nonblocking(true).expect("a socket option");
    let mut buffer = [0; 2048];
    while silent_since.elapsed() < Duration::from_secs(36) {
        published.push(silent_since.elapsed());
        publisher.send_audio(number);
        number += 1;
        publisher.turn();
        witness.until_within(Duration::from_millis(20), |_| false);
        while let Ok(len) = viewer.socket.recv(&mut buffer) {
            if rtc::demux::classify(&buffer[..len]) == rtc::demux::Kind::Rtp {
                last = last.max(sequence_of(&buffer).wrapping_sub(offset) & 0xffff);
            }
        }
    }
    assert!(last >= first, "it was sent media after its last check");
    let after = published[(last - first) as usize];
    println!("RESULT rtc-consent last_packet_s={:.1}", after.as_secs_f64());
    assert!(after > Duration::from_secs(5), "it was sent media while its consent was fresh");
    assert!(after <= Duration::from_secs(30), "media {after:?} after the last sign of consent");
    witness.media.clear();
    exchange(&mut publisher, &mut witness, number..number + 5);
    crate::common::eventually("it is counted", || (counter(&server, "consent_lost") > 0).then_some(()));
    assert_eq!(publisher.delete(), 200);
    assert_eq!(witness.delete(), 200);
    wait_for_no_sessions(&server);
    server.assert_healthy();
}
