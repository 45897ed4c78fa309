//! Limits, and what happens at each.

use std::time::Duration;

use relay::{DropReason, Limits, LinkSecret, OpenKey, Outgoing, Receiver, Role, SealKey, Sender, SetupError};

use crate::world::{World, delay, rtp};

#[test]
fn links_and_streams_are_as_many_as_the_limits_say() {
    let limits = Limits { links_max: 2, streams_max: 3, ..Limits::default() };
    let (mut sender, mut receiver) = (Sender::new(limits.clone()), Receiver::new(limits));
    let now = World::new(1).now();
    let keys = |secret| LinkSecret::new([secret; 32]).split(Role::Dialer);
    let links: Vec<_> = (0..2).map(|secret| sender.add_link(now, keys(secret).0).unwrap()).collect();
    assert!((0..2).all(|secret| receiver.add_link(now, keys(secret).1).is_ok()));
    assert_eq!(sender.add_link(now, keys(9).0), Err(SetupError::Full));
    assert_eq!(receiver.add_link(now, keys(9).1), Err(SetupError::Full));
    let open = SealKey::random(0).open_key();
    let streams: Vec<_> = (0..3).map(|_| sender.add_stream(SealKey::random(0)).unwrap()).collect();
    assert!((0..3).all(|_| receiver.add_stream(&open).is_ok()));
    assert_eq!(sender.add_stream(SealKey::random(0)), Err(SetupError::Full));
    assert_eq!(receiver.add_stream(&open), Err(SetupError::Full));

    assert_eq!(sender.subscribe(streams[0], links[0], 5), Ok(()));
    assert_eq!(sender.subscribe(streams[1], links[0], 5), Err(SetupError::HandleInUse));
    assert_eq!(sender.subscribe(streams[1], links[1], 5), Ok(()));
    sender.remove_link(links[0]);
    assert_eq!((sender.subscribers(streams[0]), sender.subscribers(streams[1])), (0, 1));
    assert_eq!(sender.subscribe(streams[1], links[0], 6), Err(SetupError::Unknown));
    sender.remove_stream(streams[1]);
    assert_eq!(sender.subscribe(streams[2], links[1], 5), Ok(()), "the handle is free");
}

#[test]
fn the_history_is_bounded_by_packets_bytes_and_time() {
    for (limits, most) in [
        (Limits { history_packets_max: 10, ..Limits::default() }, 10),
        (Limits { history_bytes_max: 10_500, ..Limits::default() }, 10),
        (Limits { history: Duration::from_millis(500), ..Limits::default() }, 50),
    ] {
        let mut world = World::new(2);
        let mut sender = Sender::new(limits);
        let key = SealKey::random(0);
        let mut receiver = Receiver::new(Limits::default());
        let at_edge = receiver.add_stream(&key.open_key()).unwrap();
        let stream = sender.add_stream(key).unwrap();
        let (keys, _) = LinkSecret::new([1; 32]).split(Role::Dialer);
        let (_, edge_keys) = LinkSecret::new([1; 32]).split(Role::Listener);
        let mut now = world.now();
        let link = sender.add_link(now, keys).unwrap();
        let in_link = receiver.add_link(now, edge_keys).unwrap();
        sender.subscribe(stream, link, receiver.attach(now, at_edge, in_link).unwrap()).unwrap();
        let mut out = Outgoing::new();
        for sequence in 0..200 {
            now += Duration::from_millis(10);
            let packet = rtp(&mut world.random, sequence, 7, 1_000);
            sender.send(now, stream, &[&packet], &mut out).unwrap();
        }
        // Only the last one arrives, and all others are asked for.
        let (_, private) = out.links().next().unwrap();
        let mut datagram = [&private[0][..], out.shared().next().unwrap()].concat();
        assert!(receiver.handle_datagram(now, in_link, &mut datagram).unwrap().is_some());
        let mut repairs = Vec::new();
        receiver.poll_control(now, |_, datagram| {
            sender.handle_control(now, link, &mut datagram.to_vec(), &mut repairs).unwrap();
        });
        assert!((most - 1..=most + 1).contains(&(repairs.len() + 1)), "{} of {most}", repairs.len());
        for repair in repairs {
            let mut datagram = [repair.private(), repair.shared()].concat();
            assert!(receiver.handle_datagram(now, in_link, &mut datagram).unwrap().unwrap().was_repaired);
        }
    }
}

