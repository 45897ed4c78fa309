//! Viewers at another node than the publisher's get layers as those at home do, and only what they
//! use crosses.

use rtp::payload::MediaKind;
use sfu::{ENCODINGS_REPORT_INTERVAL, EncodingSet, KeyFrameRequest, LayersWanted, Pacer, RelayedTrack};

use super::*;
use crate::packets::common::{OPUS, audio_packet};

/// A home and a node that gets the stream from it. What each says crosses once a picture.
struct Pair {
    home: Scene,
    edge: World,
    /// What the edge gets of the video.
    sent: EncodingSet,
    /// Packets of video that crossed.
    crossed: usize,
    asked: Vec<KeyFrameRequest>,
    reports: u16,
    report_at: Duration,
}

impl Pair {
    fn new(seed: u64) -> Self {
        Self::of(Scene::new(seed), H264)
    }

    fn of(mut home: Scene, payload_type: u8) -> Self {
        home.world.crossing = Some(Vec::new());
        let mut edge = World::new(Limits::default());
        (edge.start, edge.now) = (home.world.start, home.world.now);
        let track = |kind, payload_type, codec, clock_rate, encodings| RelayedTrack {
            kind,
            payloads: vec![TrackPayload { payload_type, codec, clock_rate, rtx: None, red: None }],
            encodings,
            rids: RIDS[..if encodings == 3 { 3 } else { 0 }].iter().map(|rid| (*rid).to_owned()).collect(),
        };
        let codec = if payload_type == VP8 { Codec::Vp8 } else { Codec::H264 };
        let tracks = [
            track(MediaKind::Audio, OPUS, Codec::Opus, 48_000, 1),
            track(MediaKind::Video, payload_type, codec, 90_000, 3),
        ];
        edge.stream.relayed_publisher_started(edge.now, 7, tracks);
        let mut pair = Self {
            home,
            edge,
            sent: EncodingSet::NONE,
            crossed: 0,
            asked: Vec::new(),
            reports: 0,
            report_at: Duration::ZERO,
        };
        pair.send(EncodingSet::first(3));
        pair
    }

    /// The home sends these encodings from now on.
    fn send(&mut self, wanted: EncodingSet) {
        let world = &mut self.home.world;
        world.stream.set_mirrored(world.now, video(), LayersWanted::of_encodings(wanted));
        for new in wanted.without(self.sent).iter() {
            world.stream.request_key_frame_of_encoding(world.now, video(), new);
        }
        self.sent = wanted;
    }

    fn play(&mut self, pictures: usize) {
        for _ in 0..pictures {
            let at = self.home.publisher.frame;
            self.home.world.receive(&audio_packet(at, u32::from(at) * 1_920)).unwrap();
            self.home.play(1);
            self.cross();
            self.edge.wait(FRAME);
            self.say();
        }
    }

    fn report(&mut self) -> Vec<u8> {
        let mut rtcp = Vec::new();
        self.reports = self.reports.wrapping_add(1);
        self.home.world.stream.write_encodings_report(self.home.world.now, video(), self.reports, &mut rtcp);
        rtcp
    }

    fn cross(&mut self) {
        let passed = self.home.world.now - self.home.world.start;
        if passed >= self.report_at {
            self.report_at = passed + ENCODINGS_REPORT_INTERVAL;
            let report = self.report();
            assert!(!self.edge.stream.receive_rtcp(self.edge.now, &report).is_malformed);
        }
        for (packet, outputs) in std::mem::take(self.home.world.crossing.as_mut().unwrap()) {
            let mut bytes = Vec::new();
            if packet.track().kind() == MediaKind::Audio {
                packet.write_relayed(OPUS, None, &mut bytes);
            } else if let Some(number) = outputs.in_encoding.filter(|_| self.sent.has(packet.encoding())) {
                let payload_type = if packet.codec() == Codec::Vp8 { VP8 } else { H264 };
                packet.write_relayed(payload_type, Some(number), &mut bytes);
                self.crossed += 1;
            } else {
                continue;
            }
            self.edge.stream.receive(self.edge.now, &bytes).unwrap();
        }
        self.edge.settle();
    }

