//! A publisher, a stream and viewers behind bottlenecks of their own, in virtual time.
//!
//! A bottleneck has a rate that a test may change, a queue of 300 ms, and 20 ms to the viewer and back. A
//! viewer reports each packet it got every 50 ms, asks again for what is missing, and checks what it gets:
//! every sequence number once, timestamps that never go back, and no picture without the one before it or a
//! key frame.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use congestion::Kind;
use netsim::Clock;
use netsim::bottleneck::Trace;
use rtp::HeaderFields;
use rtp::extension::{Extension, Form};
use rtp::payload::MediaKind;
use rtp::rtcp::{
    Arrival, CongestionFeedback, FeedbackHead, Nack, NtpMiddle, NtpTime, PacketArrival, Pli, ReceiverReport,
    Remb, ReportBlock, TransportFeedback,
};
use sfu::{
    HEADER_LEN_MAX, Limits, Outlet, Pacer, PacerInput, PacketStream, RelayedTrack, Resend, TrackInput,
    ViewerId, ViewerStats, WallClock,
};

use crate::packets::common::{
    AUDIO_SSRC, H264, OPUS, VIDEO_SSRC, audio, audio_input, audio_ssrc, publisher, rtx_ssrc, video,
    video_input, video_ssrc, viewer,
};

const NUMBER_ID: u8 = 5;
const DELAY: Duration = Duration::from_millis(20);
const QUEUE_MAX: Duration = Duration::from_millis(300);
const STEP: Duration = Duration::from_millis(1);
const FRAME: Duration = Duration::from_millis(40);
const PAYLOAD: usize = 1_100;

/// Packets of one SSRC by unwrapped sequence number: when they arrived, and how they were marked.
type Arrivals = BTreeMap<u64, (Instant, u8)>;

/// A packet on its way.
struct Datagram {
    arrives: Instant,
    waited: Duration,
    bytes: Vec<u8>,
    ecn: u8,
}

/// What a viewer has seen.
#[derive(Default)]
pub(crate) struct Seen {
    /// How long packets waited in the bottleneck, with the time at which they were sent.
    pub(crate) waits: Vec<(Instant, Duration)>,
    /// Packets that the bottleneck had no room for.
    pub(crate) overflowed: u64,
    pub(crate) sent: u64,
    /// Bytes that were sent, by second.
    pub(crate) sent_bytes: BTreeMap<u64, u64>,
    /// When audio packets arrived, and how much later than they were published.
    pub(crate) audio: Vec<(Instant, Duration)>,
    /// When pictures were complete, how much later than published, and whether they were key frames.
    pub(crate) pictures: Vec<(Instant, Duration, bool)>,
    /// Of which encodings they are.
    pub(crate) layers: Vec<u8>,
    pub(crate) padding: u64,
    /// When packets left, and whether they were RTX.
    pub(crate) departures: Vec<(Instant, bool)>,
    /// Packets that were sent again as they were.
    pub(crate) same_again: u64,
}

/// What a viewer has agreed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) has_rtx: bool,
    pub(crate) reports: Reports,
}

/// How it reports on its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reports {
    /// Each packet.
    Packets,
    /// Each packet, by SSRC and sequence number (RFC 8888).
    Streams,
    /// Losses, once a second, and what it takes its path to carry (REMB), twice a second.
    Remb,
    /// Losses, once a second.
    Losses,
}

