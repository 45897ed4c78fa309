//! Batches that stay open while other things happen: audio overtakes them, viewers come and go, and each
//! viewer gets each packet once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use rtp::payload::MediaKind;
use rtp::rtcp::Nack;
use sfu::{Packet, ViewerId, plain_outlet};

use crate::packets::common::{
    Rtp, World, audio_input, audio_packet, frame, part, video_input, video_ssrc, viewer,
};

const VIDEO: MediaKind = MediaKind::Video;
const FRAME_TIME: Duration = Duration::from_millis(40);

/// A key frame of `parts` packets.
fn key_frame(from: u16, parts: u16) -> Vec<Rtp> {
    (0..parts).map(|at| part(from + at, u32::from(from) * 3_600, true, at + 1 == parts)).collect()
}

/// As many viewers, live, who have got a key frame with number 100.
fn with_viewers(viewers: u64) -> (World, Vec<ViewerId>) {
    let mut world = World::published();
    world.receive(&frame(100, 0, true)).unwrap();
    let ids = (0..viewers).map(|token| world.join(token)).collect();
    world.wait(FRAME_TIME);
    assert!((0..viewers).all(|token| world.numbers(token) == [100]));
    (world, ids)
}

/// How many viewers have got video up to this number.
fn with_number(world: &World, number: u16, viewers: u64) -> usize {
    (0..viewers).filter(|token| world.numbers(*token).last() == Some(&number)).count()
}

#[test]
fn audio_overtakes_a_key_frame_to_many() {
    let (mut world, _) = with_viewers(100);
    for rtp in key_frame(101, 11) {
        world.stream.receive(world.now, &rtp.bytes()).unwrap();
    }
    for turn in 1..=10u16 {
        world.stream.receive(world.now, &audio_packet(turn, u32::from(turn) * 960).bytes()).unwrap();
        world.turn(10);
        assert!((0..100).all(|token| world.audio(token).len() == usize::from(turn)), "turn {turn}");
        assert_eq!(with_number(&world, 111, 100), usize::from(turn) * 10);
    }
    assert!((0..100).all(|token| world.numbers(token) == (100..=111).collect::<Vec<_>>()));
    assert!(world.stream.waiting(VIDEO).is_some(), "that was the last viewer, which is not known yet");
    world.turn(1);
    assert_eq!(world.stream.waiting(VIDEO), None);
}

#[test]
fn what_arrives_while_a_batch_is_open_follows_it() {
    let (mut world, _) = with_viewers(10);
    world.stream.receive(world.now, &frame(101, 3_600, false).bytes()).unwrap();
    world.turn(4);
    let since = world.now;
    world.now += FRAME_TIME;
    world.stream.receive(world.now, &frame(102, 7_200, false).bytes()).unwrap();
    world.stream.receive(world.now, &frame(103, 10_800, false).bytes()).unwrap();
    world.turn(4);
    assert_eq!(world.stream.waiting(VIDEO), Some((since, 10)), "of the open batch");
    assert_eq!((with_number(&world, 101, 10), with_number(&world, 103, 10)), (8, 0));
    world.turn(4);
    assert_eq!(world.stream.waiting(VIDEO), Some((since + FRAME_TIME, 20)));
    assert_eq!((with_number(&world, 101, 10), with_number(&world, 103, 10)), (8, 2));
    world.settle();
    assert!((0..10).all(|token| world.numbers(token) == [100, 101, 102, 103]));
}

#[test]
fn viewers_take_turns_at_being_first() {
    let (mut world, _) = with_viewers(4);
    let mut orders = Vec::new();
    for at in 0..8u16 {
        world.stream.receive(world.now, &frame(101 + at, u32::from(at) * 3_600, false).bytes()).unwrap();
        world.stream.take_arrivals(|_, _| {});
        let mut batch = world.stream.prepare_batch(VIDEO);
        let order: Vec<u64> =
            std::iter::from_fn(|| batch.next_viewer().map(|(viewer, _)| viewer.token())).collect();
        world.stream.finish_batch(VIDEO);
        orders.push(order);
    }
    for (before, after) in orders.iter().zip(&orders[1..]) {
        let rotated: Vec<u64> = before[1..].iter().chain(&before[..1]).copied().collect();
        assert_eq!(*after, rotated, "each a little earlier, and the first is the last next time");
    }
}

