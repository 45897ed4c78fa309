//! Contexts give the bytes of the naive twin, and take them: random packets, every profile, every backend.
//!
//! In place, from shared plaintext and in batches. What the twin leaves out (replay, estimates,
//! limits) has files of its own; here every packet is one that must pass.

use crate::common::{Keys, Rtp, backends, config, rtcp};
use proptest::prelude::*;
use srtp::{
    InboundContext, Incoming, OutboundContext, Outgoing, Plaintext, Profile, UnprotectError,
    protect_rtp_batch, unprotect_rtp_batch,
};

fn keys() -> impl Strategy<Value = Keys> {
    let mki = prop_oneof![
        2 => Just(Vec::new()),
        2 => prop::collection::vec(any::<u8>(), 1..=8),
        1 => prop::collection::vec(any::<u8>(), 128),
    ];
    (prop::sample::select(Profile::ALL.to_vec()), any::<u8>(), mki)
        .prop_map(|(profile, seed, mki)| Keys::new(profile, seed).with_mki(&mki))
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    // Lengths around the blocks of AES, of SHA-1 and of the vector kernels, and up to a full datagram's.
    let len = prop_oneof![4 => 0usize..80, 4 => 100usize..320, 2 => 500usize..1500, 1 => 1500usize..9000];
    (len, any::<u64>()).prop_map(|(len, seed)| crate::common::Numbers::new(seed).bytes(len))
}

prop_compose! {
    /// A packet whose sequence number the test sets.
    fn rtp()(
        timestamp: u32, payload_type in 0u8..128, marker: bool, padding: bool,
        csrcs in prop_oneof![3 => Just(0usize), 1 => 1usize..=15],
        extension in prop_oneof![2 => Just(None), 2 => (0u16..6).prop_map(Some), 1 => (6u16..80).prop_map(Some)],
        payload in payload(),
    ) -> Rtp {
        Rtp { ssrc: 0, sequence: 0, timestamp, payload_type, marker, padding, csrcs, extension, payload }
    }
}

/// Packets of one stream and the rollover counter of each: an index far from the end, then small steps.
fn stream(packets: std::ops::Range<usize>) -> impl Strategy<Value = Vec<(Rtp, u32)>> {
    let start = prop_oneof![0u64..0x2_0000, (0u64..0xffff_ffff).prop_map(|roc| roc << 16 | 0xfffa)];
    let step = prop_oneof![6 => Just(1u64), 1 => 2u64..100];
    (any::<u32>(), start, prop::collection::vec((rtp(), step), packets)).prop_map(
        |(ssrc, mut index, packets)| {
            packets
                .into_iter()
                .map(|(packet, step)| {
                    index += step;
                    (Rtp { ssrc, sequence: index as u16, ..packet }, (index >> 16) as u32)
                })
                .collect()
        },
    )
}

