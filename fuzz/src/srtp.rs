//! What the fuzz targets of `srtp` check: whatever arrives, only packets that were protected are
//! delivered, each once.
//!
//! The input is a little program: which profile and limits, then what the sender does and what the
//! network makes of it. The master key depends on all of the input, so that a fuzzer cannot work
//! out a tag byte by byte. `crates/srtp/tests/srtp/fuzz_corpus.rs` includes this file and replays
//! the kept corpus.

#[path = "input.rs"]
mod input;

use std::collections::BTreeSet;

use input::Input;
use srtp::{
    Backend, Config, InboundContext, Incoming, MasterKey, OutboundContext, Profile, UnprotectError,
    unprotect_rtp_batch,
};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("unprotect_rtcp", unprotect_rtcp), ("unprotect_rtp", unprotect_rtp)];

/// SRTP. Without the profiles of 4-byte tags: a fuzzer guesses one of those now and then.
pub fn unprotect_rtp(data: &[u8]) {
    let profiles: Vec<Profile> =
        Profile::ALL.into_iter().filter(|profile| profile.rtp_overhead() >= 10).collect();
    run(
        data,
        &profiles,
        &Protocol { overhead: Profile::rtp_overhead, write: write_rtp, protect, unprotect, ssrc_at: 8 },
    );

    fn protect(context: &mut OutboundContext, packet: &mut [u8], len: usize) -> Option<usize> {
        context.protect_rtp(packet, len).ok()
    }
    fn unprotect(
        context: &mut InboundContext,
        packets: &mut [Vec<u8>],
    ) -> Vec<Result<usize, UnprotectError>> {
        if let [packet] = packets {
            return vec![context.unprotect_rtp(packet)];
        }
        let mut batch: Vec<Incoming<'_>> =
            packets.iter_mut().map(|packet| Incoming { context: 0, packet, result: Ok(0) }).collect();
        unprotect_rtp_batch(context, &mut batch);
        batch.iter().map(|incoming| incoming.result).collect()
    }
}

/// SRTCP.
pub fn unprotect_rtcp(data: &[u8]) {
    run(
        data,
        &Profile::ALL,
        &Protocol { overhead: Profile::rtcp_overhead, write: write_rtcp, protect, unprotect, ssrc_at: 4 },
    );

    fn protect(context: &mut OutboundContext, packet: &mut [u8], len: usize) -> Option<usize> {
        context.protect_rtcp(packet, len).ok()
    }
    fn unprotect(
        context: &mut InboundContext,
        packets: &mut [Vec<u8>],
    ) -> Vec<Result<usize, UnprotectError>> {
        packets.iter_mut().map(|packet| context.unprotect_rtcp(packet)).collect()
    }
}

/// Unprotects packets one by one or in a batch.
type Unprotect = fn(&mut InboundContext, &mut [Vec<u8>]) -> Vec<Result<usize, UnprotectError>>;

