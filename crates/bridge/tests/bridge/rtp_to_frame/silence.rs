//! Audio has no holes: lost packets, discontinuous transmission and a microphone that was switched
//! off are filled.

use std::collections::VecDeque;

use rtp::payload::opus::Toc;
use rtp::payload::{Codec, MediaKind};

use crate::rtp_to_frame::{OPUS, Rig, VP8_INTER, VP8_KEY};

/// Checks that every piece begins where the one before ends, to the millisecond of FLV; returns the
/// length of all.
fn assert_continuous(rig: &Rig) -> u64 {
    let pieces = rig.audio_frames();
    let begin = u64::from(pieces[0].0);
    let mut end_samples = 0;
    for (at, (time_ms, data)) in pieces.iter().enumerate() {
        let expected_ms = begin + end_samples / 48;
        assert!(expected_ms.abs_diff(u64::from(*time_ms)) <= 1, "piece {at} at {time_ms}, not {expected_ms}");
        let toc = Toc::parse(data).expect("an Opus packet");
        assert!(!toc.silence, "not every decoder takes a packet without data");
        end_samples += u64::from(toc.samples);
    }
    end_samples / 48
}

#[test]
fn a_lost_packet_is_filled() {
    let mut rig = Rig::new(Codec::Vp8);
    for at in 0..200 {
        match at % 20 {
            7 | 8 => drop(rig.take_number(MediaKind::Audio)),
            _ => rig.audio(at * 20, &OPUS),
        }
    }
    rig.run_until(5_000);
    assert_eq!(assert_continuous(&rig), 4_000);
    assert_eq!(rig.bridge.stats().lost, 20);
}

#[test]
fn discontinuous_transmission_is_filled_as_time_goes_by() {
    let mut rig = Rig::new(Codec::Vp8);
    (0..50).for_each(|at| rig.audio(at * 20, &OPUS));
    // From here a packet of one byte every 400 ms.
    (0..10).for_each(|at| rig.audio(1_000 + at * 400, &[0x78]));
    rig.run_until(4_990);
    let so_far = assert_continuous(&rig);
    assert!(so_far >= 4_860, "{so_far} ms at 4,990: players do not wait for audio");
    (0..50).for_each(|at| rig.audio(5_000 + at * 20, &OPUS));
    assert_eq!(assert_continuous(&rig), 6_000);
    let spoken = rig.audio_frames().into_iter().filter(|(_, data)| *data == OPUS).count();
    assert_eq!(spoken, 100, "nothing that was said is lost");
    assert_eq!(rig.bridge.stats().late, 0);
}

/// Packets of 20 ms of audio and a picture each, captured from 0 on. `arrives_ms` says when the audio that
/// was captured at a time comes, if at all; pictures come at once.
fn beside_pictures(until_ms: u64, arrives_ms: impl Fn(u64) -> Option<u64>) -> Rig {
    let mut rig = Rig::new(Codec::Vp8);
    let mut on_its_way = VecDeque::new();
    for ms in (0..until_ms).step_by(20) {
        rig.video(ms, if ms == 0 { &VP8_KEY } else { &VP8_INTER }, true);
        on_its_way.extend(arrives_ms(ms).map(|arrives_ms| (arrives_ms, ms)));
        while let Some((arrives_ms, captured_ms)) = on_its_way.pop_front_if(|(at, _)| *at <= ms) {
            let number = rig.take_number(MediaKind::Audio);
            rig.arrive(arrives_ms.max(ms), MediaKind::Audio, number, captured_ms, &OPUS, false);
        }
    }
    rig
}

/// Stream times of what was said, in order.
fn spoken(rig: &Rig) -> Vec<u32> {
    rig.audio_frames().into_iter().filter(|(_, data)| *data == OPUS).map(|(ms, _)| ms).collect()
}

