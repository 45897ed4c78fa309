//! A WebRTC publisher with clocks of its own, and what the bridge makes of its timestamps: its clock alone,
//! or all of it.
//!
//! Every piece has its number in it, by which it is found again in what comes out. The simulation knows when
//! each piece was really captured, so what matters can be measured: how far stream time minus true time
//! differs between audio and video.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bridge::clock::{CaptureClock, Stamp};
use bridge::{FramesOut, RtpToFrame, RtpToFrameSettings};
use media::FrameRole;
use netsim::Random;
use rtp::HeaderFields;
use rtp::extension::ExtensionMap;
use rtp::payload::{Codec, MediaKind};
use rtp::rtcp::{NtpTime, SenderInfo, SenderReport};
use sfu::{Limits, Packet, PacketStream, PublisherInput, TrackInput, TrackPayload, WallClock};

pub(crate) const MILLI: i64 = 1_000;
pub(crate) const SECOND: i64 = 1_000_000;
pub(crate) const HOUR: i64 = 3_600 * SECOND;

/// One track of the publisher. Times in microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) kind: MediaKind,
    pub(crate) ssrc: u32,
    pub(crate) clock_rate: u32,
    /// How much faster than real time its timestamps run.
    pub(crate) ppm: f64,
    /// Timestamp of time 0.
    pub(crate) timestamp: u32,
    pub(crate) every_us: i64,
    pub(crate) report_every_us: i64,
    /// Capture to arrival of a piece: this and up to so much more.
    pub(crate) delay_us: i64,
    pub(crate) jitter_us: i64,
    /// Share of pieces that never arrive.
    pub(crate) loss: f64,
    sequence: u16,
    next_us: i64,
    next_report_us: i64,
    sent: u32,
}

impl Source {
    fn new(kind: MediaKind, ssrc: u32, clock_rate: u32, every_us: i64, report_every_us: i64) -> Self {
        Self {
            kind,
            ssrc,
            clock_rate,
            ppm: 0.0,
            timestamp: ssrc.wrapping_mul(0x9e37_79b9),
            every_us,
            report_every_us,
            delay_us: 20 * MILLI,
            jitter_us: 0,
            loss: 0.0,
            sequence: ssrc as u16,
            next_us: 0,
            next_report_us: report_every_us / 2,
            sent: 0,
        }
    }

    fn units(&self, true_us: i64) -> u32 {
        let units = true_us as f64 * (1.0 + self.ppm / 1e6) * f64::from(self.clock_rate) / 1e6;
        self.timestamp.wrapping_add(units.round() as i64 as u32)
    }
}

/// Something on its way to the server.
enum InFlight {
    Media(Vec<u8>),
    Report(Vec<u8>),
}

/// Stream time given to a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub(crate) captured_us: i64,
    pub(crate) time_us: i64,
}

impl Given {
    pub(crate) fn error_us(&self) -> i64 {
        self.time_us - self.captured_us
    }
}

/// What gives stream times.
pub(crate) enum Bridge {
    Clock(Box<CaptureClock>),
    Frames(Box<RtpToFrame>, FramesOut),
}

impl Bridge {
    /// The whole of it.
    pub(crate) fn to_frames(now: Instant) -> Self {
        let settings = RtpToFrameSettings {
            delay_max: Duration::from_millis(250),
            key_frame_interval_max: Duration::from_secs(2),
            audio_to_aac: false,
        };
        Self::Frames(Box::new(RtpToFrame::new(settings, now)), FramesOut::default())
    }

    /// Number of each piece of media and its time.
    fn packet(&mut self, now: Instant, packet: &Packet) -> Vec<(MediaKind, u64, i64)> {
        match self {
            Self::Clock(clock) => {
                let time_us = clock.time_us(&Stamp::from(packet));
                vec![(packet.track().kind(), number_of(packet.media()), time_us)]
            }
            Self::Frames(bridge, out) => {
                bridge.packet(now, packet, out);
                take(out)
            }
        }
    }

    /// Does what was due until `now`.
    fn poll(&mut self, now: Instant) -> Vec<(MediaKind, u64, i64)> {
        let Self::Frames(bridge, out) = self else { return Vec::new() };
        while let Some(due) = bridge.next_timeout().filter(|due| *due <= now) {
            bridge.poll(due, out);
        }
        take(out)
    }
}

