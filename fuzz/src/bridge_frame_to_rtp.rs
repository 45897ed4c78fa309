//! What the fuzz targets of `bridge::FrameToRtp` check: whatever tags a publisher sends, and whatever
//! another process says of where the bridge was, viewers get RTP that can be reassembled, numbered
//! without gaps, no longer than allowed, and each video frame has its own timestamp.
//!
//! ```text
//!  handed_bridge alone: | bytes 16 | where it was, MessagePack |
//!
//!  | kind 8 | milliseconds since the last 8 | bytes 16 | tag body |  ...
//!  kind: 0 video, 1 audio, 2 Opus of the transcoder, 4 audio is refused, 5 video and 6 audio is over;
//!        +128: hours later
//! ```
//! `crates/bridge/tests/bridge/fuzz_corpus.rs` includes this file and replays the kept corpus.

use std::time::{Duration, Instant};

use bridge::{
    AUDIO_SSRC, BFrames, FrameToRtp, FrameToRtpSettings, FrameToRtpState, PacketsOut, VIDEO_SSRC,
    payload_type,
};
use media::{CodedAudio, MediaKind, Timestamp};
use rtmp::MediaMessage;
use rtmp::flv::read_frames;
use rtp::depacketize::Depacketizer;
use rtp::payload::inspect;

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("frame_to_rtp", frame_to_rtp), ("handed_bridge", handed_bridge)];

/// Tags of a stream.
pub fn frame_to_rtp(data: &[u8]) {
    let (settings, start) = (settings(data), start());
    watch_tags(FrameToRtp::new(settings, start), start, data);
}

/// Tags of a stream that goes on in another process.
pub fn handed_bridge(data: &[u8]) {
    let Some((&length, behind)) = data.split_first_chunk() else { return };
    let Some((state, tags)) = behind.split_at_checked(u16::from_be_bytes(length).into()) else { return };
    let Ok(state) = rmp_serde::from_slice::<FrameToRtpState>(state) else { return };
    let start = start();
    watch_tags(FrameToRtp::resumed(settings(data), start, state), start, tags);
}

fn start() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "where virtual time begins")]
    let now = Instant::now();
    now + Duration::from_secs(1_000)
}

fn settings(data: &[u8]) -> FrameToRtpSettings {
    let b_frames = if data.len().is_multiple_of(2) { BFrames::Drop } else { BFrames::Refuse };
    FrameToRtpSettings { b_frames, payload_bytes_max: PAYLOAD_BYTES_MAX }
}

fn watch_tags(bridge: FrameToRtp, start: Instant, tags: &[u8]) {
    let mut viewer = Viewer { bridge, next: [None; 2], last_picture: None };
    let (mut rest, mut time_ms, mut now) = (tags, 0u64, start);
    while let Some((&[kind, after, high, low], behind)) = rest.split_first_chunk() {
        let (body, behind) = behind.split_at(behind.len().min(usize::from(u16::from_be_bytes([high, low]))));
        rest = behind;
        now += Duration::from_millis(u64::from(after));
        time_ms += u64::from(after) + if kind & 0x80 == 0 { 0 } else { 7_200_000 };
        viewer.take(now, time_ms, kind & 0x7f, body);
        if viewer.bridge.next_timeout().is_some_and(|at| at <= now) {
            let mappings = viewer.bridge.report(now);
            assert!(mappings.video.into_iter().chain(mappings.audio).all(|mapping| mapping.at == now));
            assert!(viewer.bridge.next_timeout().is_none_or(|at| at > now), "called for nothing");
        }
    }
}

/// Looks at everything that comes out of a bridge.
struct Viewer {
    bridge: FrameToRtp,
    /// Numbers of the next packets of video and audio.
    next: [Option<u16>; 2],
    /// Timestamp of the last video frame.
    last_picture: Option<u32>,
}

impl Viewer {
    fn take(&mut self, now: Instant, time_ms: u64, kind: u8, body: &[u8]) {
        let mut out = PacketsOut::default();
        let before = self.bridge.stats();
        match kind {
            0 | 1 => {
                let kind = if kind == 0 { MediaKind::Video } else { MediaKind::Audio };
                let (length, payload) = (body.len() as u32, body.to_vec());
                let Ok((first, others)) = read_frames(MediaMessage { kind, timestamp: 0, length, payload })
                else {
                    return;
                };
                for frame in std::iter::once(first).chain(others) {
                    let time = Timestamp::from_millis(time_ms as i64);
                    self.bridge.frame(now, time, &frame, &mut out);
                }
            }
            2 => {
                let audio = CodedAudio { pts_us: time_ms as i64 * 1_000, format: None, data: body.to_vec() };
                self.bridge.audio(now, &audio, &mut out);
            }
            4 => self.bridge.refuse_audio("no transcoder is free", &mut out),
            5 => self.bridge.track_ended(MediaKind::Video, &mut out),
            6 => self.bridge.track_ended(MediaKind::Audio, &mut out),
            _ => return,
        }
        let stats = self.bridge.stats();
        assert_eq!(stats.packets - before.packets, out.packets().len() as u64);
        let pictures = self.watch(&out);
        assert_eq!(stats.video_frames - before.video_frames, pictures);
        assert!(pictures <= 1 && out.audio.len() <= 1);
        assert!(out.audio.iter().all(|audio| !audio.data.is_empty()));
        let formats = self.bridge.formats();
        assert!(pictures == 0 || formats.video.is_some(), "pictures of a codec that is not published");
    }

    /// Returns the number of video frames.
    fn watch(&mut self, out: &PacketsOut) -> u64 {
        let mut pictures = 0;
        let mut picture: Option<Depacketizer> = None;
        for (packet, payload, _) in out.packets() {
            let codec =
                rtp::payload::CODECS.into_iter().find(|codec| payload_type(*codec) == packet.payload_type);
            let codec = codec.expect("a codec of ours");
            assert!(payload.len() <= PAYLOAD_BYTES_MAX);
            assert!(inspect(codec, payload, packet.marker).is_some(), "a payload the relay takes");
            let is_video = packet.ssrc == VIDEO_SSRC;
            assert!(is_video || packet.ssrc == AUDIO_SSRC);
            let next = self.next[usize::from(is_video)].replace(packet.sequence_number.wrapping_add(1));
            assert!(next.is_none_or(|next| next == packet.sequence_number));
            if !is_video {
                continue;
            }
            if picture.is_none() {
                assert_ne!(self.last_picture.replace(packet.timestamp), Some(packet.timestamp));
            }
            assert_eq!(self.last_picture, Some(packet.timestamp));
            picture.get_or_insert_with(|| Depacketizer::new(codec)).push(payload).expect("ours");
            if packet.marker {
                pictures += 1;
                picture.take().expect("begun").finish().expect("a picture");
            }
        }
        assert!(picture.is_none(), "a picture without its end");
        pictures
    }
}

const PAYLOAD_BYTES_MAX: usize = 300;
