//! Durations of parts and segments, and times of samples.

use cmaf::Settings;
use media::{Codec, FrameRole, Timestamp, TrackId};

use crate::stream::{Stream, aac_config, avc_config, frame, picture, picture_at, publish, sound};

fn stream_of(per_second: i64, gop: i64, seconds: i64) -> Stream {
    let mut stream = Stream::new(Settings::default());
    stream.push(avc_config());
    stream.push(aac_config());
    publish(&mut stream, 5_000, 5_000 + seconds * 1000, per_second, gop);
    stream
}

#[test]
fn parts_are_as_long_as_whole_frames_allow() {
    for per_second in [5, 8, 10, 12, 15, 20, 24, 25, 30, 48, 50, 60, 120] {
        let mut stream = stream_of(per_second, 2 * per_second, 9);
        stream.finish();
        for track in &stream.tracks {
            let target = track.inits[0].0.part_target;
            assert!((150..=270).contains(&target.millis()), "{per_second} Hz: {target:?}");
            for segment in &track.segments {
                let (_, others) = segment.parts.split_last().unwrap();
                for (part, _) in others {
                    let share = part.duration.units() as f64 / target.units() as f64;
                    assert!((0.85..=1.0).contains(&share), "{per_second} Hz, {:?}: {share}", track.id);
                }
            }
        }
        assert_eq!(stream.segmenter.counters().parts_over_target, 0);
    }
}

#[test]
fn segments_of_all_renditions_begin_together_at_key_frames() {
    let mut stream = stream_of(25, 50, 20);
    stream.finish();
    let (video, audio) = (stream.track(TrackId::VIDEO), stream.track(TrackId::AUDIO));
    assert_eq!((video.segments.len(), audio.segments.len()), (10, 10));
    for (pictures, sounds) in video.segments.iter().zip(&audio.segments) {
        assert_eq!(pictures.start.msn, sounds.start.msn);
        let ahead = sounds.start.presented - pictures.start.presented;
        assert!((0..22).contains(&ahead.millis()), "sound begins within a frame: {ahead:?}");
        assert!(pictures.parts[0].0.independent);
        assert_eq!(pictures.duration(), Timestamp::from_millis(2_000));
    }
    assert_eq!(stream.segmenter.target_duration(), Some(2));
    assert_eq!(stream.segmenter.counters(), cmaf::Counters::default());
}

#[test]
fn audio_does_not_drift_although_its_container_counts_milliseconds() {
    let mut stream = stream_of(25, 50, 120);
    stream.finish();
    let audio = stream.track(TrackId::AUDIO);
    let samples: Vec<_> = audio.segments.iter().flat_map(|segment| segment.samples()).collect();
    assert_eq!(samples.len(), 120 * 48_000 / 1024);
    assert!(samples.iter().all(|sample| sample.duration == 1024));
    assert!(samples.windows(2).all(|pair| pair[0].dts + 1024 == pair[1].dts));
}

#[test]
fn pictures_of_30000_by_1001_hertz_are_exact() {
    let mut stream = Stream::new(Settings::default());
    stream.push(avc_config());
    let at = |index: i64| Timestamp::from_ticks(index * 1001, 30_000);
    for index in 0..300 {
        stream.push(picture(at(index), at(index + 1), index % 60 == 0));
    }
    stream.finish();
    let video = stream.track(TrackId::VIDEO);
    for sample in video.segments.iter().flat_map(|segment| segment.samples()) {
        assert_eq!((sample.duration, sample.pts - sample.dts), (3003, 3003));
    }
}

#[test]
fn b_frames_keep_their_times_before_and_behind_decoding() {
    let mut stream = Stream::new(Settings::default());
    stream.push(avc_config());
    // Decoding order I P B B: shown at 0, 3, 1, 2; without a delay, so that offsets are below zero.
    let mut expected = Vec::new();
    for index in 0..120_i64 {
        let shown = index / 4 * 4 + [0, 3, 1, 2][index as usize % 4];
        let time = |index: i64| Timestamp::from_millis(index * 40);
        stream.push(picture(time(index), time(shown), index % 60 == 0));
        expected.push(shown * 3600);
    }
    stream.finish();
    let video = stream.track(TrackId::VIDEO);
    let shown: Vec<_> =
        video.segments.iter().flat_map(|segment| segment.samples()).map(|sample| sample.pts).collect();
    assert_eq!(shown, expected);
}

#[test]
fn short_gops_are_gathered_into_segments() {
    for (gop, pictures, target) in [(5, 50, 2), (13, 52, 2), (37, 37, 2), (60, 60, 3), (74, 74, 3)] {
        let mut stream = stream_of(25, gop, 30);
        stream.finish();
        let video = stream.track(TrackId::VIDEO);
        for segment in &video.segments[1..video.segments.len() - 1] {
            assert_eq!(segment.samples().count(), pictures, "gop {gop}");
        }
        assert_eq!(stream.segmenter.target_duration(), Some(target), "gop {gop}");
    }
}

