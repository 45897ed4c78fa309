//! Restarts, jumps, changes of format, tracks that come late or stop.

use cmaf::{Refusal, Settings};
use media::{Codec, FrameRole, MediaKind, Timestamp, TrackId};

use crate::stream::{AVCC, Stream, aac_config, avc_config, frame, picture_at, publish, sound_at};

fn begun() -> Stream {
    let mut stream = Stream::new(Settings::default());
    stream.push(avc_config());
    stream.push(aac_config());
    publish(&mut stream, 1_000, 7_000, 25, 50);
    stream
}

/// Media sequence numbers of a rendition at which discontinuities are.
fn discontinuities(stream: &Stream, id: TrackId) -> Vec<u64> {
    let segments = &stream.track(id).segments;
    let pairs = segments.windows(2);
    let breaks =
        pairs.filter(|pair| pair[0].start.discontinuity_sequence != pair[1].start.discontinuity_sequence);
    breaks.map(|pair| pair[1].start.msn).collect()
}

#[test]
fn another_publisher_goes_on_behind_a_discontinuity() {
    let mut stream = begun();
    stream.restart();
    stream.push(avc_config());
    stream.push(aac_config());
    publish(&mut stream, 40, 4_040, 25, 50);
    stream.finish();
    for track in &stream.tracks {
        assert_eq!(track.segments.len(), 5);
        assert_eq!(discontinuities(&stream, track.id), [3]);
        assert_eq!(track.inits.len(), 1, "the same format needs no new init segment");
    }
}

#[test]
fn another_publisher_may_have_other_codecs_and_tracks() {
    let mut stream = begun();
    stream.restart();
    stream.push(avc_config());
    publish(&mut stream, 0, 4_000, 25, 50);
    stream.finish();
    let audio = stream.track(TrackId::AUDIO);
    assert_eq!(audio.segments.len(), 5);
    let gaps: Vec<_> = audio.segments.iter().map(|segment| segment.done.as_ref().unwrap().gap).collect();
    assert_eq!(gaps, [false, false, false, true, true], "audio that is not there any more is a gap");
}

#[test]
fn jumps_of_the_clock_are_discontinuities_and_no_holes() {
    for to in [3_600_000_i64, 2_500, 0] {
        let mut stream = begun();
        publish(&mut stream, to, to + 4_000, 25, 50);
        stream.finish();
        assert_eq!(stream.segmenter.counters().jumps, 1, "to {to}");
        for track in &stream.tracks {
            assert_eq!(discontinuities(&stream, track.id), [3], "to {to}");
            for pair in track.segments.windows(2) {
                let hole = pair[1].start.start - (pair[0].start.start + pair[0].duration());
                assert!((-1..100).contains(&hole.millis()), "to {to}: {hole:?}");
            }
        }
    }
}

#[test]
fn a_new_configuration_takes_effect_at_the_next_key_frame() {
    let mut stream = begun();
    let other = [&AVCC[..2], &[0xc1], &AVCC[3..]].concat();
    let zero = (Timestamp::ZERO, Timestamp::ZERO);
    stream.push(frame(TrackId::VIDEO, FrameRole::Config, Codec::H264, zero, &other));
    // The next key frame comes before the segment is as long as it should be.
    publish(&mut stream, 7_000, 7_400, 25, 500);
    publish(&mut stream, 7_400, 11_400, 25, 50);
    stream.finish();
    let video = stream.track(TrackId::VIDEO);
    assert_eq!(video.inits.iter().map(|(init, _)| init.number).collect::<Vec<_>>(), [0, 3]);
    assert_eq!(discontinuities(&stream, TrackId::VIDEO), [3]);
    assert_eq!(discontinuities(&stream, TrackId::AUDIO), [3], "in all renditions alike");
}

#[test]
fn a_repeated_configuration_changes_nothing() {
    let mut stream = begun();
    stream.push(avc_config());
    stream.push(aac_config());
    publish(&mut stream, 7_000, 9_000, 25, 50);
    stream.finish();
    assert!(stream.tracks.iter().all(|track| track.inits.len() == 1));
    assert_eq!(discontinuities(&stream, TrackId::VIDEO), [0; 0]);
}