#[test]
fn other_workers_and_bridges_do_not_wait_for_an_open_batch() {
    let (mut world, _) = with_viewers(10);
    let mut taken = Vec::new();
    let mut take = |world: &mut World| {
        world.stream.take_arrivals(|packet: &Arc<Packet>, _| {
            taken.push((packet.track().kind(), packet.number() as u16))
        });
    };
    world.stream.receive(world.now, &frame(101, 3_600, false).bytes()).unwrap();
    take(&mut world);
    world.turn(3);
    for rtp in [frame(102, 7_200, false), audio_packet(7, 960), frame(103, 10_800, false)] {
        world.stream.receive(world.now, &rtp.bytes()).unwrap();
    }
    take(&mut world);
    take(&mut world);
    let of = |kind, number: u16| (kind, number);
    let audio = MediaKind::Audio;
    assert_eq!(taken, [of(VIDEO, 101), of(VIDEO, 102), of(audio, 7), of(VIDEO, 103)], "each once, in order");
    assert_eq!(with_number(&world, 101, 10), 3);
}

#[test]
fn who_joins_while_a_batch_is_open_gets_each_packet_once() {
    // The viewer that leaves, and how many viewers the batch had gone to by then: the next one takes its
    // slot, or one behind all others.
    let rows = [
        (None, 5, "a new slot"),
        (None, 9, "a new slot, and the walk has come to the end of the others"),
        (Some(1), 5, "a slot that the walk has passed"),
        (Some(8), 5, "one that is yet to come"),
        (Some(5), 5, "the very next"),
    ];
    for (leaves, sent, remark) in rows {
        let (mut world, ids) = with_viewers(10);
        for rtp in key_frame(101, 3) {
            world.stream.receive(world.now, &rtp.bytes()).unwrap();
        }
        world.turn(sent);
        if let Some(leaves) = leaves {
            world.stream.leave(ids[leaves]);
        }
        world.stream.join(world.now, &viewer(50)).unwrap();
        world.turn(1);
        world.stream.receive(world.now, &frame(104, 400_000, false).bytes()).unwrap();
        for _ in 0..20 {
            world.turn(1);
        }
        assert_eq!(world.numbers(50), [101, 102, 103, 104], "{remark}");
        let stayed = (0..10).filter(|token| leaves != Some(*token as usize));
        for token in stayed {
            assert_eq!(world.numbers(token), [100, 101, 102, 103, 104], "{token}: {remark}");
        }
    }
}

#[test]
fn many_that_join_at_once_are_sent_so_many_packets_at_a_time_and_take_turns() {
    let mut world = World::published();
    world.play(0, 0, 30, 100);
    for token in 0..50 {
        world.stream.join(world.now, &viewer(token)).unwrap();
    }
    let mut got: BTreeMap<u64, Vec<u16>> = BTreeMap::new();
    for call in 1.. {
        let mut tokens = Vec::new();
        let sent = world.stream.send_backlog(
            world.now,
            64,
            &mut plain_outlet(|token, _, header, payload| {
                let number = rtp::Packet::parse(&[header, payload].concat()).unwrap().sequence_number();
                got.entry(token).or_default().push(number);
                tokens.push(token);
            }),
        );
        assert_eq!(sent, tokens.len());
        assert!(sent <= 64, "{sent}");
        if call == 1 {
            assert_eq!((tokens[0], tokens[63]), (0, 2), "one after the other");
        } else if call == 2 {
            assert_eq!(tokens[0], 3, "the one that was not done comes last");
        }
        if sent < 64 {
            break;
        }
    }
    assert!(!world.stream.has_backlog());
    assert_eq!(got.len(), 50);
    for (token, numbers) in got {
        assert_eq!(numbers.len(), 30, "{token}");
        assert!(numbers.is_sorted_by(|a, b| a + 1 == *b), "{token}: {numbers:?}");
    }
}