pub(crate) struct Seat {
    pub(crate) id: ViewerId,
    pub(crate) pacer: Option<Pacer>,
    pub(crate) seen: Seen,
    /// Bits per second of its path.
    pub(crate) rate: f64,
    /// It says nothing at all.
    pub(crate) is_silent: bool,
    /// Its path is a TCP connection: nothing is lost, and what the path does not take waits at the server.
    pub(crate) is_tcp: bool,
    /// Packets that waited longer are marked, those that left as ECT.
    pub(crate) mark_above: Option<Duration>,
    pub(crate) marked: u64,
    tcp_bytes: u64,
    /// It asks for a key frame in each step.
    pub(crate) storms: bool,
    /// Besides what the bottleneck has no room for, each so manyth packet is lost.
    pub(crate) lost_each: Option<u64>,
    /// And all that would arrive in these times.
    pub(crate) outages: Vec<Range<Instant>>,
    /// And this share of all packets, by chance.
    pub(crate) lost_share: f64,
    chance: u64,
    /// When the bottleneck is free.
    free_at: Instant,
    path: VecDeque<Datagram>,
    arrivals: BTreeMap<u64, i64>,
    /// It reports by SSRC and sequence number: what came since the last report, when and how marked.
    by_stream: Option<BTreeMap<u32, Arrivals>>,
    /// Highest sequence numbers, unwrapped, of each SSRC that it has reported on.
    reported: BTreeMap<u32, u64>,
    next_report: u64,
    terms: Terms,
    /// What it takes the path to carry.
    remb: f64,
    reports: u8,
    /// Numbers of video, unwrapped: the first, the highest, and how many came.
    first_number: Option<u64>,
    highest_number: u64,
    came: u64,
    /// How many were expected and came when it reported last.
    reported_numbers: (u64, u64),
    /// Bytes that came since the last REMB, and what they waited at least.
    came_bytes: u64,
    queued: Duration,
    /// What was sent under each number.
    datagrams: BTreeMap<(u32, u16), Vec<u8>>,
    highest: Option<u16>,
    asked: BTreeMap<u16, Instant>,
    /// Packets of video by sequence number: picture, which packet of it, how many it has, key.
    video: BTreeMap<u16, Slice>,
    shown: Option<u32>,
    /// The number behind the last one that was shown or given up.
    behind: Option<u16>,
    taken_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Slice {
    picture: u32,
    part: u16,
    parts: u16,
    is_key: bool,
    layer: u8,
    published: Instant,
}

pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) start: Instant,
    pub(crate) stream: PacketStream,
    pub(crate) seats: BTreeMap<u64, Seat>,
    /// When key frames were asked for.
    pub(crate) key_frames_asked: Vec<Instant>,
    /// And of which encodings.
    pub(crate) encodings_asked: Vec<usize>,
    /// Bits per second of each encoding of the video.
    rates: Vec<f64>,
    /// Bits per second of all paths over time, in steps; else they are as they are set.
    pub(crate) trace: Option<Trace>,
    /// Pictures between two key frames; `None`: only when asked for.
    pub(crate) gop: Option<u32>,
    /// Each so manyth packet of the publisher is lost before it gets here.
    pub(crate) lost_upstream: Option<u64>,
    published_packets: u64,
    /// SSRCs of encodings, and of audio.
    video_ssrcs: Vec<u32>,
    audio_ssrc: u32,
    picture: u32,
    /// Of each encoding.
    key_due: Vec<bool>,
    next_frame: Instant,
    next_audio: Instant,
    next_report: Instant,
    /// Between two reports of each viewer.
    pub(crate) report_interval: Duration,
    video_numbers: Vec<u16>,
    audio_number: u16,
    published: BTreeMap<u32, Instant>,
}

impl World {
    pub(crate) fn new(rate: f64, gop: Option<u32>) -> Self {
        Self::simulcast(&[rate], gop)
    }

    /// Of several encodings, which have these rates.
    pub(crate) fn simulcast(rates: &[f64], gop: Option<u32>) -> Self {
        let clock = Clock::new();
        let start = clock.now();
        let mut stream = PacketStream::new(
            Limits::default(),
            WallClock { at: start, ntp: NtpTime(0xe000_0000_0000_0000) },
        );
        let ssrcs = (0..rates.len()).map(|at| (ssrc_of(at), None)).collect();
        let video = TrackInput { ssrcs, ..video_input() };
        stream.publisher_started(start, 1, publisher(vec![video, audio_input()]));
        let video_ssrcs = (0..rates.len()).map(ssrc_of).collect();
        Self::of(stream, clock, rates, gop, (video_ssrcs, AUDIO_SSRC))
    }

    /// Of another node, over a link.
    pub(crate) fn relayed(rate: f64, gop: Option<u32>) -> Self {
        let clock = Clock::new();
        let start = clock.now();
        let mut stream = PacketStream::new(
            Limits::default(),
            WallClock { at: start, ntp: NtpTime(0xe000_0000_0000_0000) },
        );
        let tracks = [video_input(), audio_input()].map(|track| RelayedTrack {
            kind: track.kind,
            payloads: track.payloads,
            encodings: 1,
            rids: Vec::new(),
        });
        stream.relayed_publisher_started(start, 1, tracks);
        let ssrcs = (vec![video().relayed_ssrc(0)], audio().relayed_ssrc(0));
        Self::of(stream, clock, &[rate], gop, ssrcs)
    }

