//! Paths that mark packets instead of losing them.

use std::time::Duration;

use congestion::{Config, Controller, Ecn, Kind, PacketReport};
use netsim::Clock;

use crate::path::{MS, PathConfig, SECOND, Trace};
use crate::world::{ViewerConfig, World};

/// What a path marks from this wait on, at these rates: nearly no packet waits twice as long, and the path is
/// used.
#[test]
fn a_queue_that_marks_stays_short_and_the_path_is_used() {
    for (rate, mark_ms, seed) in [(2e6, 12, 3), (1e6, 20, 4), (4e6, 6, 5), (2e6, 8, 6)] {
        let path = PathConfig {
            mark_above: Some(mark_ms * MS),
            ..PathConfig::plain(Trace::constant(rate), 15 * MS, 300 * MS)
        };
        let viewer = ViewerConfig::ours(50 * MS);
        let mut measured = World::new(path, vec![viewer], None, seed).run(30 * SECOND).0.remove(0);
        assert!(measured.marked > 0);
        measured.waits.sort_unstable();
        let [most, nearly_all] = [98, 95].map(|share| measured.waits[measured.waits.len() * share / 100]);
        let used = measured.arrived[50..290].iter().sum::<f64>() / (24.0 * rate);
        println!("{rate} marked from {mark_ms} ms: {nearly_all}, {most} us, {used}");
        assert!(nearly_all < mark_ms * 3 / 2 * MS, "{rate} {mark_ms}: {nearly_all} us");
        assert!(most < 2 * mark_ms * MS + 2 * MS, "{rate} {mark_ms}: {most} us");
        assert!(used > 0.85, "{rate} {mark_ms}: {used}");
    }
}

/// Reports of packets that all arrive in time, one each 10 ms, marked as `ecn` says.
fn reported(ecn: impl Fn(u16) -> Ecn) -> Controller {
    reported_until(1_000, ecn)
}

fn reported_until(end: u16, ecn: impl Fn(u16) -> Ecn) -> Controller {
    let start = Clock::new().now();
    let mut controller = Controller::new(Config::default(), start);
    for number in 0..end {
        let us = 10_000 * u64::from(number);
        let at = start + Duration::from_micros(us);
        controller.sent(number, 1_200, at, Kind::Video);
        let report = PacketReport { number, arrival_us: Some(us as i64 + 20_000), ecn: ecn(number) };
        controller.feedback([report], at + Duration::from_millis(40));
    }
    controller
}

#[test]
fn packets_leave_as_capable_only_where_they_arrive_so() {
    let proven = |controller: &Controller| (controller.is_ecn_usable(), controller.is_ecn_proven());
    assert_eq!(proven(&Controller::new(Config::default(), Clock::new().now())), (true, false));
    assert_eq!(proven(&reported(|_| Ecn::Capable)), (true, true));
    assert_eq!(
        proven(&reported(|number| if number % 9 == 0 { Ecn::Marked } else { Ecn::Capable })),
        (true, true)
    );
    assert_eq!(proven(&reported(|_| Ecn::None)), (false, false), "bleached");
    let changed = reported(|number| if number < 500 { Ecn::Capable } else { Ecn::None });
    assert_eq!(proven(&changed), (false, false), "bleached from then on");
    let all = reported(|_| Ecn::Marked);
    assert_eq!(proven(&all), (false, false), "marked for nothing");
}

/// Half of the share that is marked, once a round trip: less than for a loss, and more with more marks.
#[test]
fn the_rate_falls_in_proportion_to_what_is_marked() {
    let least = |each: u16| {
        let is_marked = move |number: u16| number >= 600 && number.is_multiple_of(each);
        let ecn = move |number| if is_marked(number) { Ecn::Marked } else { Ecn::Capable };
        reported_until(640, ecn).estimate()
    };
    let [none, few, many] = [1_001, 20, 2].map(least);
    assert!(none > few && few > many, "{none}, {few}, {many}");
}
