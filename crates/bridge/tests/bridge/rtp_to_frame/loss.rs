//! After a loss players see no picture that needs what was lost, and the publisher is asked for a key frame.

use rtp::payload::{Codec, MediaKind};

use crate::rtp_to_frame::{DELAY_MAX, Rig, VP8_INTER, VP8_KEY};

#[test]
fn nothing_comes_through_between_a_loss_and_the_next_key_frame() {
    let mut rig = Rig::new(Codec::Vp8);
    rig.video(0, &VP8_KEY, true);
    rig.video(33, &VP8_INTER, true);
    rig.take_number(MediaKind::Video);
    let wait = DELAY_MAX.as_millis() as u64;
    for at in 0..20 {
        rig.video(100 + at * 33, &VP8_INTER, true);
    }
    assert_eq!(rig.pictures().len(), 2);
    assert_eq!(rig.asked_ms, [100 + wait], "as soon as it is given up");
    rig.video(1_000, &VP8_KEY, true);
    rig.video(1_033, &VP8_INTER, true);
    let keys: Vec<_> = rig.pictures().iter().map(|(is_key, ..)| *is_key).collect();
    assert_eq!(keys, [true, false, true, false]);
    assert_eq!((rig.bridge.stats().lost, rig.bridge.stats().late), (1, 0));
}

#[test]
fn what_comes_in_time_is_no_loss() {
    let mut rig = Rig::new(Codec::Vp8);
    rig.video(0, &VP8_KEY, true);
    let number = rig.take_number(MediaKind::Video);
    rig.video(66, &VP8_INTER, true);
    assert_eq!(rig.pictures().len(), 1);
    rig.arrive(66 + DELAY_MAX.as_millis() as u64 - 1, MediaKind::Video, number, 33, &VP8_INTER, true);
    assert_eq!(rig.pictures().len(), 3);
    let stats = rig.bridge.stats();
    assert_eq!((stats.lost, stats.late, stats.broken), (0, 0, 0));
}

#[test]
fn a_frame_that_lacks_its_start_middle_or_end_is_left_out() {
    for missing in 0..3 {
        let mut rig = Rig::new(Codec::Vp8);
        rig.video(0, &VP8_KEY, true);
        // A key frame needs no other, so it alone decides whether it is shown.
        let packets = [&VP8_KEY[..], &[0, 1, 2], &[0, 3, 4]];
        for (part, payload) in packets.into_iter().enumerate() {
            match part == missing {
                true => drop(rig.take_number(MediaKind::Video)),
                false => rig.video(33, payload, part == 2),
            }
        }
        rig.video(500, &VP8_INTER, true);
        rig.run_until(1_000);
        assert_eq!(rig.pictures().len(), 1, "packet {missing} is missing");
        rig.video(1_100, &VP8_KEY, true);
        assert_eq!(rig.pictures().len(), 2, "packet {missing} is missing");
        assert_eq!(rig.bridge.stats().broken, 1, "packet {missing} is missing");
    }
}

#[test]
fn a_key_frame_right_behind_a_loss_is_shown() {
    let mut rig = Rig::new(Codec::Vp8);
    rig.video(0, &VP8_KEY, true);
    rig.take_number(MediaKind::Video);
    rig.video(66, &VP8_KEY, true);
    rig.run_until(66 + DELAY_MAX.as_millis() as u64);
    assert_eq!(rig.pictures().len(), 2);
}

/// An H.264 frame of several slices: without the first, nothing in the packets says where it began.
#[test]
fn a_key_frame_of_several_slices_that_lacks_the_first_is_left_out() {
    let sets = [&[0x67, 0x42, 0xc0, 0x1e][..], &[0x68, 0xce]];
    let mut rig = Rig::new(Codec::H264);
    sets.into_iter().for_each(|set| rig.video(0, set, false));
    rig.video(0, &[0x65, 0x88], false);
    rig.video(0, &[0x65, 0x48], true);
    assert_eq!(rig.pictures().len(), 1);
    rig.take_number(MediaKind::Video);
    rig.video(33, &[0x65, 0x48], true);
    rig.run_until(1_000);
    assert_eq!(rig.pictures().len(), 1);
    assert_eq!(rig.bridge.stats().broken, 1);
}

#[test]
fn padding_of_the_publisher_is_no_loss() {
    let mut rig = Rig::new(Codec::Vp8);
    rig.video(0, &VP8_KEY, true);
    for at in 1..50 {
        rig.video(at * 33, &[], false);
        rig.video(at * 33, &VP8_INTER, true);
    }
    assert_eq!(rig.pictures().len(), 50);
    assert_eq!(rig.bridge.stats().broken, 0);
}
