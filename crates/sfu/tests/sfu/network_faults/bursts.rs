//! Half a second without any packet, which is repaired, and two: longer than the cache is kept, and more than
//! may be sent again, so the video has to start with a new key frame.

use std::time::Duration;

use netsim::{Burst, Clock, LinkConfig};
use sfu::Limits;

use crate::network_faults::publisher::{AUDIO, Beginning, Publisher, VIDEO};
use crate::network_faults::viewer::{Track, Viewer};
use crate::network_faults::world::World;

const DURATION: Duration = Duration::from_secs(30);
const CUT_AT: Duration = Duration::from_secs(10);
const LONG_CUT: Duration = Duration::from_secs(2);
const ONE_WAY: Duration = Duration::from_millis(20);
/// Round trips to viewer and publisher, the wait for the next video, and some of the links' jitter.
const NEW_PICTURE: Duration = Duration::from_millis(150);

fn link() -> LinkConfig {
    LinkConfig { delay: ONE_WAY, ..LinkConfig::default() }
}

fn outage(clock: &Clock, lasts: Duration) -> LinkConfig {
    let outage = clock.at(CUT_AT)..clock.at(CUT_AT + lasts);
    LinkConfig { outages: vec![outage], ..link() }
}

/// Packets from this long after the beginning on that never came.
fn lost_after(world: &World, viewer: &Viewer, track: usize, after: Duration) -> usize {
    let from = world.clock.at(after);
    // The very first packet tells the server that there is audio at all.
    let all = 1..world.publisher.sent(track);
    all.filter(|number| world.publisher.sent_at(track, *number) >= from)
        .filter(|number| !viewer.tracks[track].received.contains_key(number))
        .count()
}

/// Two viewers, of whom the first is cut off.
fn run_with_a_cut_viewer(lasts: Duration, gop_cache: bool) -> World {
    let mut world = World::new(21, DURATION, &link(), Beginning::default());
    world.set_limits(Limits { gop_cache, ..Limits::default() });
    let outage = outage(&world.clock, lasts);
    world.join(&outage, &outage);
    world.join(&link(), &link());
    world.run(DURATION + Duration::from_secs(1));
    let [cut_off, other] = &world.viewers[..] else { panic!("two viewers") };
    for track in [AUDIO, VIDEO] {
        // It asks for what is missing until the cache has lost it.
        let back = CUT_AT + lasts + Duration::from_secs(2);
        assert_eq!(lost_after(&world, &cut_off.viewer, track, back), 0, "track {track}");
        assert_eq!(lost_after(&world, &other.viewer, track, Duration::ZERO), 0, "track {track} of the other");
        assert_eq!(other.viewer.tracks[track].repaired, 0);
    }
    assert!(cut_off.viewer.tracks[VIDEO].repaired > 25);
    world
}

#[test]
fn a_viewer_that_was_cut_off_for_half_a_second_gets_everything() {
    let world = run_with_a_cut_viewer(Duration::from_millis(500), true);
    let viewer = &world.viewers[0].viewer;
    assert_eq!([AUDIO, VIDEO].map(|track| lost_after(&world, viewer, track, Duration::ZERO)), [0, 0]);
    assert_eq!(viewer.tracks[VIDEO].stalls, []);
}

#[test]
fn one_that_was_cut_off_for_longer_gets_a_video_as_soon_as_it_asks_for_one() {
    for gop_cache in [true, false] {
        let world = run_with_a_cut_viewer(LONG_CUT, gop_cache);
        let stalls = &world.viewers[0].viewer.tracks[VIDEO].stalls;
        assert_eq!(stalls.len(), 1);
        let (since, until) = stalls[0];
        assert!(until - since <= NEW_PICTURE, "a new video took {:?}", until - since);
    }
}

#[test]
fn a_publisher_that_was_cut_off_sends_a_new_video() {
    let clock = Clock::new();
    let publisher = Publisher::new(clock.now(), DURATION, Beginning::default());
    let mut world = World::with(clock, 22, publisher, &outage(&clock, LONG_CUT));
    world.join(&link(), &link());
    world.run(DURATION + Duration::from_secs(1));
    let viewer = &world.viewers[0].viewer;
    let back = CUT_AT + LONG_CUT;
    assert_eq!(lost_after(&world, viewer, AUDIO, back), 0, "audio");
    assert_eq!(lost_after(&world, viewer, VIDEO, back + NEW_PICTURE), 0, "video");
    // Nothing older than the cache is of use any more: the server asks for a new video at once, and
    // leaves out what viewers would ask for without success.
    assert_eq!(viewer.tracks.each_ref().map(Track::gaps_closed), [1, 1]);
    assert_eq!(viewer.tracks.each_ref().map(|track| track.given_up), [0, 0]);
    let after = world.publisher.sent_at(VIDEO, 0) + back;
    let came = viewer.tracks[VIDEO].received.values().find(|at| **at > after).expect("a video");
    assert!(*came - after <= NEW_PICTURE, "a new video took {:?}", *came - after);
}

#[test]
fn bursts_of_loss_are_repaired_on_both_ways() {
    // 2 % of the time nothing gets through. No burst is as long as what may be sent again in 3 s.
    let burst = Burst { apart: Duration::from_secs(5), lasts: Duration::from_millis(100) };
    let bursty = LinkConfig { burst: Some(burst), ..link() };
    let mut world = World::new(23, Duration::from_secs(120), &bursty, Beginning::default());
    world.join(&bursty, &link());
    world.run(Duration::from_secs(123));
    for track in [AUDIO, VIDEO] {
        let (expected, lost) = world.viewers[0].viewer.tracks[track].expected_and_lost();
        println!("track {track}: {lost} of {expected} lost");
        assert!(lost * 1000 <= expected, "track {track}: {lost} of {expected} lost");
    }
}
