//! Video over a long path that loses packets, with repair packets, both encrypted: most of what is
//! lost comes back byte for byte before a retransmission could have, for about five times the loss.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use netsim::{Burst, Clock, Link, LinkConfig, Random};
use rtp::extension::{BlockWriter, Extension, ExtensionMap, Form};
use rtp::fec::{Recoverer, volatile_ids};
use rtp::{HeaderFields, Packet};
use sfu::{Protection, ProtectionInput, REPAIR_LEN_MAX};
use srtp::{Config, InboundContext, MasterKey, OutboundContext, Profile};

const MEDIA: u32 = 0x10;
const REPAIR: u32 = 0x11;
const MID_ID: u8 = 1;
const TRANSPORT_CC_ID: u8 = 3;
const PICTURE: Duration = Duration::from_nanos(33_333_333);

fn extensions() -> ExtensionMap {
    [(MID_ID, Extension::Mid), (TRANSPORT_CC_ID, Extension::TransportCc)].into_iter().collect()
}

/// What came of a run.
#[derive(Debug, Default)]
struct Outcome {
    sent: usize,
    lost: usize,
    /// Lost ones that came back, with how long after they were sent.
    recovered: Vec<Duration>,
    repairs: usize,
}

/// The sending side of the server, and the viewer, joined by a link.
struct Path {
    clock: Clock,
    down: Link,
    round_trip: Duration,
    outbound: OutboundContext,
    inbound: InboundContext,
    protection: Protection,
    recoverer: Recoverer,
    random: Random,
    next_number: u32,
    /// What was sent, with the values that repair packets leave out set to 0, by sequence number.
    sent: BTreeMap<u16, (Instant, Vec<u8>)>,
    arrived: Vec<u16>,
    /// Expected and arrived packets as of the last report.
    reported: (usize, usize),
    outcome: Outcome,
}

impl Path {
    fn new(seed: u64, link: LinkConfig, budget: u64) -> Self {
        let clock = Clock::new();
        let key = MasterKey::new(Profile::AeadAes128Gcm, &[7; 16], &[9; 12]).expect("a key");
        let keys = std::slice::from_ref(&key);
        let input = ProtectionInput { payload_type: 49, ssrc: REPAIR, extensions: extensions() };
        let mut protection = Protection::new(&input);
        protection.set_budget(clock.now(), budget);
        Self {
            clock,
            round_trip: 2 * link.delay,
            down: Link::new(link, seed),
            outbound: OutboundContext::new(&Config::default(), keys).expect("a context"),
            inbound: InboundContext::new(&Config::default(), keys).expect("a context"),
            protection,
            recoverer: Recoverer::new(MEDIA, volatile_ids(&extensions())),
            random: Random::new(seed),
            next_number: 0,
            sent: BTreeMap::new(),
            arrived: Vec::new(),
            reported: (0, 0),
            outcome: Outcome::default(),
        }
    }

    /// Sends one packet and the repair packets that are due behind it, as a sending loop does.
    fn send(&mut self, is_last: bool) {
        let now = self.clock.now();
        let number = self.next_number;
        self.next_number += 1;
        let mut header = [0; 64];
        let mut block = [0; 32];
        let mut writer = BlockWriter::new(&mut block, Form::OneByte);
        writer.push(MID_ID, b"v").expect("room");
        writer.push(TRANSPORT_CC_ID, &(number as u16 ^ 0x5555).to_be_bytes()).expect("room");
        let block_len = writer.finish();
        let fields = HeaderFields {
            marker: is_last,
            payload_type: 96,
            sequence_number: number as u16,
            timestamp: number / 7 * 3_000,
            ssrc: MEDIA,
        };
        let len = fields.write(&block[..block_len], &mut header);
        let mut payload = vec![self.random.next_u64() as u8; 200 + self.random.below(900) as usize];
        payload[..8].copy_from_slice(&self.random.next_u64().to_be_bytes());
        let mut plain = [&header[..len], &payload].concat();
        self.outcome.sent += 1;
        self.protect_and_send(now, &plain);
        // These lines are all that a sending loop needs.
        self.protection.handle_packet(now, &header[..len], &payload);
        while self.protection.has_repair() {
            let mut repair = [0; REPAIR_LEN_MAX];
            let len = self.protection.poll_repair(&[], &mut repair).expect("room");
            self.protect_and_send(now, &repair[..len]);
            self.outcome.repairs += 1;
        }
        // Head of the extensions, MID with its head, head of the transport-wide number.
        plain[12 + 4 + 2 + 1..][..2].fill(0);
        self.sent.insert(number as u16, (now, plain));
    }

    fn protect_and_send(&mut self, now: Instant, plain: &[u8]) {
        let mut out = [plain, &[0; 16]].concat();
        let len = self.outbound.protect_rtp(&mut out, plain.len()).expect("no index twice");
        out.truncate(len);
        self.down.send(now, out);
    }

