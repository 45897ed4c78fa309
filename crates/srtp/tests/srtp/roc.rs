//! The estimate of a packet's rollover counter, its ROC (RFC 3711 section 3.3.1, appendix A).
//!
//! Packets come from the naive twin, which gets their ROC; a context has to find it.

use crate::common::naive::Naive;
use crate::common::{Keys, Numbers, Rtp, protect_rtp, unprotect_rtp};
use proptest::prelude::*;
use srtp::{Config, InboundContext, Profile, SetupError, UnprotectError};

const SSRC: u32 = 0xabcd;

fn packet(twin: &Naive, ssrc: u32, roc: u32, sequence: u16) -> Vec<u8> {
    twin.protect_rtp(&Rtp::new(ssrc, sequence, b"round and round").bytes(), roc)
}

/// A receiver whose highest packet is `(roc, sequence)`.
fn receiver(keys: &Keys, (roc, sequence): (u32, u16)) -> InboundContext {
    let mut inbound = keys.inbound(&Config { rtp_replay_window_packets: 32_768, ..Config::default() });
    inbound.set_roc(SSRC, roc).unwrap();
    unprotect_rtp(&mut inbound, &packet(&keys.naive(), SSRC, roc, sequence)).unwrap();
    inbound
}

/// The window is so wide that only the estimate decides; a packet of another ROC than estimated
/// fails its tag.
#[test]
fn of_a_packet_is_the_nearest() {
    use UnprotectError::{AuthFailed, TooOld};
    for profile in Profile::ALL {
        let keys = Keys::new(profile, 1);
        for (highest, next, refused) in [
            ((0, 0xffff), (1, 0x0000), None), // the next packet rolls over
            ((0, 0xfffe), (1, 0x0005), None), // the packets around the wrap were lost
            ((0, 0xfff0), (1, 0x7fee), None), // a long loss over the wrap
            ((u32::MAX - 1, 0xfffd), (u32::MAX, 0x0003), None), // the last wrap there is
            ((u32::MAX, 0x0003), (u32::MAX - 1, 0xffff), None), // and back over it
            ((1, 0x0002), (0, 0xfffe), None), // a late one of the round before
            ((1, 0x0002), (0, 0x9000), None), // a very late one
            ((7, 0x1234), (7, 0x1235), None), // nothing special
            ((7, 0x1234), (7, 0x1233), None), // a late one of the same round
            ((1, 0x0000), (1, 0x8000), None), // half a round ahead is ahead from the lower half
            ((1, 0x0000), (1, 0x8001), Some(AuthFailed)), // more than half a round counts as late
            ((1, 0x7fff), (1, 0xffff), None), // as above, at the end of the lower half
            ((1, 0x7fff), (2, 0x0000), Some(AuthFailed)), // no wrap is seen from the lower half
            ((1, 0x8000), (2, 0x0000), Some(TooOld)), // half a round: still the same round
            ((1, 0x8001), (2, 0x0000), None), // less than half a round: the next
            ((1, 0xffff), (2, 0x7ffe), None), // the farthest jump over a wrap
            ((1, 0xffff), (2, 0x7fff), Some(TooOld)), // one farther counts as late
            ((5, 0x4000), (6, 0x4000), Some(UnprotectError::Replayed)), // a whole round looks like a replay
        ] {
            let mut inbound = receiver(&keys, highest);
            let result = unprotect_rtp(&mut inbound, &packet(&keys.naive(), SSRC, next.0, next.1));
            assert_eq!(result.err(), refused, "{profile}: {highest:x?}, then {next:x?}");
            let expected = if refused.is_none() { highest.max(next).0 } else { highest.0 };
            assert_eq!(inbound.roc(SSRC), Some(expected), "{profile}: {highest:x?}, then {next:x?}");
        }
    }
}

