//! The rollover counter: wrap at 65535 with loss around it, the end of its 32 bits, and receivers
//! that join late.

use srtp_compare::packet;
use srtp_compare::peer::{Case, Refusal, key};
use srtp_compare::random::Random;

const SSRC: u32 = 0xcafe_0001;

#[test]
fn the_wrap_is_followed_whatever_is_lost_around_it() {
    let mut random = Random::new();
    for case in Case::all() {
        for (before, after, remark) in [
            (65_535, 0, "nothing lost"),
            (65_534, 0, "last before the wrap lost"),
            (65_535, 1, "first after the wrap lost"),
            (65_530, 7, "both sides lost"),
            (60_000, 20_000, "a long silence"),
            (33_000, 100, "almost half of all numbers lost"),
        ] {
            let (mut sender, mut receiver) = case.pair(&[key(&mut random, case.profile)]);
            for (sequence, roc) in [(before - 1, 0), (before, 0), (after, 1), (after + 1, 1)] {
                let plain = packet::rtp(&mut random, SSRC, sequence, 33);
                let protected = sender.protect_rtp(&plain).unwrap();
                assert_eq!(
                    receiver.unprotect_rtp(&protected).as_ref(),
                    Ok(&plain),
                    "{case:?} {remark} {sequence}"
                );
                assert_eq!(receiver.roc(SSRC), Some(roc), "{case:?} {remark} {sequence}");
            }
        }
    }
}

#[test]
fn packets_from_before_the_wrap_may_come_after_it() {
    let mut random = Random::new();
    for case in Case::all() {
        let (mut sender, mut receiver) = case.pair(&[key(&mut random, case.profile)]);
        let plains: Vec<_> =
            (65_500..65_600u32).map(|sequence| packet::rtp(&mut random, SSRC, sequence as u16, 20)).collect();
        let protected: Vec<_> = plains.iter().map(|plain| sender.protect_rtp(plain).unwrap()).collect();
        let mut order: Vec<usize> = (1..plains.len()).collect();
        random.shuffle(&mut order);
        for index in [0].into_iter().chain(order.iter().copied()) {
            assert_eq!(
                receiver.unprotect_rtp(&protected[index]).as_ref(),
                Ok(&plains[index]),
                "{case:?} {index}"
            );
        }
        for index in order {
            assert_eq!(receiver.unprotect_rtp(&protected[index]), Err(Refusal::Replayed), "{case:?} {index}");
        }
        assert_eq!(receiver.roc(SSRC), Some(1), "{case:?}");
    }
}

#[test]
fn a_late_joiner_is_told_the_rollover_counter() {
    let mut random = Random::new();
    for case in Case::all() {
        for roc in [1, 2, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe] {
            let keys = [key(&mut random, case.profile)];
            let (mut sender, mut receiver) = case.pair_of_one_stream(SSRC, &keys);
            sender.set_roc(SSRC, roc);
            receiver.set_roc(SSRC, roc);
            let start = random.in_range(0..=30_000) as u16;
            for sequence in start..start + 20 {
                let plain = packet::rtp(&mut random, SSRC, sequence, 40);
                let protected =
                    sender.protect_rtp(&plain).unwrap_or_else(|why| panic!("{case:?} {roc:x}: {why:?}"));
                assert_eq!(
                    receiver.unprotect_rtp(&protected).as_ref(),
                    Ok(&plain),
                    "{case:?} {roc:x} {sequence}"
                );
            }
            assert_eq!(receiver.roc(SSRC), Some(roc), "{case:?}");
        }
    }
}

#[test]
fn a_late_joiner_who_is_not_told_refuses_and_can_be_told_later() {
    let mut random = Random::new();
    for case in Case::all() {
        let keys = [key(&mut random, case.profile)];
        let (mut sender, mut receiver) = case.pair_of_one_stream(SSRC, &keys);
        sender.set_roc(SSRC, 3);
        let first = packet::rtp(&mut random, SSRC, 1000, 40);
        let protected = sender.protect_rtp(&first).unwrap();
        assert_eq!(receiver.unprotect_rtp(&protected), Err(Refusal::AuthFailed), "{case:?}");
        receiver.set_roc(SSRC, 3);
        assert_eq!(receiver.unprotect_rtp(&protected).as_ref(), Ok(&first), "{case:?}");
    }
}

#[test]
fn the_counter_rolls_over_up_to_its_last_value() {
    let mut random = Random::new();
    for case in Case::all() {
        let keys = [key(&mut random, case.profile)];
        let (mut sender, mut receiver) = case.pair_of_one_stream(SSRC, &keys);
        sender.set_roc(SSRC, u32::MAX - 1);
        receiver.set_roc(SSRC, u32::MAX - 1);
        for sequence in [65_500, 65_534, 65_535, 0, 2, 1, 30_000, 60_000, 65_535] {
            let plain = packet::rtp(&mut random, SSRC, sequence, 40);
            let protected =
                sender.protect_rtp(&plain).unwrap_or_else(|why| panic!("{case:?} {sequence}: {why:?}"));
            assert_eq!(receiver.unprotect_rtp(&protected).as_ref(), Ok(&plain), "{case:?} {sequence}");
        }
        assert_eq!(receiver.roc(SSRC), Some(u32::MAX), "{case:?}");
    }
}
