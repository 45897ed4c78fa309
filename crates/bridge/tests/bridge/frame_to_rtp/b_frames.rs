//! Streams with B-frames through the whole bridge: what viewers get is in order and evenly timed, the
//! operator is told once, and where B-frames are refused nothing is sent.
//!
//! Which pictures may be left out is looked at in `tests/pictures_*.rs`.

use bridge::{BFrames, FrameToRtpSettings};
use media::MediaKind;

use crate::frame_to_rtp::{PAYLOAD_BYTES_MAX, Rig, Sent, flv_tags};

fn sample(name: &str) -> Vec<(u64, Vec<u8>)> {
    let path = format!("{}/tests/samples/{name}.flv", env!("CARGO_MANIFEST_DIR"));
    let tags = flv_tags(&std::fs::read(path).unwrap());
    tags.into_iter()
        .filter(|(_, track, _)| *track == MediaKind::Video)
        .map(|(time_ms, _, body)| (time_ms, body))
        .collect()
}

fn through(rig: &mut Rig, name: &str) -> Vec<Sent> {
    sample(name).iter().flat_map(|(time_ms, body)| rig.video(*time_ms, body)).collect()
}

/// Coded pictures of a sample.
fn pictures(name: &str) -> u64 {
    sample(name)
        .iter()
        .filter(|(_, body)| body[1] == 1 || body[0] & 0x8f == 0x81 || body[0] & 0x8f == 0x83)
        .count() as u64
}

#[test]
fn b_frames_are_left_out_counted_and_warned_of_once() {
    for (name, with_b_frames) in [
        ("h264-b0", false),
        ("h264-b1", true),
        ("h264-b2", true),
        ("h264-b3", true),
        ("h265-b0", false),
        ("h265-b3", true),
    ] {
        let mut rig = Rig::new();
        let sent = through(&mut rig, name);
        let stats = rig.bridge.stats();
        assert_eq!(stats.video_frames, sent.len() as u64, "{name}");
        assert_eq!(stats.video_frames + stats.b_frames_dropped, pictures(name), "{name}: {stats:?}");
        assert_eq!((stats.b_frames_dropped > 0, stats.broken), (with_b_frames, 0), "{name}");
        assert_eq!(rig.take_warning().is_some(), with_b_frames, "{name}");
        assert_eq!(rig.take_warning(), None, "{name}: once");
        through(&mut rig, name);
        assert_eq!(rig.take_warning(), None, "{name}: once for the publisher");
    }
}

#[test]
fn what_is_left_is_in_order_and_evenly_timed() {
    for name in
        ["h264-b0", "h264-b1", "h264-b2", "h264-b3", "h264-slices", "h264-interlaced", "h265-b0", "h265-b3"]
    {
        let mut rig = Rig::new();
        let sent = through(&mut rig, name);
        assert!(sent.len() >= 6, "{name}: {}", sent.len());
        let steps: Vec<_> = sent
            .windows(2)
            .map(|pair| pair[1].timestamp.wrapping_sub(pair[0].timestamp).cast_signed())
            .collect();
        assert!(steps.iter().all(|step| *step > 0), "{name}: {steps:?}");
        // A multiple of the time of a picture, whatever was left out between two.
        for step in &steps {
            let off = step % PICTURE_UNITS;
            assert!(off.min(PICTURE_UNITS - off) <= 135, "{name}: {step} units: {steps:?}");
        }
    }
}

#[test]
fn where_b_frames_are_refused_nothing_more_is_sent_and_the_reason_is_given() {
    for (name, is_refused) in [("h264-b0", false), ("h264-b2", true), ("h265-b3", true)] {
        let mut rig =
            Rig::with(FrameToRtpSettings { b_frames: BFrames::Refuse, payload_bytes_max: PAYLOAD_BYTES_MAX });
        let sent = through(&mut rig, name);
        let formats = rig.bridge.formats().clone();
        assert_eq!(formats.video.is_none(), is_refused, "{name}: {formats:?}");
        assert_eq!(formats.refused.is_some(), is_refused, "{name}");
        assert!(formats.refused.is_none_or(|reason| reason.to_string().contains("B-frames")), "{name}");
        assert!(!is_refused || sent.len() < 8, "{name}: {} pictures", sent.len());
        rig.audio(0, &[0xaf, 0, 0x12, 0x10]);
        assert!(rig.bridge.formats().audio.is_some(), "{name}: the audio goes on");
    }
}

/// Units of 90 kHz from one picture to the next: the samples have 25 a second.
const PICTURE_UNITS: i32 = 3_600;
