//! Of a stream nobody plays, no more is kept than its next player needs to begin at once.

use std::collections::BTreeSet;
use std::time::Duration;

use rtp::rtcp::{Nack, Rtcp};
use sfu::{Limits, PacketStream, StreamStats, WallClock};

use crate::packets::common::{
    VIDEO_SSRC, WALL, World, audio_input, audio_packet, frame, part, publisher, video, video_input,
};

/// 540 kbit/s of video at 25 frames a second, a key frame of twelve packets every 2 s, and 64 kbit/s of
/// audio; timestamps are those of 90 and 48 kHz.
struct Camera {
    world: World,
    /// How long it takes to send a key frame it is asked for. It sends none if it takes no requests.
    answers_after: Option<Duration>,
    sequence_number: u16,
    frames: u32,
    frames_since_key: u32,
    /// 20 ms each.
    ticks: u32,
    key_frame_in: Option<Duration>,
    requests: usize,
    nacked: Vec<u16>,
}

const TICK: Duration = Duration::from_millis(20);
const PACKET_BYTES: usize = 1_040;
const FRAMES_PER_KEY_FRAME: u32 = 50;

impl Camera {
    fn new(answers_after: Option<Duration>) -> Self {
        let mut world = World::published();
        world.stream.set_watched(world.now, false);
        Self {
            world,
            answers_after,
            sequence_number: 65_000,
            frames: 0,
            frames_since_key: FRAMES_PER_KEY_FRAME,
            ticks: 0,
            key_frame_in: None,
            requests: 0,
            nacked: Vec::new(),
        }
    }

    fn tick(&mut self) {
        let timestamp = self.ticks * 960;
        let mut audio = audio_packet(self.ticks as u16, timestamp);
        audio.payload.resize(160, 7);
        self.world.receive(&audio).unwrap();
        if self.ticks.is_multiple_of(2) {
            let is_asked = self.key_frame_in.take_if(|left| left.is_zero()).is_some();
            let key = is_asked || self.frames_since_key >= FRAMES_PER_KEY_FRAME;
            self.frames_since_key = if key { 1 } else { self.frames_since_key + 1 };
            let packets = if key { 12 } else { 2 };
            for at in 0..packets {
                let mut packet = part(self.sequence_number, self.frames * 3_600, key, at + 1 == packets);
                packet.payload.resize(PACKET_BYTES, 3);
                self.world.receive(&packet).unwrap();
                self.sequence_number = self.sequence_number.wrapping_add(1);
            }
            self.frames += 1;
        }
        self.ticks += 1;
        self.world.wait(TICK);
        self.key_frame_in = self.key_frame_in.map(|left| left.saturating_sub(TICK));
        let (requests, nacked) = (&mut self.requests, &mut self.nacked);
        let before = *requests;
        self.world.told(|_, packet| match packet {
            Rtcp::Pli(_) => *requests += 1,
            Rtcp::Nack(nack) => nacked.extend(nack.lost()),
            _ => {}
        });
        if self.requests > before && self.key_frame_in.is_none() {
            self.key_frame_in = self.answers_after;
        }
    }

    fn run(&mut self, duration: Duration) {
        for _ in 0..duration.as_millis() / TICK.as_millis() {
            self.tick();
        }
    }

