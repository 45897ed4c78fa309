//! Packets that overtook each other make no difference, and nothing waits while nothing is missing.

use rtp::payload::{Codec, MediaKind};

use crate::rtp_to_frame::{Rig, VP8_INTER, VP8_KEY};

/// Frame `at` in three packets.
fn frame(at: u64) -> [Vec<u8>; 3] {
    let first = if at == 0 { VP8_KEY.to_vec() } else { VP8_INTER.to_vec() };
    [first, vec![0, at as u8, 1], vec![0, at as u8, 2]]
}

#[test]
fn order_of_arrival_within_the_delay_changes_nothing() {
    let mut expected = Rig::new(Codec::Vp8);
    let mut packets = Vec::new();
    for at in 0..60 {
        for (part, payload) in frame(at).into_iter().enumerate() {
            packets.push((at * 33, payload.clone(), part == 2));
            expected.video(at * 33, &payload, part == 2);
        }
    }
    let mut random = 1u64;
    for round in 0..20 {
        let mut rig = Rig::new(Codec::Vp8);
        let mut arrivals: Vec<_> = (0..packets.len())
            .map(|index| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // The first decides where the stream begins.
                let late = if index == 0 { 0 } else { (random >> 33) % 240 };
                (packets[index].0 + late, index)
            })
            .collect();
        arrivals.sort_unstable();
        for (ms, index) in arrivals {
            let (captured_ms, payload, marker) = &packets[index];
            rig.arrive(ms, MediaKind::Video, index as u64, *captured_ms, payload, *marker);
        }
        let stats = rig.bridge.stats();
        assert_eq!((stats.lost, stats.late, stats.broken), (0, 0, 0), "round {round}");
        let data = |rig: &Rig| {
            rig.pictures().into_iter().map(|(is_key, _, data)| (is_key, data.to_vec())).collect::<Vec<_>>()
        };
        assert_eq!(data(&rig), data(&expected), "round {round}");
        let times: Vec<_> = rig.pictures().into_iter().map(|(_, time_ms, _)| time_ms).collect();
        assert!(times.is_sorted(), "round {round}");
    }
}

#[test]
fn a_frame_is_out_with_its_last_packet() {
    let mut rig = Rig::new(Codec::Vp8);
    for at in 0..100 {
        for (part, payload) in frame(at).into_iter().enumerate() {
            assert_eq!(rig.pictures().len() as u64, at);
            rig.video(at * 33, &payload, part == 2);
        }
        assert_eq!(rig.pictures().len() as u64, at + 1);
        assert_eq!(rig.bridge.stats().video_latency, Some(std::time::Duration::ZERO));
    }
}

#[test]
fn a_frame_without_a_marker_ends_with_the_next_timestamp() {
    let mut rig = Rig::new(Codec::Vp8);
    rig.video(0, &VP8_KEY, false);
    assert_eq!(rig.pictures().len(), 0);
    rig.video(33, &VP8_INTER, false);
    assert_eq!(rig.pictures().len(), 1);
    rig.video(66, &VP8_INTER, true);
    assert_eq!(rig.pictures().len(), 3);
    assert_eq!(rig.bridge.stats().broken, 0);
}
