//! Files of ffmpeg in all their forms: what the segments carry is what the reader of channels gives, byte for
//! byte and at the same times, also while the file grows.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::time::Duration;

use media::{MediaKind, TrackId};
use mp4::{Limits, Mp4};
use vod::{Film, FilmInput, VodError};

const V0: TrackId = TrackId { kind: MediaKind::Video, index: 0 };
const A0: TrackId = TrackId { kind: MediaKind::Audio, index: 0 };

fn input(length: usize, grows: bool) -> FilmInput {
    let limits = Limits::default();
    FilmInput { length: length as u64, grows, is_recording: false, limits, takes_fragments: true }
}

fn samples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mp4/tests/samples");
    let files = std::fs::read_dir(folder).expect("samples").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|ext| ext != "csv")).collect();
    files.sort();
    assert!(files.len() > 10, "{files:?}");
    files
}

/// Times of decoding, presentation times and bytes of all samples of a file, by kind.
type Frames = BTreeMap<bool, Vec<(i64, i64, Vec<u8>)>>;

fn frames(file: &[u8]) -> Frames {
    let mut mp4 = Mp4::open(Cursor::new(file), Limits::default()).expect("a file that can be read");
    let mut frames = Frames::new();
    while let Some(sample) = mp4.next_sample().expect("samples") {
        let is_video = sample.frame.track.kind == MediaKind::Video;
        let (dts, pts) = (sample.frame.dts.micros(), sample.frame.pts.micros());
        frames.entry(is_video).or_default().push((dts, pts, sample.frame.data().to_vec()));
    }
    frames
}

/// All segments of a rendition behind its init segment.
fn rendition(film: &Film, name: TrackId, file: &[u8]) -> Option<(Vec<u8>, u64)> {
    let mut out = film.init(name)?.to_vec();
    let mut number = 0;
    while let Some(segment) = film.read_segment(name, number, Cursor::new(file)).expect("a segment") {
        out.extend_from_slice(&segment);
        number += 1;
    }
    Some((out, number))
}

#[test]
fn segments_carry_what_the_file_has() {
    for path in samples() {
        let file = std::fs::read(&path).expect("a file");
        let film = Film::read(Cursor::new(&file), input(file.len(), false)).expect("a film");
        let mut expected = frames(&file);
        // Of all tracks, which are moved together.
        let first = expected.values().flatten().map(|(_, pts, _)| *pts).min().unwrap_or(0);
        for (name, is_video) in [(V0, true), (A0, false)] {
            let Some(expected) = expected.remove(&is_video) else {
                assert!(film.init(name).is_none(), "{}", path.display());
                continue;
            };
            let (out, segments) = rendition(&film, name, &file).expect("a rendition");
            assert!(segments > 0);
            let got = frames(&out).remove(&is_video).expect("samples");
            // Moved as a whole, so that nothing is shown before 0, and not where nothing is.
            let shift = got[0].1 - expected[0].1;
            assert!(
                (0..800_000).contains(&shift) && (shift > 0) == (first < 0),
                "{}: {shift}",
                path.display()
            );
            assert_eq!(got.len(), expected.len());
            for (got, expected) in got.iter().zip(&expected) {
                // Within rounding of the clock of the presentation.
                assert!((got.1 - expected.1 - shift).abs() <= 1, "{} {got:?}", path.display());
                assert!(got.2 == expected.2, "{} {name:?}", path.display());
            }
            assert!(got.is_sorted_by_key(|(dts, ..)| *dts), "{} {name:?}", path.display());
        }
    }
}

