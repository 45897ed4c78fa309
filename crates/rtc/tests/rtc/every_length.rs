//! Datagrams of every length from 0 to 1500, whatever they hold, are taken without harm: before and
//! while connected.

use crate::common::{Random, SERVER_PASSWORD, World, bytes, client_path, genuine_check, millis, path_from};
use rtc::demux::{classify, stun_local_ufrag};
use rtc::tcp_framing::Deframer;
use rtc::{Path, Signal};

/// Real STUN and DTLS, to be cut and lengthened.
fn samples() -> Vec<Vec<u8>> {
    let world = World::connected();
    let sent = world.client_sent.iter().chain(&world.server_sent).map(|(_, sent)| sent.bytes.clone());
    let mut samples: Vec<Vec<u8>> = sent.collect();
    samples.push(genuine_check(1).bytes());
    samples.push(genuine_check(1).open().attribute(0xc057, &[0; 1200]).integrity(SERVER_PASSWORD).0);
    samples
}

fn feed(world: &mut World, path: Path, datagram: &[u8]) {
    let _ = (classify(datagram), stun_local_ufrag(datagram));
    let sent = world.server_sent.len() + world.client_sent.len();
    let server = world.inject(path, datagram);
    let client = Path::udp(
        crate::common::address(crate::common::CLIENT),
        crate::common::address(crate::common::SERVER),
    );
    let _ = world.client.peer.handle_signal(world.now, client, datagram);
    world.collect();
    if !world.server.peer.is_valid(&path) {
        assert!(matches!(server, Signal::Refused(_)), "{datagram:02x?}");
        assert_eq!(world.server_sent.len() + world.client_sent.len(), sent, "{datagram:02x?}");
    }
}

#[test]
fn random_bytes_of_every_length_do_no_harm() {
    let mut random = Random::new(3);
    let mut fresh = World::new();
    fresh.collect();
    let mut connected = World::connected();
    for length in 0..=1500 {
        for first in [0, 1, 3, 20, 22, 23, 31, 63, 128, 255] {
            let mut datagram = bytes(&mut random, length);
            if let Some(byte) = datagram.first_mut() {
                *byte = first;
            }
            if length >= 8 && first < 4 {
                datagram[..8].copy_from_slice(&[first, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42]);
                datagram[2..4].copy_from_slice(&(length.saturating_sub(20) as u16).to_be_bytes());
            }
            feed(&mut fresh, client_path(), &datagram);
            feed(&mut connected, path_from(crate::common::STRANGER), &datagram);
        }
    }
    assert!(fresh.run_until(millis(5000), World::is_connected));
    assert!(connected.server.peer.path().is_some() && connected.client.peer.path().is_some());
}

#[test]
fn real_datagrams_cut_and_lengthened_do_no_harm() {
    let mut world = World::connected();
    for sample in samples() {
        for length in (0..=1500).filter(|length| *length != sample.len()) {
            let mut datagram = sample.clone();
            datagram.resize(length, 0);
            feed(&mut world, path_from(crate::common::STRANGER), &datagram);
        }
    }
    world.run(millis(60_000));
    assert!(world.server.peer.path().is_some() && world.client.peer.path().is_some());
}

/// Anyone who guesses a connected peer's address can send on its path: DTLS has to withstand that.
#[test]
fn dtls_rubbish_with_the_peers_address_ends_nothing() {
    let mut random = Random::new(4);
    let mut world = World::connected();
    for length in 0..=1500 {
        for first in [20, 21, 22, 23, 25, 26, 31, 47, 63] {
            let mut datagram = bytes(&mut random, length);
            if length >= 13 {
                datagram[..5].copy_from_slice(&[first, 0xfe, 0xfd, 0, length as u8 % 3]);
                datagram[11..13].copy_from_slice(&((length - 13) as u16).to_be_bytes());
            }
            let _ = world.inject(client_path(), &datagram);
        }
    }
    for sample in samples().iter().filter(|sample| sample[0] >= 20) {
        for length in 0..=sample.len() {
            let _ = world.inject(client_path(), &sample[..length]);
        }
    }
    world.run(millis(60_000));
    assert!(
        world.server.peer.path().is_some() && !world.server.peer.is_closed(),
        "{:?}",
        world.server.events
    );
}

#[test]
fn frames_of_every_length_pass_or_end_the_connection() {
    let mut random = Random::new(6);
    for length in 0..=1500 {
        let mut deframer = Deframer::default();
        deframer.push(&bytes(&mut random, length));
        let mut total = 0;
        while let Ok(Some(datagram)) = deframer.pop() {
            total += 2 + datagram.len();
        }
        assert!(total <= length);
    }
}
