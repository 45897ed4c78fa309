//! Another process goes on with a stream: what its viewers get is what they would have got.

use std::sync::Arc;
use std::time::Duration;

use sfu::{Limits, Outputs, TrackInput, ViewerId};

use crate::packets::common::{
    MID_ID, RID_ID, Rtp, World, audio_input, audio_packet, frame, part, video_input, viewer,
};

/// Tokens and ids.
type Viewers = Vec<(u64, ViewerId)>;

/// The stream in another process, with these viewers of it.
fn handed_over(old: &World, tracks: Vec<TrackInput>, viewers: &Viewers) -> (World, Viewers) {
    let position = old.stream.publisher_position(old.now);
    let mut new = World::new(Limits::default());
    (new.start, new.now) = (old.start, old.now);
    new.publish(tracks);
    new.stream.resume_publisher(new.now, &position);
    let viewers = resume_viewers(old, &mut new, viewers);
    (new, viewers)
}

fn resume_viewers(old: &World, new: &mut World, viewers: &Viewers) -> Viewers {
    let resume = |&(token, id): &(u64, ViewerId)| {
        let positions = old.stream.viewer_position(old.now, id);
        let joined = new.stream.join(new.now, &viewer(token)).unwrap();
        new.stream.resume_viewer(new.now, joined, &positions);
        (token, joined)
    };
    let viewers = viewers.iter().map(resume).collect();
    new.settle();
    viewers
}

fn both_tracks() -> Vec<TrackInput> {
    vec![audio_input(), video_input()]
}

/// What `token` has got since there were so many packets of video and audio.
fn since(world: &World, token: u64, (video, audio): (usize, usize)) -> Vec<Vec<u8>> {
    let got = world.video(token)[video..].iter().chain(&world.audio(token)[audio..]);
    got.map(|got| got.bytes.clone()).collect()
}

fn counts(world: &World, token: u64) -> (usize, usize) {
    (world.video(token).len(), world.audio(token).len())
}

/// Plays to both processes, as only one would get it.
fn play_to_both(worlds: &mut [&mut World], numbers: std::ops::Range<u32>, gop: u32) {
    for at in numbers {
        for world in worlds.iter_mut() {
            world.receive(&frame(at as u16, at.wrapping_mul(3_600), at.is_multiple_of(gop))).unwrap();
            world.receive(&audio_packet(at as u16, at.wrapping_mul(1_920))).unwrap();
            world.wait(Duration::from_millis(40));
        }
    }
}

#[test]
fn viewers_get_what_they_would_have_got() {
    // Across both ends of sequence numbers, and in the middle of a group of pictures.
    for first in [100, 65_500, 65_536 * 3 - 20, 32_700] {
        let mut old = World::published();
        let viewers = vec![(1, old.join(1)), (2, old.join(2))];
        play_to_both(&mut [&mut old], first..first + 30, first);
        let before = [1, 2].map(|token| counts(&old, token));
        let (mut new, _) = handed_over(&old, both_tracks(), &viewers);
        play_to_both(&mut [&mut old, &mut new], first + 30..first + 100, u32::MAX);
        for (token, before) in [1, 2].into_iter().zip(before) {
            assert_eq!(counts(&new, token), (70, 70), "from {first}");
            assert_eq!(since(&new, token, (0, 0)), since(&old, token, before), "from {first}");
        }
    }
}

#[test]
fn it_can_be_handed_over_again() {
    let mut old = World::published();
    let viewers = vec![(1, old.join(1))];
    play_to_both(&mut [&mut old], 65_000..65_030, 65_000);
    let mut before = counts(&old, 1);
    let (mut new, mut viewers) = handed_over(&old, both_tracks(), &viewers);
    for round in 0..3 {
        let first = 65_030 + round * 300;
        play_to_both(&mut [&mut old, &mut new], first..first + 300, u32::MAX);
        assert_eq!(since(&new, 1, (0, 0)), since(&old, 1, before), "round {round}");
        before = counts(&old, 1);
        (new, viewers) = handed_over(&new, both_tracks(), &viewers);
    }
}

#[test]
fn padding_that_was_taken_out_leaves_no_gap() {
    let mut old = World::published();
    let viewers = vec![(1, old.join(1))];
    play_to_both(&mut [&mut old], 10..20, 10);
    for at in 20..24 {
        let padding = Rtp { payload: Vec::new(), ..frame(at, 19 * 3_600, false) }.padded(100);
        old.receive(&padding).unwrap();
    }
    let before = counts(&old, 1);
    let (mut new, _) = handed_over(&old, both_tracks(), &viewers);
    for world in [&mut old, &mut new] {
        for at in 24..40 {
            world.receive(&frame(at, u32::from(at) * 3_600, false)).unwrap();
        }
    }
    assert_eq!(new.video(1).len(), 16);
    assert_eq!(since(&new, 1, (0, 0)), since(&old, 1, before));
}

