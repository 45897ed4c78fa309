//! A client and a server find a path and agree on keys, whatever the network loses, repeats and
//! delays.

use crate::common::{SERVER, World, address, client_config, client_path, millis, server_config};
use rtc::dtls::{DtlsRole, DtlsVersion};
use rtc::{Event, Path, SrtpKeys};

fn keys(end: &crate::common::End) -> &SrtpKeys {
    let keys = end.events.iter().find_map(|(_, event)| match event {
        Event::Connected(keys) => Some(keys),
        _ => None,
    });
    keys.expect("connected")
}

/// Protects with one and unprotects with the other.
fn carries(from: &SrtpKeys, to: &SrtpKeys) -> bool {
    let config = srtp::Config::default();
    let mut outbound = srtp::OutboundContext::new(&config, std::slice::from_ref(&from.outbound)).unwrap();
    let mut inbound = srtp::InboundContext::new(&config, std::slice::from_ref(&to.inbound)).unwrap();
    let mut packet = vec![0x80, 96, 0, 1, 0, 0, 0, 9, 0, 0, 0, 7];
    packet.extend(b"payload");
    let plain = packet.clone();
    packet.resize(plain.len() + 64, 0);
    let length = outbound.protect_rtp(&mut packet, plain.len()).unwrap();
    packet.truncate(length);
    inbound.unprotect_rtp(&mut packet).is_ok_and(|length| packet[..length] == plain)
}

#[test]
fn both_ends_have_the_same_keys_in_both_versions_and_roles() {
    for version in [DtlsVersion::V1_2, DtlsVersion::V1_3] {
        for role in [DtlsRole::Client, DtlsRole::Server] {
            let (mut client, mut server) = (client_config(), server_config());
            client.dtls.versions = vec![version];
            client.dtls_role = role;
            server.dtls.versions = vec![version];
            server.dtls_role = if role == DtlsRole::Client { DtlsRole::Server } else { DtlsRole::Client };
            let mut world = World::of(client, server, 1);
            assert!(world.run_until(millis(3000), World::is_connected), "{version:?} {role:?}");
            let (client, server) = (keys(&world.client), keys(&world.server));
            assert!(carries(client, server) && carries(server, client), "{version:?} {role:?}");
            assert_eq!(world.server.peer.path(), Some(client_path()));
            assert_eq!(
                world.client.peer.path(),
                Some(Path::udp(address(crate::common::CLIENT), address(SERVER)))
            );
            assert!(
                world.client.peer.round_trip().is_some_and(|rtt| (millis(20)..millis(25)).contains(&rtt))
            );
        }
    }
}

#[test]
fn a_server_that_hears_nothing_says_nothing() {
    let mut world = World::new();
    world.to_server_open = false;
    world.run(millis(14_000));
    assert!(world.server_sent.is_empty());
    assert!(world.server.events.is_empty());
}

/// Loss in per mille, and within what time how many of 40 connect.
#[test]
fn loss_and_duplicates_delay_and_do_not_prevent() {
    let versions =
        [vec![DtlsVersion::V1_2], vec![DtlsVersion::V1_3], vec![DtlsVersion::V1_2, DtlsVersion::V1_3]];
    let losses = [(0, 1_000, 40), (50, 15_000, 40), (100, 15_000, 40), (200, 15_000, 38)];
    for ((loss, within, at_least), versions) in
        losses.into_iter().flat_map(|loss| versions.iter().map(move |versions| (loss, versions)))
    {
        let mut times = Vec::new();
        for seed in 0..40 {
            let mut client = client_config();
            client.dtls.versions = versions.clone();
            let mut world = World::of(client, server_config(), seed);
            world.network.loss = f64::from(loss) / 1000.0;
            world.network.duplicate = 0.05;
            let began = world.now;
            if world.run_until(millis(within), World::is_connected) {
                times.push(world.now - began);
                let (client, server) = (keys(&world.client), keys(&world.server));
                assert!(carries(client, server) && carries(server, client), "loss {loss} seed {seed}");
                for end in [&world.client, &world.server] {
                    assert_eq!(end.count(|event| matches!(event, Event::Connected(_))), 1);
                }
            }
            if !world.is_connected() {
                println!("loss {loss} seed {seed}: {:?} {:?}", world.client.events, world.server.events);
            }
        }
        times.sort();
        println!(
            "{versions:?} loss {loss}/1000: {} of 40, p50 {:?}, last {:?}",
            times.len(),
            times[times.len() / 2],
            times.last()
        );
        assert!(times.len() >= at_least, "{versions:?} loss {loss}/1000: {} of 40", times.len());
    }
}
