//! A new viewer has a video at once: key frame to now from the cache, in order, paced, and then
//! live.

use std::time::Duration;

use sfu::Limits;

use crate::packets::common::{Got, World, audio_input, frame, part, video_input, viewer};

fn with(limits: Limits) -> World {
    let mut world = World::new(limits);
    world.publish(vec![audio_input(), video_input()]);
    world
}

fn origins(got: &[Got]) -> Vec<u16> {
    got.iter().map(Got::origin).collect()
}

#[test]
fn a_new_viewer_gets_the_newest_key_frame_and_all_since_without_a_request() {
    let mut world = World::published();
    world.play(100, 0, 30, 25);
    world.key_frame_requests();
    world.join(1);
    assert_eq!(origins(world.video(1)), [125, 126, 127, 128, 129]);
    assert_eq!(world.key_frame_requests(), []);
    world.receive(&frame(130, 30 * 3_600, false)).unwrap();
    assert_eq!(origins(world.video(1)), [125, 126, 127, 128, 129, 130]);
    let numbers = world.numbers(1);
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1));
}

#[test]
fn the_cache_is_paced_and_what_comes_meanwhile_waits_for_its_turn() {
    let mut world = World::published();
    // A key frame of 100 packets of 1 kB, then 300 more.
    for at in 0..400 {
        let mut packet = part(at, if at < 100 { 0 } else { u32::from(at) * 900 }, at < 100, at >= 99);
        packet.payload.resize(1_000, 1);
        world.receive(&packet).unwrap();
        world.wait(Duration::from_millis(10));
    }
    world.join(1);
    let at_once = world.video(1).len();
    assert!((50..80).contains(&at_once), "{at_once} at once");
    let joined = world.now;
    for at in 400..420 {
        let mut packet = part(at, u32::from(at) * 900, false, true);
        packet.payload.resize(1_000, 1);
        world.receive(&packet).unwrap();
        world.wait(Duration::from_millis(10));
    }
    let got = world.video(1);
    assert_eq!(origins(got), (0..420).collect::<Vec<_>>(), "in order, each once");
    let caught_up = got[399].at - joined;
    // 336 kB at 2.5 MB/s.
    assert!((100..180).contains(&caught_up.as_millis()), "{caught_up:?}");
    assert!(world.stream.next_timeout().is_some_and(|due| due > world.now), "nothing is left to be sent");
}

#[test]
fn timestamps_of_the_cache_are_squeezed_in_front_of_now_and_keep_their_order() {
    let mut world = World::published();
    world.play(100, u32::MAX - 40_000, 50, 50);
    world.join(1);
    let live = (u32::MAX - 40_000).wrapping_add(50 * 3_600);
    world.receive(&frame(150, live, false)).unwrap();
    let timestamps = world.timestamps(1);
    let before: Vec<u32> = timestamps.iter().map(|timestamp| live.wrapping_sub(*timestamp)).collect();
    assert!(before.windows(2).all(|pair| pair[0] > pair[1]), "{before:?}");
    assert_eq!(before[50], 0);
    assert_eq!(before[49], 3_600, "the newest of the cache has its own");
    assert!(before[0] < 3_600 + 90_000 / 20, "two seconds became less than 50 ms: {before:?}");
}

#[test]
fn a_viewer_waits_for_a_key_frame_when_none_is_of_use() {
    let rows: [(&str, Limits); 4] = [
        ("switched off", Limits { gop_cache: false, ..Limits::default() }),
        ("too old", Limits { gop_duration_max: Duration::from_millis(500), ..Limits::default() }),
        ("too many packets", Limits { gop_packets_max: 10, ..Limits::default() }),
        ("too many bytes", Limits { gop_bytes_max: 1_000, ..Limits::default() }),
    ];
    for (remark, limits) in rows {
        let mut world = with(limits);
        world.play(100, 0, 20, 100);
        world.key_frame_requests();
        world.join(1);
        assert_eq!(world.video(1).len(), 0, "{remark}");
        assert_eq!(world.key_frame_requests().len(), 1, "{remark}");
        world.receive(&frame(120, 20 * 3_600, false)).unwrap();
        assert_eq!(world.video(1).len(), 0, "{remark}");
        let entry = world.receive(&frame(121, 21 * 3_600, true)).unwrap();
        assert!(entry.forwarded);
        if remark != "switched off" {
            assert_eq!(origins(world.video(1)), [121], "{remark}");
        }
    }
}

