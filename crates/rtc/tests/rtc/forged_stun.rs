//! STUN that is not the peer's changes nothing and is not answered: before, during and after the
//! connection.

use std::time::Instant;

use crate::common::{
    CLIENT_PASSWORD, CLIENT_UFRAG, End, Random, SERVER_PASSWORD, SERVER_UFRAG, STRANGER, World, client_path,
    genuine_check, millis, path_from,
};
use rtc::{Path, Refusal, Signal};
use rtc_test::stun::{self, Check, Writer};

/// Everything that can be seen of a peer's state.
#[derive(Debug, PartialEq)]
struct State {
    path: Option<Path>,
    valid: Vec<Path>,
    next_timeout: Option<Instant>,
    closed: bool,
    sent: usize,
    events: usize,
}

fn state(end: &mut End, sent: usize) -> State {
    State {
        path: end.peer.path(),
        valid: end.peer.valid_paths().collect(),
        next_timeout: end.peer.next_timeout(),
        closed: end.peer.is_closed(),
        sent,
        events: end.events.len(),
    }
}

fn server_state(world: &mut World) -> State {
    world.collect();
    let sent = world.server_sent.len();
    state(&mut world.server, sent)
}

fn client_state(world: &mut World) -> State {
    world.collect();
    let sent = world.client_sent.len();
    state(&mut world.client, sent)
}

/// Worlds before any contact, with a checked path, in the middle of the handshake, and connected.
fn stages() -> Vec<(&'static str, World)> {
    let before = World::new();
    let mut checked = World::new();
    let check = genuine_check(900).without_nomination().bytes();
    assert_eq!(checked.inject(client_path(), &check), Signal::Accepted);
    let mut handshake = World::new();
    assert!(
        handshake
            .run_until(millis(1000), |world| world.server_sent.iter().any(|(_, sent)| sent.bytes[0] >= 20))
    );
    assert!(!handshake.is_connected());
    vec![
        ("before", before),
        ("checked", checked),
        ("handshake", handshake),
        ("connected", World::connected()),
    ]
}

/// Messages of an attacker who knows the user fragments, which are sent in the clear, but not the
/// passwords.
fn forgeries() -> Vec<(&'static str, Vec<u8>, Refusal)> {
    let genuine = genuine_check(1);
    let of = |password: &str| Check { password: password.to_owned(), ..genuine.clone() }.bytes();
    let named = |username: &str| Check { username: username.to_owned(), ..genuine.clone() }.bytes();
    let open = genuine.open();
    let username = format!("{SERVER_UFRAG}:{CLIENT_UFRAG}");
    let mut wrong_fingerprint = genuine.bytes();
    *wrong_fingerprint.last_mut().unwrap() ^= 1;
    let mut old_cookie = genuine.bytes();
    old_cookie[4] ^= 0xff;
    let mut longer = genuine.bytes();
    longer.extend([0; 4]);
    let username_late = Writer::new(stun::REQUEST, stun::transaction(2))
        .attribute(stun::PRIORITY, &[0; 4])
        .integrity(SERVER_PASSWORD)
        .attribute(stun::USERNAME, username.as_bytes())
        .fingerprint();
    let no_username = Writer::new(stun::REQUEST, stun::transaction(3))
        .attribute(stun::PRIORITY, &[0; 4])
        .integrity(SERVER_PASSWORD)
        .fingerprint();
    let answer = |kind: u16, password: &str| {
        let mapped = stun::xor_mapped(crate::common::address(crate::common::MAPPED));
        let answer = Writer::new(kind, stun::transaction(4)).attribute(stun::XOR_MAPPED_ADDRESS, &mapped);
        answer.integrity(password).fingerprint().0
    };
    let conflict = Writer::new(stun::ERROR, stun::transaction(5))
        .attribute(stun::ERROR_CODE, &[0, 0, 4, 87])
        .integrity(CLIENT_PASSWORD)
        .fingerprint();
    let method = |kind: u16| {
        let mut other =
            Writer::new(kind, stun::transaction(6)).attribute(stun::USERNAME, username.as_bytes());
        other = other.attribute(stun::PRIORITY, &[0; 4]);
        other.integrity(SERVER_PASSWORD).fingerprint().0
    };
    vec![
        ("no integrity", open.clone().fingerprint().0, Refusal::NoIntegrity),
        ("no integrity, no fingerprint", open.0.clone(), Refusal::NoIntegrity),
        ("another password", of("another/password+24chars"), Refusal::WrongIntegrity),
        ("an empty password", of(""), Refusal::WrongIntegrity),
        ("the other side's password", of(CLIENT_PASSWORD), Refusal::WrongIntegrity),
        (
            "integrity of zeros",
            open.clone().attribute(stun::MESSAGE_INTEGRITY, &[0; 20]).0,
            Refusal::WrongIntegrity,
        ),
        (
            "integrity cut short",
            open.clone().attribute(stun::MESSAGE_INTEGRITY, &[0; 10]).0,
            Refusal::Malformed,
        ),
        ("integrity of no bytes", open.attribute(stun::MESSAGE_INTEGRITY, &[]).0, Refusal::Malformed),
        ("another session's fragment", named("otherUFR:clnt"), Refusal::WrongUsername),
        ("another client's fragment", named("serverUF:othr"), Refusal::WrongUsername),
        ("fragments swapped", named("clnt:serverUF"), Refusal::WrongUsername),
        ("half a fragment", named("serverUF"), Refusal::WrongUsername),
        ("a longer fragment", named("serverUF:clnt:"), Refusal::WrongUsername),
        ("no username", no_username.0, Refusal::WrongUsername),
        ("username behind integrity", username_late.0, Refusal::Malformed),
        ("another fingerprint", wrong_fingerprint, Refusal::Malformed),
        ("RFC 3489's header", old_cookie, Refusal::Malformed),
        ("bytes behind the message", longer, Refusal::Malformed),
        ("an answer nobody asked for", answer(stun::SUCCESS, CLIENT_PASSWORD), Refusal::UnknownTransaction),
        ("an answer with our password", answer(stun::SUCCESS, SERVER_PASSWORD), Refusal::UnknownTransaction),
        ("an error nobody asked for", conflict.0, Refusal::UnknownTransaction),
        ("an indication", method(stun::INDICATION), Refusal::NotBinding),
        ("TURN's Allocate", method(0x0003), Refusal::NotBinding),
        ("TURN's CreatePermission", method(0x0008), Refusal::NotBinding),
    ]
}

