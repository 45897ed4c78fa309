//! Whatever frames come, in whatever order and at whatever times, what goes out is sound: the checks of
//! `stream.rs` and `boxes.rs`, and that no frame of a sane stream is lost.

use cmaf::Settings;
use media::{Codec, FrameRole, Timestamp, TrackId};
use proptest::prelude::*;

use crate::stream::{AAC, AVCC, Stream, avc_config, frame, picture, sound};

#[derive(Debug, Clone)]
enum Step {
    Picture { millis: i64, offset: i64, is_key: bool },
    Sound { millis: i64 },
    Config { is_video: bool, is_other: bool },
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let advance = prop_oneof![
        20 => 0_i64..60,
        2 => -400_i64..0,
        1 => 0_i64..5_000,
        1 => -100_000_i64..100_000,
        1 => any::<i32>().prop_map(i64::from),
    ];
    let offset = prop_oneof![4 => 0_i64..120, 1 => -200_i64..200, 1 => any::<i32>().prop_map(i64::from)];
    let step = prop_oneof![
        30 => (advance.clone(), offset, prop::bool::weighted(0.05))
            .prop_map(|(millis, offset, is_key)| Step::Picture { millis, offset, is_key }),
        30 => advance.prop_map(|millis| Step::Sound { millis }),
        1 => any::<(bool, bool)>().prop_map(|(is_video, is_other)| Step::Config { is_video, is_other }),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_input_makes_unsound_output(
        steps in steps(),
        has_video: bool,
        has_audio: bool,
        waiting in 1_usize..300,
    ) {
        let mut stream = Stream::new(Settings { waiting_frames: waiting, ..Settings::default() });
        let config = |is_video: bool, is_other: bool| {
            let zero = (Timestamp::ZERO, Timestamp::ZERO);
            if is_video {
                let record = [&AVCC[..2], &[if is_other { 0xc1 } else { 0xc0 }], &AVCC[3..]].concat();
                frame(TrackId::VIDEO, FrameRole::Config, Codec::H264, zero, &record)
            } else {
                let record = if is_other { b"\x12\x10" } else { AAC };
                frame(TrackId::AUDIO, FrameRole::Config, Codec::Aac, zero, record)
            }
        };
        if has_video {
            stream.push(config(true, false));
        }
        if has_audio {
            stream.push(config(false, false));
        }
        let mut now = 1_000_i64;
        for step in steps {
            match step {
                Step::Picture { millis, offset, is_key } => {
                    now = now.saturating_add(millis);
                    let dts = Timestamp::from_millis(now);
                    stream.push(picture(dts, dts + Timestamp::from_millis(offset), is_key));
                }
                Step::Sound { millis } => {
                    now = now.saturating_add(millis);
                    stream.push(sound(Timestamp::from_millis(now)));
                }
                Step::Config { is_video, is_other } => stream.push(config(is_video, is_other)),
                Step::Restart => stream.restart(),
            }
        }
        stream.finish();
    }

    #[test]
    fn a_sane_stream_loses_nothing(
        rate in 1_i64..=120,
        gop in 1_i64..300,
        audio_ahead in -600_i64..600,
        begin in 0_i64..1_000_000_000,
        interval in prop::option::of(1_i64..12_000),
    ) {
        let key_frame_interval = interval.map(Timestamp::from_millis);
        let mut stream = Stream::new(Settings { key_frame_interval, ..Settings::default() });
        stream.push(avc_config());
        stream.push(crate::stream::aac_config());
        let mut frames = Vec::new();
        let pictures = 10 * rate;
        for index in 0..pictures {
            let time = Timestamp::from_millis(begin + 1_000 + index * 1000 / rate);
            frames.push((time, picture(time, time, index % gop == 0)));
        }
        // The same times, in the order of an interleaving that is off.
        for index in 0..10 * 48_000 / 1024 {
            let time = Timestamp::from_millis(begin + 1_000 + index * 1024 * 1000 / 48_000);
            frames.push((time - Timestamp::from_millis(audio_ahead), sound(time)));
        }
        frames.sort_by_key(|(order, _)| *order);
        for (_, frame) in frames {
            stream.push(frame);
        }
        stream.finish();
        prop_assert_eq!(stream.segmenter.counters().jumps, 0);
        let count = |id| {
            let segments = stream.track(id).segments.iter();
            segments.flat_map(|segment| segment.samples()).count() as i64
        };
        prop_assert_eq!(count(TrackId::VIDEO), pictures);
        prop_assert_eq!(count(TrackId::AUDIO), 10 * 48_000 / 1024);
        let (video, audio) = (stream.track(TrackId::VIDEO), stream.track(TrackId::AUDIO));
        prop_assert_eq!(
            video.segments.iter().map(|segment| segment.start.msn).collect::<Vec<_>>(),
            audio.segments.iter().map(|segment| segment.start.msn).collect::<Vec<_>>()
        );
    }
}