#[test]
fn on_a_stream_that_is_never_idle_joiners_become_live() {
    let (mut world, _) = with_viewers(20);
    let mut ids = BTreeMap::new();
    for at in 0..100u16 {
        let rtp = frame(101 + at, u32::from(at + 1) * 3_600, at == 0);
        world.stream.receive(world.now, &rtp.bytes()).unwrap();
        if (40..60).contains(&at) {
            let token = u64::from(at) + 100;
            ids.insert(token, world.stream.join(world.now, &viewer(token)).unwrap());
        }
        // Fewer than there are viewers: something always waits.
        world.now += Duration::from_millis(5);
        world.turn(15);
        assert!(world.stream.waiting(VIDEO).is_some());
    }
    for token in ids.keys() {
        let numbers = world.numbers(*token);
        assert!(numbers.len() > 30 && numbers.is_sorted_by(|a, b| a + 1 == *b), "{numbers:?}");
    }
    world.settle();
    assert!(!world.stream.has_backlog(), "all are live");
    assert!(ids.keys().all(|token| world.numbers(*token) == (101..=200).collect::<Vec<_>>()));
}

#[test]
fn what_was_not_sent_yet_is_not_sent_again() {
    let (mut world, ids) = with_viewers(10);
    world.play(101, 3_600, 100, 1_000);
    for rtp in key_frame(201, 3) {
        world.stream.receive(world.now, &rtp.bytes()).unwrap();
    }
    // The walk began with one of them.
    world.turn(5);
    world.now += FRAME_TIME;
    for (token, id) in ids.into_iter().enumerate() {
        let token = token as u64;
        let had = world.numbers(token).last() == Some(&203);
        let mut resend = Vec::new();
        let mut rtcp = Vec::new();
        Nack::write(&mut rtcp, 5, video_ssrc(token), &[201, 202, 203]);
        world.stream.viewer_rtcp(world.now, id, &rtcp, None, &mut resend);
        assert_eq!(resend.len(), if had { 3 } else { 0 }, "{token}");
    }
    assert_eq!(with_number(&world, 203, 10), 5);
}

#[test]
fn a_publisher_that_ends_leaves_its_open_batch_to_be_sent_and_another_goes_on() {
    let (mut world, _) = with_viewers(10);
    for rtp in key_frame(101, 3) {
        world.stream.receive(world.now, &rtp.bytes()).unwrap();
    }
    world.turn(4);
    world.stream.publisher_ended(world.now);
    world.turn(2);
    world.publish(vec![audio_input(), video_input()]);
    world.stream.receive(world.now, &frame(9_000, 0, true).bytes()).unwrap();
    assert_eq!(with_number(&world, 103, 10), 6);
    world.turn(2);
    world.settle();
    assert!((0..10).all(|token| world.numbers(token) == [100, 101, 102, 103, 104]));
}

#[test]
fn viewers_of_other_kinds_that_come_and_go_leave_the_headers_of_an_open_batch_right() {
    let other = |token| {
        let mut input = viewer(token);
        input.tracks[1].payloads[0].payload_type = 77;
        input
    };
    let mut world = World::published();
    world.receive(&frame(100, 0, true)).unwrap();
    let mut ids: Vec<ViewerId> = (0..6).map(|token| world.join(token)).collect();
    ids.extend((6..9).map(|token| world.join_as(&other(token))));
    world.stream.receive(world.now, &frame(101, 3_600, false).bytes()).unwrap();
    world.turn(2);
    // The first kind has no template any more, and others have.
    ids.drain(..5).for_each(|id| world.stream.leave(id));
    world.stream.join(world.now, &other(10)).unwrap();
    world.turn(2);
    ids.drain(2..).for_each(|id| world.stream.leave(id));
    world.settle();
    for (token, payload_type) in [(5, 60), (6, 77), (10, 77)] {
        let got = world.video(token);
        assert!(got.iter().all(|got| got.packet().payload_type() == payload_type), "{token}");
        assert_eq!(got.last().map(|got| got.number()), Some(101), "{token}");
    }
}

