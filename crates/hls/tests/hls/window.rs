//! What is kept, and what the multivariant playlist says of it.

use hls::{Answer, Object};
use media::{Timestamp, TrackId};

use crate::support::{Stream, publish};

const V: TrackId = TrackId::VIDEO;

fn after(seconds: i64, settings: hls::Settings) -> Stream {
    let mut stream = Stream::new(cmaf::Settings::default(), settings);
    stream.configure(true);
    publish(&mut stream, true, 0..seconds * 1000, 25, 50);
    stream
}

#[test]
fn the_window_has_its_segments_and_those_that_left_stay_for_a_while() {
    let mut stream = after(60, hls::Settings::default());
    let (_, playlist) = stream.playlists.iter().find(|(track, _)| *track == V).unwrap().clone();
    assert_eq!((playlist.segments.len(), playlist.media_sequence), (6, 23));
    assert!(matches!(stream.ask(Object::Segment(V, 22), ""), Answer::Respond(_)));
    assert!(matches!(stream.ask(Object::Part(V, 20, 1), ""), Answer::Respond(_)));
    assert_eq!(stream.ask(Object::Segment(V, 10), ""), Answer::NotFound);
}

#[test]
fn a_window_is_bounded_in_bytes() {
    let settings = hls::Settings { segments: 1_000, bytes: 400_000, ..hls::Settings::default() };
    let mut stream = Stream::new(cmaf::Settings::default(), settings);
    stream.checks = false;
    stream.configure(true);
    publish(&mut stream, true, 0..60_000, 25, 50);
    assert!(stream.window.bytes() <= 2 * 500_000, "{} bytes", stream.window.bytes());
}

/// A window of five minutes, of which half a megabyte of video may be in memory.
const LONG: fn() -> hls::Settings = || hls::Settings {
    listed: Timestamp::from_millis(300_000),
    bytes: 500_000,
    stores: true,
    recalled_bytes: 300_000,
    ..hls::Settings::default()
};

#[test]
fn a_long_window_is_on_disk_but_for_what_is_new() {
    let mut stream = Stream::new(cmaf::Settings::default(), LONG());
    stream.configure(true);
    publish(&mut stream, true, 0..200_000, 25, 50);
    assert!(stream.window.bytes() <= 1_100_000, "{} bytes in memory", stream.window.bytes());
    assert!(stream.disk.len() > 60, "{} segments on disk", stream.disk.len());
    let (_, playlist) = stream.playlists.iter().find(|(track, _)| *track == V).unwrap();
    assert!((98..=99).contains(&playlist.segments.len()), "{} are listed", playlist.segments.len());
    let first = stream.ask(Object::Segment(V, 0), "");
    assert_eq!(first, Answer::Recall(hls::SegmentId { rendition: V, msn: 0 }));
    // All of them: as long as promised, and what was published.
    stream.check_boxes();
    assert!(matches!(stream.ask(Object::Segment(V, 0), ""), Answer::Recall(_)), "it made room for others");
    // Hours later the oldest are gone, from the disk as well.
    stream.checks = false;
    publish(&mut stream, true, 200_000..700_000, 25, 50);
    let on_disk = stream.disk.keys().filter(|id| id.rendition == V).count();
    assert!((110..160).contains(&on_disk), "{on_disk} segments of video on disk");
    assert_eq!(stream.ask(Object::Segment(V, 10), ""), Answer::NotFound);
}

#[test]
fn a_disk_that_fails_costs_the_window_its_oldest_segments() {
    let mut stream = Stream::new(cmaf::Settings::default(), LONG());
    stream.configure(true);
    publish(&mut stream, true, 0..60_000, 25, 50);
    assert!(stream.disk.keys().any(|id| id.rendition == V));
    stream.disk_works = false;
    publish(&mut stream, true, 60_000..120_000, 25, 50);
    assert!(!stream.disk.keys().any(|id| id.rendition == V), "a playlist has no hole");
    assert!(stream.window.bytes() <= 2 * 1_100_000, "{} bytes", stream.window.bytes());
    stream.check_boxes();
    stream.disk_works = true;
    publish(&mut stream, true, 120_000..150_000, 25, 50);
    assert!(stream.disk.keys().any(|id| id.rendition == V), "it goes on");
    stream.check_boxes();
}

#[test]
fn a_disk_that_is_full_or_has_lost_a_segment_costs_what_is_before_it() {
    let mut stream = Stream::new(cmaf::Settings::default(), LONG());
    stream.configure(true);
    publish(&mut stream, true, 0..100_000, 25, 50);
    let listed = |stream: &mut Stream| {
        let text = stream.text(Object::Playlist(V), "").unwrap();
        let (_, rest) = text.split_once("#EXT-X-MEDIA-SEQUENCE:").unwrap();
        (rest.split('\n').next().unwrap().parse::<u64>().unwrap(), text.matches("#EXTINF").count())
    };
    let (_, before) = listed(&mut stream);
    assert!(stream.window.give_up_stored(V, 2));
    let gone = [0, 1].map(|msn| hls::SegmentId { rendition: V, msn });
    assert_eq!(stream.window.take_expired(), gone);
    assert_eq!(listed(&mut stream), (2, before - 2));
    stream.window.lose_stored(hls::SegmentId { rendition: V, msn: 7 });
    assert_eq!(listed(&mut stream), (8, before - 8));
    assert_eq!(stream.ask(Object::Segment(V, 7), ""), Answer::NotFound);
    for msn in 0..8 {
        stream.disk.remove(&hls::SegmentId { rendition: V, msn });
    }
    stream.window.take_expired();
    publish(&mut stream, true, 100_000..110_000, 25, 50);
    stream.check_boxes();
}