    /// What the edge has for its home.
    fn say(&mut self) {
        while let Some((track, wanted)) =
            self.edge.stream.poll_encodings_wanted(self.edge.now, true, |_| false)
        {
            assert_eq!(track, video());
            self.edge.stream.set_arriving(self.edge.now, track, wanted);
            self.send(wanted);
        }
        self.edge.settle();
        for request in self.edge.requests.drain(..) {
            self.asked.push(request);
            self.home.world.stream.request_key_frame_of(self.home.world.now, request);
        }
        self.home.world.settle();
    }

    fn set(&mut self, id: ViewerId, layer: Layer) {
        self.edge.stream.set_layer(self.edge.now, id, video(), layer);
        self.edge.settle();
        self.say();
    }

    fn layer_of(&self, id: ViewerId) -> (Layer, Layer) {
        self.edge.stream.layer_of(id, video()).unwrap()
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
fn a_viewer_of_another_node_changes_layers_as_one_at_home_does() {
    for (codec, scene) in [(H264, Scene::new(1)), (VP8, Scene::of_vp8(1, false))] {
        let mut pair = Pair::of(scene, codec);
        let near = pair.home.world.join(1);
        let far = pair.edge.join(1);
        pair.play(60);
        for layer in [Layer::of(0), Layer::of(1), Layer::of(2), Layer::of(0), Layer::BEST, Layer::of(1)] {
            pair.home.set(near, layer);
            pair.set(far, layer);
            pair.play(60);
            assert_eq!(pair.home.layer_of(near), (layer, layer));
            assert_eq!(pair.layer_of(far), (layer, layer));
        }
        let mut far_got = decoded(pair.edge.video(1));
        // Before the first report, the rates decide which one is best.
        far_got.drain(..far_got.len() - 7);
        assert_eq!(far_got, [2, 0, 1, 2, 0, 2, 1]);
        // The last report is as old as it may be.
        let report = pair.report();
        pair.edge.stream.receive_rtcp(pair.edge.now, &report);
        let now = pair.home.world.now;
        assert_eq!(
            pair.home.world.stream.layers(now, video()),
            pair.edge.stream.layers(now, video()),
            "sizes and rates of what does not come as well"
        );
    }
}

#[test]
fn only_encodings_that_are_used_cross_and_one_that_is_asked_for_begins_at_once() {
    let mut pair = Pair::new(2);
    let id = pair.edge.join(1);
    pair.play(60);
    assert_eq!(pair.crossing(), whole(&[2]));
    pair.set(id, Layer::of(0));
    pair.play(60);
    assert_eq!(pair.crossing(), whole(&[0]), "nobody uses the best");
    assert_eq!(pair.sent, EncodingSet::NONE.with(0));
    // It begins with the key frame that is asked for with it.
    let before = pair.edge.video(1).len();
    pair.set(id, Layer::of(2));
    pair.play(3);
    assert_eq!(pair.layer_of(id), (Layer::of(2), Layer::of(2)));
    assert!(pair.edge.video(1)[before..].iter().any(|got| place_of(got).layer == 2));
    let second = pair.edge.join(2);
    pair.set(second, Layer::of(1));
    pair.set(id, Layer::of(0));
    pair.play(60);
    assert_eq!(pair.crossing(), whole(&[0, 1]));
    pair.edge.stream.leave(id);
    pair.play(60);
    assert_eq!(pair.crossing(), whole(&[1]));
    pair.set(second, Layer::BEST);
    pair.play(60);
    assert_eq!(pair.crossing(), whole(&[2]));
    decoded(pair.edge.video(1));
    decoded(pair.edge.video(2));
}

#[test]
fn paths_decide_at_another_node_too() {
    let mut pair = Pair::new(14);
    let ids = [1, 2, 3].map(|token| pair.edge.join(token));
    let mut pacers = [100_000, 300_000, 5_000_000].map(|rate| pacer(pair.edge.now, rate, true));
    let adapt = |pair: &mut Pair, pacers: &mut [Pacer; 3], pictures: usize| {
        for _ in 0..pictures {
            for (id, pacer) in ids.iter().zip(pacers.iter_mut()) {
                pair.edge.stream.adapt(pair.edge.now, *id, pacer);
            }
            pair.play(1);
        }
    };
    adapt(&mut pair, &mut pacers, 95);
    let [slow, middle, fast] = ids.map(|id| pair.layer_of(id).0);
    assert_eq!([slow, middle, fast], [Layer::of(0), Layer::of(1), Layer::BEST]);
    assert_eq!(pair.crossing(), whole(&[0, 1, 2]));
    // The one with the widest path leaves, and with it the best.
    pair.edge.stream.leave(ids[2]);
    pair.play(60);
    assert_eq!(pair.crossing(), whole(&[0, 1]));
}

#[test]
fn an_encoding_that_falls_silent_at_the_publisher_is_replaced_at_another_node() {
    let mut pair = Pair::new(5);
    let id = pair.edge.join(1);
    pair.play(60);
    // It does not come, and is known to be alive all the same.
    pair.set(id, Layer::of(0));
    pair.play(100);
    assert!(pair.edge.stream.layers(pair.edge.now, video()).iter().all(|layer| layer.is_live));
    pair.set(id, Layer::of(2));
    pair.play(30);
    pair.home.publisher.on = vec![0, 1];
    pair.play(60);
    assert_eq!(pair.layer_of(id), (Layer::of(1), Layer::of(2)));
    pair.home.publisher.on = vec![0, 1, 2];
    pair.home.publisher.key.insert(2);
    pair.play(60);
    assert_eq!(pair.layer_of(id), (Layer::of(2), Layer::of(2)));
    decoded(pair.edge.video(1));
}

#[test]
fn a_report_that_comes_late_or_makes_no_sense_changes_nothing() {
    let mut pair = Pair::new(6);
    pair.edge.join(1);
    pair.play(60);
    let layers = |pair: &Pair| pair.edge.stream.layers(pair.edge.now, video());
    pair.home.publisher.on = vec![0];
    pair.home.play(50);
    let old = pair.report();
    pair.home.publisher.on = vec![0, 1, 2];
    pair.home.publisher.key.extend([1, 2]);
    pair.home.play(50);
    let new = pair.report();
    pair.edge.stream.receive_rtcp(pair.edge.now, &new);
    let known = layers(&pair);
    assert!(!pair.edge.stream.receive_rtcp(pair.edge.now, &old).is_malformed);
    assert_eq!(layers(&pair), known, "it was sent before");
    let newer = pair.report();
    for len in (12..newer.len()).step_by(4) {
        let mut cut = newer[..len].to_vec();
        cut[3] = (len / 4 - 1) as u8;
        let is_malformed = pair.edge.stream.receive_rtcp(pair.edge.now, &cut).is_malformed;
        // The last word may be padding.
        assert!(is_malformed || len + 4 == newer.len(), "{len} bytes");
    }
    for at in 4..newer.len() {
        let mut changed = newer.clone();
        changed[at] ^= 0x55;
        pair.edge.stream.receive_rtcp(pair.edge.now, &changed);
    }
    assert!(!pair.home.world.stream.receive_rtcp(pair.edge.now, &newer).is_malformed, "of no other node");
}

#[test]
fn a_node_that_begins_gets_a_group_of_pictures_of_the_best() {
    let mut pair = Pair::new(7);
    pair.send(EncodingSet::NONE);
    pair.home.play(60);
    pair.home.world.crossing = Some(Vec::new());
    let best = EncodingSet::NONE.with(2);
    pair.home.world.stream.set_mirrored(pair.home.world.now, video(), LayersWanted::of_encodings(best));
    let cached = pair.home.world.stream.cached_for_relay(pair.home.world.now, |track| track == video());
    assert!(!cached.is_empty());
    pair.sent = best;
    pair.edge.join(1);
    let asked = pair.home.requests.len();
    for (packet, number) in cached {
        let mut bytes = Vec::new();
        let payload_type = if number.is_some() { H264 } else { OPUS };
        packet.write_relayed(payload_type, number, &mut bytes);
        pair.edge.stream.receive(pair.edge.now, &bytes).unwrap();
    }
    pair.edge.wait(Duration::from_millis(1));
    let begun = pair.edge.video(1).len();
    assert!(begun > 0, "it can be shown before anything else has come");
    pair.home.play(10);
    pair.cross();
    assert_eq!(pair.edge.video(1).len(), begun + 10 * usize::from(PARTS[2]));
    assert_eq!(decoded(pair.edge.video(1)), [2], "what follows goes on without a gap");
    assert_eq!(pair.home.requests.len(), asked, "and the publisher was asked for nothing");
}
