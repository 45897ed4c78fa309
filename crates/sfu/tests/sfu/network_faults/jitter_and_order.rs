//! Packets that come late, overtaken or twice: nothing is lost by it, and little is sent again for
//! nothing.

use std::time::Duration;

use netsim::LinkConfig;

use crate::network_faults::publisher::{AUDIO, Beginning, VIDEO};
use crate::network_faults::world::World;

const DURATION: Duration = Duration::from_secs(60);

fn link() -> LinkConfig {
    LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::default() }
}

/// Runs a publisher and a viewer over such links; nothing may be missing in the end.
fn run(uplink: &LinkConfig, down: &LinkConfig) -> World {
    let mut world = World::new(31, DURATION, uplink, Beginning::default());
    world.join(down, &link());
    world.run(DURATION + Duration::from_secs(2));
    for track in [AUDIO, VIDEO] {
        let (expected, lost) = world.viewers[0].viewer.tracks[track].expected_and_lost();
        assert_eq!(lost, 0, "track {track}: {lost} of {expected} lost");
        // The very first packet tells the server that there is audio at all.
        assert!(expected + 1 >= world.publisher.sent(track), "track {track}");
        assert_eq!(world.viewers[0].viewer.tracks[track].stalls, []);
    }
    world
}

fn repaired(world: &World) -> u64 {
    world.viewers[0].viewer.tracks.iter().map(|track| track.repaired).sum()
}

#[test]
fn jitter_of_100_ms_costs_nothing() {
    let jitter = LinkConfig { jitter: Duration::from_millis(100), ..link() };
    let world = run(&jitter, &jitter);
    assert_eq!(world.publisher.resent, 0, "nothing was out of order");
    assert_eq!(repaired(&world), 0);
}

#[test]
fn reordered_packets_arrive_under_their_own_numbers() {
    let reorder = LinkConfig { reorder: 0.05, reorder_delay: Duration::from_millis(40), ..link() };
    let world = run(&reorder, &reorder);
    let sent = world.publisher.sent(AUDIO) + world.publisher.sent(VIDEO);
    // One in twenty is overtaken on each way, some of them for longer than anybody waits.
    assert!(world.publisher.resent * 20 <= sent, "{} of {sent} resent", world.publisher.resent);
    assert!(repaired(&world) * 10 <= sent, "{} of {sent} repaired", repaired(&world));
}

#[test]
fn duplicates_reach_viewers_once() {
    let duplicate = LinkConfig { duplicate: 0.1, ..link() };
    let world = run(&duplicate, &link());
    let viewer = &world.viewers[0].viewer;
    assert_eq!(viewer.refused, 0, "the server let a duplicate through");
    assert_eq!(viewer.tracks.iter().map(|track| track.repeated).sum::<u64>(), 0);

    let world = run(&link(), &duplicate);
    assert!(world.viewers[0].viewer.refused > 300, "duplicates of the last link are replays");
    assert_eq!(repaired(&world), 0);
}

#[test]
fn all_of_it_together_leaves_nothing_out() {
    let bad = LinkConfig {
        loss: 0.02,
        reorder: 0.02,
        duplicate: 0.02,
        jitter: Duration::from_millis(30),
        ..link()
    };
    let mut world = World::new(32, DURATION, &bad, Beginning::default());
    world.join(&bad, &bad);
    world.run(DURATION + Duration::from_secs(2));
    for track in [AUDIO, VIDEO] {
        let (expected, lost) = world.viewers[0].viewer.tracks[track].expected_and_lost();
        assert!(lost * 1000 <= expected, "track {track}: {lost} of {expected} lost");
    }
}
