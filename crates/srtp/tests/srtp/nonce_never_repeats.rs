//! No nonce is used for two packets, whatever the caller does: a million packets with loss,
//! reordering, resends under an RTX SSRC, wraps, SSRCs that return, and attempts to protect a
//! packet again.
//!
//! Observed, not recomputed: the payload begins with a block of zeros, so the ciphertext begins
//! with the encrypted counter block, and as AES is a permutation, two packets of one key show the
//! same block only if they had the same nonce (RFC 3711 section 9.1, RFC 7714 section 8.4).

use std::collections::HashSet;

use crate::common::{Keys, Numbers, config, rtcp};
use srtp::{Backend, OutboundContext, Outgoing, Plaintext, Profile, ProtectError, protect_rtp_batch};

const HEADER: usize = 12;

/// A sender that means no good to its own keys.
struct Sender {
    context: OutboundContext,
    profile: Profile,
    /// First key-stream block of every packet protected.
    seen: HashSet<[u8; 16]>,
    refused: usize,
}

impl Sender {
    fn new(profile: Profile) -> Self {
        let context = Keys::new(profile, 6).outbound(&config(Backend::current()));
        Self { context, profile, seen: HashSet::new(), refused: 0 }
    }

    fn protect(&mut self, ssrc: u32, sequence: u16) -> Result<(), ProtectError> {
        let header = header(ssrc, sequence);
        let mut out = [0; HEADER + 16 + 16];
        let result = self.context.protect_rtp_from(&header, &[0; 16], &mut out);
        self.look(result, &out)
    }

    fn look(&mut self, result: Result<usize, ProtectError>, out: &[u8]) -> Result<(), ProtectError> {
        match result {
            Ok(_) => {
                let block = out[HEADER..HEADER + 16].try_into().unwrap();
                assert!(self.seen.insert(block), "{}: nonce used twice", self.profile);
                Ok(())
            }
            Err(error) => {
                assert!(matches!(error, ProtectError::IndexUsed | ProtectError::TooOld), "{error}");
                self.refused += 1;
                Err(error)
            }
        }
    }
}

fn header(ssrc: u32, sequence: u16) -> [u8; HEADER] {
    let (ssrc, [high, low]) = (ssrc.to_be_bytes(), sequence.to_be_bytes());
    [0x80, 96, high, low, 0, 0, 0, 0, ssrc[0], ssrc[1], ssrc[2], ssrc[3]]
}

/// `packets` packets of a video stream, its RTX stream and two streams that take turns.
fn run(profile: Profile, packets: usize) {
    let mut sender = Sender::new(profile);
    let mut numbers = Numbers::new(packets as u64);
    let (video, rtx, turns) = (0x1000_0001u32, 0x1000_0002, [0x2000_0001u32, 0x2000_0002]);
    // As a layer switch of 90,000 packets would have them: both end and return with continuing
    // numbers.
    let mut turn_sequences = [65_000u16, 0];
    let (mut sequence, mut rtx_sequence) = (65_500u16, 65_535u16);
    let mut accepted = 0;
    while accepted < packets {
        let before = sender.seen.len();
        match numbers.below(100) {
            0..70 => {
                sequence = sequence.wrapping_add(1);
                sender.protect(video, sequence).unwrap();
            }
            // Lost before it came here; now and then a long gap.
            70..75 => sequence = sequence.wrapping_add(1 + numbers.below(40) as u16),
            75 => sequence = sequence.wrapping_add(numbers.below(1000) as u16),
            // A late one, or one that was there: which of the two is for the context to know.
            76..82 => {
                let _ = sender.protect(video, sequence.wrapping_sub(numbers.below(1200) as u16));
            }
            // Again, at once.
            82..86 => {
                if sender.protect(video, sequence).is_ok() {
                    assert_eq!(sender.protect(video, sequence), Err(ProtectError::IndexUsed));
                }
            }
            86..92 => {
                rtx_sequence = rtx_sequence.wrapping_add(1);
                sender.protect(rtx, rtx_sequence).unwrap();
            }
            _ => {
                let which = (accepted / 90_000) % 2;
                turn_sequences[which] = turn_sequences[which].wrapping_add(1);
                sender.protect(turns[which], turn_sequences[which]).unwrap();
            }
        }
        accepted += sender.seen.len() - before;
    }
    assert!(sender.refused > packets / 50, "{} refusals: the bad turns are taken", sender.refused);
    assert_eq!(sender.context.streams(), if packets > 90_000 { 4 } else { 3 });
    let wraps = sender.context.roc(video).unwrap();
    assert!(wraps as usize >= packets / 65_536, "{wraps} wraps");
}

#[test]
fn in_a_million_packets_of_gcm() {
    run(Profile::AeadAes128Gcm, 1_000_000);
}

#[test]
fn in_a_hundred_thousand_packets_of_the_others() {
    for profile in Profile::ALL.into_iter().skip(1) {
        run(profile, 100_000);
    }
}

/// The same packet several times in one batch, for one context: one of them is protected.
#[test]
fn within_a_batch() {
    for profile in Profile::ALL {
        let mut sender = Sender::new(profile);
        for sequence in 0..100u16 {
            let headers: Vec<_> = [0, 1, 1, 0, 2, 2, 2].map(|ahead| header(1, 3 * sequence + ahead)).into();
            let mut outs = vec![[0; HEADER + 32]; headers.len()];
            let mut batch: Vec<Outgoing<'_>> = headers
                .iter()
                .zip(&mut outs)
                .map(|(header, out)| Outgoing {
                    context: 0,
                    plaintext: Plaintext::From { header, payload: &[0; 16] },
                    out,
                    result: Ok(0),
                })
                .collect();
            protect_rtp_batch(&mut sender.context, &mut batch);
            let results: Vec<_> = batch.iter().map(|outgoing| outgoing.result).collect();
            let protected: Vec<bool> =
                results.iter().zip(&outs).map(|(result, out)| sender.look(*result, out).is_ok()).collect();
            assert_eq!(protected, [true, true, false, false, true, false, false], "{profile}");
        }
    }
}

/// Rollover counters set from outside go forward only.
#[test]
fn with_rollover_counters_from_outside() {
    let mut sender = Sender::new(Profile::AeadAes128Gcm);
    let mut numbers = Numbers::new(8);
    for _ in 0..20_000 {
        let ssrc = 1 + numbers.below(3) as u32;
        if numbers.below(10) == 0 {
            let current = sender.context.roc(ssrc).unwrap_or(0);
            let wanted = (current + 2).saturating_sub(numbers.below(5) as u32);
            let set = sender.context.set_roc(ssrc, wanted);
            assert_eq!(set.is_ok(), wanted >= current, "{wanted} after {current}");
        }
        let _ = sender.protect(ssrc, numbers.next() as u16 & 0xc00f);
    }
    assert!(sender.seen.len() > 100 && sender.refused > 100);
}

/// SRTCP counts for itself: every packet gets an index of its own, also when two SSRCs take turns.
#[test]
fn of_rtcp() {
    for profile in Profile::ALL {
        let mut context = Keys::new(profile, 6).outbound(&config(Backend::current()));
        let mut seen = HashSet::new();
        for packet in 0..5000u32 {
            let protected =
                crate::common::protect_rtcp(&mut context, &rtcp(packet / 100 % 3, &[0; 16])).unwrap();
            let block: [u8; 16] = protected[8..24].try_into().unwrap();
            assert!(seen.insert(block), "{profile}: nonce used twice");
        }
    }
}