/// Frames that came out, without headers and what fills silence.
fn take(out: &mut FramesOut) -> Vec<(MediaKind, u64, i64)> {
    let mut all = Vec::new();
    for frame in out.frames.drain(..) {
        let (kind, data) = (frame.track.kind, frame.data());
        let is_frame = matches!(frame.role, FrameRole::Key | FrameRole::Inter | FrameRole::Audio);
        let is_media = is_frame && data.len() > NUMBER_BYTES;
        if is_media && (kind == MediaKind::Video || data.starts_with(&AUDIO_HEAD)) {
            all.push((kind, number_of(data), frame.dts.millis() * MILLI));
        }
    }
    all
}

fn number_of(media: &[u8]) -> u64 {
    u64::from_be_bytes(*media.last_chunk().expect("a piece ends with its number"))
}

/// Publisher, network, stream and bridge.
pub(crate) struct World {
    pub(crate) sources: Vec<Source>,
    /// The publisher's wall clock: how much faster, and what it says at time 0.
    pub(crate) ntp_ppm: f64,
    pub(crate) ntp_shift_us: i64,
    pub(crate) bridge: Bridge,
    /// What was given last, by [`MediaKind`].
    pub(crate) last: [Option<Given>; 2],
    /// Furthest audio and video were apart since this was last asked.
    apart_us: i64,
    /// Pieces that came out, by kind.
    pub(crate) counts: [u64; 2],
    /// Smallest and largest step of stream time minus step of true time, by kind.
    steps_us: [(i64, i64); 2],
    stream: PacketStream,
    start: Instant,
    now_us: i64,
    random: Random,
    flight: BTreeMap<(i64, u64), InFlight>,
    counter: u64,
    /// When the piece with a number was captured, until it has come out.
    captured: BTreeMap<u64, i64>,
    epoch: u64,
}

pub(crate) fn audio() -> Source {
    Source::new(MediaKind::Audio, 11, 48_000, 80 * MILLI, 5 * SECOND)
}

pub(crate) fn video() -> Source {
    Source::new(MediaKind::Video, 22, 90_000, 200 * MILLI, SECOND)
}

impl World {
    pub(crate) fn new(sources: Vec<Source>) -> Self {
        let start = netsim::Clock::new().now() + Duration::from_secs(1_000_000);
        let wall = WallClock { at: start, ntp: NtpTime(0xe000_0000_0000_0000) };
        let mut world = Self {
            sources,
            ntp_ppm: 0.0,
            ntp_shift_us: 3_900_000_000 * SECOND,
            bridge: Bridge::Clock(Box::default()),
            captured: BTreeMap::new(),
            last: [None; 2],
            apart_us: 0,
            counts: [0; 2],
            steps_us: [(0, 0); 2],
            stream: PacketStream::new(Limits::default(), wall),
            start,
            now_us: 0,
            random: Random::new(7),
            flight: BTreeMap::new(),
            counter: 0,
            epoch: 0,
        };
        world.publish();
        world
    }

    /// The publisher begins, or comes back as it is now set up.
    pub(crate) fn publish(&mut self) {
        self.epoch += 1;
        self.flight.clear();
        let now_us = self.now_us;
        for source in &mut self.sources {
            source.next_us = now_us;
            source.next_report_us = now_us + source.report_every_us / 2;
        }
        let tracks = self.sources.iter().map(track).collect();
        let input =
            PublisherInput { tracks, feedback_ssrc: 1, cname: "server".to_owned(), reduced_size: true };
        self.stream.publisher_started(self.at(now_us), self.epoch, input);
    }

    /// The publisher goes and nothing happens for so long.
    pub(crate) fn gone_for(&mut self, duration_us: i64) {
        self.stream.publisher_ended(self.at(self.now_us));
        self.flight.clear();
        self.now_us += duration_us;
    }

    /// Takes the source's media off the air from now on, for so long; its reports go on.
    pub(crate) fn mute(&mut self, source: usize, duration_us: i64) {
        self.sources[source].next_us = self.now_us + duration_us;
    }

    /// No reports of the source from now on, for so long.
    pub(crate) fn report_no_more(&mut self, source: usize, duration_us: i64) {
        self.sources[source].next_report_us = self.now_us + duration_us;
    }

