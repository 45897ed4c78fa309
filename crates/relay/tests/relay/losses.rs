//! Lost packets are repaired, within the budget, and never come twice.

use std::collections::HashSet;
use std::time::Duration;

use netsim::{Burst, LinkConfig};

use crate::world::{World, delay};

fn bad(loss: f64, delay_ms: u64) -> LinkConfig {
    LinkConfig { loss, ..delay(delay_ms) }
}

#[test]
fn everything_arrives_on_links_that_lose_reorder_and_duplicate() {
    for seed in 0..12 {
        let down = LinkConfig {
            loss: 0.05,
            duplicate: 0.05,
            reorder: 0.1,
            reorder_delay: Duration::from_millis(15),
            jitter: Duration::from_millis(4),
            ..delay(20)
        };
        let mut world = World::fan_out(seed, 3, &down, &LinkConfig { duplicate: 0.2, ..bad(0.05, 20) });
        world.play(0, Duration::from_secs(20));
        world.run(Duration::from_secs(2));
        assert_eq!(world.check(), [0, 0, 0], "seed {seed}");
        for edge in &world.edges {
            let stats = edge.receiver.link_stats(edge.link).unwrap();
            assert!(edge.repaired > 0 && stats.repaired as usize == edge.repaired);
            assert_eq!((stats.received, stats.lost), (world.streams[0].sent.len() as u64, 0));
            // Said once a second, and may be lost.
            let report = world.sender.link_stats(edge.out_link).unwrap().report;
            assert!(report.received <= stats.received && report.received + 200 >= stats.received);
            assert!((38_000..60_000).contains(&report.round_trip_us), "{report:?}");
        }
    }
}

#[test]
fn the_last_packets_of_a_burst_are_repaired_without_any_after_them() {
    let mut world = World::fan_out(1, 1, &delay(10), &delay(10));
    world.run(Duration::from_millis(100));
    world.send_frame(0, 7, 2);
    world.run(Duration::from_millis(50));
    world.edges[0].set_links(&bad(1.0, 10), &delay(10));
    world.send_frame(0, 7, 3);
    world.edges[0].set_links(&delay(10), &delay(10));
    // The heartbeat after 60 ms, and two ways.
    world.run(Duration::from_millis(95));
    assert_eq!((world.check(), world.edges[0].repaired), (vec![0], 3));
}

#[test]
fn a_loss_is_repaired_in_a_round_trip_after_the_next_packet() {
    let mut world = World::fan_out(2, 1, &delay(30), &delay(30));
    world.play(0, Duration::from_secs(1));
    world.edges[0].set_links(&bad(1.0, 30), &delay(30));
    world.send_frame(0, 7, 1);
    world.edges[0].set_links(&delay(30), &delay(30));
    world.send_frame(0, 7, 1);
    world.run(Duration::from_millis(31));
    assert_eq!(world.check(), [1]);
    world.run(Duration::from_millis(60));
    assert_eq!(world.check(), [0]);
}

#[test]
fn links_that_only_reorder_are_asked_for_little() {
    let down = LinkConfig { reorder: 0.2, reorder_delay: Duration::from_millis(6), ..delay(20) };
    let mut world = World::fan_out(3, 1, &down, &delay(20));
    world.play(0, Duration::from_secs(60));
    world.run(Duration::from_secs(1));
    assert_eq!(world.check(), [0]);
    let stats = world.edges[0].receiver.link_stats(world.edges[0].link).unwrap();
    let asked = stats.asked as f64 / world.streams[0].sent.len() as f64;
    assert!(asked < 0.01, "{asked} of the packets");
}

#[test]
fn a_link_that_loses_half_gets_no_more_repairs_than_its_share() {
    let mut world = World::fan_out(4, 2, &delay(20), &delay(20));
    world.edges[0].set_links(&bad(0.5, 20), &delay(20));
    world.play(0, Duration::from_secs(30));
    world.run(Duration::from_secs(2));
    let stats = world.sender.link_stats(world.edges[0].out_link).unwrap();
    assert!(stats.not_repaired > 0);
    let mean = stats.bytes / stats.packets;
    let most = stats.bytes / 4 + 64 * 1024 + 32 * 16_000;
    assert!(stats.repairs * mean < most * 11 / 10, "{stats:?}");
    let lacks = world.check();
    assert!(lacks[0] > 0 && lacks[1] == 0, "the other edge is not affected: {lacks:?}");
}

