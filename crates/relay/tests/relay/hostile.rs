//! Strangers, replays and forgeries: nothing changes, nothing is answered, everything still arrives.

use std::time::Duration;

use netsim::LinkConfig;
use relay::{DropReason, LinkSecret, Outgoing, Repair, Role, SealKey, Sender};

use crate::world::{World, delay};

/// What a datagram that is refused must leave as it was.
fn state(world: &World) -> Vec<String> {
    let edges = world.edges.iter().map(|edge| {
        let stats =
            edge.receiver.link_stats(edge.link).map(|stats| relay::InLinkStats { replayed: 0, ..stats });
        let tracks: Vec<usize> = edge.streams.values().map(|id| edge.receiver.tracks(*id).count()).collect();
        let out = world.sender.link_stats(edge.out_link);
        format!("{stats:?} {tracks:?} {out:?} {:?}", edge.receiver.next_timeout())
    });
    edges.chain([format!("{:?}", world.sender.next_timeout())]).collect()
}

/// Hands a datagram to both halves at both ends: all refuse it, and nothing changes.
fn refused_everywhere(world: &mut World, datagram: &[u8], what: &str) {
    let before = state(world);
    let now = world.clock.now();
    for edge in &mut world.edges {
        let mut copy = datagram.to_vec();
        let result = edge.receiver.handle_datagram(now, edge.link, &mut copy);
        assert!(result.is_err_and(|reason| !reason.is_authentic()), "{what}: {result:?}");
        let mut repairs: Vec<Repair> = Vec::new();
        let result = world.sender.handle_control(now, edge.out_link, &mut datagram.to_vec(), &mut repairs);
        assert!(result.is_err_and(|reason| !reason.is_authentic()) && repairs.is_empty(), "{what}");
        edge.receiver.poll_control(now, |_, _| panic!("{what}: answered"));
    }
    world.sender.poll_control(now, |_, _| panic!("{what}: answered"));
    world.sender.poll_key_frame_requests(now, |_, _| panic!("{what}: acted on"));
    assert_eq!(state(world), before, "{what}");
}

fn playing(seed: u64) -> World {
    let mut world = World::fan_out(seed, 2, &delay(10), &delay(10));
    world.play(0, Duration::from_millis(400));
    // Nothing is due.
    world.run(Duration::from_millis(30));
    world
}

#[test]
fn garbage_of_every_length_changes_nothing() {
    let mut world = playing(1);
    for len in 0..=1_500 {
        let mut garbage: Vec<u8> = (0..len).map(|_| world.random.next_u64() as u8).collect();
        refused_everywhere(&mut world, &garbage, &format!("{len} random bytes"));
        for kind in [0xd1, 0xd2, 0xd3] {
            if let Some(first) = garbage.first_mut() {
                *first = kind;
                refused_everywhere(&mut world, &garbage, &format!("{len} random bytes after {kind:x}"));
            }
        }
        refused_everywhere(&mut world, &vec![0xd1; len], &format!("{len} times d1"));
    }
    world.play(0, Duration::from_secs(1));
    assert_eq!(world.check(), [0, 0]);
}

#[test]
fn what_came_before_changes_nothing_when_it_comes_again() {
    let mut world = playing(2);
    let captured: Vec<Vec<u8>> = world.edges.iter().flat_map(|edge| edge.captured.clone()).collect();
    assert!(captured.len() > 40);
    for datagram in &captured {
        // To the other edge it is foreign.
        refused_everywhere(&mut world, datagram, "a replay");
    }
    world.play(0, Duration::from_secs(1));
    assert_eq!(world.check(), [0, 0]);
}

#[test]
fn datagrams_changed_in_any_byte_or_cut_short_change_nothing_and_the_true_one_still_counts() {
    let mut world = World::fan_out(3, 1, &LinkConfig { loss: 1.0, ..delay(10) }, &delay(10));
    world.send_frame(0, 7, 1);
    // From the sender itself, since nothing arrives.
    let now = world.clock.now();
    let mut out = Outgoing::new();
    let packet = [&[0x80, 96, 0, 9][..], &[1; 60]].concat();
    world.sender.send(now, world.streams[0].id, &[&packet], &mut out).unwrap();
    let (_, private) = out.links().next().unwrap();
    let datagram = [&private[0][..], out.shared().next().unwrap()].concat();
    let mut controls = Vec::new();
    world.run(Duration::from_millis(61));
    let edge = &mut world.edges[0];
    edge.receiver.poll_control(world.clock.now() + Duration::from_secs(1), |_, datagram| {
        controls.push(datagram.to_vec())
    });
    for at in 0..datagram.len() {
        for bit in 0..8 {
            let mut changed = datagram.clone();
            changed[at] ^= 1 << bit;
            refused_everywhere(&mut world, &changed, &format!("bit {bit} of byte {at}"));
        }
        refused_everywhere(&mut world, &datagram[..at], &format!("the first {at} bytes"));
    }
    refused_everywhere(&mut world, &[&datagram[..], &[0]].concat(), "a byte more");
    for control in &controls {
        for at in 0..control.len() {
            let mut changed = control.clone();
            changed[at] ^= 1;
            refused_everywhere(&mut world, &changed, &format!("byte {at} of a control datagram"));
        }
    }
    let edge = &mut world.edges[0];
    let mut datagram = datagram;
    let received = edge.receiver.handle_datagram(now, edge.link, &mut datagram).unwrap().unwrap();
    assert_eq!(received.packet, packet);
}

