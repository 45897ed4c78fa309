//! An RTMP publisher with clocks of its own, the server's two lanes with a bridge between them, and a
//! browser.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bridge::{BFrames, FrameToRtp, FrameToRtpSettings, PacketsOut, payload_type};
use delivery::{GopLimits, Stream};
use media::{Frame, Timestamp};
use netsim::Random;
use rtmp::MediaMessage;
use rtmp::flv::read_frames;
use rtp::extension::{ExtensionMap, Form};
use rtp::payload::{Codec, MediaKind};
use rtp::rtcp::NtpTime;
use sfu::{
    HEADER_LEN_MAX, Limits, PacketStream, PublisherInput, TrackIndex, TrackInput, TrackPayload, ViewerId,
    ViewerInput, ViewerPayload, ViewerTrackInput, WallClock, plain_outlet,
};

use crate::lip_sync::browser::Browser;

pub(crate) const MILLI: i64 = 1_000;
pub(crate) const SECOND: i64 = 1_000_000;
pub(crate) const HOUR: i64 = 3_600 * SECOND;

/// SSRCs of the viewer.
pub(crate) const AUDIO_SSRC: u32 = 0x1001;
pub(crate) const VIDEO_SSRC: u32 = 0x1002;

/// 80 ms of Opus: four frames of one size (RFC 6716 section 3.2.5).
const AUDIO_HEAD: [u8; 2] = [0x7b, 4];
const AUDIO_US: i64 = 80 * MILLI;

/// What the publisher's clocks do. Times in microseconds.
pub(crate) struct Publisher {
    /// How much faster than real time its timestamps run.
    pub(crate) ppm: f64,
    /// How much faster its audio card takes samples.
    pub(crate) audio_ppm: f64,
    /// Its timestamp at time 0.
    pub(crate) shift_us: i64,
    pub(crate) picture_us: i64,
    /// Pictures from one key frame to the next.
    pub(crate) gop: u32,
    /// Capture to arrival, at least and up to so much more. TCP keeps the order.
    pub(crate) delay_us: i64,
    pub(crate) jitter_us: i64,
    next_us: [i64; 2],
    pictures: u32,
    arrived_us: i64,
}

pub(crate) struct World {
    pub(crate) publisher: Publisher,
    pub(crate) browser: Browser,
    bridge: Option<Box<FrameToRtp>>,
    frames: Stream,
    packets: PacketStream,
    start: Instant,
    now_us: i64,
    flight: BTreeMap<(i64, u64), Frame>,
    captured: BTreeMap<u64, i64>,
    counter: u64,
    epoch: u64,
    viewer: Option<ViewerId>,
    /// Pieces captured before this are not compared: they come squeezed, out of the cache.
    compare_from_us: i64,
    random: Random,
    out: PacketsOut,
}

impl World {
    /// A publisher has begun; nobody watches.
    pub(crate) fn new() -> Self {
        let start = netsim::Clock::new().now() + Duration::from_secs(1_000_000);
        let wall = WallClock { at: start, ntp: NtpTime(0xe000_0000_0000_0000) };
        let limits = GopLimits { enabled: true, bytes_max: 1 << 20, duration_ms_max: 10_000 };
        let publisher = Publisher {
            ppm: 0.0,
            audio_ppm: 0.0,
            shift_us: 0,
            picture_us: 200 * MILLI,
            gop: 10,
            delay_us: 30 * MILLI,
            jitter_us: 20 * MILLI,
            next_us: [0; 2],
            pictures: 0,
            arrived_us: 0,
        };
        let mut world = Self {
            publisher,
            browser: Browser::default(),
            bridge: None,
            frames: Stream::new(limits, 0),
            packets: PacketStream::new(Limits::default(), wall),
            start,
            now_us: 0,
            flight: BTreeMap::new(),
            captured: BTreeMap::new(),
            counter: 0,
            epoch: 0,
            viewer: None,
            compare_from_us: 0,
            random: Random::new(3),
            out: PacketsOut::default(),
        };
        world.publish();
        world
    }

