//! The replay window: what was accepted is refused, what lies before the window too, and nothing else
//! (RFC 3711 section 3.3.2).

use std::collections::BTreeSet;

use crate::common::naive::Naive;
use crate::common::{Keys, Rtp, rtcp, unprotect_rtcp, unprotect_rtp};
use proptest::prelude::*;
use srtp::{Config, InboundContext, Profile, SetupError, UnprotectError};

const SSRC: u32 = 77;

fn media(twin: &Naive, index: u64) -> Vec<u8> {
    let plain = Rtp::new(SSRC, index as u16, &index.to_be_bytes()).bytes();
    twin.protect_rtp(&plain, (index >> 16) as u32)
}

fn control(twin: &Naive, index: u64) -> Vec<u8> {
    twin.protect_rtcp(&rtcp(SSRC, &index.to_be_bytes()), index as u32)
}

fn with_windows(keys: &Keys, rtp: usize, rtcp: usize) -> Result<InboundContext, SetupError> {
    let config =
        Config { rtp_replay_window_packets: rtp, rtcp_replay_window_packets: rtcp, ..Config::default() };
    InboundContext::new(&config, &[keys.master()])
}

#[test]
fn a_packet_is_accepted_once() {
    for profile in Profile::ALL {
        let keys = Keys::new(profile, 1);
        let (twin, mut inbound) = (keys.naive(), keys.inbound(&Config::default()));
        for index in [5, 3, 4, 900, 6, 65_000] {
            assert!(unprotect_rtp(&mut inbound, &media(&twin, index)).is_ok(), "{profile}, {index}");
            let again = unprotect_rtp(&mut inbound, &media(&twin, index));
            assert_eq!(again, Err(UnprotectError::Replayed), "{profile}, {index}");
        }
        for index in [1000, 999, 1020, 1001] {
            assert!(unprotect_rtcp(&mut inbound, &control(&twin, index)).is_ok(), "{profile}, {index}");
            let again = unprotect_rtcp(&mut inbound, &control(&twin, index));
            assert_eq!(again, Err(UnprotectError::Replayed), "{profile}, {index}");
        }
    }
}

/// The oldest index inside and the newest outside, for windows that fill words and windows that do not.
#[test]
fn its_edge_is_where_the_configuration_puts_it() {
    let keys = Keys::new(Profile::AeadAes128Gcm, 2);
    let twin = keys.naive();
    for size in [64usize, 128, 192, 320, 1024, 1984, 32_704] {
        let mut inbound = with_windows(&keys, size, size).unwrap();
        let highest = 70_000 + size as u64;
        inbound.set_roc(SSRC, (highest >> 16) as u32).unwrap();
        unprotect_rtp(&mut inbound, &media(&twin, highest)).unwrap();
        unprotect_rtcp(&mut inbound, &control(&twin, highest)).unwrap();
        let (inside, outside) = (highest - size as u64 + 1, highest - size as u64);
        for unprotect in [
            (|inbound, twin, index| unprotect_rtp(inbound, &media(twin, index)))
                as fn(&mut InboundContext, &Naive, u64) -> _,
            |inbound, twin, index| unprotect_rtcp(inbound, &control(twin, index)),
        ] {
            assert_eq!(unprotect(&mut inbound, &twin, outside), Err(UnprotectError::TooOld), "{size}");
            assert!(unprotect(&mut inbound, &twin, inside).is_ok(), "{size}");
            assert_eq!(unprotect(&mut inbound, &twin, inside), Err(UnprotectError::Replayed), "{size}");
            // One packet on, and what was inside is outside.
            assert!(unprotect(&mut inbound, &twin, highest + 1).is_ok(), "{size}");
            assert_eq!(unprotect(&mut inbound, &twin, inside), Err(UnprotectError::TooOld), "{size}");
        }
    }
}

#[test]
fn sizes_are_multiples_of_64_from_64_on() {
    let keys = Keys::new(Profile::AeadAes128Gcm, 2);
    for (size, good) in
        [(0, false), (1, false), (63, false), (64, true), (65, false), (96, false), (128, true)]
    {
        assert_eq!(with_windows(&keys, size, 64).is_ok(), good, "{size}");
        assert_eq!(with_windows(&keys, 64, size).is_ok(), good, "{size}");
    }
    assert_eq!(with_windows(&keys, 1000, 64).err(), Some(SetupError::ReplayWindow));
}

