//! When viewers change from one encoding to another, and what they get then.

use super::*;

#[test]
fn a_viewer_goes_down_and_up_at_key_frames_of_its_target() {
    let mut scene = Scene::new(1);
    let id = scene.world.join(1);
    let other = scene.world.join(2);
    scene.play(60);
    assert_eq!(scene.layer_of(id), (Layer::BEST, Layer::BEST));
    scene.requests.clear();
    scene.set(id, Layer::of(0));
    assert_eq!(scene.layer_of(id), (Layer::BEST, Layer::of(0)), "until a key frame comes");
    scene.play(30);
    assert_eq!(scene.layer_of(id), (Layer::of(0), Layer::of(0)));
    assert_eq!(scene.requests, [SSRCS[0]]);
    scene.set(id, Layer::of(1));
    scene.play(30);
    scene.set(id, Layer::of(2));
    scene.play(30);
    scene.set(id, Layer::of(0));
    scene.play(30);
    scene.set(id, Layer::BEST);
    scene.play(60);
    assert_eq!(scene.layer_of(id), (Layer::BEST, Layer::BEST));
    assert_eq!(decoded(scene.world.video(1)), [0, 1, 2, 0, 1, 2, 0, 2]);
    let stats = scene.world.stream.viewer_stats(id).unwrap();
    // Of its own; what became the best at first was so for all.
    assert_eq!((stats.switches_up, stats.switches_down), (3, 2));
    assert_eq!(scene.layer_of(other), (Layer::BEST, Layer::BEST));
    assert_eq!(decoded(scene.world.video(2)), [0, 1, 2]);
}

#[test]
fn a_change_within_an_encoding_needs_no_key_frame() {
    let mut scene = Scene::new(12);
    let id = scene.world.join(1);
    scene.play(60);
    scene.requests.clear();
    let before = scene.world.timestamps(1);
    for layer in [Layer::of(2), Layer::BEST, Layer::of(2), Layer::BEST] {
        scene.set(id, layer);
        scene.play(5);
        assert_eq!(scene.layer_of(id), (layer, layer));
    }
    assert_eq!(scene.requests, []);
    assert_eq!(decoded(scene.world.video(1)), [0, 1, 2]);
    let timestamps = scene.world.timestamps(1)[before.len() - 1..].to_vec();
    for pair in timestamps.windows(2) {
        assert!([0, 3_600].contains(&pair[1].wrapping_sub(pair[0])), "as they were");
    }
}

#[test]
fn a_change_of_layers_stands_loss_reordering_and_duplicates() {
    let best = Layer::BEST;
    for seed in 0..40 {
        let mut scene = Scene::new(seed);
        let id = scene.world.join(1);
        scene.play(60);
        scene.faults = [60, 100, 100];
        let [low, middle, high] = [0, 1, 2].map(Layer::of);
        for layer in [low, high, best, middle, high, low, middle, best, low, best, high] {
            scene.set(id, layer);
            let pictures = 20 + (scene.random.next_u64() % 20) as usize;
            scene.play(pictures);
        }
        scene.faults = [0; 3];
        scene.play(20);
        let layers = decoded(scene.world.video(1));
        assert_eq!(layers.last(), Some(&2), "seed {seed}: {layers:?}");
        assert!(layers.len() >= 8, "seed {seed}: {layers:?}");
    }
}

#[test]
fn a_change_of_layers_stands_a_worker_that_sends_late() {
    for seed in 0..40 {
        let mut scene = Scene::new(seed);
        let ids: Vec<ViewerId> = (1..4).map(|token| scene.world.join(token)).collect();
        scene.play(60);
        scene.faults = [30, 50, 50];
        scene.is_slow = true;
        for _ in 0..20 {
            for id in &ids {
                let layers = [Layer::of(0), Layer::of(1), Layer::of(2), Layer::BEST];
                let layer = layers[scene.random.below(4) as usize];
                scene.set(*id, layer);
            }
            let pictures = 10 + scene.random.below(20) as usize;
            scene.play(pictures);
        }
        (scene.faults, scene.is_slow) = ([0; 3], false);
        scene.world.full.clear();
        scene.play(20);
        for token in 1..4 {
            let layers = decoded(scene.world.video(token));
            // Fewer than targets: key frames for single viewers come once in three seconds.
            assert!(layers.len() >= 5, "seed {seed}: {layers:?}");
        }
    }
}