#[test]
fn a_microphone_that_is_switched_off_while_video_goes_on_is_filled() {
    // For 26 s, and twice for 5 s.
    let is_off = |ms| matches!(ms, 2_000..28_000 | 30_000..35_000 | 37_000..42_000);
    let mut behind = Vec::new();
    let mut rig = Rig::new(Codec::Vp8);
    for ms in (0..45_000).step_by(20) {
        rig.video(ms, if ms == 0 { &VP8_KEY } else { &VP8_INTER }, true);
        if !is_off(ms) {
            rig.audio(ms, &OPUS);
        }
        let audio_ms = rig.audio_frames().last().map_or(0, |(ms, _)| *ms);
        behind.push(rig.pictures().last().unwrap().1.saturating_sub(audio_ms));
    }
    assert_eq!(assert_continuous(&rig), 45_000);
    assert_eq!(rig.bridge.stats().late, 0);
    // It may just be late at first; each silence makes that less likely.
    let most = |from_ms: usize, to_ms: usize| *behind[from_ms / 20..to_ms / 20].iter().max().unwrap();
    assert!(most(2_000, 4_020) <= 2_100);
    assert!(most(4_040, 28_000) <= 600, "silence goes on without a pause");
    assert!(most(30_000, 35_000) <= 1_100);
    assert!(most(37_000, 42_000) <= 600);
}

#[test]
fn audio_that_is_held_up_alone_keeps_its_times() {
    // In one burst behind a second and a half without, and in bursts of a second from the first on.
    let burst: fn(u64) -> u64 = |ms| if (3_000..4_500).contains(&ms) { 4_500 } else { ms };
    for arrives_ms in [burst, |ms| (ms / 1_000 + 1) * 1_000] {
        let rig = beside_pictures(12_000, |ms| Some(arrives_ms(ms)));
        assert_eq!(rig.bridge.stats().late, 0);
        let spoken = spoken(&rig);
        assert!(spoken.len() >= 550, "{}", spoken.len());
        assert_eq!(spoken.len(), rig.audio_frames().len(), "there was no silence");
        assert!(spoken.windows(2).all(|pair| (pair[1] - pair[0]).abs_diff(20) <= 1));
    }
}

#[test]
fn a_hole_that_ends_just_before_silence_would_begin_is_filled() {
    // The last packet before it comes 300 ms late, from which on is waited.
    let arrives_ms = |ms| match ms {
        1_980 => Some(2_280),
        2_000..4_200 => None,
        _ => Some(ms),
    };
    assert_eq!(assert_continuous(&beside_pictures(8_000, arrives_ms)), 8_000);
}

#[test]
fn audio_whose_clock_is_set_back_leaves_silence() {
    let mut rig = Rig::new(Codec::Vp8);
    for ms in (0..30_000).step_by(20) {
        rig.video(ms, if ms == 0 { &VP8_KEY } else { &VP8_INTER }, true);
        let captured_ms = if ms < 12_000 { ms } else { ms - 8_000 };
        let number = rig.take_number(MediaKind::Audio);
        rig.arrive(ms, MediaKind::Audio, number, captured_ms, &OPUS, false);
        let audio_ms = rig.audio_frames().last().map_or(0, |(ms, _)| *ms);
        let behind = rig.pictures().last().unwrap().1.saturating_sub(audio_ms);
        assert!(behind <= 2_600, "{behind} ms at {ms}");
    }
    assert_continuous(&rig);
}

#[test]
fn audio_that_is_late_from_some_time_on_is_heard_again() {
    // Silence was filled before it came, and more of it would come before each packet.
    let rig = beside_pictures(20_000, |ms| Some(if ms < 5_000 { ms } else { ms + 2_600 }));
    let spoken = spoken(&rig);
    let came = (20_000 - 2_600) / 20;
    let lost = came - spoken.len();
    assert!(lost <= 110, "{lost} of {came} packets had their time filled");
    assert_eq!(rig.bridge.stats().late, lost as u64);
    assert_continuous(&rig);
}

#[test]
fn silence_waits_for_late_audio_again_once_some_was_lost() {
    // Three times switched off, so that silence is filled after half a second; then it is held up for a
    // second, time and again.
    let is_off = |ms| matches!(ms, 2_000..5_000 | 6_000..9_000 | 10_000..13_000);
    let held_up = |ms: u64| (ms >= 15_000 && ms % 3_000 < 1_000).then_some((ms / 3_000) * 3_000 + 1_000);
    let rig = beside_pictures(30_000, |ms| (!is_off(ms)).then(|| held_up(ms).unwrap_or(ms)));
    let late = rig.bridge.stats().late;
    assert!((1..=30).contains(&late), "{late} packets, all of the first time");
    assert_eq!(assert_continuous(&rig), 30_000);
}