#[test]
fn packets_of_more_ssrcs_than_a_stream_may_have_are_dropped() {
    let mut world = World::fan_out(3, 1, &delay(1), &delay(1));
    for ssrc in 0..600 {
        world.send_frame(0, ssrc, 1);
        world.run(Duration::from_millis(2));
    }
    let edge = &world.edges[0];
    assert_eq!(edge.receiver.tracks(edge.streams[&0]).count(), 512);
    assert_eq!(edge.dropped[&DropReason::TooManyTracks], 88);
    assert_eq!(edge.receiver.link_stats(edge.link).unwrap().asked, 0, "they count as received");
}

#[test]
fn handles_rest_before_they_are_used_again() {
    let mut receiver = Receiver::new(Limits::default());
    let mut now = World::new(4).now();
    let (_, keys) = LinkSecret::new([1; 32]).split(Role::Dialer);
    let link = receiver.add_link(now, keys).unwrap();
    let key = OpenKey::from_bytes(&[1; relay::OPEN_KEY_BYTES]);
    let mut last: Vec<u16> = Vec::new();
    for _ in 0..1_000 {
        let stream = receiver.add_stream(&key).unwrap();
        let handle = receiver.attach(now, stream, link).unwrap();
        assert_eq!(receiver.attach(now, stream, link), Ok(handle));
        assert!(!last.iter().rev().take(60).any(|used| *used == handle));
        last.push(handle);
        receiver.remove_stream(now, stream);
        now += Duration::from_millis(100);
    }
    assert!(last.iter().max().is_some_and(|most| *most < 100), "and few are used");
    // Streams that come and go in no time have handles of their own.
    now += Duration::from_secs(10);
    let mut used = std::collections::HashSet::new();
    for _ in 0..1_000 {
        let stream = receiver.add_stream(&key).unwrap();
        assert!(used.insert(receiver.attach(now, stream, link).unwrap()));
        receiver.remove_stream(now, stream);
    }
}

#[test]
fn a_control_datagram_gets_no_more_than_its_share_of_repairs() {
    let mut world = World::fan_out(5, 1, &delay(1), &delay(1));
    // Short packets, so that the budget is not what ends it.
    let (now, id) = (world.now(), world.streams[0].id);
    let mut out = Outgoing::new();
    for sequence in 0..3_000 {
        let packet = rtp(&mut world.random, sequence, 7, 20);
        world.sender.send(now, id, &[&packet], &mut out).unwrap();
    }
    let (_, private) = out.links().next().unwrap();
    let mut datagram = [&private[0][..], out.shared().next().unwrap()].concat();
    let edge = &mut world.edges[0];
    edge.receiver.handle_datagram(now, edge.link, &mut datagram).unwrap();
    let mut repairs = Vec::new();
    edge.receiver.poll_control(now, |_, datagram| {
        world.sender.handle_control(now, edge.out_link, &mut datagram.to_vec(), &mut repairs).unwrap();
    });
    assert_eq!(repairs.len(), 1_024);
    assert!(world.sender.next_timeout().is_some() && edge.receiver.next_timeout().is_some());
}

#[test]
fn nothing_is_padded_to_the_length_of_a_packet_that_is_too_long_for_the_path() {
    for (datagram_bytes_max, lengths) in [(1_237, [1_221, 1_221]), (1_236, [1_211, 1_221])] {
        let mut world = World::new(6);
        let mut sender = Sender::new(Limits { datagram_bytes_max, ..Limits::default() });
        let stream = sender.add_stream(SealKey::random(0)).unwrap();
        let (keys, _) = LinkSecret::new([1; 32]).split(Role::Dialer);
        let link = sender.add_link(world.now(), keys).unwrap();
        sender.subscribe(stream, link, 0).unwrap();
        let packets = [1_190, 1_200].map(|len| rtp(&mut world.random, 0, 7, len));
        let mut out = Outgoing::new();
        sender.send(world.now(), stream, &[&packets[0], &packets[1]], &mut out).unwrap();
        assert!(out.shared().map(<[u8]>::len).eq(lengths), "{datagram_bytes_max}");
    }
}
