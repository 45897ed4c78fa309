//! What the fuzz target of `bridge::RtpToFrame` checks: whatever packets say, and whenever they
//! come, frames can be read, times of a track never go back, memory and output stay bounded, and
//! what is due by the clock gets done.
//!
//! Input: a byte for the codecs, then packets, each behind four bytes:
//! `kind 1 | marker 1 | epoch 1 | new codec 1 | number 4 || milliseconds 8 || timestamp 8 || bytes 8`.
//! `crates/bridge/tests/bridge/fuzz_corpus.rs` includes this file and replays the kept corpus.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use bridge::clock::Stamp;
use bridge::rtp_to_frame::RtpPayload;
use bridge::{FramesOut, RtpToFrame, RtpToFrameSettings};
use media::{Codec, CodecConfig, CodedAudio, FrameRole, MediaKind, Timestamp};
use rtmp::MediaMessage;
use rtmp::flv::{TagBody, read_frames};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("rtp_to_frame", rtp_to_frame)];

const VIDEO: [Codec; 5] = [Codec::H264, Codec::H265, Codec::Vp8, Codec::Vp9, Codec::Av1];
const AUDIO: [Codec; 3] = [Codec::Opus, Codec::Pcmu, Codec::Pcma];

/// Packets to frames.
pub fn rtp_to_frame(data: &[u8]) {
    let Some((&codecs, mut rest)) = data.split_first() else { return };
    let mut harness = Harness::new(codecs);
    let mut packets = 0;
    while let Some((head, behind)) = rest.split_first_chunk::<4>() {
        let (payload, behind) = behind.split_at(behind.len().min(usize::from(head[3])));
        rest = behind;
        packets += 1;
        harness.packet(*head, payload);
    }
    harness.run_until(harness.now + Duration::from_secs(5));
    assert_eq!(harness.bridge.stats().packets, packets);
    assert!(harness.bridge.stats().late <= packets && harness.bridge.stats().broken <= 2 * packets);
}

struct Harness {
    bridge: RtpToFrame,
    out: FramesOut,
    now: Instant,
    to_aac: bool,
    codecs: [Codec; 2],
    epoch: u64,
    numbers: [u64; 2],
    timestamps: [u32; 2],
    times: [Timestamp; 2],
}

impl Harness {
    #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
    fn new(codecs: u8) -> Self {
        let now = Instant::now() + Duration::from_secs(1_000);
        let to_aac = codecs & 0x80 != 0;
        let settings = RtpToFrameSettings {
            delay_max: Duration::from_millis(250),
            key_frame_interval_max: Duration::from_secs(2),
            audio_to_aac: to_aac,
        };
        Self {
            bridge: RtpToFrame::new(settings, now),
            out: FramesOut::default(),
            now,
            to_aac,
            codecs: [AUDIO[usize::from(codecs >> 4 & 3) % 3], VIDEO[usize::from(codecs & 15) % 5]],
            epoch: 1,
            numbers: [1_000, 1_000],
            timestamps: [u32::MAX - 10_000, u32::MAX - 10_000],
            times: [Timestamp::ZERO; 2],
        }
    }

    fn packet(&mut self, head: [u8; 4], payload: &[u8]) {
        let [flags, passed_ms, timestamp, _] = head;
        let which = usize::from(flags & 0x80 != 0);
        self.run_until(self.now + Duration::from_millis(u64::from(passed_ms)));
        self.epoch += u64::from(flags & 0x20 != 0);
        if flags & 0x10 != 0 {
            self.codecs[1] = VIDEO[(payload.len() + 1) % 5];
        }
        // 0 is the next number, 1 to 7 leave a gap, the others come late or twice.
        let step = i64::from(flags & 15);
        let number = if step < 8 {
            self.numbers[which] += step as u64 + 1;
            self.numbers[which]
        } else {
            self.numbers[which].saturating_sub(step as u64 - 8)
        };
        // The upper values jump by minutes and hours, forwards and back.
        let units = match timestamp {
            0..=199 => u32::from(timestamp) * 90,
            _ => u32::from(timestamp).wrapping_mul(0x0314_5926),
        };
        self.timestamps[which] = self.timestamps[which].wrapping_add(units);
        let codec = self.codecs[which];
        let piece = RtpPayload {
            number,
            epoch: self.epoch,
            codec,
            marker: flags & 0x40 != 0,
            stamp: Stamp {
                kind: if which == 1 { MediaKind::Video } else { MediaKind::Audio },
                timestamp: self.timestamps[which],
                clock_rate: rtp::payload::clock_rate(codec),
                arrival: self.now,
                mapping: None,
            },
            media: Cow::Borrowed(payload),
        };
        self.bridge.payload(self.now, &piece, &mut self.out);
        self.look();
    }

    fn run_until(&mut self, until: Instant) {
        let mut last = None;
        while let Some(due) = self.bridge.next_timeout().filter(|due| *due <= until) {
            assert_ne!(last.replace(due), Some(due), "what is due is not done");
            self.bridge.poll(due.max(self.now), &mut self.out);
            self.look();
        }
        self.now = until;
    }

    fn look(&mut self) {
        assert!(self.out.frames.len() <= 4_096 && self.out.audio.len() <= 4_096, "output without bounds");
        self.look_at_frames();
        let mut last = 0;
        for audio in std::mem::take(&mut self.out.audio) {
            assert!(self.to_aac && audio.pts_us >= last && !audio.data.is_empty());
            last = audio.pts_us;
            // The transcoder answers at once, with silence.
            let format =
                CodecConfig { codec: Codec::Aac, record: vec![0x11, 0x90], sample_rate: 48_000, channels: 2 };
            let aac = CodedAudio {
                pts_us: audio.pts_us,
                format: audio.format.map(|_| format.into()),
                data: vec![0x21, 0x10],
            };
            self.bridge.audio(self.now, &aac, &mut self.out);
            self.look_at_frames();
        }
    }

    fn look_at_frames(&mut self) {
        for frame in self.out.frames.drain(..) {
            let kind = frame.track.kind;
            let slot = match kind {
                MediaKind::Audio => Some(0),
                MediaKind::Video => Some(1),
                MediaKind::Data => None,
            };
            let body = TagBody::of(&frame).expect("a body").parts().concat();
            let length = body.len() as u32;
            let message = MediaMessage { kind, timestamp: 0, length, payload: body };
            let (read, _) = read_frames(message).expect("a body that can be read");
            assert_eq!(frame.role, read.role);
            if let Some(slot) = slot {
                let is_config = frame.role == FrameRole::Config;
                assert!(frame.dts >= self.times[slot] || is_config, "time goes back to {:?}", frame.dts);
                self.times[slot] = frame.dts;
            }
        }
    }
}
