//! Queues that are not ours: a longer route, and a TCP flow that keeps the bottleneck full.

use std::time::Duration;

use congestion::{Config, Controller, Ecn, Kind, PacketReport};
use netsim::Clock;

use crate::path::{MS, PathConfig, SECOND, Trace};
use crate::world::{ViewerConfig, World};

#[test]
fn a_longer_route_is_believed_after_some_seconds() {
    let start = Clock::new().now();
    let mut controller = Controller::new(Config::default(), start);
    controller.demand(1_000_000);
    let (mut reports, mut before) = (Vec::new(), 0);
    // 960 kbit/s, which arrive in full all the time; from the tenth second on 40 ms later.
    for tick in 0..3000u32 {
        let at = start + Duration::from_millis(10) * tick;
        controller.pacing(at);
        controller.sent(tick as u16, 1200, at, Kind::Video);
        let delay = if tick < 1000 { 20_000 } else { 60_000 };
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
    assert!(before > 900_000 && after > before * 8 / 10, "{before} became {after}");
}

#[test]
fn beside_tcp_neither_starves() {
    let path = PathConfig::plain(Trace::constant(2.5e6), 20 * MS, 200 * MS);
    let viewer = ViewerConfig::ours(60 * MS);
    let (measured, tcp_bytes) = World::new(path, vec![viewer], Some(10 * SECOND), 11).run(90 * SECOND);
    let tcp = tcp_bytes as f64 * 8.0 / (80.0 * 2.5e6);
    let viewer = measured[0].arrived[200..].iter().sum::<f64>() / (70.0 * 2.5e6);
    assert!(tcp > 0.2 && viewer > 0.1, "TCP has {tcp}, the viewer {viewer}");
}
