//! Receivers that lie.

use std::time::{Duration, Instant};

use congestion::{Config, Controller, Ecn, Kind, PacketReport};
use netsim::{Clock, Random};
use proptest::prelude::*;

/// Sends 600 kbit/s for `seconds`, and all padding that is asked for, and reports with what `lie`
/// makes of each report.
fn run(
    seconds: u32,
    mut lie: impl FnMut(u32, PacketReport) -> Vec<PacketReport>,
) -> (Controller, Instant, f64) {
    let start = Clock::new().now();
    let mut controller = Controller::new(Config::default(), start);
    let (mut number, mut reports, mut bytes_sent) = (0u16, Vec::new(), vec![0usize; seconds as usize]);
    for millisecond in 0..seconds * 1000 {
        let at = start + Duration::from_millis(millisecond.into());
        if controller.next_timeout().is_some_and(|timeout| timeout <= at) {
            controller.handle_timeout(at);
        }
        let allowance = controller.pacing(at);
        let bytes = if millisecond % 16 == 0 { 1200 } else { allowance.padding_bytes };
        if bytes > 0 {
            controller.sent(number, bytes, at, Kind::Video);
            bytes_sent[millisecond as usize / 1000] += bytes;
            let arrival_us = Some(1000 * i64::from(millisecond) + 30_000);
            reports.extend(lie(millisecond, PacketReport { number, arrival_us, ecn: Ecn::None }));
            number = number.wrapping_add(1);
        }
        if millisecond % 60 == 59 {
            controller.feedback(reports.drain(..), at + Duration::from_millis(40));
        }
    }
    let most = bytes_sent.iter().max().copied().unwrap_or(0) as f64 * 8.0;
    (controller, start + Duration::from_secs(seconds.into()), most)
}

#[test]
fn packets_that_were_never_sent_and_second_reports_change_nothing() {
    let honest = run(5, |_, report| vec![report]);
    let liar = run(5, |_, report| {
        let never = PacketReport { number: report.number.wrapping_add(5000), ..report };
        let again = PacketReport { arrival_us: report.arrival_us.map(|us| us - 25_000), ..report };
        vec![report, never, again, report]
    });
    assert_eq!(liar.0.estimate(), honest.0.estimate());
    assert!(liar.0.snapshot(liar.1).ignored > 900);
}

#[test]
fn times_that_cannot_be_are_ignored() {
    let honest = run(5, |_, report| vec![report]).0.estimate();
    let mut random = Random::new(1);
    let liar = run(5, |_, report| {
        let absurd = random.chance(0.05);
        let arrival_us = report.arrival_us.map(|us| if absurd { us + 3_000_000_000 } else { us });
        vec![PacketReport { arrival_us, ..report }]
    });
    let estimate = liar.0.estimate();
    assert!(estimate > honest / 2, "{estimate} instead of {honest}");
}

#[test]
fn a_clock_that_was_set_is_believed_after_a_while() {
    let (controller, ..) = run(8, |millisecond, report| {
        let jump = if millisecond > 3000 { 3_600_000_000 } else { 0 };
        vec![PacketReport { arrival_us: report.arrival_us.map(|us| us + jump), ..report }]
    });
    assert!(controller.estimate() > 500_000);
}

#[test]
fn arrivals_said_to_be_at_one_moment_show_no_more_than_was_sent() {
    let honest = run(20, |_, report| vec![report]).0.estimate();
    let (controller, ..) = run(20, |millisecond, report| {
        vec![PacketReport { arrival_us: Some(i64::from(millisecond / 500) * 500_000), ..report }]
    });
    // Both have had probes, of which what was sent counts: it is the path that makes the difference.
    assert!(controller.estimate() as f64 <= 1.1 * honest as f64, "{} of {honest}", controller.estimate());
    assert!(controller.memory_bytes() <= 64 * 1024);
}