/// Before the first round there is none: what looks late to a stream that has just begun lies ahead.
#[test]
fn of_the_first_packets_is_zero() {
    let keys = Keys::new(Profile::AeadAes128Gcm, 1);
    let mut inbound = keys.inbound(&Config::default());
    for sequence in [0x0003, 0xfffd] {
        assert!(
            unprotect_rtp(&mut inbound, &packet(&keys.naive(), SSRC, 0, sequence)).is_ok(),
            "{sequence:#x}"
        );
        assert_eq!(inbound.roc(SSRC), Some(0));
    }
    assert!(unprotect_rtp(&mut inbound, &packet(&keys.naive(), SSRC, 1, 2)).is_ok());
    assert_eq!(inbound.roc(SSRC), Some(1));
}

/// Section 3.3.1: a receiver that joins late must get the ROC by signalling; without it, the first
/// packets look forged.
#[test]
fn is_told_to_a_late_joiner() {
    for profile in Profile::ALL {
        let keys = Keys::new(profile, 2);
        let (twin, mut inbound) = (keys.naive(), keys.inbound(&Config::default()));
        let late = packet(&twin, SSRC, 5, 30_000);
        assert_eq!(unprotect_rtp(&mut inbound, &late), Err(UnprotectError::AuthFailed), "{profile}");
        assert_eq!((inbound.streams(), inbound.roc(SSRC)), (0, None));
        inbound.set_roc(SSRC, 4).unwrap();
        assert_eq!(unprotect_rtp(&mut inbound, &late), Err(UnprotectError::AuthFailed), "{profile}");
        inbound.set_roc(SSRC, 5).unwrap();
        assert!(unprotect_rtp(&mut inbound, &late).is_ok(), "{profile}");
        assert_eq!(inbound.roc(SSRC), Some(5));
        // From here on it counts for itself.
        for (roc, sequence) in [(5, 60_000), (6, 20_000), (6, 50_000), (7, 1)] {
            assert!(unprotect_rtp(&mut inbound, &packet(&twin, SSRC, roc, sequence)).is_ok(), "{profile}");
        }
        assert_eq!(inbound.roc(SSRC), Some(7));
        assert_eq!(inbound.set_roc(SSRC, 6), Err(SetupError::Backwards));
        // Two rounds late counts as ahead, and fails its tag.
        assert_eq!(unprotect_rtp(&mut inbound, &late), Err(UnprotectError::AuthFailed), "{profile}");
    }
}

/// A counter set and never used by an authentic packet moves nothing: forged packets do not use it up.
#[test]
fn that_was_told_survives_forged_packets() {
    let keys = Keys::new(Profile::AeadAes256Gcm, 2);
    let (twin, mut inbound) = (keys.naive(), keys.inbound(&Config::default()));
    inbound.set_roc(SSRC, 9).unwrap();
    let genuine = packet(&twin, SSRC, 9, 40_000);
    for at in 0..genuine.len() {
        let mut forged = genuine.clone();
        forged[at] ^= 0x10;
        assert!(unprotect_rtp(&mut inbound, &forged).is_err());
    }
    assert_eq!(inbound.roc(SSRC), Some(9));
    assert!(unprotect_rtp(&mut inbound, &genuine).is_ok());
}