#[test]
fn the_server_ignores_what_is_not_from_its_peer() {
    for (stage, mut world) in stages() {
        let before = server_state(&mut world);
        for (name, message, reason) in forgeries() {
            for path in [client_path(), path_from(STRANGER)] {
                assert_eq!(world.inject(path, &message), Signal::Refused(reason), "{stage}: {name}");
                assert_eq!(server_state(&mut world), before, "{stage}: {name}");
            }
        }
        if stage != "checked" {
            assert!(world.run_until(millis(3000), World::is_connected), "{stage}");
        }
    }
}

#[test]
fn the_client_ignores_what_is_not_from_its_peer() {
    for (stage, mut world) in stages() {
        let before = client_state(&mut world);
        let server = Path::udp(
            crate::common::address(crate::common::CLIENT),
            crate::common::address(crate::common::SERVER),
        );
        for (name, message, _) in forgeries() {
            for path in [server, Path::udp(server.local, crate::common::address(STRANGER))] {
                let signal = world.client.peer.handle_signal(world.now, path, &message);
                assert!(matches!(signal, Signal::Refused(_)), "{stage}: {name}");
                assert_eq!(client_state(&mut world), before, "{stage}: {name}");
            }
        }
    }
}

#[test]
fn an_answer_counts_from_where_the_check_went_and_once() {
    let mut world = World::new();
    world.to_server_open = false;
    world.collect();
    let (_, check) = world.client_sent[0].clone();
    let transaction: [u8; 12] = check.bytes[8..20].try_into().unwrap();
    let answer = |transaction, password: &str| {
        let mapped = stun::xor_mapped(crate::common::address(crate::common::MAPPED));
        let answer = Writer::new(stun::SUCCESS, transaction).attribute(stun::XOR_MAPPED_ADDRESS, &mapped);
        answer.integrity(password).fingerprint().0
    };
    let before = client_state(&mut world);
    let stranger = Path::udp(check.path.local, crate::common::address(STRANGER));
    for (path, bytes, reason) in [
        (check.path, answer(transaction, CLIENT_PASSWORD), Refusal::WrongIntegrity),
        (check.path, answer(stun::transaction(7), SERVER_PASSWORD), Refusal::UnknownTransaction),
        (stranger, answer(transaction, SERVER_PASSWORD), Refusal::UnknownTransaction),
    ] {
        assert_eq!(world.client.peer.handle_signal(world.now, path, &bytes), Signal::Refused(reason));
        assert_eq!(client_state(&mut world), before);
    }
    let genuine = answer(transaction, SERVER_PASSWORD);
    assert_eq!(world.client.peer.handle_signal(world.now, check.path, &genuine), Signal::Accepted);
    assert_eq!(world.client.peer.path(), Some(check.path));
    let again = world.client.peer.handle_signal(world.now, check.path, &genuine);
    assert_eq!(again, Signal::Refused(Refusal::UnknownTransaction));
}

