//! Audio that is muted or sent only when there is some (DTX), and video that is switched off.

use rtp::payload::MediaKind;

use crate::clocks::publisher::{HOUR, MILLI, SECOND, World, audio, video};

#[test]
fn muted_audio_comes_back_where_it_belongs() {
    for pause_us in [SECOND, 60 * SECOND, HOUR] {
        let mut world = World::new(vec![audio(), video()]);
        (world.sources[0].ppm, world.sources[1].ppm) = (100.0, -100.0);
        world.run(20 * SECOND);
        world.mute(0, pause_us);
        world.run(pause_us);
        world.apart_ms();
        world.run(60 * SECOND);
        let apart_ms = world.apart_ms();
        assert!(apart_ms <= 5, "{apart_ms} ms apart after {pause_us} us of silence");
        let error_us = world.last[0].unwrap().error_us();
        // But for what the clock of the picture gained or lost meanwhile.
        let most_us = 60 * MILLI + pause_us / 5_000;
        assert!((error_us - SECOND).abs() <= most_us, "the silence is as long as it was: {error_us} us off");
    }
}

#[test]
fn video_that_was_off_comes_back_where_it_belongs() {
    // Longer than half a cycle of its timestamps: what came after looks as if it came before.
    for pause_us in [10 * SECOND, 7 * HOUR] {
        let mut world = World::new(vec![audio(), video()]);
        (world.sources[0].ppm, world.sources[1].ppm) = (-50.0, 50.0);
        world.run(20 * SECOND);
        world.mute(1, pause_us);
        world.run(pause_us);
        world.steps_us(MediaKind::Audio);
        world.apart_ms();
        world.run(60 * SECOND);
        let apart_ms = world.apart_ms();
        assert!(apart_ms <= 40, "{apart_ms} ms apart after {pause_us} us");
        let (least_us, most_us) = world.steps_us(MediaKind::Audio);
        assert!(-50 <= least_us && most_us <= 50, "audio moves by {least_us} to {most_us} us");
    }
}

#[test]
fn sparse_audio_keeps_its_times() {
    let mut world = World::new(vec![audio(), video()]);
    world.sources[0].every_us = 400 * MILLI;
    world.run(20 * SECOND);
    world.apart_ms();
    world.steps_us(MediaKind::Audio);
    world.run(600 * SECOND);
    assert!(world.apart_ms() <= 3);
    let (least_us, most_us) = world.steps_us(MediaKind::Audio);
    assert!(-MILLI <= least_us && most_us <= MILLI, "{least_us} to {most_us} us");
}
