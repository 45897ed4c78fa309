//! The master key identifier: where it stands, how it chooses the key, what a wrong one does (RFC
//! 3711 section 3.1).

use crate::common::{Keys, Rtp, hex, naive, protect_rtcp, protect_rtp, rtcp, unprotect_rtcp, unprotect_rtp};
use srtp::{Config, InboundContext, MasterKey, OutboundContext, Profile, SetupError, UnprotectError};

fn media(sequence: u16) -> Vec<u8> {
    Rtp::new(1, sequence, b"one key of several").bytes()
}

fn two(profile: Profile) -> (Keys, Keys) {
    (Keys::new(profile, 1).with_mki(&hex("00000001")), Keys::new(profile, 2).with_mki(&hex("00000002")))
}

/// Before the tag in counter mode (RFC 3711 figure 1), after it in GCM, where the tag is part of
/// the ciphertext (RFC 7714 section 8.2); in SRTCP after the index (RFC 3711 figure 2, RFC 7714
/// section 9.2).
#[test]
fn stands_where_the_rfcs_put_it() {
    let mki = hex("a1b2c3d4e5");
    for profile in Profile::ALL {
        let (plain, shape) = (Keys::new(profile, 3), naive::shape(profile));
        let named = plain.clone().with_mki(&mki);
        let without = protect_rtp(&mut plain.outbound(&Config::default()), &media(1)).unwrap();
        let with = protect_rtp(&mut named.outbound(&Config::default()), &media(1)).unwrap();
        let at = without.len() - if shape.gcm { 0 } else { shape.rtp_tag };
        assert_eq!(
            with,
            [&without[..at], &mki, &without[at..]].concat(),
            "{profile}: not authenticated, only inserted"
        );

        let without = protect_rtcp(&mut plain.outbound(&Config::default()), &rtcp(1, &[5; 12])).unwrap();
        let with = protect_rtcp(&mut named.outbound(&Config::default()), &rtcp(1, &[5; 12])).unwrap();
        let at = without.len() - if shape.gcm { 0 } else { shape.rtcp_tag };
        assert_eq!(with, [&without[..at], &mki, &without[at..]].concat(), "{profile}");
        assert_eq!(with[at - 4] & 0x80, 0x80, "{profile}: E flag before the MKI");
    }
}

#[test]
fn names_the_key_of_a_packet() {
    for profile in Profile::ALL {
        let (first, second) = two(profile);
        let masters = [first.master(), second.master()];
        let mut outbound = OutboundContext::new(&Config::default(), &masters).unwrap();
        let mut inbound = InboundContext::new(&Config::default(), &masters).unwrap();
        let mut held_back = Vec::new();
        // The first protects by default; indices continue over the changes, whichever key is in
        // use.
        for (sequence, select, keys) in [
            (1, None, &first),
            (2, Some(&second), &second),
            (3, None, &second),
            (4, Some(&first), &first),
            (5, Some(&first), &first),
            (6, Some(&second), &second),
        ] {
            if let Some(select) = select {
                outbound.select_key(&select.mki).unwrap();
            }
            let protected = protect_rtp(&mut outbound, &media(sequence)).unwrap();
            assert_eq!(protected, keys.naive().protect_rtp(&media(sequence), 0), "{profile} {sequence}");
            if sequence % 2 == 0 {
                assert_eq!(unprotect_rtp(&mut inbound, &protected), Ok(media(sequence)), "{profile}");
            } else {
                held_back.push((sequence, protected));
            }
            let control = protect_rtcp(&mut outbound, &rtcp(1, &[9; 16])).unwrap();
            assert!(keys.naive().unprotect_rtcp(&control).is_some(), "{profile}");
            assert_eq!(unprotect_rtcp(&mut inbound, &control), Ok(rtcp(1, &[9; 16])), "{profile}");
        }
        // Late packets of either key are still good, once.
        for (sequence, protected) in held_back {
            assert_eq!(unprotect_rtp(&mut inbound, &protected), Ok(media(sequence)), "{profile}");
            assert_eq!(unprotect_rtp(&mut inbound, &protected), Err(UnprotectError::Replayed), "{profile}");
        }
    }
}

#[test]
fn that_is_unknown_or_another_keys_delivers_nothing() {
    for profile in Profile::ALL {
        let (first, second) = two(profile);
        let stranger = Keys::new(profile, 1).with_mki(&hex("00000003"));
        let masters = [first.master(), second.master()];
        let mut inbound = InboundContext::new(&Config::default(), &masters).unwrap();
        let refused = unprotect_rtp(&mut inbound, &stranger.naive().protect_rtp(&media(1), 0));
        assert_eq!(refused, Err(UnprotectError::UnknownMki), "{profile}");
        let refused = unprotect_rtcp(&mut inbound, &stranger.naive().protect_rtcp(&rtcp(1, &[0; 8]), 1));
        assert_eq!(refused, Err(UnprotectError::UnknownMki), "{profile}");
        // The MKI itself is not authenticated: the other key's leads to the other key, and there
        // the tag is wrong.
        let exchanged = Keys { mki: second.mki.clone(), ..first.clone() };
        let refused = unprotect_rtp(&mut inbound, &exchanged.naive().protect_rtp(&media(1), 0));
        assert_eq!(refused, Err(UnprotectError::AuthFailed), "{profile}");
        assert_eq!(inbound.streams(), 0);
        let mut outbound = OutboundContext::new(&Config::default(), &masters).unwrap();
        assert_eq!(outbound.select_key(&stranger.mki), Err(SetupError::UnknownMki));
        assert_eq!(outbound.select_key(&[]), Err(SetupError::UnknownMki));
        assert_eq!(outbound.select_key(&first.mki[..3]), Err(SetupError::UnknownMki));
    }
}

