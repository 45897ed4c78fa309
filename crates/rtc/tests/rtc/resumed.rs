//! Another process goes on with a connected peer: its client notices nothing.

use std::time::Duration;

use crate::common::{World, address, client_path, genuine_check, millis, path_from, server_config};
use rtc::{Event, FailReason, Peer, Refusal, Signal};

/// The server's side is another one from now on.
fn hand_over(world: &mut World) {
    let established = world.server.peer.established(world.now).expect("it is connected");
    world.server.peer = Peer::resume(established, server_config().timeouts, world.now);
}

#[test]
fn consent_goes_on() {
    let mut world = World::connected();
    for _ in 0..3 {
        hand_over(&mut world);
        assert_eq!(world.server.peer.path(), Some(client_path()));
        assert!(world.server.peer.is_valid(&client_path()));
        world.run(Duration::from_secs(120));
    }
    let is_end = |event: &Event| matches!(event, Event::ConsentLost | Event::Closed(_) | Event::Failed(_));
    assert_eq!((world.client.count(is_end), world.server.count(is_end)), (0, 0));
}

#[test]
fn a_client_that_falls_silent_loses_it_as_soon_as_before() {
    let mut world = World::connected();
    world.run(Duration::from_secs(60));
    world.to_server_open = false;
    let silent = world.now;
    world.run(Duration::from_secs(15));
    hand_over(&mut world);
    assert!(world.run_until(Duration::from_secs(60), |world| world.server.peer.path().is_none()));
    assert!(world.now - silent <= Duration::from_secs(30), "{:?}", world.now - silent);
}

#[test]
fn a_new_port_is_followed_and_a_replay_is_not() {
    let mut world = World::connected();
    let check = genuine_check(77);
    assert_eq!(world.inject(client_path(), &check.bytes()), Signal::Accepted);
    hand_over(&mut world);
    let elsewhere = path_from("203.0.113.66:1234");
    assert_eq!(world.inject(elsewhere, &check.bytes()), Signal::Refused(Refusal::Replayed));
    world.mapped = address("198.51.100.7:50001");
    let followed = world
        .run_until(millis(10_000), |world| world.server.peer.path() == Some(path_from("198.51.100.7:50001")));
    assert!(followed);
}

#[test]
fn dtls_is_refused_and_closing_says_nothing() {
    let mut world = World::connected();
    hand_over(&mut world);
    world.client.peer.close(world.now);
    world.run(millis(1000));
    assert!(!world.server.peer.is_closed(), "its close_notify cannot be read");
    let sent = world.server_sent.len();
    world.server.peer.close(world.now);
    world.collect();
    assert!(world.server.peer.is_closed());
    assert_eq!(world.server_sent.len(), sent);
}

#[test]
fn one_that_is_not_connected_stays_where_it_is() {
    let mut world = World::new();
    assert_eq!(world.server.peer.established(world.now), None);
    world.run(Duration::from_secs(1));
    assert!(world.server.peer.established(world.now).is_some());
    assert_eq!(world.client.peer.established(world.now), None, "a client's side");
    world.server.peer.close(world.now);
    assert_eq!(world.server.peer.established(world.now), None);
    assert_eq!(world.server.count(|event| matches!(event, Event::Failed(FailReason::DtlsTimeout))), 0);
}
