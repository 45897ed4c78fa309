//! A node that joins, and gets what was sent since a key frame.

use std::time::{Duration, Instant};

use relay::{
    InLinkId, InStreamId, Limits, LinkSecret, OpenKey, OutLinkId, OutStreamId, Outgoing, Position, Received,
    Receiver, Role, SealKey, Sender,
};

use crate::world::{World, rtp};

/// A node with one link and one stream.
struct Node {
    receiver: Receiver,
    link: InLinkId,
    out_link: OutLinkId,
    stream: InStreamId,
    got: Vec<Vec<u8>>,
}

impl Node {
    fn new(now: Instant, secret: u8, sender: &mut Sender, stream: OutStreamId, key: &OpenKey) -> Self {
        let (keys, _) = LinkSecret::new([secret; 32]).split(Role::Listener);
        let (_, own_keys) = LinkSecret::new([secret; 32]).split(Role::Dialer);
        let out_link = sender.add_link(now, keys).unwrap();
        let mut receiver = Receiver::new(Limits::default());
        let link = receiver.add_link(now, own_keys).unwrap();
        let at_node = receiver.add_stream(key).unwrap();
        sender.subscribe(stream, out_link, receiver.attach(now, at_node, link).unwrap()).unwrap();
        Self { receiver, link, out_link, stream: at_node, got: Vec::new() }
    }

    /// Gets everything since a position, as far as it is kept.
    fn subscribe_from(&self, now: Instant, sender: &mut Sender, stream: OutStreamId, from: Position) {
        sender.subscribe_from(now, stream, self.out_link, 0, from).unwrap();
    }

    /// Takes what is for this node.
    fn take(&mut self, now: Instant, out: &Outgoing) {
        let Some((_, private)) = out.links().find(|(link, _)| *link == self.out_link) else { return };
        for (private, shared) in private.iter().zip(out.shared()) {
            let mut datagram = [&private[..], shared].concat();
            let received = self.receiver.handle_datagram(now, self.link, &mut datagram);
            let Ok(Some(Received { packet, .. })) = received else { panic!("{received:?}") };
            self.got.push(packet.to_vec());
        }
    }
}

#[test]
fn a_node_that_joins_gets_the_same_sealed_packets_and_leaves_no_gap_at_others() {
    let mut world = World::new(1);
    let mut now = world.now();
    let mut sender = Sender::new(Limits::default());
    let key = SealKey::random(0);
    let open = key.open_key();
    let stream = sender.add_stream(key).unwrap();
    let mut nodes = vec![Node::new(now, 1, &mut sender, stream, &open)];
    let (mut out, mut sent, mut sealed) = (Outgoing::new(), Vec::new(), Vec::new());
    for number in 0..300u16 {
        // A key frame each 4 s, which is longer than the history.
        if number % 100 == 50 {
            let start = sender.next_position(stream).unwrap();
            assert_eq!((start.epoch, start.index), (0, u32::from(number)));
            sender.keep_from(stream, start);
        }
        let packet = rtp(&mut world.random, number, 7, 500);
        sender.send(now, stream, &[&packet], &mut out).unwrap();
        sent.push(packet);
        sealed.push(out.shared().next().unwrap().to_vec());
        nodes.iter_mut().for_each(|node| node.take(now, &out));
        now += Duration::from_millis(40);
        if number % 100 == 45 && number > 100 {
            let start = Position { epoch: 0, index: u32::from(number / 100 * 100) - 50 };
            for secret in 0..5 {
                let mut node = Node::new(now, number as u8 + secret, &mut sender, stream, &open);
                node.subscribe_from(now, &mut sender, stream, start);
                assert_eq!(sender.catch_up(now, stream, node.out_link, 1_000, &mut out), Ok(true));
                assert!(out.shared().eq(sealed[start.index as usize..].iter()), "each sealed once");
                node.take(now, &out);
                assert_eq!(node.got, sent[start.index as usize..]);
                nodes.push(node);
            }
        }
    }
    assert_eq!(nodes.len(), 11);
    for node in &nodes {
        assert!(sent.ends_with(&node.got));
        assert_eq!(node.receiver.position(now, node.stream).unwrap().index, 300, "and no gap");
    }
}

