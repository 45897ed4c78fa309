//! A batch does what its packets would do one by one: results, bytes and state, whatever is in it.
//!
//! Wraps, replays, forgeries, packets too old, streams that begin, caps that are met and contexts
//! that are not there, in one call; beside it, the same packets go through single calls on contexts
//! of the same keys.

use crate::common::{Keys, Numbers, Rtp, backends, config, hex};
use proptest::prelude::*;
use srtp::{
    Config, InboundContext, Incoming, OutboundContext, Outgoing, Plaintext, Profile, ProtectError,
    UnprotectError, protect_rtp_batch, unprotect_rtp_batch,
};

const SSRCS: std::ops::Range<u32> = 1..5;

/// Contexts of some profiles, the last with a stream whose keys are of another.
fn peers(profiles: &[Profile], mki: bool) -> Vec<Keys> {
    let mki = hex(if mki { "0a0b0c" } else { "" });
    profiles.iter().zip(1..).map(|(profile, seed)| Keys::new(*profile, seed).with_mki(&mki)).collect()
}

fn limits(backend: srtp::Backend) -> Config {
    Config { streams_max: 3, rtp_replay_window_packets: 64, ..config(backend) }
}

fn outbound(peers: &[Keys], config: &Config) -> Vec<OutboundContext> {
    let mut contexts: Vec<_> = peers.iter().map(|keys| keys.outbound(config)).collect();
    let own = Keys::new(Profile::AesCm128HmacSha1_80, 99);
    contexts.last_mut().unwrap().add_stream(SSRCS.start, &[own.master()]).unwrap();
    contexts
}

