//! Pieces that were kept somewhere and come all at once.

use rtp::payload::MediaKind;

use crate::clocks::publisher::{MILLI, SECOND, World, audio, video};

#[test]
fn what_a_publisher_kept_until_it_was_connected_keeps_its_times() {
    let mut world = World::new(vec![audio(), video()]);
    world.stall(3 * SECOND);
    world.run(5 * SECOND);
    let apart_ms = world.apart_ms();
    assert!(apart_ms <= 40, "{apart_ms} ms apart");
    let error_us = world.last.map(|given| given.unwrap().error_us());
    assert!((error_us[0] - error_us[1]).abs() <= 20 * MILLI);
    for kind in [MediaKind::Audio, MediaKind::Video] {
        let (least_us, most_us) = world.steps_us(kind);
        assert!(-20 * MILLI <= least_us && most_us <= 20 * MILLI, "{kind:?} {least_us} to {most_us}");
    }
}

#[test]
fn a_stalled_network_changes_no_times() {
    let mut world = World::new(vec![audio(), video()]);
    world.run(10 * SECOND);
    for stall_us in [500 * MILLI, 5 * SECOND, 20 * SECOND] {
        world.apart_ms();
        world.steps_us(MediaKind::Audio);
        world.stall(stall_us);
        world.run(30 * SECOND);
        assert!(world.apart_ms() <= 5, "after {stall_us} us");
        let (least_us, most_us) = world.steps_us(MediaKind::Audio);
        assert!(-MILLI <= least_us && most_us <= MILLI, "audio steps by {least_us} to {most_us} us");
    }
}
