//! A viewer who forges the source address of his checks, at any moment, cannot direct a stream at a
//! third party.

use crate::common::{
    STRANGER, World, address, client_config, client_path, genuine_check, millis, path_from, server_config,
};
use rtc::dtls::DtlsVersion;
use rtc::{Path, Signal};
use rtc_test::stun;

/// Where media would go, whenever it may.
fn media_path(world: &World) -> Option<Path> {
    world.server.connected().and(world.server.peer.path())
}

fn world(version: DtlsVersion) -> World {
    let mut client = client_config();
    client.dtls.versions = vec![version];
    World::of(client, server_config(), 1)
}

#[test]
fn a_forged_nomination_before_during_and_after_the_handshake_moves_no_media() {
    for version in [DtlsVersion::V1_2, DtlsVersion::V1_3] {
        // Every moment of the handshake, a millisecond apart.
        for at in 0..150 {
            let mut world = world(version);
            world.run(millis(at));
            let mut number = 1000;
            for _ in 0..30 {
                number += 1;
                assert_eq!(
                    world.inject(path_from(STRANGER), &genuine_check(number).bytes()),
                    Signal::Accepted
                );
                assert_ne!(media_path(&world), Some(path_from(STRANGER)), "{version:?} at {at} ms");
                world.run(millis(3));
                assert_ne!(media_path(&world), Some(path_from(STRANGER)), "{version:?} at {at} ms");
            }
            // The genuine checks have the last word, and the stranger has got some STUN and the
            // handshake's flights.
            world.run(millis(10_000));
            assert_ne!(media_path(&world), Some(path_from(STRANGER)), "{version:?} at {at} ms");
            if world.server.connected().is_some() {
                assert_eq!(world.server.peer.path(), Some(client_path()), "{version:?} at {at} ms");
            }
        }
    }
}

/// Chromium nominates after the handshake: media need not wait for that.
#[test]
fn media_flows_where_the_handshake_was_finished_before_anything_is_nominated() {
    for version in [DtlsVersion::V1_2, DtlsVersion::V1_3] {
        let mut world = world(version);
        // Everything passes but checks that nominate.
        world.to_server_open = false;
        let began = world.now;
        while world.server.connected().is_none() && world.now < began + millis(3000) {
            world.run(millis(1));
            for (_, sent) in std::mem::take(&mut world.client_sent) {
                let is_stun = sent.bytes[0] < 4;
                if !is_stun || stun::find(&sent.bytes, stun::USE_CANDIDATE).is_none() {
                    let _ = world.inject(client_path(), &sent.bytes);
                }
            }
        }
        assert_eq!(media_path(&world), Some(client_path()), "{version:?}");
        let told =
            |event: &rtc::Event| matches!(event, rtc::Event::PathSelected(path) if *path == client_path());
        assert_eq!(world.server.count(told), 1);
    }
}

/// The viewer himself checks and does not nominate; the only nomination has a forged source.
#[test]
fn a_nomination_that_comes_after_the_handshake_has_to_be_answered_too() {
    let mut world = World::new();
    world.mapped = address(crate::common::MAPPED);
    assert!(world.run_until(millis(3000), World::is_connected));
    let now = world.now;
    world.server.peer.path_closed(now, &client_path());
    assert_eq!(world.server.peer.path(), None);
    assert_eq!(world.inject(path_from(STRANGER), &genuine_check(1).bytes()), Signal::Accepted);
    assert_eq!(world.server.peer.path(), None);
    // His own host has proven itself.
    let other_port = path_from("198.51.100.7:50001");
    assert_eq!(world.inject(other_port, &genuine_check(2).bytes()), Signal::Accepted);
    assert_eq!(world.server.peer.path(), Some(other_port));
}

#[test]
fn a_tcp_connection_has_proven_itself() {
    let mut world = World::connected();
    let tcp = Path::tcp(address(crate::common::SERVER), address("203.0.113.80:9999"));
    assert_eq!(world.inject(tcp, &genuine_check(1).bytes()), Signal::Accepted);
    assert_eq!(world.server.peer.path(), Some(tcp));
}
