//! What makes no sense is counted and left out, and what comes behind it is sent.

use std::time::Duration;

use bridge::PacketsOut;
use media::MediaKind;
use proptest::prelude::*;
use rtp::payload::Codec;

use crate::frame_to_rtp::{Rig, demo_tags, frames, settings, start, time};

/// The sequence header of the file, its first picture and the next one.
fn h264() -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let mut bodies =
        demo_tags().into_iter().filter(|(_, track, _)| *track == MediaKind::Video).map(|(.., body)| body);
    (bodies.next().unwrap(), bodies.next().unwrap(), bodies.next().unwrap())
}

#[test]
fn broken_configuration_records_refuse_the_video_until_a_whole_one_comes() {
    let (config, key, _) = h264();
    let sets_at = 5 + 6;
    let with = |at: usize, byte: u8| {
        let mut body = config.clone();
        body[at] = byte;
        body
    };
    for (body, remark) in [
        (config[..5].to_vec(), "nothing"),
        (config[..9].to_vec(), "cut off ahead of the sets"),
        (with(5, 2), "another version"),
        (with(10, 0xe0), "no SPS"),
        ([&config[..sets_at], &[0, 0][..], &[1, 0, 4, 0x68, 0xce, 0x3c, 0x80]].concat(), "an empty SPS"),
        (
            [&config[..sets_at], &[0xff, 0xff][..], &vec![0x67; 0xffff], &[1, 0, 1, 0x68]].concat(),
            "an SPS of 65,535 bytes",
        ),
        (with(sets_at, 0x7f), "an SPS that reaches beyond the tag"),
        (config[..config.len() - 1].to_vec(), "half a PPS"),
        ([&config[..5], &vec![0xff; 100_000]].concat(), "a hundred thousand bytes of ones"),
    ] {
        let mut rig = Rig::new();
        assert_eq!(rig.video(0, &body), []);
        assert_eq!(rig.broken(), 1, "{remark}");
        assert_eq!(rig.bridge.formats().video, None, "{remark}");
        assert_eq!(rig.video(0, &key), [], "{remark}");
        rig.audio(0, &[0xaf, 0, 0x12, 0x10]);
        assert_eq!(rig.bridge.formats().audio, Some(Codec::Opus), "{remark}: the audio goes on");
        rig.video(40, &config);
        assert_eq!(rig.video(40, &key).len(), 1, "{remark}");
        assert_eq!(rig.bridge.formats().refused, None);
    }
}

#[test]
fn a_picture_whose_units_reach_beyond_the_tag_is_left_out_and_what_needs_it_with_it() {
    let (config, key, inter) = h264();
    let mut rig = Rig::new();
    rig.video(0, &config);
    assert_eq!(rig.video(0, &key).len(), 1);
    let mut beyond = inter.clone();
    beyond[5] = 0x7f;
    assert_eq!(rig.video(40, &beyond), []);
    assert_eq!(rig.video(80, &inter[..5]), [], "no unit at all");
    assert!(rig.broken() >= 1);
    assert_eq!(rig.video(120, &inter), [], "it may need the one that is missing");
    assert_eq!(rig.video(160, &key).len(), 1, "and a key frame needs none");
}

#[test]
fn audio_of_any_length_is_taken_or_counted() {
    let mut rig = Rig::new();
    for config in [&[][..], &[0x12]] {
        rig.audio(0, &[&[0xaf, 0], config].concat());
        assert_eq!(
            rig.bridge.formats().refused.map(|refused| refused.to_string()).as_deref(),
            Some("audio: the sequence header of AAC is broken")
        );
        assert_eq!(rig.audio(0, &[0xaf, 1, 0x21]), []);
        assert_eq!(rig.audio_jobs.len(), 0);
    }
    rig.audio(0, &[0xaf, 0, 0x12, 0x10]);
    assert_eq!(rig.bridge.formats().refused, None);
    rig.audio(0, &[0xaf, 1]);
    assert_eq!((rig.broken(), rig.audio_jobs.len()), (1, 0), "0 bytes");
    rig.audio(23, &[&[0xaf, 1][..], &vec![7; 65_535]].concat());
    assert_eq!(rig.audio_jobs.last().unwrap().data.len(), 65_535, "the decoder will say what it is");
    rig.audio(46, &[&[0x91][..], b"Opus"].concat());
    rig.audio(46, &[&[0x91][..], b"Opus", &vec![0xfc; 65_535]].concat());
    assert_eq!(rig.broken(), 3, "Opus of 0 and of 65,535 bytes");
    rig.audio(60, &[0x82]);
    assert_eq!(rig.broken(), 4, "G.711 of 0 bytes");
    let sent = rig.audio(60, &[&[0x82][..], &vec![0xff; 65_535]].concat());
    assert_eq!(sent.len(), 410);
}

