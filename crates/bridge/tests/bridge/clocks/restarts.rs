//! Publishers that go and come back, with other clocks.

use crate::clocks::publisher::{MILLI, SECOND, World, audio, video};

#[test]
fn restarts_leave_audio_and_picture_together_and_time_goes_on() {
    let mut world = World::new(vec![audio(), video()]);
    world.run(20 * SECOND);
    world.apart_ms();
    for round in 0..20 {
        let before = world.last.map(|given| given.unwrap());
        world.gone_for(3 * SECOND);
        for source in &mut world.sources {
            source.timestamp = source.timestamp.wrapping_mul(2_654_435_761).wrapping_add(round);
        }
        world.ntp_shift_us += i64::from(round) * 1_000 * SECOND;
        world.sources[1].delay_us = 20 * MILLI + i64::from(round % 3) * 15 * MILLI;
        world.publish();
        world.run(SECOND);
        let after = world.last.map(|given| given.unwrap());
        for (before, after) in before.iter().zip(after) {
            let (passed_us, true_us) =
                (after.time_us - before.time_us, after.captured_us - before.captured_us);
            assert!((passed_us - true_us).abs() <= 250 * MILLI, "round {round}: {passed_us} of {true_us} us");
        }
        let apart_ms = world.apart_ms();
        assert!(apart_ms <= 40, "round {round}: {apart_ms} ms before its reports");
        world.run(9 * SECOND);
        world.apart_ms();
        world.run(10 * SECOND);
        let apart_ms = world.apart_ms();
        assert!(apart_ms <= 3, "round {round}: {apart_ms} ms");
    }
}

#[test]
fn another_clock_rate_of_audio_is_no_break() {
    let mut world = World::new(vec![audio(), video()]);
    world.run(10 * SECOND);
    world.apart_ms();
    for rate in [8_000, 48_000, 16_000] {
        world.gone_for(SECOND);
        world.sources[0].clock_rate = rate;
        world.publish();
        world.run(10 * SECOND);
        let apart_ms = world.apart_ms();
        assert!(apart_ms <= 40, "{apart_ms} ms at {rate} Hz");
    }
}
