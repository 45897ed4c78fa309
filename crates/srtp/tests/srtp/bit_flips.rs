//! Any bit of a protected packet flipped: nothing is delivered and nothing is remembered.

use crate::common::{Keys, Rtp, config, hex, protect_rtcp, protect_rtp, rtcp, unprotect_rtcp, unprotect_rtp};
use srtp::{Backend, InboundContext, OutboundContext, Profile, UnprotectError};

const SSRC: u32 = 0x0102_0304;

/// `clear` bytes of a packet are in the clear. One flip a packet: the flipped one is refused, and
/// the genuine one, after it, accepted. Were an index, a rollover counter or a stream remembered of
/// the forged one, the genuine one would suffer.
fn flip_every_bit(
    keys: &Keys,
    backend: Backend,
    protect: impl Fn(&mut OutboundContext, u16) -> (Vec<u8>, Vec<u8>),
    unprotect: impl Fn(&mut InboundContext, &[u8]) -> Result<Vec<u8>, UnprotectError>,
    clear: usize,
) {
    let mut outbound = keys.outbound(&config(backend));
    let mut inbound = keys.inbound(&config(backend));
    let bits = 8 * protect(&mut keys.outbound(&config(backend)), 0).1.len();
    for bit in 0..bits {
        let (plain, protected) = protect(&mut outbound, bit as u16);
        let (streams, roc) = (inbound.streams(), inbound.roc(SSRC));
        let mut forged = protected.clone();
        forged[bit / 8] ^= 0x80 >> (bit % 8);
        let name = || format!("{} {backend}, bit {bit} of {bits}", keys.profile);
        let error = unprotect(&mut inbound, &forged).expect_err(&name());
        // A forged header, index or MKI may be refused for its contents; a forged payload only by
        // the tag.
        if (clear..plain.len()).contains(&(bit / 8)) {
            assert_eq!(error, UnprotectError::AuthFailed, "{}", name());
        }
        assert_eq!((inbound.streams(), inbound.roc(SSRC)), (streams, roc), "{}: state changed", name());
        assert_eq!(unprotect(&mut inbound, &protected), Ok(plain), "{}: the genuine packet", name());
    }
    assert_eq!(inbound.streams(), 1);
}

#[test]
fn of_rtp() {
    for profile in Profile::ALL {
        for backend in crate::common::backends() {
            for mki in ["", "c0ffee42"] {
                let keys = Keys::new(profile, 1).with_mki(&hex(mki));
                for (csrcs, extension, payload) in [(0, None, 33), (2, Some(3), 21), (0, None, 0)] {
                    let header = 12 + 4 * csrcs + extension.map_or(0, |words| 4 + 4 * usize::from(words));
                    let protect = |context: &mut OutboundContext, sequence: u16| {
                        let payload = vec![0x5a; payload];
                        let packet = Rtp {
                            csrcs,
                            extension,
                            ..Rtp::new(SSRC, 60_000u16.wrapping_add(sequence), &payload)
                        };
                        let plain = packet.bytes();
                        let protected = protect_rtp(context, &plain).unwrap();
                        (plain, protected)
                    };
                    flip_every_bit(&keys, backend, protect, unprotect_rtp, header);
                }
            }
        }
    }
}

#[test]
fn of_rtcp() {
    for profile in Profile::ALL {
        for backend in crate::common::backends() {
            for mki in ["", "c0ffee42"] {
                let keys = Keys::new(profile, 2).with_mki(&hex(mki));
                for body in [20, 0] {
                    let protect = |context: &mut OutboundContext, sequence: u16| {
                        let plain = rtcp(SSRC, &vec![sequence as u8; body]);
                        let protected = protect_rtcp(context, &plain).unwrap();
                        (plain, protected)
                    };
                    flip_every_bit(&keys, backend, protect, unprotect_rtcp, 8);
                }
            }
        }
    }
}

/// Forged packets alone, to a context that knows no stream: none comes into being.
#[test]
fn of_a_first_packet_begin_no_stream() {
    for profile in Profile::ALL {
        let keys = Keys::new(profile, 3);
        let mut outbound = keys.outbound(&config(Backend::current()));
        let media = protect_rtp(&mut outbound, &Rtp::new(SSRC, 9, b"first of its stream").bytes()).unwrap();
        let control = protect_rtcp(&mut outbound, &rtcp(SSRC, &[7; 24])).unwrap();
        let mut inbound = keys.inbound(&config(Backend::current()));
        for bit in 0..8 * media.len() {
            let mut forged = media.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(unprotect_rtp(&mut inbound, &forged).is_err(), "{profile}, bit {bit}");
        }
        for bit in 0..8 * control.len() {
            let mut forged = control.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(unprotect_rtcp(&mut inbound, &forged).is_err(), "{profile}, bit {bit}");
        }
        assert_eq!((inbound.streams(), inbound.roc(SSRC)), (0, None), "{profile}");
        assert!(unprotect_rtp(&mut inbound, &media).is_ok());
        assert!(unprotect_rtcp(&mut inbound, &control).is_ok());
    }
}

/// Two, three, many bits at once, and whole fields exchanged between genuine packets.
#[test]
fn of_several_places_at_once_deliver_nothing() {
    let mut numbers = crate::common::Numbers::new(4);
    for profile in Profile::ALL {
        let keys = Keys::new(profile, 4);
        let mut outbound = keys.outbound(&config(Backend::current()));
        let mut inbound = keys.inbound(&config(Backend::current()));
        let genuine: Vec<Vec<u8>> = (0..20)
            .map(|sequence| {
                protect_rtp(&mut outbound, &Rtp::new(SSRC, sequence, &[sequence as u8; 50]).bytes()).unwrap()
            })
            .collect();
        for _ in 0..2000 {
            let (one, other) = (&genuine[numbers.below(20) as usize], &genuine[numbers.below(20) as usize]);
            let cut = 1 + numbers.below(one.len() as u64 - 1) as usize;
            let mut forged = [&one[..cut], &other[cut..]].concat();
            for _ in 0..numbers.below(4) {
                let at = numbers.below(forged.len() as u64) as usize;
                forged[at] ^= numbers.next() as u8;
            }
            if !genuine.contains(&forged) {
                assert!(unprotect_rtp(&mut inbound, &forged).is_err(), "{profile}");
            }
        }
        assert_eq!(inbound.streams(), 0);
    }
}
