//! Key-frame requests of all nodes reach the publisher as one viewer's would.

use std::time::Duration;

use netsim::LinkConfig;
use relay::{KEY_FRAME_INTERVAL, Limits, LinkSecret, Outgoing, Receiver, Role, SealKey, Sender};

use crate::world::{World, delay, rtp};

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

#[test]
fn a_node_that_asks_for_all_it_can_does_not_keep_others_waiting() {
    let mut world = World::new(4);
    let ids: Vec<usize> = (0..4).map(|_| world.add_edges(1, &delay(1), &delay(1))).collect();
    // The first edge has three streams of 512 tracks, the last one a stream of its own.
    let key = SealKey::random(0).open_key();
    for stream in [ids[1], ids[2]] {
        world.subscribe(stream, 0, &key);
    }
    let ask = |world: &mut World, edge: usize, stream: usize, ssrc| {
        let (now, id) = (world.clock.now(), world.edges[edge].streams[&stream]);
        world.edges[edge].receiver.request_key_frame(now, id, ssrc);
    };
    world.send_frame(ids[3], 7, 1);
    for stream in &ids[..3] {
        (0..512).for_each(|ssrc| world.send_frame(*stream, ssrc, 1));
    }
    for _ in 0..2 {
        // The second time all of them wait for the interval.
        for part in 0..12 {
            (0..128).for_each(|ssrc| ask(&mut world, 0, ids[part / 4], part as u32 % 4 * 128 + ssrc));
            world.run(Duration::from_millis(3));
        }
    }
    let asked = world.key_frames.len();
    ask(&mut world, 3, ids[3], 7);
    world.run(Duration::from_millis(3));
    assert_eq!(world.key_frames[asked..].iter().map(|(.., ssrc)| *ssrc).collect::<Vec<_>>(), [7]);
    world.run(Duration::from_secs(1));
    assert_eq!(world.key_frames.len(), 1_536 + 1 + 1_024, "and no more than so many wait for the first");
}

#[test]
fn a_request_goes_to_the_node_that_was_heard_from_last() {
    let mut world = World::new(5);
    let mut now = world.now();
    let (mut sender, mut receiver) = (Sender::new(Limits::default()), Receiver::new(Limits::default()));
    let key = SealKey::random(0);
    let at_edge = receiver.add_stream(&key.open_key()).unwrap();
    let stream = sender.add_stream(key).unwrap();
    let links = [1, 2].map(|secret| {
        let (keys, _) = LinkSecret::new([secret; 32]).split(Role::Listener);
        let (_, edge_keys) = LinkSecret::new([secret; 32]).split(Role::Dialer);
        let out_link = sender.add_link(now, keys).unwrap();
        let in_link = receiver.add_link(now, edge_keys).unwrap();
        sender.subscribe(stream, out_link, receiver.attach(now, at_edge, in_link).unwrap()).unwrap();
        (out_link, in_link)
    });
    receiver.poll_control(now, |_, _| {});
    let mut out = Outgoing::new();
    for heard in [1, 0, 1] {
        now += Duration::from_millis(10);
        let packet = rtp(&mut world.random, heard as u16, 7, 50);
        sender.send(now, stream, &[&packet], &mut out).unwrap();
        let (_, private) = out.links().find(|(link, _)| *link == links[heard].0).unwrap();
        let mut datagram = [&private[0][..], out.shared().next().unwrap()].concat();
        receiver.handle_datagram(now, links[heard].1, &mut datagram).unwrap();
        // What is missing is asked for first.
        receiver.poll_control(now, |_, _| {});
        receiver.request_key_frame(now, at_edge, 7);
        let mut asked = Vec::new();
        receiver.poll_control(now, |link, _| asked.push(link));
        assert_eq!(asked, [links[heard].1]);
    }
}