    fn of(
        stream: PacketStream,
        clock: Clock,
        rates: &[f64],
        gop: Option<u32>,
        (video_ssrcs, audio_ssrc): (Vec<u32>, u32),
    ) -> Self {
        let start = clock.now();
        Self {
            clock,
            start,
            stream,
            seats: BTreeMap::new(),
            key_frames_asked: Vec::new(),
            encodings_asked: Vec::new(),
            rates: rates.to_vec(),
            trace: None,
            gop,
            lost_upstream: None,
            published_packets: 0,
            video_ssrcs,
            audio_ssrc,
            picture: 0,
            key_due: vec![true; rates.len()],
            next_frame: start,
            next_audio: start,
            next_report: start,
            report_interval: Duration::from_millis(50),
            video_numbers: vec![60_000; rates.len()],
            audio_number: 65_000,
            published: BTreeMap::new(),
        }
    }

    /// A viewer joins; `rate`: bits per second of its path.
    pub(crate) fn join(&mut self, token: u64, rate: f64, reports_packets: bool) {
        let reports = if reports_packets { Reports::Packets } else { Reports::Losses };
        self.join_as(token, rate, Terms { has_rtx: true, reports });
    }

    /// The same of one that reports by SSRC and sequence number (RFC 8888).
    pub(crate) fn join_by_streams(&mut self, token: u64, rate: f64) {
        self.join_as(token, rate, Terms { has_rtx: true, reports: Reports::Streams });
    }

    pub(crate) fn join_as(&mut self, token: u64, rate: f64, terms: Terms) {
        let now = self.clock.now();
        let mut input = viewer(token);
        let reports_packets = terms.reports == Reports::Packets;
        let reports_streams = terms.reports == Reports::Streams;
        for track in &mut input.tracks {
            track.form = Form::OneByte;
            track.rtx_ssrc = track.rtx_ssrc.filter(|_| terms.has_rtx);
            if reports_packets {
                track.extensions = [(NUMBER_ID, Extension::TransportCc)].into_iter().collect();
            }
        }
        let id = self.stream.join(now, &input).expect("room");
        let pacer = Pacer::new(
            now,
            PacerInput {
                reports_packets,
                reports_streams,
                start_bits_per_second: 1_000_000,
                most_bits_per_second: 50_000_000,
            },
        );
        let seat = Seat {
            id,
            pacer: Some(pacer),
            seen: Seen::default(),
            rate,
            is_silent: false,
            is_tcp: false,
            mark_above: None,
            marked: 0,
            tcp_bytes: 0,
            storms: false,
            lost_each: None,
            outages: Vec::new(),
            lost_share: 0.0,
            chance: 1,
            free_at: now,
            path: VecDeque::new(),
            arrivals: BTreeMap::new(),
            by_stream: reports_streams.then(BTreeMap::new),
            reported: BTreeMap::new(),
            next_report: 0,
            terms,
            remb: 0.0,
            reports: 0,
            first_number: None,
            highest_number: 1 << 16,
            came: 0,
            reported_numbers: (0, 0),
            came_bytes: 0,
            queued: Duration::MAX,
            datagrams: BTreeMap::new(),
            highest: None,
            asked: BTreeMap::new(),
            video: BTreeMap::new(),
            shown: None,
            behind: None,
            taken_at: None,
        };
        self.seats.insert(token, seat);
    }

    pub(crate) fn stats(&self, token: u64) -> ViewerStats {
        self.stream.viewer_stats(self.seats[&token].id).expect("a viewer")
    }

    pub(crate) fn run(&mut self, duration: Duration) {
        let end = self.clock.now() + duration;
        while self.clock.now() < end {
            if std::env::var_os("TRACE_PATHS").is_some()
                && (self.clock.now() - self.start).as_millis().is_multiple_of(500)
            {
                for (token, seat) in &self.seats {
                    let stats = seat.pacer.as_ref().map(|pacer| pacer.stats(self.clock.now()));
                    let seen = (seat.seen.pictures.len(), seat.seen.padding, seat.seen.overflowed);
                    println!(
                        "{token} {:?} {stats:?} {:?} {seen:?}",
                        self.clock.elapsed(),
                        self.stats(*token).share
                    );
                }
            }
            self.step();
            self.clock.advance(STEP);
        }
    }