#[test]
fn viewers_without_room_are_put_off_and_the_others_go_on() {
    let (mut world, _) = with_viewers(10);
    let receive = |world: &mut World, number: u16| {
        let rtp = frame(number, u32::from(number - 100) * 3_600, false);
        world.stream.receive(world.now, &rtp.bytes()).unwrap();
    };
    let full: BTreeSet<u64> = [2, 3, 7].into();
    world.full.clone_from(&full);
    receive(&mut world, 101);
    let since = world.now;
    // In two parts.
    world.turn(3);
    world.turn(7);
    assert_eq!((with_number(&world, 101, 10), with_number(&world, 100, 10)), (7, 3));
    assert_eq!(world.stream.waiting(VIDEO), Some((since, 3)), "of those that were put off");
    world.now += FRAME_TIME;
    receive(&mut world, 102);
    world.turn(10);
    assert_eq!((with_number(&world, 102, 10), with_number(&world, 100, 10)), (7, 3));
    assert_eq!(world.stream.waiting(VIDEO), Some((since, 6)));
    // One has room again, and room for one packet: it is asked for the older one first.
    world.full.remove(&3);
    world.turn(1);
    assert_eq!(world.numbers(3), [100, 101]);
    world.now += FRAME_TIME;
    receive(&mut world, 103);
    world.turn(10);
    assert_eq!((with_number(&world, 103, 10), world.numbers(3)), (8, (100..=103).collect()));
    // What is too old is given up, one batch after the other, and nothing else.
    world.stream.drop_late(VIDEO, world.now);
    assert_eq!(world.stream.stats().unsent_packets, 1);
    world.full.clear();
    world.turn(100);
    assert_eq!(world.stream.waiting(VIDEO), None);
    for token in 0..10 {
        let numbers: &[u16] = if [2, 7].contains(&token) { &[100, 102, 103] } else { &[100, 101, 102, 103] };
        assert_eq!(world.numbers(token), numbers, "{token}");
    }
}

#[test]
fn an_open_batch_that_is_given_up_is_given_up_for_those_that_were_put_off_as_well() {
    let (mut world, _) = with_viewers(4);
    world.full = [0, 1, 2, 3].into();
    world.stream.receive(world.now, &frame(101, 3_600, false).bytes()).unwrap();
    world.stream.take_arrivals(|_, _| {});
    let mut batch = world.stream.prepare_batch(VIDEO);
    batch.next_viewer().expect("a viewer");
    batch.put_off();
    world.stream.drop_late(VIDEO, world.now);
    assert_eq!((world.stream.stats().unsent_packets, world.stream.waiting(VIDEO)), (1, None));
    world.full.clear();
    world.stream.receive(world.now, &frame(102, 7_200, false).bytes()).unwrap();
    world.settle();
    assert!((0..4).all(|token| world.numbers(token) == [100, 102]));
}

