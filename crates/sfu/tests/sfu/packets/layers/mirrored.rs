//! Viewers on another worker than the publisher's get layers as those at home do, and only what they use
//! crosses.

use rtp::payload::MediaKind;
use rtp::rtcp::Pli;
use sfu::{DropReason, KeyFrameRequest, LayersWanted, Pacer, TrackIndex};

use super::*;
use crate::packets::common::{audio_packet, video_ssrc};

/// A home and a mirror. What the mirror wants, and what each says, crosses once a picture.
struct Pair {
    home: Scene,
    mirror: World,
    wanted: LayersWanted,
    /// Packets of video that crossed.
    crossed: usize,
    /// The same of audio.
    audio_crossed: usize,
    /// Key frames that the mirror has asked for.
    asked: Vec<KeyFrameRequest>,
    /// Each packet comes in a turn of its own, now and then.
    is_torn: bool,
    /// What does not cross, of 1,000 packets.
    lost: u64,
    random: Random,
}

impl Pair {
    fn new(seed: u64) -> Self {
        Self::of(Scene::new(seed), seed)
    }

    fn of(mut home: Scene, seed: u64) -> Self {
        home.world.crossing = Some(Vec::new());
        let mut mirror = World::new(Limits::default());
        (mirror.start, mirror.now) = (home.world.start, home.world.now);
        mirror.wants = Some(Vec::new());
        let random = Random::new(seed + 1_000);
        let wanted = LayersWanted::MAIN;
        let (crossed, audio_crossed, asked) = (0, 0, Vec::new());
        let mut pair =
            Self { home, mirror, wanted, crossed, audio_crossed, asked, is_torn: false, lost: 0, random };
        pair.subscribe();
        pair
    }

    /// The mirror gets the stream from now on.
    fn subscribe(&mut self) {
        self.home.world.settle();
        self.home.world.crossing = Some(Vec::new());
        self.wanted = LayersWanted::MAIN;
        self.home.world.stream.set_mirrored(self.home.world.now, video(), self.wanted);
        let report = self.home.world.stream.layers_report(self.home.world.now);
        self.mirror.stream.mirror_started(self.mirror.now, self.home.world.epoch, &report);
        let cached: Vec<_> = self.home.world.stream.cached(self.home.world.now).cloned().collect();
        for packet in cached {
            let _ = self.mirror.stream.receive_mirrored(self.mirror.now, &packet, sfu::Outputs::MAIN);
        }
        self.mirror.settle();
        self.say();
    }

    fn play(&mut self, pictures: usize) {
        for _ in 0..pictures {
            let at = self.home.publisher.frame;
            self.home.world.receive(&audio_packet(at, u32::from(at) * 1_920)).unwrap();
            self.home.play(1);
            self.cross();
            self.mirror.wait(FRAME);
            self.say();
        }
    }

    /// Plays until the best is known, and again from a key frame of it.
    fn warm_up(&mut self) {
        self.play(60);
        self.mirror.got.clear();
        self.home.world.got.clear();
        self.home.publisher.key.insert(2);
        self.play(1);
        self.asked.clear();
    }

    /// What the home has for its mirror.
    fn cross(&mut self) {
        let (epoch, home) = (self.home.world.epoch, &mut self.home.world);
        if let Some(report) = home.stream.poll_layers_report(home.now) {
            self.mirror.stream.layers_reported(self.mirror.now, epoch, &report);
        }
        for (packet, outputs) in std::mem::take(home.crossing.as_mut().unwrap()) {
            let is_audio = packet.track().kind() == MediaKind::Audio;
            let wanted = if is_audio { LayersWanted::MAIN } else { self.wanted };
            let Some(outputs) = wanted.of(&packet, outputs) else { continue };
            if self.random.next_u64() % 1_000 < self.lost {
                continue;
            }
            (self.crossed, self.audio_crossed) =
                (self.crossed + usize::from(!is_audio), self.audio_crossed + usize::from(is_audio));
            let taken = self.mirror.stream.receive_mirrored(self.mirror.now, &packet, outputs);
            let is_expected = matches!(taken, Ok(_) | Err(DropReason::NoKeyFrame | DropReason::TooOld));
            assert!(is_expected, "{taken:?}");
            if self.is_torn && self.random.chance(0.4) {
                self.mirror.settle();
            }
        }
        self.mirror.settle();
    }