/// The same packets, none further than three places from its own, the first in its place.
fn shuffled<T: Clone>(packets: &[T], numbers: &mut crate::common::Numbers) -> Vec<T> {
    let mut order: Vec<usize> = (0..packets.len()).collect();
    for chunk in order[1..].chunks_mut(4) {
        let last = chunk.len() - 1;
        let other = numbers.below(chunk.len() as u64) as usize;
        chunk.swap(last, other);
    }
    order.into_iter().map(|at| packets[at].clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn outgoing_rtp_is_the_twins(keys in keys(), stream in stream(1..12), choices: u64) {
        let twin = keys.naive();
        let (ssrc, first_roc) = (stream[0].0.ssrc, stream[0].1);
        for backend in backends() {
            let mut context = keys.outbound(&config(backend));
            context.set_roc(ssrc, first_roc).unwrap();
            for (at, (packet, roc)) in stream.iter().enumerate() {
                let plain = packet.bytes();
                let expected = twin.protect_rtp(&plain, *roc);
                let mut out = vec![0xee; expected.len()];
                let len = if choices >> at & 1 == 0 {
                    out[..plain.len()].copy_from_slice(&plain);
                    context.protect_rtp(&mut out, plain.len())
                } else {
                    context.protect_rtp_from(&packet.header(), &packet.payload, &mut out)
                };
                prop_assert_eq!(len, Ok(expected.len()));
                prop_assert_eq!(&out, &expected, "{} {}, packet {}", keys.profile, backend, at);
                prop_assert_eq!(context.roc(ssrc), Some(*roc));
            }
        }
    }

    #[test]
    fn incoming_rtp_of_the_twin_is_taken(keys in keys(), stream in stream(1..12), seed: u64) {
        let twin = keys.naive();
        let (ssrc, first_roc) = (stream[0].0.ssrc, stream[0].1);
        for backend in backends() {
            let mut context = keys.inbound(&config(backend));
            context.set_roc(ssrc, first_roc).unwrap();
            for (packet, roc) in shuffled(&stream, &mut crate::common::Numbers::new(seed)) {
                let plain = packet.bytes();
                let protected = twin.protect_rtp(&plain, roc);
                prop_assert_eq!(crate::common::unprotect_rtp(&mut context, &protected), Ok(plain), "{}", backend);
            }
        }
    }

    #[test]
    fn rtcp_is_the_twins_both_ways(
        keys in keys(), ssrc: u32, bodies in prop::collection::vec(payload(), 1..8), from: bool, seed: u64,
    ) {
        let twin = keys.naive();
        for backend in backends() {
            let mut outbound = keys.outbound(&config(backend));
            let mut inbound = keys.inbound(&config(backend));
            let mut sent = Vec::new();
            let mut next = None;
            for body in &bodies {
                let plain = rtcp(ssrc, body);
                let mut out = vec![0xee; plain.len() + keys.profile.rtcp_overhead() + keys.mki.len()];
                let len = if from {
                    outbound.protect_rtcp_from(&plain, &mut out)
                } else {
                    out[..plain.len()].copy_from_slice(&plain);
                    outbound.protect_rtcp(&mut out, plain.len())
                };
                prop_assert_eq!(len, Ok(out.len()));
                let (index, opened) = twin.unprotect_rtcp(&out).expect("the twin opens what was protected");
                prop_assert_eq!(&opened, &plain);
                prop_assert_eq!(&out, &twin.protect_rtcp(&plain, index), "{} {}", keys.profile, backend);
                prop_assert_eq!(next.unwrap_or(index), index, "one more each time");
                next = Some(index + 1);
                sent.push((out, plain));
            }
            for (protected, plain) in shuffled(&sent, &mut crate::common::Numbers::new(seed)) {
                prop_assert_eq!(crate::common::unprotect_rtcp(&mut inbound, &protected), Ok(plain), "{}", backend);
            }
        }
    }

    /// One packet for several contexts, then several packets for one, in one call: as a relay sends.
    #[test]
    fn batches_are_the_twins(
        peers in prop::collection::vec(keys(), 1..24), packets in stream(1..3), in_place: u64,
    ) {
        for backend in backends() {
            let mut outbound: Vec<OutboundContext> =
                peers.iter().map(|keys| keys.outbound(&config(backend))).collect();
            let mut inbound: Vec<InboundContext> =
                peers.iter().map(|keys| keys.inbound(&config(backend))).collect();
            for at in 0..peers.len() {
                outbound[at].set_roc(packets[0].0.ssrc, packets[0].1).unwrap();
                inbound[at].set_roc(packets[0].0.ssrc, packets[0].1).unwrap();
            }
            // Packet by packet, each for all peers.
            let jobs: Vec<(usize, &Rtp, u32)> = packets
                .iter()
                .flat_map(|(packet, roc)| (0..peers.len()).map(move |peer| (peer, packet, *roc)))
                .collect();
            let headers: Vec<Vec<u8>> = jobs.iter().map(|(_, packet, _)| packet.header()).collect();
            let is_in_place = |at: usize| in_place >> (at % 64) & 1 == 1;
            let mut buffers: Vec<Vec<u8>> = jobs
                .iter()
                .enumerate()
                .map(|(at, (peer, packet, _))| {
                    let mut out = if is_in_place(at) { packet.bytes() } else { vec![0xee; packet.bytes().len()] };
                    out.resize(out.len() + peers[*peer].profile.rtp_overhead() + peers[*peer].mki.len(), 0xee);
                    out
                })
                .collect();
            let mut batch: Vec<Outgoing<'_>> = buffers
                .iter_mut()
                .enumerate()
                .map(|(at, out)| {
                    let (context, packet, _) = jobs[at];
                    let plaintext = if is_in_place(at) {
                        Plaintext::InPlace { len: headers[at].len() + packet.payload.len() }
                    } else {
                        Plaintext::From { header: &headers[at], payload: &packet.payload }
                    };
                    Outgoing { context, plaintext, out, result: Ok(0) }
                })
                .collect();
            protect_rtp_batch(&mut outbound[..], &mut batch);
            let lens: Vec<_> = batch.iter().map(|outgoing| outgoing.result).collect();
            for (at, (peer, packet, roc)) in jobs.iter().enumerate() {
                let expected = peers[*peer].naive().protect_rtp(&packet.bytes(), *roc);
                prop_assert_eq!(lens[at], Ok(expected.len()));
                prop_assert_eq!(&buffers[at], &expected, "{} {}", peers[*peer].profile, backend);
            }

            // And back, every other one with a tag that is wrong the first time; but not the first
            // of each stream, without which a wrap cannot be seen.
            let genuine = buffers.clone();
            let spoiled = |at: usize| at >= peers.len() && at % 2 == 1;
            for (at, buffer) in buffers.iter_mut().enumerate().filter(|(at, _)| spoiled(*at)) {
                // The payload, or the tag; what a forged MKI does is in `mki.rs`.
                let (peer, packet, _) = jobs[at];
                let tag_is_last = packet.payload.is_empty() && !crate::common::naive::shape(peers[peer].profile).gcm;
                let place = if tag_is_last { buffer.len() - 1 } else { packet.header().len() };
                buffer[place] ^= 0x40;
            }
            let received = buffers.clone();
            for round in 0..2 {
                let mut batch: Vec<Incoming<'_>> = buffers
                    .iter_mut()
                    .enumerate()
                    .map(|(at, packet)| Incoming { context: jobs[at].0, packet, result: Ok(0) })
                    .collect();
                unprotect_rtp_batch(&mut inbound[..], &mut batch);
                let lens: Vec<_> = batch.iter().map(|incoming| incoming.result).collect();
                for (at, (_, packet, _)) in jobs.iter().enumerate() {
                    match (round, spoiled(at)) {
                        (0, true) => {
                            prop_assert_eq!(lens[at], Err(UnprotectError::AuthFailed));
                            prop_assert_eq!(&buffers[at], &received[at]);
                        }
                        (1, false) => prop_assert_eq!(lens[at], Err(UnprotectError::Replayed)),
                        _ => {
                            prop_assert_eq!(lens[at], Ok(packet.bytes().len()));
                            prop_assert_eq!(&buffers[at][..packet.bytes().len()], &packet.bytes());
                        }
                    }
                }
                buffers.clone_from(&genuine);
            }
        }
    }

    #[test]
    fn batches_for_one_context_are_the_twins(keys in keys(), stream in stream(1..24)) {
        let twin = keys.naive();
        let (ssrc, first_roc) = (stream[0].0.ssrc, stream[0].1);
        for backend in backends() {
            let mut outbound = keys.outbound(&config(backend));
            let mut inbound = keys.inbound(&config(backend));
            outbound.set_roc(ssrc, first_roc).unwrap();
            inbound.set_roc(ssrc, first_roc).unwrap();
            let headers: Vec<Vec<u8>> = stream.iter().map(|(packet, _)| packet.header()).collect();
            let expected: Vec<Vec<u8>> =
                stream.iter().map(|(packet, roc)| twin.protect_rtp(&packet.bytes(), *roc)).collect();
            let mut buffers: Vec<Vec<u8>> = expected.iter().map(|packet| vec![0; packet.len()]).collect();
            let mut batch: Vec<Outgoing<'_>> = buffers
                .iter_mut()
                .zip(&stream)
                .zip(&headers)
                .map(|((out, (packet, _)), header)| {
                    let plaintext = Plaintext::From { header, payload: &packet.payload };
                    Outgoing { context: 0, plaintext, out, result: Ok(0) }
                })
                .collect();
            protect_rtp_batch(&mut outbound, &mut batch);
            prop_assert!(batch.iter().zip(&expected).all(|(sent, expected)| sent.result == Ok(expected.len())));
            prop_assert_eq!(&buffers, &expected, "{} {}", keys.profile, backend);

            let mut batch: Vec<Incoming<'_>> = buffers
                .iter_mut()
                .map(|packet| Incoming { context: 0, packet, result: Ok(0) })
                .collect();
            unprotect_rtp_batch(&mut inbound, &mut batch);
            for (received, (packet, _)) in batch.iter().zip(&stream) {
                let plain = packet.bytes();
                prop_assert_eq!(received.result, Ok(plain.len()));
                prop_assert_eq!(&received.packet[..plain.len()], &plain);
            }
        }
    }
}
