//! Queues that are not ours: a longer route, and a TCP flow that keeps the bottleneck full.

use std::time::Duration;

use congestion::{Config, Controller, Ecn, Kind, PacketReport};
use netsim::Clock;

use crate::path::{MS, PathConfig, SECOND, Trace};
use crate::world::{Source, ViewerConfig, World};

#[test]
fn a_longer_route_is_believed_after_some_seconds() {
    for longer in [40_000, 120_000] {
        becomes_longer(longer);
    }
}

fn becomes_longer(by_us: i64) {
    let start = Clock::new().now();
    let mut controller = Controller::new(Config::default(), start);
    controller.demand(1_000_000);
    let (mut reports, mut before) = (Vec::new(), 0);
    // 960 kbit/s, which arrive in full all the time; from the tenth second on later.
    for tick in 0..3000u32 {
        let at = start + Duration::from_millis(10) * tick;
        controller.pacing(at);
        controller.sent(tick as u16, 1200, at, Kind::Video);
        let delay = 20_000 + if tick < 1000 { 0 } else { by_us };
        let arrival_us = Some(10_000 * i64::from(tick) + delay);
        reports.push(PacketReport { number: tick as u16, arrival_us, ecn: Ecn::None });
        if tick % 5 == 4 {
            controller.feedback(reports.drain(..), at + Duration::from_millis(80));
        }
        if tick == 1000 {
            before = controller.estimate();
        }
    }
    let after = controller.estimate();
    assert!(before > 900_000 && after > before * 8 / 10, "{by_us}: {before} became {after}");
    let queue = controller.snapshot(start + Duration::from_secs(30)).queue;
    assert!(queue < Duration::from_millis(5), "{by_us}: {queue:?}");
}

/// Shares of a path that a viewer and a TCP flow beside it have from the tenth second of both on, and the
/// time without a picture.
fn beside_tcp(source: Source, rate: f64, delay: u64, queue: u64, seed: u64) -> (f64, f64, f64) {
    let path = PathConfig::plain(Trace::constant(rate), delay * MS, queue * MS);
    let viewer = ViewerConfig { source, ..ViewerConfig::ours(60 * MS) };
    let (measured, tcp_bytes) = World::new(path, vec![viewer], Some(10 * SECOND), seed).run(90 * SECOND);
    let tcp = tcp_bytes as f64 * 8.0 / (80.0 * rate);
    let viewer = measured[0].arrived[200..].iter().sum::<f64>() / (70.0 * rate);
    let shown: Vec<u64> =
        measured[0].shown.iter().map(|(at, _)| *at).filter(|at| *at > 20 * SECOND).collect();
    let gaps = shown.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 190 * MS);
    (viewer, tcp, gaps.sum::<u64>() as f64 / 1e6)
}

#[test]
fn beside_tcp_neither_starves() {
    for (rate, delay, queue) in [(2.5e6, 20, 200), (2.5e6, 20, 300), (4e6, 35, 500)] {
        for seed in 11..19 {
            let (viewer, tcp, _) = beside_tcp(Source::Elastic, rate, delay, queue, seed);
            assert!(tcp > 0.2 && viewer > 0.25, "seed {seed}: TCP has {tcp}, the viewer {viewer} of {rate}");
        }
    }
}

/// It got the least layer, and none for seconds each time that the queue was to go away first.
#[test]
fn beside_tcp_a_viewer_has_the_layer_that_is_its_part() {
    for queue in [200, 300] {
        for seed in 11..19 {
            let (viewer, tcp, frozen) = beside_tcp(Source::Layered, 2.5e6, 20, queue, seed);
            // Half of it carries 500 kbit/s; 150 would be 0.06.
            assert!(viewer > 0.17 && tcp > 0.4, "seed {seed}: TCP has {tcp}, the viewer {viewer}");
            assert!(frozen < 19.0, "seed {seed}: {frozen} of 70 s without a picture");
        }
    }
}

#[test]
fn when_tcp_has_left_the_queue_goes_and_all_of_the_path_is_used() {
    for seed in 11..27 {
        let path = PathConfig::plain(Trace::constant(2.5e6), 20 * MS, 300 * MS);
        let mut world = World::new(path, vec![ViewerConfig::ours(60 * MS)], Some(10 * SECOND), seed);
        world.tcp_ends = 40 * SECOND;
        let (measured, _) = world.run(60 * SECOND);
        let used = measured[0].arrived[450..].iter().sum::<f64>() / (15.0 * 2.5e6);
        assert!(used > 0.8, "seed {seed}: {used} of the path");
        let late = &measured[0].waits[measured[0].waits.len() * 4 / 5..];
        let long = late.iter().filter(|wait| **wait > 60 * MS).count();
        assert!(20 * long < late.len(), "seed {seed}: {long} of {} wait", late.len());
    }
}

/// However deep the queue is in which it stands: what is sent less makes it shorter.
#[test]
fn a_queue_of_our_own_is_not_taken_for_that_of_others() {
    for (high, low) in [(4e6, 0.4e6), (6e6, 1e6), (2.5e6, 0.6e6)] {
        for seed in 1..9 {
            let steps = [(0, high), (10, low), (20, high), (30, 2.0 * low), (32, 1.4 * low), (34, low)];
            let trace = Trace(steps.map(|(at, rate)| (at * SECOND, rate)).to_vec());
            let path = PathConfig::plain(trace, 20 * MS, 1500 * MS);
            let (measured, _) =
                World::new(path, vec![ViewerConfig::ours(60 * MS)], None, seed).run(60 * SECOND);
            // From three seconds after each fall on.
            for (from, to) in [(13, 20), (37, 60)] {
                let sent: f64 = measured[0].sent[from * 10..to * 10].iter().sum();
                assert!(
                    sent < 1.02 * low * (to - from) as f64,
                    "seed {seed}: {sent} of {low} from {from} s on"
                );
            }
            let late = &measured[0].waits[measured[0].waits.len() * 9 / 10..];
            let longest = late.iter().max().expect("packets");
            assert!(*longest < 100 * MS, "seed {seed}: {longest} us of {low}");
        }
    }
}
