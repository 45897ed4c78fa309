//! Keys that change while packets are lost, by both ciphers, and who is let in with which.

use std::time::Duration;

use srt::{CallError, CipherMode, DropReason, KeyLength, Limits, Passphrase, Reject};

use crate::world::{Both, Network, Pair, Side, World, refused};

const LENGTHS: [KeyLength; 3] = [KeyLength::Aes128, KeyLength::Aes192, KeyLength::Aes256];
const MODES: [CipherMode; 2] = [CipherMode::Ctr, CipherMode::Gcm];

fn encrypted(length: KeyLength, mode: CipherMode) -> Both {
    let passphrase = Passphrase::new("correct horse").expect("long enough");
    let mut both = Both::default();
    both.call.encryption = Some((passphrase.clone(), length, mode));
    both.accept.passphrase = Some(passphrase);
    both
}

fn is_data(packet: &[u8]) -> bool {
    packet[0] & 0x80 == 0
}

#[test]
fn packets_are_encrypted_with_keys_of_every_length() {
    for (length, mode) in LENGTHS.into_iter().flat_map(|length| MODES.map(|mode| (length, mode))) {
        let mut pair = Pair::new(Network::GOOD, 1, &encrypted(length, mode));
        pair.world.loses = Some(Box::new(|_, packet| {
            assert!(
                !is_data(packet)
                    || packet.len() < 300
                    || packet[20..300].iter().any(|byte| *byte != packet[20])
            );
            false
        }));
        pair.stream(100, 200);
        assert_eq!(pair.numbers().len(), 100, "{length:?} {mode:?}");
        assert!(pair.receiver.status(pair.world.now).is_encrypted);
        let tag_bytes = if mode == CipherMode::Gcm { 16 } else { 0 };
        assert_eq!(pair.sender.payload_bytes_max(), 1456 - tag_bytes);
        assert_eq!(pair.receiver.counters().bytes_in, 100 * (1316 + tag_bytes as u64));
    }
}

#[test]
fn keys_change_without_a_packet_lost() {
    for (length, mode) in LENGTHS.into_iter().zip([CipherMode::Ctr, CipherMode::Gcm, CipherMode::Gcm]) {
        let mut both = encrypted(length, mode);
        both.call.limits =
            Limits { key_refresh_packets: 400, key_announce_packets: 200, ..Limits::default() };
        let network = Network { loss_percent: 10, jitter: Duration::from_millis(20), ..Network::GOOD };
        let mut pair = Pair::new(network, 4, &both);
        pair.stream(4000, 200);
        assert_eq!(pair.numbers().len(), 4000);
        let changed = pair.sender.counters().keys_changed;
        assert!((8..=10).contains(&changed), "{changed}");
        assert_eq!(pair.receiver.counters().undecrypted_in, 0);
    }
}

#[test]
fn a_nonce_is_used_once_whatever_is_lost() {
    let mut both = encrypted(KeyLength::Aes128, CipherMode::Gcm);
    both.call.limits = Limits { key_refresh_packets: 300, key_announce_packets: 100, ..Limits::default() };
    let network = Network { loss_percent: 10, ..Network::GOOD };
    let mut pair = Pair::new(network, 5, &both);
    pair.world.keeps = true;
    pair.stream(1000, 200);
    assert_eq!(pair.numbers().len(), 1000);
    let mut sent = std::collections::HashMap::new();
    let mut again = 0;
    for packet in pair.world.kept.iter().filter(|(to, packet)| *to == Side::Listener && is_data(packet)) {
        let mut packet = packet.1.clone();
        packet[4] &= !4;
        // The number of a packet and which key it has, both of which stay when it is sent again.
        let first = sent.entry((packet[..4].to_vec(), packet[4] & 0x18)).or_insert_with(|| packet.clone());
        again += u32::from(*first == packet);
        assert_eq!(*first, packet, "one number, one key, two contents");
    }
    assert_eq!(sent.len(), 1000, "no number has two keys");
    assert!(again > 1050, "{again}");
}