/// What happens to a stream whose worker sends a little at a time.
#[derive(Clone, Debug)]
enum Step {
    /// The next packet of video arrives.
    Packet,
    /// The next two arrive in the wrong order.
    Swapped,
    /// Audio arrives, and video goes to as many viewers.
    Audio(usize),
    /// Milliseconds pass, and video goes to as many viewers.
    Turn(u16, usize),
    Join,
    /// A viewer leaves.
    Leave(usize),
    /// A viewer asks for the packets behind the newest that it has.
    Nack(usize),
    /// The socket of a viewer has no room for video, or has room again.
    Room(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => Just(Step::Packet),
        2 => Just(Step::Swapped),
        10 => (0usize..4).prop_map(Step::Audio),
        25 => (0u16..20, 0usize..6).prop_map(|(milliseconds, viewers)| Step::Turn(milliseconds, viewers)),
        4 => Just(Step::Join),
        2 => (0usize..20).prop_map(Step::Leave),
        4 => (0usize..20).prop_map(Step::Nack),
        8 => (0usize..20).prop_map(Step::Room),
    ];
    proptest::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_viewer_gets_every_packet_once_however_batches_are_cut(gop in 1u16..60, steps in steps()) {
        let mut world = World::published();
        let (mut next, mut next_audio, mut tokens) = (3u16, 0u16, 1u64);
        let mut present = vec![(0, world.join(0))];
        let receive = |world: &mut World, number: u16| {
            // Frames of three packets.
            let key = (number / 3).is_multiple_of(gop);
            let rtp = part(number, u32::from(number / 3) * 3_600, key, number % 3 == 2);
            world.stream.receive(world.now, &rtp.bytes()).unwrap();
        };
        // Which the first viewer begins with; it misses nothing from then on.
        (0..3).for_each(|number| receive(&mut world, number));
        world.settle();
        for step in steps {
            match step {
                Step::Packet => {
                    receive(&mut world, next);
                    next += 1;
                }
                Step::Swapped => {
                    receive(&mut world, next + 1);
                    world.turn(1);
                    receive(&mut world, next);
                    next += 2;
                }
                Step::Audio(viewers) => {
                    world.stream.receive(world.now, &audio_packet(next_audio, 7).bytes()).unwrap();
                    world.turn(viewers);
                    for (token, _) in &present {
                        let newest = world.audio(*token).last().map(|got| got.origin());
                        prop_assert_eq!(newest, Some(next_audio), "audio waits for nothing");
                    }
                    next_audio += 1;
                }
                Step::Turn(milliseconds, viewers) => {
                    world.now += Duration::from_millis(u64::from(milliseconds));
                    world.turn(viewers);
                }
                Step::Join => {
                    let id = world.stream.join(world.now, &viewer(tokens)).unwrap();
                    present.push((tokens, id));
                    tokens += 1;
                }
                // The first one stays.
                Step::Leave(at) if at > 0 && at < present.len() => world.stream.leave(present.remove(at).1),
                Step::Nack(at) if at < present.len() => {
                    let (token, id) = present[at];
                    let newest = world.numbers(token).into_iter().max().unwrap_or(0);
                    let mut rtcp = Vec::new();
                    let mut resend = Vec::new();
                    Nack::write(&mut rtcp, 5, video_ssrc(token), &[newest + 1, newest + 2, newest + 3]);
                    world.stream.viewer_rtcp(world.now, id, &rtcp, None, &mut resend);
                    prop_assert!(resend.is_empty(), "viewer {} was sent again what it had not got", token);
                }
                Step::Room(at) if at < present.len() => {
                    let token = present[at].0;
                    if !world.full.remove(&token) {
                        world.full.insert(token);
                    }
                }
                Step::Leave(_) | Step::Nack(_) | Step::Room(_) => {}
            }
        }
        world.full.clear();
        for _ in 0..40 {
            world.now += Duration::from_millis(50);
            world.turn(1);
        }
        world.settle();
        for (token, _) in present {
            let mut numbers = world.numbers(token);
            numbers.sort_unstable();
            prop_assert!(numbers.is_sorted_by(|a, b| a + 1 == *b), "viewer {}: {:?}", token, numbers);
            let mut origins: Vec<u16> = world.video(token).iter().map(|got| got.origin()).collect();
            origins.sort_unstable();
            prop_assert!(origins.is_sorted_by(|a, b| a < b), "viewer {} got a packet twice", token);
            if token == 0 {
                prop_assert_eq!(&origins, &(0..next).collect::<Vec<_>>());
            }
            if let Some(last) = origins.last() {
                prop_assert_eq!(*last, next - 1, "viewer {} does not get the newest", token);
            }
        }
    }
}
