//! Single faults and their times.

use super::super::*;
use super::world::{SimNode, World, ms, stream};

pub(super) fn pair() -> (World, usize, usize) {
    let mut world = World::new(1);
    let (a, b) = (world.start("a"), world.start("b"));
    world.until(ms(500), "both have their names", |world| {
        world.nodes.iter().all(|node| node.machine.is_named() && node.machine.living().count() == 2)
    });
    (world, a, b)
}

fn lost(world: &World, node: usize) -> Vec<(StreamName, String, LostBecause)> {
    let events = world.nodes[node].events.iter();
    events
        .filter_map(|event| match event {
            Event::Lost { stream, to, because, .. } => Some((stream.clone(), to.to_string(), *because)),
            _ => None,
        })
        .collect()
}

#[test]
fn a_node_that_dies_is_forgotten_within_five_seconds_and_so_are_its_streams() {
    let (mut world, a, b) = pair();
    world.claim(a, "live/a", Policy::Refuse);
    world.until(ms(50), "it is found", |world| world.home(b, "live/a").is_some());
    world.kill_node(a);
    let time = world.until(ms(5000), "it is forgotten", |world| world.home(b, "live/a").is_none());
    // Nobody listens for it, which NATS says at once: a heartbeat missed, and asked three times.
    assert!(time < ms(3000), "{time:?}");
    world.until(ms(1000), "what it left is removed", |world| {
        world.stored().all(|(key, value)| !matches!(key, Key::Stream(_)) || value.is_none())
    });
}

#[test]
fn a_node_that_stands_still_is_forgotten_within_five_seconds() {
    let (mut world, a, b) = pair();
    world.claim(a, "live/a", Policy::Refuse);
    world.until(ms(50), "it is found", |world| world.home(b, "live/a").is_some());
    world.run_for(ms(20));
    world.nodes[a].frozen = true;
    let time = world.until(ms(5000), "it is forgotten", |world| world.home(b, "live/a").is_none());
    assert!(time > ms(3000), "{time:?}: it may only have been busy");
    let claim = world.claim(b, "live/a", Policy::Refuse);
    world.until(ms(100), "the name is free", |world| world.nodes[b].answers.contains_key(&claim));
    assert!(world.nodes[b].answers[&claim].is_ok());

    world.nodes[a].frozen = false;
    world.until(ms(2000), "it learns of that", |world| !lost(world, a).is_empty());
    assert_eq!(lost(&world, a), [(stream("live/a"), "b".to_owned(), LostBecause::NotHeard)]);
    world.until(ms(2000), "quiet", |world| world.problem().is_none());
}

#[test]
fn the_name_of_a_dead_node_is_had_in_a_second() {
    let (mut world, a, b) = pair();
    world.claim(a, "live/a", Policy::Refuse);
    world.run_for(ms(2000));
    world.kill_node(a);
    let claim = world.claim(b, "live/a", Policy::Refuse);
    let time = world.until(ms(1000), "an answer", |world| world.nodes[b].answers.contains_key(&claim));
    assert!(world.nodes[b].answers[&claim].is_ok());
    assert!(time > ms(400), "{time:?}: it was asked more than once");
}

#[test]
fn while_the_directory_is_away_everything_stays_and_new_names_are_granted() {
    let (mut world, a, b) = pair();
    world.claim(a, "live/a", Policy::Refuse);
    world.run_for(ms(100));
    world.kill_server();
    world.run_for(ms(60_000));
    assert_eq!(world.home(b, "live/a").as_deref(), Some("a"));
    assert_eq!(world.nodes[b].machine.living().count(), 2);

    let taken = world.claim(b, "live/a", Policy::Refuse);
    assert_eq!(world.nodes[b].answers[&taken], Err(Refusal::TakenBy(NodeName::new("a").unwrap())));
    let free = world.claim(b, "live/b", Policy::Refuse);
    assert!(matches!(&world.nodes[b].answers[&free], Ok(granted) if granted.provisional));
    assert_eq!(world.home(b, "live/b").as_deref(), Some("b"));

    world.server_up = true;
    world.until(ms(2000), "all is known to all", |world| {
        world.problem().is_none() && world.home(a, "live/b").is_some() && world.home(b, "live/a").is_some()
    });
    world.run_for(ms(20_000));
    assert_eq!(world.problem(), None);
    let gone =
        |event: &Event| matches!(event, Event::StreamGone(_) | Event::NodeGone(..) | Event::Lost { .. });
    assert!(!world.nodes.iter().flat_map(|node| &node.events).any(gone), "nothing was disturbed");
}

