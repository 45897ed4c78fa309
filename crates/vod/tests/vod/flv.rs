//! FLV files: the same samples in the same segments as they were written, at any length of the
//! file, and whatever is wrong with it.

use std::io::Cursor;
use std::path::Path;

use media::{Codec, Frame, FrameRole, MediaKind, TrackId};
use mp4::{Limits, Mp4};
use rtmp::flv::{TagBody, write_file_header, write_tag_parts};
use vod::{Film, FilmInput, VodError};

const V0: TrackId = TrackId { kind: MediaKind::Video, index: 0 };
const A0: TrackId = TrackId { kind: MediaKind::Audio, index: 0 };

fn input(length: usize, grows: bool) -> FilmInput {
    let limits = Limits { samples: 10_000, ..Limits::default() };
    FilmInput { length: length as u64, grows, is_recording: true, limits, takes_fragments: true }
}

/// Times in milliseconds, and bytes.
type Samples = Vec<(i64, i64, Vec<u8>)>;

/// An FLV file with what an MP4 file of ffmpeg has, ten times in a row, and what is in it.
fn flv(name: &str) -> (Vec<u8>, Samples, Samples) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mp4/tests/samples").join(name);
    let file = std::fs::read(path).expect("a file");
    let (mut out, mut video, mut audio) = (Vec::new(), Vec::new(), Vec::new());
    write_file_header(&mut out, true, true);
    write_tag_parts(&mut out, MediaKind::Data, 0, [&[], b"\x02\x00\x0aonMetaData"]);
    for round in 0..10 {
        let base = 200 + round * 1280;
        let mut mp4 = Mp4::open(Cursor::new(&file), Limits::default()).expect("a file");
        while let Some(sample) = mp4.next_sample().expect("samples") {
            let (dts, pts) = (base + sample.frame.dts.millis(), base + sample.frame.pts.millis());
            let mut put = |frame: &Frame| {
                let body = TagBody::of(frame).expect("FLV has a place for it");
                write_tag_parts(&mut out, frame.track.kind, dts as u32, body.parts());
            };
            if let Some(config) = &sample.config {
                if round == 0 {
                    // As ffmpeg does before it knows the configuration.
                    let times = (config.dts, config.pts);
                    put(&Frame::new(config.track, config.role, config.codec, times, Vec::new()));
                }
                put(config);
            }
            put(&sample.frame);
            let list = if sample.frame.track.kind == MediaKind::Video { &mut video } else { &mut audio };
            list.push((dts, pts, sample.frame.data().to_vec()));
        }
    }
    (out, video, audio)
}

fn rendition(film: &Film, name: TrackId, file: &[u8]) -> (Vec<u8>, u64) {
    let mut out = film.init(name).expect("a rendition").to_vec();
    for number in 0.. {
        match film.read_segment(name, number, Cursor::new(file)).expect("a segment") {
            Some(segment) => out.extend_from_slice(&segment),
            None => return (out, number),
        }
    }
    unreachable!("there is an end");
}

#[test]
fn segments_carry_what_the_tags_have() {
    for (name, codecs) in [
        ("h264-aac.mp4", ["avc1.", "mp4a.40.2"]),
        ("av1-opus.mp4", ["av01.", "opus"]),
        ("vp9-opus-fragments.mp4", ["vp09.", "opus"]),
        ("h265-hvc1.mp4", ["hvc1.", "mp4a.40.2"]),
    ] {
        let (file, video, audio) = flv(name);
        let film = Film::read(Cursor::new(&file), input(file.len(), false)).expect("a film");
        let found = film.codecs();
        for (index, expected) in codecs.iter().take(found.len()).enumerate() {
            assert!(found[index].starts_with(expected), "{found:?}");
        }
        for (rendition_name, expected) in [(V0, video), (A0, audio)] {
            if expected.is_empty() {
                assert!(film.init(rendition_name).is_none());
                continue;
            }
            let (out, segments) = rendition(&film, rendition_name, &file);
            assert!(segments >= 2, "{name} {segments}");
            let mut mp4 = Mp4::open(Cursor::new(&out), Limits::default()).expect("a rendition");
            let mut got: Samples = Vec::new();
            while let Some(sample) = mp4.next_sample().expect("samples") {
                got.push((
                    sample.frame.dts.millis(),
                    sample.frame.pts.millis(),
                    sample.frame.data().to_vec(),
                ));
            }
            assert_eq!(got.len(), expected.len(), "{name}");
            for (got, expected) in got.iter().zip(&expected) {
                assert!(got.2 == expected.2, "{name}");
                // Frames of audio follow each other without gaps of a millisecond.
                let tolerance = if rendition_name == V0 { 1 } else { 41 };
                assert!((got.1 - expected.1).abs() <= tolerance, "{name} {} {}", got.1, expected.1);
            }
            assert!(got.is_sorted_by_key(|(dts, ..)| *dts), "{name}");
        }
    }
}

