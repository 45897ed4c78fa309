//! Clocks that are set, that stand still, and timestamps that jump.

use rtp::payload::MediaKind;

use crate::clocks::publisher::{HOUR, MILLI, SECOND, World, audio, video};

fn world() -> World {
    let mut world = World::new(vec![audio(), video()]);
    world.run(20 * SECOND);
    world.apart_ms();
    world.steps_us(MediaKind::Audio);
    world
}

#[test]
fn a_wall_clock_that_is_set_moves_nothing() {
    for set_us in [HOUR, -HOUR, 1_900 * MILLI, -SECOND, 300 * MILLI, -50 * MILLI, 15 * MILLI] {
        let mut world = world();
        world.ntp_shift_us += set_us;
        world.run(60 * SECOND);
        let apart_ms = world.apart_ms();
        assert!(apart_ms <= 25, "{apart_ms} ms apart after {set_us} us");
        let (least_us, most_us) = world.steps_us(MediaKind::Audio);
        assert!(-50 <= least_us && most_us <= 50, "audio moves by {least_us} to {most_us} us");
        world.run(60 * SECOND);
        let apart_ms = world.apart_ms();
        assert!(apart_ms <= 5, "{apart_ms} ms apart for good after {set_us} us");
    }
}

#[test]
fn timestamps_of_one_track_that_jump_leave_it_where_it_belongs() {
    let rows =
        [(0, 48_000 * 3_600), (1, 90_000 * 3_600), (0, -48_000 * 3_600), (1, -90_000 * 60), (0, 48_000 * 5)];
    for (source, units) in rows {
        let mut world = world();
        let timestamp = &mut world.sources[source].timestamp;
        *timestamp = timestamp.wrapping_add(units as u32);
        world.run(30 * SECOND);
        let apart_ms = world.apart_ms();
        assert!(apart_ms <= 40, "{apart_ms} ms apart after {units} units of {source}");
    }
}

#[test]
fn a_track_whose_timestamps_stood_still_is_put_right_at_once() {
    // Programs that stamp by the samples they send do not count a pause.
    for (source, pause_us) in [(0, 4 * SECOND), (1, 5 * SECOND), (0, 10 * SECOND), (1, 120 * SECOND)] {
        let mut world = world();
        world.mute(source, pause_us);
        world.report_no_more(source, pause_us + 30 * SECOND);
        let units = pause_us / 1_000 * i64::from(world.sources[source].clock_rate) / 1_000;
        let timestamp = &mut world.sources[source].timestamp;
        *timestamp = timestamp.wrapping_sub(units as u32);
        world.run(pause_us);
        world.apart_ms();
        world.run(30 * SECOND);
        let apart_ms = world.apart_ms();
        assert!(apart_ms <= 10, "{apart_ms} ms apart after {pause_us} us, before a report");
        world.run(30 * SECOND);
        let apart_ms = world.apart_ms();
        assert!(apart_ms <= 10, "{apart_ms} ms apart after {pause_us} us, with reports");
    }
}