#[test]
fn a_viewer_that_catches_up_changes_layers_where_it_has_got() {
    // A group of pictures of more than a viewer is sent at once.
    for pictures in [30, 60, 120] {
        let mut scene = Scene::new(pictures);
        scene.play(60);
        scene.publisher.key.insert(2);
        scene.play(pictures as usize);
        let id = scene.world.join(1);
        scene.set(id, Layer::of(1));
        let (mut cut_off, mut before) = (false, 0);
        scene.publisher.key.insert(1);
        for packet in scene.publisher.picture() {
            scene.world.receive(&packet).unwrap();
            before = before.max(scene.world.video(1).len());
            cut_off |= scene.layer_of(id).0 == Layer::of(1) && before < pictures as usize * 3;
        }
        assert!(cut_off, "{before} packets of {pictures} pictures");
        scene.play(30);
        assert_eq!(decoded(scene.world.video(1)), [2, 1]);
    }
}

#[test]
fn a_viewer_without_a_target_gets_byte_for_byte_what_it_got_before() {
    let play = |with_others: bool| {
        let mut scene = Scene::new(7);
        scene.world.join(1);
        let others: Vec<ViewerId> = (2..5).map(|token| scene.world.join(token)).collect();
        scene.faults = [30, 50, 50];
        scene.answers = false;
        for round in 0..6 {
            for (at, id) in others.iter().enumerate().filter(|_| with_others) {
                scene.set(*id, Layer::of(((at + round) % 3) as u8));
            }
            // The same key frames in both: those that the others ask for as well.
            scene.publisher.key.extend([0, 1, 2]);
            scene.play(30);
        }
        scene.world.video(1).iter().map(|got| got.bytes.clone()).collect::<Vec<_>>()
    };
    let (alone, with_others) = (play(false), play(true));
    assert!(alone.len() > 300);
    assert!(alone == with_others);
}

#[test]
fn capture_times_go_on_over_a_change_and_sender_reports_tell_them() {
    let mut scene = Scene::new(3);
    let id = scene.world.join(1);
    scene.play(50);
    let report = |scene: &mut Scene| {
        // The picture before was captured at this time by the publisher's clock.
        let ntp = NtpTime((100 << 32) + u64::from(scene.publisher.frame) * (1 << 32) / 25);
        for (layer, ssrc) in SSRCS.into_iter().enumerate() {
            let rtp_timestamp =
                scene.publisher.timestamps[layer].wrapping_add(u32::from(scene.publisher.frame) * 3_600);
            let mut rtcp = Vec::new();
            let info = SenderInfo { ntp, rtp_timestamp, ..SenderInfo::default() };
            SenderReport::write(&mut rtcp, ssrc, &info, &[]);
            scene.world.stream.receive_rtcp(scene.world.now, &rtcp);
        }
    };
    report(&mut scene);
    for layer in [0, 1, 0, 2, 1] {
        scene.set(id, Layer::of(layer));
        scene.play(25);
        report(&mut scene);
        scene.play(5);
    }
    let got = scene.world.video(1);
    decoded(got);
    // Each picture at its time of capture, whichever layer it is of; where layers overlap, a unit
    // later.
    let first = (place_of(&got[0]).frame, got[0].timestamp());
    for one in got {
        let captured = first.1.wrapping_add(u32::from(place_of(one).frame - first.0) * 3_600);
        let off = one.timestamp().wrapping_sub(captured).cast_signed();
        assert!((0..=500).contains(&off), "picture {} is {off} units off", place_of(one).frame);
    }
    // And the reports that the viewer gets say the same.
    scene.world.wait(Duration::from_secs(2));
    let got = scene.world.video(1).last().unwrap().clone();
    let reports = &scene.world.reports[&1];
    let told = reports.iter().rev().find_map(|(at, rtcp)| {
        let report = rtp::rtcp::packets(rtcp).filter_map(Result::ok).find_map(|packet| match packet {
            Rtcp::SenderReport(report) if report.ssrc == video_ssrc(1) => Some(report.info.rtp_timestamp),
            _ => None,
        });
        report.map(|timestamp| (*at, timestamp))
    });
    let (at, timestamp) = told.unwrap();
    let expected = got.timestamp().wrapping_add(((at - got.at).as_micros() * 9 / 100) as u32);
    let off = timestamp.wrapping_sub(expected).cast_signed();
    assert!(off.abs() < 4_000, "{off}");
}

