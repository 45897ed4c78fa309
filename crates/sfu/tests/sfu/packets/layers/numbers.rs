//! Picture ids and frame numbers go on over changes of layers.

use super::*;

#[test]
fn picture_ids_of_vp8_go_on_over_changes_of_layers() {
    let mut scene = Scene::of_vp8(20, false);
    let id = scene.world.join(1);
    scene.play(60);
    // The main output leaves the ids of each encoding as they are.
    scene.world.got.clear();
    let mut got = Vec::new();
    for layer in [0, 2, 1, 0, 1] {
        scene.set(id, Layer::of(layer));
        scene.play(20);
    }
    got.extend_from_slice(scene.world.video(1));
    let begin = got.iter().position(|one| place_of(one).is_key).unwrap();
    assert_eq!(decoded(&got[begin..]), [0, 2, 1, 0, 1]);
    // What is sent again is what was sent.
    let one = got.last().unwrap();
    let lost = [one.number()];
    let resent = scene.world.viewer_says(id, |rtcp| _ = Nack::write(rtcp, 5, video_ssrc(1), &lost));
    let bytes = written(&resent[0]);
    let packet = rtp::Packet::parse(&bytes).unwrap();
    assert_eq!(rtp::rtx::unwrap(packet.payload()).unwrap().1, one.packet().payload());
}

#[test]
fn changes_between_layers_of_vp8_stand_loss_and_reordering() {
    for seed in 0..20 {
        let mut scene = Scene::of_vp8(seed, false);
        let id = scene.world.join(1);
        scene.play(60);
        scene.set(id, Layer::of(0));
        scene.play(20);
        scene.world.got.clear();
        scene.publisher.key.extend([0, 1, 2]);
        scene.play(5);
        scene.faults = [60, 100, 100];
        for layer in [2, 1, 2, 0, 1, 0, 2] {
            scene.set(id, Layer::of(layer));
            let pictures = 20 + (scene.random.next_u64() % 20) as usize;
            scene.play(pictures);
        }
        scene.faults = [0; 3];
        scene.play(20);
        let layers = decoded(scene.world.video(1));
        assert!(layers.len() >= 6 && layers.last() == Some(&2), "seed {seed}: {layers:?}");
    }
}

#[test]
fn frame_numbers_of_dependency_descriptors_go_on_over_changes_of_layers() {
    let mut scene = Scene::new(24);
    scene.publisher.has_descriptors = true;
    let mut input = viewer(1);
    input.tracks[1].extensions = [(9, Extension::DependencyDescriptor)].into_iter().collect();
    let id = scene.world.join_as(&input);
    scene.play(60);
    scene.world.got.clear();
    for layer in [0, 2, 1, 0, 1] {
        scene.set(id, Layer::of(layer));
        scene.play(20);
    }
    let got = scene.world.video(1).to_vec();
    let begin = got.iter().position(|one| place_of(one).is_key).unwrap();
    assert_eq!(decoded(&got[begin..]), [0, 2, 1, 0, 1]);
    let number = |got: &Got| {
        let packet = got.packet();
        let (_, data) = packet.extensions().find(|(id, _)| *id == 9).unwrap();
        DependencyDescriptor::parse(data).unwrap().frame_number
    };
    for pair in got.windows(2) {
        let is_next = u16::from(pair[0].timestamp() != pair[1].timestamp());
        assert_eq!(number(&pair[1]), number(&pair[0]).wrapping_add(is_next));
    }
}