/// A forged packet far ahead must not move the window past the genuine ones.
#[test]
fn it_moves_for_authentic_packets_only() {
    for profile in Profile::ALL {
        let keys = Keys::new(profile, 3);
        let (twin, mut inbound) = (keys.naive(), keys.inbound(&Config::default()));
        unprotect_rtp(&mut inbound, &media(&twin, 10)).unwrap();
        unprotect_rtcp(&mut inbound, &control(&twin, 10)).unwrap();
        for ahead in [11, 2000, 30_000] {
            let mut forged = media(&twin, ahead);
            *forged.last_mut().unwrap() ^= 1;
            assert_eq!(unprotect_rtp(&mut inbound, &forged), Err(UnprotectError::AuthFailed), "{profile}");
            let mut forged = control(&twin, ahead * 1000);
            forged[9] ^= 1;
            assert_eq!(unprotect_rtcp(&mut inbound, &forged), Err(UnprotectError::AuthFailed), "{profile}");
        }
        for index in [9, 11] {
            assert!(unprotect_rtp(&mut inbound, &media(&twin, index)).is_ok(), "{profile}, {index}");
            assert!(unprotect_rtcp(&mut inbound, &control(&twin, index)).is_ok(), "{profile}, {index}");
        }
    }
}

/// A replay is refused before anything is computed with the key, so its tag does not matter.
#[test]
fn a_replay_is_told_from_a_forgery() {
    let keys = Keys::new(Profile::AesCm128HmacSha1_80, 4);
    let (twin, mut inbound) = (keys.naive(), keys.inbound(&Config::default()));
    unprotect_rtp(&mut inbound, &media(&twin, 10)).unwrap();
    let mut forged = media(&twin, 10);
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(unprotect_rtp(&mut inbound, &forged), Err(UnprotectError::Replayed));
}

/// Twice in one batch: the second is refused, and its bytes are as they were received.
#[test]
fn within_a_batch_a_packet_is_accepted_once() {
    for profile in Profile::ALL {
        let keys = Keys::new(profile, 5);
        let (twin, mut inbound) = (keys.naive(), keys.inbound(&Config::default()));
        for round in 0..20u64 {
            // A second packet of the round between the two, and several lengths of run.
            let order: Vec<u64> =
                (0..=round).map(|at| 30 * round + at).chain([30 * round, 30 * round]).collect();
            let received: Vec<Vec<u8>> = order.iter().map(|index| media(&twin, *index)).collect();
            let mut packets = received.clone();
            let mut batch: Vec<srtp::Incoming<'_>> = packets
                .iter_mut()
                .map(|packet| srtp::Incoming { context: 0, packet, result: Ok(0) })
                .collect();
            srtp::unprotect_rtp_batch(&mut inbound, &mut batch);
            let results: Vec<_> = batch.iter().map(|incoming| incoming.result).collect();
            let firsts = round as usize + 1;
            assert!(results[..firsts].iter().all(Result::is_ok), "{profile}: {results:?}");
            assert_eq!(results[firsts..], [Err(UnprotectError::Replayed); 2], "{profile}, round {round}");
            assert_eq!(packets[firsts..], received[firsts..], "{profile}, round {round}: bytes as received");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Against the set of all indices accepted.
    #[test]
    fn it_is_a_set_with_an_edge(
        size in prop::sample::select(vec![64usize, 128, 192, 1024]),
        steps in prop::collection::vec((-1300i64..1300, 0u8..6), 1..250),
    ) {
        let keys = Keys::new(Profile::AesCm128HmacSha1_32, 6);
        let (twin, mut inbound) = (keys.naive(), with_windows(&keys, size, size).unwrap());
        let (mut accepted, mut position) = (BTreeSet::new(), 63_000i64);
        for (step, kind) in steps {
            let index = (position + match kind { 0 => step, 1 => step / 8, _ => step / 300 }).max(60_000) as u64;
            let expected = match accepted.last() {
                Some(&highest) if highest >= index + size as u64 => Some(UnprotectError::TooOld),
                _ if accepted.contains(&index) => Some(UnprotectError::Replayed),
                _ => None,
            };
            let media = unprotect_rtp(&mut inbound, &media(&twin, index));
            prop_assert_eq!(media.err(), expected, "index {}", index);
            let control = unprotect_rtcp(&mut inbound, &control(&twin, index));
            prop_assert_eq!(control.err(), expected, "index {}", index);
            accepted.insert(index);
            position = position.max(index as i64);
        }
    }
}
