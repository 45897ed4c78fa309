//! What the fuzz targets of HLS requests check: any query and any name is read or refused, and what is kept
//! of it is safe to put into a playlist.
//!
//! `crates/hls/tests/hls/fuzz_corpus.rs` includes this file and replays the kept corpus.

use hls::{Object, QUERY_BYTES_MAX, Query, Range};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] =
    &[("hls_query", hls_query), ("hls_object", hls_object), ("hls_range", hls_range)];

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
