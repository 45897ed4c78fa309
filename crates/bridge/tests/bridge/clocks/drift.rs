//! Clocks that run fast or slow.

use rtp::payload::MediaKind;

use crate::clocks::publisher::{HOUR, MILLI, SECOND, World, audio, video};

#[test]
fn six_hours_of_drift_keep_audio_and_picture_within_a_few_milliseconds() {
    // Audio card, camera and wall clock of the publisher, in ppm.
    for (audio_ppm, video_ppm, ntp_ppm) in [(100.0, -100.0, 0.0), (-100.0, 100.0, 100.0)] {
        let mut world = World::new(vec![audio(), video()]);
        (world.sources[0].ppm, world.sources[1].ppm, world.ntp_ppm) = (audio_ppm, video_ppm, ntp_ppm);
        world.sources[0].delay_us = 35 * MILLI;
        world.sources[1].delay_us = 60 * MILLI;
        world.run(20 * SECOND);
        assert!(world.apart_ms() <= 40, "before and at the first reports");
        world.steps_us(MediaKind::Audio);
        world.steps_us(MediaKind::Video);
        world.run(6 * HOUR);
        let apart_ms = world.apart_ms();
        assert!(apart_ms <= 3, "{apart_ms} ms apart at {audio_ppm}, {video_ppm}, {ntp_ppm} ppm");
        let (least_us, most_us) = world.steps_us(MediaKind::Audio);
        assert!(-30 <= least_us && most_us <= 30, "audio of 80 ms moves by {least_us} to {most_us} us");
        let (least_us, most_us) = world.steps_us(MediaKind::Video);
        assert!(-1_100 <= least_us && most_us <= 1_100, "a picture moves by {least_us} to {most_us} us");
    }
}

#[test]
fn jitter_of_media_and_reports_is_not_seen() {
    let mut world = World::new(vec![audio(), video()]);
    (world.sources[0].ppm, world.sources[1].ppm) = (100.0, -100.0);
    (world.sources[0].jitter_us, world.sources[1].jitter_us) = (80 * MILLI, 150 * MILLI);
    world.run(20 * SECOND);
    world.apart_ms();
    world.run(HOUR);
    let apart_ms = world.apart_ms();
    assert!(apart_ms <= 5, "{apart_ms} ms apart");
}

#[test]
fn a_publisher_without_reports_stays_within_the_difference_of_its_delays() {
    let mut world = World::new(vec![audio(), video()]);
    (world.sources[0].ppm, world.sources[1].ppm) = (100.0, -100.0);
    world.sources.iter_mut().for_each(|source| source.report_every_us = 100 * HOUR);
    world.sources[0].delay_us = 20 * MILLI;
    world.sources[1].delay_us = 40 * MILLI;
    world.publish();
    world.run(6 * HOUR);
    let apart_ms = world.apart_ms();
    assert!(apart_ms <= 25, "{apart_ms} ms apart");
}

#[test]
fn audio_alone_and_video_alone_keep_the_distances_of_their_timestamps() {
    for source in [audio(), video()] {
        let kind = source.kind;
        let mut world = World::new(vec![source]);
        world.sources[0].ppm = 100.0;
        world.run(HOUR);
        let (least_us, most_us) = world.steps_us(kind);
        assert!(-1 <= least_us && most_us <= 40, "{kind:?} moves by {least_us} to {most_us} us");
    }
}
