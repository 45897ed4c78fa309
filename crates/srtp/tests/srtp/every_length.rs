//! Every length from 0 to 1500 of random bytes, of plausible ones and of cut genuine packets: an
//! appropriate error, and no panic.

use crate::common::{Keys, Numbers, Rtp, backends, config, hex, naive, rtcp, unprotect_rtcp, unprotect_rtp};
use srtp::{Backend, InboundContext, OutboundContext, Profile, ProtectError, UnprotectError};

const LENGTHS: std::ops::RangeInclusive<usize> = 0..=1500;

fn contexts() -> Vec<(Keys, InboundContext, OutboundContext)> {
    let mut all = Vec::new();
    for profile in Profile::ALL {
        for mki in ["", "0badcafe"] {
            let keys = Keys::new(profile, 9).with_mki(&hex(mki));
            let (inbound, outbound) =
                (keys.inbound(&config(Backend::current())), keys.outbound(&config(Backend::current())));
            all.push((keys, inbound, outbound));
        }
    }
    all
}

#[test]
fn of_random_bytes_is_refused() {
    let mut numbers = Numbers::new(1);
    for (keys, mut inbound, _) in contexts() {
        for len in LENGTHS {
            let packet = numbers.bytes(len);
            let (media, control) =
                (unprotect_rtp(&mut inbound, &packet), unprotect_rtcp(&mut inbound, &packet));
            if len < 12 {
                assert_eq!(media, Err(UnprotectError::TooShort), "{}, {len}", keys.profile);
            }
            if len < 8 {
                assert_eq!(control, Err(UnprotectError::TooShort), "{}, {len}", keys.profile);
            }
            let version_2 = packet.first().is_some_and(|first| first >> 6 == 2);
            if len >= 12 && !version_2 {
                assert_eq!(media, Err(UnprotectError::BadVersion), "{}, {len}", keys.profile);
                assert_eq!(control, Err(UnprotectError::BadVersion), "{}, {len}", keys.profile);
            }
            assert!(media.is_err() && control.is_err(), "{}, {len}", keys.profile);
        }
        assert_eq!(inbound.streams(), 0);
    }
}

/// Valid headers before random bytes: only length and tag can be wrong, and the MKI where there is one.
#[test]
fn of_a_plausible_packet_is_refused_for_its_length_or_its_tag() {
    let mut numbers = Numbers::new(2);
    for (keys, mut inbound, _) in contexts() {
        let wrong = if keys.mki.is_empty() { UnprotectError::AuthFailed } else { UnprotectError::UnknownMki };
        let shape = naive::shape(keys.profile);
        for len in LENGTHS.skip(12) {
            let mut packet = numbers.bytes(len);
            packet[0] = 0x80;
            let least = 12 + shape.rtp_tag + keys.mki.len();
            let expected = if len < least { UnprotectError::TooShort } else { wrong };
            assert_eq!(unprotect_rtp(&mut inbound, &packet), Err(expected), "{}, {len}", keys.profile);

            let least = 8 + shape.rtcp_tag + 4 + keys.mki.len();
            let word = len.checked_sub(4 + keys.mki.len() + if shape.gcm { 0 } else { shape.rtcp_tag });
            word.into_iter().for_each(|at| packet[at] |= 0x80);
            packet[0] = 0x80;
            let expected = if len < least { UnprotectError::TooShort } else { wrong };
            assert_eq!(unprotect_rtcp(&mut inbound, &packet), Err(expected), "{}, {len}", keys.profile);
            if len >= least {
                packet[word.unwrap()] &= 0x7f;
                let expected = UnprotectError::NotEncrypted;
                assert_eq!(unprotect_rtcp(&mut inbound, &packet), Err(expected), "{}, {len}", keys.profile);
            }
        }
        assert_eq!(inbound.streams(), 0);
    }
}

/// The genuine packet is there, but not all of it. Header with CSRCs and extension, so that cuts
/// fall into each.
#[test]
fn of_a_cut_packet_is_refused() {
    for (keys, mut inbound, _) in contexts() {
        let packet = Rtp { csrcs: 3, extension: Some(5), ..Rtp::new(7, 7, &[0x33; 1400]) };
        let header = packet.header().len();
        let twin = keys.naive();
        let media = twin.protect_rtp(&packet.bytes(), 0);
        let least = header + naive::shape(keys.profile).rtp_tag + keys.mki.len();
        for len in 0..media.len() {
            let expected = match len {
                0..12 => UnprotectError::TooShort,
                _ if len < header => UnprotectError::BadHeader,
                _ if len < least => UnprotectError::TooShort,
                _ if keys.mki.is_empty() => UnprotectError::AuthFailed,
                _ => UnprotectError::UnknownMki,
            };
            assert_eq!(unprotect_rtp(&mut inbound, &media[..len]), Err(expected), "{}, {len}", keys.profile);
        }
        let control = twin.protect_rtcp(&rtcp(7, &[0x44; 1400]), 1);
        for len in 0..control.len() {
            assert!(unprotect_rtcp(&mut inbound, &control[..len]).is_err(), "{}, {len}", keys.profile);
        }
        assert_eq!(inbound.streams(), 0);
        assert!(unprotect_rtp(&mut inbound, &media).is_ok());
        assert!(unprotect_rtcp(&mut inbound, &control).is_ok());
    }
}