    /// What the mirror has for its home.
    fn say(&mut self) {
        let home = &mut self.home.world;
        for (track, wanted) in self.mirror.wants.as_mut().unwrap().drain(..) {
            assert_eq!(track, video());
            self.wanted = wanted;
            home.stream.set_mirrored(home.now, track, wanted);
        }
        for request in self.mirror.requests.drain(..) {
            self.asked.push(request);
            home.stream.request_key_frame_of(home.now, request);
        }
        home.settle();
    }

    fn set(&mut self, id: ViewerId, layer: Layer) {
        self.mirror.stream.set_layer(self.mirror.now, id, video(), layer);
        self.mirror.settle();
        self.say();
    }

    fn layer_of(&self, id: ViewerId) -> (Layer, Layer) {
        self.mirror.stream.layer_of(id, video()).unwrap()
    }

    /// Packets of video that cross in a second.
    fn crossing(&mut self) -> usize {
        self.crossed = 0;
        self.play(25);
        self.crossed
    }
}

fn whole(encodings: &[usize]) -> usize {
    25 * encodings.iter().map(|at| usize::from(PARTS[*at])).sum::<usize>()
}

#[test]
fn a_viewer_of_a_mirror_changes_layers_as_one_at_home_does() {
    let mut pair = Pair::new(1);
    let near = pair.home.world.join(1);
    let far = pair.mirror.join(1);
    pair.warm_up();
    for layer in [Layer::of(0), Layer::of(1), Layer::of(2), Layer::of(0), Layer::BEST, Layer::of(1)] {
        pair.home.set(near, layer);
        pair.set(far, layer);
        pair.play(30);
        assert_eq!(pair.home.layer_of(near), (layer, layer));
        assert_eq!(pair.layer_of(far), (layer, layer));
    }
    assert_eq!(decoded(pair.home.world.video(1)), [2, 0, 1, 2, 0, 2, 1]);
    assert_eq!(decoded(pair.mirror.video(1)), [2, 0, 1, 2, 0, 2, 1]);
    assert_eq!(
        pair.home.world.stream.layers(pair.home.world.now, video()),
        pair.mirror.stream.layers(pair.home.world.now, video()),
    );
}

#[test]
fn only_what_viewers_of_the_mirror_use_crosses_and_each_packet_once() {
    let mut pair = Pair::new(2);
    let id = pair.mirror.join(1);
    pair.play(60);
    assert_eq!(pair.crossing(), whole(&[2]));
    // The best as an encoding of its own is the same packets, in both outputs for a while.
    pair.set(id, Layer::of(2));
    pair.play(5);
    assert_eq!(pair.crossing(), whole(&[2]));
    pair.set(id, Layer::of(0));
    pair.play(50);
    assert_eq!(pair.crossing(), whole(&[0]));
    let second = pair.mirror.join(2);
    pair.set(second, Layer::of(1));
    pair.play(50);
    assert_eq!(pair.crossing(), whole(&[0, 1]));
    pair.mirror.stream.leave(id);
    pair.play(50);
    assert_eq!(pair.crossing(), whole(&[1]));
    pair.set(second, Layer::BEST);
    pair.play(50);
    assert_eq!(pair.crossing(), whole(&[2]));
    assert_eq!(decoded(pair.mirror.video(2)), [1, 2], "it began with its target");
    // All of the audio, all the time.
    assert_eq!(pair.audio_crossed, usize::from(pair.home.publisher.frame));
}

