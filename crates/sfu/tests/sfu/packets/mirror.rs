//! Other workers: each gets every packet once, and its viewers cannot tell the difference.

use std::sync::Arc;
use std::time::Duration;

use rtp::payload::MediaKind;
use sfu::{DropReason, Limits, Outputs, Packet, TrackIndex, TrackInput, ViewerTrackInput};

use crate::packets::common::{World, audio_input, audio_packet, frame, part, video, video_input, viewer};

/// A home and a mirror, joined by hand.
struct Pair {
    home: World,
    mirror: World,
}

impl Pair {
    fn new() -> Self {
        let home = World::published();
        let mut mirror = World::new(Limits::default());
        (mirror.start, mirror.now) = (home.start, home.now);
        Self { home, mirror }
    }

    fn receive(&mut self, rtp: &crate::packets::common::Rtp) {
        self.home.stream.receive(self.home.now, &rtp.bytes()).unwrap();
        let mut crossing = Vec::new();
        self.home.stream.take_arrivals(|packet, _| crossing.push(Arc::clone(packet)));
        self.home.settle();
        self.cross(&crossing);
    }

    fn cross(&mut self, packets: &[Arc<Packet>]) {
        for packet in packets {
            self.mirror.stream.receive_mirrored(self.mirror.now, packet, Outputs::MAIN).unwrap();
        }
        self.mirror.settle();
    }

    fn wait(&mut self, duration: Duration) {
        self.home.wait(duration);
        self.mirror.wait(duration);
    }
}

#[test]
fn viewers_of_both_workers_get_the_same() {
    let mut pair = Pair::new();
    pair.home.join(1);
    pair.mirror.join(1);
    for at in 0..100 {
        pair.receive(&frame(at, u32::from(at) * 3_600, at % 25 == 0));
        pair.receive(&audio_packet(at, u32::from(at) * 1_920));
        pair.wait(Duration::from_millis(40));
    }
    let bytes =
        |world: &World| -> Vec<Vec<u8>> { world.video(1).iter().map(|got| got.bytes.clone()).collect() };
    assert_eq!(bytes(&pair.home), bytes(&pair.mirror));
    assert_eq!(pair.home.audio(1).len(), pair.mirror.audio(1).len());
}

#[test]
fn a_mirror_that_comes_later_begins_with_the_homes_cache() {
    let mut pair = Pair::new();
    for at in 0..30 {
        pair.home.receive(&frame(at, u32::from(at) * 3_600, at % 25 == 0)).unwrap();
        pair.wait(Duration::from_millis(40));
    }
    pair.mirror.join(7);
    assert_eq!(pair.mirror.video(7), []);
    let cached: Vec<Arc<Packet>> = pair.home.stream.cached(pair.home.now).map(Arc::clone).collect();
    pair.cross(&cached);
    assert_eq!(pair.mirror.numbers(7).len(), 5, "25 to 29");
    pair.receive(&frame(30, 30 * 3_600, false));
    assert_eq!(pair.mirror.numbers(7).len(), 6);
}

#[test]
fn what_a_mirror_begins_with_waits_since_it_came_to_it() {
    let mut pair = Pair::new();
    pair.mirror.join(7);
    for at in 0..30 {
        pair.home.receive(&frame(at, u32::from(at) * 3_600, at == 0)).unwrap();
        pair.wait(Duration::from_millis(40));
    }
    let cached: Vec<Arc<Packet>> = pair.home.stream.cached(pair.home.now).map(Arc::clone).collect();
    for packet in &cached {
        pair.mirror.stream.receive_mirrored(pair.mirror.now, packet, Outputs::MAIN).unwrap();
    }
    pair.mirror.stream.take_arrivals(|_, _| {});
    assert_eq!(pair.mirror.stream.waiting(MediaKind::Video), Some((pair.mirror.now, 30)));
}

