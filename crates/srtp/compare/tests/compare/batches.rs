//! Batches of ours against libsrtp packet by packet: mixed profiles, sizes, contexts and forms of plaintext.

use srtp::{
    Backend, Config, InboundContext, Incoming, OutboundContext, Outgoing, Plaintext, Profile, ProtectError,
    UnprotectError, protect_rtp_batch, unprotect_rtp_batch,
};
use srtp_compare::libsrtp::{Key, Session, Ssrc, TRAILER_MAX};
use srtp_compare::packet;
use srtp_compare::peer::{WINDOW, key, master_keys};
use srtp_compare::random::Random;

/// Twelve contexts, two of each profile.
struct Contexts {
    profiles: Vec<Profile>,
    keys: Vec<Key>,
    sequences: Vec<u16>,
}

impl Contexts {
    fn new(random: &mut Random) -> Self {
        let profiles: Vec<Profile> = [Profile::ALL, Profile::ALL].concat();
        let keys = profiles.iter().map(|profile| key(random, *profile)).collect();
        // Every context rolls over during the test.
        let sequences = profiles.iter().map(|_| random.in_range(65_450..=65_530) as u16).collect();
        Self { keys, sequences, profiles }
    }

    fn libsrtp(&self, ssrc: Ssrc) -> Vec<Session> {
        let pairs = self.profiles.iter().zip(&self.keys);
        pairs
            .map(|(profile, key)| Session::new(*profile, ssrc, std::slice::from_ref(key), WINDOW).unwrap())
            .collect()
    }

    /// A context chosen at random, or `only`, and a new packet for it.
    fn packet(&mut self, random: &mut Random, only: Option<usize>) -> (usize, Vec<u8>) {
        let context = only.unwrap_or_else(|| random.in_range(0..=self.profiles.len() - 1));
        self.sequences[context] = self.sequences[context].wrapping_add(1);
        let size = if random.one_in(8) { random.in_range(0..=1400) } else { [160, 600, 1200][context % 3] };
        (context, packet::rtp(random, 40 + context as u32, self.sequences[context], size))
    }
}

fn backends() -> impl Iterator<Item = Config> {
    let supported = Backend::ALL.into_iter().filter(|backend| backend.is_supported());
    supported.map(|backend| Config { backend, ..Config::default() })
}

#[test]
fn libsrtp_reads_what_a_batch_has_protected() {
    let mut random = Random::new();
    for config in backends() {
        let mut all = Contexts::new(&mut random);
        let mut receivers = all.libsrtp(Ssrc::AnyInbound);
        let mut senders: Vec<OutboundContext> = (all.profiles.iter().zip(&all.keys))
            .map(|(profile, key)| {
                OutboundContext::new(&config, &master_keys(*profile, std::slice::from_ref(key))).unwrap()
            })
            .collect();
        for count in (1..=40).chain([16; 20]) {
            let only = random.one_in(3).then(|| random.in_range(0..=11));
            let packets: Vec<_> = (0..count).map(|_| all.packet(&mut random, only)).collect();
            let mut outs: Vec<Vec<u8>> =
                packets.iter().map(|(_, plain)| vec![0; plain.len() + TRAILER_MAX]).collect();
            let mut outgoing: Vec<Outgoing<'_>> = (packets.iter().zip(&mut outs).enumerate())
                .map(|(index, ((context, plain), out))| {
                    let plaintext = if index % 3 == 0 {
                        out[..plain.len()].copy_from_slice(plain);
                        Plaintext::InPlace { len: plain.len() }
                    } else {
                        let (header, payload) = plain.split_at(packet::rtp_header_len(plain));
                        Plaintext::From { header, payload }
                    };
                    Outgoing { context: *context, plaintext, out, result: Err(ProtectError::TooShort) }
                })
                .collect();
            protect_rtp_batch(&mut senders[..], &mut outgoing);
            let lens: Vec<usize> = outgoing.iter().map(|packet| packet.result.unwrap()).collect();
            for (((context, plain), out), len) in packets.iter().zip(&mut outs).zip(lens) {
                let read = receivers[*context].unprotect_rtp(&mut out[..len]).unwrap();
                assert_eq!(
                    &out[..read],
                    &plain[..],
                    "{config:?} batch of {count}, {}",
                    all.profiles[*context]
                );
            }
        }
    }
}

#[test]
fn a_batch_reads_what_libsrtp_has_protected() {
    let mut random = Random::new();
    for config in backends() {
        let mut all = Contexts::new(&mut random);
        let mut senders = all.libsrtp(Ssrc::AnyOutbound);
        let mut receivers: Vec<InboundContext> = (all.profiles.iter().zip(&all.keys))
            .map(|(profile, key)| {
                InboundContext::new(&config, &master_keys(*profile, std::slice::from_ref(key))).unwrap()
            })
            .collect();
        for (number, count) in [12].into_iter().chain(1..=40).chain([16; 20]).enumerate() {
            // A receiver learns from the first packet of each context where its numbers start.
            let opening = number == 0;
            let only = random.one_in(3).then(|| random.in_range(0..=11));
            let mut packets = Vec::new();
            for turn in 0..count {
                let only = if opening { Some(turn) } else { only };
                let (context, plain) = all.packet(&mut random, only);
                let mut protected = [&plain[..], &[0; TRAILER_MAX]].concat();
                let len = senders[context].protect_rtp(&mut protected, plain.len(), 0).unwrap();
                protected.truncate(len);
                let damaged = !opening && random.one_in(10);
                if damaged {
                    let bit = random.in_range(12 * 8..=len * 8 - 1);
                    protected[bit / 8] ^= 1 << (bit % 8);
                }
                packets.push((context, plain, protected, damaged));
            }
            // Packets of a context may overtake each other, also over the rollover.
            if !opening {
                random.shuffle(&mut packets);
            }
            // The second of two equal packets of one batch is a replay, though the first is not yet
            // accepted when the batch is looked at.
            let repeated = random.in_range(0..=count - 1);
            packets.push(packets[repeated].clone());
            let mut received: Vec<Vec<u8>> =
                packets.iter().map(|(_, _, protected, _)| protected.clone()).collect();
            let mut incoming: Vec<Incoming<'_>> = (packets.iter().zip(&mut received))
                .map(|((context, ..), packet)| Incoming {
                    context: *context,
                    packet,
                    result: Err(UnprotectError::TooShort),
                })
                .collect();
            unprotect_rtp_batch(&mut receivers[..], &mut incoming);
            let results: Vec<_> = incoming.iter().map(|packet| packet.result).collect();
            for (index, (result, (context, plain, protected, damaged))) in
                results.into_iter().zip(&packets).enumerate()
            {
                let remark = format!("{config:?} {index} in a batch of {count}, {}", all.profiles[*context]);
                match result {
                    Ok(len) => {
                        assert!(!damaged && index < count, "{remark}");
                        assert_eq!(&received[index][..len], &plain[..], "{remark}");
                    }
                    Err(why) => {
                        assert!(
                            *damaged || index == count && why == UnprotectError::Replayed,
                            "{remark}: {why:?}"
                        );
                        assert_eq!(&received[index], protected, "{remark}: a refused packet was changed");
                    }
                }
            }
        }
    }
}
