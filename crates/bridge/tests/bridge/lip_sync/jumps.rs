//! Timestamps that jump, wrap and start over.

use crate::lip_sync::world::{HOUR, MILLI, SECOND, World};

#[test]
fn timestamps_that_jump_by_hours_stay_in_sync_and_rise() {
    for jump_us in [HOUR, -2 * HOUR, 11 * SECOND, -4 * SECOND] {
        let mut world = World::new();
        world.publisher.shift_us = 3 * HOUR;
        world.begin_bridge();
        world.join();
        world.run(10 * SECOND);
        world.browser.step_ms();
        world.publisher.shift_us += jump_us;
        world.run(60 * SECOND);
        let apart_ms = world.browser.apart_ms();
        assert!(apart_ms <= 40, "{apart_ms} ms apart at a jump of {jump_us} us");
        let step_ms = world.browser.step_ms();
        assert!(step_ms <= 400, "video goes on after {step_ms} ms");
        world.run(30 * SECOND);
        world.browser.apart_ms();
        world.run(30 * SECOND);
        let apart_ms = world.browser.apart_ms();
        assert!(apart_ms <= 5, "{apart_ms} ms apart after a jump of {jump_us} us");
    }
}

#[test]
fn wraps_of_both_sides_are_no_event() {
    // Timestamps of RTMP wrap after 49.7 days, those of video in RTP after 13.25 hours, of audio after 24.9.
    for wrap_us in [4_294_967_296 * MILLI, 47_721_858_845, 89_478_485_333] {
        let mut world = World::new();
        world.publisher.shift_us = wrap_us - 15 * SECOND;
        world.begin_bridge();
        world.join();
        world.run(30 * SECOND);
        let apart_ms = world.browser.apart_ms();
        assert!(apart_ms <= 5, "{apart_ms} ms apart");
        let step_ms = world.browser.step_ms();
        assert!(step_ms <= 202, "a step of {step_ms} ms");
    }
}
