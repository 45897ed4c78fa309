//! Files that lie: refused with a reason, or played as far as they are true, in bounded memory.

use std::io::Cursor;
use std::path::Path;

use media::{MediaKind, TrackId};
use mp4::Limits;
use vod::{Film, FilmInput, VodError};

fn sample(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mp4/tests/samples").join(name);
    std::fs::read(path).expect("a file")
}

fn read(file: &[u8]) -> Result<Film, VodError> {
    let limits = Limits { index_bytes: 1 << 20, samples: 10_000, ..Limits::default() };
    let length = file.len() as u64;
    let input = FilmInput { length, grows: false, is_recording: false, limits, takes_fragments: true };
    Film::read(Cursor::new(file), input)
}

/// Reads all segments of what can be read.
fn play(file: &[u8]) {
    let Ok(film) = read(file) else { return };
    for kind in [MediaKind::Video, MediaKind::Audio] {
        let name = TrackId { kind, index: 0 };
        for number in 0.. {
            match film.read_segment(name, number, Cursor::new(file)) {
                Ok(Some(segment)) => assert!(segment.len() < 2 * file.len() + 200_000),
                _ => break,
            }
        }
    }
    let presentation = film.presentation(None, None, "");
    let _ = (presentation.multivariant_playlist(""), presentation.mpd("", std::time::Duration::ZERO));
}

#[test]
fn a_file_that_ends_before_what_its_index_promises_is_refused() {
    let file = sample("faststart.mp4");
    let refused = read(&file[..file.len() - 1]).expect_err("the last sample is not whole");
    assert!(refused.to_string().contains("ends before what its index promises"), "{refused}");
    for length in 0..file.len() {
        assert!(read(&file[..length]).is_err(), "{length}");
    }
}

#[test]
fn no_byte_that_is_changed_makes_it_panic() {
    for name in ["h264-aac.mp4", "fragments.mp4", "av1-opus.mp4", "cut-start.mp4"] {
        let mut file = sample(name);
        // Indexes are within 4000 bytes of an end; media itself is not looked at.
        let length = file.len();
        let ends = (0..length).filter(|at| *at < 4000 || at + 4000 > length);
        for (at, change) in ends.step_by(2).zip([0xff, 0x80, 1].into_iter().cycle()) {
            file[at] ^= change;
            play(&file);
            file[at] ^= change;
        }
    }
}

#[test]
fn times_that_cannot_be_true_are_refused() {
    let mut file = sample("h264-aac.mp4");
    let at = file.windows(4).position(|kind| kind == b"stts").expect("a table") + 16;
    file[at..at + 4].copy_from_slice(&u32::MAX.to_be_bytes());
    let refused = read(&file).expect_err("samples of days");
    assert!(refused.to_string().contains("cannot be true"), "{refused}");
}

#[test]
fn what_cannot_be_played_is_named() {
    for (file, part) in [
        (&b""[..], "not an MP4 file"),
        (b"<html>no film here</html>", "not an MP4 file"),
        (b"\0\0\0\x10ftypisom\0\0\0\0", "no index"),
    ] {
        let refused = read(file).expect_err("no film");
        assert!(matches!(&refused, VodError::Unplayable(reason) if reason.contains(part)), "{refused}");
    }
    let limits = Limits { index_bytes: 100, ..Limits::default() };
    let file = sample("h264-aac.mp4");
    let length = file.len() as u64;
    let input = FilmInput { length, grows: false, is_recording: false, limits, takes_fragments: true };
    let refused = Film::read(Cursor::new(&file), input).expect_err("too large an index");
    assert!(refused.to_string().contains("the limit is 100"), "{refused}");
}
