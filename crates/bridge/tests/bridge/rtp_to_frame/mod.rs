//! RTP packets of a WebRTC publisher to FLV frames: order, configurations, key frames, audio without holes,
//! and what becomes of packets that make no sense.

mod bad_input;
mod demo_file;
mod disorder;
mod key_frames;
mod loss;
mod new_headers;
mod real_encoders;
mod reordered_pictures;
mod silence;
mod startup_gate;
mod transcoded_audio;

use std::borrow::Cow;
use std::time::{Duration, Instant};

use bridge::clock::Stamp;
use bridge::rtp_to_frame::RtpPayload;
use bridge::{FramesOut, RtpToFrame, RtpToFrameSettings};
use media::{Codec, CodedAudio, Frame, FrameRole, MediaKind};
use rtmp::MediaMessage;
use rtmp::flv::{TagBody, read_frames};

pub(crate) const DELAY_MAX: Duration = Duration::from_millis(250);

/// A key frame of VP8, 320x240, and a frame that is none, as packets of one piece.
pub(crate) const VP8_KEY: [u8; 12] = [0x10, 0x50, 0x10, 0, 0x9d, 1, 0x2a, 0x40, 1, 0xf0, 0, 7];
pub(crate) const VP8_INTER: [u8; 4] = [0x10, 0x51, 2, 3];

/// A packet of Opus, 20 ms.
pub(crate) const OPUS: [u8; 5] = [0x78, 1, 2, 3, 4];

pub(crate) fn settings() -> RtpToFrameSettings {
    RtpToFrameSettings {
        delay_max: DELAY_MAX,
        key_frame_interval_max: Duration::from_secs(2),
        audio_to_aac: false,
    }
}

/// A frame as RTMP and FLV outputs write it.
#[derive(Clone, Debug)]
pub(crate) struct Tag {
    pub(crate) track: MediaKind,
    pub(crate) role: FrameRole,
    pub(crate) timestamp: u32,
    pub(crate) payload: Vec<u8>,
    /// What its reader makes of it.
    read: Frame,
}

/// A bridge and all that has come out of it.
pub(crate) struct Rig {
    pub(crate) bridge: RtpToFrame,
    pub(crate) start: Instant,
    pub(crate) frames: Vec<Tag>,
    pub(crate) audio_jobs: Vec<CodedAudio>,
    /// When key frames were asked for, in milliseconds.
    pub(crate) asked_ms: Vec<u64>,
    pub(crate) video: Codec,
    pub(crate) audio: Codec,
    pub(crate) epoch: u64,
    /// Number of the next packet of audio and of video.
    pub(crate) numbers: [u64; 2],
    out: FramesOut,
}

impl Rig {
    pub(crate) fn new(video: Codec) -> Self {
        Self::with(video, settings())
    }

    pub(crate) fn with(video: Codec, settings: RtpToFrameSettings) -> Self {
        let mut rig = Self::that_opens(video, settings);
        rig.bridge = rig.bridge.beginning_at_once();
        rig
    }

    /// Holds the beginning back as players need it.
    pub(crate) fn that_opens(video: Codec, settings: RtpToFrameSettings) -> Self {
        let start = netsim::Clock::new().now();
        Self {
            bridge: RtpToFrame::new(settings, start),
            start,
            frames: Vec::new(),
            audio_jobs: Vec::new(),
            asked_ms: Vec::new(),
            video,
            audio: Codec::Opus,
            epoch: 1,
            numbers: [100, 5_000],
            out: FramesOut::default(),
        }
    }

    pub(crate) fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    /// A packet of video captured at `ms` arrives at once; `marker` ends the frame.
    pub(crate) fn video(&mut self, ms: u64, payload: &[u8], marker: bool) {
        let number = self.take_number(MediaKind::Video);
        self.arrive(ms, MediaKind::Video, number, ms, payload, marker);
    }

    /// A packet of audio captured at `ms` arrives at once.
    pub(crate) fn audio(&mut self, ms: u64, payload: &[u8]) {
        let number = self.take_number(MediaKind::Audio);
        self.arrive(ms, MediaKind::Audio, number, ms, payload, false);
    }

