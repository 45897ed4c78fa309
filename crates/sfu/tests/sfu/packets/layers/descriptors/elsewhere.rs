//! The same on another worker, and at another node.

use rtp::payload::MediaKind;
use sfu::{LayersWanted, RelayedTrack};

use super::*;

/// A home, and another worker or node that gets the stream from it.
struct Pair {
    home: Svc,
    other: World,
    is_node: bool,
    wanted: LayersWanted,
}

impl Pair {
    fn new(encoder: Encoder, seed: u64, is_node: bool) -> Self {
        let mut home = Svc::new(encoder, seed);
        home.world.crossing = Some(Vec::new());
        let mut other = World::new(Limits::default());
        (other.start, other.now) = (home.world.start, home.world.now);
        if is_node {
            let track = |kind, payload_type, codec, clock_rate| RelayedTrack {
                kind,
                payloads: vec![TrackPayload { payload_type, codec, clock_rate, rtx: None, red: None }],
                encodings: 1,
                rids: Vec::new(),
            };
            let audio = track(MediaKind::Audio, 111, Codec::Opus, 48_000);
            let tracks = [audio, track(MediaKind::Video, AV1, Codec::Av1, 90_000)];
            other.stream.relayed_publisher_started(other.now, 7, tracks);
        } else {
            other.wants = Some(Vec::new());
            let report = home.world.stream.layers_report(home.world.now);
            other.stream.mirror_started(other.now, home.world.epoch, &report);
        }
        Self { home, other, is_node, wanted: LayersWanted::MAIN }
    }

    fn play(&mut self, pictures: usize) {
        for _ in 0..pictures {
            self.home.play(1);
            self.cross();
            self.other.wait(FRAME);
            let home = &mut self.home.world;
            for (track, wanted) in self.other.wants.iter_mut().flat_map(|wants| wants.drain(..)) {
                self.wanted = wanted;
                home.stream.set_mirrored(home.now, track, wanted);
            }
            for request in self.other.requests.drain(..) {
                home.stream.request_key_frame_of(home.now, request);
            }
            home.settle();
        }
    }

    fn cross(&mut self) {
        let (epoch, home) = (self.home.world.epoch, &mut self.home.world);
        if !self.is_node
            && let Some(report) = home.stream.poll_layers_report(home.now)
        {
            self.other.stream.layers_reported(self.other.now, epoch, &report);
        }
        for (packet, outputs) in std::mem::take(home.crossing.as_mut().unwrap()) {
            if self.is_node {
                let mut bytes = Vec::new();
                packet.write_relayed(AV1, None, &mut bytes);
                let _ = self.other.stream.receive(self.other.now, &bytes);
            } else if let Some(outputs) = self.wanted.of(&packet, outputs) {
                let _ = self.other.stream.receive_mirrored(self.other.now, &packet, outputs);
            }
        }
        self.other.settle();
    }
}

#[test]
fn viewers_of_other_workers_and_nodes_get_the_layers_that_they_choose() {
    let cases = (0..2).flat_map(|seed| [false, true].map(|is_node| (seed, is_node)));
    for (seed, is_node) in cases {
        for (name, encoder) in Encoder::all() {
            let mut pair = Pair::new(encoder, seed, is_node);
            let ids: Vec<ViewerId> = (1..=3).map(|token| pair.other.join_as(&av1_viewer(token))).collect();
            pair.play(50);
            pair.home.faults = 20;
            for _ in 0..60 {
                let (viewer, layer) = (pair.home.random.below(3) as usize, pair.home.any_layer());
                pair.other.stream.set_layer(pair.other.now, ids[viewer], video(), layer);
                pair.other.settle();
                let pictures = 1 + pair.home.random.below(12) as usize;
                pair.play(pictures);
            }
            pair.home.faults = 0;
            pair.play(60);
            for (id, token) in ids.iter().zip(1..) {
                let mut decoder = Decoder::new();
                decoder.take(&extended(pair.other.video(token)));
                let stats = pair.other.stream.viewer_stats(*id).unwrap();
                assert!(stats.switches_up + stats.switches_down >= 3, "{name} {seed} {is_node}: {stats:?}");
                assert!(decoder.pictures > 100, "{name} {seed} {is_node}: {}", decoder.pictures);
            }
            // The least of it is what a viewer gets that asks for it.
            let least = Layer { encoding: Some(0), spatial: 0, temporal: 0 };
            pair.other.stream.set_layer(pair.other.now, ids[0], video(), least);
            pair.play(60);
            let (current, _) = pair.other.stream.layer_of(ids[0], video()).unwrap();
            let (spatial_max, temporal_max) = pair.home.layers();
            let is_least =
                (current.spatial == 0 || spatial_max == 0) && (current.temporal == 0 || temporal_max == 0);
            assert!(is_least, "{name} {is_node}: {current:?}");
        }
    }
}

#[test]
fn one_encoding_crosses_whole_and_is_asked_for_by_nobody() {
    let mut pair = Pair::new(Encoder::l3t3(), 3, true);
    pair.other.join_as(&av1_viewer(1));
    pair.play(50);
    assert_eq!(pair.other.stream.poll_encodings_wanted(pair.other.now, true, |_| true), None);
    let packets = pair.other.video(1).len();
    assert!(packets > 49 * 6, "{packets}");
}
