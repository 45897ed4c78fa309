//! The same packet protected again: the same bytes come out, and nothing but that very packet is protected
//! twice under one index.

use srtp::{Backend, Config, OutboundContext, Plaintext, Profile, ProtectError, TagPlaces, TagQueue};

use crate::common::{Keys, Rtp, config, unprotect_rtp};

const SSRC: u32 = 0xabcd;

fn rtp(sequence: u16, payload: &[u8]) -> Vec<u8> {
    Rtp { extension: Some(1), ..Rtp::new(SSRC, sequence, payload) }.bytes()
}

fn remembering(profile: Profile) -> OutboundContext {
    let mut context = Keys::new(profile, 3).outbound(&config(Backend::current()));
    context.remember_packets(SSRC).unwrap();
    context
}

/// Protects with one of the two functions.
fn protect(
    context: &mut OutboundContext,
    plain: &[u8],
    by: impl FnOnce(&mut OutboundContext, &mut [u8], usize) -> Result<usize, ProtectError>,
) -> Result<Vec<u8>, ProtectError> {
    let mut out = plain.to_vec();
    out.resize(plain.len() + 16, 0);
    let len = by(context, &mut out, plain.len())?;
    out.truncate(len);
    Ok(out)
}

fn once(context: &mut OutboundContext, plain: &[u8]) -> Result<Vec<u8>, ProtectError> {
    protect(context, plain, OutboundContext::protect_rtp)
}

fn again(context: &mut OutboundContext, plain: &[u8]) -> Result<Vec<u8>, ProtectError> {
    protect(context, plain, OutboundContext::protect_rtp_again)
}

#[test]
fn the_same_packet_gives_the_same_bytes_also_from_the_round_before() {
    for profile in Profile::ALL {
        let mut context = remembering(profile);
        let numbers: Vec<u16> = (0..300u16).map(|at| at.wrapping_sub(200)).collect();
        let plain = |number: &u16| rtp(*number, format!("packet {number}").as_bytes());
        let sent: Vec<_> = numbers.iter().map(|number| once(&mut context, &plain(number)).unwrap()).collect();
        assert_eq!(context.roc(SSRC), Some(1));
        for (number, sent) in numbers.iter().zip(&sent) {
            assert_eq!(again(&mut context, &plain(number)).as_ref(), Ok(sent), "{profile}: {number}");
            assert_eq!(again(&mut context, &plain(number)).as_ref(), Ok(sent), "and a third time");
        }
        // A receiver that lost every second one takes those, in their own round.
        let mut receiver = Keys::new(profile, 3).inbound(&Config::default());
        sent.iter().step_by(2).for_each(|sent| _ = unprotect_rtp(&mut receiver, sent).unwrap());
        for number in numbers.iter().skip(1).step_by(2).rev().take(60) {
            let sent = again(&mut context, &plain(number)).unwrap();
            assert_eq!(unprotect_rtp(&mut receiver, &sent).unwrap(), plain(number), "{profile}");
        }
        // And what follows is as if nothing had been sent again.
        let next = once(&mut context, &plain(&100)).unwrap();
        assert_eq!(unprotect_rtp(&mut receiver, &next).unwrap(), plain(&100));
    }
}

#[test]
fn other_bytes_are_never_protected_under_an_index_that_was_used() {
    for profile in Profile::ALL {
        let mut context = remembering(profile);
        let plain = rtp(7, b"what was sent");
        once(&mut context, &plain).unwrap();
        // Each bit of it: header, its extension, payload. Another sequence number or SSRC is another index,
        // of which nothing is known.
        for bit in 0..plain.len() * 8 {
            let mut other = plain.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(again(&mut context, &other).is_err(), "{profile}: bit {bit}");
        }
        for other in [rtp(7, b""), rtp(7, b"what was sent."), rtp(8, b"what was sent"), rtp(6, b"")] {
            assert_eq!(again(&mut context, &other), Err(ProtectError::NotTheSame), "{profile}");
        }
        assert_eq!(once(&mut context, &plain), Err(ProtectError::IndexUsed), "only where asked for");
        assert!(again(&mut context, &plain).is_ok());
    }
}

#[test]
fn what_is_not_remembered_is_not_protected_again() {
    let profile = Profile::AeadAes128Gcm;
    let mut context = Keys::new(profile, 3).outbound(&config(Backend::current()));
    let plain = rtp(1, b"before anything is remembered");
    once(&mut context, &plain).unwrap();
    assert_eq!(again(&mut context, &plain), Err(ProtectError::NotTheSame));
    context.remember_packets(SSRC).unwrap();
    assert_eq!(again(&mut context, &plain), Err(ProtectError::NotTheSame));
    for number in 2..=514 {
        once(&mut context, &rtp(number, b"then")).unwrap();
    }
    assert_eq!(again(&mut context, &rtp(2, b"then")), Err(ProtectError::NotTheSame), "512 later");
    assert!(again(&mut context, &rtp(3, b"then")).is_ok());
    // The same number a round later is another index.
    context.set_roc(SSRC, 1).unwrap();
    once(&mut context, &rtp(600, b"a round later")).unwrap();
    assert_eq!(again(&mut context, &rtp(514, b"then")), Err(ProtectError::NotTheSame));
}

#[test]
fn it_is_known_whichever_way_it_was_protected() {
    struct Out(Vec<u8>);
    impl TagPlaces<()> for Out {
        fn packet(&self, (): ()) -> &[u8] {
            &self.0
        }

        fn packet_mut(&mut self, (): ()) -> &mut [u8] {
            &mut self.0
        }
    }
    for profile in Profile::ALL {
        let mut context = remembering(profile);
        let plain = rtp(9, b"a tag of its own time");
        let mut out = Out(vec![0; plain.len() + 16]);
        let mut tags = TagQueue::new(1);
        let plaintext = Plaintext::From { header: &plain[..20], payload: &plain[20..] };
        let len = context.protect_rtp_later(plaintext, &mut out.0, &mut tags, ()).unwrap();
        tags.finish(&mut out);
        assert_eq!(again(&mut context, &plain).unwrap(), out.0[..len], "{profile}");
    }
}
