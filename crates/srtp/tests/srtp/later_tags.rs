//! Packets whose tags are computed later are what single calls would have made of them: results, bytes and
//! state, whatever waits together and whatever happens in between.

use crate::common::{Keys, Numbers, Rtp, backends, config, hex};
use proptest::prelude::*;
use srtp::{Backend, Config, OutboundContext, Plaintext, Profile, ProtectError, TagPlaces, TagQueue};

/// Packets by number.
struct Places(Vec<Vec<u8>>);

impl TagPlaces<usize> for Places {
    fn packet(&self, place: usize) -> &[u8] {
        &self.0[place]
    }

    fn packet_mut(&mut self, place: usize) -> &mut [u8] {
        &mut self.0[place]
    }
}

const SSRCS: std::ops::Range<u32> = 1..5;

/// A packet to protect under one of several contexts.
struct Case {
    context: usize,
    packet: Rtp,
    /// Bytes that its place is too short by.
    missing: usize,
    in_place: bool,
}

impl Case {
    fn random(numbers: &mut Numbers, contexts: usize, len_max: u64) -> Self {
        let ssrc = SSRCS.start + numbers.below(4) as u32;
        // Around a wrap, often the same.
        let sequence = 0xfff0u16.wrapping_add(numbers.below(100) as u16);
        let len = numbers.below(len_max) as usize;
        Self {
            context: numbers.below(contexts as u64) as usize,
            packet: Rtp::new(ssrc, sequence, &numbers.bytes(len)),
            missing: numbers.below(16).saturating_sub(14) as usize,
            in_place: numbers.below(2) == 0,
        }
    }

    /// Where it is protected.
    fn place(&self, overhead: usize) -> Vec<u8> {
        let plain = self.packet.bytes();
        let len = plain.len() + overhead - self.missing;
        let mut out = if self.in_place { plain } else { Vec::new() };
        out.resize(len.max(out.len()), 0);
        out
    }

    fn later(
        &self,
        context: &mut OutboundContext,
        tags: &mut TagQueue<usize>,
        places: &mut Places,
        at: usize,
    ) -> Result<usize, ProtectError> {
        let header = self.packet.header();
        let plaintext = match self.in_place {
            true => Plaintext::InPlace { len: header.len() + self.packet.payload.len() },
            false => Plaintext::From { header: &header, payload: &self.packet.payload },
        };
        context.protect_rtp_later(plaintext, &mut places.0[at], tags, at)
    }

    fn alone(&self, context: &mut OutboundContext, out: &mut [u8]) -> Result<usize, ProtectError> {
        let header = self.packet.header();
        match self.in_place {
            true => context.protect_rtp(out, header.len() + self.packet.payload.len()),
            false => context.protect_rtp_from(&header, &self.packet.payload, out),
        }
    }
}

fn limits(backend: Backend) -> Config {
    Config { streams_max: 3, rtp_replay_window_packets: 64, ..config(backend) }
}

/// An RTCP packet of a sender.
fn report(context: &mut OutboundContext, ssrc: u32) -> (Result<usize, ProtectError>, [u8; 80]) {
    let mut out = [0; 80];
    let mut plain = [0; 28];
    plain[..4].copy_from_slice(&[0x80, 200, 0, 6]);
    plain[4..8].copy_from_slice(&ssrc.to_be_bytes());
    (context.protect_rtcp_from(&plain, &mut out), out)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn packets_are_as_those_of_single_calls(
        profiles in prop::collection::vec(prop::sample::select(Profile::ALL.to_vec()), 1..5),
        mki: bool, packets_max in 0usize..70, len_max in prop::sample::select(vec![60u64, 300, 1500]), seed: u64,
    ) {
        let mki = hex(if mki { "0a0b0c" } else { "" });
        let peers: Vec<Keys> =
            profiles.iter().zip(1..).map(|(profile, seed)| Keys::new(*profile, seed).with_mki(&mki)).collect();
        // Contexts of all backends side by side: their packets wait in one queue.
        let backends = backends();
        let contexts = || -> Vec<OutboundContext> {
            let backends = backends.iter().cycle();
            peers.iter().zip(backends).map(|(keys, backend)| keys.outbound(&limits(*backend))).collect()
        };
        let (mut together, mut single) = (contexts(), contexts());
        let mut numbers = Numbers::new(seed);
        let (mut tags, mut places, mut expected) = (TagQueue::new(packets_max), Places(Vec::new()), Vec::new());
        for _ in 0..150 {
            let case = Case::random(&mut numbers, peers.len(), len_max);
            let overhead = peers[case.context].overhead();
            let mut out = case.place(overhead);
            let at = places.0.len();
            places.0.push(out.clone());
            let result = case.later(&mut together[case.context], &mut tags, &mut places, at);
            let as_single = case.alone(&mut single[case.context], &mut out);
            prop_assert_eq!(result, as_single);
            expected.push(as_single.map(|len| out[..len].to_vec()));
            prop_assert!(tags.len() <= packets_max);
            match numbers.below(20) {
                0 => tags.finish(&mut places),
                1 => {
                    let context = case.context;
                    prop_assert_eq!(report(&mut together[context], 1), report(&mut single[context], 1));
                }
                _ => {}
            }
        }
        for (one, other) in together.iter().zip(&single) {
            prop_assert_eq!(one.streams(), other.streams());
            SSRCS.for_each(|ssrc| assert_eq!(one.roc(ssrc), other.roc(ssrc)));
        }
        // Sessions end while packets of theirs wait.
        drop(together);
        tags.finish(&mut places);
        prop_assert!(tags.is_empty());
        for (at, expected) in expected.iter().enumerate() {
            if let Ok(expected) = expected {
                prop_assert_eq!(&places.0[at][..expected.len()], &expected[..], "packet {}", at);
            }
        }
    }
}