#[test]
fn of_two_publishers_of_a_split_the_same_one_stays_whoever_comes_first() {
    for first in [0, 1] {
        let (mut world, a, b) = pair();
        world.kill_server();
        world.run_for(ms(1000));
        for node in [a, b] {
            world.claim(node, "live/a", Policy::Refuse);
            world.cut(node, node != first);
        }
        world.server_up = true;
        world.run_for(ms(500));
        world.cut(1 - first, false);
        let time = world.until(ms(2500), "one of them stays", |world| world.problem().is_none());
        assert!(time < ms(2000), "{time:?}");
        // By the larger instance.
        let (stays, goes) = if world.nodes[a].machine.me.instance > world.nodes[b].machine.me.instance {
            (a, b)
        } else {
            (b, a)
        };
        assert!(world.nodes[stays].publishing.contains_key(&stream("live/a")), "first {first}");
        assert!(matches!(&lost(&world, goes)[..], [(_, _, LostBecause::Split)]), "first {first}");
    }
}

#[test]
fn a_publisher_that_was_settled_stays_when_another_comes_from_a_split() {
    let (mut world, a, b) = pair();
    world.cut(b, true);
    world.run_for(ms(10_000));
    world.claim(a, "live/a", Policy::Refuse);
    world.claim(b, "live/a", Policy::Refuse);
    world.run_for(ms(5000));
    world.cut(b, false);
    world.until(ms(2000), "one of them stays", |world| world.problem().is_none());
    assert_eq!(lost(&world, b), [(stream("live/a"), "a".to_owned(), LostBecause::Split)]);
}

#[test]
fn a_frozen_directory_is_noticed_and_decided_without() {
    let (mut world, a, b) = pair();
    world.server_frozen = true;
    let claim = world.claim(a, "live/a", Policy::Refuse);
    let time = world.until(ms(3000), "an answer", |world| world.nodes[a].answers.contains_key(&claim));
    assert!(time < ms(3000), "{time:?}");
    world.run_for(ms(10_000));
    assert_eq!(world.nodes[b].machine.living().count(), 2);
    world.server_frozen = false;
    world.until(ms(2000), "all is known to all", |world| {
        world.problem().is_none() && world.home(b, "live/a").is_some()
    });
}

#[test]
fn a_node_that_leaves_is_forgotten_at_once() {
    let (mut world, a, b) = pair();
    world.claim(a, "live/a", Policy::Refuse);
    world.run_for(ms(100));
    let now = world.now;
    world.nodes[a].machine.set_draining(now, true);
    world.carry_out(a);
    world.run_for(ms(20));
    assert!(
        world.nodes[b].events.iter().any(|event| matches!(event, Event::NodeChanged(node) if node.draining))
    );
    let now = world.now;
    world.nodes[a].machine.leave(now);
    world.carry_out(a);
    let time = world.until(ms(100), "it is forgotten", |world| {
        world.nodes[b].machine.living().count() == 1 && world.home(b, "live/a").is_none()
    });
    assert!(time < ms(30), "{time:?}");
    let refused = world.claim(a, "live/b", Policy::Refuse);
    assert_eq!(world.nodes[a].answers[&refused], Err(Refusal::Leaving));
}

#[test]
fn a_second_node_of_a_name_is_out_and_a_restarted_one_gets_it() {
    let (mut world, a, b) = pair();
    let second = world.start("a");
    world.until(ms(1000), "it is told", |world| {
        world.nodes[second].events.iter().any(|event| matches!(event, Event::NameTaken { .. }))
    });
    assert!(world.nodes[a].machine.is_named());
    world.kill_node(second);

    world.kill_node(a);
    let restarted = world.start("a");
    let time = world.until(ms(6000), "the name", |world| world.nodes[restarted].machine.is_named());
    assert!(time < ms(3000), "{time:?}");
    world.until(ms(100), "it is seen", |world| world.nodes[b].machine.living().count() == 2);
}

