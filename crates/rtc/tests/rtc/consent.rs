//! A peer that has stopped consenting is sent nothing (RFC 7675), and abandoned sessions end.

use std::time::Duration;

use crate::common::{World, client_path, genuine_check, millis};
use rtc::{Event, FailReason, Refusal, Signal};

fn lost(end: &crate::common::End) -> usize {
    end.count(|event| matches!(event, Event::ConsentLost))
}

#[test]
fn consent_lasts_as_long_as_checks_come() {
    let mut world = World::connected();
    world.run(Duration::from_secs(600));
    assert_eq!((lost(&world.client), lost(&world.server)), (0, 0));
    assert_eq!(world.server.peer.path(), Some(client_path()));
    // And with one datagram in five lost.
    world.network.loss = 0.2;
    world.run(Duration::from_secs(600));
    assert_eq!((lost(&world.client), lost(&world.server)), (0, 0));
}

#[test]
fn the_server_stops_within_30_seconds_of_the_last_check() {
    let mut world = World::connected();
    world.run(Duration::from_secs(60));
    world.to_server_open = false;
    let silent = world.now;
    assert!(world.run_until(Duration::from_secs(60), |world| world.server.peer.path().is_none()));
    assert!(world.now - silent <= Duration::from_secs(30), "{:?}", world.now - silent);
    assert_eq!(lost(&world.server), 1);
    assert!(!world.server.peer.is_valid(&client_path()));
    // RFC 7675 section 5.1: the same credentials do not bring it back.
    let sent = world.server_sent.len();
    let check = genuine_check(1);
    assert_eq!(world.inject(client_path(), &check.bytes()), Signal::Refused(Refusal::Closed));
    world.run(Duration::from_secs(60));
    assert_eq!(world.server_sent.len(), sent);
    assert_eq!(lost(&world.server), 1);
}

#[test]
fn the_client_stops_within_30_seconds_of_the_last_answer() {
    let mut world = World::connected();
    world.to_client_open = false;
    let silent = world.now;
    assert!(world.run_until(Duration::from_secs(60), |world| world.client.peer.path().is_none()));
    assert!(world.now - silent <= Duration::from_secs(30), "{:?}", world.now - silent);
    assert_eq!(lost(&world.client), 1);
    let sent = world.client_sent.len();
    world.run(Duration::from_secs(60));
    assert_eq!(world.client_sent.len(), sent);
}

#[test]
fn a_peer_that_never_comes_is_given_up_after_15_seconds() {
    let mut world = World::new();
    world.to_server_open = false;
    let began = world.now;
    for end in [false, true] {
        let closed = move |world: &World| {
            let end = if end { &world.client } else { &world.server };
            end.peer.is_closed()
        };
        assert!(world.run_until(Duration::from_secs(60), closed));
        assert!(world.now - began <= Duration::from_secs(16), "{:?}", world.now - began);
    }
    for end in [&mut world.client, &mut world.server] {
        assert_eq!(end.count(|event| matches!(event, Event::Failed(FailReason::IceTimeout))), 1);
        assert_eq!(end.events.len(), 1);
        assert_eq!(end.peer.next_timeout(), None);
    }
}

#[test]
fn a_peer_without_handshake_is_given_up_15_seconds_after_its_check() {
    let mut world = World::new();
    world.to_server_open = false;
    world.run(millis(5000));
    let began = world.now;
    let mut number = 0;
    while !world.server.peer.is_closed() && world.now < began + millis(60_000) {
        number += 1;
        let _ = world.inject(client_path(), &genuine_check(number).bytes());
        world.run(millis(1000));
    }
    assert_eq!(world.server.count(|event| matches!(event, Event::Failed(FailReason::DtlsTimeout))), 1);
    assert!(world.now - began <= millis(16_000), "{:?}", world.now - began);
}

#[test]
fn closing_tells_the_other_end() {
    for server_closes in [false, true] {
        let mut world = World::connected();
        let now = world.now;
        let closing = if server_closes { &mut world.server } else { &mut world.client };
        closing.peer.close(now);
        assert_eq!(closing.peer.path(), None);
        world.run(millis(500));
        let (closed, told) =
            if server_closes { (&world.server, &world.client) } else { (&world.client, &world.server) };
        let local = |event: &Event| matches!(event, Event::Closed(rtc::CloseReason::Local));
        let remote = |event: &Event| matches!(event, Event::Closed(rtc::CloseReason::Remote));
        assert_eq!((closed.count(local), told.count(remote)), (1, 1), "{:?}", told.events);
        assert!(closed.peer.is_closed() && told.peer.is_closed());
    }
}