#[test]
fn private_bytes_of_one_packet_do_not_go_with_another() {
    let mut world = playing(4);
    let (now, id) = (world.clock.now(), world.streams[0].id);
    let mut out = Outgoing::new();
    let packets = [[0x80; 100], [0x81; 100]];
    world.sender.send(now, id, &[&packets[0], &packets[1]], &mut out).unwrap();
    let privates: Vec<[u8; 16]> = out.links().flat_map(|(_, private)| private.to_vec()).collect();
    let shared: Vec<Vec<u8>> = out.shared().map(<[u8]>::to_vec).collect();
    for (at, private) in privates.iter().enumerate() {
        // Of the other packet, for either edge.
        refused_everywhere(&mut world, &[&private[..], &shared[(at + 1) % 2]].concat(), "swapped");
    }
    // Of the right packet, for the other edge.
    let mut datagram = [&privates[2][..], &shared[0]].concat();
    let edge = &mut world.edges[0];
    let result = edge.receiver.handle_datagram(now, edge.link, &mut datagram);
    assert_eq!(result, Err(DropReason::Forged));
}

#[test]
fn a_node_with_another_secret_gets_nothing_in_and_nothing_out() {
    let mut world = playing(5);
    let mut stranger = Sender::new(relay::Limits::default());
    let stream = stranger.add_stream(SealKey::random(0)).unwrap();
    for role in [Role::Dialer, Role::Listener] {
        let (keys, _) = LinkSecret::new([0xbb; 32]).split(role);
        let link = stranger.add_link(world.clock.now(), keys).unwrap();
        stranger.subscribe(stream, link, 0).unwrap();
    }
    let mut out = Outgoing::new();
    for _ in 0..50 {
        stranger.send(world.clock.now(), stream, &[&[0x80; 200]], &mut out).unwrap();
        for (_, private) in out.links() {
            let datagram = [&private[0][..], out.shared().next().unwrap()].concat();
            refused_everywhere(&mut world, &datagram, "a stranger's");
        }
    }
    let later = world.clock.now() + Duration::from_millis(60);
    let mut heartbeats = Vec::new();
    stranger.poll_control(later, |_, datagram| heartbeats.push(datagram.to_vec()));
    assert_eq!(heartbeats.len(), 2);
    for heartbeat in heartbeats {
        refused_everywhere(&mut world, &heartbeat, "a stranger's heartbeat");
    }
}

#[test]
fn a_flood_in_the_middle_of_a_bad_link_loses_nothing() {
    let down = LinkConfig { loss: 0.05, reorder: 0.05, duplicate: 0.05, ..delay(15) };
    let mut world = World::fan_out(6, 2, &down, &down);
    for _ in 0..100 {
        world.play(0, Duration::from_millis(80));
        let now = world.clock.now();
        for at in 0..2 {
            let captured = world.edges[1 - at].captured.clone();
            for _ in 0..30 {
                let mut datagram = captured[world.random.below(captured.len() as u64) as usize].clone();
                for _ in 0..world.random.below(3) {
                    let byte = world.random.below(datagram.len() as u64) as usize;
                    datagram[byte] ^= world.random.next_u64() as u8;
                }
                let edge = &mut world.edges[at];
                assert!(edge.receiver.handle_datagram(now, edge.link, &mut datagram).is_err());
            }
        }
    }
    world.run(Duration::from_secs(2));
    assert_eq!(world.check(), [0, 0]);
}

#[test]
fn a_node_that_names_impossible_numbers_is_not_believed() {
    let mut world = World::new(7);
    let stream = world.add_edges(1, &delay(10), &delay(10));
    let (keys, _) = LinkSecret::new([9; 32]).split(Role::Listener);
    let (_, edge_keys) = LinkSecret::new([9; 32]).split(Role::Dialer);
    let edge = &mut world.edges[0];
    let now = world.clock.now();
    let link = edge.receiver.add_link(now, edge_keys).unwrap();
    let mut forger = relay::internals::Forger::sender(keys);
    // SENT, by a node that has the keys.
    let mut sent = |next: u64| {
        let mut datagram = forger.seal(&[&[6][..], &next.to_be_bytes()].concat());
        edge.receiver.handle_datagram(now, link, &mut datagram).unwrap();
        edge.receiver.link_stats(link).unwrap().lost
    };
    // One missing number, and then too many of them: the oldest are given up.
    assert_eq!([1, u64::MAX, 1 << 32, 5_001].map(&mut sent), [0, 0, 0, 905]);
    edge.receiver.poll_control(now, |_, _| {});
    world.play(stream, Duration::from_secs(1));
    assert_eq!(world.check(), [0], "its other link is not affected");
}
