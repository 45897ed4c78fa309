//! Packets arrive as they were sent, sealed once for all.

use std::time::Duration;

use netsim::LinkConfig;
use relay::{Limits, Outgoing, PRIVATE_BYTES, SHARED_BYTES_ADDED, SealKey, SendError, Sender};

use crate::world::{World, delay};

#[test]
fn two_nodes_get_every_byte_of_a_stream_at_once_and_in_order() {
    let mut world = World::fan_out(1, 2, &delay(5), &delay(5));
    world.play(0, Duration::from_secs(5));
    assert_eq!(world.check(), [0, 0]);
    for edge in &world.edges {
        assert_eq!(edge.got[&edge.streams[&0]], world.streams[0].sent, "also in their order");
        assert_eq!((edge.repaired, edge.dropped.len()), (0, 0));
    }
}

#[test]
fn what_is_shared_is_the_same_for_all_and_what_is_private_is_16_bytes() {
    let mut world = World::fan_out(2, 3, &delay(1), &delay(1));
    world.send_frame(0, 7, 2);
    world.run(Duration::from_millis(2));
    let of = |edge: usize| -> Vec<&Vec<u8>> {
        world.edges[edge].captured.iter().filter(|datagram| datagram.len() > 50).collect()
    };
    for packet in 0..2 {
        let [a, b, c] = [0, 1, 2].map(|edge| of(edge)[packet]);
        assert!(a[PRIVATE_BYTES..] == b[PRIVATE_BYTES..] && b[PRIVATE_BYTES..] == c[PRIVATE_BYTES..]);
        assert!(a[8..PRIVATE_BYTES] != b[8..PRIVATE_BYTES], "authenticators");
    }
}

#[test]
fn packets_that_are_nearly_equally_long_become_so() {
    let mut sender = Sender::new(Limits::default());
    let world = World::new(3);
    let stream = sender.add_stream(SealKey::random(0)).unwrap();
    let (keys, _) = relay::LinkSecret::new([1; 32]).split(relay::Role::Dialer);
    let link = sender.add_link(world.now(), keys).unwrap();
    sender.subscribe(stream, link, 0).unwrap();
    let mut out = Outgoing::new();
    let packets = [vec![0x80; 1_100], vec![0x80; 1_101], vec![0x80; 600]];
    let slices: Vec<&[u8]> = packets.iter().map(|packet| &packet[..]).collect();
    sender.send(world.now(), stream, &slices, &mut out).unwrap();
    let lengths: Vec<usize> = out.shared().map(<[u8]>::len).collect();
    assert_eq!(lengths, [1_101, 1_101, 600].map(|len| len + SHARED_BYTES_ADDED));
    assert_eq!(out.links().next().unwrap().1.len(), 3);
}

#[test]
fn what_cannot_be_sent_changes_nothing() {
    let mut world = World::fan_out(4, 1, &delay(1), &delay(1));
    let (now, id) = (world.now(), world.streams[0].id);
    let mut out = Outgoing::new();
    let long = vec![0x80; relay::PACKET_BYTES_MAX + 1];
    let many = vec![&long[..20]; relay::PACKETS_PER_CALL_MAX + 1];
    for (packets, error) in [
        (&[&long[..7]][..], SendError::BadLength),
        (&[&long[..20], &long[..]][..], SendError::BadLength),
        (&many[..], SendError::TooMany),
    ] {
        assert_eq!(world.sender.send(now, id, packets, &mut out), Err(error));
        assert!(out.is_empty());
    }
    world.play(0, Duration::from_secs(1));
    assert_eq!(world.check(), [0], "no number and no index was used");
    assert!(world.edges[0].receiver.link_stats(world.edges[0].link).unwrap().asked == 0);
}

#[test]
fn a_stream_costs_a_node_three_percent_more_than_its_packets() {
    let mut world = World::fan_out(5, 1, &LinkConfig::default(), &LinkConfig::default());
    world.play(0, Duration::from_secs(20));
    let media: usize = world.streams[0].sent.iter().map(Vec::len).sum();
    let packets = world.streams[0].sent.len();
    let most = media + packets * (PRIVATE_BYTES + SHARED_BYTES_ADDED + 16);
    assert!(world.bytes_sent as usize <= most);
    // Pings and reports.
    assert!(world.edges[0].sent_up() <= 21);
}