    fn stats(&self) -> StreamStats {
        self.world.stream.stats()
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn milliseconds(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[test]
fn of_a_prompt_publisher_only_the_last_tenth_of_a_second_is_kept() {
    let mut camera = Camera::new(Some(milliseconds(80)));
    camera.run(milliseconds(300));
    assert_eq!(camera.requests, 0, "it may be played any moment");
    for _ in 0..250 {
        camera.tick();
        let stats = camera.stats();
        let bytes_max = if camera.ticks < 25 { 72_000 } else { 28_000 };
        assert!(stats.cached_memory_bytes <= bytes_max, "{}: {stats:?}", camera.ticks);
    }
    assert_eq!(camera.requests, 2, "asked until it was clear that it answers");
    for _ in 0..200 {
        camera.tick();
        let stats = camera.stats();
        // A key frame and two others; five of audio.
        assert!(stats.cached_packets <= 12 + 4 + 6, "{stats:?}");
    }
    camera.run(seconds(60));
    assert_eq!(camera.requests, 2, "and not again");
}

#[test]
fn of_a_publisher_that_does_not_answer_the_gop_is_kept_and_players_begin_with_it() {
    for answers_after in [None, Some(milliseconds(900))] {
        let mut camera = Camera::new(answers_after);
        camera.run(seconds(30));
        assert_eq!(camera.requests, 1, "one trial is enough to know");
        while camera.frames_since_key != 40 {
            camera.tick();
        }
        camera.world.stream.set_watched(camera.world.now, true);
        camera.world.join(1);
        let got = camera.world.video(1);
        assert_eq!(got[0].packet().payload()[0], 0x65, "a key frame");
        camera.run(seconds(1));
        let got = camera.world.video(1).len();
        assert!(got > 12 + 39 * 2, "{got}: all since the key frame, and then live");
        assert_eq!(camera.requests, 1, "without a request");
    }
}

#[test]
fn the_first_player_finds_the_key_frame_that_was_asked_for_when_its_session_was_opened() {
    let mut camera = Camera::new(Some(milliseconds(80)));
    camera.run(seconds(20));
    while camera.frames_since_key != 20 {
        camera.tick();
    }
    camera.requests = 0;
    camera.world.stream.set_watched(camera.world.now, true);
    // ICE and DTLS take their time.
    camera.run(milliseconds(200));
    let id = camera.world.join(1);
    let first = camera.world.video(1)[0].packet();
    assert_eq!((first.payload()[0], camera.requests), (0x65, 1));
    camera.run(seconds(2));
    let numbers = camera.world.numbers(1);
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)), "{numbers:?}");
    assert_eq!(camera.requests, 1);

    // What the player lost comes again, also what is older than the window of a stream without players.
    let lost = numbers[numbers.len() - 80];
    let ssrc = crate::packets::common::video_ssrc(1);
    let resend = camera.world.viewer_says(id, |rtcp| _ = Nack::write(rtcp, 5, ssrc, &[lost]));
    assert_eq!(resend.len(), 1);

    // Without players again it is known to be prompt.
    camera.world.stream.leave(id);
    camera.world.stream.set_watched(camera.world.now, false);
    camera.run(seconds(10));
    assert_eq!(camera.requests, 1);
    assert!(camera.stats().cached_memory_bytes <= 28_000, "{:?}", camera.stats());
}

#[test]
fn a_first_player_asks_for_a_key_frame_only_if_none_is_kept() {
    let mut camera = Camera::new(None);
    camera.run(milliseconds(300));
    camera.world.stream.set_watched(camera.world.now, true);
    camera.run(seconds(1));
    assert_eq!(camera.requests, 0);
    // Of a publisher that sends key frames seldom the GOP is too old by now.
    let mut camera = Camera::new(Some(milliseconds(80)));
    camera.frames_since_key = 0;
    camera.tick();
    camera.world.stream.set_watched(camera.world.now, true);
    camera.tick();
    assert_eq!(camera.requests, 1);
}

#[test]
fn packets_missing_without_players_are_still_asked_for_and_put_in_their_place() {
    let mut world = World::published();
    world.stream.set_watched(world.now, false);
    world.receive(&frame(100, 0, true)).unwrap();
    world.wait(milliseconds(40));
    world.receive(&frame(102, 7_200, false)).unwrap();
    world.wait(milliseconds(40));
    assert!(world.nacked().contains(&(VIDEO_SSRC, 101)));
    // A key frame makes the ones before superfluous; a packet of those before it still has its place.
    world.receive(&frame(103, 10_800, true)).unwrap();
    world.wait(milliseconds(200));
    assert!(world.receive(&frame(101, 3_600, false)).unwrap().forwarded);
    world.wait(milliseconds(500));
    world.receive(&frame(104, 14_400, false)).unwrap();
    assert_eq!(world.stream.stats().cached_packets, 2, "the newest key frame and what followed");
}

#[test]
fn a_key_frame_that_takes_long_to_come_in_can_be_read_when_it_is_whole() {
    let mut camera = Camera::new(Some(milliseconds(80)));
    camera.run(seconds(5));
    let world = &mut camera.world;
    for at in 0..12 {
        let number = camera.sequence_number.wrapping_add(at);
        let packet = part(number, camera.frames * 3_600, true, at == 11);
        let received = world.receive(&packet).unwrap();
        assert_eq!(received.ends_key_frame, at == 11);
        world.wait(milliseconds(25));
    }
    assert_eq!(world.stream.newest_key_frame(video()).unwrap().count(), 12);
    world
        .receive(&frame(camera.sequence_number.wrapping_add(12), (camera.frames + 1) * 3_600, false))
        .unwrap();
    assert!(world.stream.stats().cached_packets < 12, "nobody needs it");
}

