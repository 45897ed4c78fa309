//! How streams come into being: after an authentic packet, up to the cap, from template keys or
//! keys of their own.

use crate::common::{
    Keys, Numbers, Rtp, config, protect_rtcp, protect_rtp, rtcp, unprotect_rtcp, unprotect_rtp,
};
use srtp::{
    Backend, Config, InboundContext, OutboundContext, Profile, ProtectError, SetupError, UnprotectError,
};

fn capped(streams_max: usize) -> Config {
    Config { streams_max, ..Config::default() }
}

fn media(ssrc: u32, sequence: u16) -> Vec<u8> {
    Rtp::new(ssrc, sequence, b"who is it").bytes()
}

#[test]
fn an_ssrc_flood_creates_nothing() {
    for profile in Profile::ALL {
        let keys = Keys::new(profile, 1);
        let mut inbound = keys.inbound(&capped(4));
        let genuine = keys.naive().protect_rtp(&media(1, 1), 0);
        let control = keys.naive().protect_rtcp(&rtcp(1, &[0; 8]), 1);
        let mut numbers = Numbers::new(1);
        for _ in 0..3000 {
            let ssrc = (numbers.next() as u32 | 2).to_be_bytes();
            let mut forged = genuine.clone();
            forged[8..12].copy_from_slice(&ssrc);
            assert_eq!(unprotect_rtp(&mut inbound, &forged), Err(UnprotectError::AuthFailed));
            let mut forged = control.clone();
            forged[4..8].copy_from_slice(&ssrc);
            assert_eq!(unprotect_rtcp(&mut inbound, &forged), Err(UnprotectError::AuthFailed));
        }
        assert_eq!(inbound.streams(), 0, "{profile}");
        assert!(
            unprotect_rtp(&mut inbound, &genuine).is_ok(),
            "{profile}: there is room for the genuine one"
        );
        assert!(unprotect_rtcp(&mut inbound, &control).is_ok(), "{profile}");
        assert_eq!(inbound.streams(), 1, "{profile}: SRTP and SRTCP of one SSRC are one stream");
    }
}

/// Even a sender with the key gets no further than the cap, and existing streams continue.
#[test]
fn at_the_cap_of_the_receiver_a_new_stream_is_refused() {
    let keys = Keys::new(Profile::AeadAes128Gcm, 2);
    let (twin, mut inbound) = (keys.naive(), keys.inbound(&capped(4)));
    for ssrc in 1..=4 {
        assert!(unprotect_rtp(&mut inbound, &twin.protect_rtp(&media(ssrc, 1), 0)).is_ok());
    }
    for ssrc in 5..100 {
        let refused = unprotect_rtp(&mut inbound, &twin.protect_rtp(&media(ssrc, 1), 0));
        assert_eq!(refused, Err(UnprotectError::TooManyStreams));
        let refused = unprotect_rtcp(&mut inbound, &twin.protect_rtcp(&rtcp(ssrc, &[0; 8]), 1));
        assert_eq!(refused, Err(UnprotectError::TooManyStreams));
    }
    assert_eq!(inbound.set_roc(5, 1), Err(SetupError::TooManyStreams));
    assert_eq!(inbound.add_stream(5, &[keys.master()]), Err(SetupError::TooManyStreams));
    assert_eq!(inbound.streams(), 4);
    for ssrc in 1..=4 {
        assert!(unprotect_rtp(&mut inbound, &twin.protect_rtp(&media(ssrc, 2), 0)).is_ok());
    }
    // One leaves, one comes.
    assert!(inbound.remove_stream(3));
    assert!(!inbound.remove_stream(3));
    assert_eq!((inbound.streams(), inbound.roc(3)), (3, None));
    assert!(unprotect_rtp(&mut inbound, &twin.protect_rtp(&media(5, 1), 0)).is_ok());
    assert_eq!(
        unprotect_rtp(&mut inbound, &twin.protect_rtp(&media(3, 3), 0)),
        Err(UnprotectError::TooManyStreams)
    );
    assert_eq!(inbound.streams(), 4);
}

#[test]
fn at_the_cap_of_the_sender_a_new_stream_is_refused() {
    let keys = Keys::new(Profile::AesCm128HmacSha1_80, 3);
    let mut outbound = keys.outbound(&capped(2));
    assert!(protect_rtp(&mut outbound, &media(1, 1)).is_ok());
    assert!(protect_rtcp(&mut outbound, &rtcp(2, &[0; 8])).is_ok());
    assert_eq!(protect_rtp(&mut outbound, &media(3, 1)), Err(ProtectError::TooManyStreams));
    assert_eq!(protect_rtcp(&mut outbound, &rtcp(3, &[0; 8])), Err(ProtectError::TooManyStreams));
    assert_eq!(outbound.set_roc(3, 1), Err(SetupError::TooManyStreams));
    assert_eq!(outbound.add_stream(3, &[keys.master()]), Err(SetupError::TooManyStreams));
    assert_eq!(outbound.streams(), 2);
    assert!(protect_rtp(&mut outbound, &media(1, 2)).is_ok());
    assert!(protect_rtp(&mut outbound, &media(2, 1)).is_ok());
}