#[test]
fn what_was_sent_while_a_link_was_cut_is_given_up_and_what_follows_arrives() {
    for (seed, cut) in [(5, 1), (6, 5), (7, 30)] {
        let mut world = World::fan_out(seed, 2, &delay(20), &delay(20));
        world.play(0, Duration::from_secs(2));
        let begun = world.streams[0].sent.len();
        world.edges[0].set_links(&bad(1.0, 20), &bad(1.0, 20));
        world.play(0, Duration::from_secs(cut));
        let ended = world.streams[0].sent.len();
        world.edges[0].set_links(&delay(20), &delay(20));
        world.play(0, Duration::from_secs(5));
        world.run(Duration::from_secs(2));
        let lacks = world.check();
        assert_eq!(lacks[1], 0);
        let cut_off = ended - begun;
        if cut == 1 {
            assert_eq!(lacks[0], 0, "the history reaches back");
        } else {
            assert!(lacks[0] <= cut_off && lacks[0] > 0, "{lacks:?} of {cut_off}");
        }
        let stats = world.edges[0].receiver.link_stats(world.edges[0].link).unwrap();
        assert_eq!(stats.lost as usize, lacks[0]);
        let after = &world.edges[0].got[&world.edges[0].streams[&0]];
        let tail = &world.streams[0].sent[ended..];
        assert!(after.ends_with(&tail[tail.len() / 2..]), "and in order again");
    }
}

#[test]
fn bursts_are_repaired_from_the_history() {
    for seed in 10..16 {
        let burst = Burst { apart: Duration::from_secs(2), lasts: Duration::from_millis(60) };
        let down = LinkConfig { burst: Some(burst), ..delay(15) };
        let mut world = World::fan_out(seed, 1, &down, &delay(15));
        world.play(0, Duration::from_secs(30));
        world.run(Duration::from_secs(2));
        assert_eq!(world.check(), [0], "seed {seed}");
        assert!(world.edges[0].repaired > 0);
    }
}

#[test]
fn after_a_long_cut_the_last_second_of_it_is_repaired_and_everything_since() {
    // Packets of a frame each 40 ms, and seconds: fewer and more numbers than may be missing.
    for (seed, packets, cut) in [(20, 2, 30), (21, 8, 30), (22, 3, 8)] {
        let mut world = World::fan_out(seed, 1, &delay(20), &delay(20));
        let play = |world: &mut World, frames: usize| {
            for _ in 0..frames {
                world.send_frame(0, 7, packets);
                world.run(Duration::from_millis(40));
            }
        };
        play(&mut world, 50);
        world.edges[0].set_links(&bad(1.0, 20), &bad(1.0, 20));
        play(&mut world, cut * 25);
        let healed = world.streams[0].sent.len();
        world.edges[0].set_links(&delay(20), &delay(20));
        play(&mut world, 2);
        world.run(Duration::from_millis(10));
        let (asked, lost) = {
            let stats = world.edges[0].receiver.link_stats(world.edges[0].link).unwrap();
            (stats.asked, stats.lost)
        };
        let dead = (cut * 25 - 38) * packets;
        assert!(lost as usize >= dead, "{lost} of {dead} are given up in a round trip");
        assert!(asked <= 4_096);
        play(&mut world, 50);
        world.run(Duration::from_secs(2));
        let got: HashSet<&Vec<u8>> = world.edges[0].got[&world.edges[0].streams[&0]].iter().collect();
        let from = healed - 25 * packets;
        let lacks = world.streams[0].sent[from..].iter().filter(|packet| !got.contains(packet)).count();
        assert_eq!(lacks, 0, "seed {seed}");
        let before = world.streams[0].sent[..healed].iter().filter(|packet| !got.contains(packet)).count();
        let stats = world.edges[0].receiver.link_stats(world.edges[0].link).unwrap();
        assert_eq!(stats.lost as usize, before);
    }
}