#[test]
fn a_key_frame_that_a_late_packet_completes_can_be_read() {
    for is_watched in [true, false] {
        let mut world = World::published();
        world.stream.set_watched(world.now, is_watched);
        assert!(!world.receive(&part(100, 0, true, false)).unwrap().ends_key_frame);
        world.receive(&part(102, 0, true, true)).unwrap();
        world.wait(milliseconds(33));
        assert!(!world.receive(&frame(103, 3_600, false)).unwrap().ends_key_frame);
        assert!(world.stream.newest_key_frame(video()).is_none_or(|packets| packets.count() < 3));
        assert!(world.receive(&part(101, 0, true, false)).unwrap().ends_key_frame);
        assert_eq!(world.stream.newest_key_frame(video()).unwrap().count(), 3);
    }
}

#[test]
fn a_packet_that_would_be_too_old_to_be_kept_is_not_asked_for() {
    // Of the second, the packets since the key frame are kept, and one of them may still come.
    for (answers_after, asked_until, asked) in [(Some(milliseconds(80)), 100, 1), (None, 1_500, 3)] {
        let mut camera = Camera::new(answers_after);
        camera.run(seconds(20));
        while camera.frames_since_key != 5 {
            camera.tick();
        }
        camera.nacked.clear();
        let lost = camera.sequence_number;
        camera.sequence_number = lost.wrapping_add(1);
        let mut last = Duration::ZERO;
        for at in 0..100 {
            let before = camera.nacked.len();
            camera.tick();
            if camera.nacked.len() > before {
                last = TICK * (at + 1);
            }
        }
        assert!(camera.nacked.iter().all(|number| *number == lost));
        assert!(last <= milliseconds(asked_until + 40), "{answers_after:?}: asked for {last:?} later");
        assert!(camera.nacked.len() >= asked, "{answers_after:?}: {}", camera.nacked.len());
    }
}

#[test]
fn rate_and_key_frame_distance_are_known_whatever_is_kept() {
    let mut camera = Camera::new(Some(milliseconds(80)));
    camera.run(seconds(20));
    let pictures = camera.world.stream.pictures(camera.world.now, video()).unwrap();
    assert_eq!(pictures.frames_per_second, Some(25.0));
    assert_eq!(pictures.key_frame_interval, Some(seconds(2)));
}

#[test]
fn caches_take_little_more_than_what_is_in_them() {
    let mut camera = Camera::new(None);
    camera.world.stream.set_watched(camera.world.now, true);
    camera.run(seconds(3));
    for _ in 0..200 {
        camera.tick();
        let StreamStats { cached_packets, cached_bytes, cached_memory_bytes, .. } = camera.stats();
        assert!(
            // A slot has 40 bytes, and there may be twice as many as packets.
            cached_memory_bytes <= cached_bytes * 5 / 4 + cached_packets * 80 + 8_192,
            "{cached_packets} packets of {cached_bytes} bytes in {cached_memory_bytes}"
        );
    }
}

#[test]
fn streams_of_a_thread_share_the_memory_of_packets_that_are_no_longer_needed() {
    let mut camera = Camera::new(None);
    camera.run(seconds(10));
    let before = addresses(&mut camera, seconds(6));
    camera.world.stream.publisher_ended(camera.world.now);
    camera.world.wait(seconds(2));
    // Another stream.
    let wall = WallClock { at: camera.world.start, ntp: WALL };
    camera.world.stream = PacketStream::new(Limits::default(), wall);
    let input = publisher(vec![audio_input(), video_input()]);
    camera.world.stream.publisher_started(camera.world.now, 1, input);
    camera.frames_since_key = FRAMES_PER_KEY_FRAME;
    let after = addresses(&mut camera, seconds(1));
    assert!(after.len() > 50 && after.is_subset(&before), "{} of {}", after.len(), before.len());
}

/// Where packets of video are in this time.
fn addresses(camera: &mut Camera, duration: Duration) -> BTreeSet<usize> {
    let mut addresses = BTreeSet::new();
    for _ in 0..duration.as_millis() / TICK.as_millis() {
        camera.tick();
        let packets = camera.world.stream.cached(camera.world.now);
        addresses.extend(packets.map(|packet| packet.payload().as_ptr() as usize));
    }
    addresses
}
