//! Publisher, server and viewers on one clock, with a link each way between each two of them.
//!
//! The server is the worker's loop with everything left out that is not `sfu`: SRTP only towards
//! the viewers, where rollover counters must agree, and RTCP in the clear.

use std::time::{Duration, Instant};

use netsim::{Clock, Link, LinkConfig, earliest};
use rtp::payload::MediaKind;
use sfu::{HEADER_LEN_MAX, Limits, PacketStream, ViewerId, ViewerInput, WallClock, plain_outlet};
use srtp::{Config, InboundContext, MasterKey, OutboundContext, Profile};

use crate::network_faults::publisher::{Beginning, Publisher};
use crate::network_faults::viewer::Viewer;

pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) publisher: Publisher,
    to_server: Link,
    to_publisher: Link,
    pub(crate) stream: PacketStream,
    pub(crate) viewers: Vec<Seat>,
    seed: u64,
}

/// A viewer, the server's side of it, and the links between them.
pub(crate) struct Seat {
    pub(crate) viewer: Viewer,
    pub(crate) id: ViewerId,
    srtp: OutboundContext,
    down: Link,
    up: Link,
}

impl World {
    /// A publisher that sends for `duration` over a link like `uplink`, both ways.
    pub(crate) fn new(seed: u64, duration: Duration, uplink: &LinkConfig, beginning: Beginning) -> Self {
        let clock = Clock::new();
        Self::with(clock, seed, Publisher::new(clock.now(), duration, beginning), uplink)
    }

    /// The same with a publisher and a clock of the caller's.
    pub(crate) fn with(clock: Clock, seed: u64, publisher: Publisher, uplink: &LinkConfig) -> Self {
        Self {
            stream: stream(&clock, &publisher, Limits::default()),
            clock,
            publisher,
            to_server: Link::new(uplink.clone(), seed),
            to_publisher: Link::new(uplink.clone(), seed + 1),
            viewers: Vec::new(),
            seed: seed + 2,
        }
    }

