//! Entries that no node writes.

use super::super::*;
use super::rules::pair;
use super::world::{World, described, ms, stream};

fn put(world: &mut World, name: &str, instance: u64, epoch: Epoch) {
    let node = NodeName::new("evil").unwrap();
    let instance = InstanceId(instance);
    let record = StreamRecord { instance, node, epoch, how: How::Free, description: described(0) };
    world.put(&Key::Stream(stream(name)), &Bytes::from(record.encode()));
}

/// Claims, and says which epoch the claim was granted.
fn granted(world: &mut World, node: usize, name: &str) -> Epoch {
    let claim = world.claim(node, name, Policy::TakeOver);
    world.until(ms(200), "an answer", |world| world.nodes[node].answers.contains_key(&claim));
    world.nodes[node].answers[&claim].as_ref().unwrap().epoch
}

#[test]
fn a_record_with_the_largest_epoch_leaves_other_names_their_own_and_can_be_taken_over() {
    let (mut world, a, b) = pair();
    put(&mut world, "live/x", 99_999_999, EPOCH_MAX);
    world.run_for(ms(100));
    let first = granted(&mut world, a, "live/y");
    let second = granted(&mut world, a, "live/y");
    assert!(first < second, "{first:?}, {second:?}");
    // The first one's publisher says late that it has ended.
    let now = world.now;
    world.nodes[a].machine.release(now, &stream("live/y"), first);
    world.carry_out(a);
    world.run_for(ms(100));
    assert_eq!(world.home(b, "live/y").as_deref(), Some("a"));

    let before = world.writes;
    granted(&mut world, b, "live/x");
    world.run_for(ms(2_000));
    assert_eq!(world.home(a, "live/x").as_deref(), Some("b"));
    let announcements = 2 * 2;
    assert!(world.writes - before <= 1 + announcements, "{} writes", world.writes - before);
    assert_eq!(world.nodes[b].machine.nonsense().total, 0);
    world.release(b, "live/x");
    world.run_for(ms(100));
    assert!(granted(&mut world, a, "live/x") < Epoch(100), "nothing is left of it");
}

#[test]
fn what_was_too_much_is_found_when_there_is_room_and_a_claim_of_it_is_not_written_without_end() {
    let (mut world, a, b) = pair();
    for number in 0..INSTANCES_MAX as u64 + 100 {
        put(&mut world, &format!("evil/{number}"), 50_000_000 + number, Epoch(5));
    }
    world.run_for(ms(200));
    assert!(world.nodes[a].machine.nonsense().total > 0);
    let c = world.start("c");
    world.run_for(ms(500));
    granted(&mut world, c, "live/c");
    world.run_for(ms(100));
    assert_eq!(world.home(a, "live/c"), None, "there is no room for it");

    let before = world.writes;
    let claim = world.claim(a, "live/c", Policy::Refuse);
    world.run_for(ms(1_500));
    // Those that never were there are forgotten meanwhile, and what they left is removed, each once.
    assert!(world.writes - before < INSTANCES_MAX as u64 + 10, "{} writes", world.writes - before);
    world.until(ms(30_000), "it is found", |world| {
        [a, b].iter().all(|&node| world.home(node, "live/c").as_deref() == Some("c"))
    });
    world.until(ms(5_000), "an answer", |world| world.nodes[a].answers.contains_key(&claim));
    assert!(world.nodes[a].answers[&claim].is_err());
    world.until(ms(5_000), "quiet", |world| world.problem().is_none());
}