    fn receive(&mut self) {
        let now = self.clock.now();
        while let Some(mut datagram) = self.down.poll(now) {
            // What arrives twice is refused.
            let Ok(len) = self.inbound.unprotect_rtp(&mut datagram) else { continue };
            let packet = Packet::parse(&datagram[..len]).expect("RTP");
            if packet.ssrc() == MEDIA {
                self.arrived.push(packet.sequence_number());
                self.recoverer.handle_packet(packet.bytes());
            } else {
                self.recoverer.handle_repair(packet.payload()).expect("a repair packet");
            }
            while let Some(recovered) = self.recoverer.poll_recovered() {
                let number = u16::from_be_bytes([recovered[2], recovered[3]]);
                let (sent_at, expected) = &self.sent[&number];
                assert!(!self.arrived.contains(&number), "{number} had arrived");
                assert_eq!(recovered, *expected, "packet {number}");
                self.outcome.recovered.push(now - *sent_at);
            }
        }
    }

    /// Pictures of seven packets for so long, with a report of the viewer each second.
    fn run(mut self, duration: Duration) -> Outcome {
        let end = self.clock.at(duration);
        let mut next_picture = self.clock.now();
        let mut next_report = self.clock.at(Duration::from_secs(1));
        while self.clock.now() < end {
            let now = self.clock.now();
            self.receive();
            if now >= next_picture {
                (1..=7).for_each(|at| self.send(at == 7));
                next_picture += PICTURE;
            }
            if now >= next_report {
                // Of what came before the newest that arrived, as receivers reckon it.
                let expected = self.arrived.iter().max().map_or(0, |newest| usize::from(*newest) + 1);
                let (before, arrived_before) = self.reported;
                let arrived = self.arrived.len() - arrived_before;
                let lost = 1.0 - (arrived as f32 / (expected - before).max(1) as f32).min(1.0);
                self.protection.handle_report(now, lost, Some(self.round_trip));
                self.reported = (expected, self.arrived.len());
                next_report += Duration::from_secs(1);
            }
            let next = self.down.next_timeout().map_or(next_picture, |at| at.min(next_picture));
            self.clock.advance_to(next.min(next_report));
        }
        self.clock.advance(self.round_trip);
        self.receive();
        self.outcome.lost = self.outcome.sent - self.arrived.len();
        self.outcome
    }
}

fn link(loss: f64, one_way_ms: u64) -> LinkConfig {
    LinkConfig { loss, delay: Duration::from_millis(one_way_ms), ..LinkConfig::default() }
}

/// Of 210 packets a second: fewer than there are sequence numbers.
const LONG: Duration = Duration::from_secs(30);

#[test]
fn most_of_what_a_long_path_loses_comes_back_before_a_retransmission_would() {
    for (loss, share_min, overhead_max) in [(0.02, 0.6, 0.12), (0.05, 0.6, 0.30)] {
        let outcome = Path::new(5, link(loss, 75), 2_000_000).run(LONG);
        let share = outcome.recovered.len() as f64 / outcome.lost as f64;
        let overhead = outcome.repairs as f64 / outcome.sent as f64;
        assert!(share >= share_min, "{share} of {} lost at {loss}", outcome.lost);
        assert!(overhead <= overhead_max, "{overhead} at {loss}");
        // A gap is seen 33 ms later, asked about, and answered.
        let retransmitted = PICTURE + Duration::from_millis(75 + 150);
        let in_time = outcome.recovered.iter().filter(|after| **after < retransmitted).count();
        assert!(in_time * 100 >= outcome.recovered.len() * 95, "{in_time} of {}", outcome.recovered.len());
    }
}

#[test]
fn short_bursts_come_back_too() {
    let burst = Burst { apart: Duration::from_millis(900), lasts: Duration::from_millis(12) };
    // Packets a few milliseconds apart, as of a paced sender.
    let link = LinkConfig { burst: Some(burst), rate_bits_per_second: Some(3_000_000), ..link(0.02, 75) };
    let outcome = Path::new(6, link, 2_000_000).run(LONG);
    let share = outcome.recovered.len() as f64 / outcome.lost as f64;
    assert!(share >= 0.4, "{share} of {}", outcome.lost);
}

#[test]
fn a_path_that_is_short_or_loses_nothing_gets_no_repair_packets() {
    for link in [link(0.05, 25), link(0.0, 200)] {
        let outcome = Path::new(7, link, 2_000_000).run(LONG);
        assert_eq!((outcome.repairs, outcome.recovered.len()), (0, 0));
    }
    assert_eq!(Path::new(8, link(0.05, 75), 0).run(LONG).repairs, 0, "no budget");
}

#[test]
fn packets_that_arrive_twice_late_and_out_of_order_do_no_harm() {
    let link =
        LinkConfig { reorder: 0.1, duplicate: 0.05, jitter: Duration::from_millis(5), ..link(0.03, 75) };
    let outcome = Path::new(9, link, 2_000_000).run(LONG);
    assert!(outcome.recovered.len() > 100, "{outcome:?}");
}
