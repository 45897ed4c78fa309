//! Key-frame requests: however many ask, the publisher is asked twice a second at most, until one
//! comes.

use std::time::Duration;

use rtp::rtcp::{Fir, FirEntry, Pli};
use sfu::TrackInput;

use crate::packets::common::{VIDEO_SSRC, World, audio_input, frame, part, video, video_input, video_ssrc};

fn pli(world: &mut World, id: sfu::ViewerId, token: u64) {
    world.viewer_says(id, |rtcp| Pli { sender_ssrc: 5, media_ssrc: video_ssrc(token) }.write(rtcp));
}

#[test]
fn a_storm_of_requests_becomes_two_a_second() {
    let mut world = World::published();
    let ids: Vec<_> = (0..200).map(|token| world.join(token)).collect();
    world.play(100, 0, 3, 25);
    world.key_frame_requests();
    for _ in 0..100 {
        for (token, id) in ids.iter().enumerate() {
            pli(&mut world, *id, token as u64);
        }
        world.wait(Duration::from_millis(100));
    }
    let requests = world.key_frame_requests();
    assert!((19..=21).contains(&requests.len()), "{} in ten seconds", requests.len());
    assert!(requests.windows(2).all(|pair| pair[1].0 - pair[0].0 >= Duration::from_millis(500)));
    assert!(requests.iter().all(|request| request.1 == VIDEO_SSRC));
}

#[test]
fn a_request_is_repeated_until_a_key_frame_comes_and_not_after() {
    let mut world = World::published();
    let id = world.join(1);
    world.play(100, 0, 25, 25);
    world.key_frame_requests();
    pli(&mut world, id, 1);
    world.wait(Duration::from_millis(1_700));
    assert_eq!(world.key_frame_requests().len(), 4);
    world.receive(&frame(125, 200_000, true)).unwrap();
    world.wait(Duration::from_secs(5));
    assert_eq!(world.key_frame_requests(), []);
    pli(&mut world, id, 1);
    assert_eq!(world.key_frame_requests().len(), 1, "the next one is asked for at once");
}

#[test]
fn a_publisher_that_never_answers_is_asked_less_often() {
    let mut world = World::published();
    let id = world.join(1);
    world.play(100, 0, 3, 25);
    pli(&mut world, id, 1);
    world.wait(Duration::from_secs(15));
    world.key_frame_requests();
    world.wait(Duration::from_secs(60));
    let requests = world.key_frame_requests().len();
    assert!((28..=31).contains(&requests), "{requests} in a minute");
}

#[test]
fn full_intra_requests_count_once_for_each_number() {
    let mut world = World::published();
    let id = world.join(1);
    world.play(100, 0, 3, 25);
    let fir = |world: &mut World, sequence_number| {
        let entry = FirEntry { ssrc: video_ssrc(1), sequence_number };
        world.viewer_says(id, |rtcp| Fir::write(rtcp, 5, entry));
        world.stream.viewer_stats(id).unwrap().key_frame_requests
    };
    let before = fir(&mut world, 7);
    assert_eq!(fir(&mut world, 7), before, "a repeat");
    assert_eq!(fir(&mut world, 8), before + 1);
}

#[test]
fn where_video_loss_was_not_negotiated_full_intra_is_asked_for() {
    let mut world = World::published();
    world.publish(vec![audio_input(), TrackInput { pli: false, fir: true, ..video_input() }]);
    world.receive(&frame(1, 0, true)).unwrap();
    world.stream.request_key_frame(world.now, video());
    world.settle();
    world.wait(Duration::from_millis(600));
    let mut numbers = Vec::new();
    world.told(|_, packet| {
        if let rtp::rtcp::Rtcp::Fir(fir) = packet {
            numbers.extend(fir.entries().map(|entry| (entry.ssrc, entry.sequence_number)));
        }
    });
    assert_eq!(numbers, [(VIDEO_SSRC, 1), (VIDEO_SSRC, 2)], "each request has a number of its own");
}

#[test]
fn a_publisher_that_takes_no_requests_gets_none_and_nothing_spins() {
    let mut world = World::published();
    world.publish(vec![audio_input(), TrackInput { pli: false, fir: false, ..video_input() }]);
    world.receive(&frame(1, 0, true)).unwrap();
    world.stream.request_key_frame(world.now, video());
    world.wait(Duration::from_secs(3));
    assert_eq!(world.key_frame_requests(), []);
}

#[test]
fn requests_for_other_ssrcs_are_ignored() {
    let mut world = World::published();
    let id = world.join(1);
    world.play(100, 0, 3, 25);
    world.key_frame_requests();
    pli(&mut world, id, 2);
    world.wait(Duration::from_secs(1));
    assert_eq!(world.key_frame_requests(), []);
}

#[test]
fn rate_and_distance_of_key_frames_are_told_by_timestamps() {
    let mut world = World::published();
    assert_eq!(world.stream.pictures(world.now, video()), Some(sfu::Pictures::default()));
    // Without viewers as well; timestamps wrap.
    world.play(100, u32::MAX - 5_000, 50, 25);
    let pictures = world.stream.pictures(world.now, video()).unwrap();
    assert_eq!(pictures.frames_per_second, Some(25.0));
    assert_eq!(pictures.key_frame_interval, Some(Duration::from_secs(1)));
    let key_frame: Vec<_> = world.stream.newest_key_frame(video()).unwrap().collect();
    assert!(key_frame.len() == 1 && key_frame[0].is_key_frame());
    // Of two packets, the second of which is late.
    world.receive(&part(150, 500_000, true, false)).unwrap();
    assert!(world.stream.newest_key_frame(video()).is_none());
    world.receive(&part(151, 500_000, false, true)).unwrap();
    assert_eq!(world.stream.newest_key_frame(video()).unwrap().count(), 2);
    world.wait(Duration::from_secs(3));
    assert_eq!(world.stream.pictures(world.now, video()).unwrap().frames_per_second, None, "silence");
}
