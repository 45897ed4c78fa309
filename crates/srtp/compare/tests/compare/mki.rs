//! Master key identifiers (RFC 3711 section 3.1): of every length, several keys, changed in
//! between.

use srtp::{Config, InboundContext, Profile};
use srtp_compare::libsrtp::Key;
use srtp_compare::packet;
use srtp_compare::peer::{Case, Direction, Refusal, key, master_keys};
use srtp_compare::random::Random;

fn named_keys(random: &mut Random, case: &Case, mki_len: usize, count: usize) -> Vec<Key> {
    let names = (0..count).map(|index| {
        let mut mki = random.bytes(mki_len);
        mki[0] = index as u8; // no two alike
        mki
    });
    let names: Vec<_> = names.collect();
    names.into_iter().map(|mki| Key { mki, ..key(random, case.profile) }).collect()
}

#[test]
fn each_of_several_keys_is_found_by_its_name() {
    let mut random = Random::new();
    for case in Case::all() {
        for mki_len in [1, 2, 4, 128] {
            let keys = named_keys(&mut random, &case, mki_len, 4);
            let (mut sender, mut receiver) = case.pair(&keys);
            for sequence in 0..40 {
                let chosen = random.in_range(0..=3);
                sender.select_key(chosen);
                let size = random.in_range(0..=300);
                let plain = packet::rtp(&mut random, 77, sequence, size);
                let protected = sender.protect_rtp(&plain).unwrap();
                assert_eq!(
                    protected.len(),
                    plain.len() + case.profile.rtp_overhead() + mki_len,
                    "{case:?} {mki_len}"
                );
                assert_eq!(
                    receiver.unprotect_rtp(&protected).as_ref(),
                    Ok(&plain),
                    "{case:?} {mki_len} {sequence}"
                );
                if case.direction == Direction::OursToLibsrtp && has_short_tag(case.profile) {
                    continue;
                }
                let report = packet::rtcp(&mut random, 77, sequence.into());
                let protected = sender.protect_rtcp(&report).unwrap();
                assert_eq!(
                    protected.len(),
                    report.len() + case.profile.rtcp_overhead() + mki_len,
                    "{case:?}"
                );
                assert_eq!(
                    receiver.unprotect_rtcp(&protected).as_ref(),
                    Ok(&report),
                    "{case:?} {mki_len} {sequence}"
                );
            }
        }
    }
}

#[test]
fn a_name_nobody_knows_is_refused() {
    let mut random = Random::new();
    for case in Case::all() {
        let keys = named_keys(&mut random, &case, 4, 3);
        let (mut sender, _) = case.pair(&keys);
        let (_, mut receiver) = case.pair(&keys[..2]);
        sender.select_key(2);
        let plain = packet::rtp(&mut random, 77, 1, 30);
        let protected = sender.protect_rtp(&plain).unwrap();
        assert_eq!(receiver.unprotect_rtp(&protected), Err(Refusal::UnknownMki), "{case:?}");
        sender.select_key(1);
        let plain = packet::rtp(&mut random, 77, 2, 30);
        let protected = sender.protect_rtp(&plain).unwrap();
        assert_eq!(receiver.unprotect_rtp(&protected).as_ref(), Ok(&plain), "{case:?}");
    }
}

/// libsrtp 2.5 looks for the MKI of an SRTCP packet in front of a tag as long as that of SRTP.
/// Where the two differ it does not find its own MKI either. RFC 3711 section 3.4 puts the MKI in
/// front of the tag of SRTCP, which has 80 bits in these profiles (RFC 5764 section 4.1.2): so do
/// both of our sides, and so does libsrtp when it sends.
#[test]
fn srtcp_with_mki_and_short_srtp_tags_is_as_the_standard_says_and_not_as_libsrtp_reads_it() {
    let mut random = Random::new();
    for case in Case::all().filter(|case| has_short_tag(case.profile)) {
        let keys = named_keys(&mut random, &case, 4, 2);
        let (mut sender, mut receiver) = case.pair(&keys);
        let report = packet::rtcp(&mut random, 77, 6);
        let protected = sender.protect_rtcp(&report).unwrap();
        let tag_at = protected.len() - 10;
        assert_eq!(&protected[tag_at - 4..tag_at], &keys[0].mki[..], "{case:?}");
        let config = Config { backend: case.backend, ..Config::default() };
        let mut ours = InboundContext::new(&config, &master_keys(case.profile, &keys)).unwrap();
        let mut plain = protected.clone();
        assert_eq!(ours.unprotect_rtcp(&mut plain), Ok(report.len()), "{case:?}");
        assert_eq!(plain[..report.len()], report[..], "{case:?}");
        if case.direction == Direction::OursToLibsrtp {
            assert_eq!(
                receiver.unprotect_rtcp(&protected),
                Err(Refusal::UnknownMki),
                "{case:?}: libsrtp was repaired"
            );
        }
    }
}

fn has_short_tag(profile: Profile) -> bool {
    matches!(profile, Profile::AesCm128HmacSha1_32 | Profile::AesCm256HmacSha1_32)
}
