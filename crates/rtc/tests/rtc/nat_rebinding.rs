//! A client whose NAT changes its mapping is followed at its first authentic check, and an attacker
//! is not.

use std::time::{Duration, Instant};

use crate::common::{
    CLIENT_PASSWORD, CLIENT_UFRAG, SERVER_UFRAG, STRANGER, World, address, client_path, genuine_check,
    millis, path_from,
};
use rtc::{Refusal, Signal};
use rtc_test::stun::{self, Writer};

/// Runs until the client's next check leaves over the new mapping, and says when.
fn next_check(world: &mut World) -> Instant {
    let sent = world.client_sent.len();
    assert!(world.run_until(millis(5000), |world| world.client_sent.len() > sent));
    world.client_sent[sent].0
}

/// From the first check over the new mapping to the moment at which the client gets what the server
/// sends.
fn interruption(world: &mut World, mapped: &str) -> Duration {
    world.mapped = address(mapped);
    let checked = next_check(world);
    assert!(
        world.run_until(millis(10_000), |world| world.server.peer.path() == Some(path_from(mapped))),
        "never resumed at {mapped}"
    );
    world.now + world.network.delay - checked
}

#[test]
fn a_new_port_is_followed_within_a_round_trip() {
    for delay in [1, 10, 50, 150] {
        let mut world = World::connected();
        world.network.delay = millis(delay);
        for port in 50_001..50_005 {
            let interruption = interruption(&mut world, &format!("198.51.100.7:{port}"));
            assert!(interruption <= 2 * millis(delay) + millis(50), "{delay} ms one way: {interruption:?}");
        }
        assert!(world.server.peer.is_valid(&path_from("198.51.100.7:50004")));
    }
}

#[test]
fn a_new_host_is_followed_once_it_has_answered() {
    for delay in [1, 10, 20] {
        let mut world = World::connected();
        world.network.delay = millis(delay);
        let interruption = interruption(&mut world, "198.51.100.99:40404");
        // There and back for its check, there and back for ours.
        assert!(interruption <= 4 * millis(delay) + millis(5), "{delay} ms one way: {interruption:?}");
        // Media of a publisher is taken from it before.
        assert!(world.server.peer.is_valid(&path_from("198.51.100.99:40404")));
    }
}

#[test]
fn loss_does_not_prevent_it() {
    for seed in 0..30 {
        let mut world = World::connected_with(seed);
        world.network.loss = 0.2;
        for mapped in ["198.51.100.7:50001", "198.51.100.99:40404", "198.51.100.7:50002"] {
            world.mapped = address(mapped);
            let follows = |world: &World| world.server.peer.path() == Some(path_from(mapped));
            assert!(world.run_until(millis(20_000), follows), "seed {seed}: {mapped}");
        }
        assert!(world.is_connected() && !world.server.peer.is_closed());
    }
}

/// An attacker on the path records a check, keeps it from arriving, and sends it from the address
/// of the victim.
#[test]
fn a_recorded_check_does_not_turn_the_stream_on_a_stranger() {
    let mut world = World::connected();
    world.to_server_open = false;
    let checked = next_check(&mut world);
    let recorded = world.client_sent.iter().rfind(|(at, _)| *at == checked).unwrap().1.bytes.clone();
    world.to_server_open = true;
    assert_eq!(world.inject(path_from(STRANGER), &recorded), Signal::Accepted);
    let sent = world.server_sent.len();
    for _ in 0..200 {
        world.run(millis(100));
        assert_eq!(world.server.peer.path(), Some(client_path()));
    }
    let to_stranger = world.server_sent[sent..].iter().filter(|(_, sent)| sent.path == path_from(STRANGER));
    let bytes: usize = to_stranger.map(|(_, sent)| sent.bytes.len()).sum();
    assert!(bytes <= 500, "{bytes} bytes");
}

#[test]
fn a_stranger_cannot_answer_for_the_peer() {
    let mut world = World::connected();
    assert_eq!(world.inject(path_from(STRANGER), &genuine_check(5).bytes()), Signal::Accepted);
    let asked = &world.server_sent.last().unwrap().1;
    assert_eq!(asked.path, path_from(STRANGER));
    assert!(stun::is_sealed(&asked.bytes, CLIENT_PASSWORD));
    let username = format!("{CLIENT_UFRAG}:{SERVER_UFRAG}");
    assert_eq!(stun::find(&asked.bytes, stun::USERNAME), Some(username.as_bytes()));
    let transaction: [u8; 12] = asked.bytes[8..20].try_into().unwrap();
    let answer = |transaction, password: &str| {
        let answer = Writer::new(stun::SUCCESS, transaction)
            .attribute(stun::XOR_MAPPED_ADDRESS, &stun::xor_mapped(address(crate::common::SERVER)));
        answer.integrity(password).fingerprint().0
    };
    for (path, message, reason) in [
        (path_from(STRANGER), answer(transaction, crate::common::SERVER_PASSWORD), Refusal::WrongIntegrity),
        (path_from(STRANGER), answer([1; 12], CLIENT_PASSWORD), Refusal::UnknownTransaction),
        (path_from("203.0.113.66:6667"), answer(transaction, CLIENT_PASSWORD), Refusal::UnknownTransaction),
    ] {
        assert_eq!(world.inject(path, &message), Signal::Refused(reason));
        assert_eq!(world.server.peer.path(), Some(client_path()));
    }
    assert_eq!(world.inject(path_from(STRANGER), &answer(transaction, CLIENT_PASSWORD)), Signal::Accepted);
    assert_eq!(world.server.peer.path(), Some(path_from(STRANGER)));
}

/// Peers that nominate once do not say so again from their new port.
#[test]
fn a_peer_that_does_not_nominate_again_is_followed_when_its_old_path_is_silent() {
    let mut world = World::connected();
    world.to_server_open = false;
    let silent = path_from("198.51.100.7:50001");
    let mut number = 100;
    let mut check = |world: &mut World, path| {
        number += 1;
        let check = genuine_check(number).without_nomination();
        assert_eq!(world.inject(path, &check.bytes()), Signal::Accepted);
    };
    // As long as the old path is checked, the other one is a spare.
    for _ in 0..10 {
        check(&mut world, client_path());
        check(&mut world, silent);
        world.run(millis(2000));
        assert_eq!(world.server.peer.path(), Some(client_path()));
    }
    for _ in 0..4 {
        check(&mut world, silent);
        world.run(millis(2000));
    }
    assert_eq!(world.server.peer.path(), Some(silent));
}