#[test]
fn a_file_that_grows_has_the_same_segments_at_any_length() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mp4/tests/samples");
    for name in ["fragments.mp4", "fragments-per-track.mp4", "h265-hev1-fragments.mp4"] {
        let file = std::fs::read(folder.join(name)).expect("a file");
        let whole = Film::read(Cursor::new(&file), input(file.len(), false)).expect("a film");
        let mut film: Option<Film> = None;
        for length in 0..=file.len() {
            let grows = length < file.len();
            let cut = &file[..length];
            match &mut film {
                Some(film) => film.read_on(Cursor::new(cut), length as u64, grows).expect("it has grown"),
                None => film = Film::read(Cursor::new(cut), input(length, true)).ok(),
            }
        }
        let film = film.expect("its index is there");
        for track in [V0, A0] {
            assert_eq!(rendition(&film, track, &file), rendition(&whole, track, &file), "{name} {track:?}");
        }
        assert_eq!(film.duration(), whole.duration());
    }
}

#[test]
fn playlists_say_what_there_is() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mp4/tests/samples/h264-aac.mp4");
    let file = std::fs::read(path).expect("a file");
    let film = Film::read(Cursor::new(&file), input(file.len(), false)).expect("a film");
    let presentation = film.presentation(None, Some(-1_500), "token=a&start=-1.5");
    let text = |bytes: bytes::Bytes| String::from_utf8(bytes.to_vec()).expect("text");
    let multivariant = text(presentation.multivariant_playlist("x/").expect("a playlist"));
    assert!(multivariant.contains("#EXT-X-START:TIME-OFFSET=-1.500,PRECISE=YES\n"), "{multivariant}");
    assert!(multivariant.contains("CODECS=\"avc1.") && multivariant.contains(",mp4a.40.2\""));
    assert!(multivariant.ends_with("\nx/v0.m3u8?token=a&start=-1.5\n"), "{multivariant}");
    let video = text(presentation.media_playlist(V0).expect("a playlist"));
    let expected = "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:1\n#EXT-X-PLAYLIST-TYPE:VOD\n\
                    #EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-START:TIME-OFFSET=-1.500,PRECISE=YES\n\
                    #EXT-X-MAP:URI=\"v0/init-0.mp4?token=a&start=-1.5\"\n#EXTINF:1.20000,\n\
                    v0/0.m4s?token=a&start=-1.5\n#EXT-X-ENDLIST\n";
    assert_eq!(video, expected);
    assert!(presentation.media_playlist(TrackId { index: 1, ..V0 }).is_none());
    let mpd = presentation.mpd("x/", Duration::ZERO).expect("an MPD");
    assert!(
        mpd.contains("type=\"static\"") && mpd.contains("media=\"v0/$Number$.m4s?token=a&amp;start=-1.5\"")
    );
}

#[test]
fn players_of_dash_begin_a_recording_in_progress_at_its_start_or_where_they_ask_to() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mp4/tests/samples/fragments.mp4");
    let file = std::fs::read(path).expect("a file");
    let mut film = Film::read(Cursor::new(&file), input(file.len(), false)).expect("a film");
    // As if more were to come.
    film.read_on(Cursor::new(&file), file.len() as u64, true).expect("nothing new");
    let begin = Duration::from_secs(1_795_806_300);
    for (age, start_ms, seconds) in [
        (300, None, 301),
        (300, Some(0), 301),
        (300, Some(100_000), 201),
        (300, Some(-60_000), 61),
        (1, None, 2),
    ] {
        let mpd = film.presentation(Some(begin), start_ms, "").mpd("", begin + Duration::from_secs(age));
        let expected = format!("suggestedPresentationDelay=\"PT{seconds}S\"");
        let mpd = mpd.expect("an MPD");
        assert!(mpd.contains(&expected) && mpd.contains("type=\"dynamic\""), "{expected}: {mpd}");
    }
}

#[test]
fn a_fragmented_file_of_another_server_is_refused_with_a_reason() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mp4/tests/samples/fragments.mp4");
    let file = std::fs::read(path).expect("a file");
    let input = FilmInput { takes_fragments: false, ..input(file.len(), false) };
    let refused = Film::read(Cursor::new(&file), input).expect_err("refused");
    assert!(matches!(refused, VodError::Unplayable(_)), "{refused}");
}
