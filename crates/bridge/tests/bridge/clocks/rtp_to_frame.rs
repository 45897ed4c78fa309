//! Lip sync from a WebRTC publisher to the times of FLV frames, through everything between.

use crate::clocks::publisher::{Bridge, HOUR, MILLI, SECOND, World, audio, video};

fn world() -> World {
    let mut world = World::new(vec![audio(), video()]);
    world.begin_bridge(Bridge::to_frames);
    world
}

#[test]
fn six_hours_of_drift_stay_in_sync() {
    let mut world = world();
    (world.sources[0].ppm, world.sources[1].ppm, world.ntp_ppm) = (100.0, -100.0, 50.0);
    (world.sources[0].delay_us, world.sources[1].delay_us) = (30 * MILLI, 60 * MILLI);
    (world.sources[0].jitter_us, world.sources[1].jitter_us) = (20 * MILLI, 40 * MILLI);
    world.run(20 * SECOND);
    let apart_ms = world.apart_ms();
    assert!(apart_ms <= 40, "{apart_ms} ms apart before and at the first reports");
    world.run(6 * HOUR);
    let apart_ms = world.apart_ms();
    assert!(apart_ms <= 6, "{apart_ms} ms apart");
    assert!(world.counts[0] > 265_000 && world.counts[1] > 107_000, "{:?} came out", world.counts);
}

#[test]
fn loss_restarts_stalls_and_pauses_stay_in_sync() {
    let mut world = world();
    world.sources.iter_mut().for_each(|source| source.loss = 0.02);
    world.run(15 * SECOND);
    world.apart_ms();
    for round in 0..30 {
        match round % 5 {
            0 => world.stall((1 + i64::from(round) / 5) * SECOND),
            1 => {
                world.gone_for(5 * SECOND);
                let timestamp = &mut world.sources[(round % 2) as usize].timestamp;
                *timestamp = timestamp.wrapping_mul(0x9e37_79b9);
                world.publish();
            }
            2 => world.mute(0, 8 * SECOND),
            3 => world.mute(1, 20 * SECOND),
            _ => world.ntp_shift_us += 777 * SECOND,
        }
        world.run(15 * SECOND);
        let apart_ms = world.apart_ms();
        assert!(apart_ms <= 40, "{apart_ms} ms apart in round {round}");
        world.run(15 * SECOND);
        let apart_ms = world.apart_ms();
        assert!(apart_ms <= 6, "{apart_ms} ms apart after round {round}");
    }
}
