//! What it costs to cut a stream of 3 Mbit/s and to write its playlists for one reader of each: share of a
//! core.
//!
//! `cargo run --release -p hls --example cost`
#![expect(clippy::disallowed_methods, reason = "the clock is what this is about")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use cmaf::Segmenter;
use hls::{Accepts, Answer, Object, Query, Window};
use media::{Codec, Frame, FrameRole, Timestamp, TrackId};

/// Record with one SPS and one PPS, sizes of four bytes.
const AVCC: &[u8] = b"\x01\x42\xc0\x0a\xff\xe1\x00\x04\x67\x42\xc0\x0a\x01\x00\x02\x68\xce";
const SECONDS: i64 = 600;
const PICTURES_PER_SECOND: i64 = 30;
const GOP: i64 = 60;
const VIDEO_BITS: i64 = 2_872_000;
const AUDIO_BITS: i64 = 128_000;

fn main() {
    let zero = (Timestamp::ZERO, Timestamp::ZERO);
    let mut frames = vec![
        Frame::new(TrackId::VIDEO, FrameRole::Config, Codec::H264, zero, AVCC.to_vec()),
        Frame::new(TrackId::AUDIO, FrameRole::Config, Codec::Aac, zero, vec![0x11, 0x90]),
    ];
    let at = |millis: i64| (Timestamp::from_millis(millis), Timestamp::from_millis(millis));
    let picture = vec![7; (VIDEO_BITS / 8 / PICTURES_PER_SECOND) as usize];
    for index in 0..SECONDS * PICTURES_PER_SECOND {
        let role = if index % GOP == 0 { FrameRole::Key } else { FrameRole::Inter };
        let time = at(index * 1000 / PICTURES_PER_SECOND);
        frames.push(Frame::new(TrackId::VIDEO, role, Codec::H264, time, picture.clone()));
    }
    let sound = vec![7; (AUDIO_BITS * 1024 / 8 / 48_000) as usize];
    for index in 0..SECONDS * 48_000 / 1024 {
        let time = at(index * 1024 * 1000 / 48_000);
        frames.push(Frame::new(TrackId::AUDIO, FrameRole::Audio, Codec::Aac, time, sound.clone()));
    }
    frames.sort_by_key(|frame| frame.dts);
    let frames: Vec<_> = frames.into_iter().map(Arc::new).collect();
    let mut segmenter = Segmenter::new(cmaf::Settings::default());
    let mut window = Window::new(hls::Settings::default());
    let (mut outputs, mut bytes) = (0, 0);
    let begun = Instant::now();
    for frame in &frames {
        let now = Duration::from_secs(1_700_000_000) + frame.dts.to_duration();
        segmenter.push(now, frame.dts, frame);
        let mut is_changed = false;
        while let Some(output) = segmenter.poll_output() {
            if let Some(seconds) = segmenter.target_duration() {
                window.set_target_duration(seconds);
            }
            window.push(output);
            (outputs, is_changed) = (outputs + 1, true);
        }
        // What the server does with each change: a view for the workers, in which the first who asks for a
        // text has it written.
        if is_changed {
            let view = window.clone();
            let video = Object::Playlist(TrackId::VIDEO);
            for object in [video, Object::Playlist(TrackId::AUDIO), Object::Mpd] {
                let answer = view.respond(object, &Query::default(), Accepts { gzip: true }, "", now);
                if let Answer::Respond(body) = answer {
                    bytes += body.len();
                }
            }
        }
    }
    let spent = begun.elapsed().as_secs_f64();
    println!(
        "{:.3} % of a core: {spent:.3} s for {SECONDS} s of media at 3 Mbit/s, {outputs} outputs, \
         {bytes} bytes of texts",
        spent * 100.0 / SECONDS as f64
    );
}