#[test]
fn what_is_changed_on_the_way_is_dropped_and_the_packet_itself_is_taken() {
    let mut pair = Pair::new(Network::GOOD, 1, &encrypted(KeyLength::Aes256, CipherMode::Gcm));
    pair.world.keeps = true;
    pair.world.loses = Some(Box::new(|to, packet| to == Side::Listener && is_data(packet)));
    assert!(pair.sender.send(pair.world.now, &[0; 1316]));
    pair.run_until(pair.world.now + Duration::from_millis(1));
    let packet =
        pair.world.kept.iter().rev().map(|(_, packet)| packet.clone()).find(|packet| is_data(packet));
    let packet = packet.expect("it was sent");
    let now = pair.world.now;
    // Payload, tag, and each field of the header but the socket, which it would not be for.
    let places = [16, 500, packet.len() - 16, packet.len() - 1, 3, 4, 7, 8, 11];
    for (count, at) in places.into_iter().enumerate() {
        let mut changed = packet.clone();
        changed[at] ^= 1;
        assert_eq!(pair.receiver.handle_packet(now, &changed), Err(DropReason::Forged), "{at}");
        assert_eq!(pair.receiver.counters().undecrypted_in, count as u64 + 1);
    }
    // In clear, by a key that there is not, and without room for a tag.
    for (flags, len) in [(0xc0, packet.len()), (0xd0, packet.len()), (packet[4], 16), (packet[4], 31)] {
        let mut changed = packet.clone();
        changed[4] = flags;
        assert_eq!(pair.receiver.handle_packet(now, &changed[..len]), Err(DropReason::Forged), "{len}");
    }
    assert_eq!((pair.receiver.counters().packets_in, pair.receiver.counters().lost_in), (0, 0));
    let mut again = packet.clone();
    again[4] |= 4;
    assert_eq!(pair.receiver.handle_packet(now, &again), Ok(()), "sent again is the same packet");
    assert_eq!(pair.receiver.handle_packet(now, &packet), Err(DropReason::Duplicate));
    pair.run_until(now + Duration::from_secs(1));
    assert_eq!(pair.received.len(), 1);
}

#[test]
fn nothing_in_clear_is_delivered_where_a_passphrase_is_agreed_on() {
    for mode in MODES {
        let mut pair = Pair::new(Network::GOOD, 1, &encrypted(KeyLength::Aes128, mode));
        let mut clear = vec![0; 16 + 1316];
        clear[..4].copy_from_slice(&1000u32.to_be_bytes());
        clear[4] = 0xc0;
        clear[12..16].copy_from_slice(&pair.receiver.local().0.to_be_bytes());
        let _ = pair.receiver.handle_packet(pair.world.now, &clear);
        pair.run_until(pair.world.now + Duration::from_secs(2));
        assert_eq!((pair.received.len(), pair.receiver.counters().undecrypted_in), (0, 1), "{mode:?}");
    }
}

#[test]
fn by_gcm_media_goes_in_one_direction() {
    let mut pair = Pair::new(Network::GOOD, 1, &encrypted(KeyLength::Aes128, CipherMode::Gcm));
    assert_eq!(pair.receiver.room(), 8192);
    pair.stream(10, 200);
    // Both ends begin with one key and one number.
    assert!(!pair.receiver.send(pair.world.now, &[0; 188]));
    let mut pair = Pair::new(Network::GOOD, 1, &encrypted(KeyLength::Aes128, CipherMode::Gcm));
    assert!(pair.receiver.send(pair.world.now, &[0; 188]), "to a caller that plays");
}

#[test]
fn aes_gcm_that_repeats_nonces_is_refused_at_both_ends() {
    for (version, is_taken) in [([1, 5, 0], false), ([1, 5, 3], false), ([1, 5, 4], true), ([1, 6, 0], true)]
    {
        for mode in MODES {
            // HSREQ of the caller and HSRSP of the listener are the first extension.
            let connect = |of: Side| {
                let mut world = World::new(Network::GOOD, 1);
                world.rewrites = Some((of, version));
                world.connect(&encrypted(KeyLength::Aes128, mode)).map(|_| ())
            };
            let is_taken = is_taken || mode == CipherMode::Ctr;
            let (caller, listener) = (connect(Side::Listener), connect(Side::Caller));
            let expected = if is_taken { Ok(()) } else { Err(refused(Reject::Crypto)) };
            assert_eq!(caller, expected, "{version:?} {mode:?}");
            let expected = if is_taken { Ok(()) } else { Err(CallError::Crypto) };
            assert_eq!(listener, expected, "{version:?} {mode:?}");
        }
    }
}

#[test]
fn a_passphrase_has_to_be_the_same_and_on_both_ends() {
    let with = encrypted(KeyLength::Aes128, CipherMode::Ctr);
    let other = Passphrase::new("wrong horse").expect("long enough");
    let mut cases = [with.clone(), with.clone(), with];
    cases[0].call.encryption = Some((other, KeyLength::Aes128, CipherMode::Gcm));
    cases[1].call.encryption = None;
    cases[2].accept.passphrase = None;
    let expected = [Reject::BadSecret, Reject::Unsecure, Reject::Unsecure];
    for (both, reject) in cases.iter().zip(expected) {
        let error = World::new(Network::GOOD, 1).connect(both).expect_err("it is refused");
        assert_eq!(error, refused(reject));
        assert_ne!(error.reason(), CallError::Rejected(1).reason());
    }
}
