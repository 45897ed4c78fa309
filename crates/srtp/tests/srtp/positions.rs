//! A context goes on where one with the same keys has ended: no index twice, no replay, no gap.

use crate::common::{Keys, Rtp, protect_rtp, unprotect_rtp};
use srtp::{Config, InboundContext, OutboundContext, OutboundPosition, Profile, ProtectError, SetupError};
use srtp::{UnprotectError, UsedIndices};

const SSRC: u32 = 0xabcd;

/// Others with the same keys, which go on.
fn taken_up(
    keys: &Keys,
    outbound: &OutboundContext,
    inbound: &InboundContext,
) -> (OutboundContext, InboundContext) {
    let config = Config::default();
    let (mut new_outbound, mut new_inbound) = (keys.outbound(&config), keys.inbound(&config));
    outbound.positions().for_each(|position| new_outbound.resume(&position).unwrap());
    inbound.positions().for_each(|position| new_inbound.resume(&position).unwrap());
    (new_outbound, new_inbound)
}

#[test]
fn both_sides_go_on_over_a_rollover() {
    for profile in Profile::ALL {
        let keys = Keys::new(profile, 1);
        let (mut outbound, mut inbound) =
            (keys.outbound(&Config::default()), keys.inbound(&Config::default()));
        let mut sent = Vec::new();
        for number in 65_500_u32..65_600 {
            let packet = Rtp::new(SSRC, number as u16, b"on and on").bytes();
            sent.push(protect_rtp(&mut outbound, &packet).unwrap());
        }
        // The third last is late: it comes after the hand-over.
        let late = sent.remove(97);
        for packet in &sent {
            unprotect_rtp(&mut inbound, packet).unwrap();
        }
        let (mut outbound, mut inbound) = taken_up(&keys, &outbound, &inbound);
        assert_eq!(outbound.roc(SSRC), Some(1));
        assert!(unprotect_rtp(&mut inbound, &late).is_ok(), "{profile:?}: what was not there yet is new");
        for packet in [&late, &sent[98], &sent[0]] {
            let refused = unprotect_rtp(&mut inbound, packet);
            assert!(matches!(refused, Err(UnprotectError::Replayed | UnprotectError::TooOld)), "{refused:?}");
        }
        let again = protect_rtp(&mut outbound, &Rtp::new(SSRC, 63, b"another payload").bytes());
        assert_eq!(again, Err(ProtectError::IndexUsed));
        let next = protect_rtp(&mut outbound, &Rtp::new(SSRC, 64, b"on and on").bytes()).unwrap();
        assert!(unprotect_rtp(&mut inbound, &next).is_ok(), "{profile:?}");
    }
}

#[test]
fn control_packets_go_on_too() {
    let keys = Keys::new(Profile::ALL[0], 1);
    let (mut outbound, mut inbound) = (keys.outbound(&Config::default()), keys.inbound(&Config::default()));
    let report: Vec<u8> = [0x80, 201, 0, 1].into_iter().chain(SSRC.to_be_bytes()).collect();
    let send = |outbound: &mut OutboundContext| {
        let mut out = vec![0; 128];
        let length = outbound.protect_rtcp_from(&report, &mut out).unwrap();
        out.truncate(length);
        out
    };
    let first = send(&mut outbound);
    inbound.unprotect_rtcp(&mut first.clone()).unwrap();
    let (mut outbound, mut inbound) = taken_up(&keys, &outbound, &inbound);
    assert_eq!(outbound.rtcp_index(SSRC), Some(1));
    assert_eq!(inbound.unprotect_rtcp(&mut first.clone()), Err(UnprotectError::Replayed));
    assert!(inbound.unprotect_rtcp(&mut send(&mut outbound)).is_ok());
}

#[test]
fn positions_that_cannot_be_are_refused() {
    let keys = Keys::new(Profile::ALL[0], 1);
    let mut outbound = keys.outbound(&Config::default());
    let used = |highest| Some(UsedIndices { highest, recent: 1 });
    let position = OutboundPosition { ssrc: SSRC, rtp: used(5), rtcp_next: 7 };
    for impossible in [
        OutboundPosition { rtp: used(1 << 48), ..position },
        OutboundPosition { rtcp_next: 1 << 31, ..position },
    ] {
        assert_eq!(outbound.resume(&impossible), Err(SetupError::IndexTooLarge));
    }
    outbound.resume(&position).unwrap();
    assert_eq!(outbound.resume(&position), Err(SetupError::StreamExists));
    assert_eq!(outbound.positions().collect::<Vec<_>>(), [position]);
    let mut without = OutboundContext::new(&Config::default(), &[]).unwrap();
    assert_eq!(without.resume(&position), Err(SetupError::NoKeys));
}