#[test]
fn a_file_that_grows_has_the_same_segments_at_any_length() {
    let (file, ..) = flv("h264-aac.mp4");
    let whole = Film::read(Cursor::new(&file), input(file.len(), false)).expect("a film");
    let mut film: Option<Film> = None;
    // Steps of a prime: cuts come everywhere in a tag.
    for length in (0..=file.len()).step_by(101).chain([file.len()]) {
        let (cut, grows) = (&file[..length], length < file.len());
        match &mut film {
            Some(film) => film.read_on(Cursor::new(cut), length as u64, grows).expect("it has grown"),
            None => film = Film::read(Cursor::new(cut), input(length, true)).ok(),
        }
    }
    let film = film.expect("its head is there");
    for track in [V0, A0] {
        assert!(rendition(&film, track, &file) == rendition(&whole, track, &file), "{track:?}");
    }
    assert_eq!(film.duration(), whole.duration());
}

#[test]
fn what_cannot_be_played_is_refused_with_a_reason() {
    let (file, ..) = flv("h264-aac.mp4");
    let refused = |file: &[u8], input: FilmInput| {
        Film::read(Cursor::new(file), input).expect_err("it is not played").to_string()
    };
    let remote = FilmInput { takes_fragments: false, ..input(file.len(), false) };
    assert!(refused(&file, remote).contains("FLV file of another server"));
    let few = FilmInput { limits: Limits { samples: 5, ..Limits::default() }, ..input(file.len(), false) };
    assert!(refused(&file, few).contains("tags of a file"));
    // A codec that no player plays.
    let mut vp8 = Vec::new();
    write_file_header(&mut vp8, false, true);
    let frame =
        Frame::new(V0, FrameRole::Key, Codec::Vp8, (Default::default(), Default::default()), vec![0; 9]);
    write_tag_parts(&mut vp8, MediaKind::Video, 0, TagBody::of(&frame).expect("a body").parts());
    assert!(
        refused(&vp8, input(vp8.len(), false)).contains("VP8"),
        "{}",
        refused(&vp8, input(vp8.len(), false))
    );
    // A format that changes on the way.
    let mut changed = file.clone();
    let config = Frame::new(A0, FrameRole::Config, Codec::Aac, Default::default(), vec![0x11, 0x90]);
    write_tag_parts(&mut changed, MediaKind::Audio, 13_000, TagBody::of(&config).expect("a body").parts());
    let frame = Frame::new(A0, FrameRole::Audio, Codec::Aac, Default::default(), vec![1; 9]);
    write_tag_parts(&mut changed, MediaKind::Audio, 13_001, TagBody::of(&frame).expect("a body").parts());
    assert!(refused(&changed, input(changed.len(), false)).contains("changes its format"));
    for length in 0..file.len().min(300) {
        match Film::read(Cursor::new(&file[..length]), input(length, false)) {
            Ok(_) | Err(VodError::Unplayable(_)) => {}
            Err(error) => panic!("{length}: {error}"),
        }
    }
}

#[test]
fn no_byte_that_is_changed_makes_it_panic() {
    let (mut file, ..) = flv("h264-aac.mp4");
    for (at, change) in (0..4000.min(file.len())).zip([0xff, 0x80, 1].into_iter().cycle()) {
        file[at] ^= change;
        if let Ok(film) = Film::read(Cursor::new(&file), input(file.len(), false)) {
            for name in [V0, A0] {
                for number in 0..4 {
                    let _ = film.read_segment(name, number, Cursor::new(&file));
                }
            }
        }
        file[at] ^= change;
    }
}