/// Audio that was asked for again leaves at once, beside a probe's packets.
#[test]
fn a_probe_whose_packets_left_at_one_moment_shows_no_more_than_it_was_meant_to() {
    let start = Clock::new().now();
    let mut controller = Controller::new(Config::default(), start);
    controller.demand(3_000_000);
    let (mut number, mut reports, mut sent) = (0_u16, Vec::new(), 0_usize);
    for millisecond in 0..10_000_u32 {
        let at = start + Duration::from_millis(millisecond.into());
        let allowance = controller.pacing(at);
        let arrival_us = Some(1000 * i64::from(millisecond));
        let mut send = |controller: &mut Controller, bytes: usize, kind| {
            controller.sent(number, bytes, at, kind);
            reports.push(PacketReport { number, arrival_us, ecn: Ecn::None });
            (number, sent) = (number.wrapping_add(1), sent + bytes);
        };
        if millisecond % 20 == 0 {
            send(&mut controller, 120, Kind::Audio);
        }
        if controller.is_probing() && allowance.padding_bytes > 0 {
            send(&mut controller, allowance.padding_bytes, Kind::Padding);
            (0..12).for_each(|_| send(&mut controller, 120, Kind::Repeat));
        }
        if millisecond % 50 == 49 {
            controller.feedback(reports.drain(..), at + Duration::from_millis(5));
        }
    }
    // It is probed for 1.3 times of what could be used, and half as much more may be seen by chance.
    assert!(controller.estimate() <= 5_850_000, "{}", controller.estimate());
}

proptest! {
    #[test]
    fn nothing_breaks_it_and_memory_stays_bounded(
        steps in prop::collection::vec((any::<u16>(), any::<Option<i64>>(), 0u8..6, 0u32..2_000_000), 1..400)
    ) {
        let start = Clock::new().now();
        let mut controller = Controller::new(Config::default(), start);
        let mut at = start;
        for (number, arrival_us, what, passed) in steps {
            at += Duration::from_micros(passed.into());
            match what {
                0 => controller.sent(number, usize::from(number) * 3, at, Kind::Video),
                1 => controller.sent(number % 64, 1200, at, Kind::Repeat),
                2 => controller.feedback((0..number % 512).map(|offset| PacketReport {
                    number: number.wrapping_add(offset),
                    arrival_us: arrival_us.map(|us| us.wrapping_add(i64::from(offset) * 1000)),
                    ecn: if offset % 3 == 0 { Ecn::Marked } else { Ecn::Capable },
                }), at),
                3 => controller.receiver_report(number as u8, Some(Duration::from_micros(passed.into())), at),
                4 => controller.handle_timeout(at),
                _ => controller.remb(u64::from(number) * 1000, at),
            }
            let allowance = controller.pacing(at);
            prop_assert!(allowance.padding_bytes <= 1500);
            let config = Config::default();
            prop_assert!(controller.estimate() <= config.ceiling);
            prop_assert!(controller.target() <= controller.estimate());
            prop_assert!(controller.memory_bytes() <= 64 * 1024);
        }
    }
}

#[test]
fn reports_that_nothing_arrives_are_silence() {
    let (mut controller, at, _) = run(14, |millisecond, report| {
        let arrival_us = report.arrival_us.filter(|_| millisecond < 2_000);
        vec![PacketReport { arrival_us, ..report }]
    });
    assert!(controller.target() == 0 || controller.pacing(at).bytes == 0, "{:?}", controller.snapshot(at));
}

#[test]
fn bounds_that_make_no_sense_are_put_right() {
    for (floor, ceiling) in [(0, 0), (50_000, 10_000), (0, u64::MAX), (u64::MAX, 0)] {
        let start = Clock::new().now();
        let config = Config { floor, ceiling, ..Config::default() };
        let mut controller = Controller::new(config, start);
        controller.remb(0, start);
        for number in 0..50 {
            let at = start + Duration::from_millis(20 * u64::from(number));
            controller.pacing(at);
            controller.sent(number, 1200, at, Kind::Video);
            let arrival_us = Some(20_000 * i64::from(number));
            controller.feedback([PacketReport { number, arrival_us, ecn: Ecn::Marked }], at);
        }
        assert!(controller.estimate() >= floor.max(1_000).min(ceiling.max(floor)), "{floor} {ceiling}");
    }
}
