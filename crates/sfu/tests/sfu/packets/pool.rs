//! Memory: packets are made of the memory of packets that went, histories stay within their limits,
//! viewers are small.

use std::collections::BTreeSet;
use std::time::Duration;

use rtp::payload::MediaKind;
use sfu::{Limits, StreamStats, Viewer, plain_outlet};

use crate::packets::common::{World, audio_input, audio_packet, frame, video_input};

#[test]
fn a_running_stream_needs_no_new_memory_for_packets() {
    let mut world = World::published();
    let addresses = |world: &mut World, from: u16, frames: u16| -> BTreeSet<usize> {
        let mut seen = BTreeSet::new();
        for at in from..from + frames {
            // Sizes differ from packet to packet.
            let mut packet = frame(at, u32::from(at) * 900, at % 20 == 0);
            packet.payload.resize(100 + usize::from(at) * 37 % 1_000, 1);
            world.stream.receive(world.now, &packet.bytes()).unwrap();
            world.stream.receive(world.now, &audio_packet(at, u32::from(at) * 480).bytes()).unwrap();
            world.stream.take_arrivals(|packet, _| {
                seen.insert(packet.payload().as_ptr() as usize);
            });
            world.settle();
            world.wait(Duration::from_millis(10));
        }
        seen
    };
    let warm = addresses(&mut world, 0, 1_000);
    let later = addresses(&mut world, 1_000, 1_000);
    let new = later.difference(&warm).count();
    // Every size has its own spares; a few more are made where sizes come in clusters.
    assert!(new <= 20, "{new} new of {}", later.len());
    assert!(later.len() < 600, "{} pieces for a cache of 1.5 s", later.len());
}

#[test]
fn histories_keep_what_their_limits_say() {
    let limits = Limits {
        history_packets_max: 50,
        history_bytes_max: 10_000,
        gop_packets_max: 100,
        ..Limits::default()
    };
    let mut world = World::new(limits);
    world.publish(vec![audio_input(), video_input()]);
    for at in 0..2_000 {
        world.receive(&frame(at, u32::from(at) * 3_600, at % 500 == 0)).unwrap();
        let stats = world.stream.stats();
        assert!(stats.cached_packets <= 101, "{}", stats.cached_packets);
        assert!(stats.cached_bytes <= 101 * 64, "{}", stats.cached_bytes);
    }
}

#[test]
fn a_publisher_cannot_choose_sizes_that_take_more_memory_than_limits_allow() {
    let limits = Limits::default();
    // A byte more than what an ordinary size of memory holds, the shortest key frame, and nearly the longest.
    for len in [2, 1_441, 4_001, 60_000] {
        let mut world = World::published();
        let most = 10_000.min(3 * limits.gop_bytes_max / len) as u16;
        for at in 0..most {
            let mut packet = frame(at, u32::from(at), at == 0);
            packet.payload.resize(len, 3);
            world.receive(&packet).unwrap();
            if at % 64 > 0 {
                continue;
            }
            let StreamStats { cached_packets, cached_bytes, cached_memory_bytes, .. } = world.stream.stats();
            // The smallest packet takes 192 bytes, and its list has up to four slots of 40 bytes for each.
            let around = (192 + 4 * 40) * cached_packets + 8_192;
            assert!(cached_memory_bytes <= cached_bytes * 5 / 4 + around, "{len}: {cached_memory_bytes}");
            // Its list of packets is apart: slots of 40 bytes, up to twice as many as packets, and those of
            // the batch that nobody has taken yet.
            let list = 80 * cached_packets.max(1_024) + 65_536;
            let most = limits.gop_bytes_max.max(limits.history_bytes_max) + list;
            assert!(cached_memory_bytes <= most, "{len}: {cached_memory_bytes}");
        }
    }
}

#[test]
fn what_an_ended_publisher_left_is_dropped() {
    let mut world = World::published();
    world.play(0, 0, 50, 50);
    assert!(world.stream.stats().cached_packets >= 50);
    world.stream.publisher_ended(world.now);
    world.wait(Duration::from_secs(2));
    let stats = world.stream.stats();
    assert_eq!((stats.cached_packets, stats.cached_bytes), (0, 0));
    assert_eq!(world.stream.next_timeout(), None, "and nothing is left to do");
}

#[test]
fn viewers_come_and_go_and_leave_nothing_behind() {
    let mut world = World::published();
    world.play(0, 0, 3, 50);
    for token in 0..10_000 {
        let id = world.stream.join(world.now, &crate::packets::common::viewer(token)).unwrap();
        if token % 2 == 0 {
            world.stream.send_backlog(world.now, usize::MAX, &mut plain_outlet(|_, _, _, _| {}));
        }
        world.stream.leave(id);
        world.stream.leave(id);
        assert_eq!(world.stream.viewer_stats(id), None);
    }
    assert_eq!(world.stream.viewers(), 0);
    assert!(!world.stream.has_backlog());
}

#[test]
fn a_viewer_is_small() {
    assert!(size_of::<Viewer>() <= 256, "{}", size_of::<Viewer>());
}

#[test]
fn a_stream_takes_no_more_viewers_than_it_may() {
    let mut world = World::new(Limits { viewers_max: 2, ..Limits::default() });
    world.join(1);
    let id = world.join(2);
    let third = crate::packets::common::viewer(3);
    assert_eq!(world.stream.join(world.now, &third), Err(sfu::JoinError::Full));
    world.stream.leave(id);
    assert!(world.stream.join(world.now, &third).is_ok());
    let mut other = World::new(Limits::default());
    let mut twice = crate::packets::common::viewer(4);
    twice.tracks[0].track = twice.tracks[1].track;
    assert_eq!(other.stream.join(other.now, &twice), Err(sfu::JoinError::TrackTwice));
    assert_eq!((world.stream.viewers(), other.stream.viewers()), (2, 0));
}

/// How many packets the next batch has.
fn packets_of_a_batch(world: &mut World) -> usize {
    let mut batch = world.stream.prepare_batch(MediaKind::Video);
    let (_, packets) = batch.next_viewer().expect("there is a viewer");
    packets.len()
}

#[test]
fn turns_that_are_never_taken_do_not_pile_up() {
    let mut world = World::published();
    let id = world.join(1);
    let mut sent = 0;
    for at in 0..30_000u16 {
        world.stream.receive(world.now, &frame(at, u32::from(at), at == 0).bytes()).unwrap();
    }
    world.stream.take_arrivals(|_, _| {});
    sent += packets_of_a_batch(&mut world);
    assert!((1..=8_192).contains(&sent), "{sent}");
    world.stream.finish_batch(MediaKind::Video);
    for at in 30_000..60_000u16 {
        world.stream.receive(world.now, &frame(at, u32::from(at), at == 0).bytes()).unwrap();
        world.stream.take_arrivals(|_, _| {});
    }
    let last = packets_of_a_batch(&mut world);
    assert!((1..=8_192).contains(&last), "{last}");
    world.stream.finish_batch(MediaKind::Video);
    assert_eq!(world.stream.stats().unsent_packets, 60_000 - (sent + last) as u64, "none is lost in silence");

    // Nothing waits for nobody.
    world.stream.leave(id);
    world.stream.receive(world.now, &frame(60_000, 60_000, true).bytes()).unwrap();
    world.stream.take_arrivals(|_, _| {});
    assert_eq!(world.stream.waiting(MediaKind::Video), None);
}
