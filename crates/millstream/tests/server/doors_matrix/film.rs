//! What is published: frames with exact times.

use std::io::Cursor;
use std::path::Path;

use media::bitstream::next_obu;
use media::{Codec, Frame, FrameRole, MediaKind, Timestamp, TrackId};
use mp4::{Limits, Mp4};
use rtmp::flv::{Tag, read_frames};

use crate::common::bridge::video_sample;
use crate::common::flv::sample_tags;
use crate::common::tools::{ffmpeg, run};

/// Configurations, then frames in order of decoding.
#[derive(Debug, Clone)]
pub(crate) struct Film {
    pub(crate) frames: Vec<Frame>,
}

impl Film {
    /// Eight seconds of the sample.
    pub(crate) fn h264_aac() -> Self {
        Self::of_tags(&sample_tags(), LENGTH_MS)
    }

    /// Its pictures, with Opus of 20 ms, each frame with its number in it.
    pub(crate) fn h264_opus() -> Self {
        let mut film = Self::h264_aac();
        film.frames.retain(|frame| frame.track.kind == MediaKind::Video);
        let zero = (Timestamp::ZERO, Timestamp::ZERO);
        // RFC 7845 section 5.1: version 1, two channels, 48 kHz.
        let head = b"OpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0".to_vec();
        film.frames.push(Frame::new(TrackId::AUDIO, FrameRole::Config, Codec::Opus, zero, head));
        for number in 0..LENGTH_MS / 20 {
            let at = Timestamp::from_millis(i64::from(number) * 20);
            let data = rtc_test::audio_payload(number).to_vec();
            film.frames.push(Frame::new(TrackId::AUDIO, FrameRole::Audio, Codec::Opus, (at, at), data));
        }
        film.frames.sort_by_key(|frame| (is_media(frame), frame.dts));
        film
    }

    /// Its pictures, with MP3 or AC-3 that ffmpeg makes, again and again.
    pub(crate) fn h264_and_made(codec: Codec) -> Self {
        // At a constant rate, frames of 48 kHz are all as long: 384 and 768 bytes, of 1152 and 1536 samples.
        let (options, bytes, samples) = match codec {
            Codec::Mp3 => (["libmp3lame", "128k", "mp3"], 384, 1_152),
            _ => (["ac3", "192k", "ac3"], 768, 1_536),
        };
        let mut make = ffmpeg();
        make.args(["-f", "lavfi", "-i", "sine=440:sample_rate=48000", "-t", "1", "-ac", "2"]);
        make.args(["-c:a", options[0], "-b:a", options[1], "-write_xing", "0", "-id3v2_version", "0"]);
        let once = run(make.args(["-f", options[2], "-"])).stdout;
        let once = once.chunks_exact(bytes);
        assert!(once.len() > 20 && once.clone().all(|frame| frame[0] == once.clone().next().unwrap()[0]));
        let frames = once.cycle().zip(0..).map(|(frame, number)| {
            let at = Timestamp::from_ticks(number * samples, 48_000);
            // Each with its number in it, at its end, where nothing reads it.
            let data = [&frame[..bytes - 4], &(number as u32).to_be_bytes()].concat();
            let mut frame = Frame::new(TrackId::AUDIO, FrameRole::Audio, codec, (at, at), data);
            frame.channels = 2;
            frame
        });
        Self::h264_and(frames.take_while(|frame| frame.dts < Timestamp::from_millis(LENGTH_MS.into())))
    }

    /// Its pictures, with G.711 of 20 ms, each frame with its number in it.
    pub(crate) fn h264_g711() -> Self {
        Self::h264_and((0..LENGTH_MS / 20).map(|number| {
            let at = Timestamp::from_millis(i64::from(number) * 20);
            let data = [&number.to_be_bytes()[..], &[0xd5; 156]].concat();
            let mut frame = Frame::new(TrackId::AUDIO, FrameRole::Audio, Codec::Pcma, (at, at), data);
            frame.channels = 1;
            frame
        }))
    }

    /// The pictures of the sample with other audio.
    fn h264_and(audio: impl Iterator<Item = Frame>) -> Self {
        let mut film = Self::h264_aac();
        film.frames.retain(|frame| frame.track.kind == MediaKind::Video);
        film.frames.extend(audio);
        film.frames.sort_by_key(|frame| (is_media(frame), frame.dts));
        film
    }