#[test]
fn paths_decide_on_a_mirror_and_the_best_goes_on_for_those_that_carry_it() {
    let mut pair = Pair::new(14);
    let ids = [1, 2, 3].map(|token| pair.mirror.join(token));
    let mut pacers = [100_000, 300_000, 5_000_000].map(|rate| pacer(pair.mirror.now, rate, true));
    let adapt = |pair: &mut Pair, pacers: &mut [Pacer; 3], pictures: usize| {
        for _ in 0..pictures {
            for (id, pacer) in ids.iter().zip(pacers.iter_mut()) {
                pair.mirror.stream.adapt(pair.mirror.now, *id, pacer);
            }
            pair.play(1);
        }
    };
    // Less than the five seconds after which viewers that cannot be probed are given more for a trial.
    adapt(&mut pair, &mut pacers, 95);
    let [slow, middle, fast] = ids.map(|id| pair.layer_of(id).0);
    assert_eq!([slow, middle, fast], [Layer::of(0), Layer::of(1), Layer::BEST]);
    pair.mirror.got.clear();
    adapt(&mut pair, &mut pacers, 25);
    for (token, layer) in (1..).zip(0..3) {
        let got = pair.mirror.video(token);
        assert_eq!(got.len(), 25 * usize::from(PARTS[layer]));
        assert!(got.iter().all(|got| place_of(got).layer == layer));
    }
    assert_eq!(pair.crossing(), whole(&[0, 1, 2]));
    // The one with the widest path leaves, and with it the best.
    pair.mirror.stream.leave(ids[2]);
    pair.play(50);
    assert_eq!(pair.crossing(), whole(&[0, 1]));
}

#[test]
fn nothing_more_crosses_while_nobody_has_a_target() {
    let mut pair = Pair::of(Scene::of_vp8(3, true), 3);
    for token in 1..4 {
        pair.mirror.join(token);
    }
    pair.play(60);
    assert_eq!(pair.crossing(), whole(&[2]));
    assert_eq!(pair.wanted, LayersWanted::MAIN);
}

#[test]
fn a_change_within_an_encoding_needs_no_key_frame_on_a_mirror_either() {
    let temporal = |temporal| Layer { temporal, ..Layer::of(2) };
    for is_torn in [false, true] {
        let mut pair = Pair::of(Scene::of_vp8(4, true), 4);
        pair.is_torn = is_torn;
        let id = pair.mirror.join(1);
        pair.warm_up();
        for layer in
            [temporal(1), temporal(0), Layer::BEST, temporal(0), Layer::of(2), temporal(1), Layer::BEST]
        {
            pair.set(id, layer);
            // Long enough that the main output crosses no more.
            pair.play(60);
            assert_eq!(pair.layer_of(id), (layer, layer));
            assert!(pair.crossing() <= whole(&[2]));
        }
        assert_eq!(pair.asked, []);
        assert_eq!(decoded(pair.mirror.video(1)), [2]);
        assert!(pair.mirror.video(1).len() > 700);
    }
}

#[test]
fn changes_stand_faults_before_the_home_and_workers_that_stop_between_any_two_packets() {
    let best = Layer::BEST;
    for seed in 0..30 {
        let mut pair = match seed % 3 {
            0 => Pair::new(seed),
            _ => Pair::of(Scene::of_vp8(seed, false), seed),
        };
        pair.is_torn = true;
        let ids = [1, 2].map(|token| pair.mirror.join(token));
        pair.warm_up();
        pair.home.faults = [60, 100, 100];
        let [low, middle, high] = [0, 1, 2].map(Layer::of);
        for (one, other) in [
            (low, best),
            (middle, low),
            (high, high),
            (best, middle),
            (middle, best),
            (high, low),
            (low, high),
            (middle, best),
            (best, middle),
            (low, low),
            (best, middle),
            (high, best),
        ] {
            pair.set(ids[0], one);
            pair.set(ids[1], other);
            let pictures = 20 + (pair.random.next_u64() % 60) as usize;
            pair.play(pictures);
        }
        pair.home.faults = [0; 3];
        pair.play(60);
        for token in 1..3 {
            let layers = decoded(pair.mirror.video(token));
            assert_eq!(layers.last(), Some(&2), "seed {seed}: {layers:?}");
            assert!(layers.len() >= 8, "seed {seed}: {layers:?}");
        }
    }
}