    fn step(&mut self) {
        let now = self.clock.now();
        if let Some(trace) = &self.trace {
            let rate = trace.at((now - self.start).as_micros() as u64);
            self.seats.values_mut().for_each(|seat| seat.rate = rate);
        }
        if now >= self.next_audio {
            self.next_audio += Duration::from_millis(20);
            let fields = HeaderFields {
                marker: false,
                payload_type: OPUS,
                sequence_number: self.audio_number,
                timestamp: u32::from(self.audio_number).wrapping_mul(960),
                ssrc: self.audio_ssrc,
            };
            self.audio_number = self.audio_number.wrapping_add(1);
            let since = (now - self.start).as_millis() as u32;
            self.receive(now, &fields, &[&since.to_be_bytes()[..], &[7; 76]].concat());
        }
        if now >= self.next_frame {
            self.next_frame += FRAME;
            self.publish_picture(now);
        }
        self.send(now);
        let tokens: Vec<u64> = self.seats.keys().copied().collect();
        for token in &tokens {
            self.arrive(now, *token);
        }
        if now >= self.next_report {
            self.next_report += self.report_interval;
            for token in tokens {
                self.report(now, token);
            }
        }
        let mut feedback = Vec::new();
        while self.stream.poll_feedback(now, &mut feedback) {}
        for packet in rtp::rtcp::packets(&feedback) {
            if let rtp::rtcp::Rtcp::Pli(pli) = packet.expect("well formed") {
                self.key_frames_asked.push(now);
                let at = (0..self.rates.len()).find(|at| ssrc_of(*at) == pli.media_ssrc);
                let at = at.expect("an encoding");
                self.encodings_asked.push(at);
                self.key_due[at] = true;
            }
        }
        while self.stream.poll_key_frame_request(now).is_some() {
            self.key_frames_asked.push(now);
            self.encodings_asked.push(0);
            self.key_due[0] = true;
        }
    }

    fn publish_picture(&mut self, now: Instant) {
        let picture = self.picture;
        self.picture += 1;
        self.published.insert(picture, now);
        for at in 0..self.rates.len() {
            self.publish_encoding(now, picture, at);
        }
    }

    fn publish_encoding(&mut self, now: Instant, picture: u32, at: usize) {
        let is_due = std::mem::take(&mut self.key_due[at]);
        let is_key = is_due || self.gop.is_some_and(|gop| picture.is_multiple_of(gop));
        let bytes = self.rates[at] / 8.0 / 25.0 * if is_key { 5.0 } else { 0.85 };
        let parts = (bytes / PAYLOAD as f64).ceil().max(1.0) as u16;
        let each = (bytes / f64::from(parts)) as usize;
        for part in 0..parts {
            let mut payload = vec![if is_key { 0x65 } else { 0x41 }, 0x88];
            payload.extend(picture.to_be_bytes());
            payload.extend(part.to_be_bytes());
            payload.extend(parts.to_be_bytes());
            payload.push(at as u8);
            payload.resize(each.max(16), 0xab);
            let fields = HeaderFields {
                marker: part + 1 == parts,
                payload_type: H264,
                sequence_number: self.video_numbers[at],
                timestamp: picture.wrapping_mul(3_600),
                ssrc: self.video_ssrcs[at],
            };
            self.video_numbers[at] = self.video_numbers[at].wrapping_add(1);
            self.receive(now, &fields, &payload);
        }
    }

    fn receive(&mut self, now: Instant, fields: &HeaderFields, payload: &[u8]) {
        let mut bytes = vec![0; 12];
        fields.write(&[], &mut bytes);
        bytes.extend(payload);
        self.published_packets += 1;
        if self.lost_upstream.is_none_or(|each| !self.published_packets.is_multiple_of(each)) {
            self.stream.receive(now, &bytes).expect("taken in");
        }
    }

    /// As a worker does it.
    fn send(&mut self, now: Instant) {
        self.stream.take_arrivals(|_, _| {});
        let mut header = [0; HEADER_LEN_MAX];
        for kind in [MediaKind::Audio, MediaKind::Video] {
            let mut batch = self.stream.prepare_batch(kind);
            while let Some((viewer, packets)) = batch.next_viewer() {
                let seat = self.seats.get_mut(&viewer.token()).expect("a viewer");
                seat.tell_socket(now);
                let room = match &mut seat.pacer {
                    Some(pacer) if pacer.is_stopped() && kind == MediaKind::Audio => continue,
                    Some(pacer) if kind == MediaKind::Video => pacer.room(now),
                    _ => usize::MAX,
                };
                let (mut bytes, mut behind_from) = (0, None);
                for at in 0..packets.len() {
                    if bytes >= room && behind_from.is_none() {
                        behind_from = Some(at);
                    }
                    if behind_from.is_some() && !packets.is_late(at) {
                        continue;
                    }
                    let Some(len) = viewer.header_for(packets, at, seat.pacer.as_mut(), &mut header) else {
                        continue;
                    };
                    let datagram = [&header[..len], viewer.payload(packets, at)].concat();
                    bytes += datagram.len();
                    if let Some(pacer) = &mut seat.pacer {
                        let kind = if kind == MediaKind::Audio { Kind::Audio } else { Kind::Video };
                        pacer.sent(now, datagram.len(), kind);
                    }
                    seat.travel(now, self.start, datagram);
                }
                if let Some(at) = behind_from {
                    batch.fall_behind(at);
                }
            }
            self.stream.finish_batch(kind);
            if kind == MediaKind::Audio {
                let mut outlet = Paths { now, start: self.start, seats: &mut self.seats };
                self.stream.send_backlog(now, usize::MAX, &mut outlet);
            }
        }
        self.stream.send_reports(now, |_, _| {});
    }

