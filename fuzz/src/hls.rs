//! What the fuzz targets of HLS check: any playlist of another server is read within limits, any query and
//! any name is read or refused, and what is kept of it is safe to put into a playlist.
//!
//! `crates/hls/tests/hls/fuzz_corpus.rs` includes this file and replays the kept corpus.

use std::time::Duration;

use hls::read::{DURATION_MAX, Playlist, SEGMENTS_MAX, VARIANTS_MAX};
use hls::{Object, QUERY_BYTES_MAX, Query, Range};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[
    ("hls_query", hls_query),
    ("hls_object", hls_object),
    ("hls_range", hls_range),
    ("hls_playlist", hls_playlist),
];

/// A query: what is kept of it fits between quotes, has no directive, and reads the same again.
pub fn hls_query(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(query) = Query::parse(text) else { return };
    assert!(query.others.len() <= QUERY_BYTES_MAX);
    assert!(!query.others.contains(['"', '\n', '\r', '<', '#', ' ']));
    assert!(query.part.is_none() || query.msn.is_some());
    let again = Query::parse(&query.others).expect("what was accepted once");
    assert_eq!(again, Query { others: query.others, ..Query::default() });
}

/// A name: an object has one.
pub fn hls_object(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(object) = Object::parse(text) {
        assert_eq!(object.to_string(), text);
    }
}

/// The value of `Range`, behind a byte that says how long the object is: what is given is in it.
pub fn hls_range(data: &[u8]) {
    let Some((bytes, value)) = data.split_first() else { return };
    let Ok(value) = std::str::from_utf8(value) else { return };
    // Of all sizes.
    let bytes = (1_u64 << (bytes % 64)) - 1;
    match Range::read(value, bytes) {
        Range::Part { first, last } => assert!(first <= last && last < bytes, "{first}-{last} of {bytes}"),
        Range::All => assert!(!value.starts_with("bytes=0-") || !value[8..].is_empty(), "{value}"),
        Range::Unsatisfiable => assert!(value.contains("bytes=")),
    }
}

/// A playlist of another server: what is read of it is within its limits, and ranges have an end.
pub fn hls_playlist(data: &[u8]) {
    match Playlist::read(data) {
        Ok(Playlist::Master(master)) => {
            assert!(master.variants.len() <= VARIANTS_MAX && master.renditions.len() <= VARIANTS_MAX);
            assert!(master.variants.iter().all(|variant| !variant.uri.is_empty()));
        }
        Ok(Playlist::Media(media)) => {
            assert!(media.segments.len() <= SEGMENTS_MAX);
            assert!(media.target_duration <= DURATION_MAX);
            let total: Duration = media.segments.iter().map(|segment| segment.duration).sum();
            assert!(total <= DURATION_MAX * media.segments.len() as u32);
            let ranges = media.segments.iter().filter_map(|segment| segment.range);
            let maps = media.segments.iter().filter_map(|segment| segment.map.as_ref()?.range);
            for range in ranges.chain(maps) {
                assert!(range.length > 0 && range.offset.checked_add(range.length).is_some());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