#[test]
fn what_has_parts_in_the_playlist_stays_in_memory_however_large_it_is() {
    let settings = hls::Settings { bytes: 20_000, ..LONG() };
    let mut stream = Stream::new(cmaf::Settings::default(), settings);
    stream.configure(true);
    publish(&mut stream, true, 0..60_000, 25, 50);
    let (_, playlist) = stream.playlists.iter().find(|(track, _)| *track == V).unwrap();
    assert!((28..=29).contains(&playlist.segments.len()), "{} are listed", playlist.segments.len());
    stream.check_boxes();
}

#[test]
fn a_segment_that_was_written_too_late_is_removed_again() {
    let mut stream = Stream::new(cmaf::Settings::default(), LONG());
    stream.configure(true);
    (stream.checks, stream.disk_works) = (false, false);
    publish(&mut stream, true, 0..20_000, 25, 50);
    let (id, pieces) = stream.window.to_store().expect("too much is in memory");
    stream.disk.insert(id, pieces.concat());
    publish(&mut stream, true, 20_000..80_000, 25, 50);
    stream.window.stored(id);
    assert_eq!(stream.window.take_expired(), [id]);
}

#[test]
fn a_clone_answers_what_there_was_when_it_was_made() {
    let mut stream = after(5, hls::Settings::default());
    let mut clone = stream.window.clone();
    let before = stream.text(Object::Playlist(V), "");
    publish(&mut stream, true, 5_000..9_000, 25, 50);
    assert_ne!(stream.text(Object::Playlist(V), ""), before);
    std::mem::swap(&mut stream.window, &mut clone);
    assert_eq!(stream.text(Object::Playlist(V), ""), before);
}

#[test]
fn long_windows_are_updated_by_deltas() {
    let mut stream = after(60, hls::Settings { segments: 100, ..hls::Settings::default() });
    let full = stream.text(Object::Playlist(V), "").unwrap();
    let delta = stream.text(Object::Playlist(V), "_HLS_skip=v2").unwrap();
    assert!(delta.contains("#EXT-X-SKIP:SKIPPED-SEGMENTS=23\n"), "{delta}");
    assert!(delta.len() + 1_000 < full.len());
}

#[test]
fn the_multivariant_playlist_tells_the_truth() {
    let mut stream = after(21, hls::Settings::default());
    let text = stream.text(Object::Multivariant, "").unwrap();
    let line = text.lines().find(|line| line.starts_with("#EXT-X-STREAM-INF:")).unwrap();
    for part in ["CODECS=\"avc1.42c00a,mp4a.40.2\"", "FRAME-RATE=25.000", "AUDIO=\"audio\""] {
        assert!(line.contains(part), "{line}");
    }
    let number = |name: &str| -> u64 {
        let (_, rest) = line.split_once(&format!("{name}=")).unwrap();
        rest.split(',').next().unwrap().parse().unwrap()
    };
    let peak: u64 = [V, TrackId::AUDIO]
        .into_iter()
        .map(|track| {
            let bytes = |msn| stream.body(Object::Segment(track, msn), "").bytes.concat().len() as u64;
            (4..9).map(bytes).max().unwrap() * 8 / 2
        })
        .sum();
    let bandwidth = number(":BANDWIDTH");
    assert!((peak..peak + peak / 5).contains(&bandwidth), "{bandwidth}, and a peak of {peak}");
    assert!(number("AVERAGE-BANDWIDTH") <= bandwidth);
    assert!(text.contains("#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"audio\",") && text.ends_with("\ns/v0.m3u8\n"));
}

#[test]
fn audio_alone_is_a_variant_of_its_own() {
    let mut stream = Stream::new(cmaf::Settings::default(), hls::Settings::default());
    stream.configure(false);
    publish(&mut stream, false, 0..10_000, 25, 50);
    let text = stream.text(Object::Multivariant, "").unwrap();
    assert!(!text.contains("EXT-X-MEDIA") && !text.contains("RESOLUTION") && !text.contains("FRAME-RATE"));
    assert!(text.contains("CODECS=\"mp4a.40.2\"\n") && text.ends_with("\ns/a0.m3u8\n"));
}

#[test]
fn rendition_reports_name_the_newest_part_of_the_other() {
    let stream = after(9, hls::Settings::default());
    for (track, playlist) in &stream.playlists {
        let [(uri, msn, part)] = &playlist.reports[..] else { panic!("one report") };
        let other = if *track == V { "a0.m3u8" } else { "v0.m3u8" };
        assert_eq!((uri.as_str(), *msn), (other, 4));
        assert!((2..5).contains(part), "{part}");
    }
}
