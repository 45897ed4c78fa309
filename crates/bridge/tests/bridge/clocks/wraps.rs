//! Timestamps that go through 2^32.

use rtp::payload::MediaKind;

use crate::clocks::publisher::{HOUR, SECOND, World, audio, video};

#[test]
fn a_wrap_of_either_track_is_no_event() {
    let mut world = World::new(vec![audio(), video()]);
    // Audio wraps after 25 s, video after 35 s.
    world.sources[0].timestamp = 0u32.wrapping_sub(25 * 48_000);
    world.sources[1].timestamp = 0u32.wrapping_sub(35 * 90_000);
    world.publish();
    world.run(20 * SECOND);
    world.apart_ms();
    world.steps_us(MediaKind::Audio);
    world.steps_us(MediaKind::Video);
    world.run(30 * SECOND);
    assert!(world.apart_ms() <= 2);
    for kind in [MediaKind::Audio, MediaKind::Video] {
        let (least_us, most_us) = world.steps_us(kind);
        assert!(-500 <= least_us && most_us <= 500, "{kind:?} steps by {least_us} to {most_us} us");
    }
}

#[test]
fn two_days_go_through_every_wrap() {
    // Video wraps every 13.3 hours, audio every 24.9.
    let mut world = World::new(vec![audio(), video()]);
    world.sources.iter_mut().for_each(|source| source.every_us *= 60);
    world.sources.iter_mut().for_each(|source| source.report_every_us *= 10);
    (world.sources[0].ppm, world.sources[1].ppm) = (20.0, -20.0);
    world.publish();
    world.run(HOUR);
    world.apart_ms();
    world.run(48 * HOUR);
    let apart_ms = world.apart_ms();
    assert!(apart_ms <= 5, "{apart_ms} ms apart");
}