    fn report(&mut self, now: Instant, token: u64) {
        let seat = self.seats.get_mut(&token).expect("a viewer");
        if seat.is_silent {
            return;
        }
        let mut rtcp = Vec::new();
        let lost = seat.missing(now);
        if !lost.is_empty() {
            Nack::write(&mut rtcp, 7, video_ssrc(token), &lost);
        }
        seat.reports = seat.reports.wrapping_add(1);
        if seat.storms {
            Pli { sender_ssrc: 7, media_ssrc: video_ssrc(token) }.write(&mut rtcp);
        }
        if seat.terms.reports == Reports::Remb && seat.reports.is_multiple_of(10) {
            seat.estimate();
            if seat.reports >= 50 {
                Remb::write(&mut rtcp, 7, seat.remb as u64, &[video_ssrc(token)]);
            }
        }
        seat.report_streams(now, &mut rtcp, self.start);
        let arrivals: Vec<Arrival> = std::mem::take(&mut seat.arrivals)
            .into_iter()
            .map(|(sequence_number, ticks)| Arrival { sequence_number, ticks })
            .collect();
        let head = FeedbackHead {
            sender_ssrc: 7,
            media_ssrc: video_ssrc(token),
            count: seat.reports,
            base: seat.next_report,
        };
        if seat.terms.reports == Reports::Packets {
            seat.next_report = TransportFeedback::write(&mut rtcp, &head, &arrivals).next_base;
        }
        if seat.reports.is_multiple_of(20) {
            ReceiverReport::write(&mut rtcp, 7, &[seat.report_block(video_ssrc(token))]);
        }
        let mut resends = Vec::new();
        let id = seat.id;
        self.stream.viewer_rtcp(now, id, &rtcp, seat.pacer.as_mut(), &mut resends);
        let mut outlet = Paths { now, start: self.start, seats: &mut self.seats };
        for mut resend in resends {
            sfu::send_again(&mut outlet, now, &mut resend, Kind::Repeat);
        }
    }

    /// A viewer reports that packets came that were never sent: numbers and SSRCs of its own making.
    pub(crate) fn lie_by_streams(&mut self, token: u64) {
        let (now, seat) = (self.clock.now(), self.seats.get_mut(&token).expect("a viewer"));
        let packet = |begin: u16| {
            move |at: u16| PacketArrival {
                sequence_number: begin.wrapping_add(at),
                received: true,
                offset: Some(0),
                ecn: 3,
            }
        };
        let highest = seat.highest.unwrap_or(0);
        let lies: Vec<(u32, Vec<_>)> = vec![
            (1, (0..16_384).map(packet(0)).collect()),
            (video_ssrc(token), (0..16_384).map(packet(highest.wrapping_add(1_000))).collect()),
            (rtx_ssrc(token), (0..16_384).map(packet(20_000)).collect()),
        ];
        let mut rtcp = Vec::new();
        let lies = lies.iter().map(|(ssrc, packets)| (*ssrc, packets.as_slice()));
        CongestionFeedback::write(&mut rtcp, 7, NtpMiddle(0x1234_5678), lies);
        let id = seat.id;
        self.stream.viewer_rtcp(now, id, &rtcp, seat.pacer.as_mut(), &mut Vec::new());
    }

