//! How large the pictures of each layer are, and viewers that want none above a height.

use std::collections::BTreeSet;
use std::time::Duration;

use rtp::payload::PictureSize;

use super::*;

fn wide(scene: &Scene) -> Pacer {
    pacer(scene.world.now, 50_000_000, false)
}

/// Plays on, and lets the path decide every second.
fn adapt(scene: &mut Scene, id: ViewerId, pacer: &mut Pacer) {
    for _ in 0..5 {
        scene.world.stream.adapt(scene.world.now, id, pacer);
        scene.play(25);
    }
}

#[test]
fn sizes_of_all_encodings_are_known_by_their_key_frames_whichever_is_forwarded() {
    let mut scene = Scene::of_vp8(1, true);
    scene.world.join_as(&vp8_viewer(1));
    scene.play(30);
    for choice in scene.world.stream.layers(scene.world.now, video()) {
        let [width, height] = SIZES[usize::from(choice.layer.encoding.unwrap())];
        assert_eq!(choice.size, Some(PictureSize { width, height }), "{choice:?}");
    }
    let mut unreadable = Scene::new(1);
    unreadable.play(30);
    let choices = unreadable.world.stream.layers(unreadable.world.now, video());
    assert!(choices.iter().all(|choice| choice.size.is_none()), "no parameter sets, nothing known");
}

#[test]
fn a_viewer_gets_no_layer_above_its_height_whatever_its_path_carries() {
    for (most, layer) in [(None, 2), (Some(720), 2), (Some(719), 1), (Some(200), 0), (Some(10), 0)] {
        let mut scene = Scene::of_vp8(1, false);
        scene.play(100);
        let id = scene.world.join_as(&vp8_viewer(1));
        scene.world.stream.limit_height(id, most);
        let mut pacer = wide(&scene);
        adapt(&mut scene, id, &mut pacer);
        let got = scene.world.video(1).last().map(|got| place_of(got).layer);
        assert_eq!(got, Some(layer), "{most:?}");
        // What it asks for itself it gets.
        scene.world.stream.fix_layer(scene.world.now, id, video(), Some(Layer::of(2)));
        adapt(&mut scene, id, &mut pacer);
        assert_eq!(scene.world.video(1).last().map(|got| place_of(got).layer), Some(2));
        scene.world.wait(Duration::from_millis(1));
    }
}

fn vp8_viewer(token: u64) -> sfu::ViewerInput {
    viewer(token)
}

/// A quarter of the pictures of the largest encoding takes about as much as all of the next smaller one.
#[test]
fn a_viewer_gets_few_pictures_of_the_lowest_encoding_only() {
    let mut seen = BTreeSet::new();
    for rate in (1..50).map(|step| step * 10_000) {
        let mut scene = Scene::of_vp8(1, true);
        scene.play(100);
        let id = scene.world.join_as(&vp8_viewer(1));
        let mut pacer = pacer(scene.world.now, rate, true);
        for _ in 0..3 {
            scene.world.stream.adapt(scene.world.now, id, &mut pacer);
            scene.play(10);
        }
        let (wanted, _) = scene.layer_of(id);
        seen.insert((wanted.encoding, wanted.temporal));
        assert!(wanted.temporal > 0 || wanted.encoding == Some(0), "{rate}: {wanted:?}");
    }
    assert!(seen.contains(&(Some(1), 1)) && seen.contains(&(Some(2), 1)), "{seen:?}");
}

#[test]
fn what_a_viewer_has_asked_for_ends_where_there_is_nothing_to_choose() {
    let mut scene = Scene::new(1);
    scene.publisher.on = vec![1];
    scene.play(60);
    let id = scene.world.join(1);
    scene.play(30);
    let one = Layer { temporal: 0, ..Layer::of(1) };
    scene.world.stream.fix_layer(scene.world.now, id, video(), Some(one));
    scene.play(30);
    scene.world.stream.fix_layer(scene.world.now, id, video(), None);
    scene.play(30);
    assert_eq!(scene.layer_of(id).0, Layer::BEST);
    let newest = scene.world.video(1).last().map(|got| place_of(got).frame);
    assert!(newest.is_some_and(|frame| frame + 2 >= scene.publisher.frame), "{newest:?}");
}