    /// Everything that arrives within the next `duration_us` comes at its end.
    pub(crate) fn stall(&mut self, duration_us: i64) {
        self.capture_until(self.now_us + duration_us);
        let until = self.now_us + duration_us;
        let held = self.flight.split_off(&(self.now_us, 0));
        for ((at_us, _), what) in held {
            self.send(at_us.max(until), what);
        }
        self.now_us = until;
    }

    /// Time passes.
    pub(crate) fn run(&mut self, duration_us: i64) {
        let until = self.now_us + duration_us;
        while self.now_us < until {
            // Capture runs ahead of arrival by a little, so that all that arrives is known.
            let next_us = (self.now_us + SECOND).min(until);
            self.capture_until(next_us);
            self.arrive_until(next_us);
            self.now_us = next_us;
        }
    }

    /// The largest distance of audio from picture since the last call, in milliseconds, rounded up.
    pub(crate) fn apart_ms(&mut self) -> i64 {
        let apart_us = std::mem::take(&mut self.apart_us);
        (apart_us + MILLI - 1) / MILLI
    }

    /// How much stream time stepped more or less than true time at worst since the last call, from piece to
    /// piece.
    pub(crate) fn steps_us(&mut self, kind: MediaKind) -> (i64, i64) {
        std::mem::take(&mut self.steps_us[usize::from(kind == MediaKind::Video)])
    }

    /// Forgets what was given: what comes next is not compared with it.
    pub(crate) fn forget(&mut self) {
        self.last = [None; 2];
        self.apart_us = 0;
        self.steps_us = [(0, 0); 2];
    }

    /// Puts another bridge in the place of the present one.
    pub(crate) fn begin_bridge(&mut self, bridge: fn(Instant) -> Bridge) {
        self.bridge = bridge(self.at(self.now_us));
        self.forget();
    }

    fn at(&self, us: i64) -> Instant {
        self.start + Duration::from_micros(us as u64)
    }

    fn ntp(&self, true_us: i64) -> NtpTime {
        let us = self.ntp_shift_us as f64 + true_us as f64 * (1.0 + self.ntp_ppm / 1e6);
        NtpTime::from_unix(Duration::from_micros(us as u64))
    }

    fn capture_until(&mut self, until_us: i64) {
        for index in 0..self.sources.len() {
            while self.sources[index].next_us < until_us {
                self.capture(index);
            }
            while self.sources[index].next_report_us < until_us {
                self.report(index);
            }
        }
    }

    fn capture(&mut self, index: usize) {
        let source = &mut self.sources[index];
        let captured_us = source.next_us;
        source.next_us += source.every_us;
        source.sequence = source.sequence.wrapping_add(1);
        source.sent += 1;
        self.counter += 1;
        self.captured.insert(self.counter, captured_us);
        let (payload_type, head) = match source.kind {
            MediaKind::Audio => (OPUS, AUDIO_HEAD.to_vec()),
            _ => (H264, picture_head()),
        };
        let fields = HeaderFields {
            marker: source.kind == MediaKind::Video,
            payload_type,
            sequence_number: source.sequence,
            timestamp: source.units(captured_us),
            ssrc: source.ssrc,
        };
        let mut bytes = vec![0; 12];
        fields.write(&[], &mut bytes);
        bytes.extend(head);
        bytes.extend(self.counter.to_be_bytes());
        let delay_us = source.delay_us + self.random.below(source.jitter_us as u64 + 1) as i64;
        let is_lost = self.random.chance(source.loss);
        if !is_lost {
            self.send(captured_us + delay_us, InFlight::Media(bytes));
        }
    }

    fn report(&mut self, index: usize) {
        let at_us = self.sources[index].next_report_us;
        let ntp = self.ntp(at_us);
        let source = &mut self.sources[index];
        source.next_report_us += source.report_every_us;
        let info =
            SenderInfo { ntp, rtp_timestamp: source.units(at_us), packets: source.sent, payload_bytes: 0 };
        let mut rtcp = Vec::new();
        SenderReport::write(&mut rtcp, source.ssrc, &info, &[]);
        let delay_us = REPORT_DELAY_US + self.random.below(source.jitter_us as u64 + 1) as i64;
        self.send(at_us + delay_us, InFlight::Report(rtcp));
    }

    fn send(&mut self, at_us: i64, what: InFlight) {
        self.counter += 1;
        self.flight.insert((at_us, self.counter), what);
    }

