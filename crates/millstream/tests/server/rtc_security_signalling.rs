//! What comes by HTTP and by STUN before anybody has proved anything: refused with the right status, soon,
//! and for little; never answered with more than it was itself.

#![expect(clippy::disallowed_methods, reason = "attacks are timed by the real clock")]

use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

use crate::common::http::Response;
use crate::common::rtc::{
    Client, OfferOptions, Options, certificate, counter, credentials, exchange, offer, post, start_flow,
};
use crate::common::server::Server;
use rtc::dtls::{Certificate, Fingerprint, FingerprintHash};
use rtc::sdp::{Direction, make_offer};
use rtc_test::stun::{self, Check, Writer};

/// An offer to publish as text.
fn good_offer() -> String {
    make_offer(&offer(Direction::Send, local(), &OfferOptions::default()))
}

fn local() -> SocketAddr {
    "127.0.0.1:50000".parse().expect("an address")
}

fn whip(server: &Server, sdp: &str) -> Response {
    post(server.http, "/whip/live/refused", sdp, &[]).expect("a response")
}

fn without(text: &str, start: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with(start)).collect()
}

#[test]
fn offers_that_would_not_be_encrypted_or_bundled_are_refused() {
    let mut server = Server::start("");
    let good = good_offer();
    let weak = without(&good, "a=fingerprint").replace(
        "a=setup",
        "a=fingerprint:sha-1 00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22:33\r\na=setup",
    );
    let cases = [
        ("plain RTP", good.replace("UDP/TLS/RTP/SAVPF", "RTP/AVPF"), 422),
        ("plain RTP for one", good.replacen("UDP/TLS/RTP/SAVPF", "RTP/AVP", 1), 422),
        ("no fingerprint", without(&good, "a=fingerprint"), 422),
        ("SHA-1 only", weak, 422),
        ("no bundle", without(&good, "a=group"), 422),
        ("no rtcp-mux", without(&good, "a=rtcp-mux"), 422),
        ("no credentials", without(&good, "a=ice-ufrag"), 400),
        ("a broken fingerprint", good.replace("a=fingerprint:sha-256 ", "a=fingerprint:sha-256 zz:"), 400),
        ("nothing to send", good.replace("a=sendonly", "a=recvonly"), 422),
        (
            "no codec of ours",
            good.replace("opus/48000/2", "speex/8000").replace("VP8/90000", "theora/90000"),
            406,
        ),
        ("not SDP", "{\"sdp\":1}".to_owned(), 400),
        ("nothing", String::new(), 400),
    ];
    for (what, sdp, status) in cases {
        let response = whip(&server, &sdp);
        assert_eq!(response.status, status, "{what}: {}", response.text());
        assert!(!response.text().contains("v=0"), "{what}: no answer");
    }
    server.wait_for_session_count(0);
    server.assert_healthy();
}

#[test]
fn bombs_are_refused_and_cost_next_to_nothing() {
    let mut server = Server::spawn("");
    let good = good_offer();
    let repeat = |line: &str, times: usize| format!("{good}{}", line.repeat(times));
    let bombs = [
        ("a megabyte of attributes", repeat("a=x:yyyyyyyyyyyyyyyyyyyy\r\n", 40_000)),
        ("100 000 empty lines", repeat("\n", 100_000)),
        ("one line of a megabyte", repeat("a", 1 << 20)),
        ("2000 media", repeat("m=video 9 UDP/TLS/RTP/SAVPF 96\r\n", 2_000)),
        ("3000 candidates", repeat("a=candidate:1 1 udp 1 192.0.2.1 5 typ host\r\n", 2_500)),
        (
            "2000 SSRCs",
            format!("{good}{}", (0..2_000).map(|n| format!("a=ssrc:{n} cname:x\r\n")).collect::<String>()),
        ),
        ("1000 formats", repeat("m=video 9 UDP/TLS/RTP/SAVPF", 1) + &" 96".repeat(1_000) + "\r\n"),
    ];
    let cpu = server.cpu_time();
    let mut posts = 0;
    for _ in 0..10 {
        for (what, bomb) in &bombs {
            // Larger than a body may be, the server may close before all is written: that is a refusal, too.
            match post(server.http, "/whip/live/bombed", bomb, &[]) {
                Ok(response) => assert!((400..500).contains(&response.status), "{what}: {}", response.status),
                Err(error) => assert!(bomb.len() > rtc::sdp::SDP_BYTES_MAX, "{what}: {error}"),
            }
            posts += 1;
        }
    }
    let cpu = server.cpu_time() - cpu;
    println!(
        "RESULT rtc-sdp-bombs posts={posts} cpu_ms_per_post={:.2}",
        cpu.as_secs_f64() * 1e3 / f64::from(posts)
    );
    server.wait_for_session_count(0);
    server.assert_healthy();
}

