//! Another key in the middle of a stream.

use std::time::Duration;

use netsim::LinkConfig;
use relay::{DropReason, SealKey, SetupError};

use crate::world::{World, delay};

#[test]
fn a_stream_continues_over_many_keys_on_a_bad_link() {
    for seed in 0..2 {
        let down = LinkConfig {
            loss: 0.03,
            reorder: 0.1,
            reorder_delay: Duration::from_millis(60),
            duplicate: 0.05,
            ..delay(20)
        };
        let mut world = World::fan_out(seed, 1, &down, &delay(20));
        // More than a byte of the datagram can tell apart.
        for _ in 0..260 {
            // A key is used for longer than half of the time that an old one is valid.
            world.play(0, Duration::from_millis(1_640));
            let key = world.hand_out_key(0);
            world.play(0, Duration::from_millis(200));
            world.sender.rotate(world.streams[0].id, key).unwrap();
        }
        world.play(0, Duration::from_secs(1));
        world.run(Duration::from_secs(2));
        assert_eq!(world.check(), [0], "seed {seed}");
    }
}

#[test]
fn packets_of_the_old_key_that_were_lost_are_repaired_after_the_change() {
    let mut world = World::fan_out(1, 1, &delay(5), &delay(5));
    world.play(0, Duration::from_millis(200));
    // Held up on its way while the key changes.
    world.edges[0].set_links(&LinkConfig { loss: 1.0, ..delay(5) }, &delay(5));
    world.send_frame(0, 7, 1);
    world.edges[0].set_links(&delay(5), &delay(5));
    let key = world.hand_out_key(0);
    world.sender.rotate(world.streams[0].id, key).unwrap();
    world.play(0, Duration::from_millis(200));
    assert_eq!((world.check(), world.edges[0].repaired), (vec![0], 1));
}

#[test]
fn packets_come_again_once_a_late_key_is_there() {
    let mut world = World::fan_out(2, 1, &delay(5), &delay(5));
    world.play(0, Duration::from_millis(400));
    let key = SealKey::random(1);
    let open = key.open_key();
    world.sender.rotate(world.streams[0].id, key).unwrap();
    world.play(0, Duration::from_millis(200));
    assert!(world.edges[0].dropped[&DropReason::UnknownEpoch] > 0);
    assert!(world.check()[0] > 0);
    let stream = world.edges[0].streams[&0];
    let (now, before) = (world.now(), world.edges[0].receiver.link_stats(world.edges[0].link).unwrap());
    assert_eq!((before.asked, before.lost), (0, 0), "nothing is requested needlessly");
    world.edges[0].receiver.add_key(now, stream, &open).unwrap();
    world.play(0, Duration::from_secs(1));
    world.run(Duration::from_secs(1));
    assert_eq!(world.check(), [0], "their numbers did not count as received");
}

#[test]
fn packets_under_a_key_that_a_node_never_gets_are_not_requested_again() {
    let mut world = World::fan_out(7, 1, &delay(5), &delay(5));
    world.play(0, Duration::from_millis(200));
    // It joins between the handing out of the next key and its use, and has that one alone.
    let key = world.hand_out_key(0);
    let edge = world.add_edge(&delay(5), &delay(5), Duration::ZERO);
    world.subscribe(0, edge, &key.open_key());
    world.play(0, Duration::from_secs(1));
    let dropped = world.edges[edge].dropped[&DropReason::UnknownEpoch];
    world.sender.rotate(world.streams[0].id, key).unwrap();
    let before = world.streams[0].sent.len();
    world.play(0, Duration::from_secs(1));
    world.run(Duration::from_secs(1));
    let edge = &world.edges[edge];
    let stats = edge.receiver.link_stats(edge.link).unwrap();
    assert!(dropped > 20, "{dropped} before the change");
    assert_eq!((stats.asked, stats.lost, edge.dropped[&DropReason::UnknownEpoch]), (0, 0, dropped));
    assert_eq!(edge.got[&edge.streams[&0]], world.streams[0].sent[before..]);
}

