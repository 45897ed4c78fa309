//! Packets of every size and every shape of header come through, SRTP and SRTCP, one after the other.

use srtp_compare::packet;
use srtp_compare::peer::{Case, key};
use srtp_compare::random::Random;

#[test]
fn rtp_of_every_small_size_and_random_larger_ones() {
    let mut random = Random::new();
    for case in Case::all() {
        let (mut sender, mut receiver) = case.pair(&[key(&mut random, case.profile)]);
        let first = random.in_range(0..=30_000) as u16;
        let sizes: Vec<usize> =
            (0..=130).chain((0..170).map(|_| random.in_range(0..=1400))).chain([1400]).collect();
        for (sequence, size) in (first..).zip(sizes) {
            let plain = packet::rtp(&mut random, 0xdead_beef, sequence, size);
            let protected =
                sender.protect_rtp(&plain).unwrap_or_else(|why| panic!("{case:?} {size}: {why:?}"));
            assert_eq!(protected.len(), plain.len() + case.profile.rtp_overhead(), "{case:?} {size}");
            assert_eq!(receiver.unprotect_rtp(&protected).as_ref(), Ok(&plain), "{case:?} {size}");
        }
    }
}

#[test]
fn rtcp_of_every_size() {
    let mut random = Random::new();
    for case in Case::all() {
        let (mut sender, mut receiver) = case.pair(&[key(&mut random, case.profile)]);
        for words in (0..=60).chain((0..40).map(|_| random.in_range(0..=300)).collect::<Vec<_>>()) {
            let plain = packet::rtcp(&mut random, 0x0102_0304, words);
            let protected =
                sender.protect_rtcp(&plain).unwrap_or_else(|why| panic!("{case:?} {words}: {why:?}"));
            assert_eq!(protected.len(), plain.len() + case.profile.rtcp_overhead(), "{case:?} {words}");
            assert_eq!(receiver.unprotect_rtcp(&protected).as_ref(), Ok(&plain), "{case:?} {words}");
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_refused_and_the_packet_itself_still_accepted() {
    let mut random = Random::new();
    for case in Case::all() {
        let (mut sender, mut receiver) = case.pair(&[key(&mut random, case.profile)]);
        for sequence in 0..20 {
            let size = random.in_range(0..=200);
            let plain = packet::rtp(&mut random, 7, sequence, size);
            let protected = sender.protect_rtp(&plain).unwrap();
            // The first byte determines the header length, so the result does not depend on the tag
            // alone.
            let bit = random.in_range(8..=8 * protected.len() - 1);
            let mut damaged = protected.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(receiver.unprotect_rtp(&damaged).is_err(), "{case:?} bit {bit}");
            assert_eq!(receiver.unprotect_rtp(&protected).as_ref(), Ok(&plain), "{case:?} after bit {bit}");
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_in_rtcp_is_refused_too() {
    let mut random = Random::new();
    for case in Case::all() {
        let (mut sender, mut receiver) = case.pair(&[key(&mut random, case.profile)]);
        for words in 0..20 {
            let plain = packet::rtcp(&mut random, 7, words);
            let protected = sender.protect_rtcp(&plain).unwrap();
            let bit = random.in_range(0..=8 * protected.len() - 1);
            let mut damaged = protected.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(receiver.unprotect_rtcp(&damaged).is_err(), "{case:?} bit {bit}");
            assert_eq!(receiver.unprotect_rtcp(&protected).as_ref(), Ok(&plain), "{case:?} after bit {bit}");
        }
    }
}
