//! Packets keep their distances: what is lost leaves a gap, what is late fills it, what comes twice
//! goes out once.

use std::time::Duration;

use sfu::DropReason;

use crate::packets::common::{World, frame, part};

#[test]
fn what_the_publisher_lost_is_a_gap_that_late_packets_fill() {
    let mut world = World::published();
    world.join(1);
    for (sequence_number, key) in [(10, true), (11, false), (14, false), (15, false)] {
        world.receive(&frame(sequence_number, u32::from(sequence_number) * 3_600, key)).unwrap();
    }
    let first = world.numbers(1)[0];
    let relative = |world: &World| -> Vec<u16> { world.numbers(1).iter().map(|n| n - first).collect() };
    assert_eq!(relative(&world), [0, 1, 4, 5]);
    world.receive(&frame(13, 13 * 3_600, false)).unwrap();
    world.receive(&frame(12, 12 * 3_600, false)).unwrap();
    assert_eq!(relative(&world), [0, 1, 4, 5, 3, 2]);
    for got in world.video(1) {
        assert_eq!(got.number().wrapping_sub(first), got.origin() - 10, "each under its own number");
        assert_eq!(got.timestamp(), u32::from(got.origin()) * 3_600);
    }
}

#[test]
fn duplicates_go_out_once() {
    let mut world = World::published();
    world.join(1);
    world.play(100, 0, 200, 50);
    let before = world.video(1).len();
    for sequence_number in [299, 298, 250, 180, 130] {
        let repeated = world.receive(&frame(sequence_number, 0, false));
        // Further back than the window of the source, the cache knows; further back than that, it
        // is too late.
        let known = matches!(repeated, Err(DropReason::Duplicate | DropReason::TooOld));
        assert!(known, "{sequence_number}: {repeated:?}");
    }
    assert_eq!(world.video(1).len(), before);
}

#[test]
fn one_packet_far_from_all_others_changes_nothing_and_two_begin_anew() {
    let mut world = World::published();
    world.join(1);
    world.play(100, 0, 10, 50);
    assert_eq!(world.receive(&frame(30_000, 40_000, false)), Err(DropReason::Unconfirmed));
    world.receive(&frame(110, 36_000, false)).unwrap();
    let before = world.numbers(1);
    assert_eq!(world.receive(&frame(50_000, 7, true)), Err(DropReason::Unconfirmed));
    assert!(!world.receive(&frame(50_001, 7, false)).unwrap().forwarded, "a decoder cannot go on here");
    assert!(world.receive(&frame(50_002, 3_607, true)).unwrap().forwarded);
    let after = world.numbers(1);
    assert_eq!(after.len(), before.len() + 1);
    assert_eq!(*after.last().unwrap(), before.last().unwrap() + 1, "no gap");
}

#[test]
fn packets_of_one_batch_leave_in_one_turn() {
    let mut world = World::published();
    world.join(1);
    let batch: Vec<_> = (0..5).map(|at| part(50 + at, 9_000, true, at == 4)).collect();
    world.receive_batch(&batch);
    let markers: Vec<bool> = world.video(1).iter().map(|got| got.packet().marker()).collect();
    assert_eq!(markers, [false, false, false, false, true]);
    world.wait(Duration::from_millis(1));
    assert_eq!(world.video(1).len(), 5);
}