#[test]
fn packets_from_before_a_change_are_sent_again_under_their_numbers() {
    let mut scene = Scene::new(4);
    let id = scene.world.join(1);
    scene.play(60);
    for layer in [0, 2, 1] {
        scene.set(id, Layer::of(layer));
        scene.play(14);
    }
    let got = scene.world.video(1).to_vec();
    assert_eq!(decoded(&got), [0, 1, 2, 0, 2, 1]);
    // All of the last second and a little more, over the last two changes.
    let recent: Vec<&Got> =
        got.iter().filter(|one| scene.world.now - one.at < Duration::from_millis(1_100)).collect();
    let layers: BTreeSet<usize> = recent.iter().map(|one| place_of(one).layer).collect();
    assert_eq!(layers, [0, 1, 2].into(), "each layer is among them");
    for one in recent {
        let number = one.number();
        let ssrc = video_ssrc(1);
        let resent = scene.world.viewer_says(id, |rtcp| _ = Nack::write(rtcp, 5, ssrc, &[number]));
        // Whatever the limit allows, it is the same packet.
        for resend in &resent {
            let bytes = written(resend);
            let packet = rtp::Packet::parse(&bytes).unwrap();
            let (original, payload) = rtp::rtx::unwrap(packet.payload()).unwrap();
            assert_eq!((original, payload), (number, one.packet().payload()));
            assert_eq!(packet.timestamp(), one.timestamp());
        }
        // What is sent meanwhile earns what is sent again.
        scene.play(2);
    }
    let stats = scene.world.stream.viewer_stats(id).unwrap();
    assert!(stats.resent_packets >= 20 && stats.not_resent <= stats.resent_packets, "{stats:?}");
}

#[test]
fn a_target_that_falls_silent_is_replaced_by_the_next_lower_and_comes_back() {
    let mut scene = Scene::new(5);
    let id = scene.world.join(1);
    scene.play(60);
    scene.set(id, Layer::of(1));
    scene.play(30);
    scene.publisher.on = vec![0, 2];
    scene.play(60);
    assert_eq!(scene.layer_of(id), (Layer::of(0), Layer::of(1)), "what is less, though there is more");
    scene.publisher.on = vec![0, 1, 2];
    scene.play(60);
    assert_eq!(scene.layer_of(id), (Layer::of(1), Layer::of(1)));
    // The lowest falls silent: what is left is more than was wanted.
    scene.set(id, Layer::of(0));
    scene.play(30);
    scene.publisher.on = vec![1, 2];
    scene.play(60);
    assert_eq!(scene.layer_of(id), (Layer::of(1), Layer::of(0)));
    assert_eq!(decoded(scene.world.video(1)), [0, 1, 2, 1, 0, 1, 0, 1]);
}

