//! Pieces that were kept somewhere and come all at once.

use std::time::Duration;

use bridge::clock::{CaptureClock, Stamp};
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

/// A transcoder has the audio of what comes at once, or the publisher has none yet.
#[test]
fn audio_that_begins_behind_a_burst_of_pictures_is_with_the_newest() {
    let arrival = netsim::Clock::new().now() + Duration::from_secs(1);
    let stamp = |kind, ms: u32, clock_rate: u32| {
        let timestamp = ms * (clock_rate / 1_000);
        Stamp { kind, timestamp, clock_rate, arrival, mapping: None }
    };
    let mut clock = CaptureClock::new();
    let mut shown_us = 0;
    for ms in (0..=480).step_by(40) {
        shown_us = clock.time_us(&stamp(MediaKind::Video, ms, 90_000));
    }
    let heard_us = clock.time_us(&stamp(MediaKind::Audio, 480, 48_000));
    assert!((heard_us - shown_us).abs() <= MILLI, "{heard_us} us, and the picture {shown_us} us");
}