#[test]
fn without_a_cache_viewers_begin_with_the_next_key_frame() {
    let mut world = with(Limits { gop_cache: false, ..Limits::default() });
    world.play(100, 0, 10, 100);
    world.join(1);
    world.receive_batch(&[part(110, 50_000, true, false), part(111, 50_000, false, true)]);
    world.receive(&frame(112, 60_000, false)).unwrap();
    assert_eq!(origins(world.video(1)), [110, 111, 112]);
    world.wait(Duration::from_millis(1));
    world.join(2);
    assert_eq!(world.video(2).len(), 0, "a key frame that has passed is of no use");
    world.receive(&frame(113, 70_000, true)).unwrap();
    assert_eq!(origins(world.video(2)), [113]);
}

#[test]
fn a_key_frame_that_is_not_kept_is_begun_with_by_those_who_waited_for_it() {
    let rows: [(&str, Limits); 3] = [
        ("too many packets", Limits { gop_packets_max: 2, ..Limits::default() }),
        ("too many bytes", Limits { gop_bytes_max: 3_000, ..Limits::default() }),
        ("none at all", Limits { gop_bytes_max: 0, ..Limits::default() }),
    ];
    for (remark, limits) in rows {
        let mut world = with(limits);
        world.join(1);
        let mut packets: Vec<_> = (0..5).map(|at| part(100 + at, 0, true, at == 4)).collect();
        packets.push(frame(105, 3_600, false));
        packets.iter_mut().for_each(|packet| packet.payload.resize(1_000, 1));
        // All within one turn.
        world.receive_batch(&packets);
        assert_eq!(origins(world.video(1)), [100, 101, 102, 103, 104, 105], "{remark}");
        world.wait(Duration::from_millis(1));
        world.join(2);
        assert_eq!(world.video(2).len(), 0, "{remark}: who comes later waits for the next one");
        world.receive(&frame(106, 7_200, false)).unwrap();
        assert_eq!((world.video(1).len(), world.video(2).len()), (7, 0), "{remark}");
    }
}

#[test]
fn a_cache_with_a_hole_is_not_offered() {
    let mut world = World::published();
    world.receive(&frame(100, 0, true)).unwrap();
    world.receive(&frame(102, 7_200, false)).unwrap();
    world.join(1);
    assert_eq!(origins(world.video(1)), [100, 102], "it may still be filled");
    world.wait(Duration::from_millis(300));
    world.receive(&frame(103, 10_800, false)).unwrap();
    world.wait(Duration::from_millis(300));
    world.receive(&frame(104, 14_400, false)).unwrap();
    world.key_frame_requests();
    world.join(2);
    assert_eq!(world.video(2).len(), 0);
    assert_eq!(world.key_frame_requests().len(), 1);
    world.receive(&frame(101, 3_600, false)).unwrap();
    world.join(3);
    assert_eq!(origins(world.video(3)), [100, 101, 102, 103, 104], "filled after all");
}

#[test]
fn a_key_frame_begins_with_its_first_packet_whichever_says_so() {
    let mut world = World::published();
    world.play(100, 0, 3, 25);
    // An access unit delimiter, a slice that does not say so, and then one that does: all of one
    // frame.
    let mut delimiter = part(103, 90_000, false, false);
    delimiter.payload = vec![0x09, 0xf0, 0, 103];
    world.receive_batch(&[delimiter, part(104, 90_000, true, false), part(105, 90_000, false, true)]);
    world.join(1);
    let got: Vec<u16> = world.numbers(1);
    assert_eq!(got.len(), 3);
    assert_eq!(world.video(1)[0].packet().payload()[0], 0x09);
}

#[test]
fn the_first_number_a_viewer_sees_is_below_half_of_them() {
    for first in [0, 1, 32_767, 32_768, 40_000, 65_530, 65_535] {
        let mut world = World::published();
        world.play(first, 0, 10, 100);
        world.join(1);
        world.receive(&frame(first.wrapping_add(10), 36_000, false)).unwrap();
        let numbers = world.numbers(1);
        assert!(numbers[0] < 0x8000, "{first} became {}", numbers[0]);
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    }
}