    /// What reaches a viewer.
    fn arrive(&mut self, now: Instant, token: u64) {
        let start = self.start;
        let seat = self.seats.get_mut(&token).expect("a viewer");
        while seat.path.front().is_some_and(|first| first.arrives <= now) {
            let Datagram { bytes, arrives, waited, ecn } = seat.path.pop_front().expect("there is one");
            let packet = rtp::Packet::parse(&bytes).expect("RTP");
            if let Some((_, number)) = packet.extensions().find(|(id, _)| *id == NUMBER_ID) {
                let number = u16::from_be_bytes([number[0], number[1]]);
                let near = seat.next_report;
                let full =
                    near.wrapping_add_signed(i64::from(number.wrapping_sub(near as u16).cast_signed()));
                seat.arrivals.insert(full, (arrives - start).as_micros() as i64 / 250);
            }
            if let Some(streams) = &mut seat.by_stream {
                let near = *seat.reported.entry(packet.ssrc()).or_insert(1 << 16);
                let apart = packet.sequence_number().wrapping_sub(near as u16).cast_signed();
                let full = near.wrapping_add_signed(apart.into());
                streams.entry(packet.ssrc()).or_default().insert(full, (arrives, ecn));
            }
            seat.seen.waits.push((arrives - DELAY - waited, waited));
            seat.came_bytes += bytes.len() as u64;
            seat.queued = seat.queued.min(waited);
            if packet.ssrc() == audio_ssrc(token) {
                let [a, b, c, d] = packet.payload()[..4] else { panic!("short") };
                let published = start + Duration::from_millis(u64::from(u32::from_be_bytes([a, b, c, d])));
                seat.seen.audio.push((now, now - published));
                continue;
            }
            let (number, payload) = if packet.ssrc() == rtx_ssrc(token) {
                let Some((number, payload)) = rtp::rtx::unwrap(packet.payload()) else {
                    seat.seen.padding += 1;
                    continue;
                };
                if seat.video.contains_key(&number) || seat.shown_before(number) {
                    seat.seen.padding += 1;
                    continue;
                }
                (number, payload)
            } else {
                seat.count(packet.sequence_number());
                (packet.sequence_number(), packet.payload())
            };
            let field = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
            let picture = u32::from(field(2)) << 16 | u32::from(field(4));
            let slice = Slice {
                picture,
                part: field(6),
                parts: field(8),
                is_key: payload[0] == 0x65,
                layer: payload[10],
                published: self.published[&picture],
            };
            seat.take(number, slice);
            seat.taken_at = Some(now);
            seat.show(now);
        }
    }
}

impl Seat {
    /// A packet with a number of its own.
    fn travel(&mut self, now: Instant, start: Instant, bytes: Vec<u8>) {
        let number = number_of(&bytes);
        assert!(self.datagrams.insert(number, bytes.clone()).is_none(), "a number twice");
        // Those that may be sent again are young.
        if self.datagrams.len() > 20_000 {
            self.datagrams.retain(|known, _| *known == number);
        }
        self.travel_again(now, start, bytes);
    }

    /// One that was sent before as it is.
    fn travel_again(&mut self, now: Instant, start: Instant, bytes: Vec<u8>) {
        assert_eq!(self.datagrams.get(&number_of(&bytes)), Some(&bytes), "other bytes under a number");
        self.seen.sent += 1;
        self.seen.departures.push((now, number_of(&bytes).0 % 16 == 2));
        *self.seen.sent_bytes.entry((now - start).as_secs()).or_default() += bytes.len() as u64;
        let waited = self.free_at.saturating_duration_since(now);
        if waited > QUEUE_MAX && !self.is_tcp {
            self.seen.overflowed += 1;
            return;
        }
        if self.lost_each.is_some_and(|each| self.seen.sent.is_multiple_of(each)) {
            return;
        }
        // Knuth's generator: the upper bits are good enough to lose packets by.
        self.chance =
            self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if ((self.chance >> 33) as f64) < self.lost_share * f64::from(1_u32 << 31) {
            return;
        }
        let takes = Duration::from_secs_f64((bytes.len() + 28) as f64 * 8.0 / self.rate);
        self.free_at = now + waited + takes;
        if self.outages.iter().any(|outage| outage.contains(&self.free_at)) {
            return;
        }
        self.tcp_bytes += bytes.len() as u64;
        let is_ect = self.pacer.as_ref().is_some_and(Pacer::sends_ect);
        let is_marked = is_ect && self.mark_above.is_some_and(|limit| waited > limit);
        self.marked += u64::from(is_marked);
        let ecn = if is_marked { 3 } else { u8::from(is_ect) };
        self.path.push_back(Datagram { arrives: self.free_at + DELAY, waited, bytes, ecn });
    }

    fn tell_socket(&mut self, now: Instant) {
        if let Some(pacer) = self.pacer.as_mut().filter(|_| self.is_tcp) {
            let waits = self.free_at.saturating_duration_since(now).as_secs_f64();
            let waiting = ((waits * self.rate / 8.0) as u64).min(self.tcp_bytes);
            pacer.socket(now, waiting as usize, self.tcp_bytes - waiting);
        }
    }

