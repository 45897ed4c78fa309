//! A bad network between the two: packets are lost, come out of order, come twice.

use srtp_compare::packet;
use srtp_compare::peer::{Case, Refusal, key};
use srtp_compare::random::Random;

/// What the network makes of `packets`: loses some, swaps those at most `reach` apart, repeats some later.
fn network(random: &mut Random, packets: usize, reach: usize) -> Vec<usize> {
    let mut arrivals: Vec<usize> = (0..packets).filter(|_| !random.one_in(10)).collect();
    for group in arrivals.chunks_mut(reach) {
        random.shuffle(group);
    }
    let repeats: Vec<usize> = (0..packets / 10).map(|_| random.in_range(0..=arrivals.len() - 1)).collect();
    for at in repeats {
        let later = (at + random.in_range(1..=reach)).min(arrivals.len());
        arrivals.insert(later, arrivals[at]);
    }
    arrivals
}

#[test]
fn rtp_with_loss_reordering_and_duplicates_over_several_rollovers() {
    let mut random = Random::new();
    for case in Case::all() {
        let (mut sender, mut receiver) = case.pair(&[key(&mut random, case.profile)]);
        // Steps of 75 sequence numbers reach a new rollover every 870 packets.
        let mut sequence = random.in_range(0..=20_000) as u32;
        let (sequences, plains): (Vec<u32>, Vec<Vec<u8>>) = (0..3000)
            .map(|_| {
                sequence += random.in_range(1..=149) as u32;
                let size = random.in_range(0..=100);
                (sequence, packet::rtp(&mut random, 0xfeed_0001, sequence as u16, size))
            })
            .unzip();
        assert!(sequence >= 2 << 16);
        let protected: Vec<Vec<u8>> = plains.iter().map(|plain| sender.protect_rtp(plain).unwrap()).collect();
        // What the network swaps is a few packets apart, and so well inside the replay window.
        let mut seen = vec![false; plains.len()];
        // The first must come first: the receiver learns from it where the numbers start (RFC 3711
        // section 3.3.1).
        for index in [0].into_iter().chain(network(&mut random, plains.len(), 3)) {
            let result = receiver.unprotect_rtp(&protected[index]);
            if std::mem::replace(&mut seen[index], true) {
                let refused = result.expect_err("a replayed packet was accepted");
                assert!(
                    matches!(refused, Refusal::Replayed | Refusal::TooOld),
                    "{case:?} {index}: {refused:?}"
                );
            } else {
                assert_eq!(result.as_ref(), Ok(&plains[index]), "{case:?} {index}");
            }
        }
        // The last packets may be lost, and a rollover with them.
        let newest = seen.iter().rposition(|seen| *seen).expect("some arrive");
        assert_eq!(receiver.roc(0xfeed_0001), Some(sequences[newest] >> 16), "{case:?}");
    }
}

#[test]
fn rtcp_with_loss_reordering_and_duplicates() {
    let mut random = Random::new();
    for case in Case::all() {
        let (mut sender, mut receiver) = case.pair(&[key(&mut random, case.profile)]);
        let plains: Vec<Vec<u8>> =
            (0..300).map(|words| packet::rtcp(&mut random, 0xfeed_0002, words % 40)).collect();
        let protected: Vec<Vec<u8>> =
            plains.iter().map(|plain| sender.protect_rtcp(plain).unwrap()).collect();
        let mut seen = vec![false; plains.len()];
        for index in network(&mut random, plains.len(), 30) {
            let result = receiver.unprotect_rtcp(&protected[index]);
            if std::mem::replace(&mut seen[index], true) {
                // Packets that are repeated several times may be older than the replay window.
                let refused = result.expect_err("a replayed packet was accepted");
                assert!(
                    matches!(refused, Refusal::Replayed | Refusal::TooOld),
                    "{case:?} {index}: {refused:?}"
                );
            } else {
                assert_eq!(result.as_ref(), Ok(&plains[index]), "{case:?} {index}");
            }
        }
    }
}

#[test]
fn a_sender_refuses_to_use_an_index_twice() {
    let mut random = Random::new();
    for case in Case::all() {
        let (mut sender, _) = case.pair(&[key(&mut random, case.profile)]);
        let plain = packet::rtp(&mut random, 5, 100, 50);
        sender.protect_rtp(&plain).unwrap();
        assert_eq!(sender.protect_rtp(&plain), Err(Refusal::Replayed), "{case:?}");
    }
}

#[test]
fn a_packet_behind_the_replay_window_is_too_old() {
    let mut random = Random::new();
    for case in Case::all() {
        let (mut sender, mut receiver) = case.pair(&[key(&mut random, case.profile)]);
        let plains: Vec<_> = (0..1100).map(|sequence| packet::rtp(&mut random, 5, sequence, 10)).collect();
        let protected: Vec<_> = plains.iter().map(|plain| sender.protect_rtp(plain).unwrap()).collect();
        assert!(receiver.unprotect_rtp(&protected[0]).is_ok());
        assert!(receiver.unprotect_rtp(&protected[1099]).is_ok());
        assert_eq!(receiver.unprotect_rtp(&protected[50]), Err(Refusal::TooOld), "{case:?}");
        // 1099 - 100 = 999 < 1024: inside the window on both sides.
        assert_eq!(receiver.unprotect_rtp(&protected[100]).as_ref(), Ok(&plains[100]), "{case:?}");
    }
}
