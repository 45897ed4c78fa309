//! Many streams in one context: keys for all SSRCs, keys of one SSRC, both at once.

use srtp_compare::packet;
use srtp_compare::peer::{Case, Refusal, key};
use srtp_compare::random::Random;

#[test]
fn three_hundred_streams_share_a_key_and_keep_their_own_counters() {
    let mut random = Random::new();
    for case in Case::all() {
        let (mut sender, mut receiver) = case.pair(&[key(&mut random, case.profile)]);
        let ssrcs: Vec<u32> = (0..300).map(|_| random.next_u32()).collect();
        // Odd streams roll over during the test, even ones do not.
        for (turn, sequences) in
            [[1000, 65_000], [1001, 65_535], [1005, 3], [1006, 4]].into_iter().enumerate()
        {
            for (index, ssrc) in ssrcs.iter().enumerate() {
                let size = random.in_range(0..=50);
                let plain = packet::rtp(&mut random, *ssrc, sequences[index % 2], size);
                let protected = sender.protect_rtp(&plain).unwrap();
                assert_eq!(
                    receiver.unprotect_rtp(&protected).as_ref(),
                    Ok(&plain),
                    "{case:?} turn {turn} {ssrc:x}"
                );
                assert_eq!(receiver.roc(*ssrc), Some(u32::from(turn >= 2 && index % 2 == 1)), "{case:?}");
            }
        }
    }
}

#[test]
fn a_stream_that_is_left_and_taken_up_again_keeps_its_counter() {
    let mut random = Random::new();
    for case in Case::all() {
        let (mut sender, mut receiver) = case.pair(&[key(&mut random, case.profile)]);
        for (ssrc, sequence) in [(1, 65_535), (1, 0), (2, 10), (2, 11), (1, 1), (2, 12), (1, 2)] {
            let plain = packet::rtp(&mut random, ssrc, sequence, 30);
            let protected = sender.protect_rtp(&plain).unwrap();
            assert_eq!(receiver.unprotect_rtp(&protected).as_ref(), Ok(&plain), "{case:?} {ssrc} {sequence}");
        }
        assert_eq!((receiver.roc(1), receiver.roc(2)), (Some(1), Some(0)), "{case:?}");
    }
}

#[test]
fn keys_of_an_ssrc_are_for_that_one_alone() {
    let mut random = Random::new();
    for case in Case::all() {
        let keys = [key(&mut random, case.profile)];
        let (mut sender, mut receiver) = case.pair_of_one_stream(9, &keys);
        let (mut stranger, _) = case.pair(&keys);
        let plain = packet::rtp(&mut random, 9, 1, 30);
        let other = packet::rtp(&mut random, 10, 1, 30);
        assert_eq!(sender.protect_rtp(&other), Err(Refusal::UnknownSsrc), "{case:?}");
        let other = stranger.protect_rtp(&other).unwrap();
        assert_eq!(receiver.unprotect_rtp(&other), Err(Refusal::UnknownSsrc), "{case:?}");
        let protected = sender.protect_rtp(&plain).unwrap();
        assert_eq!(receiver.unprotect_rtp(&protected).as_ref(), Ok(&plain), "{case:?}");
    }
}

#[test]
fn an_ssrc_with_keys_of_its_own_does_not_use_those_for_all() {
    let mut random = Random::new();
    for case in Case::all() {
        let for_all = [key(&mut random, case.profile)];
        let (mut sender, mut receiver) = case.pair(&for_all);
        for ssrc in 100..110 {
            let own = [key(&mut random, case.profile)];
            sender.add_stream(ssrc, &own);
            receiver.add_stream(ssrc, &own);
        }
        let (_, mut knows_the_common_key) = case.pair(&for_all);
        for ssrc in 95..115 {
            let plain = packet::rtp(&mut random, ssrc, 3, 30);
            let protected = sender.protect_rtp(&plain).unwrap();
            let result = knows_the_common_key.unprotect_rtp(&protected);
            let expected =
                if (100..110).contains(&ssrc) { Err(Refusal::AuthFailed) } else { Ok(plain.clone()) };
            assert_eq!(result, expected, "{case:?} {ssrc}");
            assert_eq!(receiver.unprotect_rtp(&protected).as_ref(), Ok(&plain), "{case:?} {ssrc}");
            let report = packet::rtcp(&mut random, ssrc, 6);
            let protected = sender.protect_rtcp(&report).unwrap();
            assert_eq!(receiver.unprotect_rtcp(&protected).as_ref(), Ok(&report), "{case:?} {ssrc}");
        }
    }
}
