//! A stream that comes by two links while a node changes the one it gets it from.

use relay::{DropReason, Limits, LinkSecret, Outgoing, Receiver, Role, SealKey, Sender};

use crate::world::{World, rtp};

#[test]
fn a_packet_that_comes_by_two_links_is_handed_on_once() {
    let mut world = World::new(1);
    let now = world.now();
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
    let (mut out, mut got) = (Outgoing::new(), Vec::new());
    for sequence in 0..100 {
        let packet = rtp(&mut world.random, sequence, 7, 500);
        sender.send(now, stream, &[&packet], &mut out).unwrap();
        let shared = out.shared().next().unwrap();
        for (turn, (link, private)) in out.links().enumerate() {
            let (_, in_link) = links.iter().find(|(out_link, _)| *out_link == link).unwrap();
            let mut datagram = [&private[0][..], shared].concat();
            match receiver.handle_datagram(now, *in_link, &mut datagram) {
                Ok(Some(received)) => got.push(received.packet.to_vec()),
                other => assert_eq!((other, turn), (Err(DropReason::Duplicate), 1)),
            }
        }
        assert_eq!(got.last(), Some(&packet));
        if sequence == 49 {
            receiver.detach(now, at_edge, links[0].1);
            sender.unsubscribe(stream, links[0].0);
        }
    }
    assert_eq!(got.len(), 100);
    for (out_link, in_link) in links {
        let sent = sender.link_stats(out_link).unwrap().packets;
        assert_eq!(receiver.link_stats(in_link).unwrap().received, sent, "nothing is asked for again");
    }
}