/// Each index serves one packet, also when the key has changed between.
#[test]
fn does_not_allow_an_index_twice() {
    let (first, second) = two(Profile::AeadAes128Gcm);
    let masters = [first.master(), second.master()];
    let mut outbound = OutboundContext::new(&Config::default(), &masters).unwrap();
    protect_rtp(&mut outbound, &media(1)).unwrap();
    outbound.select_key(&second.mki).unwrap();
    protect_rtp(&mut outbound, &media(2)).unwrap();
    outbound.select_key(&first.mki).unwrap();
    assert_eq!(protect_rtp(&mut outbound, &media(1)), Err(srtp::ProtectError::IndexUsed));
}

#[test]
fn has_1_to_128_bytes() {
    let keys = Keys::new(Profile::AesCm128HmacSha1_80, 4);
    for (len, good) in [(0, false), (1, true), (4, true), (128, true), (129, false), (255, false)] {
        let named = keys.master().with_mki(&vec![7; len]);
        assert_eq!(named.err(), (!good).then_some(SetupError::MkiLength), "{len}");
    }
    assert_eq!(MasterKey::MKI_MAX, 128);
    for profile in Profile::ALL {
        for len in [1, 128] {
            let keys = Keys::new(profile, 4).with_mki(&vec![7; len]);
            let protected = protect_rtp(&mut keys.outbound(&Config::default()), &media(1)).unwrap();
            assert_eq!(protected.len(), media(1).len() + profile.rtp_overhead() + len, "{profile}");
            assert_eq!(
                unprotect_rtp(&mut keys.inbound(&Config::default()), &protected),
                Ok(media(1)),
                "{profile}"
            );
        }
    }
}

/// Keys in use together are distinguished by MKIs of one length.
#[test]
fn of_keys_that_serve_together_fit() {
    let profile = Profile::AeadAes128Gcm;
    let named = |seed, mki: &str| Keys::new(profile, seed).with_mki(&hex(mki)).master();
    let misfits = [
        vec![named(1, "01"), named(2, "0002")],
        vec![named(1, ""), named(2, "02")],
        vec![named(1, ""), named(2, "")],
        vec![named(1, "01"), named(2, "01")],
        vec![named(1, "01"), Keys::new(Profile::AeadAes256Gcm, 2).with_mki(&hex("02")).master()],
    ];
    for keys in misfits {
        let refused = Some(SetupError::KeysDoNotFit);
        assert_eq!(OutboundContext::new(&Config::default(), &keys).err(), refused);
        assert_eq!(InboundContext::new(&Config::default(), &keys).err(), refused);
        let mut outbound = OutboundContext::new(&Config::default(), &[]).unwrap();
        assert_eq!(outbound.add_stream(1, &keys).err(), refused);
        assert_eq!(outbound.streams(), 0);
    }
    let many: Vec<MasterKey> = (0..=255).map(|name: u8| named(name, &format!("{name:02x}"))).collect();
    assert!(InboundContext::new(&Config::default(), &many).is_ok());
}

#[test]
fn a_stream_with_keys_of_its_own_changes_between_them() {
    let key = |byte: u8, mki: &[u8]| {
        MasterKey::new(Profile::AeadAes128Gcm, &[byte; 16], &[byte; 12]).unwrap().with_mki(mki).unwrap()
    };
    let own = [key(1, b"a"), key(2, b"b")];
    let mut outbound = OutboundContext::new(&Config::default(), &[]).unwrap();
    outbound.add_stream(5, &own).unwrap();
    let sent_with = |outbound: &mut OutboundContext, sequence: u8| {
        let mut packet = [0; 100];
        let header = [0x80, 96, 0, sequence, 0, 0, 0, 0, 0, 0, 0, 5];
        let len = outbound.protect_rtp_from(&header, b"payload", &mut packet).unwrap();
        packet[len - 1]
    };
    assert_eq!(sent_with(&mut outbound, 1), b'a');
    outbound.select_stream_key(5, b"b").unwrap();
    assert_eq!(sent_with(&mut outbound, 2), b'b');
    assert_eq!(outbound.select_stream_key(5, b"c"), Err(SetupError::UnknownMki));
    assert_eq!(outbound.select_stream_key(6, b"a"), Err(SetupError::UnknownSsrc));
    assert_eq!(outbound.select_key(b"a"), Err(SetupError::NoKeys));

    let mut templated = OutboundContext::new(&Config::default(), &[key(3, b"t")]).unwrap();
    sent_with(&mut templated, 1);
    assert_eq!(templated.select_stream_key(5, b"t"), Err(SetupError::NoKeys));
}
