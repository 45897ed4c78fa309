//! Tracks that end and go on, or change their codec: numbers and timestamps go on.

use media::MediaKind;
use rtp::payload::Codec;

use crate::frame_to_rtp::{Rig, demo_tags};

#[test]
fn audio_that_has_ended_is_offered_still_and_goes_on() {
    let mut rig = Rig::new();
    rig.audio(100, b"\x91Opus\xfc\x01\x02");
    assert_eq!(rig.audio(140, b"\x92Opus"), []);
    assert_eq!(rig.bridge.formats().audio, Some(Codec::Opus));
    assert_eq!(rig.audio(200, b"\x91Opus\xfc\x01\x02").len(), 1);
}

/// Whose video is over, and who says so by its own frame or who came to the stream later.
fn over(rig: &mut Rig, tags: &[(u64, MediaKind, Vec<u8>)], came_later: bool) {
    let before = if came_later { &tags[..1] } else { tags };
    before.iter().for_each(|(time_ms, _, body)| _ = rig.video(*time_ms, body));
    match came_later {
        true => rig.bridge.track_ended(MediaKind::Video, &mut rig.out),
        false => assert_eq!(rig.video(120, b"\x17\x02\x00\x00\x00"), []),
    }
}

#[test]
fn video_that_has_ended_is_offered_still_and_a_picture_stands_in_for_it_while_audio_goes_on() {
    let opus = b"\x91Opus\xfc\x01\x02";
    let tags: Vec<_> = demo_tags().into_iter().filter(|(.., body)| body[0] & 0x8f == 0x07).take(3).collect();
    for came_later in [false, true] {
        let mut rig = Rig::new();
        over(&mut rig, &tags, came_later);
        assert_eq!(rig.bridge.formats().video.as_ref().map(|video| video.codec), Some(Codec::H264));
        let (mut filler_frames, mut last) = (Vec::new(), 0);
        for time_ms in (140..5_000).step_by(20) {
            let video = rig.audio(time_ms, opus).into_iter().filter(|sent| sent.data.starts_with(&[0, 0, 0]));
            for sent in video {
                assert!(sent.marker && sent.timestamp > last, "times go on");
                last = sent.timestamp;
                filler_frames.push((time_ms, sent));
            }
        }
        let times: Vec<u64> = filler_frames.iter().map(|(time_ms, _)| *time_ms).collect();
        let expected = if came_later {
            [140, 1_140, 2_140, 3_140, 4_140].to_vec()
        } else {
            vec![1_080, 2_080, 3_080, 4_080]
        };
        assert_eq!(times, expected, "one a second, at once only where no picture has been sent");
        let sent_before = if came_later { 0 } else { 2 };
        assert_eq!(rig.bridge.stats().video_frames, sent_before + times.len() as u64);
        for (index, (time_ms, _, body)) in tags.iter().enumerate() {
            let sent = rig.video(6_000 + time_ms, body);
            assert_eq!(sent.len(), usize::from(index > 0), "its numbers go on");
            assert!(sent.iter().all(|sent| sent.timestamp > last));
        }
        assert!(
            rig.audio(8_000, opus).iter().all(|sent| !sent.data.starts_with(&[0, 0, 0])),
            "it is there again"
        );
    }
}

#[test]
fn audio_goes_from_one_clock_to_another() {
    let mut rig = Rig::new();
    let opus = [&b"\x91Opus"[..], &[0xfc, 1, 2]].concat();
    let first = rig.audio(1_000, &opus);
    assert_eq!(first[0].timestamp, 48_000);
    assert_eq!(rig.bridge.formats().audio, Some(Codec::Opus));
    let g711 = [&[0x72][..], &[0xd5; 160]].concat();
    let second = rig.audio(2_000, &g711);
    assert_eq!((second[0].timestamp, second[0].marker), (16_000, true));
    assert_eq!(rig.bridge.formats().audio, Some(Codec::Pcma));
    let third = rig.audio(3_000, &opus);
    assert_eq!((third[0].timestamp, third[0].marker), (144_000, true));
}

#[test]
fn what_is_left_of_video_that_is_over_does_not_end_the_filler_frame() {
    let opus = b"\x91Opus\xfc\x01\x02";
    let is_video = |body: &[u8]| body[0] & 0x8f == 0x07;
    let tags: Vec<_> = demo_tags().into_iter().filter(|(.., body)| is_video(body)).take(3).collect();
    let filler_frames = |stray: Option<usize>| {
        let mut rig = Rig::new();
        over(&mut rig, &tags, false);
        if let Some(index) = stray {
            rig.video(130, &tags[index].2);
        }
        let is_filler_frame = |rig: &mut Rig, time_ms| {
            rig.audio(time_ms, opus).iter().any(|sent| sent.data.starts_with(&[0, 0, 0]))
        };
        let times: Vec<u64> =
            (140..5_000).step_by(20).filter(|time_ms| is_filler_frame(&mut rig, *time_ms)).collect();
        let (.., key) = &tags[1];
        assert!(!rig.video(5_000, &tags[0].2).iter().any(|sent| sent.data.is_empty()));
        assert!(!rig.video(5_010, key).is_empty(), "a key picture ends it");
        assert!((5_020..8_000).step_by(20).all(|time_ms| !is_filler_frame(&mut rig, time_ms)));
        times
    };
    let undisturbed = filler_frames(None);
    assert_eq!(undisturbed.len(), 4, "{undisturbed:?}");
    assert_eq!(filler_frames(Some(0)), undisturbed, "a configuration");
    assert_eq!(filler_frames(Some(2)), undisturbed, "a picture that needs others");
}
