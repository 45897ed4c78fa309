//! Key-frame requests of all nodes reach the publisher as one viewer's would.

use std::time::Duration;

use netsim::LinkConfig;
use relay::KEY_FRAME_INTERVAL;

use crate::world::{World, delay};

#[test]
fn requests_of_fifty_nodes_are_merged() {
    let mut world = World::fan_out(1, 50, &delay(10), &delay(10));
    world.play(0, Duration::from_secs(1));
    for _ in 0..20 {
        for edge in &mut world.edges {
            let stream = edge.streams[&0];
            edge.receiver.request_key_frame(world.clock.now(), stream, 0x1000);
        }
        world.play(0, Duration::from_millis(100));
    }
    world.run(Duration::from_secs(2));
    // 2 s of requests, at most two a second: the first at once.
    let asked: Vec<Duration> = world.key_frames.iter().map(|(at, ..)| *at).collect();
    assert!((4..=6).contains(&asked.len()), "{asked:?}");
    assert!(asked.windows(2).all(|pair| pair[1] - pair[0] >= KEY_FRAME_INTERVAL), "{asked:?}");
    assert!(asked[0] < Duration::from_millis(1_015));
    let id = world.streams[0].id;
    assert!(world.key_frames.iter().all(|(_, stream, ssrc)| (*stream, *ssrc) == (id, 0x1000)));
}

#[test]
fn tracks_are_asked_apart_and_ssrcs_that_were_never_sent_are_not() {
    let mut world = World::fan_out(2, 1, &delay(10), &delay(10));
    world.send_frame(0, 1, 2);
    world.send_frame(0, 2, 2);
    world.run(Duration::from_millis(50));
    let (now, stream) = (world.clock.now(), world.edges[0].streams[&0]);
    for ssrc in [1, 2, 3, 1] {
        world.edges[0].receiver.request_key_frame(now, stream, ssrc);
    }
    world.run(Duration::from_secs(1));
    let mut ssrcs: Vec<u32> = world.key_frames.iter().map(|(.., ssrc)| *ssrc).collect();
    ssrcs.sort_unstable();
    assert_eq!(ssrcs, [1, 2]);
}

#[test]
fn a_request_that_is_lost_is_made_again_by_who_needs_it() {
    let mut world = World::fan_out(3, 1, &delay(10), &LinkConfig { loss: 1.0, ..delay(10) });
    world.send_frame(0, 1, 1);
    world.run(Duration::from_millis(50));
    let stream = world.edges[0].streams[&0];
    world.edges[0].receiver.request_key_frame(world.clock.now(), stream, 1);
    world.run(Duration::from_secs(1));
    assert!(world.key_frames.is_empty());
    world.edges[0].set_links(&delay(10), &delay(10));
    world.edges[0].receiver.request_key_frame(world.clock.now(), stream, 1);
    world.run(Duration::from_millis(15));
    assert_eq!(world.key_frames.len(), 1);
}
