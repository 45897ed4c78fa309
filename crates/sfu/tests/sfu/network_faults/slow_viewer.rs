//! A viewer with a bad link, and one that asks for everything: others get every packet as if they
//! were alone.

use std::time::Duration;

use netsim::LinkConfig;
use rtp::rtcp::{Nack, Pli};
use sfu::ViewerStats;

use crate::network_faults::publisher::{AUDIO, Beginning, VIDEO};
use crate::network_faults::world::World;

const DURATION: Duration = Duration::from_secs(20);
const UPLINK: Duration = Duration::from_millis(10);
const DOWNLINK: Duration = Duration::from_millis(20);

fn delay(delay: Duration) -> LinkConfig {
    LinkConfig { delay, ..LinkConfig::default() }
}

/// Every packet came as fast as the links are.
fn assert_undelayed(world: &World, viewer: usize) {
    for track in [AUDIO, VIDEO] {
        let received = &world.viewers[viewer].viewer.tracks[track].received;
        // The very first packet tells the server that there is audio at all.
        assert!(received.len() as u64 + 1 >= world.publisher.sent(track), "track {track}");
        for (number, at) in received {
            let took = *at - world.publisher.sent_at(track, *number);
            assert_eq!(took, UPLINK + DOWNLINK, "packet {number} of track {track}");
        }
    }
}

#[test]
fn a_viewer_with_a_tenth_of_the_rate_delays_no_other() {
    let mut world = World::new(41, DURATION, &delay(UPLINK), Beginning::default());
    world.join(&delay(DOWNLINK), &delay(DOWNLINK));
    let slow = LinkConfig {
        rate_bits_per_second: Some(60_000),
        loss: 0.2,
        jitter: Duration::from_millis(300),
        ..delay(Duration::from_millis(400))
    };
    let slow = world.join(&slow, &slow);
    world.run(DURATION + Duration::from_secs(3));
    assert_undelayed(&world, 0);
    let slow = &world.viewers[slow].viewer;
    assert!(slow.tracks[VIDEO].given_up > 500, "its link was not that slow");
}

#[test]
fn a_storm_of_nacks_is_answered_with_30_percent_of_the_media() {
    let mut world = World::new(42, DURATION, &delay(UPLINK), Beginning::default());
    world.join(&delay(DOWNLINK), &delay(DOWNLINK));
    let storm = world.join(&delay(DOWNLINK), &delay(DOWNLINK));
    let everything: Vec<u16> =
        (0..=u16::MAX).step_by(17).flat_map(|first| first..=first.saturating_add(16)).collect();
    let mut resend = Vec::new();
    while world.clock.elapsed() < DURATION {
        world.run(Duration::from_millis(50));
        for ssrc in [10, 20] {
            let mut rest = &everything[..];
            while !rest.is_empty() {
                let mut nack = Vec::new();
                rest = &rest[Nack::write(&mut nack, 5, ssrc, rest)..];
                world.stream.viewer_rtcp(
                    world.clock.now(),
                    world.viewers[storm].id,
                    &nack,
                    None,
                    &mut resend,
                );
            }
        }
        resend.clear();
    }
    world.run(Duration::from_secs(1));
    assert_undelayed(&world, 0);
    let stats = world.stream.viewer_stats(world.viewers[storm].id).expect("a viewer");
    let ViewerStats { payload_bytes, resent_bytes, .. } = stats;
    assert!(resent_bytes * 100 <= payload_bytes * 30, "{resent_bytes} resent of {payload_bytes}");
    assert!(resent_bytes * 100 >= payload_bytes * 10, "{resent_bytes} resent of {payload_bytes}: no storm");
}

#[test]
fn a_storm_of_key_frame_requests_causes_two_a_second() {
    let mut world = World::new(43, DURATION, &delay(UPLINK), Beginning::default());
    world.join(&delay(DOWNLINK), &delay(DOWNLINK));
    world.run(Duration::from_secs(1));
    let mut pli = Vec::new();
    Pli { sender_ssrc: 5, media_ssrc: 20 }.write(&mut pli);
    let before = world.publisher.key_frames_on_demand;
    for _ in 0..10_000 {
        world.run(Duration::from_millis(1));
        let id = world.viewers[0].id;
        world.stream.viewer_rtcp(world.clock.now(), id, &pli, None, &mut Vec::new());
    }
    let key_frames = world.publisher.key_frames_on_demand - before;
    assert!((10..=21).contains(&key_frames), "{key_frames} key frames in 10 s");
}