    /// The publisher begins, or comes back as it is now set up.
    pub(crate) fn publish(&mut self) {
        self.frames.publisher_started();
        self.publisher.next_us = [self.now_us; 2];
        self.publisher.pictures = 0;
        self.flight.clear();
        for (kind, body) in [(MediaKind::Video, video_config()), (MediaKind::Audio, audio_config())] {
            self.counter += 1;
            let frame = frame(kind, 0, body);
            self.flight.insert((self.now_us, self.counter), frame);
        }
    }

    /// The publisher goes, its bridge ends, and nothing happens for so long.
    pub(crate) fn gone_for(&mut self, duration_us: i64) {
        self.end_bridge();
        self.flight.clear();
        self.wait(duration_us);
    }

    /// A bridge begins, with what the stream of frames has kept, as a worker feeds it.
    pub(crate) fn begin_bridge(&mut self) {
        self.epoch += 1;
        let now = self.at(self.now_us);
        let input = PublisherInput {
            tracks: vec![
                track(MediaKind::Audio, bridge::AUDIO_SSRC),
                track(MediaKind::Video, bridge::VIDEO_SSRC),
            ],
            feedback_ssrc: 1,
            cname: "server".to_owned(),
            reduced_size: true,
        };
        self.packets.publisher_started(now, self.epoch, input);
        let settings = FrameToRtpSettings { b_frames: BFrames::Drop, payload_bytes_max: 1_180 };
        self.bridge = Some(Box::new(FrameToRtp::new(settings, now)));
        let cached: Vec<_> = self.frames.gop().frames().cloned().collect();
        let headers = if cached.is_empty() { self.frames.headers() } else { self.frames.entry_headers() };
        let begin = cached.first().map_or(Timestamp::ZERO, |(time, _)| *time);
        let headers: Vec<_> = headers.iter().map(|header| (begin, Arc::clone(header))).collect();
        for (time, frame) in
            headers.iter().chain(cached.iter().filter(|(_, frame)| frame.track.kind != MediaKind::Audio))
        {
            self.cross(*time, frame);
        }
        self.settle();
    }

    pub(crate) fn end_bridge(&mut self) {
        self.bridge = None;
        self.packets.publisher_ended(self.at(self.now_us));
    }

    pub(crate) fn join(&mut self) {
        let track = |kind, ssrc, codec| ViewerTrackInput {
            track: TrackIndex::new(kind, 0).expect("there is a first track"),
            ssrc,
            rtx_ssrc: None,
            mid: String::new(),
            payloads: vec![ViewerPayload { codec, payload_type: payload_type(codec), rtx: None, red: None }],
            extensions: ExtensionMap::new(),
            form: Form::Either,
            fec: None,
            nack: true,
        };
        let input = ViewerInput {
            token: 1,
            cname: "stream".to_owned(),
            tracks: vec![
                track(MediaKind::Audio, AUDIO_SSRC, Codec::Opus),
                track(MediaKind::Video, VIDEO_SSRC, Codec::H264),
            ],
        };
        self.browser = Browser::default();
        self.compare_from_us = self.now_us;
        self.viewer = Some(self.packets.join(self.at(self.now_us), &input).expect("there is room"));
        self.settle();
    }

    pub(crate) fn leave(&mut self) {
        self.packets.leave(self.viewer.take().expect("there is a viewer"));
    }

    /// Time passes.
    pub(crate) fn run(&mut self, duration_us: i64) {
        let until_us = self.now_us + duration_us;
        while self.now_us < until_us {
            let next_us = (self.now_us + SECOND).min(until_us);
            self.capture_until(next_us);
            while let Some((&(at_us, _), _)) =
                self.flight.first_key_value().filter(|((at_us, _), _)| *at_us < next_us)
            {
                self.wait_until(at_us);
                while let Some(first) = self.flight.first_entry().filter(|first| first.key().0 == at_us) {
                    let frame = Arc::new(first.remove());
                    self.arrive(&frame);
                }
                self.settle();
            }
            self.wait_until(next_us);
        }
    }

    /// Nothing of the publisher arrives for so long, and what it sent meanwhile comes at the end.
    pub(crate) fn stall(&mut self, duration_us: i64) {
        let until_us = self.now_us + duration_us;
        self.capture_until(until_us);
        for ((at_us, number), frame) in std::mem::take(&mut self.flight) {
            self.flight.insert((at_us.max(until_us), number), frame);
        }
        self.publisher.arrived_us = until_us;
        self.wait_until(until_us);
    }

