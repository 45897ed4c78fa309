//! A large picture leaves in pieces, and what is far below the estimate at once.

use std::time::Duration;

use congestion::{Config, Controller, Ecn, Kind, PacketReport};
use netsim::Clock;

#[test]
fn a_key_frame_leaves_no_faster_than_the_pace() {
    let start = Clock::new().now();
    let config = Config { start: 2_500_000, ..Config::default() };
    let mut controller = Controller::new(config, start);
    controller.demand(2_500_000);
    let (mut at, mut left, mut number, mut runs) = (start, 60, 0u16, 0);
    while left > 0 {
        let mut allowance = controller.pacing(at);
        if allowance.bytes > 0 {
            runs += 1;
        }
        while allowance.bytes > 0 && left > 0 {
            controller.sent(number, 1200, at, Kind::Video);
            allowance.bytes = allowance.bytes.saturating_sub(1200);
            number += 1;
            left -= 1;
        }
        let Some(next) = controller.pacing(at).next else { continue };
        at = at.max(next);
    }
    // 576 kbit at 1.5 times 2.5 Mbit/s take 154 ms, some of them before.
    let took = at - start;
    assert!(took >= Duration::from_millis(120) && took <= Duration::from_millis(230), "{took:?}");
    assert!(runs <= 20, "{runs} runs: packets leave several at a time");
}

#[test]
fn audio_does_not_wait_and_what_is_usual_of_it_holds_up_nothing() {
    let start = Clock::new().now();
    let mut controller = Controller::new(Config::default(), start);
    controller.demand(0);
    for number in 0..15 {
        controller.sent(number, 200, start, Kind::Audio);
    }
    assert!(controller.pacing(start).bytes > 0);
}

#[test]
fn probes_follow_each_other_while_they_succeed_and_end_at_the_demand() {
    let start = Clock::new().now();
    let mut controller = Controller::new(Config::default(), start);
    controller.demand(4_000_000);
    let (mut at, mut number, mut reports) = (start, 0u16, Vec::new());
    for millisecond in 0..4000u32 {
        at = start + Duration::from_millis(millisecond.into());
        let allowance = controller.pacing(at);
        // 200 kbit/s of video, and what probes want.
        let video = millisecond % 40 == 0;
        let bytes = if video { 1000 } else { allowance.padding_bytes };
        if bytes > 0 {
            controller.sent(number, bytes, at, if video { Kind::Video } else { Kind::Padding });
            let arrival_us = Some(1000 * i64::from(millisecond) + 20_000);
            reports.push(PacketReport { number, arrival_us, ecn: Ecn::None });
            number += 1;
        }
        if millisecond % 50 == 49 {
            controller.feedback(reports.drain(..), at);
        }
    }
    let snapshot = controller.snapshot(at);
    assert!(snapshot.estimate > 3_500_000 && snapshot.estimate <= 5_900_000, "{snapshot:?}");
    assert!(snapshot.probes <= 12, "{snapshot:?}");
}

/// A server's timers are late by milliseconds, and what arrives in such a probe is less than was meant.
#[test]
fn probes_that_leave_late_show_what_the_demand_needs() {
    let start = Clock::new().now();
    let config = Config { start: 1_000_000, ..Config::default() };
    let mut controller = Controller::new(config, start);
    controller.demand(2_250_000);
    let (mut at, mut number, mut reports) = (start, 0u16, Vec::new());
    for millisecond in (0..1500u32).step_by(7) {
        at = start + Duration::from_millis(millisecond.into());
        loop {
            let bytes = controller.pacing(at).padding_bytes;
            if bytes == 0 {
                break;
            }
            controller.sent(number, bytes, at, Kind::Padding);
            let arrival_us = Some(1000 * i64::from(millisecond) + 20_000);
            reports.push(PacketReport { number, arrival_us, ecn: Ecn::None });
            number += 1;
        }
        if millisecond % 105 == 98 {
            controller.feedback(reports.drain(..), at);
        }
    }
    let snapshot = controller.snapshot(at);
    assert!(snapshot.estimate > 2_000_000, "{snapshot:?}");
}