    /// Writes congestion control feedback (RFC 8888) of what came since the last one.
    fn report_streams(&mut self, now: Instant, rtcp: &mut Vec<u8>, start: Instant) {
        let Some(streams) = &mut self.by_stream else { return };
        let mut blocks: Vec<(u32, Vec<PacketArrival>)> = Vec::new();
        for (ssrc, packets) in std::mem::take(streams) {
            let (first, last) = packets.keys().next().copied().zip(packets.keys().last().copied()).unwrap();
            let reported = self.reported.get_mut(&ssrc).expect("it came");
            let first = if *reported == 1 << 16 { first } else { first.min(*reported + 1) };
            let packet = |number: u64| {
                let came = packets.get(&number);
                let offset = came.map(|(at, _)| ((now - *at).as_micros() * 1024 / 1_000_000) as u16);
                let (sequence_number, ecn) = (number as u16, came.map_or(0, |(_, ecn)| *ecn));
                PacketArrival { sequence_number, received: came.is_some(), offset, ecn }
            };
            blocks.push((ssrc, (first..=last).map(packet).collect()));
            *reported = last.max(*reported);
        }
        let blocks = blocks.iter().map(|(ssrc, packets)| (*ssrc, packets.as_slice()));
        // Its clock is another one.
        let time = NtpMiddle::from_duration(now - start).0.wrapping_add(0xfff8_0000);
        CongestionFeedback::write(rtcp, 7, NtpMiddle(time), blocks);
    }

    /// Sequence numbers of video between the first and the last that were not sent.
    pub(crate) fn missed(&self) -> usize {
        let of_video = self.datagrams.keys().filter(|(ssrc, _)| *ssrc % 16 == 1);
        let numbers: BTreeSet<u16> = of_video.map(|(_, number)| *number).collect();
        let (first, last) = (numbers.first().copied(), numbers.last().copied());
        first.zip(last).map_or(0, |(first, last)| usize::from(last - first) + 1 - numbers.len())
    }

    /// Half a second is over: less if packets waited, else a little more, as far as what came shows.
    fn estimate(&mut self) {
        let came = std::mem::take(&mut self.came_bytes) as f64 * 8.0 / 0.5;
        let queued = std::mem::replace(&mut self.queued, Duration::MAX);
        // It begins with what it gets.
        if self.reports < 100 {
            self.remb = self.remb.max(came);
        }
        self.remb = match came > 0.0 && queued > Duration::from_millis(30) {
            true => 0.85 * came.min(self.remb),
            false => (1.04 * self.remb).min(1.5 * came + 10e3).max(self.remb),
        };
    }

    /// A packet of video came, for the first time under its number.
    fn count(&mut self, number: u16) {
        let apart = number.wrapping_sub(self.highest_number as u16).cast_signed();
        let full = match self.first_number {
            Some(_) => self.highest_number.wrapping_add_signed(apart.into()),
            None => (1 << 16) + u64::from(number),
        };
        self.first_number.get_or_insert(full);
        self.highest_number = self.highest_number.max(full);
        self.came += 1;
    }

    /// RFC 3550 appendix A.3.
    fn report_block(&mut self, ssrc: u32) -> ReportBlock {
        let expected = self.first_number.map_or(0, |first| self.highest_number - first + 1);
        let (expected_before, came_before) =
            std::mem::replace(&mut self.reported_numbers, (expected, self.came));
        let interval = expected - expected_before;
        let lost = interval.saturating_sub(self.came - came_before);
        ReportBlock {
            ssrc,
            fraction_lost: (lost * 256).checked_div(interval).unwrap_or(0).min(255) as u8,
            cumulative_lost: expected.saturating_sub(self.came) as i32,
            highest_sequence_number: (self.highest_number - (1 << 16)) as u32,
            ..ReportBlock::default()
        }
    }

    fn shown_before(&self, number: u16) -> bool {
        self.behind.is_none_or(|behind| number.wrapping_sub(behind).cast_signed() < 0)
    }

    fn take(&mut self, number: u16, slice: Slice) {
        self.video.insert(number, slice);
        let is_newer = self.highest.is_none_or(|highest| number.wrapping_sub(highest).cast_signed() > 0);
        if let Some(highest) = self.highest.filter(|_| is_newer) {
            let between = (1..number.wrapping_sub(highest)).map(|step| highest.wrapping_add(step));
            self.asked.extend(between.map(|missing| (missing, slice.published)));
        }
        if is_newer {
            self.highest = Some(number);
        }
        self.asked.remove(&number);
    }

