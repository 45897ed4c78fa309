//! Temporal and spatial layers inside an encoding.

use sfu::LayersWanted;

use super::*;

fn temporal(encoding: u8, temporal: u8) -> Layer {
    Layer { temporal, ..Layer::of(encoding) }
}

/// Frames a second that a viewer got in the last two seconds.
fn frame_rate(scene: &Scene) -> usize {
    let recent = scene.world.video(1).iter().rev();
    let recent = recent.take_while(|one| scene.world.now - one.at <= 50 * FRAME);
    recent.map(Got::timestamp).collect::<BTreeSet<u32>>().len() / 2
}

#[test]
fn temporal_layers_are_left_out_at_once_and_come_back_where_a_decoder_can_go_up() {
    let mut scene = Scene::of_vp8(21, true);
    let id = scene.world.join(1);
    scene.play(60);
    scene.set(id, Layer::of(2));
    scene.play(20);
    scene.requests.clear();
    let begin = scene.world.video(1).len();
    scene.publisher.key.insert(2);
    scene.play(1);
    for (layer, frames) in [
        (temporal(2, 1), 12),
        (temporal(2, 0), 6),
        (Layer::of(2), 25),
        (temporal(2, 0), 6),
        (temporal(2, 1), 12),
        (Layer::of(2), 25),
    ] {
        scene.set(id, layer);
        scene.play(60);
        assert_eq!(scene.layer_of(id), (layer, layer));
        assert_eq!(frame_rate(&scene), frames, "{layer:?}");
    }
    assert_eq!(scene.requests, [], "no key frame was needed");
    assert_eq!(decoded(&scene.world.video(1)[begin..]), [2]);
}

#[test]
fn the_best_is_gone_up_to_as_the_whole_encoding_that_it_is() {
    for pictures in 60..64 {
        let mut scene = Scene::of_vp8(24, true);
        let id = scene.world.join(1);
        scene.play(60);
        scene.world.got.clear();
        scene.requests.clear();
        scene.publisher.key.insert(2);
        scene.play(1);
        for (layer, frames) in
            [(temporal(2, 1), 12), (Layer::BEST, 25), (temporal(2, 0), 6), (Layer::BEST, 25)]
        {
            scene.set(id, layer);
            scene.play(pictures);
            assert_eq!(scene.layer_of(id), (layer, layer));
            assert_eq!(frame_rate(&scene), frames, "{layer:?}");
        }
        assert_eq!(scene.requests, [], "no key frame was needed");
        assert_eq!(decoded(scene.world.video(1)), [2]);
    }
}

#[test]
fn a_viewer_changes_between_temporal_layers_of_different_encodings() {
    let mut scene = Scene::of_vp8(22, true);
    let id = scene.world.join(1);
    scene.play(60);
    scene.set(id, temporal(0, 0));
    scene.play(30);
    scene.world.got.clear();
    scene.publisher.key.insert(0);
    scene.play(30);
    for layer in [temporal(2, 1), temporal(1, 0), temporal(1, 1), Layer::of(0), temporal(2, 0)] {
        scene.set(id, layer);
        scene.play(60);
        assert_eq!(scene.layer_of(id), (layer, layer));
    }
    assert_eq!(decoded(scene.world.video(1)), [0, 2, 1, 0, 2]);
}

#[test]
fn temporal_layers_are_listed_with_the_bits_of_those_below() {
    let mut scene = Scene::of_vp8(23, true);
    scene.play(100);
    let layers = scene.world.stream.layers(scene.world.now, video());
    assert_eq!(layers.len(), 9);
    assert!(layers.is_sorted_by_key(|one| one.bits_per_second));
    for encoding in 0..3 {
        let bits = |wanted| layers.iter().find(|one| one.layer == wanted).unwrap().bits_per_second;
        let all = bits(Layer::of(encoding));
        for (at, share) in [(0, 25), (1, 50)] {
            let part = bits(temporal(encoding, at)) * 100 / all;
            assert!(part.abs_diff(share) < 8, "{part} % of encoding {encoding} are up to layer {at}");
        }
    }
}

/// A picture of VP9 in two spatial layers, a packet each.
fn vp9_picture(at: u16, key: bool) -> Vec<Rtp> {
    let [high, low] = (at | 0x8000).to_be_bytes();
    let packet = |spatial: u8| {
        // I, L, B and E; P but in key frames. SID, and D in the upper layer.
        let first = 0xac | u8::from(!key) << 6;
        let mut payload = vec![first, high, low, spatial << 1 | spatial, at as u8];
        payload.resize(200 + 600 * usize::from(spatial), spatial);
        let fields = HeaderFields {
            marker: spatial == 1,
            payload_type: 100,
            sequence_number: (2 * at).wrapping_add(u16::from(spatial)),
            timestamp: u32::from(at) * 3_600,
            ssrc: VIDEO_SSRC,
        };
        Rtp { fields, extensions: Vec::new(), payload, padding: 0 }
    };
    vec![packet(0), packet(1)]
}

fn vp9_publisher(world: &mut World) {
    let mut track = video_input();
    track.payloads.push(TrackPayload {
        payload_type: 100,
        codec: Codec::Vp9,
        clock_rate: 90_000,
        rtx: None,
        red: None,
    });
    world.publish(vec![audio_input(), track]);
}

fn vp9_viewer(world: &mut World) -> ViewerId {
    let mut input = viewer(1);
    input.tracks[1].payloads.push(ViewerPayload {
        codec: Codec::Vp9,
        payload_type: 64,
        rtx: None,
        red: None,
    });
    world.join_as(&input)
}