#[test]
fn epochs_only_rise() {
    let mut world = World::fan_out(3, 1, &delay(5), &delay(5));
    let (id, at_edge) = (world.streams[0].id, world.edges[0].streams[&0]);
    let now = world.now();
    for epoch in [0, 128, u32::MAX] {
        let key = SealKey::random(epoch);
        assert_eq!(
            world.edges[0].receiver.add_key(now, at_edge, &key.open_key()),
            Err(SetupError::StaleEpoch)
        );
        assert_eq!(world.sender.rotate(id, key), Err(SetupError::StaleEpoch));
    }
    let key = SealKey::random(127);
    world.edges[0].receiver.add_key(now, at_edge, &key.open_key()).unwrap();
    world.sender.rotate(id, key).unwrap();
    world.play(0, Duration::from_secs(1));
    assert_eq!(world.check(), [0]);
}

#[test]
fn a_node_that_left_cannot_open_what_follows() {
    let mut world = World::fan_out(4, 2, &delay(5), &delay(5));
    world.play(0, Duration::from_millis(200));
    // Edge 1 leaves; its datagrams still reach it, as on a network that somebody listens to.
    let key = SealKey::random(1);
    let remains = world.edges[0].streams[&0];
    world.edges[0].receiver.add_key(world.clock.now(), remains, &key.open_key()).unwrap();
    world.sender.rotate(world.streams[0].id, key).unwrap();
    let before = world.edges[1].got[&world.edges[1].streams[&0]].len();
    world.play(0, Duration::from_secs(1));
    assert_eq!(world.check()[0], 0);
    assert_eq!(world.edges[1].got[&world.edges[1].streams[&0]].len(), before);
}

#[test]
fn a_stream_without_its_key_takes_no_repairs_from_another_one() {
    let mut world = World::fan_out(5, 1, &delay(5), &delay(5));
    let other = world.add_stream();
    let key = SealKey::random(1);
    let open = key.open_key();
    world.sender.rotate(world.streams[other].id, key).unwrap();
    // It has the key before this one.
    world.subscribe(other, 0, &SealKey::random(0).open_key());
    let lossy = LinkConfig { loss: 0.1, ..delay(5) };
    world.edges[0].set_links(&lossy, &delay(5));
    for _ in 0..250 {
        world.send_frame(other, 8, 10);
        world.send_frame(0, 7, 2);
        world.run(Duration::from_millis(40));
    }
    let (edge, now) = (&world.edges[0], world.now());
    let stats = edge.receiver.link_stats(edge.link).unwrap();
    assert!(stats.lost > 2_000, "given up after a second");
    // Of the other stream each loss is repaired once, comes and waits as well.
    assert!(stats.asked < 500, "{stats:?}");
    let stream = world.edges[0].streams[&other];
    world.edges[0].receiver.add_key(now, stream, &open).unwrap();
    world.edges[0].set_links(&delay(5), &delay(5));
    world.run(Duration::from_secs(2));
    let of = |stream| world.edges[0].got[&world.edges[0].streams[&stream]].len();
    assert_eq!(of(0), world.streams[0].sent.len());
    assert!((60..260).contains(&of(other)), "{} of the last second came", of(other));
}

#[test]
fn nothing_is_repaired_of_a_stream_that_a_link_has_left() {
    let mut world = World::fan_out(6, 1, &delay(5), &delay(5));
    world.play(0, Duration::from_millis(200));
    world.edges[0].set_links(&LinkConfig { loss: 1.0, ..delay(5) }, &delay(5));
    world.send_frame(0, 7, 3);
    world.sender.unsubscribe(world.streams[0].id, world.edges[0].out_link);
    world.edges[0].set_links(&delay(5), &delay(5));
    world.run(Duration::from_secs(1));
    assert_eq!((world.check(), world.edges[0].repaired), (vec![3], 0));
}