#[test]
fn wishes_for_key_frames_cross_to_the_home_once() {
    let mut pair = Pair::new();
    for at in 0..3 {
        pair.receive(&frame(at, u32::from(at) * 3_600, at == 0));
    }
    let id = pair.mirror.join(7);
    let pli = |rtcp: &mut Vec<u8>| {
        rtp::rtcp::Pli { sender_ssrc: 5, media_ssrc: crate::packets::common::video_ssrc(7) }.write(rtcp);
    };
    pair.mirror.home_requests.clear();
    let mut rtcp = Vec::new();
    pli(&mut rtcp);
    for _ in 0..50 {
        pair.mirror.stream.viewer_rtcp(pair.mirror.now, id, &rtcp, None, &mut Vec::new());
    }
    assert_eq!(pair.mirror.stream.next_timeout(), Some(pair.mirror.now), "it is not kept waiting");
    pair.mirror.settle();
    assert_eq!(pair.mirror.home_requests, [video()]);
    pair.home.key_frame_requests();
    pair.home.stream.request_key_frame(pair.home.now, video());
    pair.home.settle();
    assert_eq!(pair.home.key_frame_requests().len(), 1);
}

#[test]
fn when_the_stream_moves_to_another_home_its_numbers_go_on() {
    let mut pair = Pair::new();
    pair.mirror.join(1);
    for at in 0..10 {
        pair.receive(&frame(at, u32::from(at) * 3_600, at == 0));
        pair.wait(Duration::from_millis(40));
    }
    // The publisher comes back on a third worker, whose numbers know nothing of these.
    let mut other = World::new(Limits::default());
    (other.start, other.now, other.epoch) = (pair.home.start, pair.home.now, 5);
    other.publish(vec![audio_input(), video_input()]);
    pair.home.stream.publisher_ended(pair.home.now);
    pair.mirror.stream.publisher_ended(pair.mirror.now);
    pair.home = other;
    pair.wait(Duration::from_secs(1));
    for at in 0..5 {
        pair.receive(&frame(40_000 + at, 99 + u32::from(at) * 3_600, at == 0));
        pair.wait(Duration::from_millis(40));
    }
    let numbers = pair.mirror.numbers(1);
    assert_eq!(numbers.len(), 15);
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    let timestamps = pair.mirror.timestamps(1);
    assert_eq!(timestamps[10] - timestamps[9], 90_000 * 104 / 100, "1.04 s passed");
}

#[test]
fn a_publication_whose_key_frame_was_lost_between_workers_begins_with_the_next() {
    // Received as RTP, and as values of a bridge; the first packets of a key frame of four that are lost.
    for (as_values, lost) in [(false, 1), (false, 4), (true, 1), (true, 4)] {
        let mut pair = Pair::new();
        pair.mirror.join(1);
        for at in 0..10 {
            pair.receive(&frame(at, u32::from(at) * 3_600, at == 0));
            pair.wait(Duration::from_millis(40));
        }
        pair.home.stream.publisher_ended(pair.home.now);
        pair.mirror.stream.publisher_ended(pair.mirror.now);
        pair.home.epoch += 1;
        pair.home.publish(vec![audio_input(), video_input()]);
        pair.mirror.home_requests.clear();
        for at in 0..7 {
            let is_key = at < 4;
            let mut rtp = part(100 + at, u32::from(at.saturating_sub(3)) * 3_600, is_key, at >= 3);
            // A parameter set in a packet of its own, then a slice that begins with the first macroblock.
            if at == 0 {
                rtp.payload[0] = 0x67;
            }
            rtp.payload[1] = if matches!(at, 2..4) { 0x48 } else { 0x88 };
            let (home, now) = (&mut pair.home.stream, pair.home.now);
            match as_values {
                true => home.receive_packet(now, &rtp.fields, &rtp.payload, is_key).unwrap(),
                false => home.receive(now, &rtp.bytes()).unwrap(),
            };
            home.take_arrivals(|packet, _| {
                if at >= lost {
                    let taken = pair.mirror.stream.receive_mirrored(pair.mirror.now, packet, Outputs::MAIN);
                    assert_eq!(taken, Err(DropReason::NoKeyFrame), "{as_values} {lost} {at}");
                }
            });
            pair.mirror.settle();
            pair.wait(Duration::from_millis(40));
        }
        assert_eq!(pair.mirror.home_requests, [video()], "once");
        assert_eq!(pair.mirror.numbers(1).len(), 10);
        pair.receive(&frame(107, 18_000, true));
        pair.receive(&frame(108, 21_600, false));
        let numbers = pair.mirror.numbers(1);
        assert_eq!(numbers.len(), 12);
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    }
}