#[test]
fn what_is_lost_between_workers_is_a_gap_and_the_viewer_goes_on() {
    let mut pair = Pair::new(6);
    let id = pair.mirror.join(1);
    pair.play(60);
    pair.lost = 50;
    for layer in [0, 1, 2, 0] {
        pair.set(id, Layer::of(layer));
        pair.play(80);
        assert_eq!(pair.layer_of(id).0, Layer::of(layer));
    }
    let last = pair.mirror.video(1).last().unwrap();
    assert!(pair.mirror.now - last.at <= 3 * FRAME);
    let numbers = pair.mirror.numbers(1);
    let unique: BTreeSet<u16> = numbers.iter().copied().collect();
    assert_eq!(unique.len(), numbers.len(), "no number is used for two packets");
}

#[test]
fn a_layer_that_dies_is_replaced_on_a_mirror_and_comes_back() {
    let mut pair = Pair::new(7);
    let id = pair.mirror.join(1);
    pair.warm_up();
    pair.set(id, Layer::of(1));
    pair.play(30);
    pair.home.publisher.on = vec![0, 2];
    pair.play(60);
    assert_eq!(pair.layer_of(id), (Layer::of(0), Layer::of(1)));
    pair.home.publisher.on = vec![0, 1, 2];
    pair.play(60);
    assert_eq!(pair.layer_of(id), (Layer::of(1), Layer::of(1)));
    assert_eq!(decoded(pair.mirror.video(1)), [2, 1, 0, 1]);
}

#[test]
fn a_new_viewer_gets_a_picture_while_the_best_does_not_cross() {
    let mut pair = Pair::new(8);
    let first = pair.mirror.join(1);
    pair.play(60);
    pair.set(first, Layer::of(0));
    pair.play(80);
    assert_eq!(pair.crossing(), whole(&[0]));
    pair.asked.clear();
    pair.mirror.join(2);
    pair.say();
    pair.play(3);
    let request = KeyFrameRequest { track: video(), encoding: None, is_for_one: false };
    assert_eq!(pair.asked, [request]);
    assert_eq!(decoded(pair.mirror.video(2)), [2]);
    assert_eq!(decoded(pair.mirror.video(1)).last(), Some(&0));
}

#[test]
fn the_stream_moves_to_another_home_and_viewers_keep_their_targets() {
    for seed in 0..20 {
        let mut pair = Pair::new(seed);
        let ids = [1, 2, 3].map(|token| pair.mirror.join(token));
        pair.play(60);
        for (layer, id) in ids.iter().enumerate() {
            pair.set(*id, Layer::of(layer as u8));
        }
        pair.play(80);
        let (epoch, now) = (pair.home.world.epoch, pair.home.world.now);
        let mut other = Scene::new(seed + 100);
        (other.world.start, other.world.now) = (pair.home.world.start, now);
        other.world.epoch = epoch;
        other.world.publish(vec![audio_input(), simulcast_input()]);
        other.publisher.frame = pair.home.publisher.frame;
        pair.home = other;
        pair.mirror.stream.publisher_ended(pair.mirror.now);
        let pause = Duration::from_millis(300 * (seed % 8));
        pair.home.world.wait(pause);
        pair.mirror.wait(pause);
        pair.subscribe();
        pair.play(60);
        for (layer, id) in ids.iter().enumerate() {
            assert_eq!(pair.layer_of(*id), (Layer::of(layer as u8), Layer::of(layer as u8)), "seed {seed}");
            let layers = decoded(pair.mirror.video(layer as u64 + 1));
            assert_eq!(layers.last(), Some(&layer), "seed {seed}");
        }
    }
}

#[test]
fn the_next_publisher_has_one_encoding_and_all_get_it() {
    let mut pair = Pair::new(9);
    let id = pair.mirror.join(1);
    pair.play(60);
    pair.set(id, Layer::of(0));
    pair.play(80);
    pair.home.world.publish(vec![audio_input(), video_input()]);
    pair.mirror.stream.publisher_ended(pair.mirror.now);
    pair.subscribe();
    let before = pair.mirror.video(1).len();
    for at in 0..100 {
        pair.home.world.receive(&frame(at, u32::from(at) * 3_600, at % 25 == 0)).unwrap();
        pair.home.world.wait(FRAME);
        pair.cross();
        pair.mirror.wait(FRAME);
        pair.say();
    }
    assert_eq!(pair.layer_of(id).1, Layer::of(0));
    assert!(pair.mirror.video(1).len() >= before + 70, "{}", pair.mirror.video(1).len() - before);
    in_order(pair.mirror.video(1));
}

