//! Roles of the agents, and limits of a peer.

use crate::common::{
    CLIENT, CLIENT_PASSWORD, SERVER, SERVER_PASSWORD, World, address, client_config, client_path,
    genuine_check, millis, path_from, server_config,
};
use rtc::dtls::DtlsRole;
use rtc::{
    Candidate, IceCredentials, LocalAddress, Path, Peer, PeerError, REMOTE_CANDIDATES_MAX, Refusal, Side,
    Signal, TRANSMITS_MAX, Transport, USERNAME_BYTES_MAX, VALID_PATHS_MAX,
};
use rtc_test::stun::{self, Check, Writer};

#[test]
fn a_peer_that_claims_to_be_controlled_is_told_so_and_changes_nothing() {
    let mut world = World::new();
    let claim = Check { role: stun::ICE_CONTROLLED, ..genuine_check(1) };
    assert_eq!(world.inject(client_path(), &claim.bytes()), Signal::Refused(Refusal::RoleConflict));
    assert_eq!((world.server.peer.path(), world.server.peer.valid_paths().next()), (None, None));
    let (_, answer) = world.server_sent.pop().unwrap();
    assert_eq!(answer.path, client_path());
    assert_eq!(answer.bytes[..2], stun::ERROR.to_be_bytes());
    assert_eq!(stun::find(&answer.bytes, stun::ERROR_CODE).unwrap()[..4], [0, 0, 4, 87]);
    assert!(stun::is_sealed(&answer.bytes, SERVER_PASSWORD));
    // With the right role it is accepted.
    assert_eq!(world.inject(client_path(), &genuine_check(2).bytes()), Signal::Accepted);
    assert_eq!(world.server.peer.path(), Some(client_path()));
}

#[test]
fn an_answer_tells_the_peer_its_address_and_is_sealed() {
    let mut world = World::new();
    assert_eq!(world.inject(client_path(), &genuine_check(1).bytes()), Signal::Accepted);
    let (_, answer) = world.server_sent.pop().unwrap();
    assert_eq!(answer.bytes[..2], stun::SUCCESS.to_be_bytes());
    assert_eq!(answer.bytes[8..20], stun::transaction(1));
    let mapped = stun::xor_mapped(address(crate::common::MAPPED));
    assert_eq!(stun::find(&answer.bytes, stun::XOR_MAPPED_ADDRESS), Some(&mapped[..]));
    assert!(stun::is_sealed(&answer.bytes, SERVER_PASSWORD));
    assert!(answer.bytes.len() <= genuine_check(1).bytes().len());
}

/// Two clients that both think they control: one gives in, and they connect.
#[test]
fn two_full_sides_settle_who_controls() {
    let mut server = server_config();
    server.side = Side::Full;
    server.local_addresses = vec![LocalAddress { transport: Transport::Udp, address: address(SERVER) }];
    server.remote_candidates = vec![Candidate::host(address(crate::common::MAPPED), Transport::Udp, 65535)];
    let mut world = World::of(client_config(), server, 1);
    assert!(world.run_until(millis(5000), World::is_connected));
}

#[test]
fn a_server_with_many_addresses_answers_from_the_one_that_was_asked() {
    let paths = [
        client_path(),
        Path::udp(address("198.51.100.1:8189"), address(crate::common::MAPPED)),
        Path::udp(address("[2001:db8::1]:8189"), address("[2001:db8::2]:40000")),
        Path::tcp(address(SERVER), address("198.51.100.7:9999")),
    ];
    let mut world = World::new();
    for (number, path) in (1..).zip(paths) {
        assert_eq!(world.inject(path, &genuine_check(number).bytes()), Signal::Accepted);
        assert_eq!(world.server_sent.last().unwrap().1.path, path);
        assert_eq!(world.server.peer.path(), Some(path));
    }
    let mut valid: Vec<Path> = world.server.peer.valid_paths().collect();
    valid.sort_by_key(|path| paths.iter().position(|other| other == path));
    assert_eq!(valid, paths);
}

#[test]
fn the_path_not_heard_of_for_longest_makes_place() {
    let mut world = World::connected();
    for port in 1..100u16 {
        world.now += millis(1);
        let path = path_from(&format!("198.51.100.7:{port}"));
        let check = genuine_check(u64::from(port)).without_nomination();
        assert_eq!(world.inject(path, &check.bytes()), Signal::Accepted);
        assert!(world.server.peer.is_valid(&path));
        assert!(world.server.peer.valid_paths().count() <= VALID_PATHS_MAX);
    }
    assert!(world.server.peer.is_valid(&client_path()), "the selected one stays");
    assert_eq!(world.server.peer.path(), Some(client_path()));
    assert!(!world.server.peer.is_valid(&path_from("198.51.100.7:1")));
}

