//! Clocks of the publisher that run fast or slow.

use crate::lip_sync::world::{HOUR, SECOND, World};

#[test]
fn six_hours_of_drift_stay_in_sync() {
    // Timestamps against our clock, and the audio card against the timestamps.
    for (ppm, audio_ppm) in [(100.0, -100.0), (-100.0, 100.0)] {
        let mut world = World::new();
        (world.publisher.ppm, world.publisher.audio_ppm) = (ppm, audio_ppm);
        world.begin_bridge();
        world.join();
        world.run(6 * HOUR);
        let apart_ms = world.browser.apart_ms();
        assert!(apart_ms <= 12, "{apart_ms} ms apart at {ppm} and {audio_ppm} ppm");
        let [audio, video] = &world.browser.tracks;
        assert!(
            audio.pieces > 269_000 && video.pieces > 107_000,
            "{} and {} came",
            audio.pieces,
            video.pieces
        );
        assert!(video.reports > 6 * 3_600 - 100 && audio.reports > 6 * 3_600 - 100);
    }
}

#[test]
fn what_reports_say_of_wall_time_follows_a_drifting_publisher() {
    let mut world = World::new();
    world.publisher.ppm = 100.0;
    world.begin_bridge();
    world.join();
    world.run(20 * SECOND);
    let at_first_us = world.browser.delay_us(1).unwrap();
    world.run(HOUR);
    let moved_us = world.browser.delay_us(1).unwrap() - at_first_us;
    assert!(moved_us.abs() <= 25_000, "an hour later by {moved_us} us");
}