#[test]
fn a_mirror_that_asks_again_for_the_stream_says_again_what_it_needs() {
    let mut pair = Pair::new(10);
    let id = pair.mirror.join(1);
    pair.warm_up();
    pair.set(id, Layer::of(0));
    pair.play(80);
    assert_eq!(pair.crossing(), whole(&[0]));
    pair.subscribe();
    pair.play(80);
    assert_eq!(pair.layer_of(id), (Layer::of(0), Layer::of(0)));
    assert_eq!(pair.crossing(), whole(&[0]));
    assert_eq!(decoded(pair.mirror.video(1)), [2, 0]);
}

#[test]
fn a_mirror_that_is_gone_is_no_reason_to_make_outputs() {
    let mut pair = Pair::new(11);
    let id = pair.mirror.join(1);
    pair.play(60);
    let before = pair.home.world.stream.stats().cached_packets;
    for layer in [0, 1, 2] {
        pair.set(id, Layer::of(layer));
        pair.play(10);
    }
    assert!(pair.home.world.stream.stats().cached_packets > before);
    let now = pair.home.world.now;
    pair.home.world.stream.set_mirrored(now, video(), LayersWanted::MAIN);
    pair.home.play(60);
    let after = pair.home.world.stream.stats().cached_packets;
    assert!(after <= before + 80, "{before}, {after}");
}

#[test]
fn single_viewers_of_several_mirrors_take_one_key_frame_in_three_seconds() {
    let mut pair = Pair::new(12);
    pair.mirror.join(1);
    let id = pair.mirror.join(2);
    pair.play(60);
    pair.set(id, Layer::of(0));
    pair.play(60);
    pair.home.requests.clear();
    // The viewer asks ten times a second, and so does one of each of four more mirrors.
    let others = KeyFrameRequest { track: video(), encoding: Some(0), is_for_one: true };
    for _ in 0..100 {
        for _ in 0..4 {
            pair.home.world.stream.request_key_frame_of(pair.home.world.now, others);
        }
        let pli = Pli { sender_ssrc: 5, media_ssrc: video_ssrc(2) };
        pair.mirror.viewer_says(id, |rtcp| pli.write(rtcp));
        pair.say();
        pair.play(3);
    }
    let asked = pair.home.requests.len();
    assert!(pair.home.requests.iter().all(|ssrc| *ssrc == SSRCS[0]));
    assert!((3..=6).contains(&asked), "{asked} times in 12 s");
}

#[test]
fn what_nobody_asked_for_of_a_track_that_is_not_there_changes_nothing() {
    let mut pair = Pair::new(13);
    let track = TrackIndex::new(MediaKind::Video, 7).unwrap();
    let now = pair.home.world.now;
    pair.home.world.stream.set_mirrored(now, track, LayersWanted::MAIN);
    for encoding in [None, Some(0), Some(200)] {
        for track in [track, video()] {
            let request = KeyFrameRequest { track, encoding, is_for_one: false };
            pair.home.world.stream.request_key_frame_of(now, request);
        }
    }
    pair.mirror.join(1);
    pair.play(60);
    assert_eq!(decoded(pair.mirror.video(1)).last(), Some(&2));
}

/// Alone on its worker it is not the only one that gets the stream.
#[test]
fn a_viewer_alone_on_its_worker_asks_no_more_often_for_the_others() {
    let mut pair = Pair::new(7);
    let _others: Vec<_> = (2..20).map(|token| pair.home.world.join(token)).collect();
    let far = pair.mirror.join(1);
    pair.warm_up();
    let before = pair.home.world.stream.stats().key_frame_requests;
    for _ in 0..375 {
        pair.mirror.viewer_says(far, |rtcp| {
            Pli { sender_ssrc: 5, media_ssrc: video_ssrc(1) }.write(rtcp);
        });
        pair.say();
        pair.play(1);
    }
    let asked = pair.home.world.stream.stats().key_frame_requests - before;
    assert!(asked <= 6, "{asked} times in 15 s");
}
