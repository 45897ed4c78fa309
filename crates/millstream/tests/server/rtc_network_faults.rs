//! The running server and clients behind a UDP relay that loses, and that changes its address: what is lost
//! is repaired on either side, and sessions live on. More faults, in virtual time:
//! `crates/sfu/tests/sfu/network_faults`.

#![expect(clippy::disallowed_methods, reason = "clients in real time of a server in real time")]

mod udp_relay;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::common::rtc::{Client, Options, VIDEO_RTX_SSRC, VP8_RTX, exchange, start_flow, vp8_frame};
use crate::common::server::Server;
use netsim::LinkConfig;
use rtc::sdp::{Direction, Transport};
use rtp::payload::MediaKind;
use rtp::rtcp::{Nack, Rtcp, packets};
use rtp::sequence::SequenceUnwrapper;
use rtp::{HeaderFields, rtx};
use udp_relay::UdpRelay;

/// A client that reaches the server through a relay only.
fn open(
    server: &Server,
    path: &str,
    direction: Direction,
    options: &Options,
    link: &LinkConfig,
    seed: u64,
) -> (Client, UdpRelay) {
    let mut client = Client::open(server, path, direction, options);
    let candidates = &client.answer.remote.candidates;
    let candidate = candidates.iter().find(|candidate| candidate.transport == Transport::Udp);
    let relay = UdpRelay::start(candidate.expect("a UDP candidate").address, link, seed);
    client.set_server(Instant::now(), relay.front());
    (client, relay)
}

/// Connected over a good link, so that what is tested is the media.
fn connect(server: &Server, path: &str, direction: Direction, seed: u64) -> (Client, UdpRelay) {
    connect_with(server, path, direction, &Options::default(), seed)
}

fn connect_with(
    server: &Server,
    path: &str,
    direction: Direction,
    options: &Options,
    seed: u64,
) -> (Client, UdpRelay) {
    let (mut client, relay) = open(server, path, direction, options, &LinkConfig::default(), seed);
    client.connect();
    (client, relay)
}

/// One stream with one viewer.
struct Pair {
    publisher: Client,
    viewer: Client,
    relays: [UdpRelay; 2],
    /// Loss on the publisher's link and on the viewer's, and what may be left, in percent.
    case: (f64, f64, f64),
    next_rtx: u16,
    sequence: SequenceUnwrapper,
    /// Sequence number of frame 0.
    offset: Option<u64>,
    received: BTreeSet<u32>,
    asked: BTreeMap<u32, (u32, Instant)>,
    repaired: u32,
}

/// Frames that count; every 200th is a key frame, every one is a packet.
const FRAMES: u32 = 1000;
const FRAME_BYTES: usize = 500;
const ASKED_MAX: u32 = 12;
const ASK_AGAIN: Duration = Duration::from_millis(80);

fn is_key(number: u32) -> bool {
    number.is_multiple_of(200)
}

impl Pair {
    fn new(server: &Server, case: (f64, f64, f64), no_rtx: bool, seed: u64) -> Self {
        let stream = format!("live/lossy{seed}");
        let (publisher, up) = connect(server, &format!("/whip/{stream}"), Direction::Send, seed);
        let options = Options { no_rtx, ..Options::default() };
        let path = format!("/whep/{stream}");
        let (viewer, down) = connect_with(server, &path, Direction::Receive, &options, seed + 2);
        Self {
            publisher,
            viewer,
            relays: [up, down],
            case,
            next_rtx: 0,
            sequence: SequenceUnwrapper::new(),
            offset: None,
            received: BTreeSet::new(),
            asked: BTreeMap::new(),
            repaired: 0,
        }
    }

    /// Answers NACKs of the server.
    fn turn_publisher(&mut self) {
        self.publisher.turn();
        for compound in std::mem::take(&mut self.publisher.reports) {
            for packet in packets(&compound).flatten() {
                let Rtcp::Nack(nack) = packet else { continue };
                nack.lost().for_each(|lost| self.resend(lost));
            }
        }
    }