/// What differs between the two.
struct Protocol {
    overhead: fn(Profile) -> usize,
    /// A plaintext packet of an SSRC.
    write: fn(&mut Input<'_>, ssrc: u32) -> Vec<u8>,
    protect: fn(&mut OutboundContext, &mut [u8], usize) -> Option<usize>,
    /// Several at once where the protocol has batches.
    unprotect: Unprotect,
    ssrc_at: usize,
}

const STREAMS_MAX: usize = 3;
/// Small enough that a bad input is found again by reading it.
const STEPS_MAX: usize = 64;

fn run(data: &[u8], profiles: &[Profile], protocol: &Protocol) {
    let mut input = Input(data);
    let profile = profiles[usize::from(input.byte()) % profiles.len()];
    let choices = input.byte();
    let keys = master_keys(data, profile, choices & 1 != 0);
    let backends: Vec<Backend> = Backend::ALL.into_iter().filter(|backend| backend.is_supported()).collect();
    let config = Config {
        streams_max: STREAMS_MAX,
        rtp_replay_window_packets: 64 * (1 + usize::from(choices >> 1 & 3)),
        rtcp_replay_window_packets: 64,
        backend: backends[usize::from(choices >> 3) % backends.len()],
    };
    let mut network = Network {
        protocol,
        // The sender has room for more streams, so that the receiver's cap is met.
        outbound: OutboundContext::new(&Config { streams_max: 8, ..config.clone() }, &keys)
            .expect("valid keys"),
        inbound: InboundContext::new(&config, &keys).expect("valid keys"),
        keys,
        sent: Vec::new(),
        delivered: BTreeSet::new(),
        trailer: (protocol.overhead)(profile) + if choices & 1 != 0 { MKIS[0].len() } else { 0 },
    };
    for _ in 0..STEPS_MAX {
        if input.0.is_empty() {
            break;
        }
        network.step(&mut input);
    }
}

const MKIS: [&[u8]; 2] = [b"one.", b"two."];

/// One key without MKI or two with, made of a hash of `data` (FNV-1a).
fn master_keys(data: &[u8], profile: Profile, with_mki: bool) -> Vec<MasterKey> {
    let hash = data.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let bytes = |len: usize, salt: u8| -> Vec<u8> {
        (0..len).map(|at| hash.rotate_left(7 * at as u32).to_be_bytes()[0] ^ at as u8 ^ salt).collect()
    };
    let master = |salt| {
        MasterKey::new(profile, &bytes(profile.key_len(), salt), &bytes(profile.salt_len(), !salt))
            .expect("right lengths")
    };
    if with_mki {
        MKIS.iter().zip(1..).map(|(mki, salt)| master(salt).with_mki(mki).expect("a short MKI")).collect()
    } else {
        vec![master(0)]
    }
}

/// A sender, a receiver, and what came off the one and arrived at the other.
struct Network<'a> {
    protocol: &'a Protocol,
    outbound: OutboundContext,
    inbound: InboundContext,
    keys: Vec<MasterKey>,
    /// Protected and plain form of every packet sent.
    sent: Vec<(Vec<u8>, Vec<u8>)>,
    /// Which of them were delivered.
    delivered: BTreeSet<usize>,
    /// Bytes a protected packet is longer.
    trailer: usize,
}