#[test]
fn audio_with_another_configuration_waits_for_a_key_frame() {
    let mut stream = begun();
    publish(&mut stream, 7_000, 8_000, 25, 50);
    let zero = (Timestamp::ZERO, Timestamp::ZERO);
    // 44.1 kHz.
    stream.push(frame(TrackId::AUDIO, FrameRole::Config, Codec::Aac, zero, b"\x12\x10"));
    for millis in (8_000..14_000).step_by(40) {
        stream.push(picture_at(millis, millis % 2_000 == 1_000));
        for half in [0, 20] {
            stream.push(sound_at(millis + half));
        }
    }
    assert_eq!(stream.track(TrackId::AUDIO).inits.len(), 2);
    stream.finish();
    let audio = stream.track(TrackId::AUDIO);
    assert_eq!(audio.inits[1].1.timescale, 44_100);
    assert_eq!(discontinuities(&stream, TrackId::VIDEO), discontinuities(&stream, TrackId::AUDIO));
    assert!(stream.segmenter.counters().frames_dropped > 0);
}

#[test]
fn audio_that_comes_late_joins_at_the_next_segment() {
    let mut stream = Stream::new(Settings::default());
    stream.push(avc_config());
    for millis in (0..5_000).step_by(40) {
        stream.push(picture_at(millis, millis % 2_000 == 0));
    }
    stream.push(aac_config());
    publish(&mut stream, 5_000, 6_000, 25, 500);
    publish(&mut stream, 6_000, 10_000, 25, 50);
    stream.finish();
    let audio = stream.track(TrackId::AUDIO);
    let video = stream.track(TrackId::VIDEO);
    let first = &audio.segments[0];
    let beside = video.segments.iter().find(|segment| segment.start.msn == first.start.msn).unwrap();
    assert!(first.start.presented >= beside.start.presented);
    assert!(first.start.presented - beside.start.presented < Timestamp::from_millis(400));
    assert_eq!(audio.segments.last().unwrap().start.msn, video.segments.last().unwrap().start.msn);
}

#[test]
fn video_that_comes_late_begins_a_segment() {
    let mut stream = Stream::new(Settings::default());
    stream.push(aac_config());
    for millis in (0..5_000).step_by(20) {
        stream.push(sound_at(millis));
    }
    stream.push(avc_config());
    publish(&mut stream, 5_000, 9_000, 25, 50);
    stream.finish();
    let video = stream.track(TrackId::VIDEO);
    assert_eq!(video.segments.len(), 2);
    assert!(video.segments[0].parts[0].0.independent);
    let audio = stream.track(TrackId::AUDIO);
    assert_eq!(audio.segments.last().unwrap().start.msn, video.segments.last().unwrap().start.msn);
}

#[test]
fn video_that_stops_is_a_gap_while_audio_goes_on() {
    let mut stream = begun();
    for millis in (7_000..20_000).step_by(20) {
        stream.push(sound_at(millis));
    }
    let audio = stream.track(TrackId::AUDIO).segments.len();
    assert!(audio >= 7, "{audio} segments");
    assert!(!stream.segmenter.wants_key_frame());
    stream.push(picture_at(19_990, false));
    assert!(stream.segmenter.wants_key_frame(), "video comes back, and nothing can be made of it");
    publish(&mut stream, 20_000, 24_000, 25, 50);
    stream.finish();
    let video = stream.track(TrackId::VIDEO);
    let gaps = video.segments.iter().filter(|segment| segment.done.as_ref().unwrap().gap).count();
    assert!(gaps >= 4, "{gaps} gaps");
    assert!(!video.segments.last().unwrap().parts.is_empty());
    assert_eq!(
        video.segments.last().unwrap().start.msn,
        stream.track(TrackId::AUDIO).segments.last().unwrap().start.msn
    );
}

#[test]
fn missing_audio_is_the_last_frame_longer() {
    let mut stream = Stream::new(Settings::default());
    stream.push(avc_config());
    stream.push(aac_config());
    for millis in (0..4_000).step_by(20) {
        if millis % 40 == 0 {
            stream.push(picture_at(millis, millis % 2_000 == 0));
        }
        if !(1_000..1_500).contains(&millis) {
            stream.push(sound_at(millis));
        }
    }
    stream.finish();
    let audio = stream.track(TrackId::AUDIO);
    let total: i64 = audio
        .segments
        .iter()
        .flat_map(|segment| segment.samples())
        .map(|sample| i64::from(sample.duration))
        .sum();
    assert!((total - 4 * 48_000).abs() < 3 * 1024, "{total}");
}

