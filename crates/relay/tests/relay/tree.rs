//! A node that sends a stream on to another as it came, and one that takes its place.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use netsim::{Clock, Link, LinkConfig, Random};
use relay::{
    Forwarded, InLinkId, InStreamId, Limits, LinkSecret, OutLinkId, OutStreamId, Outgoing, Receiver, Role,
    SealKey, SendError, Sender, SetupError,
};

use crate::world::{delay, rtp};

/// One direction of media, from a sender to a receiver, and control datagrams back.
struct Hop {
    out_link: OutLinkId,
    in_link: InLinkId,
    down: Link,
    up: Link,
}

impl Hop {
    fn new(
        now: Instant,
        secret: u8,
        (sender, stream): (&mut Sender, OutStreamId),
        (receiver, at): (&mut Receiver, InStreamId),
        config: &LinkConfig,
    ) -> Self {
        let (keys, _) = LinkSecret::new([secret; 32]).split(Role::Listener);
        let (_, receiver_keys) = LinkSecret::new([secret; 32]).split(Role::Dialer);
        let out_link = sender.add_link(now, keys).expect("room");
        let in_link = receiver.add_link(now, receiver_keys).expect("room");
        sender
            .subscribe(stream, out_link, receiver.attach(now, at, in_link).expect("a handle"))
            .expect("free");
        let link = |seed| Link::new(config.clone(), seed);
        Self { out_link, in_link, down: link(secret.into()), up: link(u64::from(secret) + 100) }
    }

    /// What goes to this hop's node.
    fn send(&mut self, now: Instant, out: &Outgoing) {
        for (link, private) in out.links().filter(|(link, _)| *link == self.out_link) {
            assert_eq!(link, self.out_link);
            for (private, shared) in private.iter().zip(out.shared()) {
                self.down.send(now, [&private[..], shared].concat());
            }
        }
    }

    /// A turn of both ends; calls `take` with each packet, and the datagram it came in.
    fn step(
        &mut self,
        now: Instant,
        sender: &mut Sender,
        receiver: &mut Receiver,
        mut take: impl FnMut(&[u8], u32, &[u8]),
    ) {
        while let Some(mut datagram) = self.down.poll(now) {
            let copy = datagram.clone();
            if let Ok(Some(received)) = receiver.handle_datagram(now, self.in_link, &mut datagram) {
                take(received.packet, received.ssrc, &copy);
            }
        }
        receiver.poll_control(now, |link, datagram| {
            if link == self.in_link {
                self.up.send(now, datagram.to_vec());
            }
        });
        let mut repairs = Vec::new();
        while let Some(mut datagram) = self.up.poll(now) {
            let _ = sender.handle_control(now, self.out_link, &mut datagram, &mut repairs);
        }
        for repair in repairs {
            self.down.send(now, [repair.private(), repair.shared()].concat());
        }
        sender.poll_control(now, |link, datagram| {
            if link == self.out_link {
                self.down.send(now, datagram.to_vec());
            }
        });
    }
}

#[test]
fn a_chain_hands_on_every_packet_and_a_new_parent_fills_the_gap_from_its_history() {
    for seed in 0..6 {
        let lossy =
            LinkConfig { loss: 0.04, reorder: 0.05, reorder_delay: Duration::from_millis(8), ..delay(12) };
        let (mut clock, mut random) = (Clock::new(), Random::new(seed));
        let now = clock.now();
        let new_sender = || Sender::new(Limits::default());
        let new_receiver = || Receiver::new(Limits::default());
        let (mut origin, mut middle_out) = (new_sender(), new_sender());
        let (mut middle_in, mut edge) = (new_receiver(), new_receiver());
        let key = SealKey::random(5);
        let at_middle = middle_in.add_stream(&key.open_key()).unwrap();
        let at_edge = edge.add_stream(&key.open_key()).unwrap();
        let stream = origin.add_stream(key).unwrap();
        let onward = middle_out.add_forwarded_stream().unwrap();
        let secret = 10 * seed as u8;
        let mut first = Hop::new(now, secret + 1, (&mut origin, stream), (&mut middle_in, at_middle), &lossy);
        let mut second = Hop::new(now, secret + 2, (&mut middle_out, onward), (&mut edge, at_edge), &lossy);
        let mut direct: Option<Hop> = None;
        let (mut out, mut onward_out) = (Outgoing::new(), Outgoing::new());
        let (mut sent, mut got) = (Vec::new(), Vec::new());
        for ms in 0..8_000u32 {
            let now = clock.now();
            let middle_is_alive = ms < 3_000;
            if ms.is_multiple_of(10) && ms < 6_000 {
                let packet = rtp(&mut random, sent.len() as u16, 7, 600);
                origin.send(now, stream, &[&packet], &mut out).unwrap();
                sent.push(packet);
                if middle_is_alive {
                    first.send(now, &out);
                }
                if let Some(direct) = &mut direct {
                    direct.send(now, &out);
                }
            }
            if middle_is_alive {
                first.step(now, &mut origin, &mut middle_in, |_, ssrc, datagram| {
                    middle_out
                        .forward(now, onward, &[Forwarded { ssrc, datagram }], &mut onward_out)
                        .unwrap();
                    second.send(now, &onward_out);
                });
                second.step(now, &mut middle_out, &mut edge, |packet, _, _| got.push(packet.to_vec()));
            }
            // Its death is noticed after half a second.
            if ms == 3_500 {
                edge.detach(now, at_edge, second.in_link);
                edge.remove_link(second.in_link);
                let mut hop = Hop::new(now, secret + 3, (&mut origin, stream), (&mut edge, at_edge), &lossy);
                let from = edge.position(now, at_edge).unwrap();
                let handle = edge.attach(now, at_edge, hop.in_link).unwrap();
                origin.subscribe_from(now, stream, hop.out_link, handle, from).unwrap();
                assert_eq!(origin.catch_up(now, stream, hop.out_link, 1_000, &mut out), Ok(true));
                assert!((50..=80).contains(&out.shared().len()), "{} of the history", out.shared().len());
                hop.send(now, &out);
                direct = Some(hop);
            }
            if let Some(direct) = &mut direct {
                direct.step(now, &mut origin, &mut edge, |packet, _, _| got.push(packet.to_vec()));
            }
            clock.advance(Duration::from_millis(1));
        }
        let distinct: HashSet<&Vec<u8>> = got.iter().collect();
        assert_eq!(distinct.len(), got.len(), "seed {seed}: each once");
        assert_eq!(distinct, sent.iter().collect(), "seed {seed}: all of them");
    }
}

#[test]
fn only_the_source_seals_and_only_others_forward() {
    let mut sender = Sender::new(Limits::default());
    let now = Clock::new().now();
    let mut out = Outgoing::new();
    let own = sender.add_stream(SealKey::random(0)).unwrap();
    let onward = sender.add_forwarded_stream().unwrap();
    let datagram = [0xd1; 60];
    let packet = Forwarded { ssrc: 1, datagram: &datagram };
    assert_eq!(sender.send(now, onward, &[&[0x80; 20]], &mut out), Err(SendError::NotTheSource));
    assert_eq!(sender.forward(now, own, &[packet], &mut out), Err(SendError::NotTheSource));
    assert_eq!(sender.rotate(onward, SealKey::random(1)), Err(SetupError::NotTheSource));
    let short = Forwarded { ssrc: 1, datagram: &datagram[..40] };
    assert_eq!(sender.forward(now, onward, &[packet, short], &mut out), Err(SendError::BadLength));
    assert!(out.is_empty());
    assert_eq!(sender.forward(now, onward, &[packet], &mut out), Ok(()));
}