/// The best encoding goes, and what has no target goes on with the viewer's: from before the key frame of that,
/// packets that come late are for the viewer alone.
#[test]
fn what_comes_late_for_all_others_is_for_who_had_the_encoding_already() {
    for seed in 0..20 {
        let mut scene = Scene::new(seed);
        let id = scene.world.join(1);
        scene.play(60);
        scene.set(id, Layer::of(1));
        scene.play(30);
        scene.publisher.on = vec![0, 1];
        scene.faults = [200, 0, 0];
        scene.play(60);
        scene.faults = [0; 3];
        scene.play(20);
        assert_eq!(scene.layer_of(id), (Layer::of(1), Layer::of(1)), "seed {seed}");
    }
}

/// What has come of a key frame ahead of its first packet is gone while another encoding is forwarded.
#[test]
fn viewers_without_a_target_change_over_at_key_frames_that_come_in_order() {
    for seed in 0..40 {
        let mut scene = Scene::new(seed);
        scene.world.join(1);
        scene.play(60);
        scene.faults = [60, 200, 100];
        for on in [&[0, 1][..], &[0, 1, 2], &[0], &[0, 1, 2]] {
            scene.publisher.on = on.to_vec();
            scene.play(70);
        }
        scene.faults = [0; 3];
        scene.play(60);
        let layers = decoded(scene.world.video(1));
        assert_eq!(layers.last(), Some(&2), "seed {seed}: {layers:?}");
        assert!(layers.len() >= 5, "seed {seed}: {layers:?}");
    }
}

#[test]
fn a_publisher_that_restarts_finds_viewers_with_their_targets() {
    for seed in 0..20 {
        let mut scene = Scene::new(seed);
        let ids: Vec<ViewerId> = (1..4).map(|token| scene.world.join(token)).collect();
        scene.play(60);
        for (layer, id) in ids.iter().enumerate() {
            scene.set(*id, Layer::of(layer as u8));
        }
        scene.play(30);
        scene.world.stream.publisher_ended(scene.world.now);
        scene.world.wait(Duration::from_millis(300 * (seed % 8)));
        scene.world.publish(vec![audio_input(), simulcast_input()]);
        let frame = scene.publisher.frame;
        let codec = scene.publisher.codec;
        scene.publisher = Simulcast { codec, frame, ..Simulcast::new(&mut scene.random) };
        scene.play(60);
        for (layer, id) in ids.iter().enumerate() {
            assert_eq!(scene.layer_of(*id), (Layer::of(layer as u8), Layer::of(layer as u8)), "seed {seed}");
            let layers = decoded(scene.world.video(layer as u64 + 1));
            assert_eq!(layers.last(), Some(&layer), "seed {seed}");
        }
    }
}

#[test]
fn a_publisher_with_one_encoding_gives_it_to_viewers_with_any_target() {
    let mut scene = Scene::new(6);
    let id = scene.world.join(1);
    scene.play(60);
    scene.set(id, Layer::of(2));
    scene.play(30);
    scene.world.publish(vec![audio_input(), video_input()]);
    for at in 0..50 {
        scene.world.receive(&frame(at, u32::from(at) * 3_600, at == 0)).unwrap();
        scene.world.wait(FRAME);
    }
    assert_eq!(scene.layer_of(id).1, Layer::of(2));
    let numbers = scene.world.numbers(1);
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)));
    assert!(numbers.len() > 250, "it gets what there is");
}

#[test]
fn a_new_viewer_with_a_target_begins_with_the_cached_key_frame_of_that() {
    let mut scene = Scene::new(8);
    let first = scene.world.join(1);
    scene.play(60);
    scene.set(first, Layer::of(0));
    scene.play(30);
    scene.requests.clear();
    let second = scene.world.stream.join(scene.world.now, &viewer(2)).unwrap();
    scene.set(second, Layer::of(0));
    scene.world.settle();
    assert!(!scene.world.video(2).is_empty(), "at once");
    scene.play(30);
    assert_eq!(decoded(scene.world.video(2)), [0]);
    assert_eq!(scene.requests, [], "no key frame was needed");
    // Of a layer that nobody gets there is nothing yet, and it is asked for.
    let third = scene.world.stream.join(scene.world.now, &viewer(3)).unwrap();
    scene.set(third, Layer::of(1));
    assert_eq!(scene.world.video(3), []);
    scene.play(30);
    assert_eq!(decoded(scene.world.video(3)), [1]);
    assert_eq!(scene.requests, [SSRCS[1]]);
}