impl Network<'_> {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 10 {
            0..=2 => self.send(input),
            3 => {
                let packets = vec![self.genuine(input)];
                self.deliver(packets);
            }
            4 => {
                let packets = vec![self.mutated(input)];
                self.deliver(packets);
            }
            5 => {
                let len = usize::from(input.byte());
                let packets = vec![input.bytes(len).to_vec()];
                self.deliver(packets);
            }
            6 => {
                let packets = (0..input.byte() % 20)
                    .map(|_| {
                        if input.byte().is_multiple_of(3) { self.mutated(input) } else { self.genuine(input) }
                    })
                    .collect();
                self.deliver(packets);
            }
            7 => {
                let (ssrc, roc) = (self.ssrc(input), u32::from(input.byte() % 3));
                let _ = self.inbound.set_roc(ssrc, roc);
            }
            8 => {
                // A restarted stream has lost its replay window.
                let ssrc = self.ssrc(input);
                if self.inbound.remove_stream(ssrc) {
                    let at = self.protocol.ssrc_at;
                    let sent = &self.sent;
                    self.delivered.retain(|packet| sent[*packet].0[at..at + 4] != ssrc.to_be_bytes());
                }
            }
            _ => {
                if self.keys.len() > 1 {
                    let mki = MKIS[usize::from(input.byte() & 1)];
                    self.outbound.select_key(mki).expect("a key with this MKI");
                }
            }
        }
    }

    fn ssrc(&self, input: &mut Input<'_>) -> u32 {
        0x5151_0000 + u32::from(input.byte() % 5)
    }

    fn send(&mut self, input: &mut Input<'_>) {
        let ssrc = self.ssrc(input);
        let plain = (self.protocol.write)(input, ssrc);
        let mut packet = plain.clone();
        packet.resize(plain.len() + self.trailer, 0);
        // Packets refused here were sent before or are too old to know.
        if let Some(len) = (self.protocol.protect)(&mut self.outbound, &mut packet, plain.len()) {
            assert_eq!(len, packet.len());
            self.sent.push((packet, plain));
        }
    }

    fn genuine(&self, input: &mut Input<'_>) -> Vec<u8> {
        let chosen = usize::from(input.byte());
        if self.sent.is_empty() { Vec::new() } else { self.sent[chosen % self.sent.len()].0.clone() }
    }

    fn mutated(&self, input: &mut Input<'_>) -> Vec<u8> {
        let mut packet = self.genuine(input);
        let (kind, place, value) = (input.byte(), usize::from(input.short()), input.byte());
        let place = place % (packet.len() + 1);
        match kind % 5 {
            0 => packet.truncate(place),
            1 => packet.extend_from_slice(input.bytes(place)),
            2 => {
                let other = self.genuine(input);
                packet.truncate(place);
                packet.extend_from_slice(other.get(place..).unwrap_or_default());
            }
            // Near the ends, where header, tag, MKI and index are.
            3 => packet.iter_mut().rev().nth(place % 40).into_iter().for_each(|byte| *byte ^= value),
            _ => packet.get_mut(place % 24).into_iter().for_each(|byte| *byte ^= value),
        }
        packet
    }

    fn deliver(&mut self, mut packets: Vec<Vec<u8>>) {
        let received = packets.clone();
        let before = self.inbound_streams();
        let results = (self.protocol.unprotect)(&mut self.inbound, &mut packets);
        if results.iter().all(Result::is_err) {
            assert_eq!(self.inbound_streams(), before, "refused packets changed something");
        }
        let mut begun: BTreeSet<u32> = before.iter().map(|(ssrc, _)| *ssrc).collect();
        for ((result, packet), received) in results.into_iter().zip(&packets).zip(&received) {
            let Ok(len) = result else {
                assert_eq!(packet, received, "refused, and not as it was");
                continue;
            };
            let sent = self.sent.iter().position(|(protected, _)| protected == received);
            let sent = sent.expect("delivered, and never sent");
            assert_eq!(packet[..len], self.sent[sent].1, "delivered other bytes than were sent");
            assert!(self.delivered.insert(sent), "delivered twice");
            let at = self.protocol.ssrc_at;
            begun.insert(u32::from_be_bytes(received[at..at + 4].try_into().expect("four bytes")));
        }
        let after: BTreeSet<u32> = self.inbound_streams().iter().map(|(ssrc, _)| *ssrc).collect();
        assert_eq!(begun, after, "a stream without an authentic packet");
        assert!(self.inbound.streams() <= STREAMS_MAX);
    }

    /// The receiver's streams with their rollover counters, among the SSRCs there can be.
    fn inbound_streams(&self) -> Vec<(u32, u32)> {
        let all = 0x5151_0000..0x5151_0005;
        let known: Vec<(u32, u32)> = all.filter_map(|ssrc| Some((ssrc, self.inbound.roc(ssrc)?))).collect();
        assert_eq!(known.len(), self.inbound.streams(), "streams of SSRCs that were never sent");
        known
    }
}

fn write_rtp(input: &mut Input<'_>, ssrc: u32) -> Vec<u8> {
    let (first, sequence, len) = (input.byte(), input.short(), usize::from(input.byte()));
    // Mostly near each other, now and then anywhere.
    let sequence = if first & 0x40 == 0 { 0xffe0u16.wrapping_add(sequence % 64) } else { sequence };
    let (csrcs, extension) = (first & 0x0f, first & 0x10);
    let mut packet = vec![0x80 | first & 0x3f, 96];
    packet.extend(sequence.to_be_bytes());
    packet.extend([0, 0, 0, 1]);
    packet.extend(ssrc.to_be_bytes());
    packet.resize(packet.len() + 4 * usize::from(csrcs), 0xcc);
    if extension != 0 {
        packet.extend([0xbe, 0xde, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
    packet.resize(packet.len() + len, 0x70);
    packet
}

fn write_rtcp(input: &mut Input<'_>, ssrc: u32) -> Vec<u8> {
    let len = usize::from(input.byte());
    let mut packet = vec![0x80, 200, 0, 1];
    packet.extend(ssrc.to_be_bytes());
    packet.resize(packet.len() + len, 0x70);
    packet
}
