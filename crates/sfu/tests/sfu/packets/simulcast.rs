//! Simulcast: all layers are received, the best that is alive is forwarded, and it changes at key
//! frames only.

use std::time::Duration;

use rtp::rtcp::{NtpTime, SenderInfo, SenderReport};
use sfu::TrackInput;

use crate::packets::common::{MID_ID, RID_ID, Rtp, World, audio_input, frame, video, video_input};

const RIDS: [&str; 3] = ["q", "h", "f"];
const BYTES: [usize; 3] = [200, 500, 1_100];

/// Three layers by RID, none of whose SSRCs was signalled.
fn published() -> World {
    let mut world = World::published();
    let rids = RIDS.map(str::to_owned).to_vec();
    world.publish(vec![audio_input(), TrackInput { ssrcs: Vec::new(), rids, ..video_input() }]);
    world
}

/// A frame of a layer; each has its own numbers and timestamps.
fn of(layer: usize, at: u16, key: bool) -> Rtp {
    let timestamp = u32::from(at) * 3_600 + layer as u32 * 1_000_000;
    let mut packet = frame(at + layer as u16 * 10_000, timestamp, key).ssrc(500 + layer as u32);
    packet.payload.resize(BYTES[layer], layer as u8);
    packet.with(MID_ID, b"v").with(RID_ID, RIDS[layer].as_bytes())
}

fn layer_of(packet: &crate::packets::common::Got) -> usize {
    BYTES.iter().position(|bytes| *bytes == packet.packet().payload().len()).unwrap()
}

/// Plays the layers that are on; `key` says which send a key frame with the first frame.
fn play(world: &mut World, from: u16, frames: u16, on: &[usize], key: &[usize]) {
    for at in from..from + frames {
        for layer in on {
            world.receive(&of(*layer, at, at == from && key.contains(layer))).unwrap();
        }
        world.wait(Duration::from_millis(40));
    }
}

fn assert_continuous(world: &World) {
    let numbers = world.numbers(1);
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)), "{numbers:?}");
    let timestamps = world.timestamps(1);
    let steps: Vec<u32> = timestamps.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    assert!(steps.iter().all(|step| (1..=200_000).contains(step)), "{steps:?}");
}

#[test]
fn the_best_layer_is_forwarded_from_the_first_frame_on() {
    let mut world = published();
    world.join(1);
    play(&mut world, 0, 50, &[0, 1, 2], &[0, 1, 2]);
    let layers: Vec<usize> = world.video(1).iter().map(layer_of).collect();
    assert!(layers[3..].iter().all(|layer| *layer == 2), "{layers:?}");
    assert_continuous(&world);
    assert_eq!(world.stream.reception(world.now, video()).unwrap().live_layers, 3);
}

#[test]
fn a_layer_that_falls_silent_is_replaced_at_a_key_frame_and_comes_back_at_one() {
    let mut world = published();
    world.join(1);
    play(&mut world, 0, 50, &[0, 1, 2], &[0, 1, 2]);
    world.key_frame_requests();
    // The publisher's network gets worse: the largest layer is switched off.
    play(&mut world, 50, 50, &[0, 1], &[]);
    let requests = world.key_frame_requests();
    assert!(
        requests.iter().all(|request| request.1 == 501),
        "the middle one is asked for a key frame: {requests:?}"
    );
    assert!(!requests.is_empty());
    let before = world.video(1).len();
    play(&mut world, 100, 50, &[0, 1], &[1]);
    assert!(world.video(1)[before..].iter().all(|got| layer_of(got) == 1));
    assert_eq!(world.video(1).len(), before + 50);
    // And it comes back.
    play(&mut world, 150, 100, &[0, 1, 2], &[]);
    assert!(world.key_frame_requests().iter().any(|request| request.1 == 502));
    play(&mut world, 250, 50, &[0, 1, 2], &[2]);
    assert!(world.video(1).iter().rev().take(50).all(|got| layer_of(got) == 2));
    assert_continuous(&world);
}

#[test]
fn timestamps_of_layers_are_aligned_by_their_sender_reports() {
    let mut world = published();
    world.join(1);
    play(&mut world, 0, 50, &[0, 1], &[0, 1]);
    // Both layers report: the same instant has these timestamps.
    for layer in [0u32, 1, 2] {
        let ntp = NtpTime(99 << 32);
        let rtp_timestamp = 50 * 3_600 + layer * 1_000_000;
        let mut rtcp = Vec::new();
        SenderReport::write(
            &mut rtcp,
            500 + layer,
            &SenderInfo { ntp, rtp_timestamp, ..SenderInfo::default() },
            &[],
        );
        world.stream.receive_rtcp(world.now, &rtcp);
    }
    let newest = world.video(1).last().unwrap().timestamp();
    world.wait(Duration::from_millis(800));
    // The smaller one goes on; its frame was captured 20 frames after the last that was forwarded,
    // and came 90 ms late.
    world.wait(Duration::from_millis(90));
    world.receive(&of(0, 70, true)).unwrap();
    let switched = world.video(1).last().unwrap();
    assert_eq!(layer_of(switched), 0);
    assert_eq!(switched.timestamp().wrapping_sub(newest), 21 * 3_600, "by capture, not by arrival");
}

#[test]
fn retransmissions_of_layers_find_their_layer() {
    let mut world = published();
    world.join(1);
    play(&mut world, 0, 30, &[0, 1, 2], &[0, 1, 2]);
    let lost = of(2, 30, false);
    world.receive(&of(2, 31, false)).unwrap();
    let mut repair = lost.rtx(900, crate::packets::common::H264_RTX, 0);
    repair.extensions =
        vec![(MID_ID, b"v".to_vec()), (crate::packets::common::REPAIRED_RID_ID, b"f".to_vec())];
    assert!(world.receive(&repair).unwrap().forwarded);
    let got = world.video(1).last().unwrap();
    assert_eq!(got.packet().payload(), lost.payload);
}