    fn wait(&mut self, duration_us: i64) {
        self.wait_until(self.now_us + duration_us);
    }

    /// What falls due until then is done when it is due.
    fn wait_until(&mut self, until_us: i64) {
        let until = self.at(until_us);
        let due = |world: &Self| {
            let bridge = world.bridge.as_ref().and_then(|bridge| bridge.next_timeout());
            netsim::earliest([bridge, world.packets.next_timeout()]).filter(|due| *due <= until)
        };
        while let Some(at) = due(self) {
            self.now_us = self.now_us.max((at - self.start).as_micros() as i64 + 1).min(until_us);
            self.settle();
            if self.now_us == until_us {
                return;
            }
        }
        self.now_us = until_us;
    }

    fn at(&self, us: i64) -> Instant {
        self.start + Duration::from_micros(us as u64)
    }

    fn capture_until(&mut self, until_us: i64) {
        // In the order of capture, as publishers interleave.
        loop {
            let [audio_us, video_us] = self.publisher.next_us;
            match audio_us.min(video_us) {
                next_us if next_us >= until_us => break,
                next_us if next_us == audio_us => self.capture(0, MediaKind::Audio),
                _ => self.capture(1, MediaKind::Video),
            }
        }
        // Both come by one connection.
        let mut arrived_us = self.publisher.arrived_us;
        for ((sent_us, number), frame) in std::mem::take(&mut self.flight) {
            arrived_us = arrived_us.max(sent_us);
            self.flight.insert((arrived_us, number), frame);
        }
        self.publisher.arrived_us = arrived_us;
    }

    fn capture(&mut self, at: usize, kind: MediaKind) {
        let publisher = &mut self.publisher;
        let captured_us = publisher.next_us[at];
        let time_us = publisher.shift_us + (captured_us as f64 * (1.0 + publisher.ppm / 1e6)) as i64;
        self.counter += 1;
        self.captured.insert(self.counter, captured_us);
        let mut payload = match kind {
            MediaKind::Audio => {
                publisher.next_us[at] += (AUDIO_US as f64 / (1.0 + publisher.audio_ppm / 1e6)) as i64;
                [&b"\x91Opus"[..], &AUDIO_HEAD].concat()
            }
            _ => {
                publisher.next_us[at] += publisher.picture_us;
                let is_key = publisher.pictures.is_multiple_of(publisher.gop);
                publisher.pictures += 1;
                // All are coded alike; what the container says decides where players begin.
                picture(is_key)
            }
        };
        payload.extend(self.counter.to_be_bytes());
        let delay_us = publisher.delay_us + self.random.below(publisher.jitter_us as u64 + 1) as i64;
        let frame = frame(kind, time_us.div_euclid(MILLI) as u32, payload);
        self.flight.insert((captured_us + delay_us, self.counter), frame);
    }

    fn arrive(&mut self, frame: &Arc<Frame>) {
        let now_ms = (self.now_us / MILLI) as u64;
        if let Some(received) = self.frames.receive(now_ms, frame) {
            self.cross(received.time, frame);
        }
    }

    /// A frame goes through the bridge, and its packets into their stream.
    fn cross(&mut self, time: Timestamp, frame: &Frame) {
        let now = self.at(self.now_us);
        let Some(bridge) = &mut self.bridge else { return };
        bridge.frame(now, time, frame, &mut self.out);
        assert!(self.out.audio.is_empty(), "Opus needs no transcoder");
        for (fields, payload, is_key) in self.out.packets() {
            self.packets.receive_packet(now, fields, payload, is_key).expect("the bridge is the publisher");
        }
        self.out.clear();
        assert_eq!(bridge.stats().broken, 0);
    }

