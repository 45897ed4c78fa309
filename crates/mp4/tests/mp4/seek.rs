//! A seek goes to the last key frame at or before a time, and audio begins with it.

use std::io::Cursor;
use std::time::Duration;

use crate::muxer::{Layout, Track, audio, frames, pictures, video, write};
use media::{MediaKind, Timestamp};
use mp4::{Limits, Mp4, Sample};

/// Ten seconds: pictures of 40 ms, a key frame every 400 ms.
fn tracks() -> [Track; 2] {
    [video(pictures(250, 10, 60)), audio(frames(469, 20))]
}

fn layouts() -> Vec<(Layout, &'static str)> {
    let fragmented = Layout { fragment: 25, ..Layout::default() };
    vec![
        (Layout::default(), "plain"),
        (Layout { moov_first: false, chunk: 7, ..Layout::default() }, "index last"),
        (fragmented.clone(), "fragments without an index"),
        (Layout { tfdt: false, ..fragmented.clone() }, "fragments that tell no times"),
        (Layout { sidx: true, ..fragmented.clone() }, "sidx"),
        (Layout { mfra: true, ..fragmented.clone() }, "mfra"),
        (Layout { hybrid: true, mfra: true, ..fragmented.clone() }, "the first in the index"),
    ]
}

fn after(file: &mut Mp4<Cursor<Vec<u8>>>, at: Duration) -> (Duration, Vec<Sample>) {
    let found = file.seek_to(at).unwrap();
    let mut samples = Vec::new();
    while let Some(sample) = file.next_sample().unwrap() {
        samples.push(sample);
    }
    (found, samples)
}

#[test]
fn a_seek_finds_the_key_frame_before_and_all_that_follows() {
    for (layout, remark) in layouts() {
        let (bytes, expected) = write(&tracks(), &layout);
        let mut file = Mp4::open(Cursor::new(bytes), Limits::default()).unwrap();
        for ms in [0, 1, 399, 400, 401, 3_333, 5_000, 9_600, 9_999, 20_000, 0] {
            let (found, samples) = after(&mut file, Duration::from_millis(ms));
            let key = (ms.min(9_999) / 400 * 10) as usize;
            assert_eq!(found, Duration::from_millis(key as u64 * 40), "{remark}, {ms} ms");
            let pictures: Vec<_> = samples
                .iter()
                .filter(|sample| sample.frame.track.kind == MediaKind::Video)
                .map(|sample| sample.offset)
                .collect();
            let wanted: Vec<_> = expected[0][key..].iter().map(|sample| sample.offset).collect();
            assert_eq!(pictures, wanted, "{remark}, {ms} ms");
            let heard = samples.iter().find(|sample| sample.frame.track.kind == MediaKind::Audio).unwrap();
            let (start, end) = (heard.frame.pts, heard.frame.pts + heard.duration);
            let is_heard = (start..end).contains(&Timestamp::from(found));
            assert!(is_heard, "{remark}, {ms} ms: {start:?} to {end:?}, not {found:?}");
        }
    }
}

#[test]
fn audio_before_the_first_picture_is_not_left_out() {
    let [mut video, mut audio] = tracks();
    video.edits = vec![(500, -1, 1), (10_000, 0, 1)];
    audio.edits = vec![(0, 0, 1)];
    let (bytes, expected) = write(&[video, audio], &Layout::default());
    let mut file = Mp4::open(Cursor::new(bytes), Limits::default()).unwrap();
    for (ms, begins_ms, audio_frames) in [(0, 0, 469), (300, 300, 455), (500, 500, 446), (950, 900, 427)] {
        let (found, samples) = after(&mut file, Duration::from_millis(ms));
        assert_eq!(found, Duration::from_millis(begins_ms));
        let heard = samples.iter().filter(|sample| sample.frame.track.kind == MediaKind::Audio).count();
        assert_eq!(heard, audio_frames, "from {ms} ms on");
    }
    assert_eq!(expected[1].len(), 469);
}

#[test]
fn a_seek_without_pictures_goes_to_the_frame_of_sound() {
    for (layout, remark) in layouts() {
        let (bytes, _) = write(&tracks(), &layout);
        let mut file = Mp4::open(Cursor::new(bytes), Limits::default()).unwrap();
        file.select(None, Some(2)).unwrap();
        let (found, samples) = after(&mut file, Duration::from_millis(5_000));
        assert_eq!(samples[0].frame.pts, Timestamp::from(found), "{remark}");
        assert_eq!(samples[0].frame.pts, Timestamp::from_ticks(234 * 1024, 48_000), "{remark}");
        assert!(samples.iter().all(|sample| sample.track_id == 2), "{remark}");
    }
}

#[test]
fn the_end_is_found_where_the_file_does_not_say_it() {
    for (layout, remark) in layouts() {
        let (bytes, _) = write(&tracks(), &layout);
        let mut file = Mp4::open(Cursor::new(bytes), Limits::default()).unwrap();
        let known = file.duration();
        // 469 frames of audio are longer than ten seconds. A lone `sidx` speaks for all tracks.
        let audio_end = Timestamp::from_ticks(469 * 1024, 48_000).to_duration();
        let end = if layout.sidx { Duration::from_secs(10) } else { audio_end };
        assert_eq!(known.is_some(), layout.fragment == 0 || layout.sidx, "{remark}");
        assert_eq!(file.find_duration().unwrap(), Some(end), "{remark}");
        assert_eq!(file.duration(), Some(end), "{remark}");
        // And reading begins at the start.
        assert_eq!(file.next_sample().unwrap().unwrap().frame.pts, Timestamp::ZERO, "{remark}");
    }
}

#[test]
fn an_index_that_lies_costs_a_search_and_no_more() {
    for layout in [
        Layout { fragment: 25, sidx: true, ..Layout::default() },
        Layout { fragment: 25, mfra: true, ..Layout::default() },
    ] {
        let (bytes, expected) = write(&tracks(), &layout);
        let kind = if layout.sidx { b"sidx" } else { b"tfra" };
        let at = bytes.windows(4).position(|window| window == kind).unwrap();
        // Every offset in the index is off by some bytes: within a box or in the media.
        let (first, step) = if layout.sidx { (at + 4 + 24 + 3, 12) } else { (at + 4 + 16 + 7, 11) };
        for flip in [1, 4, 8, 0x10, 0x40, 0xff] {
            let mut bytes = bytes.clone();
            (0..10).for_each(|index| bytes[first + index * step] ^= flip);
            let mut file = Mp4::open(Cursor::new(bytes), Limits::default()).unwrap();
            let (found, samples) = after(&mut file, Duration::from_millis(5_000));
            let pictures =
                samples.iter().filter(|sample| sample.frame.track.kind == MediaKind::Video).count();
            assert_eq!((found.as_millis(), pictures), (4_800, 130), "{layout:?}, {flip:#x}");
            assert_eq!(samples.last().unwrap().offset, expected[1].last().unwrap().offset);
        }
    }
}
