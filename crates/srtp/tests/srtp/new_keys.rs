//! Keys that come later: a template for a context without one, others for streams that run.

use crate::common::{Keys, Rtp, protect_rtcp, protect_rtp, rtcp, unprotect_rtcp, unprotect_rtp};
use srtp::{Config, InboundContext, OutboundContext, Profile, ProtectError, SetupError, UnprotectError};

fn media(ssrc: u32, sequence: u16) -> Vec<u8> {
    Rtp::new(ssrc, sequence, b"before and after").bytes()
}

#[test]
fn streams_continue_with_other_keys() {
    for (before, after) in [
        (Profile::AeadAes128Gcm, Profile::AeadAes256Gcm),
        (Profile::AeadAes128Gcm, Profile::AesCm128HmacSha1_80),
        (Profile::AesCm128HmacSha1_32, Profile::AesCm128HmacSha1_32),
    ] {
        let (old, new) = (Keys::new(before, 1), Keys::new(after, 2));
        let mut outbound = old.outbound(&Config::default());
        let mut inbound = old.inbound(&Config::default());
        outbound.set_roc(7, 3).unwrap();
        inbound.set_roc(7, 3).unwrap();
        let first = protect_rtp(&mut outbound, &media(7, 65_535)).unwrap();
        unprotect_rtp(&mut inbound, &first).unwrap();
        outbound.set_template_keys(&[new.master()]).unwrap();
        inbound.set_template_keys(&[new.master()]).unwrap();
        // The same index is used once, whichever key it was.
        assert_eq!(protect_rtp(&mut outbound, &media(7, 65_535)).unwrap_err(), ProtectError::IndexUsed);
        let second = protect_rtp(&mut outbound, &media(7, 0)).unwrap();
        assert_eq!(outbound.roc(7), Some(4), "{before} to {after}");
        assert_eq!(unprotect_rtp(&mut inbound, &second).unwrap(), media(7, 0));
        assert_eq!(unprotect_rtp(&mut inbound, &first).unwrap_err(), UnprotectError::Replayed);
        // As a receiver sees it that has the new key only.
        let mut newcomer = new.inbound(&Config::default());
        newcomer.set_roc(7, 4).unwrap();
        assert_eq!(unprotect_rtp(&mut newcomer, &second).unwrap(), media(7, 0));

        let third = Keys::new(before, 3);
        outbound.set_stream_keys(7, &[third.master()]).unwrap();
        inbound.set_stream_keys(7, &[third.master()]).unwrap();
        let own = protect_rtcp(&mut outbound, &rtcp(7, &[1; 8])).unwrap();
        assert_eq!(unprotect_rtcp(&mut inbound, &own).unwrap(), rtcp(7, &[1; 8]));
        // Another stream still has the template's.
        let other = protect_rtp(&mut outbound, &media(8, 1)).unwrap();
        assert_eq!(unprotect_rtp(&mut inbound, &other).unwrap(), media(8, 1));
    }
}

#[test]
fn a_context_gets_its_first_template_later() {
    let keys = Keys::new(Profile::AesCm128HmacSha1_80, 1);
    let mut outbound = OutboundContext::new(&Config::default(), &[]).unwrap();
    let mut inbound = InboundContext::new(&Config::default(), &[]).unwrap();
    assert_eq!(protect_rtp(&mut outbound, &media(1, 1)).unwrap_err(), ProtectError::UnknownSsrc);
    outbound.set_template_keys(&[keys.master()]).unwrap();
    inbound.set_template_keys(&[keys.master()]).unwrap();
    let packet = protect_rtp(&mut outbound, &media(1, 1)).unwrap();
    assert_eq!(unprotect_rtp(&mut inbound, &packet).unwrap(), media(1, 1));
    assert_eq!(outbound.set_template_keys(&[]), Err(SetupError::NoKeys));
    assert_eq!(inbound.set_stream_keys(2, &[keys.master()]), Err(SetupError::UnknownSsrc));
    assert_eq!(outbound.set_stream_keys(2, &[keys.master()]), Err(SetupError::UnknownSsrc));
}

/// A stream of the template stays: it could come back with the same key and begin its indices again.
#[test]
fn only_streams_with_keys_of_their_own_can_be_removed_when_sending() {
    let (template, own) = (Keys::new(Profile::AeadAes128Gcm, 1), Keys::new(Profile::AeadAes128Gcm, 2));
    let mut outbound = template.outbound(&Config::default());
    outbound.add_stream(2, &[own.master()]).unwrap();
    protect_rtp(&mut outbound, &media(1, 9)).unwrap();
    assert!(!outbound.remove_stream(1) && !outbound.remove_stream(3));
    assert_eq!(protect_rtp(&mut outbound, &media(1, 9)).unwrap_err(), ProtectError::IndexUsed);
    assert!(outbound.remove_stream(2) && !outbound.remove_stream(2));
    assert_eq!(outbound.streams(), 1);
}
