//! Reports stop: the rate halves each half second, ends after ten, and comes back.

use std::time::{Duration, Instant};

use congestion::{Config, Controller, Ecn, Kind, PacketReport};
use netsim::Clock;

const TICK: Duration = Duration::from_millis(10);

/// A packet each 10 ms, 960 kbit/s, each report of ten packets 30 ms later; none from `silent`
/// ticks on.
fn run(controller: &mut Controller, start: Instant, ticks: std::ops::Range<u32>, reported: bool) -> Vec<u64> {
    let mut targets = Vec::new();
    for tick in ticks {
        let at = start + TICK * tick;
        if controller.next_timeout().is_some_and(|timeout| timeout <= at) {
            controller.handle_timeout(at);
        }
        controller.pacing(at);
        controller.sent(tick as u16, 1200, at, Kind::Video);
        if reported && tick % 10 == 9 {
            let numbers = tick - 9..=tick;
            controller.feedback(numbers.map(report), at + Duration::from_millis(30));
        }
        targets.push(controller.target());
    }
    targets
}

fn report(tick: u32) -> PacketReport {
    PacketReport { number: tick as u16, arrival_us: Some(10_000 * i64::from(tick) + 20_000), ecn: Ecn::None }
}

#[test]
fn the_rate_halves_each_half_second_and_ends() {
    let start = Clock::new().now();
    let mut controller = Controller::new(Config::default(), start);
    run(&mut controller, start, 0..500, true);
    let before = controller.target();
    assert!(before > 600_000, "{before}");
    let targets = run(&mut controller, start, 500..1700, false);
    for (ticks, parts) in [(40, 1), (60, 2), (110, 4), (160, 8)] {
        let expected = before / parts;
        assert!(targets[ticks].abs_diff(expected) <= before / 100, "{} after {ticks}", targets[ticks]);
    }
    assert_eq!(targets[1010], 0, "ten seconds are enough");
    assert_eq!(controller.pacing(start + TICK * 1700).bytes, 0);
    assert_eq!(controller.next_timeout(), None);
}

#[test]
fn it_comes_back_with_reports_or_with_a_sign_of_life() {
    let start = Clock::new().now();
    let mut controller = Controller::new(Config::default(), start);
    run(&mut controller, start, 0..500, true);
    let before = controller.estimate();
    run(&mut controller, start, 500..700, false);
    assert!(controller.estimate() < before / 4);
    run(&mut controller, start, 700..710, true);
    assert!(controller.estimate() >= before / 2 - 1000, "half of what was known");

    run(&mut controller, start, 710..1900, false);
    assert_eq!(controller.estimate(), 0);
    controller.receiver_report(0, None, start + TICK * 1900);
    assert_eq!(controller.estimate(), Config::default().floor, "alive, and nothing else is known");
    run(&mut controller, start, 1900..1920, true);
    assert!(controller.estimate() > Config::default().floor);
}

#[test]
fn who_sends_nothing_misses_no_report() {
    let start = Clock::new().now();
    let mut controller = Controller::new(Config::default(), start);
    run(&mut controller, start, 0..500, true);
    let before = controller.estimate();
    // The last packets are lost, and no later ones show it.
    run(&mut controller, start, 500..505, false);
    for tick in 505..3000 {
        let at = start + TICK * tick;
        if controller.next_timeout().is_some_and(|timeout| timeout <= at) {
            controller.handle_timeout(at);
        }
    }
    assert_eq!(controller.estimate(), before);
}

/// Pictures of a slide show: each is sent within some milliseconds, and then there is nothing to report on.
#[test]
fn pauses_between_pictures_are_no_reason_to_go_on() {
    for every_ms in [300, 500, 1_000] {
        let start = Clock::new().now();
        let mut controller = Controller::new(Config::default(), start);
        let (mut number, mut reports, mut waiting) = (0_u16, Vec::new(), 0_usize);
        let mut stopped_at = None;
        for millisecond in 0..80_000_u64 {
            let at = start + Duration::from_millis(millisecond);
            if millisecond % every_ms == 0 {
                waiting = 200 * every_ms as usize;
            }
            if controller.next_timeout().is_some_and(|timeout| timeout <= at) {
                controller.handle_timeout(at);
            }
            let mut left = controller.pacing(at).bytes;
            while waiting > 0 && left > 0 {
                let bytes = waiting.min(1200);
                controller.sent(number, bytes, at, Kind::Video);
                let arrival_us = Some(1000 * millisecond as i64 + 20_000);
                reports.push(PacketReport { number, arrival_us, ecn: Ecn::None });
                (number, waiting, left) =
                    (number.wrapping_add(1), waiting - bytes, left.saturating_sub(bytes));
            }
            if millisecond % 50 == 49 && millisecond < 20_000 {
                controller.feedback(reports.drain(..), at + Duration::from_millis(30));
            }
            if controller.is_stopped() {
                stopped_at.get_or_insert(millisecond);
            }
        }
        println!("each {every_ms} ms: stopped at {stopped_at:?} ms");
        assert!(stopped_at.is_some_and(|at| (29_000..65_000).contains(&at)), "{every_ms}: {stopped_at:?}");
    }
}