    /// The number of the next packet; without one that arrives, it is lost or late.
    pub(crate) fn take_number(&mut self, kind: MediaKind) -> u64 {
        let number = &mut self.numbers[usize::from(kind == MediaKind::Video)];
        *number += 1;
        *number - 1
    }

    /// A packet captured at `captured_ms` arrives at `ms`, after everything that was due until then.
    pub(crate) fn arrive(
        &mut self,
        ms: u64,
        kind: MediaKind,
        number: u64,
        captured_ms: u64,
        payload: &[u8],
        marker: bool,
    ) {
        self.run_until(ms);
        let codec = if kind == MediaKind::Video { self.video } else { self.audio };
        let piece = RtpPayload {
            number,
            epoch: self.epoch,
            codec,
            marker,
            stamp: Stamp {
                kind,
                timestamp: (captured_ms * u64::from(rtp::payload::clock_rate(codec)) / 1_000) as u32,
                clock_rate: rtp::payload::clock_rate(codec),
                arrival: self.at(ms),
                mapping: None,
            },
            media: Cow::Borrowed(payload),
        };
        self.bridge.payload(self.at(ms), &piece, &mut self.out);
        self.take(ms);
    }

    /// Lets time pass.
    pub(crate) fn run_until(&mut self, ms: u64) {
        while let Some(due) = self.bridge.next_timeout().filter(|due| *due <= self.at(ms)) {
            self.bridge.poll(due, &mut self.out);
            let due_ms = due.saturating_duration_since(self.start).as_millis() as u64;
            self.take(due_ms);
            assert_ne!(self.bridge.next_timeout(), Some(due), "what was due is done");
        }
    }

    /// An audio frame comes from the transcoder.
    pub(crate) fn transcoded(&mut self, ms: u64, audio: &CodedAudio) {
        self.bridge.audio(self.at(ms), audio, &mut self.out);
        self.take(ms);
    }

    fn take(&mut self, ms: u64) {
        self.frames.extend(self.out.frames.drain(..).map(|frame| {
            let (kind, timestamp) = (frame.track.kind, frame.dts.millis() as u32);
            let payload = TagBody::of(&frame).expect("a body").parts().concat();
            let (length, body) = (payload.len() as u32, payload.clone());
            let (read, _) = read_frames(MediaMessage { kind, timestamp, length, payload: body })
                .expect("a body that can be read");
            Tag { track: kind, role: frame.role, timestamp, payload, read }
        }));
        self.audio_jobs.append(&mut self.out.audio);
        if std::mem::take(&mut self.out.key_frame_wanted) {
            self.asked_ms.push(ms);
        }
    }

    /// Frames of a track in one role.
    pub(crate) fn of(&self, track: MediaKind, role: FrameRole) -> Vec<&Tag> {
        self.frames.iter().filter(|frame| (frame.track, frame.role) == (track, role)).collect()
    }

    /// Pictures: whether a key frame, stream time, coded data.
    pub(crate) fn pictures(&self) -> Vec<(bool, u32, &[u8])> {
        let of_video = self.frames.iter().filter(|frame| frame.track == MediaKind::Video);
        of_video
            .map(|frame| (frame, body(frame)))
            .filter(|(_, body)| body.role != FrameRole::Config)
            .map(|(frame, body)| (body.is_key(), frame.timestamp, body.data()))
            .collect()
    }

    /// Stream times of audio frames, and their coded data.
    pub(crate) fn audio_frames(&self) -> Vec<(u32, &[u8])> {
        self.of(MediaKind::Audio, FrameRole::Audio)
            .into_iter()
            .map(|frame| (frame.timestamp, body(frame).data()))
            .collect()
    }
}

/// What a frame's body says, which must agree with the frame's role.
pub(crate) fn body(frame: &Tag) -> &Frame {
    assert_eq!((frame.read.track.kind, frame.read.role), (frame.track, frame.role));
    &frame.read
}

/// NAL units behind sizes of four bytes, as (type of H.264, unit).
pub(crate) fn units(mut frame: &[u8]) -> Vec<(u8, &[u8])> {
    let mut units = Vec::new();
    while let Some((len, rest)) = frame.split_first_chunk() {
        let (unit, rest) = rest.split_at(u32::from_be_bytes(*len) as usize);
        units.push((unit[0] & 0x1f, unit));
        frame = rest;
    }
    units
}