    fn resend(&mut self, lost: u16) {
        let number = u32::from(lost);
        let fields = HeaderFields {
            marker: true,
            payload_type: VP8_RTX,
            sequence_number: self.next_rtx,
            timestamp: number * 3000,
            ssrc: VIDEO_RTX_SSRC,
        };
        self.next_rtx = self.next_rtx.wrapping_add(1);
        let payload = [&rtx::osn(lost)[..], &vp8_frame(number, is_key(number), FRAME_BYTES)].concat();
        self.publisher.send_rtp(fields, &payload);
    }

    /// Takes what came and asks for what did not.
    fn turn_viewer(&mut self) {
        self.viewer.turn();
        let source = self.viewer.source(MediaKind::Video);
        for packet in std::mem::take(&mut self.viewer.media) {
            let packet = rtp::Packet::parse(&packet).expect("RTP");
            let is_repair = packet.payload_type() == VP8_RTX;
            let (sequence, payload) = match packet.payload() {
                resent if is_repair => rtx::unwrap(resent).expect("a retransmission"),
                payload => (packet.sequence_number(), payload),
            };
            let head = if payload[1] & 1 == 0 { 11 } else { 4 };
            let number = u32::from_be_bytes(*payload[head..].first_chunk().expect("a number"));
            let full = self.sequence.unwrap(sequence);
            let offset = *self.offset.get_or_insert(full.wrapping_sub(u64::from(number)));
            assert_eq!(full, offset.wrapping_add(u64::from(number)), "a packet under another number");
            self.received.insert(number);
            // Without RTX the same packet comes again.
            self.repaired += u32::from(is_repair || self.asked.contains_key(&number));
        }
        self.ask(source.ssrc);
    }

    fn ask(&mut self, media_ssrc: u32) {
        let (Some(first), Some(last)) = (self.received.first(), self.received.last()) else { return };
        let now = Instant::now();
        let mut lost = Vec::new();
        for number in (*first..*last).filter(|number| !self.received.contains(number)) {
            let (times, last) = self.asked.entry(number).or_insert((0, now));
            if *times < ASKED_MAX && (*times == 0 || now - *last >= ASK_AGAIN) {
                (*times, *last) = (*times + 1, now);
                lost.push(self.offset.expect("a first packet").wrapping_add(u64::from(number)) as u16);
            }
        }
        if !lost.is_empty() {
            let mut compound = Vec::new();
            Nack::write(&mut compound, 1, media_ssrc, &lost);
            self.viewer.send_rtcp(&compound);
        }
    }

    /// Frames between the first that came and the last that counts, and how many of them never came.
    fn expected_and_lost(&self) -> (u32, u32) {
        let first = *self.received.first().expect("a frame");
        let received = self.received.range(..FRAMES).count() as u32;
        (FRAMES - first, FRAMES - first - received)
    }
}