#[test]
fn a_node_that_has_its_name_keeps_it_when_another_came_first_to_a_directory_that_lost_everything() {
    let (mut world, a, b) = pair();
    world.claim(a, "live/a", Policy::Refuse);
    world.run_for(NEWCOMER_FOR + ms(2_000));
    for cut in [a, b] {
        world.cut(cut, true);
    }
    world.kill_server();
    world.run_for(ms(1_000));
    world.server_up = true;
    let second = world.start("a");
    world.until(ms(1_000), "nobody is there", |world| world.nodes[second].machine.is_named());
    world.run_for(ms(3_000));
    for healed in [a, b] {
        world.cut(healed, false);
    }
    world.until(ms(3_000), "it is told", |world| {
        world.nodes[second].events.iter().any(|event| matches!(event, Event::NameTaken { .. }))
    });
    world.until(ms(5_000), "quiet", |world| world.nodes[a].machine.is_settled());
    assert!(world.nodes[a].machine.is_named());
    assert_eq!(world.home(b, "live/a").as_deref(), Some("a"));
}

#[test]
fn a_thousand_quiet_streams_cost_no_writes_and_one_node_can_have_ten_thousand() {
    let (mut world, a, b) = pair();
    world.delay_max = 1;
    for stream in 0..1000 {
        world.claim(a, &format!("live/{stream}"), Policy::Refuse);
    }
    world.until(ms(5000), "all are found", |world| world.nodes[b].machine.shown().count() == 1000);
    let before = world.writes;
    world.run_for(ms(15_000));
    assert_eq!(world.writes - before, 10, "five announcements of two nodes each");
}

#[test]
fn of_any_number_of_quiet_nodes_none_has_twenty_messages_a_second_and_a_death_is_seen_in_five() {
    for count in [3_usize, 27, 100] {
        let mut world = World::new(1);
        world.delay_max = 1;
        for node in 0..count {
            world.start(&format!("n{node}"));
        }
        let knows = |sim: &SimNode, others: usize| sim.machine.living().count() == others;
        world.until(ms(2000), "all know all", |world| world.nodes.iter().all(|sim| knows(sim, count)));
        // Those that came first do not know yet how many they are.
        world.run_for(ANNOUNCE_EVERY_MAX);
        world.traffic.fill(0);
        world.run_for(2 * ANNOUNCE_EVERY_MAX);
        let most = world.traffic.iter().max().unwrap();
        assert!(*most < 20 * 2 * ANNOUNCE_EVERY_MAX.as_secs(), "{count} nodes: {most} messages");

        world.kill_node(0);
        let lives =
            |world: &World| world.nodes[1..].iter().all(|sim| sim.machine.is_live() && knows(sim, count - 1));
        world.until(ms(5000), "one that died is forgotten", lives);
        world.nodes[1].frozen = true;
        let stands = |world: &World| world.nodes[2..].iter().all(|sim| knows(sim, count - 2));
        world.until(ms(5000), "one that stands still is forgotten", stands);
        world.run_for(ms(100));
        let stored = world.stored().filter(|(key, value)| matches!(key, Key::Node(_)) && value.is_some());
        assert_eq!(stored.count(), count - 2, "and nobody who comes finds it");
    }
}

#[test]
fn marks_of_released_names_are_removed() {
    let (mut world, a, b) = pair();
    for round in 0..20 {
        world.claim(a, &format!("live/{round}"), Policy::Refuse);
    }
    world.run_for(ms(100));
    for round in 0..20 {
        world.release(a, &format!("live/{round}"));
    }
    world.run_for(ms(62_000));
    assert_eq!(world.stored().filter(|(key, _)| matches!(key, Key::Stream(_))).count(), 0);
    assert!(world.nodes.iter().all(|node| node.machine.streams.is_empty()));
    world.claim(b, "live/0", Policy::Refuse);
    world.until(ms(100), "the name can be had", |world| world.home(a, "live/0").is_some());
}