#[test]
fn a_flood_of_offers_without_ice_is_bounded_and_forgotten() {
    let config = "[rtc]\npending_per_address = 50\npending_timeout_ms = 2000\nrequests_per_second = 0\n";
    let mut server = Server::start(config);
    let text = good_offer();
    let mut statuses = std::collections::BTreeMap::new();
    for number in 0..200 {
        let sdp = text.replace("a=ice-ufrag:", &format!("a=ice-ufrag:n{number:04}"));
        let response =
            post(server.http, &format!("/whip/live/flood{number}"), &sdp, &[]).expect("a response");
        *statuses.entry(response.status).or_insert(0) += 1;
        if response.status == 429 {
            assert!(response.header("retry-after").is_some(), "when to come again");
        }
    }
    assert!(statuses.keys().all(|status| [201, 429].contains(status)), "{statuses:?}");
    // Ones opened first may have been forgotten while the last were asked for.
    assert!(statuses[&201] >= 50 && statuses.contains_key(&429), "{statuses:?}");
    crate::common::rtc::wait_for_no_sessions(&server);
    crate::common::eventually("none of them waits any more", || {
        (counter(&server, "sessions_opened") == statuses[&201] && counter(&server, "pending_sessions") == 0)
            .then_some(())
    });
    // And there is room again.
    let mut publisher = Client::publish(&server, "live/after");
    publisher.turn();
    server.assert_healthy();
}

#[test]
fn who_shows_another_certificate_than_was_signalled_does_not_get_in() {
    let mut server = Server::start("");
    let mut publisher = Client::publish(&server, "live/guarded");
    let other = Certificate::generate().expect("random bytes").fingerprint();
    let cases = [
        ("of nobody", Fingerprint::of(FingerprintHash::Sha256, b"nobody")),
        // Another session's, as one who copies the offer of somebody else would have it.
        ("of another session", other),
        ("of a stronger hash", Fingerprint::of(FingerprintHash::Sha512, b"nobody")),
    ];
    let (mut number, mut opened) = (0, 1);
    for (what, fingerprint) in cases {
        let options = Options { fingerprint: Some(fingerprint), ..Options::default() };
        for (path, direction) in
            [("/whep/live/guarded", Direction::Receive), ("/whip/live/forged", Direction::Send)]
        {
            let mut client = Client::open(&server, path, direction, &options);
            opened += 1;
            // The handshake may look finished from this side. The server has seen the certificate by then.
            client.until("the server has ended it", |client| {
                publisher.turn();
                publisher.send_audio(number);
                number += 1;
                client.received > 0
                    && counter(&server, "sessions_opened") == opened
                    && counter(&server, "pending_sessions") == 0
            });
            assert!(client.media.is_empty() && client.bad == 0, "{what}: media came over {path}");
        }
    }
    assert_eq!(counter(&server, "sessions_connected"), 1, "the publisher and nobody else");
    server.wait_for_session_count(1);
    server.assert_healthy();
}