    /// Other limits than the usual ones, before anybody joins.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        assert!(self.viewers.is_empty() && self.clock.elapsed().is_zero());
        self.stream = stream(&self.clock, &self.publisher, limits);
    }

    /// A viewer joins, over links `down` and `up`. Returns its place in `viewers`.
    pub(crate) fn join(&mut self, down: &LinkConfig, up: &LinkConfig) -> usize {
        self.join_as(down, up, &Viewer::input(self.viewers.len() as u64))
    }

    /// The same without RTX.
    pub(crate) fn join_without_rtx(&mut self, down: &LinkConfig, up: &LinkConfig) -> usize {
        let mut input = Viewer::input(self.viewers.len() as u64);
        for track in &mut input.tracks {
            track.rtx_ssrc = None;
            track.payloads.iter_mut().for_each(|payload| payload.rtx = None);
        }
        self.join_as(down, up, &input)
    }

    fn join_as(&mut self, down: &LinkConfig, up: &LinkConfig, input: &ViewerInput) -> usize {
        let now = self.clock.now();
        let key = MasterKey::new(Profile::AeadAes128Gcm, &[7; 16], &[9; 12]).expect("a key");
        let keys = std::slice::from_ref(&key);
        let token = self.viewers.len();
        let id = self.stream.join(now, input).expect("room for a viewer");
        let mut srtp = OutboundContext::new(&Config::default(), keys).expect("a context");
        for track in input.tracks.iter().filter(|track| track.is_sent_again_as_it_was()) {
            srtp.remember_packets(track.ssrc).expect("room for a stream");
        }
        let inbound = InboundContext::new(&Config::default(), keys).expect("a context");
        self.seed += 2;
        self.viewers.push(Seat {
            viewer: Viewer::new(now, inbound),
            id,
            srtp,
            down: Link::new(down.clone(), self.seed),
            up: Link::new(up.clone(), self.seed + 1),
        });
        token
    }

    /// Lets everything happen that happens within `duration`.
    pub(crate) fn run(&mut self, duration: Duration) {
        let end = self.clock.now() + duration;
        loop {
            self.step();
            let now = self.clock.now();
            // It would keep the worker spinning.
            let due = self.stream.next_timeout();
            assert!(
                due.is_none_or(|due| due > now),
                "the stream was due, and still is {:?} later",
                due.map(|due| now - due)
            );
            let Some(at) = self.next_timeout().filter(|at| *at <= end) else { break };
            // What one part sends without delay is there for another that had its turn in this step
            // already.
            self.clock.advance_to(at);
        }
        self.clock.advance_to(end);
    }

    fn next_timeout(&self) -> Option<Instant> {
        let seats = self
            .viewers
            .iter()
            .flat_map(|seat| [seat.down.next_timeout(), seat.up.next_timeout(), seat.viewer.next_timeout()]);
        earliest(seats.chain([
            self.publisher.next_timeout(),
            self.to_server.next_timeout(),
            self.to_publisher.next_timeout(),
            self.stream.next_timeout(),
        ]))
    }

    fn step(&mut self) {
        let now = self.clock.now();
        self.publisher.handle_timeout(now, |datagram| self.to_server.send(now, datagram));
        while let Some(rtcp) = self.to_publisher.poll(now) {
            self.publisher.handle_rtcp(&rtcp, |datagram| self.to_server.send(now, datagram));
        }
        self.serve(now);
        for seat in &mut self.viewers {
            while let Some(datagram) = seat.down.poll(now) {
                if is_rtcp(&datagram) {
                    seat.viewer.handle_rtcp(now, &datagram);
                } else {
                    seat.viewer.handle_rtp(now, datagram);
                }
            }
            seat.viewer.handle_timeout(now, |datagram| seat.up.send(now, datagram));
        }
    }

    /// One turn of the server.
    fn serve(&mut self, now: Instant) {
        while let Some(datagram) = self.to_server.poll(now) {
            if is_rtcp(&datagram) {
                self.stream.receive_rtcp(now, &datagram);
            } else {
                // Duplicates and the like are dropped; what matters is what viewers get.
                let _ = self.stream.receive(now, &datagram);
            }
        }
        self.fan_out(now);
        self.answer(now);
        let (stream, viewers) = (&mut self.stream, &mut self.viewers);
        stream.send_backlog(
            now,
            usize::MAX,
            &mut plain_outlet(|token, _, header, payload| viewers[token as usize].send(now, header, payload)),
        );
        stream.send_reports(now, |token, rtcp| viewers[token as usize].down.send(now, rtcp.to_vec()));
        let mut feedback = Vec::new();
        if stream.poll_feedback(now, &mut feedback) {
            self.to_publisher.send(now, feedback);
        }
    }

    fn fan_out(&mut self, now: Instant) {
        let mut header = [0; HEADER_LEN_MAX];
        self.stream.take_arrivals(|_, _| {});
        for kind in [MediaKind::Audio, MediaKind::Video] {
            let mut batch = self.stream.prepare_batch(kind);
            while let Some((viewer, packets)) = batch.next_viewer() {
                let seat = &mut self.viewers[viewer.token() as usize];
                for index in 0..packets.len() {
                    if let Some(len) = viewer.header_for(packets, index, None, &mut header) {
                        seat.send(now, &header[..len], viewer.payload(packets, index));
                    }
                }
            }
            self.stream.finish_batch(kind);
        }
    }

    /// Resends what viewers ask for.
    fn answer(&mut self, now: Instant) {
        for seat in &mut self.viewers {
            while let Some(rtcp) = seat.up.poll(now) {
                let mut resend = Vec::new();
                self.stream.viewer_rtcp(now, seat.id, &rtcp, None, &mut resend);
                for packet in resend {
                    let mut out = [0; 1500];
                    let len = packet.write(&mut out).expect("a packet shorter than an MTU");
                    let len = match packet.is_same() {
                        true => seat.srtp.protect_rtp_again(&mut out, len).expect("the same bytes"),
                        false => seat.srtp.protect_rtp(&mut out, len).expect("a number of its own"),
                    };
                    seat.down.send(now, out[..len].to_vec());
                }
            }
        }
    }
}

fn stream(clock: &Clock, publisher: &Publisher, limits: Limits) -> PacketStream {
    let wall = WallClock { at: clock.now(), ntp: publisher.beginning.ntp };
    let mut stream = PacketStream::new(limits, wall);
    stream.publisher_started(clock.now(), 1, Publisher::input());
    stream
}

impl Seat {
    fn send(&mut self, now: Instant, header: &[u8], payload: &[u8]) {
        let mut out = [0; 1500];
        let len = self.srtp.protect_rtp_from(header, payload, &mut out).expect("each number once");
        self.down.send(now, out[..len].to_vec());
    }
}

/// RFC 5761 section 4.
fn is_rtcp(datagram: &[u8]) -> bool {
    datagram.get(1).is_some_and(|kind| (192..=223).contains(kind))
}