/// Pictures of both layers, then of the lower one, then of both: what the viewer got of each picture. Those
/// with both begin with a key frame.
fn check_vp9(got: &[&Got]) -> Vec<usize> {
    let pictures: Vec<&[&Got]> = got.chunk_by(|one, other| one.timestamp() == other.timestamp()).collect();
    let sizes: Vec<usize> = pictures.iter().map(|picture| picture.len()).collect();
    for picture in &pictures {
        let (last, others) = picture.split_last().unwrap();
        assert!(last.packet().marker() && others.iter().all(|one| !one.packet().marker()));
        let descriptor = rtp::payload::vp9::Descriptor::parse(last.packet().payload()).unwrap();
        let at = (last.timestamp() / 3_600) as u16;
        assert_eq!(descriptor.picture_id, Some(PictureId::Long(at)), "references are differences");
    }
    let back = sizes.iter().rposition(|size| *size == 1).unwrap() + 1;
    let first = rtp::payload::vp9::Descriptor::parse(pictures[back][0].packet().payload()).unwrap();
    assert!(!first.inter_predicted, "with a key frame");
    sizes
}

#[test]
fn spatial_layers_of_vp9_are_left_out_at_once_and_come_back_with_a_key_frame() {
    let mut world = World::new(Limits::default());
    vp9_publisher(&mut world);
    let id = vp9_viewer(&mut world);
    let (mut at, mut key, mut requests) = (0, true, 0);
    let mut play = |world: &mut World, pictures: u16| {
        for _ in 0..pictures {
            for packet in vp9_picture(at, key) {
                world.receive(&packet).unwrap();
            }
            world.wait(FRAME);
            key = !world.key_frame_requests().is_empty();
            requests += u32::from(key);
            at += 1;
        }
        requests
    };
    let before = play(&mut world, 60);
    let layers = world.stream.layers(world.now, video());
    let base = Layer { spatial: 0, ..Layer::of(0) };
    assert_eq!(layers.iter().map(|one| one.layer).collect::<Vec<_>>(), [base, Layer::of(0)]);
    world.stream.set_layer(world.now, id, video(), base);
    assert_eq!(play(&mut world, 20), before, "no key frame is needed");
    world.stream.set_layer(world.now, id, video(), Layer::of(0));
    assert_eq!(play(&mut world, 20), before + 1);
    let sizes = check_vp9(&in_order(world.video(1)));
    assert_eq!(sizes.len(), 100);
    let least = sizes.iter().filter(|size| **size == 1).count();
    assert!((18..=22).contains(&least), "{sizes:?}");
}

/// The home says which layers there are; the other worker leaves out the upper one itself.
#[test]
fn spatial_layers_of_vp9_change_on_another_worker_as_at_home() {
    let mut home = World::new(Limits::default());
    vp9_publisher(&mut home);
    home.settle();
    home.crossing = Some(Vec::new());
    let mut mirror = World::new(Limits::default());
    (mirror.start, mirror.now, mirror.wants) = (home.start, home.now, Some(Vec::new()));
    let mut wanted = LayersWanted::MAIN;
    home.stream.set_mirrored(home.now, video(), wanted);
    mirror.stream.mirror_started(mirror.now, home.epoch, &home.stream.layers_report(home.now));
    let id = vp9_viewer(&mut mirror);
    let (mut at, mut key, mut requests) = (0, true, 0);
    let mut play = |home: &mut World, mirror: &mut World, pictures: u16| {
        for _ in 0..pictures {
            for packet in vp9_picture(at, key) {
                home.receive(&packet).unwrap();
            }
            home.wait(FRAME);
            if let Some(report) = home.stream.poll_layers_report(home.now) {
                mirror.stream.layers_reported(mirror.now, home.epoch, &report);
            }
            for (packet, outputs) in std::mem::take(home.crossing.as_mut().unwrap()) {
                if let Some(outputs) = wanted.of(&packet, outputs) {
                    let _ = mirror.stream.receive_mirrored(mirror.now, &packet, outputs);
                }
            }
            mirror.wait(FRAME);
            for (track, now_wanted) in mirror.wants.as_mut().unwrap().drain(..) {
                wanted = now_wanted;
                home.stream.set_mirrored(home.now, track, wanted);
            }
            for request in mirror.requests.drain(..) {
                home.stream.request_key_frame_of(home.now, request);
            }
            home.settle();
            key = !home.key_frame_requests().is_empty();
            requests += u32::from(key);
            at += 1;
        }
        requests
    };
    let before = play(&mut home, &mut mirror, 60);
    let base = Layer { spatial: 0, ..Layer::of(0) };
    assert_eq!(home.stream.layers(home.now, video()), mirror.stream.layers(home.now, video()));
    mirror.stream.set_layer(mirror.now, id, video(), base);
    assert_eq!(play(&mut home, &mut mirror, 40), before, "no key frame is needed");
    mirror.stream.set_layer(mirror.now, id, video(), Layer::of(0));
    assert_eq!(play(&mut home, &mut mirror, 40), before + 1);
    let sizes = check_vp9(&in_order(mirror.video(1)));
    let least = sizes.iter().filter(|size| **size == 1).count();
    assert!((37..=44).contains(&least), "{sizes:?}");
    assert!(sizes.len() >= 138, "{} pictures", sizes.len());
}