#[test]
fn long_gops_are_segments_and_their_parts_go_on() {
    let mut stream = stream_of(25, 250, 41);
    let video = stream.track(TrackId::VIDEO);
    assert_eq!(video.segments.last().unwrap().parts.len(), 4, "one second of the newest segment is out");
    stream.finish();
    let video = stream.track(TrackId::VIDEO);
    let durations: Vec<_> = video.segments.iter().map(|segment| segment.duration().millis()).collect();
    assert_eq!(durations, [10_000, 10_000, 10_000, 10_000, 1_000]);
    assert_eq!(stream.segmenter.target_duration(), Some(12), "announced before the second key frame came");
    let settings =
        Settings { key_frame_interval: Some(Timestamp::from_millis(10_000)), ..Settings::default() };
    let mut stream = Stream::new(settings);
    stream.push(avc_config());
    publish(&mut stream, 0, 1_000, 25, 250);
    assert_eq!(stream.segmenter.target_duration(), Some(10), "known from before");
}

#[test]
fn a_gop_longer_than_announced_is_cut_and_a_key_frame_asked_for() {
    let mut stream = stream_of(25, 50, 4);
    assert!(!stream.segmenter.wants_key_frame());
    stream.push(picture_at(9_000, true));
    for millis in (9_040..20_000).step_by(40) {
        stream.push(picture_at(millis, false));
    }
    assert!(stream.segmenter.wants_key_frame());
    stream.finish();
    assert_eq!(stream.segmenter.target_duration(), Some(2));
    assert_eq!(stream.segmenter.counters().segments_cut, 4);
    let video = stream.track(TrackId::VIDEO);
    assert!(video.segments.last().unwrap().parts.iter().all(|(part, _)| !part.independent));
}

#[test]
fn audio_alone_has_segments_by_time() {
    let mut stream = Stream::new(Settings::default());
    stream.push(aac_config());
    for index in 0..1000 {
        stream.push(sound(Timestamp::from_ticks(index * 1024, 48_000)));
    }
    stream.finish();
    let audio = stream.track(TrackId::AUDIO);
    assert_eq!(audio.segments.len(), 11);
    for segment in &audio.segments[..10] {
        assert_eq!(segment.samples().count(), 94);
    }
    assert_eq!(stream.segmenter.target_duration(), Some(2));
}

#[test]
fn the_first_pictures_are_out_before_their_segment_is_complete() {
    let mut stream = stream_of(25, 50, 1);
    assert_eq!(stream.track(TrackId::VIDEO).segments[0].parts.len(), 4);
    assert_eq!(stream.track(TrackId::AUDIO).segments[0].parts.len(), 4);
    stream.finish();
}

#[test]
fn equal_and_backward_times_never_give_absurd_durations() {
    let mut stream = Stream::new(Settings::default());
    stream.push(avc_config());
    for index in 0..400_i64 {
        let jitter = [0, 0, -90, 15, -90][index as usize % 5];
        stream.push(picture_at(1_000 + index * 40 + jitter, index % 50 == 0));
    }
    stream.finish();
    assert!(stream.segmenter.counters().times_moved > 0);
    let video = stream.track(TrackId::VIDEO);
    let longest = video.segments.iter().flat_map(|segment| segment.samples()).map(|sample| sample.duration);
    assert!(longest.max().unwrap() < 90 * 300);
    assert_eq!(video.segments.iter().flat_map(|segment| segment.samples()).count(), 400);
}

#[test]
fn a_clock_that_stands_still_is_carried_in_parts_of_bounded_size() {
    let mut stream = Stream::new(Settings::default());
    stream.push(avc_config());
    stream.push(picture_at(0, true));
    for _ in 0..5_000 {
        stream.push(picture_at(0, false));
    }
    stream.finish();
    let parts = &stream.track(TrackId::VIDEO).segments[0].parts;
    assert!(parts.len() >= 4 && parts.iter().all(|(_, chunk)| chunk.samples.len() <= 1024));
}

#[test]
fn parts_do_not_outgrow_their_bytes() {
    let settings = Settings { part_bytes: 10_000, ..Settings::default() };
    let mut stream = Stream::new(settings);
    stream.push(avc_config());
    for index in 0..50 {
        let time = Timestamp::from_millis(index * 40);
        let role = if index == 0 { FrameRole::Key } else { FrameRole::Inter };
        let bytes = if index == 20 { 10_001 } else { 4_000 };
        stream.push(frame(TrackId::VIDEO, role, Codec::H264, (time, time), &vec![7; bytes]));
    }
    stream.finish();
    assert_eq!(stream.segmenter.counters().frames_dropped, 1);
    for (part, _) in &stream.track(TrackId::VIDEO).segments[0].parts {
        assert!(part.bytes.len() <= 10_000 + 300);
    }
}
