//! The publisher is asked for key frames so that no group of pictures is longer than configured.

use rtp::payload::Codec;

use crate::rtp_to_frame::{Rig, VP8_INTER, VP8_KEY, settings};

/// Runs a publisher at 30 pictures a second that answers requests after some pictures, or never.
fn groups(answers_after: Option<u64>, frames: u64) -> (Vec<u32>, Rig) {
    let mut rig = Rig::new(Codec::Vp8);
    let mut answer_at = None;
    for at in 0..frames {
        let is_key = at == 0 || answer_at.is_some_and(|due| due <= at);
        if is_key {
            answer_at = None;
        }
        let asked = rig.asked_ms.len();
        rig.video(at * 33, if is_key { &VP8_KEY } else { &VP8_INTER }, true);
        if rig.asked_ms.len() > asked && at > 0 {
            answer_at = answer_at.or(answers_after.map(|pictures| at + pictures));
        }
    }
    let keys =
        rig.pictures().into_iter().filter(|(is_key, ..)| *is_key).map(|(_, time_ms, _)| time_ms).collect();
    (keys, rig)
}

#[test]
fn groups_of_pictures_keep_to_the_interval() {
    for answers_after in [1, 3, 9] {
        let (keys, _) = groups(Some(answers_after), 1_000);
        let lengths: Vec<_> = keys.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(lengths.len() >= 15, "{lengths:?}");
        // How long the answer takes must be learnt first.
        for length in &lengths[1..] {
            assert!((1_700..=2_000).contains(length), "{answers_after}: {lengths:?}");
        }
    }
}

#[test]
fn a_publisher_that_does_not_answer_is_asked_once_a_second() {
    let (keys, rig) = groups(None, 300);
    assert_eq!(keys.len(), 1);
    assert_eq!(rig.pictures().len(), 300, "and its pictures come through");
    assert!((7..=9).contains(&(rig.asked_ms.len())), "{:?}", rig.asked_ms);
}

#[test]
fn a_publisher_that_sends_enough_key_frames_is_never_asked() {
    let mut rig = Rig::with(Codec::Vp8, settings());
    for at in 0..300u64 {
        rig.video(at * 33, if at.is_multiple_of(30) { &VP8_KEY } else { &VP8_INTER }, true);
    }
    assert!(rig.asked_ms.is_empty(), "{:?}", rig.asked_ms);
}

#[test]
fn one_is_asked_for_at_the_start_and_nothing_comes_through_before() {
    let mut rig = Rig::new(Codec::Vp8);
    for at in 0..10 {
        rig.video(at * 33, &VP8_INTER, true);
    }
    assert_eq!(rig.asked_ms, [0]);
    assert!(rig.frames.is_empty());
    rig.video(400, &VP8_KEY, true);
    assert_eq!(rig.pictures().len(), 1);
}
