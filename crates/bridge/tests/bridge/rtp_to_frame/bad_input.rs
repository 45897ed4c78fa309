//! Packets that make no sense are counted and change nothing for what comes after them.

use proptest::collection::vec;
use proptest::prelude::*;
use rtp::payload::{Codec, MediaKind};

use crate::rtp_to_frame::{OPUS, Rig, VP8_INTER, VP8_KEY};

/// Parameter sets and an IDR slice.
fn key_frame(rig: &mut Rig, ms: u64) {
    rig.video(ms, &[0x67, 0x42, 0xc0, 0x1e], false);
    rig.video(ms, &[0x68, 0xce], false);
    rig.video(ms, &[0x65, 0x88, 1], true);
}

#[test]
fn broken_h264_frames_are_counted_once_and_the_next_key_frame_is_shown() {
    let rows: [(&[&[u8]], &str); 9] = [
        (&[&[0x7c, 0x05, 1], &[0x7c, 0x45, 1]], "fragments without a start"),
        (&[&[0x7c, 0x85, 1], &[0x7c, 0x05, 1]], "fragments without an end"),
        (&[&[0x7c, 0x98, 0, 1, 0x65], &[0x7c, 0x58, 1]], "STAP-A inside FU-A"),
        (&[&[0x78, 0, 9, 0x65]], "a unit beyond the packet"),
        (&[&[0x78, 0, 0, 0, 1, 0x65]], "an empty unit"),
        (&[&[0x79, 0, 0, 0, 1, 0x65], &[0x79, 0]], "STAP-B"),
        (&[&[0x7a, 0, 0], &[0x7b, 0, 0]], "MTAP"),
        (&[&[0x7d, 0x85, 0, 0, 1]], "FU-B"),
        (&[&[0xff; 40]], "noise"),
    ];
    for (payloads, remark) in rows {
        let mut rig = Rig::new(Codec::H264);
        key_frame(&mut rig, 0);
        for (at, payload) in payloads.iter().enumerate() {
            rig.video(33, payload, at + 1 == payloads.len());
        }
        rig.video(66, &[0x41, 0x9a], true);
        assert_eq!(rig.bridge.stats().broken, 1, "{remark}");
        assert_eq!(rig.pictures().len(), 1, "{remark}: nothing that needs it");
        key_frame(&mut rig, 100);
        assert_eq!(rig.pictures().len(), 2, "{remark}");
    }
}

#[test]
fn parameter_sets_without_end_are_not_kept() {
    let mut rig = Rig::new(Codec::H264);
    for at in 0..200u16 {
        let [high, low] = at.to_be_bytes();
        rig.video(0, &[0x68, high, low], false);
    }
    rig.video(0, &[0x67, 0x42, 0xc0, 0x1e], false);
    rig.video(0, &[0x65, 0x88], true);
    assert!(rig.frames.is_empty());
    assert_eq!(rig.bridge.stats().broken, 1);
    key_frame(&mut rig, 33);
    assert_eq!(rig.pictures().len(), 1);
}

#[test]
fn audio_that_is_no_opus_is_left_out() {
    let mut rig = Rig::new(Codec::H264);
    for at in 0..20 {
        match at {
            5 => rig.audio(at * 20, &[0xff, 0x3f, 1]),
            6 => rig.audio(at * 20, &[0x83]),
            _ => rig.audio(at * 20, &OPUS),
        }
    }
    assert_eq!(rig.bridge.stats().broken, 2);
    assert_eq!(rig.audio_frames().len(), 20, "and filled");
}

#[test]
fn timestamps_that_jump_by_hours_keep_frames_in_order() {
    let mut rig = Rig::new(Codec::Vp8);
    let hour_ms = 3_600_000;
    let captured = [0, 33, 5 * hour_ms, 5 * hour_ms + 33, 10, 43, 9 * hour_ms];
    for (at, captured_ms) in captured.into_iter().enumerate() {
        let number = rig.take_number(MediaKind::Video);
        rig.arrive(at as u64 * 33, MediaKind::Video, number, captured_ms, &VP8_KEY, true);
    }
    let times: Vec<_> = rig.pictures().into_iter().map(|(_, time_ms, _)| time_ms).collect();
    assert_eq!(times.len(), captured.len());
    assert!(times.is_sorted(), "{times:?}");
    assert!(times.last().unwrap() - times[0] < 2_000, "{times:?}");
}

proptest! {
    /// Whatever arrives, frames can be read, decoding times never go back, and a clean beginning comes
    /// through.
    #[test]
    fn noise_in_any_order(
        codec in 0..5usize,
        packets in vec((vec(any::<u8>(), 0..40), 0..8u64, any::<bool>(), any::<bool>(), 0..90u64), 0..200),
    ) {
        let mut rig = Rig::new(rtp::payload::CODECS[codec]);
        let mut ms = 0;
        for (payload, jump, marker, is_video, passed) in packets {
            ms += passed;
            let kind = if is_video { MediaKind::Video } else { MediaKind::Audio };
            let slot = &mut rig.numbers[usize::from(is_video)];
            *slot += jump;
            let number = *slot - jump / 2;
            rig.arrive(ms, kind, number, ms, &payload, marker);
        }
        rig.run_until(ms + 1_000);
        for track in [MediaKind::Audio, MediaKind::Video] {
            let of_track = rig.frames.iter().filter(|frame| frame.track == track);
            let times: Vec<_> = of_track.map(|frame| { crate::rtp_to_frame::body(frame); frame.timestamp }).collect();
            prop_assert!(times.is_sorted());
        }
        let before = rig.pictures().len();
        rig.video = Codec::Vp8;
        rig.epoch += 1;
        rig.numbers[1] += 10_000;
        rig.video(ms + 2_000, &VP8_KEY, true);
        rig.video(ms + 2_033, &VP8_INTER, true);
        rig.run_until(ms + 3_000);
        prop_assert_eq!(rig.pictures().len(), before + 2);
    }
}
