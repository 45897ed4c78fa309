//! The first bytes describe the stream to players: metadata once, configurations of both tracks, then a
//! picture.

use bridge::RtpToFrameSettings;
use media::{FrameRole, MediaKind};
use rtp::payload::Codec;

use crate::rtp_to_frame::transcoded_audio::{STEREO, aac};
use crate::rtp_to_frame::{OPUS, Rig, VP8_INTER, VP8_KEY, settings};

fn kinds(rig: &Rig) -> Vec<(MediaKind, FrameRole)> {
    rig.frames.iter().map(|frame| (frame.track, frame.role)).collect()
}

const METADATA: (MediaKind, FrameRole) = (MediaKind::Data, FrameRole::Metadata);
const VIDEO: (MediaKind, FrameRole) = (MediaKind::Video, FrameRole::Config);
const AUDIO: (MediaKind, FrameRole) = (MediaKind::Audio, FrameRole::Config);
const KEY: (MediaKind, FrameRole) = (MediaKind::Video, FrameRole::Key);
const INTER: (MediaKind, FrameRole) = (MediaKind::Video, FrameRole::Inter);
const PIECE: (MediaKind, FrameRole) = (MediaKind::Audio, FrameRole::Audio);

#[test]
fn audio_waits_for_the_first_key_frame_and_what_came_before_is_left_out() {
    let mut rig = Rig::that_opens(Codec::Vp8, settings());
    for at in 0..25 {
        rig.audio(at * 20, &OPUS);
        rig.video(at * 20, &VP8_INTER, true);
    }
    assert!(rig.frames.is_empty());
    assert_eq!(rig.asked_ms.len(), 1);
    rig.audio(500, &OPUS);
    rig.video(500, &VP8_KEY, true);
    rig.audio(520, &OPUS);
    assert_eq!(kinds(&rig), [METADATA, VIDEO, AUDIO, PIECE, KEY, PIECE]);
    let begin = rig.pictures()[0].1;
    assert!(rig.frames.iter().all(|frame| (begin..=begin + 20).contains(&frame.timestamp)));
    let metadata = &rig.frames[0].payload;
    for name in ["videocodecid", "audiocodecid", "width"] {
        assert!(metadata.windows(name.len()).any(|bytes| bytes == name.as_bytes()), "{name}");
    }
}

#[test]
fn video_waits_for_the_transcoder() {
    let mut rig = Rig::that_opens(Codec::Vp8, RtpToFrameSettings { audio_to_aac: true, ..settings() });
    rig.audio(0, &OPUS);
    rig.video(0, &VP8_KEY, true);
    rig.video(33, &VP8_INTER, true);
    assert!(rig.frames.is_empty());
    let pts_us = rig.audio_jobs[0].pts_us;
    rig.transcoded(60, &aac(pts_us, Some(&STEREO), 2));
    assert_eq!(kinds(&rig), [METADATA, VIDEO, AUDIO, KEY, INTER, PIECE]);
}

#[test]
fn a_transcoder_that_says_nothing_holds_video_up_for_a_second() {
    let mut rig = Rig::that_opens(Codec::Vp8, RtpToFrameSettings { audio_to_aac: true, ..settings() });
    rig.audio(0, &OPUS);
    rig.video(0, &VP8_KEY, true);
    rig.run_until(999);
    assert!(rig.frames.is_empty());
    rig.run_until(1_000);
    assert_eq!(kinds(&rig), [METADATA, VIDEO, KEY]);
}

#[test]
fn a_track_that_is_alone_waits_for_no_other_for_long() {
    let mut video = Rig::that_opens(Codec::Vp8, settings());
    video.video(0, &VP8_KEY, true);
    video.run_until(199);
    assert!(video.frames.is_empty());
    video.run_until(200);
    assert_eq!(kinds(&video), [METADATA, VIDEO, KEY]);
    let mut audio = Rig::that_opens(Codec::Vp8, settings());
    (0..10).for_each(|at| audio.audio(at * 20, &OPUS));
    assert!(audio.frames.is_empty());
    audio.run_until(200);
    assert_eq!(kinds(&audio)[..3], [METADATA, AUDIO, PIECE]);
    assert_eq!(audio.audio_frames().len(), 10, "nothing of it is left out");
}

#[test]
fn a_publisher_that_sends_no_key_frame_is_heard_after_three_seconds() {
    let mut rig = Rig::that_opens(Codec::Vp8, settings());
    for at in 0..160 {
        rig.audio(at * 20, &OPUS);
        rig.video(at * 20, &VP8_INTER, true);
        assert_eq!(rig.frames.is_empty(), at < 150, "packet {at}");
    }
    assert_eq!(rig.audio_frames().len(), 160);
}

#[test]
fn what_is_held_back_is_bounded() {
    let mut rig = Rig::that_opens(Codec::Vp8, settings());
    rig.video(0, &VP8_INTER, true);
    for at in 0..2_000 {
        // 2.5 ms each: more than a second holds.
        rig.arrive(at / 2, MediaKind::Audio, at, at * 5 / 2, &[0xe0, 1, 2], false);
    }
    assert!(rig.audio_frames().len() >= 1_400, "{} pieces", rig.audio_frames().len());
}

#[test]
fn another_publisher_begins_the_same_way() {
    let mut rig = Rig::that_opens(Codec::Vp8, settings());
    rig.audio(0, &OPUS);
    rig.video(0, &VP8_KEY, true);
    rig.run_until(1_000);
    rig.frames.clear();
    rig.epoch = 2;
    rig.audio(1_000, &OPUS);
    rig.video(1_000, &VP8_INTER, true);
    rig.audio(1_020, &OPUS);
    assert!(rig.frames.is_empty());
    rig.video(1_033, &VP8_KEY, true);
    assert_eq!(kinds(&rig), [METADATA, VIDEO, AUDIO, KEY]);
}
