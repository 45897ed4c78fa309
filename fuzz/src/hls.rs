//! What the fuzz targets of HLS requests check: any query and any name is read or refused, and what is kept
//! of it is safe to put into a playlist.
//!
//! `crates/hls/tests/hls/fuzz_corpus.rs` includes this file and replays the kept corpus.

use hls::{Object, QUERY_BYTES_MAX, Query};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("hls_query", hls_query), ("hls_object", hls_object)];

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