#[test]
fn key_frame_requests_of_a_viewer_go_to_the_layer_it_gets() {
    let mut scene = Scene::new(9);
    let id = scene.world.join(1);
    scene.play(60);
    scene.set(id, Layer::of(1));
    scene.play(30);
    scene.requests.clear();
    scene.world.viewer_says(id, |rtcp| Pli { sender_ssrc: 5, media_ssrc: video_ssrc(1) }.write(rtcp));
    scene.play(5);
    assert_eq!(scene.requests, [SSRCS[1]]);
}

#[test]
fn thousands_of_changes_leave_nothing_behind() {
    let mut scene = Scene::new(10);
    let id = scene.world.join(1);
    scene.play(60);
    let before = scene.world.stream.stats().cached_memory_bytes;
    for change in 0..10_000_u32 {
        scene.set(id, Layer::of((change % 3) as u8));
        scene.publisher.key.extend([0, 1, 2]);
        scene.play(1);
        scene.world.got.clear();
    }
    scene.play(5);
    assert!(scene.world.stream.is_within_limits());
    let during = scene.world.stream.stats().cached_memory_bytes;
    assert!(during < 5 * before, "{before} before, {during} with three renditions");
    scene.world.stream.leave(id);
    scene.play(60);
    let after = scene.world.stream.stats().cached_memory_bytes;
    assert!(after < before * 3 / 2, "{before} before, {after} after");
}

#[test]
fn layers_are_listed_from_the_least_bits_to_the_most() {
    let mut scene = Scene::new(11);
    scene.play(60);
    let layers = scene.world.stream.layers(scene.world.now, video());
    assert_eq!(layers.iter().map(|one| one.layer).collect::<Vec<_>>(), [0, 1, 2].map(Layer::of));
    for (one, bits) in layers.iter().zip([42_400, 204_800, 607_200]) {
        assert!(one.is_live);
        assert!(one.bits_per_second.abs_diff(bits) < bits / 10, "{one:?}");
    }
    scene.publisher.on = vec![0, 1];
    scene.play(30);
    let live: Vec<bool> =
        scene.world.stream.layers(scene.world.now, video()).iter().map(|one| one.is_live).collect();
    assert_eq!(live, [true, true, false]);
}

#[test]
fn without_rtx_packets_from_around_a_change_are_sent_again_byte_for_byte() {
    let mut scene = Scene::of_vp8(5, true);
    let mut input = viewer(1);
    input.tracks[1].rtx_ssrc = None;
    let id = scene.world.join_as(&input);
    scene.play(60);
    let mut again = 0;
    for layer in [Layer::of(0), Layer::of(2), Layer::of(1), Layer::BEST] {
        scene.set(id, layer);
        scene.play(30);
        let sent: Vec<(u16, Vec<u8>)> =
            scene.world.video(1).iter().map(|got| (got.number(), got.bytes.clone())).collect();
        for (number, bytes) in sent.iter().rev().take(60) {
            scene.world.wait(Duration::from_millis(1));
            let resent = scene.world.viewer_says(id, |rtcp| {
                _ = Nack::write(rtcp, 5, video_ssrc(1), &[*number]);
            });
            for resent in &resent {
                assert!(resent.is_same());
                assert_eq!(&written(resent), bytes, "{number} at {layer:?}");
                again += 1;
            }
        }
    }
    assert!(again > 40, "{again}");
}
