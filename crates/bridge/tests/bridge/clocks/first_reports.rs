//! What happens until the publisher's clocks are known, and when they are.

use rtp::payload::MediaKind;

use crate::clocks::publisher::{Bridge, MILLI, SECOND, World, audio, video};

#[test]
fn the_first_reports_move_the_picture_smoothly_and_leave_audio_alone() {
    let mut world = World::new(vec![audio(), video()]);
    // An encoder that is slow for pictures: only reports can tell.
    (world.sources[0].delay_us, world.sources[1].delay_us) = (20 * MILLI, 90 * MILLI);
    world.run(2 * SECOND);
    assert_eq!(world.apart_ms(), 70, "nothing but arrivals to go by");
    world.run(2 * SECOND);
    world.apart_ms();
    world.run(SECOND);
    assert!(world.apart_ms() <= 5, "both have reported, the latter after 2.5 s");
    let (least_us, most_us) = world.steps_us(MediaKind::Audio);
    assert!(-50 <= least_us && most_us <= 50, "audio moves by {least_us} to {most_us} us");
    let (least_us, most_us) = world.steps_us(MediaKind::Video);
    assert!(
        least_us >= -30 * MILLI && most_us <= MILLI,
        "200 ms of video move by {least_us} to {most_us} us"
    );
}

#[test]
fn a_bridge_that_begins_later_is_right_from_the_first_piece() {
    let mut world = World::new(vec![audio(), video()]);
    (world.sources[0].delay_us, world.sources[1].delay_us) = (20 * MILLI, 90 * MILLI);
    world.run(10 * SECOND);
    world.begin_bridge(|_| Bridge::Clock(Box::default()));
    world.run(10 * SECOND);
    assert!(world.apart_ms() <= 2);
    assert!(world.last.iter().flatten().all(|given| given.time_us >= 0));
}

#[test]
fn audio_that_joins_later_takes_the_delay_of_the_picture_for_its_own() {
    let mut world = World::new(vec![audio(), video()]);
    (world.sources[0].delay_us, world.sources[1].delay_us) = (60 * MILLI, 60 * MILLI);
    world.mute(0, 10 * SECOND);
    world.sources[0].report_every_us = 100 * SECOND;
    world.publish();
    world.mute(0, 10 * SECOND);
    world.run(10 * SECOND + 500 * MILLI);
    assert!(world.last[0].is_some());
    assert!(
        world.apart_ms() <= 2,
        "the picture is known to arrive 50 ms after its report says, so audio does too"
    );
}