#[test]
fn a_client_learns_so_many_addresses_and_no_more() {
    let mut config = client_config();
    config.remote_candidates = (0..1000)
        .map(|port| Candidate::host(address(&format!("192.0.2.1:{}", 10_000 + port)), Transport::Udp, 1))
        .collect();
    let mut world = World::of(config, server_config(), 1);
    world.to_server_open = false;
    let username = format!("{}:{}", crate::common::CLIENT_UFRAG, crate::common::SERVER_UFRAG);
    let check = Check { username, password: CLIENT_PASSWORD.to_owned(), ..genuine_check(1) };
    let from = Path::udp(address(CLIENT), address("203.0.113.1:1"));
    let signal = world.client.peer.handle_signal(world.now, from, &check.bytes());
    assert_eq!(signal, Signal::Refused(Refusal::TooManyCandidates));
    world.run(millis(14_000));
    let mut asked: Vec<_> = world.client_sent.iter().map(|(_, sent)| sent.path.remote).collect();
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), REMOTE_CANDIDATES_MAX);
}

/// A server that says another address in each answer makes the client's agent learn them, up to a
/// limit.
#[test]
fn a_client_is_seen_under_so_many_addresses_and_no_more() {
    let mut config = client_config();
    // Waits for a handshake that never begins.
    config.dtls_role = DtlsRole::Server;
    config.timeouts.dtls = millis(3_600_000);
    let mut world = World::of(config, server_config(), 1);
    world.to_server_open = false;
    let mut refused = 0;
    let mut answered = 0;
    for port in 1..200u16 {
        world.run(millis(3000));
        let sent: Vec<_> =
            world.client_sent.drain(..).filter(|(_, sent)| sent.bytes[..2] == [0, 1]).collect();
        for (_, sent) in sent {
            let mapped = stun::xor_mapped(address(&format!("198.51.100.7:{port}")));
            let answer = Writer::new(stun::SUCCESS, sent.bytes[8..20].try_into().unwrap())
                .attribute(stun::XOR_MAPPED_ADDRESS, &mapped)
                .integrity(SERVER_PASSWORD)
                .fingerprint();
            match world.client.peer.handle_signal(world.now, sent.path, &answer.0) {
                Signal::Accepted => answered += 1,
                Signal::Refused(reason) => {
                    assert!(matches!(reason, Refusal::TooManyCandidates | Refusal::Closed), "{reason:?}");
                    refused += 1;
                }
            }
        }
    }
    assert!(answered >= 10 && refused > 0, "{answered} answered, {refused} refused");
}

#[test]
fn answers_nobody_fetches_are_dropped() {
    let mut peer = Peer::new(server_config(), crate::common::start()).unwrap();
    for number in 0..100 {
        let check = genuine_check(number).bytes();
        assert_eq!(peer.handle_signal(crate::common::start(), client_path(), &check), Signal::Accepted);
    }
    assert_eq!(std::iter::from_fn(|| peer.poll_transmit()).count(), TRANSMITS_MAX);
    // And only the last path is reported.
    assert_eq!(std::iter::from_fn(|| peer.poll_event()).count(), 1);
}

#[test]
fn fragments_too_long_for_a_check_are_refused_by_a_client_and_served_by_a_server() {
    let long = "u".repeat(USERNAME_BYTES_MAX);
    let mut client = client_config();
    client.remote_ice = IceCredentials::new(&long, SERVER_PASSWORD).unwrap();
    assert_eq!(Peer::new(client, crate::common::start()).err(), Some(PeerError::UfragTooLong));

    let longest = "u".repeat(USERNAME_BYTES_MAX - 1 - crate::common::CLIENT_UFRAG.len());
    let mut client = client_config();
    client.remote_ice = IceCredentials::new(&longest, SERVER_PASSWORD).unwrap();
    assert!(Peer::new(client, crate::common::start()).unwrap().poll_transmit().is_some());

    let mut server = server_config();
    server.remote_ice = IceCredentials::new(&long, CLIENT_PASSWORD).unwrap();
    let mut peer = Peer::new(server, crate::common::start()).unwrap();
    let check = Check { username: format!("{}:{long}", crate::common::SERVER_UFRAG), ..genuine_check(1) };
    assert_eq!(peer.handle_signal(crate::common::start(), client_path(), &check.bytes()), Signal::Accepted);
    assert_eq!(peer.path(), Some(client_path()));
}

#[test]
fn a_client_cannot_send_from_an_address_that_is_none() {
    for wrong in ["0.0.0.0:1", "224.0.0.1:1", "[::]:1"] {
        let mut config = client_config();
        config.local_addresses = vec![LocalAddress { transport: Transport::Udp, address: address(wrong) }];
        assert_eq!(
            Peer::new(config, crate::common::start()).err(),
            Some(PeerError::BadLocalAddress),
            "{wrong}"
        );
    }
}