/// STUN of an attacker who has seen the user fragments, which are sent in the clear, but not the passwords.
fn forgeries(client: &Client) -> Vec<Vec<u8>> {
    let (theirs, ours) = (&client.answer.remote.ice, &client.offer.ice);
    let check = |username: &str, password: &str| {
        Check::new(username, password, stun::transaction(crate::common::rtc::random()))
    };
    let username = format!("{}:{}", theirs.ufrag, ours.ufrag);
    let genuine = check(&username, &theirs.password);
    let wrong = check(&username, &credentials().password);
    let mut other_cookie = genuine.bytes();
    other_cookie[4] ^= 0xff;
    let mut damaged = genuine.bytes();
    *damaged.last_mut().expect("not empty") ^= 1;
    let mut longer = genuine.bytes();
    longer.extend([0; 4]);
    let answer = Writer::new(stun::SUCCESS, stun::transaction(1))
        .attribute(stun::XOR_MAPPED_ADDRESS, &stun::xor_mapped(local()))
        .integrity(&theirs.password)
        .fingerprint();
    let indication = Writer::new(stun::INDICATION, stun::transaction(2))
        .attribute(stun::USERNAME, username.as_bytes())
        .integrity(&theirs.password)
        .fingerprint();
    let late = Writer::new(stun::REQUEST, stun::transaction(3))
        .integrity(&theirs.password)
        .attribute(stun::USERNAME, username.as_bytes())
        .fingerprint();
    vec![
        genuine.open().fingerprint().0,                                // no integrity
        wrong.bytes(),                                                 // another password
        check(&username, &ours.password).bytes(),                      // the other side's
        genuine.open().attribute(stun::MESSAGE_INTEGRITY, &[0; 20]).0, // zeros
        genuine.open().attribute(stun::MESSAGE_INTEGRITY, &[0; 8]).0,  // cut short
        check(&format!("{}:{}", ours.ufrag, theirs.ufrag), &theirs.password).bytes(), // swapped
        check("somebody:else", &theirs.password).bytes(),              // another session's
        other_cookie,
        damaged,
        longer,
        answer.0,
        indication.0,
        late.0,
    ]
}

#[test]
fn forged_checks_change_nothing_before_during_and_after_the_connection() {
    let mut server = Server::start("");
    let forger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    forger.set_nonblocking(true).expect("a socket option");
    let mut publisher = Client::publish(&server, "live/forged");
    let mut viewer = Client::open(&server, "/whep/live/forged", Direction::Receive, &Options::default());
    let server_address = publisher.remote();
    let forge = |client: &Client| {
        for forgery in forgeries(client) {
            forger.send_to(&forgery, server_address).expect("sent");
            // And from the client's own address: spoofed.
            client.send_raw(server_address, &forgery);
        }
    };
    forge(&viewer);
    forge(&publisher);
    viewer.until("connected in spite of it", |viewer| {
        forge(viewer);
        viewer.is_connected()
    });
    let number = start_flow(&mut publisher, &mut viewer, 0);
    for at in 0..50 {
        forge(&viewer);
        forge(&publisher);
        exchange(&mut publisher, &mut viewer, number + at..number + at + 1);
    }
    assert_eq!(viewer.remote(), server_address);
    let mut buffer = [0; 2048];
    assert!(forger.recv_from(&mut buffer).is_err(), "the forger was answered");
    crate::common::eventually("they are counted", || (counter(&server, "refused_signals") > 0).then_some(()));
    server.assert_healthy();
}

#[test]
fn answers_to_who_has_proved_nothing_are_never_larger_than_the_question() {
    let mut server = Server::start("");
    let mut publisher = Client::publish(&server, "live/quiet");
    let mut viewer = Client::play(&server, "live/quiet");
    let mut number = start_flow(&mut publisher, &mut viewer, 0);
    let server_address = publisher.remote();
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    stranger.set_nonblocking(true).expect("a socket option");
    let mut questions: Vec<Vec<u8>> = forgeries(&publisher);
    questions.push(client_hello());
    questions.push(Writer::new(stun::REQUEST, stun::transaction(9)).0);
    questions.push(Writer::new(stun::REQUEST, stun::transaction(9)).fingerprint().0);
    questions.extend((0..=1500).step_by(37).map(|len| vec![(len % 256) as u8; len]));
    questions.extend([0_u8, 1, 20, 22, 63, 64, 128, 191, 192, 255].map(|first| vec![first; 200]));
    let mut buffer = [0; 4096];
    let mut answered = 0;
    for question in &questions {
        stranger.send_to(question, server_address).expect("sent");
        // The first packet passes in the question's turn of the server's loop or a later one, the second
        // in a turn after that: an answer is there by then.
        exchange(&mut publisher, &mut viewer, number..number + 2);
        number += 2;
        while let Ok((len, _)) = stranger.recv_from(&mut buffer) {
            assert!(len <= question.len(), "{len} bytes for {question:02x?}");
            answered += 1;
        }
    }
    println!("RESULT rtc-reflection questions={} answers={answered}", questions.len());
    server.assert_healthy();
}

/// The first datagram of a DTLS client.
fn client_hello() -> Vec<u8> {
    let config = rtc::dtls::Config::new(certificate(), vec![certificate().fingerprint()]);
    let mut dtls = rtc::dtls::Dtls::client(config, Instant::now()).expect("a client");
    dtls.poll_transmit().expect("a ClientHello")
}
