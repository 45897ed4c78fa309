//! Times: composition times, fractions of milliseconds, and the reports that tie both tracks together.

use std::time::Duration;

use bridge::clock::ClockMappings;

use crate::frame_to_rtp::Rig;

fn vp8(time_ns: Option<u32>) -> Vec<u8> {
    let head = match time_ns {
        None => b"\xa1vp08".to_vec(),
        Some(ns) => [&[0xa7, 2][..], &ns.to_be_bytes()[1..], b"\x01vp08"].concat(),
    };
    [&head[..], &[0x10, 0, 0, 0x9d, 1, 0x2a, 0, 1, 0, 1, 9]].concat()
}

#[test]
fn nanoseconds_are_added_to_the_time() {
    for (ns, units) in
        [(None, 0), (Some(0), 0), (Some(500_000), 45), (Some(999_999), 90), (Some(0xff_ffff), 90)]
    {
        let mut rig = Rig::new();
        let sent = rig.video(1_000, &vp8(ns));
        let off = sent[0].timestamp - 90_000;
        assert!(off.abs_diff(units) <= 1, "{ns:?}: {off}");
    }
}

#[test]
fn reports_tell_one_time_of_both_tracks_by_their_clocks() {
    let mut rig = Rig::new();
    assert_eq!(rig.bridge.report(rig.start), ClockMappings::default(), "nothing to report");
    assert_eq!(rig.bridge.next_timeout(), None);
    let mut seen = Vec::new();
    for index in 0..100u64 {
        let time_ms = 40 * index;
        rig.video(time_ms, &vp8(None));
        if index > 0 {
            rig.audio(time_ms, &[&b"\x91Opus"[..], &[0xfd, 1, 2]].concat());
        }
        let now = rig.at(time_ms);
        let is_news = index <= 1;
        assert!(!is_news || rig.bridge.next_timeout() == Some(now), "a track has begun");
        let mappings = rig.bridge.report(now);
        if mappings != ClockMappings::default() {
            assert!(mappings.video.into_iter().chain(mappings.audio).all(|mapping| mapping.at == now));
            assert!(rig.bridge.next_timeout().unwrap() > now);
            seen.push((time_ms, mappings, rig.bridge.stats().packets));
        }
    }
    assert!(seen[0].1.video.is_some() && seen[0].1.audio.is_none(), "the track that has begun");
    assert!(
        seen[1].0 == 40 && seen[1].1.video.is_some() && seen[1].1.audio.is_some(),
        "and the other one at once when it has"
    );
    for pair in seen[1..].windows(2) {
        assert_eq!(pair[1].0 - pair[0].0, 1_000);
    }
    for (time_ms, mappings, packets) in &seen[1..] {
        let at = |rate: u64| (time_ms * rate / 1_000) as u32;
        let (video, audio) = (mappings.video.unwrap(), mappings.audio.unwrap());
        assert!(video.timestamp.abs_diff(at(90_000)) <= 90, "{video:?} at {time_ms}");
        assert!(audio.timestamp.abs_diff(at(48_000)) <= 48, "{audio:?} at {time_ms}");
        assert_eq!(*packets, 2 * (time_ms / 40) + 1);
    }
    assert!(Duration::from_millis(seen.last().unwrap().0) > Duration::from_secs(3));
}

#[test]
fn composition_times_no_encoder_has_count_as_nothing() {
    let tags: Vec<_> = crate::frame_to_rtp::demo_tags()
        .into_iter()
        .filter(|(.., body)| body[0] & 0x8f == 0x07)
        .take(2)
        .collect();
    for (composition_ms, expected) in
        [(0i32, 0), (80, 80), (-80, -80), (2_000, 2_000), (2_001, 0), (-8_000_000, 0)]
    {
        let mut rig = Rig::new();
        rig.video(0, &tags[0].2);
        let mut key = tags[1].2.clone();
        key[2..5].copy_from_slice(&composition_ms.to_be_bytes()[1..]);
        let sent = rig.video(10_000, &key);
        assert_eq!(sent[0].timestamp as i32, (10_000 + expected) * 90, "{composition_ms}");
    }
}