/// Every number of packets side by side, of one length and of mixed ones, under one key and under many.
#[test]
fn every_number_of_packets_gets_its_tags() {
    for backend in backends() {
        for (keys, lens) in [(1, [1200, 1200]), (40, [1200, 1200]), (40, [100, 1200]), (3, [51, 52])] {
            for count in 0..=40 {
                let contexts = || -> Vec<OutboundContext> {
                    let profile = Profile::AesCm128HmacSha1_80;
                    (0..keys).map(|seed| Keys::new(profile, seed).outbound(&config(backend))).collect()
                };
                let (mut together, mut single) = (contexts(), contexts());
                let (mut tags, mut places) = (TagQueue::new(40), Places(vec![vec![0; 1300]; count]));
                let mut expected = places.0.clone();
                for at in 0..count {
                    let packet = Rtp::new(7, at as u16, &vec![at as u8; lens[at % 2]]);
                    let context = at % together.len();
                    let case = Case { context, packet, missing: 0, in_place: false };
                    let result = case.later(&mut together[context], &mut tags, &mut places, at);
                    assert_eq!(result, case.alone(&mut single[context], &mut expected[at]));
                }
                let waiting = if backend == Backend::Portable { 0 } else { count };
                assert_eq!((tags.len(), tags.is_full()), (waiting, waiting == 40));
                tags.finish(&mut places);
                assert!(places.0 == expected, "{backend} {keys} keys {lens:?} {count} packets");
            }
        }
    }
}

/// The rollover counter is that of the packet's own round, although later packets were given theirs
/// before the tag.
#[test]
fn a_packet_keeps_its_round_while_it_waits() {
    for backend in backends() {
        let keys = Keys::new(Profile::AesCm128HmacSha1_80, 1);
        let (mut sender, mut receiver) = (keys.outbound(&config(backend)), keys.inbound(&config(backend)));
        let (mut tags, mut places) = (TagQueue::new(64), Places(vec![vec![0; 200]; 40]));
        let mut lens = Vec::new();
        for at in 0..40 {
            let packet = Rtp::new(7, 0xffecu16.wrapping_add(at as u16), &[at as u8; 100]);
            let case = Case { context: 0, packet, missing: 0, in_place: false };
            lens.push(case.later(&mut sender, &mut tags, &mut places, at).unwrap());
        }
        assert_eq!(sender.roc(7), Some(1));
        tags.finish(&mut places);
        for (place, len) in places.0.iter_mut().zip(lens) {
            receiver.unprotect_rtp(&mut place[..len]).unwrap();
        }
        assert_eq!(receiver.roc(7), Some(1));
    }
}

/// With GCM nothing waits, and a stream with counter-mode keys beside it does.
#[test]
fn only_counter_mode_waits() {
    for backend in backends() {
        let mut context = Keys::new(Profile::AeadAes128Gcm, 1).outbound(&config(backend));
        context.add_stream(2, &[Keys::new(Profile::AesCm256HmacSha1_32, 2).master()]).unwrap();
        let (mut tags, mut places) = (TagQueue::new(9), Places(vec![vec![0; 200]; 2]));
        for ssrc in [1, 2] {
            let packet = Rtp::new(ssrc, 1, &[3; 100]);
            let case = Case { context: 0, packet, missing: 0, in_place: false };
            case.later(&mut context, &mut tags, &mut places, ssrc as usize - 1).unwrap();
        }
        assert_eq!(tags.len(), usize::from(backend != Backend::Portable), "{backend}");
        tags.finish(&mut places);
    }
}