/// More than the genuine packet is refused too.
#[test]
fn of_what_follows_a_packet_is_refused() {
    for (keys, mut inbound, _) in contexts() {
        let twin = keys.naive();
        let media = twin.protect_rtp(&Rtp::new(7, 7, &[0x33; 100]).bytes(), 0);
        let control = twin.protect_rtcp(&rtcp(7, &[0x44; 100]), 1);
        for more in 1..=40 {
            let longer = [&media[..], &vec![0; more]].concat();
            assert!(unprotect_rtp(&mut inbound, &longer).is_err(), "{}, {more}", keys.profile);
            let longer = [&control[..], &vec![0; more]].concat();
            assert!(unprotect_rtcp(&mut inbound, &longer).is_err(), "{}, {more}", keys.profile);
        }
        assert_eq!(inbound.streams(), 0);
    }
}

/// What is sent, at every length: the twin's bytes, when the destination has room to the byte, and
/// else an error.
#[test]
fn of_plaintext_is_protected() {
    let mut numbers = Numbers::new(3);
    for backend in backends() {
        for profile in Profile::ALL {
            let keys = Keys::new(profile, 9);
            let (twin, mut outbound) = (keys.naive(), keys.outbound(&config(backend)));
            let step = if profile == Profile::AeadAes128Gcm || profile == Profile::AesCm128HmacSha1_80 {
                1
            } else {
                7
            };
            for len in LENGTHS.step_by(step) {
                let packet = Rtp::new(5, len as u16, &numbers.bytes(len));
                let plain = packet.bytes();
                let expected = twin.protect_rtp(&plain, 0);
                let mut out = vec![0; expected.len()];
                let short = out.len() - 1;
                let refused = outbound.protect_rtp_from(&packet.header(), &packet.payload, &mut out[..short]);
                assert_eq!(refused, Err(ProtectError::BufferTooSmall), "{profile} {backend}, {len}");
                let sent = outbound.protect_rtp_from(&packet.header(), &packet.payload, &mut out);
                assert_eq!(sent, Ok(expected.len()), "{profile} {backend}, {len}");
                assert_eq!(out, expected, "{profile} {backend}, {len}");
            }
        }
    }
}

/// Whatever is handed over as a plaintext packet, nothing panics, and the errors name what is wrong.
#[test]
fn of_random_plaintext_is_protected_or_refused() {
    let mut numbers = Numbers::new(4);
    for (keys, _, mut outbound) in contexts() {
        for len in LENGTHS.step_by(3) {
            let mut packet = numbers.bytes(len + keys.overhead());
            let media = outbound.protect_rtp(&mut packet.clone(), len);
            let control = outbound.protect_rtcp(&mut packet, len);
            if len < 8 {
                assert_eq!((media, control), (Err(ProtectError::TooShort), Err(ProtectError::TooShort)));
            }
            let beyond = packet.len() + 1;
            assert_eq!(outbound.protect_rtp(&mut packet, beyond), Err(ProtectError::TooShort));
            assert_eq!(outbound.protect_rtcp(&mut packet, beyond), Err(ProtectError::TooShort));
        }
    }
}

/// A header passed separately must be exactly one header.
#[test]
fn of_a_header_apart_is_that_of_the_header() {
    let mut outbound = Keys::new(Profile::AeadAes128Gcm, 9).outbound(&config(Backend::current()));
    for (csrcs, extension) in [(0, None), (3, None), (0, Some(2)), (15, Some(9))] {
        let packet = Rtp { csrcs, extension, ..Rtp::new(5, 1, b"") };
        let longer = [packet.header(), vec![0; 200]].concat();
        let mut out = vec![0; 600];
        for len in (0..longer.len()).filter(|len| *len != packet.header().len()) {
            let refused = outbound.protect_rtp_from(&longer[..len], b"payload", &mut out);
            let expected = if len < 12 { ProtectError::TooShort } else { ProtectError::BadHeader };
            assert_eq!(refused, Err(expected), "{csrcs} CSRCs, {extension:?}, {len}");
        }
    }
    assert_eq!(outbound.streams(), 0);
}

/// The longest datagram, one byte less and one more.
#[test]
fn of_65535_is_the_last() {
    for profile in Profile::ALL {
        let keys = Keys::new(profile, 9);
        for backend in backends() {
            let (mut outbound, mut inbound) =
                (keys.outbound(&config(backend)), keys.inbound(&config(backend)));
            for (sequence, len) in
                [(1, 65_534 - profile.rtp_overhead()), (2, 65_535 - profile.rtp_overhead())]
            {
                let plain = Rtp::new(5, sequence, &vec![sequence as u8; len - 12]).bytes();
                let protected = crate::common::protect_rtp(&mut outbound, &plain).unwrap();
                assert_eq!(protected, keys.naive().protect_rtp(&plain, 0), "{profile} {backend}, {len}");
                assert_eq!(unprotect_rtp(&mut inbound, &protected), Ok(plain), "{profile} {backend}, {len}");
            }
            let plain = Rtp::new(5, 3, &vec![3; 65_536 - 12]).bytes();
            assert_eq!(crate::common::protect_rtp(&mut outbound, &plain), Err(ProtectError::TooLong));
            assert_eq!(unprotect_rtp(&mut inbound, &plain), Err(UnprotectError::TooLong));
            assert_eq!(unprotect_rtcp(&mut inbound, &plain), Err(UnprotectError::TooLong));
        }
    }
}
