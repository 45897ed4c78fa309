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
fn losses_of_reports_lower_the_rate_and_their_absence_raises_it() {
    let (mut controller, mut at) = controller();
    let mut number = 0;
    let first = controller.target();
    for _ in 0..10 {
        at = second(&mut controller, at, &mut number);
        controller.receiver_report(0, Some(Duration::from_millis(50)), at);
    }
    let raised = controller.target();
    assert!(raised > first * 14 / 10 && raised < first * 17 / 10, "{first} became {raised}");
    at = second(&mut controller, at, &mut number);
    controller.receiver_report(64, Some(Duration::from_millis(50)), at);
    let lowered = controller.target();
    assert!(lowered.abs_diff(raised * 7 / 8) < raised / 50, "{raised} became {lowered}");
    at = second(&mut controller, at, &mut number);
    controller.receiver_report(13, Some(Duration::from_millis(50)), at);
    assert_eq!(controller.target(), lowered, "5 % change nothing");
}

#[test]
fn ten_times_what_tcp_would_send_ends_it() {
    let (mut controller, mut at) = controller();
    controller.remb(5_000_000, at);
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
