//! Handshakes over bad networks, and what both ends agree on.

use std::time::Duration;

use srt::{CallError, CookieSecret, Incoming};

use crate::world::{Both, Network, PEER, World};

#[test]
fn handshakes_survive_loss() {
    let mut failed = 0;
    for seed in 0..200 {
        let network = Network { loss_percent: 20, ..Network::GOOD };
        failed += u32::from(World::new(network, seed).connect(&Both::default()).is_err());
    }
    assert!(failed <= 2, "{failed}");
}

#[test]
fn nobody_there_is_an_error_in_time() {
    let network = Network { loss_percent: 100, ..Network::GOOD };
    let mut world = World::new(network, 1);
    let start = world.now;
    assert_eq!(world.connect(&Both::default()).err(), Some(CallError::Timeout));
    assert_eq!(world.now - start, Duration::from_secs(3));
}

#[test]
fn each_direction_has_the_larger_latency() {
    let ms = Duration::from_millis;
    let mut both = Both::default();
    (both.call.receive_latency, both.call.send_latency) = (ms(100), ms(700));
    both.accept.latency = ms(300);
    let mut world = World::new(Network::GOOD, 1);
    let (caller, listener) = world.connect(&both).expect("a connection");
    let of = |connection: &srt::Connection| {
        let status = connection.status(world.now);
        (status.receive_latency, status.send_latency)
    };
    assert_eq!((of(&caller), of(&listener)), ((ms(300), ms(700)), (ms(700), ms(300))));
}

#[test]
fn a_flood_of_inductions_leaves_nothing_behind() {
    // What makes cookies is shared and never changed: there is no place for state.
    let secret: &CookieSecret = &CookieSecret::new(&[3; 32]);
    let mut induction = vec![0; 64];
    induction[0] = 0x80;
    induction[19] = 4;
    induction[39] = 1;
    induction[43] = 9;
    for port in 0..50_000u16 {
        match secret.handle(Duration::ZERO, (PEER.0, port).into(), &induction) {
            Ok(Incoming::Induction(answer)) => assert!(answer.len() <= induction.len()),
            other => panic!("{other:?}"),
        }
    }
}
