//! Sequence numbers, timestamps, rollover counters and NTP times wrap while packets are lost, and
//! nobody notices.

use std::time::Duration;

use netsim::{Clock, LinkConfig};
use rtp::rtcp::NtpTime;

use crate::network_faults::publisher::{AUDIO, Beginning, Publisher, VIDEO};
use crate::network_faults::viewer::Viewer;
use crate::network_faults::world::World;

const DURATION: Duration = Duration::from_secs(40);

fn lossy() -> LinkConfig {
    LinkConfig { loss: 0.05, delay: Duration::from_millis(20), ..LinkConfig::default() }
}

/// Everything but the little that loss leaves has come, and pictures and reports are where their
/// times say.
fn check(world: &World, viewer: &Viewer) {
    for (track, clock_rate) in [(AUDIO, 48_000), (VIDEO, 90_000)] {
        let (expected, lost) = viewer.tracks[track].expected_and_lost();
        assert!(lost * 1000 <= expected, "track {track}: {lost} of {expected} lost");
        assert!(expected + 100 > world.publisher.sent(track), "track {track}: {expected} in all");
        let timestamps: Vec<(u64, u32)> =
            viewer.tracks[track].timestamps.iter().map(|(number, timestamp)| (*number, *timestamp)).collect();
        // From the second second on: a viewer's first pictures may be squeezed together.
        for pair in timestamps[150..].windows(2) {
            let [(before, earlier), (after, later)] = pair else { unreachable!() };
            let between = world.publisher.sent_at(track, *after) - world.publisher.sent_at(track, *before);
            let units = between.as_secs_f64() * f64::from(clock_rate);
            let distance = f64::from(later.wrapping_sub(*earlier));
            assert!((distance - units).abs() <= 2.0, "{distance} units from packet {before} to {after}");
        }
        let reports = &viewer.tracks[track].reports;
        assert!(reports.len() >= 30, "{} reports", reports.len());
        for pair in reports.windows(2) {
            let [(before, earlier), (after, later)] = pair else { unreachable!() };
            let elapsed = after.ntp.since(before.ntp);
            assert!(
                elapsed.abs_diff(*later - *earlier) < Duration::from_millis(2),
                "{before:?} to {after:?}"
            );
            let units = f64::from(after.rtp_timestamp.wrapping_sub(before.rtp_timestamp));
            let expected = elapsed.as_secs_f64() * f64::from(clock_rate);
            // The publisher's clock is followed by half a millisecond a report.
            assert!((units - expected).abs() <= f64::from(clock_rate) * 0.002, "{before:?} to {after:?}");
        }
    }
}

#[test]
fn everything_wraps_within_a_few_seconds() {
    for (sequence_number, timestamp, ntp, remark) in [
        (0xff00, 5000, 0xe000_0000, "sequence numbers"),
        (1000, 0xfff0_0000, 0xe000_0000, "timestamps"),
        (1000, 5000, 0xffff_fff0, "NTP time, as in 2036"),
        (1000, 5000, 0xe000_fff0, "the middle of NTP time, as every 18 hours"),
        (0xff00, 0xfff0_0000, 0xffff_fff0, "all of them"),
        (0x7f00, 0x7ff0_0000, 0x7fff_fff0, "halves, where signs change"),
    ] {
        println!("{remark}");
        let beginning = Beginning { sequence_number, timestamp, ntp: NtpTime(ntp << 32) };
        let mut world = World::new(51, DURATION, &lossy(), beginning);
        world.join(&lossy(), &lossy());
        world.run(DURATION + Duration::from_secs(2));
        check(&world, &world.viewers[0].viewer);
        let stats = world.stream.viewer_stats(world.viewers[0].id).expect("a viewer");
        let round_trip = stats.round_trip.expect("a round trip, from reports on reports");
        assert!(round_trip.abs_diff(Duration::from_millis(40)) < Duration::from_millis(2), "{round_trip:?}");
    }
}

#[test]
fn rollover_counters_agree_through_two_wraps() {
    let duration = Duration::from_secs(60);
    let link = LinkConfig { loss: 0.02, ..lossy() };
    let clock = Clock::new();
    let beginning = Beginning { sequence_number: 0xff00, ..Beginning::default() };
    let mut publisher = Publisher::new(clock.now(), duration, beginning);
    // Ten megabits a second: numbers wrap after 55 s.
    publisher.slices = 40;
    let mut world = World::with(clock, 52, publisher, &link);
    world.join(&link, &link);
    world.run(duration + Duration::from_secs(2));
    assert!(world.publisher.sent(VIDEO) > 0x1_0000 + 0x100);
    assert_eq!(world.viewers[0].viewer.refused, 0, "packets that do not decrypt");
    check(&world, &world.viewers[0].viewer);
}

#[test]
fn viewers_that_join_at_any_number_and_lose_their_first_packets_decrypt() {
    let beginning = Beginning { sequence_number: 0xf800, ..Beginning::default() };
    let duration = Duration::from_secs(40);
    let bad = LinkConfig { loss: 0.1, ..lossy() };
    let mut world = World::new(53, duration, &LinkConfig::default(), beginning);
    for _ in 0..30 {
        world.join(&bad, &bad);
        world.run(Duration::from_millis(900));
    }
    world.run(duration - world.clock.elapsed());
    world.run(Duration::from_secs(2));
    for (at, seat) in world.viewers.iter().enumerate() {
        assert_eq!(seat.viewer.refused, 0, "viewer {at} cannot decrypt");
        for track in [AUDIO, VIDEO] {
            let (expected, lost) = seat.viewer.tracks[track].expected_and_lost();
            assert!(expected > 500 && lost * 50 <= expected, "viewer {at}: {lost} of {expected} lost");
        }
    }
}