#[test]
fn no_bit_of_a_genuine_check_can_be_changed() {
    let genuine = genuine_check(1).bytes();
    for (stage, mut world) in stages() {
        let before = server_state(&mut world);
        for bit in 0..8 * genuine.len() {
            let mut changed = genuine.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            if changed[0] >= 20 {
                // DTLS, or RTP, which prove their origin themselves.
                continue;
            }
            let signal = world.inject(client_path(), &changed);
            assert!(matches!(signal, Signal::Refused(_)), "{stage}: bit {bit}: {signal:?}");
            assert_eq!(server_state(&mut world), before, "{stage}: bit {bit}");
        }
    }
}

#[test]
fn nothing_can_be_put_behind_integrity() {
    let check = genuine_check(1).without_nomination().open().integrity(SERVER_PASSWORD);
    for (kind, value) in [(stun::USE_CANDIDATE, &[][..]), (stun::USERNAME, b"a:b"), (0xc057, &[0; 4])] {
        let mut world = World::new();
        let message = check.clone().attribute(kind, value).fingerprint();
        assert_eq!(world.inject(client_path(), &message.0), Signal::Refused(Refusal::Malformed));
    }
    // But for the sum by SHA-256, which a sender of both has there (RFC 8489 section 14.6), and no
    // sum at all.
    for message in [check.clone().attribute(0x001c, &[0; 32]).fingerprint(), check] {
        let mut world = World::new();
        assert_eq!(world.inject(client_path(), &message.0), Signal::Accepted);
        assert_eq!(world.server.peer.path(), None);
        assert!(world.server.peer.is_valid(&client_path()));
    }
}

#[test]
fn a_check_that_was_seen_is_answered_on_its_path_and_refused_from_others() {
    let mut world = World::connected();
    let check = genuine_check(77).bytes();
    assert_eq!(world.inject(client_path(), &check), Signal::Accepted);
    let before = server_state(&mut world);
    for path in [path_from(STRANGER), path_from("198.51.100.7:50001")] {
        assert_eq!(world.inject(path, &check), Signal::Refused(Refusal::Replayed));
        assert_eq!(server_state(&mut world), before);
    }
    // A repeat because the answer was lost: answered again, and nothing else.
    world.now += millis(500);
    assert_eq!(world.inject(client_path(), &check), Signal::Accepted);
    let after = server_state(&mut world);
    assert_eq!(after, State { sent: before.sent + 1, ..before });
}

#[test]
fn a_repeat_does_not_prolong_consent() {
    let mut world = World::connected();
    world.to_server_open = false;
    let check = genuine_check(77).bytes();
    assert_eq!(world.inject(client_path(), &check), Signal::Accepted);
    for _ in 0..60 {
        world.run(millis(1000));
        let _ = world.inject(client_path(), &check);
    }
    assert_eq!(world.server.peer.path(), None);
}

/// The first requests of a connection, changed at random and with the fingerprint mended: none
/// passes.
#[test]
fn a_flood_of_bad_messages_leaves_a_connection_as_it_is() {
    let mut world = World::connected();
    let before = server_state(&mut world);
    let genuine = genuine_check(1).open().integrity(SERVER_PASSWORD).0;
    let mut random = Random::new(99);
    for round in 0..100_000 {
        let mut changed = genuine.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(changed.len() as u64) as usize;
            changed[at] ^= 1 << random.below(8);
        }
        if changed == genuine {
            continue;
        }
        let changed = if round % 2 == 0 { Writer(changed).fingerprint().0 } else { changed };
        // A changed length is mended along with the fingerprint.
        if changed[..2] == genuine[..2] && changed[4..genuine.len()] == genuine[4..] {
            continue;
        }
        let signal = world.server.peer.handle_signal(world.now, path_from(STRANGER), &changed);
        assert!(matches!(signal, Signal::Refused(_)), "round {round}: {signal:?}");
    }
    assert_eq!(server_state(&mut world), before);
}
