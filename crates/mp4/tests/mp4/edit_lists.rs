//! What an edit list leaves out is left out, what it puts off is put off, and what it repeats is
//! repeated.

use crate::muxer::{Layout, Track, assert_track, audio, frames, pictures, read_all, video, write};
use media::{MediaKind, Timestamp};
use mp4::{Limits, Mp4, Sample, SampleIndex};
use std::io::Cursor;

/// Pictures of 40 ms, a key frame every 400 ms, and three seconds of audio.
fn tracks() -> [Track; 2] {
    [video(pictures(75, 10, 90)), audio(frames(141, 20))]
}

fn of(samples: &[Sample], kind: MediaKind) -> Vec<Sample> {
    samples.iter().filter(|sample| sample.frame.track.kind == kind).cloned().collect()
}

#[test]
fn an_empty_edit_puts_a_track_off() {
    for wide_versions in [false, true] {
        let [mut video, mut audio] = tracks();
        video.edits = vec![(500, -1, 1), (3000, 0, 1)];
        audio.edits = vec![(0, 0, 1)];
        let (bytes, expected) =
            write(&[video.clone(), audio], &Layout { wide_versions, ..Layout::default() });
        let samples = read_all(&bytes);
        assert_track(&samples, &expected[0], video.timescale, 6400);
        assert_track(&samples, &expected[1], 48_000, 0);
        let file = Mp4::open(Cursor::new(bytes), Limits::default()).unwrap();
        assert_eq!(file.video().unwrap().end, Some(Timestamp::from_millis(3_500)));
    }
}

#[test]
fn priming_of_audio_is_left_out_and_what_is_shown_begins_at_zero() {
    let [video, mut audio] = tracks();
    audio.edits = vec![(2900, 1024, 1)];
    let (bytes, expected) = write(&[video, audio], &Layout::default());
    let samples = of(&read_all(&bytes), MediaKind::Audio);
    // 2.9 s are 139,200 units from 1024 on: frames 1 to 136, of which the last is cut within.
    assert_track(&samples, &expected[1][1..137], 48_000, -1024);
    assert_eq!(samples[0].frame.pts, Timestamp::ZERO);
    let file = Mp4::open(Cursor::new(bytes), Limits::default()).unwrap();
    let audio = file.audio().unwrap();
    assert_eq!(audio.end, Some(Timestamp::from_millis(2_900)));
    let whole = Timestamp::from_ticks(136 * 1024, 48_000);
    assert_eq!(audio.frames_end, Some(whole), "the last frame is given out whole");
    assert_eq!(file.frames_duration().unwrap().as_nanos(), 3_000_000_000, "the pictures are longer");
}

#[test]
fn an_edit_within_a_frame_of_audio_keeps_the_frame() {
    let [video, mut audio] = tracks();
    audio.edits = vec![(2900, 1536, 1)];
    let (bytes, expected) = write(&[video, audio], &Layout::default());
    let samples = of(&read_all(&bytes), MediaKind::Audio);
    assert_eq!(samples[0].offset, expected[1][1].offset);
    assert_eq!(samples[0].frame.pts, Timestamp::from_ticks(-512, 48_000));
}

#[test]
fn pictures_that_others_need_come_hidden() {
    let [mut video, _] = tracks();
    // From the 15th picture on, which needs those from the 10th on, up to the 30th.
    video.edits = vec![(600, 15 * 512, 1)];
    let (bytes, expected) = write(std::slice::from_ref(&video), &Layout::default());
    let samples = read_all(&bytes);
    assert_track(&samples, &expected[0][10..30], video.timescale, -15 * 512);
    let hidden: Vec<_> = samples.iter().map(|sample| sample.is_hidden).collect();
    assert_eq!(hidden, [[true; 5].as_slice(), &[false; 15]].concat());
    assert!(samples[0].frame.is_key());
}

#[test]
fn several_edits_are_played_one_after_the_other() {
    let [mut video, _] = tracks();
    // Pictures 20 to 24, nothing for 200 ms, pictures 0 to 4, and picture 20 again.
    video.edits = vec![(200, 20 * 512, 1), (200, -1, 1), (200, 0, 1), (40, 20 * 512, 1)];
    let (bytes, expected) = write(std::slice::from_ref(&video), &Layout::default());
    let samples = read_all(&bytes);
    let shown: Vec<_> = samples.iter().map(|sample| (sample.offset, sample.frame.pts.millis())).collect();
    let place = |index: usize| expected[0][index].offset;
    let mut wanted: Vec<_> = (0..5).map(|index| (place(20 + index), index as i64 * 40)).collect();
    wanted.extend((0..5).map(|index| (place(index), 400 + index as i64 * 40)));
    wanted.push((place(20), 600));
    assert_eq!(shown, wanted);
    assert!(samples.iter().all(|sample| !sample.is_hidden));
    assert!(samples.is_sorted_by_key(|sample| sample.frame.dts));
}

#[test]
fn a_held_picture_is_time_that_passes() {
    let [mut video, _] = tracks();
    video.edits = vec![(300, 0, 0), (400, 0, 1)];
    let (bytes, expected) = write(std::slice::from_ref(&video), &Layout::default());
    assert_track(&read_all(&bytes), &expected[0][..10], video.timescale, 300 * 12_800 / 1000);
}

#[test]
fn an_edit_list_of_a_fragmented_file_moves_and_ends_nothing() {
    let [mut video, mut audio] = tracks();
    video.edits = vec![(200, -1, 1), (0, 0, 1)];
    // A muxer that has written the edit list before it knew the length.
    audio.edits = vec![(100, 1024, 1)];
    let (bytes, expected) = write(&[video, audio], &Layout { fragment: 10, ..Layout::default() });
    let samples = read_all(&bytes);
    assert_track(&samples, &expected[0], 12_800, 2560);
    assert_track(&samples, &expected[1][1..], 48_000, -1024);
}

#[test]
fn times_of_odd_scales_do_not_drift() {
    let mut track = audio(frames(2000, 5));
    track.timescale = 44_100;
    let (bytes, expected) = write(std::slice::from_ref(&track), &Layout::default());
    // Each is the true time: what `assert_track` computes from the sum of durations.
    assert_track(&read_all(&bytes), &expected[0], 44_100, 0);
}

#[test]
fn an_edit_list_of_a_long_track_with_b_frames_costs_no_more_per_picture() {
    // If each picture went through the table of composition offsets, this would take an hour.
    let mut units = pictures(400_000, 50, 1);
    for (index, unit) in units.iter_mut().enumerate() {
        unit.composition = [512, 1536, 0][index % 3];
    }
    let mut video = video(units);
    video.edits = vec![(16_000_000, 512, 1)];
    let (bytes, _) = write(&[video], &Layout { chunk: 400_000, ..Layout::default() });
    let index = SampleIndex::read(Cursor::new(&bytes), Limits::default()).unwrap();
    let mut walk = index.walk();
    let mut pictures = 0;
    while walk.next(&index, Cursor::new(&bytes), bytes.len() as u64).unwrap().is_some() {
        pictures += 1;
    }
    assert_eq!(pictures, 400_000);
}
