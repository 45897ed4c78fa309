//! What the fuzz targets of video on demand check: a path names one file or none, below its directory, and
//! any file is cut into segments that can be read, or refused.
//!
//! `crates/vod/tests/vod/fuzz_corpus.rs` includes this file and replays the kept corpus.

use std::io::Cursor;

use media::{MediaKind, TrackId};
use mp4::Limits;
use vod::names::{FileObject, Source, Target};
use vod::query::VodQuery;
use vod::{Film, FilmInput};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("vod_film", vod_film), ("vod_request", vod_request)];

/// A request: path and query, divided by `?`.
pub fn vod_request(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    if let Ok(read) = VodQuery::parse(query) {
        assert_eq!(VodQuery::parse(&read.kept).expect("what is kept can be read").start_ms, read.start_ms);
    }
    let Some(Target::Object(source, _)) = Target::read(path) else { return };
    let path = match &source {
        Source::File { path } | Source::Remote { path, .. } => path,
        Source::Recording { file, .. } => file,
    };
    for part in path.split('/') {
        assert!(!part.is_empty() && !part.starts_with('.') && !part.contains(['\0', '\\']), "{path}");
    }
    let again = Target::read(&source.url_path());
    // A folder may have the name of an object.
    if let Some(Target::Object(again, FileObject::Whole)) = again {
        assert_eq!(again, source);
    }
}

/// A whole file.
pub fn vod_film(data: &[u8]) {
    let limits =
        Limits { index_bytes: 64 << 10, samples: 4_096, sample_bytes: 64 << 10, ..Limits::default() };
    let length = data.len() as u64;
    let input = FilmInput { length, grows: false, is_recording: false, limits, takes_fragments: true };
    let Ok(film) = Film::read(Cursor::new(data), input) else { return };
    let presentation = film.presentation(None, None, "");
    let _ = (presentation.multivariant_playlist(""), presentation.mpd("", std::time::Duration::ZERO));
    for kind in [MediaKind::Video, MediaKind::Audio] {
        let name = TrackId { kind, index: 0 };
        let Some(playlist) = presentation.media_playlist(name) else { continue };
        let listed =
            playlist.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"#EXTINF")).count();
        for number in 0..listed.min(16) as u64 {
            let segment =
                film.read_segment(name, number, Cursor::new(data)).expect("what is listed is there");
            let segment = segment.expect("what is listed is there");
            assert_eq!(&segment[4..8], b"moof");
        }
        let behind = film.read_segment(name, listed as u64, Cursor::new(data)).expect("no such segment");
        assert!(behind.is_none());
    }
}