#[test]
fn packets_lost_between_workers_are_gaps() {
    let mut pair = Pair::new();
    pair.mirror.join(1);
    for at in 0..10 {
        if at == 4 {
            pair.home.receive(&frame(at, u32::from(at) * 3_600, false)).unwrap();
        } else {
            pair.receive(&frame(at, u32::from(at) * 3_600, at == 0));
        }
    }
    let numbers = pair.mirror.numbers(1);
    assert_eq!(
        numbers.iter().map(|number| number - numbers[0]).collect::<Vec<_>>(),
        [0, 1, 2, 3, 5, 6, 7, 8, 9]
    );
}

#[test]
fn viewers_that_came_before_any_packet_have_their_wish_told_with_the_first() {
    let mut pair = Pair::new();
    for at in 0..10 {
        pair.home.receive(&frame(at, u32::from(at) * 3_600, at == 0)).unwrap();
    }
    pair.mirror.join(7);
    assert_eq!(pair.mirror.home_requests, [], "there is nobody to ask");
    // The home had nothing to begin with: the mirror gets what comes from now on.
    pair.receive(&frame(10, 36_000, false));
    assert_eq!(pair.mirror.home_requests, [video()]);
    pair.receive(&frame(11, 39_600, false));
    assert_eq!(pair.mirror.home_requests, [video()], "once");
    pair.receive(&frame(12, 43_200, true));
    assert_eq!(pair.mirror.numbers(7).len(), 1);
}

#[test]
fn a_wish_that_nobody_can_fulfil_is_told_twice_a_second() {
    let mut pair = Pair::new();
    let second = TrackInput { mid: "screen".to_owned(), ssrcs: vec![(0x3000, None)], ..video_input() };
    pair.home.publish(vec![video_input(), second]);
    // A camera with key frames, and a screen that had one long ago.
    pair.receive(&frame(0, 0, true).ssrc(0x3000));
    for at in 0..400 {
        for part in 0..4 {
            let mut camera = frame(at * 4 + part, u32::from(at) * 3_600, at % 50 == 0 && part == 0);
            camera.payload.resize(1_100, 1);
            pair.receive(&camera);
        }
        pair.receive(&frame(at + 1, u32::from(at) * 3_600, false).ssrc(0x3000));
        pair.wait(Duration::from_millis(40));
    }
    let mut input = viewer(7);
    let camera = input.tracks.remove(1);
    let track = TrackIndex::new(MediaKind::Video, 1).unwrap();
    let screen = ViewerTrackInput { track, ssrc: 9, rtx_ssrc: None, mid: "2".to_owned(), ..camera.clone() };
    input.tracks = vec![camera, screen];
    pair.mirror.join_as(&input);
    pair.mirror.home_requests.clear();
    pair.mirror.wait(Duration::from_secs(10));
    let told = pair.mirror.home_requests.len();
    assert!((1..=20).contains(&told), "told {told} times");
}

#[test]
fn a_mirror_keeps_what_a_publisher_that_came_back_sends() {
    let mut pair = Pair::new();
    pair.receive(&frame(0, 0, true));
    pair.home.stream.publisher_ended(pair.home.now);
    pair.mirror.stream.publisher_ended(pair.mirror.now);
    pair.wait(Duration::from_millis(300));
    pair.home.epoch += 1;
    pair.home.publish(vec![audio_input(), video_input()]);
    for at in 0..60 {
        pair.receive(&frame(at, u32::from(at) * 3_600, at == 0));
        pair.wait(Duration::from_millis(40));
    }
    assert_eq!(pair.mirror.stream.stats().cached_packets, pair.home.stream.stats().cached_packets);
}