/// A packet that is refused for its form begins no stream at the sender either.
#[test]
fn a_refused_packet_begins_no_stream_at_the_sender() {
    let keys = Keys::new(Profile::AeadAes128Gcm, 3);
    let mut outbound = keys.outbound(&capped(2));
    let mut packet = media(1, 1);
    let len = packet.len();
    assert_eq!(outbound.protect_rtp(&mut packet, len), Err(ProtectError::BufferTooSmall));
    assert_eq!(outbound.protect_rtp(&mut packet, 11), Err(ProtectError::TooShort));
    packet[0] = 0x40;
    assert_eq!(outbound.protect_rtp(&mut packet, len), Err(ProtectError::BadVersion));
    packet[0] = 0x8f;
    assert_eq!(outbound.protect_rtp(&mut packet, len), Err(ProtectError::BadHeader));
    let mut packet = rtcp(1, &[0; 8]);
    assert_eq!(outbound.protect_rtcp(&mut packet, 16), Err(ProtectError::BufferTooSmall));
    assert_eq!(outbound.streams(), 0);
}

/// A packet refused for want of room has not used its index: with room it goes out.
#[test]
fn an_index_is_used_by_a_packet_that_was_protected() {
    let keys = Keys::new(Profile::AeadAes128Gcm, 3);
    let mut outbound = keys.outbound(&Config::default());
    assert!(protect_rtp(&mut outbound, &media(1, 1)).is_ok());
    let mut tight = media(1, 2);
    let len = tight.len();
    assert_eq!(outbound.protect_rtp(&mut tight, len), Err(ProtectError::BufferTooSmall));
    assert!(protect_rtp(&mut outbound, &media(1, 2)).is_ok());
    assert_eq!(protect_rtp(&mut outbound, &media(1, 2)), Err(ProtectError::IndexUsed));
}

#[test]
fn without_template_keys_only_streams_that_were_added_exist() {
    for profile in Profile::ALL {
        let (one, other) = (Keys::new(profile, 4), Keys::new(profile, 5));
        let mut outbound = OutboundContext::new(&Config::default(), &[]).unwrap();
        let mut inbound = InboundContext::new(&Config::default(), &[]).unwrap();
        outbound.add_stream(1, &[one.master()]).unwrap();
        outbound.add_stream(2, &[other.master()]).unwrap();
        inbound.add_stream(1, &[one.master()]).unwrap();
        inbound.add_stream(2, &[other.master()]).unwrap();
        for (ssrc, keys) in [(1, &one), (2, &other)] {
            let protected = protect_rtp(&mut outbound, &media(ssrc, 1)).unwrap();
            assert_eq!(protected, keys.naive().protect_rtp(&media(ssrc, 1), 0), "{profile}");
            assert_eq!(unprotect_rtp(&mut inbound, &protected), Ok(media(ssrc, 1)), "{profile}");
            let protected = protect_rtcp(&mut outbound, &rtcp(ssrc, &[3; 8])).unwrap();
            assert_eq!(unprotect_rtcp(&mut inbound, &protected), Ok(rtcp(ssrc, &[3; 8])), "{profile}");
        }
        assert_eq!(protect_rtp(&mut outbound, &media(3, 1)), Err(ProtectError::UnknownSsrc));
        assert_eq!(protect_rtcp(&mut outbound, &rtcp(3, &[])), Err(ProtectError::UnknownSsrc));
        let stranger = one.naive().protect_rtp(&media(3, 1), 0);
        assert_eq!(unprotect_rtp(&mut inbound, &stranger), Err(UnprotectError::UnknownSsrc));
        let stranger = one.naive().protect_rtcp(&rtcp(3, &[]), 0);
        assert_eq!(unprotect_rtcp(&mut inbound, &stranger), Err(UnprotectError::UnknownSsrc));
        assert_eq!(outbound.set_roc(3, 1), Err(SetupError::UnknownSsrc));
        assert_eq!(inbound.set_roc(3, 1), Err(SetupError::UnknownSsrc));
        assert_eq!((outbound.streams(), inbound.streams()), (2, 2));
    }
}

/// A stream's own keys replace the template's, even of another profile; they are not used in
/// addition.
#[test]
fn keys_of_a_stream_are_used_instead_of_the_template() {
    let template = Keys::new(Profile::AeadAes128Gcm, 6);
    let own = Keys::new(Profile::AesCm128HmacSha1_32, 7);
    let mut outbound = template.outbound(&config(Backend::current()));
    let mut inbound = template.inbound(&config(Backend::current()));
    outbound.add_stream(9, &[own.master()]).unwrap();
    inbound.add_stream(9, &[own.master()]).unwrap();
    assert_eq!(outbound.add_stream(9, &[own.master()]), Err(SetupError::StreamExists));
    assert_eq!(inbound.add_stream(9, &[own.master()]), Err(SetupError::StreamExists));
    assert_eq!(outbound.add_stream(10, &[]), Err(SetupError::NoKeys));
    assert_eq!(inbound.add_stream(10, &[]), Err(SetupError::NoKeys));
    for (ssrc, keys) in [(8, &template), (9, &own)] {
        let expected = keys.naive().protect_rtp(&media(ssrc, 1), 0);
        assert_eq!(protect_rtp(&mut outbound, &media(ssrc, 1)), Ok(expected.clone()));
        assert_eq!(unprotect_rtp(&mut inbound, &expected), Ok(media(ssrc, 1)));
    }
    let by_template = template.naive().protect_rtp(&media(9, 2), 0);
    assert_eq!(unprotect_rtp(&mut inbound, &by_template), Err(UnprotectError::AuthFailed));
    let by_own = own.naive().protect_rtp(&media(8, 2), 0);
    assert!(unprotect_rtp(&mut inbound, &by_own).is_err());
    assert_eq!(
        outbound.add_stream(8, &[own.master()]),
        Err(SetupError::StreamExists),
        "it is the template's"
    );
}
