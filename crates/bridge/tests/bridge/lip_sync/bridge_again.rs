//! A bridge that ends and begins again on the same stream of packets.

use crate::lip_sync::world::{MILLI, SECOND, World};

#[test]
fn a_publisher_that_comes_back_leaves_its_viewers_in_sync() {
    let mut world = World::new();
    world.begin_bridge();
    world.join();
    world.run(10 * SECOND);
    for round in 0..10 {
        world.browser.apart_ms();
        world.browser.step_ms();
        world.gone_for(3 * SECOND);
        world.publisher.shift_us = i64::from(round) * 777 * SECOND;
        world.publish();
        world.run(500 * MILLI);
        world.begin_bridge();
        world.run(500 * MILLI);
        let apart_ms = world.browser.apart_ms();
        assert!(apart_ms <= 40, "round {round}: {apart_ms} ms apart, until new reports have come");
        world.run(20 * SECOND);
        let apart_ms = world.browser.apart_ms();
        assert!(apart_ms <= 5, "round {round}: {apart_ms} ms apart");
        let step_ms = world.browser.step_ms();
        assert!((2_800..=4_000).contains(&step_ms), "round {round}: time went on by {step_ms} ms");
    }
}

#[test]
fn a_bridge_begun_again_after_30_seconds_is_right_for_those_who_waited_and_those_who_come() {
    for waits in [true, false] {
        let mut world = World::new();
        world.run(5 * SECOND);
        world.begin_bridge();
        world.join();
        world.run(10 * SECOND);
        world.leave();
        world.end_bridge();
        world.run(30 * SECOND);
        if waits {
            world.join();
            world.begin_bridge();
        } else {
            world.begin_bridge();
            world.run(700 * MILLI);
            world.join();
        }
        world.run(300 * MILLI);
        let [audio, video] = &world.browser.tracks;
        assert!(audio.reports >= 1 && video.reports >= 1, "{} and {} reports", audio.reports, video.reports);
        assert!(video.pieces > 1, "the picture is there at once");
        world.browser.step_ms();
        world.run(20 * SECOND);
        let apart_ms = world.browser.apart_ms();
        assert!(apart_ms <= 5, "{apart_ms} ms apart");
        let step_ms = world.browser.step_ms();
        assert!(step_ms <= 202, "a step of {step_ms} ms");
        // What is sent now is stamped as of now: nothing waits to be played.
        let delay_us = world.browser.delay_us(1).unwrap() - WALL_US;
        assert!((20 * MILLI..=80 * MILLI).contains(&delay_us), "played {delay_us} us after capture");
    }
}

/// Wall time at the beginning, as NTP counts it.
const WALL_US: i64 = 0xe000_0000 * SECOND;