    fn arrive_until(&mut self, until_us: i64) {
        while self.flight.first_key_value().is_some_and(|((at_us, _), _)| *at_us < until_us) {
            let Some(((at_us, _), what)) = self.flight.pop_first() else { return };
            let now = self.at(at_us);
            match what {
                InFlight::Report(rtcp) => _ = self.stream.receive_rtcp(now, &rtcp),
                InFlight::Media(bytes) => {
                    let polled = self.bridge.poll(now);
                    self.note(polled);
                    self.stream.receive(now, &bytes).expect("it is a packet of the publisher");
                    self.give(now);
                }
            }
        }
    }

    /// Hands what has arrived to the bridge.
    fn give(&mut self, now: Instant) {
        let mut given = None;
        self.stream.take_arrivals(|packet, _| given = Some(self.bridge.packet(now, packet)));
        for kind in [MediaKind::Audio, MediaKind::Video] {
            self.stream.prepare_batch(kind);
            self.stream.finish_batch(kind);
        }
        self.note(given.expect("what was received is forwarded"));
    }

    /// Compares times that were given with those of capture.
    fn note(&mut self, pieces: Vec<(MediaKind, u64, i64)>) {
        for (kind, number, time_us) in pieces {
            let captured_us = self.captured.remove(&number).expect("a piece comes out once");
            let given = Given { captured_us, time_us };
            let which = usize::from(kind == MediaKind::Video);
            self.counts[which] += 1;
            if let Some(before) = self.last[which].replace(given) {
                let step_us = given.error_us() - before.error_us();
                let (least, most) = self.steps_us[which];
                self.steps_us[which] = (least.min(step_us), most.max(step_us));
            }
            self.compare();
        }
    }

    /// Only what was captured at about the same time can be compared: clocks may drift from each other's
    /// time.
    fn compare(&mut self) {
        let longest_us = self.sources.iter().map(|source| source.every_us).max().unwrap_or(0);
        if let [Some(audio), Some(video)] = self.last
            && (audio.captured_us - video.captured_us).abs() < 2 * longest_us
        {
            self.apart_us = self.apart_us.max((audio.error_us() - video.error_us()).abs());
        }
    }
}

fn track(source: &Source) -> TrackInput {
    let (payload_type, codec) = match source.kind {
        MediaKind::Audio => (OPUS, Codec::Opus),
        _ => (H264, Codec::H264),
    };
    TrackInput {
        kind: source.kind,
        mid: String::new(),
        payloads: vec![TrackPayload {
            payload_type,
            codec,
            clock_rate: source.clock_rate,
            rtx: None,
            red: None,
        }],
        extensions: ExtensionMap::new(),
        ssrcs: vec![(source.ssrc, None)],
        rids: Vec::new(),
        nack: false,
        pli: false,
        fir: false,
        transport_cc: false,
        remb: false,
    }
}

/// 80 ms of Opus: four frames of one size (RFC 6716 section 3.2.5).
const AUDIO_HEAD: [u8; 2] = [0x7b, 4];
const NUMBER_BYTES: usize = 8;

/// A STAP-A with parameter sets and the beginning of an IDR slice, as x264 makes them of 32x32 pixels
/// (baseline).
fn picture_head() -> Vec<u8> {
    const SPS: &[u8] = &[
        0x67, 0x42, 0xc0, 0x0a, 0xdc, 0x96, 0xc0, 0x44, 0x00, 0x00, 0x03, 0x00, 0x04, 0x00, 0x00, 0x03, 0x00,
        0xc8, 0x3c, 0x48, 0x9e,
    ];
    const PPS: &[u8] = &[0x68, 0xce, 0x0f, 0xc8];
    const SLICE: &[u8] = &[0x65, 0x88, 0x84, 0x3a, 0x26, 0x28, 0x0c, 0x9d, 0x75, 0xe0];
    let mut head = vec![0x78];
    for (unit, len) in [(SPS, SPS.len()), (PPS, PPS.len()), (SLICE, SLICE.len() + NUMBER_BYTES)] {
        head.extend((len as u16).to_be_bytes());
        head.extend(unit);
    }
    head
}

const OPUS: u8 = 111;
const H264: u8 = 96;
/// Reports are not held back by an encoder or a pacer.
const REPORT_DELAY_US: i64 = 10 * MILLI;
