//! The end of a key: 2^48 SRTP and 2^31 SRTCP indices, then an error on both sides (RFC 3711 section 9.2).

use crate::common::{Keys, Rtp, protect_rtcp, protect_rtp, rtcp, unprotect_rtcp, unprotect_rtp};
use srtp::internals::{limit_inbound, limit_outbound};
use srtp::{
    Config, Incoming, Outgoing, Plaintext, Profile, ProtectError, SetupError, UnprotectError,
    protect_rtp_batch, unprotect_rtp_batch,
};

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
        // A sender that continues with ROC 0 repeats nonces; its packets are refused, and so are
        // the old ones of ROC 0.
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

/// What a key has served counts, whichever streams it served.
#[test]
fn a_key_serves_so_many_packets_and_no_more() {
    for profile in Profile::ALL {
        let keys = Keys::new(profile, 1);
        let (mut outbound, mut inbound) =
            (keys.outbound(&Config::default()), keys.inbound(&Config::default()));
        let mut spent = keys.outbound(&Config::default());
        limit_outbound(&mut spent, 3, 2);
        limit_inbound(&mut inbound, 3, 2);

        let plain = |number: u16| Rtp::new(SSRC + u32::from(number % 2), number, b"counted").bytes();
        for number in 1..=3 {
            let packet = protect_rtp(&mut outbound, &plain(number)).unwrap();
            assert_eq!(protect_rtp(&mut spent, &plain(number)).as_ref(), Ok(&packet), "{profile} {number}");
            let mut forged = packet.clone();
            *forged.last_mut().unwrap() ^= 1;
            assert_eq!(unprotect_rtp(&mut inbound, &forged), Err(UnprotectError::AuthFailed), "{profile}");
            assert_eq!(unprotect_rtp(&mut inbound, &packet), Ok(plain(number)), "{profile} {number}");
        }
        let packet = protect_rtp(&mut outbound, &plain(4)).unwrap();
        assert_eq!(protect_rtp(&mut spent, &plain(4)), Err(ProtectError::KeyExpired), "{profile}");
        assert_eq!(unprotect_rtp(&mut inbound, &packet), Err(UnprotectError::KeyExpired), "{profile}");
        // A stream that is not there yet gets no further.
        let new = Rtp::new(SSRC + 7, 1, b"new").bytes();
        assert_eq!(protect_rtp(&mut spent, &new), Err(ProtectError::KeyExpired), "{profile}");
        assert_eq!(spent.streams(), 2, "{profile}");

        for number in 0..2 {
            let packet = protect_rtcp(&mut outbound, &rtcp(SSRC, b"counted!")).unwrap();
            assert_eq!(
                protect_rtcp(&mut spent, &rtcp(SSRC, b"counted!")).as_ref(),
                Ok(&packet),
                "{profile} {number}"
            );
            assert_eq!(
                unprotect_rtcp(&mut inbound, &packet),
                Ok(rtcp(SSRC, b"counted!")),
                "{profile} {number}"
            );
        }
        let packet = protect_rtcp(&mut outbound, &rtcp(SSRC, b"counted!")).unwrap();
        assert_eq!(
            protect_rtcp(&mut spent, &rtcp(SSRC, b"counted!")),
            Err(ProtectError::KeyExpired),
            "{profile}"
        );
        assert_eq!(unprotect_rtcp(&mut inbound, &packet), Err(UnprotectError::KeyExpired), "{profile}");
    }
}

/// A batch ends where its packets one by one would.
#[test]
fn a_batch_uses_up_no_more_than_is_left() {
    for profile in Profile::ALL {
        let keys = Keys::new(profile, 1);
        let (mut outbound, mut inbound) =
            (keys.outbound(&Config::default()), keys.inbound(&Config::default()));
        limit_outbound(&mut outbound, 5, 0);
        limit_inbound(&mut inbound, 3, 0);
        let header = |sequence: u8| [0x80, 96, 0, sequence, 0, 0, 0, 0, 0, 0, 0, 42];
        let headers: Vec<_> = (0..7).map(header).collect();
        let mut buffers = vec![[0; 100]; 7];
        let mut outgoing: Vec<_> = (headers.iter().zip(&mut buffers))
            .map(|(header, out)| Outgoing {
                context: 0,
                plaintext: Plaintext::From { header, payload: b"payload" },
                out,
                result: Ok(0),
            })
            .collect();
        protect_rtp_batch(&mut outbound, &mut outgoing);
        let results: Vec<_> = outgoing.iter().map(|packet| packet.result.err()).collect();
        let expired = Some(ProtectError::KeyExpired);
        assert_eq!(results, [None, None, None, None, None, expired, expired], "{profile}");

        let len = 12 + 7 + profile.rtp_overhead();
        let mut incoming: Vec<_> = (buffers[..5].iter_mut())
            .map(|packet| Incoming { context: 0, packet: &mut packet[..len], result: Ok(0) })
            .collect();
        unprotect_rtp_batch(&mut inbound, &mut incoming);
        let results: Vec<_> = incoming.iter().map(|packet| packet.result.err()).collect();
        let expired = Some(UnprotectError::KeyExpired);
        assert_eq!(results, [None, None, None, expired, expired], "{profile}");
    }
}