#[test]
fn more_of_the_history_than_goes_together_is_sent_in_parts_and_in_order() {
    let mut world = World::new(2);
    let now = world.now();
    let mut sender = Sender::new(Limits { history_packets_max: 3_000, ..Limits::default() });
    let key = SealKey::random(0);
    let open = key.open_key();
    let stream = sender.add_stream(key).unwrap();
    let _first = Node::new(now, 1, &mut sender, stream, &open);
    let mut out = Outgoing::new();
    let send = |sender: &mut Sender, out: &mut Outgoing, random: &mut _, number| {
        let packet = rtp(random, number, 7, 50);
        sender.send(now, stream, &[&packet], out).unwrap();
        packet
    };
    let mut sent: Vec<Vec<u8>> =
        (0..4_000).map(|number| send(&mut sender, &mut out, &mut world.random, number)).collect();
    let mut node = Node::new(now, 2, &mut sender, stream, &open);
    let start = Position { epoch: 0, index: 500 };
    assert!(!sender.keeps(stream, start) && sender.keeps(stream, Position { index: 1_000, ..start }));
    node.subscribe_from(now, &mut sender, stream, start);
    let mut calls = Vec::new();
    loop {
        let is_done = sender.catch_up(now, stream, node.out_link, usize::MAX, &mut out).unwrap();
        calls.push(out.shared().len());
        node.take(now, &out);
        if is_done {
            break;
        }
        if calls.len() == 1 {
            // Meanwhile as many others take the place of the next ones. The node gets them in their turn.
            for number in 4_000..5_100 {
                sent.push(send(&mut sender, &mut out, &mut world.random, number));
                assert!(out.links().all(|(link, _)| link != node.out_link));
            }
        }
    }
    assert_eq!(calls, [1_024, 1_024, 1_024, 952]);
    assert_eq!(node.got[..1_024], sent[1_000..2_024], "the oldest that is kept first");
    assert_eq!(node.got[1_024..], sent[2_100..], "in order, and none twice");
    sent.push(send(&mut sender, &mut out, &mut world.random, 5_100));
    node.take(now, &out);
    assert_eq!(node.got.last(), sent.last(), "it has caught up");
}

#[test]
fn what_is_sealed_before_the_first_node_comes_is_for_it_and_for_those_behind_it() {
    let mut world = World::new(3);
    let mut now = world.now();
    let mut sender = Sender::new(Limits::default());
    let key = SealKey::random(0);
    let open = key.open_key();
    let stream = sender.add_stream(key).unwrap();
    let start = sender.next_position(stream).unwrap();
    sender.keep_from(stream, start);
    let (mut out, mut sent) = (Outgoing::new(), Vec::new());
    let mut nodes: Vec<Node> = Vec::new();
    for number in 0..30u16 {
        let packet = rtp(&mut world.random, number, 7, 300);
        sender.send(now, stream, &[&packet], &mut out).unwrap();
        assert_eq!(out.is_empty(), nodes.is_empty());
        nodes.iter_mut().for_each(|node| node.take(now, &out));
        sent.push(packet);
        now += Duration::from_millis(100);
        if number == 9 || number == 19 {
            let mut node = Node::new(now, number as u8, &mut sender, stream, &open);
            node.subscribe_from(now, &mut sender, stream, start);
            while !sender.catch_up(now, stream, node.out_link, 3, &mut out).unwrap() {
                node.take(now, &out);
            }
            node.take(now, &out);
            nodes.push(node);
        }
    }
    assert!(nodes.len() == 2 && nodes.iter().all(|node| node.got == sent));
}
