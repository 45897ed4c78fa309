//! ICE restarts with new credentials; media, DTLS and keys continue meanwhile (RFC 8445 section 9).

use crate::common::{SERVER, World, address, client_path, genuine_check, millis, path_from};
use rtc::{Candidate, Event, IceCredentials, Refusal, Signal, Transport};
use rtc_test::stun::Check;

const SERVER_AGAIN: (&str, &str) = ("server2U", "second/server/passw+24ch");
const CLIENT_AGAIN: (&str, &str) = ("clnt2", "second/client/passw+24ch");

fn credentials((ufrag, password): (&str, &str)) -> IceCredentials {
    IceCredentials::new(ufrag, password).unwrap()
}

fn restart_server(world: &mut World) {
    let now = world.now;
    world.server.peer.restart_ice(now, credentials(SERVER_AGAIN), credentials(CLIENT_AGAIN), &[]).unwrap();
}

fn restart_client(world: &mut World) {
    let now = world.now;
    let candidates = [Candidate::host(address(SERVER), Transport::Udp, 65535)];
    world
        .client
        .peer
        .restart_ice(now, credentials(CLIENT_AGAIN), credentials(SERVER_AGAIN), &candidates)
        .unwrap();
}

fn check_again(number: u64) -> Check {
    let username = format!("{}:{}", SERVER_AGAIN.0, CLIENT_AGAIN.0);
    Check { username, password: SERVER_AGAIN.1.to_owned(), ..genuine_check(number) }
}

#[test]
fn media_goes_on_over_the_old_path_until_the_new_one_is_found() {
    let mut world = World::connected();
    restart_server(&mut world);
    assert_eq!(world.server.peer.path(), Some(client_path()));
    assert!(world.server.peer.is_valid(&client_path()));
    // The answer takes a while to reach the client, which is then on another network.
    world.run(millis(300));
    world.mapped = address("203.0.113.9:1234");
    restart_client(&mut world);
    let new = path_from("203.0.113.9:1234");
    assert!(world.run_until(millis(1000), |world| world.server.peer.path() == Some(new)));
    // The same DTLS session continues, and there are no second keys.
    world.run(millis(60_000));
    for end in [&world.client, &world.server] {
        assert_eq!(end.count(|event| matches!(event, Event::Connected(_))), 1);
        assert_eq!(end.count(|event| matches!(event, Event::ConsentLost)), 0);
        assert!(end.peer.path().is_some());
    }
    let now = world.now;
    world.client.peer.close(now);
    world.run(millis(500));
    assert!(world.server.peer.is_closed());
}

#[test]
fn old_credentials_count_no_more() {
    let mut world = World::connected();
    restart_server(&mut world);
    let old = genuine_check(1);
    assert_eq!(world.inject(client_path(), &old.bytes()), Signal::Refused(Refusal::WrongUsername));
    let mixed = Check { username: check_again(2).username, ..genuine_check(2) };
    assert_eq!(world.inject(client_path(), &mixed.bytes()), Signal::Refused(Refusal::WrongIntegrity));
    assert_eq!(world.inject(client_path(), &check_again(3).bytes()), Signal::Accepted);
}

#[test]
fn a_restart_nobody_follows_ends_with_consent_for_the_old_path() {
    let mut world = World::connected();
    let began = world.now;
    restart_server(&mut world);
    assert!(world.run_until(millis(60_000), |world| world.server.peer.path().is_none()));
    assert!(world.now - began <= millis(30_000), "{:?}", world.now - began);
    assert_eq!(world.server.count(|event| matches!(event, Event::ConsentLost)), 1);
}

#[test]
fn a_restart_brings_back_what_lost_consent() {
    let mut world = World::connected();
    (world.to_server_open, world.to_client_open) = (false, false);
    let lost = |world: &World| world.server.peer.path().is_none() && world.client.peer.path().is_none();
    assert!(world.run_until(millis(60_000), lost));
    (world.to_server_open, world.to_client_open) = (true, true);
    restart_server(&mut world);
    restart_client(&mut world);
    let found = |world: &World| world.server.peer.path().is_some() && world.client.peer.path().is_some();
    assert!(world.run_until(millis(1000), found));
    world.run(millis(60_000));
    assert!(found(&world));
}

#[test]
fn what_is_closed_is_not_restarted() {
    let mut world = World::connected();
    let now = world.now;
    world.server.peer.close(now);
    let result =
        world.server.peer.restart_ice(now, credentials(SERVER_AGAIN), credentials(CLIENT_AGAIN), &[]);
    assert_eq!(result, Err(rtc::PeerError::Closed));
}