    /// What it asks for now: again after 100 ms, for a second.
    fn missing(&mut self, now: Instant) -> Vec<u16> {
        self.asked.retain(|_, since| now.saturating_duration_since(*since) < Duration::from_secs(1));
        self.asked.keys().copied().collect()
    }

    /// Shows pictures that are complete, in order of their numbers.
    fn show(&mut self, now: Instant) {
        loop {
            let Some((&first, &slice)) = self.video.iter().next() else { return };
            let rest = slice.parts - slice.part;
            let parts: Vec<u16> = (0..rest).map(|at| first.wrapping_add(at)).collect();
            let is_of = |part: &Slice| (part.picture, part.layer) == (slice.picture, slice.layer);
            let here: Vec<&Slice> = parts.iter().filter_map(|number| self.video.get(number)).collect();
            // Its layer ended in the middle of it.
            let is_cut = !here.iter().all(|part| is_of(part));
            let is_whole = slice.part == 0 && here.len() == parts.len() && !is_cut;
            if !is_whole {
                // Given up: too late, or what comes behind it does not need it.
                let is_late = self.taken_at.is_none_or(|at| now > at + Duration::from_millis(1_500));
                let has_newer =
                    self.video.values().any(|newer| newer.is_key && newer.picture > slice.picture);
                if !is_late && !has_newer && !is_cut {
                    return;
                }
                self.video.remove(&first);
                self.behind = Some(first.wrapping_add(1));
                continue;
            }
            self.behind = Some(first.wrapping_add(slice.parts));
            for number in parts {
                let part = self.video.remove(&number).expect("it is there");
                assert_eq!(part.picture, slice.picture, "a picture's packets are in a row");
            }
            let is_other = self.seen.layers.last().is_some_and(|layer| *layer != slice.layer);
            // Another encoding begins with a picture that it may have had of the one before.
            let is_later = self.shown.is_none_or(|shown| shown < slice.picture + u32::from(is_other));
            assert!(is_later || is_other, "back in time: {slice:?}, shown {:?}", self.shown);
            let follows = !is_other && self.shown.is_some_and(|shown| shown + 1 == slice.picture);
            if follows || slice.is_key {
                self.seen.layers.push(slice.layer);
                self.seen.pictures.push((now, now - slice.published, slice.is_key));
                self.shown = Some(slice.picture);
            }
        }
    }
}

/// The viewers' paths, for what does not leave live.
struct Paths<'a> {
    now: Instant,
    start: Instant,
    seats: &'a mut BTreeMap<u64, Seat>,
}

impl Outlet for Paths<'_> {
    fn pacer(&mut self, viewer: u64) -> Option<&mut Pacer> {
        let seat = self.seats.get_mut(&viewer)?;
        seat.tell_socket(self.now);
        seat.pacer.as_mut()
    }

    fn send(&mut self, viewer: u64, _kind: MediaKind, header: &[u8], payload: &[u8]) -> usize {
        let datagram = [header, payload].concat();
        let len = datagram.len();
        self.seats.get_mut(&viewer).expect("a viewer").travel(self.now, self.start, datagram);
        len
    }

    fn send_again(&mut self, packet: &Resend) -> usize {
        let mut datagram = vec![0; packet.packet_len()];
        let len = packet.write(&mut datagram).expect("it fits");
        let seat = self.seats.get_mut(&packet.token()).expect("a viewer");
        if packet.is_same() {
            seat.seen.same_again += 1;
            seat.travel_again(self.now, self.start, datagram);
        } else {
            seat.travel(self.now, self.start, datagram);
        }
        len
    }
}

/// That of an encoding of the publisher.
fn ssrc_of(encoding: usize) -> u32 {
    VIDEO_SSRC + 0x100 * encoding as u32
}

/// SSRC and sequence number of a packet.
fn number_of(bytes: &[u8]) -> (u32, u16) {
    let packet = rtp::Packet::parse(bytes).expect("RTP");
    (packet.ssrc(), packet.sequence_number())
}

/// The value below which this share of `values` are.
pub(crate) fn quantile(values: impl IntoIterator<Item = Duration>, share: f64) -> Duration {
    let mut values: Vec<Duration> = values.into_iter().collect();
    values.sort_unstable();
    values.get((values.len() as f64 * share) as usize).copied().unwrap_or_default()
}