#[test]
fn loss_on_either_link_is_repaired() {
    let mut server = Server::start("");
    let mut pairs = Vec::new();
    for (loss, left) in [(1.0, 0.01), (5.0, 0.05), (10.0, 0.1), (20.0, 1.5)] {
        pairs.push(Pair::new(&server, (loss, 0.0, left), false, 10 * pairs.len() as u64));
        pairs.push(Pair::new(&server, (0.0, loss, left), false, 10 * pairs.len() as u64));
    }
    // A viewer that cannot take retransmissions gets the same packets again.
    pairs.push(Pair::new(&server, (0.0, 5.0, 0.05), true, 10 * pairs.len() as u64));
    // The first frame tells that everything is in place.
    for pair in &mut pairs {
        pair.publisher.send_video(0, true, FRAME_BYTES);
        let (viewer, relays, case) = (&mut pair.viewer, &pair.relays, pair.case);
        viewer.until("the first frame", |viewer| !viewer.media.is_empty());
        for (relay, loss) in relays.iter().zip([case.0, case.1]) {
            let delay = Duration::from_millis(10);
            relay.set_links(&LinkConfig { loss: loss / 100.0, delay, ..LinkConfig::default() });
        }
    }
    // What counts and then as much as it takes to be asked for the last of it.
    let mut next = Instant::now();
    for number in 1..FRAMES + 300 {
        pairs.iter_mut().for_each(|pair| pair.publisher.send_video(number, is_key(number), FRAME_BYTES));
        next += Duration::from_millis(5);
        loop {
            for pair in &mut pairs {
                pair.turn_publisher();
                pair.turn_viewer();
            }
            let Some(wait) = next.checked_duration_since(Instant::now()) else { break };
            // The publisher's pace: a frame every 5 ms.
            std::thread::sleep(wait.min(Duration::from_millis(1)));
        }
    }
    for pair in &pairs {
        let ((up, down, left), (expected, lost)) = (pair.case, pair.expected_and_lost());
        let percent = 100.0 * f64::from(lost) / f64::from(expected);
        let repaired = pair.repaired;
        assert!(pair.case.1 == 0.0 || repaired > 0, "{down} % lost, nothing repaired");
        println!("RESULT rtc-loss up={up} down={down} expected={expected} lost={lost} repaired={repaired}");
        assert!(expected >= FRAMES - 1, "the viewer had the first frame");
        assert!(percent <= left, "{percent} % lost at {up} % up and {down} % down");
    }
    let repaired: u32 = pairs.iter().filter(|pair| pair.case.1 > 0.0).map(|pair| pair.repaired).sum();
    assert!(repaired > 250, "{repaired} repaired: nothing was lost");
    server.assert_healthy();
}

#[test]
fn a_new_address_of_either_side_ends_nothing() {
    let mut server = Server::start("");
    let (mut publisher, up) = connect(&server, "/whip/live/moved", Direction::Send, 1);
    let (mut viewer, down) = connect(&server, "/whep/live/moved", Direction::Receive, 3);
    let mut number = start_flow(&mut publisher, &mut viewer, 0);
    for relay in [&down, &up] {
        relay.rebind();
        // Until its next check tells the server, nothing goes to the new address and nothing from it counts;
        // a few may still take the old way.
        let mut came = 0;
        viewer.until("audio again", |viewer| {
            publisher.turn();
            publisher.send_audio(number);
            number += 1;
            came += viewer.take_audio().len();
            came > 50
        });
        viewer.until("the last of it", |viewer| viewer.take_audio().contains(&(number - 1)));
        exchange(&mut publisher, &mut viewer, number..number + 20);
        number += 20;
    }
    assert!(publisher.failed.is_none() && viewer.failed.is_none());
    server.wait_for_session_count(2);
    server.assert_healthy();
}

#[test]
fn two_seconds_without_a_network_end_nothing() {
    let mut server = Server::start("");
    let (mut publisher, up) = connect(&server, "/whip/live/cut", Direction::Send, 5);
    let (mut viewer, down) = connect(&server, "/whep/live/cut", Direction::Receive, 7);
    let mut number = start_flow(&mut publisher, &mut viewer, 0);
    for relay in [&down, &up] {
        relay.set_links(&LinkConfig { loss: 1.0, ..LinkConfig::default() });
        let before = number;
        viewer.until_within(Duration::from_secs(2), |_| {
            publisher.turn();
            publisher.send_audio(number);
            number += 1;
            false
        });
        // A few were on their way when the link was cut.
        let (sent, came) = (number - before, viewer.take_audio().len());
        assert!(sent > 20 && came < 5, "{came} of {sent} came through a link that was cut");
        relay.set_links(&LinkConfig::default());
        number = start_flow(&mut publisher, &mut viewer, number);
        exchange(&mut publisher, &mut viewer, number..number + 20);
        number += 20;
    }
    assert!(publisher.failed.is_none() && viewer.failed.is_none());
    server.assert_healthy();
}