#[test]
fn bodies_without_a_whole_header_are_counted() {
    let mut rig = Rig::new();
    for body in [&[][..], &[0x17], &[0x17, 1, 0, 0], b"\x91avc", b"\x97\x05", b"\x96\x11avc1\0\0\0\x09abc"] {
        rig.video(0, body);
    }
    for body in [&[][..], &[0xaf], b"\x90Opu"] {
        rig.audio(0, body);
    }
    assert_eq!(rig.broken(), 9);
    assert_eq!(rig.bridge.formats(), &bridge::PublishedFormats::default());
}

#[test]
fn times_that_jump_by_hours_or_go_back_leave_pictures_in_order() {
    let (config, key, inter) = h264();
    let mut rig = Rig::new();
    rig.video(0, &config);
    let mut last = None;
    let hour = 3_600_000u64;
    for (index, time_ms) in
        [0, 40, 5 * hour, 5 * hour + 40, 20, 60, u64::MAX, 0, 13 * hour, 1 << 52].into_iter().enumerate()
    {
        let body = if index % 2 == 0 { &key } else { &inter };
        let now = rig.start + Duration::from_millis(40 * index as u64);
        rig.bridge.frame(now, time(time_ms), &frames(MediaKind::Video, body)[0], &mut rig.out);
        let sent: Vec<_> = rig.out.packets().map(|(fields, ..)| fields.timestamp).collect();
        assert!(!sent.is_empty() && sent.iter().all(|timestamp| *timestamp == sent[0]));
        assert_ne!(last.replace(sent[0]), Some(sent[0]), "two pictures of one timestamp at {time_ms}");
        rig.out.clear();
    }
}

proptest! {
    /// Tags of a real file, each damaged in one place or cut: nothing panics, and a whole key frame is sent
    /// afterwards.
    #[test]
    fn damaged_tags(damage in prop::collection::vec((0..200usize, 0..4_000usize, any::<u8>(), any::<bool>()), 1..20)) {
        let tags = demo_tags();
        let mut bridge = bridge::FrameToRtp::new(settings(), start());
        let mut out = PacketsOut::default();
        let mut take = |bridge: &mut bridge::FrameToRtp, time_ms: u64, track, payload: &[u8]| {
            out.clear();
            for frame in frames(track, payload) {
                bridge.frame(start() + Duration::from_millis(time_ms), time(time_ms), &frame, &mut out);
            }
            for (_, payload, _) in out.packets() {
                assert!(payload.len() <= settings().payload_bytes_max && !payload.is_empty());
            }
            out.packets().len()
        };
        for (index, (time_ms, track, body)) in tags.iter().enumerate().take(200) {
            let mut body = body.clone();
            for (_, at, byte, cuts) in damage.iter().filter(|(tag, ..)| *tag == index) {
                let at = at % body.len().max(1);
                match cuts {
                    true => body.truncate(at),
                    false => body.get_mut(at).map_or((), |found| *found = *byte),
                }
            }
            take(&mut bridge, *time_ms, *track, &body);
        }
        let (config, key, _) = h264();
        take(&mut bridge, 20_000, MediaKind::Video, &config);
        prop_assert!(take(&mut bridge, 20_000, MediaKind::Video, &key) > 0);
    }
}