    /// The end of a turn of the worker's loop.
    fn settle(&mut self) {
        let now = self.at(self.now_us);
        let mut rtcp = Vec::new();
        let mappings = self.bridge.as_mut().map(|bridge| bridge.report(now)).unwrap_or_default();
        for (kind, mapping) in [(MediaKind::Video, mappings.video), (MediaKind::Audio, mappings.audio)] {
            if let (Some(track), Some(mapping)) = (TrackIndex::new(kind, 0), mapping) {
                self.packets.set_clock(track, mapping);
            }
        }
        let (captured, browser, from_us) = (&self.captured, &mut self.browser, self.compare_from_us);
        let mut sent = |_: u64, header: &[u8], payload: &[u8]| {
            let bytes = [header, payload].concat();
            let packet = rtp::Packet::parse(&bytes).expect("it is RTP");
            let number = packet.payload().last_chunk().map(|number| u64::from_be_bytes(*number));
            let captured_us = number.and_then(|number| captured.get(&number));
            browser.packet(&packet, captured_us.copied().filter(|captured_us| *captured_us >= from_us));
        };
        let mut header = [0; HEADER_LEN_MAX];
        self.packets.take_arrivals(|_, _| {});
        for kind in [MediaKind::Audio, MediaKind::Video] {
            let mut batch = self.packets.prepare_batch(kind);
            while let Some((viewer, packets)) = batch.next_viewer() {
                for at in 0..packets.len() {
                    if let Some(len) = viewer.header_for(packets, at, None, &mut header) {
                        sent(viewer.token(), &header[..len], viewer.payload(packets, at));
                    }
                }
            }
            self.packets.finish_batch(kind);
        }
        self.packets.send_backlog(
            now,
            usize::MAX,
            &mut plain_outlet(|token, _, header, payload| sent(token, header, payload)),
        );
        self.packets.send_reports(now, |_, rtcp| self.browser.rtcp(rtcp));
        self.packets.poll_feedback(now, &mut rtcp);
        if self.captured.len() > CAPTURED_MAX {
            self.captured = self.captured.split_off(&(self.counter - CAPTURED_MAX as u64 / 2));
        }
    }
}

fn track(kind: MediaKind, ssrc: u32) -> TrackInput {
    let codecs = rtp::payload::CODECS.into_iter().filter(|codec| codec.kind() == kind);
    let payload = |codec: Codec| TrackPayload {
        payload_type: payload_type(codec),
        codec,
        clock_rate: rtp::payload::clock_rate(codec),
        rtx: None,
        red: None,
    };
    TrackInput {
        kind,
        mid: String::new(),
        payloads: codecs.map(payload).collect(),
        extensions: ExtensionMap::new(),
        ssrcs: vec![(ssrc, None)],
        rids: Vec::new(),
        nack: false,
        pli: false,
        fir: false,
        transport_cc: false,
        remb: false,
    }
}

/// Parameter sets and the beginning of an IDR slice as x264 makes them of 32x32 pixels (baseline).
const SPS: &[u8] = &[
    0x67, 0x42, 0xc0, 0x0a, 0xdc, 0x96, 0xc0, 0x44, 0x00, 0x00, 0x03, 0x00, 0x04, 0x00, 0x00, 0x03, 0x00,
    0xc8, 0x3c, 0x48, 0x9e,
];
const PPS: &[u8] = &[0x68, 0xce, 0x0f, 0xc8];
const SLICE: &[u8] = &[0x65, 0x88, 0x84, 0x3a, 0x26, 0x28, 0x0c, 0x9d, 0x75, 0xe0];

/// AVC sequence header.
fn video_config() -> Vec<u8> {
    let mut body = vec![0x17, 0, 0, 0, 0, 1, SPS[1], SPS[2], SPS[3], 0xff, 0xe1];
    body.extend((SPS.len() as u16).to_be_bytes());
    body.extend(SPS);
    body.push(1);
    body.extend((PPS.len() as u16).to_be_bytes());
    body.extend(PPS);
    body
}

/// A picture; its number follows.
fn picture(is_key: bool) -> Vec<u8> {
    let mut body = vec![if is_key { 0x17 } else { 0x27 }, 1, 0, 0, 0];
    body.extend((SLICE.len() as u32 + 8).to_be_bytes());
    body.extend(SLICE);
    body
}

fn audio_config() -> Vec<u8> {
    let mut body = b"\x90Opus".to_vec();
    body.extend(media::config::opus_head(2));
    body
}

/// Pieces whose time of capture is remembered.
const CAPTURED_MAX: usize = 4_000;

fn frame(kind: MediaKind, timestamp: u32, payload: Vec<u8>) -> Frame {
    let message = MediaMessage { kind, timestamp, length: payload.len() as u32, payload };
    read_frames(message).expect("a body that can be read").0
}