#[test]
fn what_was_lost_on_the_way_is_a_gap_as_it_was() {
    let mut old = World::published();
    let viewers = vec![(1, old.join(1))];
    play_to_both(&mut [&mut old], 10..20, 10);
    let before = counts(&old, 1);
    let (mut new, _) = handed_over(&old, both_tracks(), &viewers);
    for world in [&mut old, &mut new] {
        // 20 and 21 are lost, 22 comes behind 23.
        for at in [23, 22, 24] {
            world.receive(&frame(at, u32::from(at) * 3_600, false)).unwrap();
        }
    }
    assert_eq!(since(&new, 1, (0, 0)), since(&old, 1, before));
    new.wait(Duration::from_millis(100));
    let asked: Vec<u16> = new.nacked().iter().map(|(_, number)| *number).collect();
    assert!(asked.contains(&20) && asked.contains(&21), "{asked:?}");
}

#[test]
fn viewers_on_other_workers_get_what_they_would_have_got() {
    let mut home = World::published();
    let mut mirror = World::new(Limits::default());
    (mirror.start, mirror.now) = (home.start, home.now);
    let viewers = vec![(7, mirror.join(7))];
    fn cross(home: &mut World, mirror: &mut World, at: u32, key: bool) {
        for rtp in [frame(at as u16, at * 3_600, key), audio_packet(at as u16, at * 1_920)] {
            home.stream.receive(home.now, &rtp.bytes()).unwrap();
            let mut crossing = Vec::new();
            home.stream.take_arrivals(|packet, _| crossing.push(Arc::clone(packet)));
            home.settle();
            for packet in &crossing {
                mirror.stream.receive_mirrored(mirror.now, packet, Outputs::MAIN).unwrap();
            }
            mirror.settle();
        }
        home.wait(Duration::from_millis(40));
        mirror.wait(Duration::from_millis(40));
    }
    (65_520..65_560).for_each(|at| cross(&mut home, &mut mirror, at, at == 65_520));
    let before = counts(&mirror, 7);
    let (mut new_home, _) = handed_over(&home, both_tracks(), &Vec::new());
    let mut new_mirror = World::new(Limits::default());
    (new_mirror.start, new_mirror.now) = (mirror.start, mirror.now);
    resume_viewers(&mirror, &mut new_mirror, &viewers);
    for at in 65_560..65_600 {
        cross(&mut home, &mut mirror, at, false);
        cross(&mut new_home, &mut new_mirror, at, false);
    }
    assert_eq!(counts(&new_mirror, 7), (40, 40));
    assert_eq!(since(&new_mirror, 7, (0, 0)), since(&mirror, 7, before));
}

#[test]
fn one_that_was_behind_goes_on_with_a_key_frame() {
    let mut old = World::published();
    let viewers = vec![(1, old.join(1))];
    play_to_both(&mut [&mut old], 10..20, 10);
    // Its socket has no room for the rest of a picture.
    old.full.insert(1);
    for at in 20..23 {
        old.receive(&part(at, 20 * 3_600, false, at == 22)).unwrap();
    }
    let last = *old.numbers(1).last().unwrap();
    let (mut new, _) = handed_over(&old, both_tracks(), &viewers);
    new.full.clear();
    play_to_both(&mut [&mut new], 23..26, u32::MAX);
    play_to_both(&mut [&mut new], 26..30, 26);
    let numbers = new.numbers(1);
    assert!(numbers.first() > Some(&last), "{numbers:?} after {last}");
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    assert_eq!(new.audio(1).len(), 7, "audio waits for nothing");
}

/// A frame of a layer, which says which it is only at first.
fn of_layer(layer: usize, at: u16, key: bool, is_named: bool) -> Rtp {
    let timestamp = u32::from(at) * 3_600 + layer as u32 * 1_000_000;
    let packet = frame(at + layer as u16 * 10_000, timestamp, key).ssrc(500 + layer as u32);
    if is_named { packet.with(MID_ID, b"v").with(RID_ID, ["q", "f"][layer].as_bytes()) } else { packet }
}

#[test]
fn layers_that_were_named_once_are_known() {
    let tracks = || {
        let rids = ["q", "f"].map(str::to_owned).to_vec();
        vec![audio_input(), TrackInput { ssrcs: Vec::new(), rids, ..video_input() }]
    };
    let mut old = World::published();
    old.publish(tracks());
    let viewers = vec![(1, old.join(1))];
    for at in 0..20 {
        for layer in [1, 0] {
            old.receive(&of_layer(layer, at, at == 0, at < 5)).unwrap();
        }
        old.wait(Duration::from_millis(40));
    }
    let before = counts(&old, 1);
    let (mut new, _) = handed_over(&old, tracks(), &viewers);
    for world in [&mut old, &mut new] {
        for at in 20..40 {
            for layer in [0, 1] {
                world.receive(&of_layer(layer, at, false, false)).unwrap();
            }
            world.wait(Duration::from_millis(40));
        }
    }
    assert_eq!(new.video(1).len(), 20);
    assert_eq!(since(&new, 1, (0, 0)), since(&old, 1, before));
}