#[test]
fn audio_begins_with_the_newest_packet_unless_that_is_old() {
    let mut world = World::published();
    world.receive(&crate::packets::common::audio_packet(1, 0)).unwrap();
    world.wait(Duration::from_millis(20));
    world.receive(&crate::packets::common::audio_packet(2, 960)).unwrap();
    world.wait(Duration::from_millis(15));
    world.join(1);
    assert_eq!(origins(world.audio(1)), [2]);
    world.wait(Duration::from_millis(200));
    world.join(2);
    assert_eq!(origins(world.audio(2)), []);
    world.receive(&crate::packets::common::audio_packet(3, 1_920)).unwrap();
    assert_eq!((origins(world.audio(1)), origins(world.audio(2))), (vec![2, 3], vec![3]));
}

#[test]
fn a_key_frame_that_comes_while_a_viewer_catches_up_is_gone_on_with() {
    let mut world = World::published();
    for at in 0..400 {
        let mut packet = part(at, u32::from(at) * 900, at == 0, true);
        packet.payload.resize(1_000, 1);
        world.receive(&packet).unwrap();
        world.wait(Duration::from_millis(10));
    }
    world.join(1);
    let first = world.video(1).len();
    assert!(first < 100);
    world.receive(&frame(400, 400 * 900, true)).unwrap();
    world.receive(&frame(401, 401 * 900, false)).unwrap();
    world.wait(Duration::from_millis(20));
    let got = world.video(1);
    assert_eq!(origins(&got[first..]), [400, 401], "the rest of the old video is left out");
    let numbers = world.numbers(1);
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "without a gap: {numbers:?}");
    let timestamps = world.timestamps(1);
    assert!(timestamps.windows(2).all(|pair| pair[1] > pair[0]), "{timestamps:?}");
    assert!(!world.stream.has_backlog());
}

#[test]
fn a_cache_that_is_dropped_under_a_viewer_is_followed_by_the_next_key_frame() {
    let mut world = with(Limits { gop_packets_max: 100, ..Limits::default() });
    let big = |at: u16, key| {
        let mut packet = part(at, u32::from(at) * 900, key, true);
        packet.payload.resize(1_400, 1);
        packet
    };
    for at in 0..90 {
        world.receive(&big(at, at == 0)).unwrap();
        world.wait(Duration::from_millis(50));
    }
    world.join(1);
    let first = world.video(1).len();
    world.key_frame_requests();
    for at in 90..110 {
        // All at once: no time to send them.
        world.receive(&big(at, false)).unwrap();
    }
    assert_eq!(world.video(1).len(), first);
    assert_eq!(world.key_frame_requests().len(), 1);
    world.receive(&big(110, true)).unwrap();
    world.wait(Duration::from_millis(10));
    assert_eq!(origins(&world.video(1)[first..]), [110]);
    let numbers = world.numbers(1);
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "without a gap: {numbers:?}");
}

#[test]
fn viewers_of_a_track_the_stream_does_not_have_cost_nothing_until_it_has() {
    let mut world = World::new(Limits::default());
    world.publish(vec![video_input()]);
    world.join(1);
    world.play(100, 0, 5, 25);
    assert_eq!(world.video(1).len(), 5);
    assert!(!world.stream.has_backlog(), "nothing is tried again and again");
    world.publish(vec![audio_input(), video_input()]);
    world.receive(&crate::packets::common::audio_packet(1, 0)).unwrap();
    world.receive(&crate::packets::common::audio_packet(2, 960)).unwrap();
    assert_eq!(origins(world.audio(1)), [1, 2]);
}

#[test]
fn viewers_may_come_before_the_publisher() {
    let mut world = World::new(Limits::default());
    world.join(1);
    assert!(!world.stream.has_backlog());
    world.publish(vec![audio_input(), video_input()]);
    world.play(100, 0, 3, 25);
    assert_eq!(origins(world.video(1)), [100, 101, 102]);
}

#[test]
fn packets_of_a_codec_a_viewer_does_not_take_are_not_sent_to_it() {
    let mut world = World::published();
    let mut input = viewer(1);
    input.tracks[1].payloads.retain(|payload| payload.codec != rtp::payload::Codec::H264);
    world.join_as(&input);
    world.join(2);
    world.play(100, 0, 3, 25);
    assert_eq!((world.video(1).len(), world.video(2).len()), (0, 3));
}
