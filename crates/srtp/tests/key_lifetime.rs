//! The end of a key: 2^48 SRTP and 2^31 SRTCP indices, then an error on both sides (RFC 3711 section 9.2).

mod common;

use common::{Keys, Rtp, protect_rtcp, protect_rtp, rtcp, unprotect_rtcp, unprotect_rtp};
use srtp::{Config, Profile, ProtectError, SetupError, UnprotectError};

const SSRC: u32 = 12;
const LAST_ROC: u32 = u32::MAX;
const LAST_RTCP_INDEX: u32 = (1 << 31) - 1;

#[test]
fn the_last_rtp_index_is_protected_and_none_after_it() {
    for profile in Profile::ALL {
        let keys = Keys::new(profile, 1);
        let (twin, mut outbound) = (keys.naive(), keys.outbound(&Config::default()));
        outbound.set_roc(SSRC, LAST_ROC).unwrap();
        for sequence in [0xfffd, 0xffff] {
            let plain = Rtp::new(SSRC, sequence, b"almost over").bytes();
            assert_eq!(
                protect_rtp(&mut outbound, &plain),
                Ok(twin.protect_rtp(&plain, LAST_ROC)),
                "{profile}"
            );
        }
        for sequence in [0x0000, 0x0001, 0x7fff] {
            let plain = Rtp::new(SSRC, sequence, b"over").bytes();
            // Round 0 again would repeat the very first nonces.
            let refused = protect_rtp(&mut outbound, &plain);
            let expected = if sequence == 0x7fff { ProtectError::TooOld } else { ProtectError::KeyExpired };
            assert_eq!(refused, Err(expected), "{profile} {sequence:#x}");
        }
        assert_eq!(outbound.roc(SSRC), Some(LAST_ROC));
        // One that was skipped still has an index.
        let plain = Rtp::new(SSRC, 0xfffe, b"late").bytes();
        assert_eq!(protect_rtp(&mut outbound, &plain), Ok(twin.protect_rtp(&plain, LAST_ROC)), "{profile}");
        // Another stream of the same key has indices left.
        assert!(protect_rtp(&mut outbound, &Rtp::new(SSRC + 1, 0, b"other").bytes()).is_ok());
    }
}

#[test]
fn the_last_rtp_index_is_unprotected_and_none_after_it() {
    for profile in Profile::ALL {
        let keys = Keys::new(profile, 1);
        let (twin, mut inbound) = (keys.naive(), keys.inbound(&Config::default()));
        inbound.set_roc(SSRC, LAST_ROC).unwrap();
        let packet = |roc, sequence| twin.protect_rtp(&Rtp::new(SSRC, sequence, b"almost over").bytes(), roc);
        for sequence in [0xfffd, 0xffff] {
            assert!(unprotect_rtp(&mut inbound, &packet(LAST_ROC, sequence)).is_ok(), "{profile}");
        }
        // A sender that goes on with round 0 repeats nonces; its packets are not taken, nor the old ones of round 0.
        for sequence in [0, 1, 5] {
            let refused = unprotect_rtp(&mut inbound, &packet(0, sequence));
            assert_eq!(refused, Err(UnprotectError::KeyExpired), "{profile} {sequence}");
        }
        assert!(unprotect_rtp(&mut inbound, &packet(LAST_ROC, 0xfffe)).is_ok(), "{profile}: a late one");
        assert_eq!(inbound.roc(SSRC), Some(LAST_ROC));
    }
}

#[test]
fn the_last_rtcp_index_is_protected_and_none_after_it() {
    for profile in Profile::ALL {
        let keys = Keys::new(profile, 2);
        let (twin, mut outbound) = (keys.naive(), keys.outbound(&Config::default()));
        assert_eq!(outbound.set_rtcp_index(SSRC, LAST_RTCP_INDEX + 1), Err(SetupError::IndexTooLarge));
        outbound.set_rtcp_index(SSRC, LAST_RTCP_INDEX - 1).unwrap();
        assert_eq!(outbound.rtcp_index(SSRC), Some(LAST_RTCP_INDEX - 1));
        for index in [LAST_RTCP_INDEX - 1, LAST_RTCP_INDEX] {
            let plain = rtcp(SSRC, &[1; 24]);
            assert_eq!(
                protect_rtcp(&mut outbound, &plain),
                Ok(twin.protect_rtcp(&plain, index)),
                "{profile}"
            );
        }
        for _ in 0..3 {
            let refused = protect_rtcp(&mut outbound, &rtcp(SSRC, &[2; 24]));
            assert_eq!(refused, Err(ProtectError::KeyExpired), "{profile}");
        }
        assert_eq!(outbound.set_rtcp_index(SSRC, 5), Err(SetupError::Backwards), "{profile}");
        assert!(protect_rtp(&mut outbound, &Rtp::new(SSRC, 1, b"SRTP has a key of its own").bytes()).is_ok());
    }
}

#[test]
fn the_last_rtcp_index_is_unprotected() {
    for profile in Profile::ALL {
        let keys = Keys::new(profile, 2);
        let (twin, mut inbound) = (keys.naive(), keys.inbound(&Config::default()));
        for index in [LAST_RTCP_INDEX - 2, LAST_RTCP_INDEX, LAST_RTCP_INDEX - 1] {
            let plain = rtcp(SSRC, &index.to_be_bytes());
            assert_eq!(
                unprotect_rtcp(&mut inbound, &twin.protect_rtcp(&plain, index)),
                Ok(plain),
                "{profile}"
            );
        }
        // An index that has wrapped lies far before the window.
        let wrapped = twin.protect_rtcp(&rtcp(SSRC, &[0; 4]), 0);
        assert_eq!(unprotect_rtcp(&mut inbound, &wrapped), Err(UnprotectError::TooOld), "{profile}");
    }
}
