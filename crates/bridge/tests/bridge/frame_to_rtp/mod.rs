//! RTMP frames to RTP packets: what viewers get of each codec, what is handed to the transcoder, and what
//! becomes of frames that make no sense.

mod audio;
mod av1;
mod b_frames;
mod broken_input;
mod demo_file;
mod formats;
mod h265;
mod hand_over;
mod times;
mod track_ends;
mod vp;

use std::time::{Duration, Instant};

use bridge::{AUDIO_SSRC, BFrames, FrameToRtp, FrameToRtpSettings, PacketsOut, VIDEO_SSRC, payload_type};
use media::{CodedAudio, Frame, Timestamp};
use rtmp::MediaMessage;
use rtmp::flv::read_frames;
use rtp::depacketize::Depacketizer;
use rtp::extension::ExtensionMap;
use rtp::payload::MediaKind;
use rtp::rtcp::NtpTime;
use sfu::{Limits, PacketStream, PublisherInput, TrackInput, TrackPayload, WallClock};

pub(crate) const PAYLOAD_BYTES_MAX: usize = 1_160;

pub(crate) fn settings() -> FrameToRtpSettings {
    FrameToRtpSettings { b_frames: BFrames::Drop, payload_bytes_max: PAYLOAD_BYTES_MAX }
}

pub(crate) fn start() -> Instant {
    netsim::Clock::new().now() + Duration::from_secs(1_000_000)
}

/// An access unit, or an audio frame, as its packets have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) timestamp: u32,
    pub(crate) data: Vec<u8>,
    /// Bytes of each payload.
    pub(crate) sizes: Vec<usize>,
    /// The first payload.
    pub(crate) first: Vec<u8>,
    pub(crate) marker: bool,
}

/// A bridge, and a stream of packets that gets all it makes.
pub(crate) struct Rig {
    pub(crate) bridge: FrameToRtp,
    pub(crate) start: Instant,
    pub(crate) out: PacketsOut,
    pub(crate) audio_jobs: Vec<CodedAudio>,
    /// Tag bodies that no frame can be made of.
    unreadable: u64,
    formats_changed: bool,
    warning: Option<&'static str>,
    stream: PacketStream,
    sequence: [Option<u16>; 2],
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(settings())
    }

    pub(crate) fn with(settings: FrameToRtpSettings) -> Self {
        let start = start();
        let wall = WallClock { at: start, ntp: NtpTime(0xe000_0000_0000_0000) };
        let mut stream = PacketStream::new(Limits::default(), wall);
        stream.publisher_started(start, 1, publisher());
        Self {
            bridge: FrameToRtp::new(settings, start),
            start,
            out: PacketsOut::default(),
            audio_jobs: Vec::new(),
            unreadable: 0,
            formats_changed: false,
            warning: None,
            stream,
            sequence: [None; 2],
        }
    }

    pub(crate) fn at(&self, time_ms: u64) -> Instant {
        self.start + Duration::from_millis(time_ms)
    }

    /// What viewers get of a video tag with this body, which comes at its time.
    pub(crate) fn video(&mut self, time_ms: u64, body: &[u8]) -> Vec<Sent> {
        self.frame(time_ms, MediaKind::Video, body)
    }

    /// What viewers get of an audio tag with this body, which comes at its time.
    pub(crate) fn audio(&mut self, time_ms: u64, body: &[u8]) -> Vec<Sent> {
        self.frame(time_ms, MediaKind::Audio, body)
    }

    fn frame(&mut self, time_ms: u64, kind: MediaKind, body: &[u8]) -> Vec<Sent> {
        let frames = frames(kind, body);
        self.unreadable += u64::from(frames.is_empty());
        for frame in frames {
            self.bridge.frame(self.at(time_ms), time(time_ms), &frame, &mut self.out);
        }
        self.take(time_ms)
    }

    /// What viewers get of an Opus packet from the transcoder.
    pub(crate) fn transcoded(&mut self, time_ms: u64, audio: &CodedAudio) -> Vec<Sent> {
        self.bridge.audio(self.at(time_ms), audio, &mut self.out);
        self.take(time_ms)
    }

    /// Takes the packets and looks at what every one of them must be.
    fn take(&mut self, time_ms: u64) -> Vec<Sent> {
        let now = self.at(time_ms);
        let mut all = Vec::new();
        let mut under_way: Option<(Depacketizer, Sent)> = None;
        for (packet, payload, is_key) in self.out.packets() {
            let is_video = packet.ssrc == VIDEO_SSRC;
            assert!(is_video || packet.ssrc == AUDIO_SSRC);
            let last = self.sequence[usize::from(is_video)].replace(packet.sequence_number);
            assert!(
                last.is_none_or(|last| last.wrapping_add(1) == packet.sequence_number),
                "a number is missing"
            );
            self.stream.receive_packet(now, packet, payload, is_key).expect("the stream takes it");
            let codec = rtp::payload::CODECS
                .into_iter()
                .find(|codec| payload_type(*codec) == packet.payload_type)
                .unwrap();
            assert_eq!(codec.kind() == MediaKind::Video, is_video);
            let (depacketizer, sent) = under_way.get_or_insert_with(|| {
                let sent = Sent {
                    timestamp: packet.timestamp,
                    data: Vec::new(),
                    sizes: Vec::new(),
                    first: payload.to_vec(),
                    marker: false,
                };
                (Depacketizer::new(codec), sent)
            });
            assert_eq!(sent.timestamp, packet.timestamp, "a frame has one timestamp");
            depacketizer.push(payload).unwrap();
            sent.sizes.push(payload.len());
            sent.marker = packet.marker;
            if packet.marker || !is_video {
                let (mut depacketizer, mut sent) = under_way.take().unwrap();
                sent.data = depacketizer.finish().unwrap().to_vec();
                all.push(sent);
            }
        }
        assert!(under_way.is_none(), "a picture without its end");
        self.audio_jobs.append(&mut self.out.audio);
        self.take_changes();
        self.out.clear();
        self.stream.take_arrivals(|_, _| {});
        for kind in [MediaKind::Audio, MediaKind::Video] {
            self.stream.prepare_batch(kind);
            self.stream.finish_batch(kind);
        }
        all
    }

    fn take_changes(&mut self) {
        self.formats_changed |= std::mem::take(&mut self.out.formats_changed);
        self.warning = self.warning.or(self.out.warning.take());
    }

    /// Whether the formats have changed since this was asked.
    pub(crate) fn take_formats_change(&mut self) -> bool {
        self.take_changes();
        std::mem::take(&mut self.formats_changed)
    }

    /// The warning that has come since this was asked.
    pub(crate) fn take_warning(&mut self) -> Option<&'static str> {
        self.take_changes();
        self.warning.take()
    }

    pub(crate) fn broken(&self) -> u64 {
        self.bridge.stats().broken + self.unreadable
    }
}