    /// A sample of the bridge's own tests, video alone, again and again.
    pub(crate) fn of_sample(name: &str, codec: Codec) -> Self {
        let mut film = Self::of_tags(&video_sample(name), u32::MAX);
        film.frames.retain(|frame| frame.codec == codec);
        film.repeated()
    }

    /// The pictures of a sample of the MP4 reader's tests, again and again.
    pub(crate) fn of_mp4(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mp4/tests/samples").join(name);
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut file = Mp4::open(Cursor::new(bytes), Limits::default()).expect("an MP4 file");
        let mut frames = Vec::new();
        while let Some(sample) = file.next_sample().expect("a sample") {
            let both = sample.config.into_iter().chain([sample.frame]);
            frames.extend(both.filter(|frame| frame.track.kind == MediaKind::Video));
        }
        frames.sort_by_key(|frame| (is_media(frame), frame.dts));
        Self { frames }.repeated()
    }

    /// Again and again, for five seconds.
    fn repeated(mut self) -> Self {
        let film = &mut self;
        let once: Vec<Frame> = film.frames.iter().filter(|frame| is_media(frame)).cloned().collect();
        let step = once[1].dts - once[0].dts;
        let length = once[once.len() - 1].dts - once[0].dts + step;
        for round in 1.. {
            let by = Timestamp::from_units(length.units() * round);
            if by >= Timestamp::from_millis(5_000) {
                break;
            }
            film.frames.extend(once.iter().map(|frame| {
                let times = (frame.dts + by, frame.pts + by);
                // Without the tag it came in, which has the old time in it.
                Frame::new(frame.track, frame.role, frame.codec, times, frame.data().to_vec())
            }));
        }
        self
    }

    fn of_tags(tags: &[Tag], end_ms: u32) -> Self {
        let tags = tags.iter().filter(|tag| tag.timestamp < end_ms).cloned();
        let frames = tags.map(|tag| read_frames(tag.into()).expect("a frame").0);
        let wanted = |frame: &Frame| is_media(frame) || frame.role == FrameRole::Config;
        let mut frames: Vec<Frame> = frames.filter(wanted).collect();
        // Bare frames: what came in a tag would be sent again as that tag.
        for frame in &mut frames {
            let times = (frame.dts, frame.pts);
            *frame = Frame::new(frame.track, frame.role, frame.codec, times, frame.data().to_vec());
        }
        frames.sort_by_key(|frame| (is_media(frame), frame.dts));
        Self { frames }
    }
}

/// Audio or a picture.
pub(crate) fn is_media(frame: &Frame) -> bool {
    matches!(frame.role, FrameRole::Key | FrameRole::Inter | FrameRole::Audio)
}

/// The bytes of an access unit, without parameter sets and delimiters, and without SEI if `is_bare`.
pub(crate) fn unit(frame: &Frame, is_bare: bool) -> Vec<u8> {
    let is_around = |unit: &[u8]| match (frame.codec, unit.first()) {
        (Codec::H264, Some(first)) => matches!(first & 0x1f, 7..=9) || is_bare && first & 0x1f == 6,
        (Codec::H265, Some(first)) => matches!(first >> 1 & 0x3f, 32..=35),
        _ => false,
    };
    if frame.codec == Codec::Av1 {
        let (mut rest, mut kept) = (frame.data(), Vec::new());
        while let Some(obu) = next_obu(&mut rest) {
            // Sequence headers, which RTP repeats, and temporal delimiters, which it leaves out.
            if !matches!(obu.kind(), 1 | 2) {
                kept.extend_from_slice(obu.payload);
            }
        }
        return kept;
    }
    if !matches!(frame.codec, Codec::H264 | Codec::H265) {
        return frame.data().to_vec();
    }
    let (mut rest, mut kept) = (frame.data(), Vec::new());
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let (unit, next) = behind.split_at((u32::from_be_bytes(*length) as usize).min(behind.len()));
        if !is_around(unit) {
            kept.extend_from_slice(length);
            kept.extend_from_slice(unit);
        }
        rest = next;
    }
    kept
}

const LENGTH_MS: u32 = 8_000;
