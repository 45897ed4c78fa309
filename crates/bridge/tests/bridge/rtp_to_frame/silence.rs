//! Audio has no holes: lost packets, discontinuous transmission and a microphone that was switched
//! off are filled.

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

#[test]
fn a_microphone_that_is_switched_off_while_video_goes_on_is_filled() {
    let mut rig = Rig::new(Codec::Vp8);
    for at in 0..1_500u64 {
        let ms = at * 20;
        rig.video(ms, if at == 0 { &VP8_KEY } else { &VP8_INTER }, true);
        if !(100..1_400).contains(&at) {
            rig.audio(ms, &OPUS);
        }
        if at > 200 {
            let (audio_ms, _) = *rig.audio_frames().last().unwrap();
            let (_, video_ms, _) = *rig.pictures().last().unwrap();
            assert!(video_ms.saturating_sub(audio_ms) <= 600, "{audio_ms} behind {video_ms}");
        }
    }
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
