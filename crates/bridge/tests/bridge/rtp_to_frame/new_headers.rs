//! Another resolution, codec or publisher brings a new configuration, ahead of the first frame that needs it.

use media::config::video_format;
use media::{FrameRole, MediaKind};
use rtp::payload::Codec;

use crate::rtp_to_frame::{OPUS, Rig, VP8_INTER, VP8_KEY, body};

/// SPS of libx264 (Constrained Baseline) for 1280x718 and 640x360, and a PPS.
const SPS_LARGE: &str = "6742c01fda014016feb0110000030001000003003c0f1832a0";
const SPS_SMALL: &str = "6742c01ed900a02ff97011000003000100000300320f162e48";
const PPS: [u8; 4] = [0x68, 0xce, 0x0f, 0xc8];

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn key_frame(rig: &mut Rig, ms: u64, sps: &str) {
    rig.video(ms, &bytes(sps), false);
    rig.video(ms, &PPS, false);
    rig.video(ms, &[0x65, 0x88, 1], true);
}

fn roles(rig: &Rig) -> Vec<FrameRole> {
    rig.frames.iter().map(|frame| frame.role).collect()
}

#[test]
fn a_new_size_brings_a_new_configuration_and_the_old_one_is_not_repeated() {
    use FrameRole::{Config, Inter, Key, Metadata};
    let mut rig = Rig::new(Codec::H264);
    key_frame(&mut rig, 0, SPS_LARGE);
    rig.video(33, &[0x41, 0x9a], true);
    key_frame(&mut rig, 66, SPS_LARGE);
    key_frame(&mut rig, 100, SPS_SMALL);
    rig.video(133, &[0x41, 0x9a], true);
    key_frame(&mut rig, 166, SPS_LARGE);
    assert_eq!(
        roles(&rig),
        [Metadata, Config, Key, Inter, Key, Metadata, Config, Key, Inter, Metadata, Config, Key]
    );
    let sizes: Vec<_> = rig
        .of(MediaKind::Video, Config)
        .into_iter()
        .map(|frame| video_format(Codec::H264, body(frame).data()).unwrap())
        .map(|format| (format.width, format.height))
        .collect();
    assert_eq!(sizes, [(1280, 718), (640, 360), (1280, 718)]);
}

#[test]
fn parameter_sets_may_come_ahead_in_a_frame_of_their_own() {
    let mut rig = Rig::new(Codec::H264);
    rig.video(0, &bytes(SPS_LARGE), false);
    rig.video(0, &PPS, true);
    rig.video(33, &[0x65, 0x88, 1], true);
    assert_eq!(roles(&rig), [FrameRole::Metadata, FrameRole::Config, FrameRole::Key]);
    assert_eq!(rig.bridge.stats().broken, 0);
}

#[test]
fn a_key_frame_without_parameter_sets_cannot_be_shown() {
    let mut rig = Rig::new(Codec::H264);
    rig.video(0, &[0x65, 0x88, 1], true);
    rig.video(33, &[0x41, 0x9a, 1], true);
    assert!(rig.frames.is_empty());
    assert_eq!(rig.bridge.stats().broken, 1);
    key_frame(&mut rig, 66, SPS_SMALL);
    assert_eq!(rig.pictures().len(), 1);
}

#[test]
fn an_encoder_that_refreshes_slowly_begins_with_parameter_sets_and_a_recovery_point() {
    let recovery: &[u8] = &[0x06, 0x06, 0x01, 0xc4, 0x80];
    for (sei, slice, is_key, remark) in [
        (Some(recovery), [0x41, 0x9a], true, "P slice, recovery point"),
        (None, [0x41, 0x88], true, "I slice: 1 000 1000"),
        (None, [0x41, 0x9a], false, "P slice, parameter sets with every picture"),
    ] {
        let mut rig = Rig::new(Codec::H264);
        key_frame(&mut rig, 0, SPS_SMALL);
        rig.video(33, &bytes(SPS_SMALL), false);
        rig.video(33, &PPS, false);
        if let Some(sei) = sei {
            rig.video(33, sei, false);
        }
        rig.video(33, &slice, true);
        assert_eq!(rig.pictures().last().unwrap().0, is_key, "{remark}");
    }
}

#[test]
fn another_publisher_gets_headers_of_its_own_and_time_goes_on() {
    let mut rig = Rig::new(Codec::Vp8);
    rig.video(0, &VP8_KEY, true);
    rig.audio(0, &OPUS);
    rig.video(33, &VP8_INTER, true);
    let headers =
        rig.of(MediaKind::Video, FrameRole::Config).len() + rig.of(MediaKind::Audio, FrameRole::Config).len();
    assert_eq!(headers, 2);
    rig.epoch = 2;
    rig.video(5_000, &VP8_INTER, true);
    assert_eq!(rig.pictures().len(), 2, "nothing of it before its key frame");
    rig.video(5_033, &VP8_KEY, true);
    rig.audio(5_040, &OPUS);
    let headers =
        rig.of(MediaKind::Video, FrameRole::Config).len() + rig.of(MediaKind::Audio, FrameRole::Config).len();
    assert_eq!(headers, 4);
    let times: Vec<_> = rig.pictures().into_iter().map(|(_, time_ms, _)| time_ms).collect();
    assert!(times.is_sorted() && times[2] - times[1] >= 4_900, "{times:?}");
}

#[test]
fn a_publisher_may_change_its_codec() {
    let mut rig = Rig::new(Codec::Vp8);
    rig.video(0, &VP8_KEY, true);
    rig.video = Codec::H264;
    rig.video(33, &[0x41, 0x9a, 1], true);
    key_frame(&mut rig, 66, SPS_LARGE);
    let codecs: Vec<_> =
        rig.of(MediaKind::Video, FrameRole::Config).into_iter().map(|frame| body(frame).codec).collect();
    assert_eq!(codecs, [Codec::Vp8, Codec::H264]);
    assert_eq!(rig.pictures().len(), 2);
}

#[test]
fn streams_of_audio_alone_and_of_video_alone_come_through() {
    let mut audio = Rig::new(Codec::Vp8);
    (0..50).for_each(|at| audio.audio(at * 20, &OPUS));
    assert_eq!(audio.audio_frames().len(), 50);
    assert!(audio.asked_ms.is_empty(), "there is no video to ask for");
    let mut video = Rig::new(Codec::Vp8);
    video.video(0, &VP8_KEY, true);
    (1..50).for_each(|at| video.video(at * 33, &VP8_INTER, true));
    assert_eq!(video.pictures().len(), 50);
    assert!(video.audio_frames().is_empty());
}