#[test]
fn a_node_that_drains_while_it_announces_itself_is_known_to_drain_at_once() {
    let (mut world, a, b) = pair();
    let key = Key::Node(NodeName::new("a").unwrap());
    world.until(2 * ANNOUNCE_EVERY_MIN, "an announcement is under way", |world| {
        world.nodes[a].machine.writing.contains_key(&key)
    });
    let now = world.now;
    world.nodes[a].machine.set_draining(now, true);
    world.carry_out(a);
    let drains = |event: &Event| matches!(event, Event::NodeChanged(node) if node.draining);
    world.until(ms(20), "it is known", |world| world.nodes[b].events.iter().any(drains));
}

#[test]
fn that_no_heartbeats_are_stored_is_said_once_and_costs_little_and_the_dead_are_forgotten() {
    let (mut world, a, b) = pair();
    world.claim(a, "live/a", Policy::Refuse);
    world.heartbeats_refused = true;
    world.run_for(ms(6000));
    world.traffic.fill(0);
    world.run_for(ms(30_000));
    assert!(world.traffic.iter().all(|&messages| messages < 20 * 30), "{:?}", world.traffic);
    let is_disturbed = |event: &Event| matches!(event, Event::NotHeard | Event::NodeGone(..));
    assert!(world.nodes.iter().all(|sim| sim.unstored == 1 && !sim.events.iter().any(is_disturbed)));
    world.kill_node(a);
    world.until(ms(30_000), "it is forgotten", |world| world.home(b, "live/a").is_none());

    world.heartbeats_refused = false;
    world.run_for(ms(3000));
    world.heartbeats_refused = true;
    assert_eq!(world.nodes[b].stored_again, 1);
    world.until(ms(5000), "that it begins again is said", |world| world.nodes[b].unstored == 2);
}

#[test]
fn one_look_that_fails_or_comes_late_changes_nothing_and_two_begin_again() {
    let (mut world, a, b) = pair();
    let not_heard = |world: &World| {
        let events = world.nodes.iter().flat_map(|sim| &sim.events);
        events.filter(|event| matches!(event, Event::NotHeard)).count()
    };
    world.run_for(ms(2000));
    world.looks_fail = 1;
    world.run_for(ms(2000));
    assert_eq!((world.looks_fail, not_heard(&world)), (0, 0));
    // Looks that take nearly as long as they may.
    for _ in 0..10 {
        world.until(ms(1000), "a look is under way", |world| {
            world.nodes[a].machine.beat.is_some_and(|(_, at)| at == world.now)
        });
        world.server_frozen = true;
        world.run_for(ECHO_WITHIN - ms(10));
        world.server_frozen = false;
        world.run_for(ms(100));
    }
    assert_eq!(not_heard(&world), 0);
    assert_eq!(world.nodes[b].machine.living().count(), 2);

    let late = Input::Heartbeats { number: world.nodes[a].machine.last_number, heartbeats: None };
    world.looks_fail = 4;
    world.until(ms(2000), "both begin again", |world| not_heard(world) == 2);
    world.until(ms(1000), "both hear again", |world| world.nodes.iter().all(|sim| sim.machine.is_live()));
    for _ in 0..2 {
        world.nodes[a].machine.handle(world.now, late.clone());
    }
    assert!(world.nodes[a].machine.is_live(), "it was a look of before");
}

#[test]
fn a_node_that_was_busy_is_busy_until_it_has_room_to_spare() {
    let (mut world, a, b) = pair();
    world.run_for(ms(100));
    let before = world.writes;
    let mut seen = Vec::new();
    for cpu_permille in [750, 810, 790, 805, 710, 690, 790, 800] {
        let now = world.now;
        world.nodes[a].machine.set_load(now, Load { cpu_permille, ..Load::default() });
        world.carry_out(a);
        world.run_for(ms(20));
        let other = world.nodes[b].machine.living().nth(1).unwrap();
        seen.push(other.load.is_busy());
    }
    assert_eq!(seen, [false, true, true, true, true, false, false, true]);
    assert_eq!(world.writes - before, 3, "each change is said, at once, and nothing else");

    // What goes out later says the same.
    let now = world.now;
    world.nodes[a].machine.set_load(now, Load { cpu_permille: 750, ..Load::default() });
    world.run_for(2 * ANNOUNCE_EVERY_MIN);
    let other = world.nodes[b].machine.living().nth(1).unwrap();
    assert!(other.load.cpu_permille == 750 && other.load.is_busy());
}
