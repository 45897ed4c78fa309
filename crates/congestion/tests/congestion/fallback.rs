//! Receivers that do not report packets: REMB, else losses of receiver reports.

use std::time::{Duration, Instant};

use congestion::{Config, Controller, Kind};
use netsim::Clock;

fn controller() -> (Controller, Instant) {
    let start = Clock::new().now();
    (Controller::new(Config { packet_reports: false, ..Config::default() }, start), start)
}

/// A second of packets at about the target. When it ends.
fn second(controller: &mut Controller, at: Instant, number: &mut u16) -> Instant {
    let packets = (controller.target() / 8 / 1200) as u32;
    for packet in 0..packets {
        *number = number.wrapping_add(1);
        controller.sent(*number, 1200, at + Duration::from_secs(1) * packet / packets, Kind::Video);
    }
    at + Duration::from_secs(1)
}

#[test]
fn remb_is_the_rate() {
    let (mut controller, start) = controller();
    controller.remb(250_000, start);
    assert_eq!(controller.target(), 250_000);
    let at = second(&mut controller, start, &mut 0);
    controller.remb(200_000, at);
    assert_eq!(controller.target(), 200_000);
}

#[test]
fn a_remb_that_does_not_fall_is_exceeded_by_half_as_far_as_there_is_use_for_it() {
    let (mut controller, mut at) = controller();
    controller.demand(2_000_000);
    let mut number = 0;
    let mut targets = Vec::new();
    for _ in 0..12 {
        at = second(&mut controller, at, &mut number);
        controller.receiver_report(0, Some(Duration::from_millis(50)), at);
        controller.remb(400_000, at);
        targets.push(controller.target());
    }
    assert!(targets.iter().all(|target| (300_000..=600_000).contains(target)), "{targets:?}");
    assert_eq!(targets.last(), Some(&600_000));
    controller.remb(300_000, at);
    assert_eq!(controller.target(), 300_000, "it has fallen");
    controller.demand(350_000);
    controller.remb(300_000, at + Duration::from_secs(4));
    assert!(controller.target() <= 350_000, "{}", controller.target());
}

#[test]
fn losses_of_reports_lower_the_rate_and_their_absence_raises_it() {
    let (mut controller, mut at) = controller();
    let mut number = 0;
    let first = controller.target();
    for _ in 0..10 {
        at = second(&mut controller, at, &mut number);
        controller.receiver_report(0, Some(Duration::from_millis(50)), at);
    }
    let raised = controller.target();
    assert!(raised > first * 18 / 10 && raised < first * 22 / 10, "{first} became {raised}");
    at = second(&mut controller, at, &mut number);
    controller.receiver_report(64, Some(Duration::from_millis(50)), at);
    let lowered = controller.target();
    assert!(lowered.abs_diff(raised * 7 / 8) < raised / 50, "{raised} became {lowered}");
    at = second(&mut controller, at, &mut number);
    controller.receiver_report(13, Some(Duration::from_millis(50)), at);
    assert_eq!(controller.target(), lowered, "5 % change nothing");
}

#[test]
fn without_losses_it_rises_to_what_could_be_used_even_while_little_is_sent() {
    let (mut controller, mut at) = controller();
    controller.demand(2_000_000);
    for number in 0..40 {
        controller.sent(number, 1200, at, Kind::Video);
        at += Duration::from_secs(1);
        controller.receiver_report(0, Some(Duration::from_millis(50)), at);
    }
    let target = controller.target();
    assert!((2_000_000..2_200_000).contains(&target), "{target}");
}

#[test]
fn ten_times_what_tcp_would_send_ends_it() {
    let mut at = Clock::new().now();
    let config = Config { start: 5_000_000, packet_reports: false, ..Config::default() };
    let mut controller = Controller::new(config, at);
    let mut number = 0;
    for _ in 0..6 {
        at = second(&mut controller, at, &mut number);
        controller.receiver_report(100, Some(Duration::from_secs(1)), at);
    }
    assert_eq!(controller.target(), 0);
}

#[test]
fn no_report_for_ten_seconds_ends_it_and_one_begins_it() {
    let (mut controller, mut at) = controller();
    let mut number = 0;
    for _ in 0..11 {
        at = second(&mut controller, at, &mut number);
        if controller.next_timeout().is_some_and(|timeout| timeout <= at) {
            controller.handle_timeout(at);
        }
    }
    assert_eq!(controller.target(), 0);
    controller.receiver_report(0, None, at);
    assert!(controller.target() > 0);
}

#[test]
fn remb_raises_the_rate_by_no_more_than_arrives() {
    for absurd in [5_000_000, 50_000_000, u64::MAX] {
        let (mut controller, mut at) = controller();
        let first = controller.target();
        controller.remb(absurd, at);
        assert_eq!(controller.target(), first, "nothing was shown to arrive");
        let (mut number, mut before) = (0, first);
        for _ in 0..8 {
            let sent_from = at;
            at = second(&mut controller, at, &mut number);
            for step in 0..50 {
                // More often than any receiver says it.
                controller.remb(absurd, sent_from + Duration::from_millis(20 * step));
            }
            controller.receiver_report(0, Some(Duration::from_millis(50)), at);
            controller.remb(absurd, at);
            let target = controller.target();
            assert!(target <= before * 155 / 100, "{before} became {target}");
            before = target;
        }
        assert!(before > 4 * first, "who says the truth gets there: {before}");
        // A time in which little is sent raises it to half more than the receiver says at most.
        controller.remb(100_000, at);
        for _ in 0..12 {
            at += Duration::from_secs(1);
            number += 1;
            controller.sent(number, 1200, at, Kind::Video);
            controller.receiver_report(0, None, at);
            controller.remb(100_000, at);
        }
        controller.remb(absurd, at);
        assert!(controller.target() <= 150_000, "{}", controller.target());
    }
}

/// Half of what is sent arrives, and REMB says that there is room for everything.
#[test]
fn what_was_lost_was_not_shown() {
    let (mut controller, mut at) = controller();
    let mut number = 0;
    controller.remb(200_000, at);
    for _ in 0..3 {
        at = second(&mut controller, at, &mut number);
        controller.receiver_report(128, None, at);
        controller.remb(200_000, at);
    }
    controller.remb(1_000_000, at);
    assert!(controller.target() <= 200_000, "{}", controller.target());
}

#[test]
fn reports_of_no_losses_however_many_raise_little_at_a_time() {
    let (mut controller, mut at) = controller();
    let first = controller.target();
    let mut number = 0;
    at = second(&mut controller, at, &mut number);
    for _ in 0..10_000 {
        controller.receiver_report(0, Some(Duration::from_millis(1)), at);
    }
    assert!(controller.target() <= first * 109 / 100, "{first} became {}", controller.target());
}