/// Frames of a tag; none if it cannot be read.
pub(crate) fn frames(kind: MediaKind, body: &[u8]) -> Vec<Frame> {
    let message = MediaMessage { kind, timestamp: 0, length: body.len() as u32, payload: body.to_vec() };
    let Ok((first, others)) = read_frames(message) else { return Vec::new() };
    std::iter::once(first).chain(others).collect()
}

/// Stream time.
pub(crate) fn time(time_ms: u64) -> Timestamp {
    Timestamp::from_millis(i64::try_from(time_ms).unwrap_or(i64::MAX))
}

/// The publisher that a bridge is.
fn publisher() -> PublisherInput {
    let track = |kind, ssrc| TrackInput {
        kind,
        mid: String::new(),
        payloads: rtp::payload::CODECS
            .into_iter()
            .filter(|codec| codec.kind() == kind)
            .map(|codec| TrackPayload {
                payload_type: payload_type(codec),
                codec,
                clock_rate: rtp::payload::clock_rate(codec),
                rtx: None,
                red: None,
            })
            .collect(),
        extensions: ExtensionMap::default(),
        ssrcs: vec![(ssrc, None)],
        rids: Vec::new(),
        nack: false,
        pli: false,
        fir: false,
        transport_cc: false,
        remb: false,
    };
    PublisherInput {
        tracks: vec![track(MediaKind::Video, VIDEO_SSRC), track(MediaKind::Audio, AUDIO_SSRC)],
        feedback_ssrc: 9,
        cname: "bridge".to_owned(),
        reduced_size: true,
    }
}

/// Audio and video tags of `media/demo.flv`: x264 without B-frames, and AAC.
pub(crate) fn demo_tags() -> Vec<(u64, MediaKind, Vec<u8>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../media/demo.flv");
    flv_tags(&std::fs::read(path).unwrap())
}

/// Audio and video tags of an FLV file, with their times in milliseconds.
pub(crate) fn flv_tags(file: &[u8]) -> Vec<(u64, MediaKind, Vec<u8>)> {
    let mut rest = &file[13..];
    let mut tags = Vec::new();
    while let Some((head, behind)) = rest.split_first_chunk::<11>() {
        let len = u32::from_be_bytes([0, head[1], head[2], head[3]]) as usize;
        let time_ms = u64::from(u32::from_be_bytes([head[7], head[4], head[5], head[6]]));
        let track = match head[0] {
            8 => MediaKind::Audio,
            9 => MediaKind::Video,
            _ => MediaKind::Data,
        };
        tags.push((time_ms, track, behind[..len].to_vec()));
        rest = &behind[len + 4..];
    }
    // Nor the end, behind which nothing is offered any more.
    tags.retain(|(_, track, body)| *track != MediaKind::Data && body[..2] != [0x17, 2] && body[0] != 0x92);
    tags
}

/// NAL units behind lengths of four bytes.
pub(crate) fn units(mut frame: &[u8]) -> Vec<&[u8]> {
    let mut units = Vec::new();
    while let Some((len, rest)) = frame.split_first_chunk() {
        let (unit, rest) = rest.split_at(u32::from_be_bytes(*len) as usize);
        units.push(unit);
        frame = rest;
    }
    units
}