#[test]
fn what_players_do_not_play_is_refused_with_a_reason() {
    let mut stream = Stream::new(Settings { audio_tracks: 1, ..Settings::default() });
    let zero = (Timestamp::ZERO, Timestamp::ZERO);
    let second = TrackId { kind: MediaKind::Audio, index: 1 };
    stream.push(frame(TrackId::VIDEO, FrameRole::Key, Codec::Vp8, zero, b"vp8"));
    stream.push(aac_config());
    stream.push(frame(second, FrameRole::Audio, Codec::Aac, zero, b"aac"));
    for millis in (0..4_000).step_by(20) {
        stream.push(sound_at(millis));
    }
    stream.finish();
    assert_eq!(
        stream.segmenter.refusals().collect::<Vec<_>>(),
        [(TrackId::VIDEO, Refusal::Codec(Codec::Vp8)), (second, Refusal::TooManyTracks)]
    );
    assert_eq!(stream.segmenter.counters().frames_refused, 2);
    assert_eq!(stream.tracks.len(), 1, "audio goes on alone");
    stream.push(sound_at(9_000));
    assert_eq!(stream.segmenter.counters().frames_dropped, 1, "nothing comes behind the end");
    let mut stream = Stream::new(Settings::default());
    let hostile = |track: u8| TrackId { kind: MediaKind::Audio, index: track };
    for track in 0..=u8::MAX {
        stream.push(frame(hostile(track), FrameRole::Config, Codec::Aac, zero, b"\x11\x90"));
    }
    assert!(stream.segmenter.refusals().count() <= 32);
}

#[test]
fn a_publication_that_ends_at_once_ends_all_the_same() {
    let mut stream = Stream::new(Settings::default());
    stream.finish();
    let mut stream = Stream::new(Settings::default());
    stream.push(avc_config());
    stream.push(picture_at(0, false));
    stream.finish();
    assert!(stream.tracks.is_empty());
    let mut stream = Stream::new(Settings::default());
    stream.push(avc_config());
    stream.push(picture_at(0, true));
    stream.finish();
    assert_eq!(stream.track(TrackId::VIDEO).segments[0].samples().count(), 1);
}

/// Pictures that step back make a segment begin before audio that is there already.
#[test]
fn a_gap_begins_behind_what_is_there() {
    let mut stream = Stream::new(Settings { waiting_frames: 1, ..Settings::default() });
    stream.push(aac_config());
    stream.push(sound_at(1_000));
    stream.restart();
    stream.push(avc_config());
    for (millis, is_key) in
        [(0, true), (0, false), (0, false), (0, false), (0, false), (8, false), (17, false)]
    {
        stream.push(picture_at(1_000 + millis, is_key));
    }
    stream.push(aac_config());
    for millis in [44, 66, 75, 102] {
        stream.push(picture_at(1_000 + millis, false));
    }
    for millis in [124, 133, 184] {
        stream.push(sound_at(1_000 + millis));
    }
    for (millis, is_key) in [(226, false), (20, false), (2_401, false), (2_401, true)] {
        stream.push(picture_at(1_000 + millis, is_key));
    }
    stream.push(sound_at(3_401));
    stream.finish();
    let audio = stream.track(TrackId::AUDIO);
    assert!(audio.segments.iter().any(|segment| segment.done.as_ref().unwrap().gap));
}

#[test]
fn a_first_segment_that_is_cut_off_counts_for_the_target_duration() {
    let mut stream = Stream::new(Settings::default());
    stream.push(avc_config());
    publish(&mut stream, 0, 3_000, 25, 500);
    assert_eq!(stream.segmenter.target_duration(), None);
    stream.restart();
    stream.push(avc_config());
    publish(&mut stream, 0, 5_000, 25, 50);
    assert_eq!(stream.segmenter.target_duration(), Some(3));
}

#[test]
fn audio_goes_on_while_pictures_wait_for_a_key_frame() {
    let mut stream = begun();
    for millis in (7_000..12_000).step_by(20) {
        stream.push(sound_at(millis));
    }
    for millis in (12_000..30_000).step_by(20) {
        stream.push(sound_at(millis));
        stream.push(picture_at(millis, false));
    }
    stream.finish();
    let audio = stream.track(TrackId::AUDIO);
    assert!(audio.segments.iter().all(|segment| !segment.parts.is_empty()));
    let dropped = stream.segmenter.counters().frames_dropped;
    assert_eq!(dropped, 18_000 / 20, "all pictures, and no audio");
}