fn inbound(peers: &[Keys], config: &Config) -> Vec<InboundContext> {
    let mut contexts: Vec<_> = peers.iter().map(|keys| keys.inbound(config)).collect();
    let own = Keys::new(Profile::AesCm128HmacSha1_80, 99);
    contexts.last_mut().unwrap().add_stream(SSRCS.start, &[own.master()]).unwrap();
    contexts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn outgoing_are_as_single_packets(
        profiles in prop::collection::vec(prop::sample::select(Profile::ALL.to_vec()), 1..4),
        mki: bool, sizes in prop::collection::vec(1usize..40, 1..6), seed: u64,
    ) {
        let peers = peers(&profiles, mki);
        for backend in backends() {
            let mut numbers = Numbers::new(seed);
            let (mut together, mut single) =
                (outbound(&peers, &limits(backend)), outbound(&peers, &limits(backend)));
            for size in &sizes {
                let packets: Vec<(usize, Rtp, usize, bool)> = (0..*size)
                    .map(|_| {
                        // One context more than there are; sequence numbers around a wrap, often the same.
                        let context = numbers.below(peers.len() as u64 * 8 + 1) as usize / 8;
                        let ssrc = SSRCS.start + numbers.below(4) as u32;
                        let sequence = 0xfff0u16.wrapping_add(numbers.below(100) as u16);
                        let len = numbers.below(200) as usize;
                        let packet = Rtp::new(ssrc, sequence, &numbers.bytes(len));
                        let missing = numbers.below(16).saturating_sub(14) as usize;
                        (context, packet, missing, numbers.below(2) == 0)
                    })
                    .collect();
                let parts: Vec<_> = packets.iter().map(|(_, packet, ..)| (packet.header(), &packet.payload)).collect();
                let buffer = |(context, packet, missing, in_place): &(usize, Rtp, usize, bool)| {
                    let plain = packet.bytes();
                    let len = plain.len() + peers.get(*context).map_or(0, Keys::overhead) - missing;
                    let mut out = if *in_place { plain } else { Vec::new() };
                    out.resize(len.max(out.len()), 0);
                    out
                };
                let mut buffers: Vec<Vec<u8>> = packets.iter().map(buffer).collect();
                let mut batch: Vec<Outgoing<'_>> = buffers
                    .iter_mut()
                    .enumerate()
                    .map(|(at, out)| {
                        let (header, payload) = &parts[at];
                        let plaintext = match packets[at].3 {
                            true => Plaintext::InPlace { len: header.len() + payload.len() },
                            false => Plaintext::From { header, payload },
                        };
                        Outgoing { context: packets[at].0, plaintext, out, result: Ok(usize::MAX) }
                    })
                    .collect();
                protect_rtp_batch(&mut together[..], &mut batch);
                let results: Vec<_> = batch.iter().map(|outgoing| outgoing.result).collect();
                for (at, described) in packets.iter().enumerate() {
                    let mut out = buffer(described);
                    let (header, payload) = &parts[at];
                    let expected = match (single.get_mut(described.0), described.3) {
                        (None, _) => Err(ProtectError::UnknownContext),
                        (Some(context), true) => context.protect_rtp(&mut out, header.len() + payload.len()),
                        (Some(context), false) => context.protect_rtp_from(header, payload, &mut out),
                    };
                    prop_assert_eq!(results[at], expected, "{} {:?}", backend, described);
                    if let Ok(len) = expected {
                        prop_assert_eq!(&buffers[at][..len], &out[..len], "{} {:?}", backend, described);
                    }
                }
                for (one, other) in together.iter().zip(&single) {
                    prop_assert_eq!(one.streams(), other.streams());
                    SSRCS.for_each(|ssrc| assert_eq!(one.roc(ssrc), other.roc(ssrc)));
                }
            }
        }
    }

    #[test]
    fn incoming_are_as_single_packets(
        profiles in prop::collection::vec(prop::sample::select(Profile::ALL.to_vec()), 1..4),
        mki: bool, sizes in prop::collection::vec(1usize..40, 1..6), seed: u64,
    ) {
        let peers = peers(&profiles, mki);
        for backend in backends() {
            let mut numbers = Numbers::new(seed);
            let (mut together, mut single) =
                (inbound(&peers, &limits(backend)), inbound(&peers, &limits(backend)));
            let mut position = 0xffe0u64;
            for size in &sizes {
                let received: Vec<(usize, Vec<u8>)> = (0..*size)
                    .map(|_| {
                        let context = numbers.below(peers.len() as u64 * 8 + 1) as usize / 8;
                        let ssrc = SSRCS.start + numbers.below(4) as u32;
                        // Mostly on, sometimes a whole half round, sometimes back and again.
                        position += match numbers.below(40) { 0 => 0x7000, 1..20 => 1, _ => 0 };
                        let index = position - numbers.below(80);
                        let len = numbers.below(200) as usize;
                        let plain = Rtp::new(ssrc, index as u16, &vec![index as u8; len]).bytes();
                        let Some(keys) = peers.get(context) else { return (context, plain) };
                        let own = context + 1 == peers.len() && ssrc == SSRCS.start;
                        let keys = if own { &Keys::new(Profile::AesCm128HmacSha1_80, 99) } else { keys };
                        let mut packet = keys.naive().protect_rtp(&plain, (index >> 16) as u32);
                        match numbers.below(12) {
                            0 => {
                                let at = numbers.below(packet.len() as u64) as usize;
                                packet[at] ^= 1 << numbers.below(8);
                            }
                            1 => packet.truncate(numbers.below(packet.len() as u64) as usize),
                            _ => {}
                        }
                        (context, packet)
                    })
                    .collect();
                let mut packets: Vec<Vec<u8>> = received.iter().map(|(_, packet)| packet.clone()).collect();
                let mut batch: Vec<Incoming<'_>> = packets
                    .iter_mut()
                    .zip(&received)
                    .map(|(packet, (context, _))| Incoming { context: *context, packet, result: Ok(usize::MAX) })
                    .collect();
                unprotect_rtp_batch(&mut together[..], &mut batch);
                let results: Vec<_> = batch.iter().map(|incoming| incoming.result).collect();
                for (at, (context, received)) in received.iter().enumerate() {
                    let mut packet = received.clone();
                    let expected = match single.get_mut(*context) {
                        None => Err(UnprotectError::UnknownContext),
                        Some(context) => context.unprotect_rtp(&mut packet),
                    };
                    prop_assert_eq!(results[at], expected, "{}, packet {} of {}", backend, at, results.len());
                    match expected {
                        Ok(len) => prop_assert_eq!(&packets[at][..len], &packet[..len]),
                        Err(_) => prop_assert_eq!(&packets[at], received, "refused: bytes as received"),
                    }
                }
                for (one, other) in together.iter().zip(&single) {
                    prop_assert_eq!(one.streams(), other.streams());
                    SSRCS.for_each(|ssrc| assert_eq!(one.roc(ssrc), other.roc(ssrc)));
                }
            }
        }
    }
}

/// Nothing to do is no mistake, and so is a single packet.
#[test]
fn may_be_empty_or_of_one() {
    let keys = Keys::new(Profile::AesCm128HmacSha1_80, 1);
    let (mut sender, mut receiver) = (keys.outbound(&Config::default()), keys.inbound(&Config::default()));
    protect_rtp_batch(&mut sender, &mut []);
    unprotect_rtp_batch(&mut receiver, &mut []);
    let packet = Rtp::new(1, 1, b"alone");
    let mut out = vec![0; packet.bytes().len() + keys.overhead()];
    let header = packet.header();
    let plaintext = Plaintext::From { header: &header, payload: &packet.payload };
    let mut batch = [Outgoing { context: 0, plaintext, out: &mut out, result: Ok(0) }];
    protect_rtp_batch(&mut sender, &mut batch);
    let len = batch[0].result.unwrap();
    let mut batch = [Incoming { context: 0, packet: &mut out[..len], result: Ok(0) }];
    unprotect_rtp_batch(&mut receiver, &mut batch);
    assert_eq!(batch[0].result, Ok(packet.bytes().len()));
    assert_eq!(batch[0].packet[..packet.bytes().len()], packet.bytes());
}