/// An SSRC that pauses while another sends comes back to its own counter, on both sides.
#[test]
fn of_an_ssrc_that_comes_back_is_kept() {
    for profile in Profile::ALL {
        let keys = Keys::new(profile, 3);
        let (mut outbound, mut inbound) =
            (keys.outbound(&Config::default()), keys.inbound(&Config::default()));
        let mut sequences = [60_000u16, 20_000];
        let mut rounds = [0u32, 0];
        for turn in [0usize, 1, 0, 1, 1, 0] {
            let ssrc = 1 + turn as u32;
            for _ in 0..40 {
                let before = sequences[turn];
                sequences[turn] = before.wrapping_add(997);
                rounds[turn] += u32::from(sequences[turn] < before);
                let plain = Rtp::new(ssrc, sequences[turn], b"my turn").bytes();
                let protected = protect_rtp(&mut outbound, &plain).unwrap();
                assert_eq!(protected, keys.naive().protect_rtp(&plain, rounds[turn]), "{profile}");
                assert_eq!(unprotect_rtp(&mut inbound, &protected), Ok(plain), "{profile}");
            }
            assert_eq!(outbound.roc(ssrc), Some(rounds[turn]));
            assert_eq!(inbound.roc(ssrc), Some(rounds[turn]));
        }
        assert!(rounds.iter().all(|round| *round >= 1), "{rounds:?}: both have wrapped");
        assert_eq!((outbound.streams(), inbound.streams()), (2, 2));
    }
}

/// A sender that takes over a stream continues where the other stopped, and never goes back.
#[test]
fn of_a_stream_taken_over_goes_on() {
    let keys = Keys::new(Profile::AesCm256HmacSha1_80, 4);
    let (twin, mut outbound) = (keys.naive(), keys.outbound(&Config::default()));
    assert_eq!(outbound.roc(SSRC), None);
    outbound.set_roc(SSRC, 41).unwrap();
    assert_eq!(outbound.roc(SSRC), Some(41));
    for (roc, sequence) in [(41, 0xffff), (42, 0), (42, 1), (41, 0xfffe)] {
        let plain = Rtp::new(SSRC, sequence, b"taken over").bytes();
        assert_eq!(protect_rtp(&mut outbound, &plain), Ok(twin.protect_rtp(&plain, roc)), "{roc} {sequence}");
    }
    assert_eq!(outbound.set_roc(SSRC, 41), Err(SetupError::Backwards));
    assert_eq!(outbound.roc(SSRC), Some(42));
    outbound.set_roc(SSRC, 42).unwrap();
    let plain = Rtp::new(SSRC, 2, b"taken over").bytes();
    assert_eq!(protect_rtp(&mut outbound, &plain), Ok(twin.protect_rtp(&plain, 42)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Loss and reordering around a wrap: everything that arrives is delivered, once.
    #[test]
    fn survives_a_wrap_with_loss_around_it(
        profile in prop::sample::select(Profile::ALL.to_vec()),
        roc in prop_oneof![Just(0u32), 1u32..0xffff_fffe],
        before in 1u64..400, lost in 0u64..20_000, after in 1u64..400, seed: u64,
    ) {
        let keys = Keys::new(profile, 5);
        let (twin, mut inbound) = (keys.naive(), keys.inbound(&Config::default()));
        let mut numbers = Numbers::new(seed);
        let wrap = (u64::from(roc) + 1) << 16;
        // The gap lies anywhere over the wrap.
        let gap_start = wrap - numbers.below(lost.min(20_000) + 1);
        let mut indices: Vec<u64> = (gap_start - before..gap_start).chain(gap_start + lost..gap_start + lost + after).collect();
        indices.retain(|_| numbers.below(8) > 0);
        // Neighbours change places; never across the long gap, and not the first.
        for at in 2..indices.len() {
            if numbers.below(3) == 0 && indices[at - 1].abs_diff(indices[at]) < 50 {
                indices.swap(at - 1, at);
            }
        }
        inbound.set_roc(SSRC, roc).unwrap();
        let first = gap_start - before - 1;
        prop_assume!(first >> 16 == u64::from(roc));
        for index in std::iter::once(first).chain(indices) {
            let plain = Rtp::new(SSRC, index as u16, &index.to_be_bytes()).bytes();
            let protected = twin.protect_rtp(&plain, (index >> 16) as u32);
            prop_assert_eq!(unprotect_rtp(&mut inbound, &protected), Ok(plain), "index {:#x}", index);
            prop_assert_eq!(unprotect_rtp(&mut inbound, &protected), Err(UnprotectError::Replayed));
        }
    }
}
