//! Where AAC can be made, audio goes to the transcoder and comes back as AAC.

use std::sync::Arc;

use bridge::RtpToFrameSettings;
use media::config::audio_format;
use media::{CodecConfig, CodedAudio, FrameRole, MediaKind};
use rtp::payload::Codec;

use crate::rtp_to_frame::{OPUS, Rig, body, settings};

/// AudioSpecificConfig of AAC LC, 48 kHz, two channels; and of one channel.
pub(crate) const STEREO: [u8; 2] = [0x11, 0x90];
const MONO: [u8; 2] = [0x11, 0x88];

fn rig() -> Rig {
    Rig::with(Codec::Vp8, RtpToFrameSettings { audio_to_aac: true, ..settings() })
}

pub(crate) fn aac(pts_us: i64, config: Option<&[u8]>, channels: u8) -> CodedAudio {
    let format = config.map(|config| {
        Arc::new(CodecConfig { codec: Codec::Aac, record: config.to_vec(), sample_rate: 48_000, channels })
    });
    CodedAudio { pts_us, format, data: vec![0x21, 1, 2] }
}

#[test]
fn opus_goes_to_the_transcoder_with_its_format_first_and_without_holes() {
    let mut rig = rig();
    (0..10).for_each(|at| rig.audio(at * 20, &OPUS));
    rig.numbers[0] += 3;
    (13..20).for_each(|at| rig.audio(at * 20, &OPUS));
    rig.run_until(1_000);
    assert_eq!(rig.audio_jobs.len(), 20);
    assert!(rig.frames.is_empty(), "players get nothing before it comes back");
    let format = rig.audio_jobs[0].format.as_ref().expect("the format comes first");
    assert_eq!((format.codec, format.sample_rate, format.channels), (Codec::Opus, 48_000, 2));
    assert!(rig.audio_jobs[1..].iter().all(|job| job.format.is_none()));
    let begin = rig.audio_jobs[0].pts_us;
    for (at, job) in rig.audio_jobs.iter().enumerate() {
        assert!((job.pts_us - begin).abs_diff(at as i64 * 20_000) <= 1_000, "piece {at}");
        // What was lost, the decoder conceals: a packet without data.
        assert_eq!(job.data.len(), if (10..13).contains(&at) { 1 } else { OPUS.len() }, "piece {at}");
    }
}

#[test]
fn aac_is_configured_before_its_first_frame_and_when_it_changes() {
    let mut rig = rig();
    rig.audio(0, &OPUS);
    rig.transcoded(50, &aac(1_000_000, Some(&STEREO), 2));
    rig.transcoded(70, &aac(1_021_333, None, 2));
    rig.transcoded(90, &aac(1_042_667, Some(&STEREO), 2));
    rig.transcoded(110, &aac(1_064_000, Some(&MONO), 1));
    let roles: Vec<_> = rig.frames.iter().map(|frame| frame.role).collect();
    use FrameRole::{Audio, Config, Metadata};
    assert_eq!(roles, [Metadata, Config, Audio, Audio, Audio, Metadata, Config, Audio]);
    let times: Vec<_> = rig.audio_frames().into_iter().map(|(time_ms, _)| time_ms).collect();
    assert_eq!(times, [1_000, 1_021, 1_042, 1_064]);
    let formats: Vec<_> = rig
        .of(MediaKind::Audio, Config)
        .into_iter()
        .map(|frame| audio_format(Codec::Aac, body(frame).data()).unwrap())
        .map(|format| (format.sample_rate, format.channels))
        .collect();
    assert_eq!(formats, [(48_000, 2), (48_000, 1)]);
}

#[test]
fn another_publisher_is_configured_again_though_the_transcoder_goes_on() {
    let mut rig = rig();
    rig.audio(0, &OPUS);
    rig.transcoded(50, &aac(1_000_000, Some(&STEREO), 2));
    rig.epoch = 2;
    rig.audio(1_000, &OPUS);
    rig.transcoded(1_050, &aac(2_000_000, None, 2));
    assert_eq!(rig.of(MediaKind::Audio, FrameRole::Config).len(), 2);
    assert!(rig.audio_jobs.iter().all(|job| job.format.is_some()), "the transcoder, too");
}

#[test]
fn audio_nobody_can_decode_is_left_out() {
    let mut rig = rig();
    rig.transcoded(0, &aac(1_000_000, None, 2));
    assert!(rig.frames.is_empty());
    assert_eq!(rig.bridge.stats().broken, 1);
}