#[test]
fn a_publisher_that_is_gone_is_not_filled_for() {
    let mut rig = Rig::new(Codec::Vp8);
    rig.video(0, &VP8_KEY, true);
    (0..10).for_each(|at| rig.audio(at * 20, &OPUS));
    rig.audio(200, &[0x78]);
    rig.run_until(60_000);
    let length = assert_continuous(&rig);
    assert!(length <= 2_400, "{length} ms");
    assert_eq!(rig.bridge.next_timeout(), None, "and nothing is due any more");
}

#[test]
fn a_publisher_that_stood_still_is_heard_again() {
    // For 5 s, and goes on where it was, 5 s late from then on: whichever track comes first. Silence is what
    // was filled in while the picture had not stopped yet, no more.
    for video_first in [true, false] {
        let mut rig = Rig::new(Codec::Vp8);
        for at in 0..200u64 {
            let captured = at * 20;
            let ms = if at < 50 { captured } else { captured + 5_000 };
            let mut send = |kind| {
                let number = rig.take_number(kind);
                let picture = if at == 0 { &VP8_KEY[..] } else { &VP8_INTER };
                let payload = if kind == MediaKind::Video { picture } else { &OPUS };
                rig.arrive(ms, kind, number, captured, payload, kind == MediaKind::Video);
            };
            let kinds = [MediaKind::Video, MediaKind::Audio];
            kinds.into_iter().for_each(|kind| send(if video_first { kind } else { other(kind) }));
        }
        let spoken = rig.audio_frames().into_iter().filter(|(_, data)| *data == OPUS).count();
        assert!(spoken >= 175, "{spoken} of 200 packets are heard, video first: {video_first}");
        assert_eq!(assert_continuous(&rig), 4_000);
        let shown: Vec<_> = rig.pictures().iter().map(|(_, ms, _)| *ms).collect();
        assert!(shown.windows(2).all(|pair| (pair[1] - pair[0]).abs_diff(20) <= 1), "{shown:?}");
    }
}

fn other(kind: MediaKind) -> MediaKind {
    if kind == MediaKind::Video { MediaKind::Audio } else { MediaKind::Video }
}

#[test]
fn audio_that_was_off_for_long_resumes_at_its_time() {
    let mut rig = Rig::new(Codec::Vp8);
    (0..10).for_each(|at| rig.audio(at * 20, &OPUS));
    (0..10).for_each(|at| rig.audio(60_000 + at * 20, &OPUS));
    let pieces = rig.audio_frames();
    assert_eq!(pieces.len(), 20, "nobody waits for a minute of silence");
    assert!((pieces[10].0 - pieces[9].0).abs_diff(60_000 - 180) <= 40);
}

#[test]
fn longer_pauses_of_other_lengths_of_packets_are_filled_too() {
    // 60 ms of SILK, 10 ms of CELT, twice 20 ms.
    for (toc, data, ms) in [(0x18, &[1, 2, 3][..], 60), (0xf0, &[1, 2, 3], 10), (0x79, &[1, 2, 3, 4], 40)] {
        let packet = [&[toc][..], data].concat();
        let mut rig = Rig::new(Codec::Vp8);
        (0..20).for_each(|at| rig.audio(at * ms, &packet));
        rig.audio(20 * ms, &[toc & 0xfc]);
        (0..20).for_each(|at| rig.audio(1_200 + at * ms, &packet));
        assert_eq!(assert_continuous(&rig), 1_200 + 20 * ms, "{toc:x}");
    }
}

#[test]
fn holes_in_g711_are_filled_with_its_zero() {
    for (codec, zero) in [(Codec::Pcmu, 0xff), (Codec::Pcma, 0xd5)] {
        let mut rig = Rig::new(Codec::Vp8);
        rig.audio = codec;
        for at in 0..50 {
            match at {
                20..23 => drop(rig.take_number(MediaKind::Audio)),
                _ => rig.audio(at * 20, &[at as u8; 160]),
            }
        }
        let pieces = rig.audio_frames();
        assert_eq!(pieces.len(), 50, "{codec:?}");
        assert!(pieces[20..23].iter().all(|(_, data)| *data == [zero; 160]), "{codec:?}");
        assert!(pieces.windows(2).all(|pair| (pair[1].0 - pair[0].0).abs_diff(20) <= 1), "{codec:?}");
    }
}
