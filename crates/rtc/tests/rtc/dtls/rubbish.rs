//! Datagrams of every length, and good ones with bytes changed, at every step of a handshake: no
//! panic, no keys.

use netsim::Random;
use rtc::dtls::DtlsVersion::{V1_2, V1_3};

use super::link::{End, Pair, configs};

fn throw(end: &mut End, now: std::time::Instant, datagram: &[u8]) {
    let had_keys = end.keys.is_some();
    let result = end.dtls.handle_datagram(now, datagram);
    end.take(result);
    assert_ne!(end.error, Some(rtc::dtls::DtlsError::Internal), "a panic inside, of {datagram:?}");
    assert_eq!(end.keys.is_some(), had_keys, "keys of rubbish");
}

#[test]
fn every_length_is_taken_at_every_step() {
    for version in [V1_2, V1_3] {
        for steps in 0..8 {
            for (content_type, fill) in [(20, 0), (21, 1), (22, 1), (22, 0xff), (23, 0x5a), (0x2e, 0x11)] {
                let mut pair = Pair::new(configs(&[version], &[version]));
                for _ in 0..steps {
                    pair.step();
                }
                for len in 0..=1500usize {
                    let mut datagram = vec![fill; len];
                    // A record header that fits, if there is room for one.
                    let body = (len.saturating_sub(13) as u16).to_be_bytes();
                    let header = [content_type, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 9, body[0], body[1]];
                    let header_len = len.min(13);
                    datagram[..header_len].copy_from_slice(&header[..header_len]);
                    let now = pair.now;
                    throw(&mut pair.client, now, &datagram);
                    throw(&mut pair.server, now, &datagram);
                }
            }
        }
    }
}

#[test]
fn changed_datagrams_neither_panic_nor_give_keys() {
    let (mut tried, mut finished) = (0, 0);
    let mut random = Random::new(0x5eed);
    let mut below = |end: usize| random.below(end as u64) as usize;
    for version in [V1_2, V1_3] {
        for _ in 0..150 {
            let mut pair = Pair::new(configs(&[version], &[version]));
            let steps = below(10);
            for _ in 0..steps {
                pair.step();
            }
            let originals: Vec<Vec<u8>> = pair.client.sent.iter().chain(&pair.server.sent).cloned().collect();
            for _ in 0..30 {
                let mut datagram = originals[below(originals.len())].clone();
                for _ in 0..=below(3) {
                    match below(4) {
                        0 => datagram.truncate(below(datagram.len() + 1)),
                        1 => datagram.push(below(256) as u8),
                        _ if datagram.is_empty() => {}
                        _ => {
                            let at = below(datagram.len());
                            datagram[at] ^= 1 << below(8);
                        }
                    }
                }
                tried += 1;
                let now = pair.now;
                let end = if below(2) == 0 { &mut pair.client } else { &mut pair.server };
                let result = end.dtls.handle_datagram(now, &datagram);
                end.take(result);
                assert_ne!(
                    end.error,
                    Some(rtc::dtls::DtlsError::Internal),
                    "a panic inside, of {datagram:?}"
                );
            }
            // Whatever was injected: if there are keys at both ends, they match.
            pair.run_until_keys();
            if let (Some(ours), Some(theirs)) = (&pair.client.keys, &pair.server.keys) {
                assert!(super::link::fit(ours, theirs));
                finished += 1;
            }
        }
    }
    println!("{tried} changed datagrams; {finished} of 300 handshakes finished nevertheless");
}

#[test]
fn a_flood_of_datagrams_ends_neither_a_handshake_nor_a_session_with_keys() {
    for version in [V1_2, V1_3] {
        let mut pair = Pair::new(configs(&[version], &[version]));
        pair.step();
        let now = pair.now;
        let hello = pair.client.sent[0].clone();
        for _ in 0..10_000 {
            pair.server.dtls.handle_datagram(now, &hello).unwrap();
        }
        // What is too much is left out; the budget comes back with time, and the client asks again.
        pair.run_until_keys().unwrap();

        let mut pair = Pair::new(configs(&[version], &[version]));
        pair.run_until_keys().unwrap();
        let now = pair.now;
        for _ in 0..10_000 {
            let result = pair.server.dtls.handle_datagram(now, &hello);
            assert_eq!(result, Ok(()), "{version:?}");
            pair.server.take(result);
        }
    }
}
