//! Packets lost one by one, on either side of the server: what is left after retransmission.

use std::time::Duration;

use netsim::LinkConfig;

use crate::network_faults::publisher::{AUDIO, Beginning, VIDEO};
use crate::network_faults::world::World;

/// Loss of a link, and what may be left of it, in percent. With 20 % the limit on retransmission is
/// reached now and then.
const CASES: [(f64, f64); 4] = [(1.0, 0.01), (5.0, 0.05), (10.0, 0.1), (20.0, 1.6)];

const DURATION: Duration = Duration::from_secs(60);

fn lossy(percent: f64, delay_ms: u64) -> LinkConfig {
    LinkConfig {
        loss: percent / 100.0,
        delay: Duration::from_millis(delay_ms),
        jitter: Duration::from_millis(5),
        ..LinkConfig::default()
    }
}

/// Runs it, and checks what each viewer has lost of each track.
fn check(world: &mut World, left_percent: f64, what: &str) {
    world.run(DURATION);
    // What was lost last is still asked for.
    world.run(Duration::from_secs(3));
    for (at, seat) in world.viewers.iter().enumerate() {
        for (track, name) in [(AUDIO, "audio"), (VIDEO, "video")] {
            let (expected, lost) = seat.viewer.tracks[track].expected_and_lost();
            let left = 100.0 * lost as f64 / expected as f64;
            assert_eq!(seat.viewer.tracks[track].gaps_closed(), 0, "{what}, viewer {at}, {name}");
            let repaired = seat.viewer.tracks[track].repaired;
            println!(
                "{what}, viewer {at}, {name}: {lost} of {expected} lost ({left:.4} %), {repaired} repaired"
            );
            assert!(
                expected + 100 > world.publisher.sent(track),
                "{what}: viewer {at} got {expected} in all"
            );
            assert!(left <= left_percent, "{what}: viewer {at} lost {left} % of {name}");
        }
    }
}

#[test]
fn what_is_lost_on_the_way_to_viewers_is_repaired() {
    for (loss, left) in CASES {
        let mut world = World::new(11, DURATION, &lossy(0.0, 10), Beginning::default());
        for delay_ms in [1, 20, 60] {
            world.join(&lossy(loss, delay_ms), &lossy(loss, delay_ms));
        }
        check(&mut world, left, &format!("{loss} % to viewers"));
    }
}

/// Encrypted again under the index that it had, also across the rollover of sequence numbers.
#[test]
fn what_is_lost_on_the_way_to_viewers_without_rtx_is_repaired_by_the_same_packets() {
    for (loss, left) in CASES {
        let mut world = World::new(11, DURATION, &lossy(0.0, 10), Beginning::default());
        for delay_ms in [1, 20, 60] {
            world.join_without_rtx(&lossy(loss, delay_ms), &lossy(loss, delay_ms));
        }
        check(&mut world, left, &format!("{loss} % to viewers without RTX"));
        assert!(world.viewers.iter().all(|seat| seat.viewer.tracks[VIDEO].repaired > 0));
    }
}

#[test]
fn what_is_lost_on_the_way_from_the_publisher_is_repaired() {
    for (loss, left) in CASES {
        for delay_ms in [1, 20, 60] {
            let mut world = World::new(12, DURATION, &lossy(loss, delay_ms), Beginning::default());
            world.join(&lossy(0.0, 10), &lossy(0.0, 10));
            check(&mut world, left, &format!("{loss} % from the publisher at {delay_ms} ms"));
        }
    }
}

#[test]
fn what_is_lost_on_both_ways_is_repaired() {
    for (loss, left) in CASES {
        let mut world = World::new(13, DURATION, &lossy(loss, 20), Beginning::default());
        world.join(&lossy(loss, 20), &lossy(loss, 20));
        // Two links lose twice as much.
        check(&mut world, 2.0 * left, &format!("{loss} % on both ways"));
    }
}
