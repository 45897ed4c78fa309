//! Keys that change while packets are lost, and both directions of a connection.

use std::time::Duration;

use srt::{KeyLength, Limits, Passphrase};

use crate::world::{Both, Network, Pair, World, refused};
use srt::{CallError, Reject};

fn encrypted(length: KeyLength) -> Both {
    let passphrase = Passphrase::new("correct horse").expect("long enough");
    let mut both = Both::default();
    both.call.encryption = Some((passphrase.clone(), length));
    both.accept.passphrase = Some(passphrase);
    both
}

#[test]
fn packets_are_encrypted_with_keys_of_every_length() {
    for length in [KeyLength::Aes128, KeyLength::Aes192, KeyLength::Aes256] {
        let mut pair = Pair::new(Network::GOOD, 1, &encrypted(length));
        pair.world.loses = Some(|_, packet| {
            let is_data = packet[0] & 0x80 == 0;
            assert!(!is_data || packet.len() < 300 || packet[20..300].iter().any(|byte| *byte != packet[20]));
            false
        });
        pair.stream(100, 200);
        assert_eq!(pair.numbers().len(), 100);
        assert!(pair.receiver.status(pair.world.now).is_encrypted);
    }
}

#[test]
fn keys_change_without_a_packet_lost() {
    let mut both = encrypted(KeyLength::Aes128);
    both.call.limits = Limits { key_refresh_packets: 400, key_announce_packets: 200, ..Limits::default() };
    let network = Network { loss_percent: 10, jitter: Duration::from_millis(20), ..Network::GOOD };
    let mut pair = Pair::new(network, 4, &both);
    pair.stream(4000, 200);
    assert_eq!(pair.numbers().len(), 4000);
    let changed = pair.sender.counters().keys_changed;
    assert!((8..=10).contains(&changed), "{changed}");
    assert_eq!(pair.receiver.counters().undecrypted_in, 0);
}

#[test]
fn a_passphrase_has_to_be_the_same_and_on_both_ends() {
    let with = encrypted(KeyLength::Aes128);
    let other = Passphrase::new("wrong horse").expect("long enough");
    let mut cases = [with.clone(), with.clone(), with];
    cases[0].call.encryption = Some((other, KeyLength::Aes128));
    cases[1].call.encryption = None;
    cases[2].accept.passphrase = None;
    let expected = [Reject::BadSecret, Reject::Unsecure, Reject::Unsecure];
    for (both, reject) in cases.iter().zip(expected) {
        let error = World::new(Network::GOOD, 1).connect(both).expect_err("it is refused");
        assert_eq!(error, refused(reject));
        assert_ne!(error.reason(), CallError::Rejected(1).reason());
    }
}
