//! What the fuzz targets of stream descriptions and of `traceparent` check: bytes of other nodes and of
//! clients are read as a whole or refused, and what was read is written and read alike.
//!
//! `crates/worker-api/tests/worker_api/fuzz_corpus.rs` includes this file and replays the kept corpus.

use worker_api::streams::{Published, WebrtcAvailability};
use worker_api::traces::Parent;

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] =
    &[("stream_description", stream_description), ("traceparent", traceparent)];

/// What another node says that it publishes.
pub fn stream_description(data: &[u8]) {
    let Ok(published) = Published::from_bytes(data) else { return };
    let (Published::Packets(tracks) | Published::Frames(WebrtcAvailability::Tracks(tracks, _))) = &published
    else {
        let bytes = published.to_bytes().expect("it has no tracks");
        assert_eq!(bytes, data, "there is one way to say it");
        return;
    };
    for track in tracks.iter() {
        let format = track.format();
        assert_eq!(format.codec.kind(), track.kind);
        let lines = track.rids.iter().chain([&track.mid, &format.fmtp]);
        assert!(!lines.flat_map(|line| line.chars()).any(char::is_control), "it goes into an answer");
    }
    let bytes = published.to_bytes().expect("no longer than what was read");
    assert!(bytes.len() <= data.len(), "formats that no track has are left out");
    assert_eq!(Published::from_bytes(&bytes).as_ref(), Ok(&published));
}

/// The trace that a request by WHIP or WHEP says it belongs to.
pub fn traceparent(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(parent) = Parent::parse(text) else { return };
    let Parent { trace, span, is_sampled } = parent;
    assert!(trace != 0 && span != 0, "zero is no id");
    let written = format!("00-{trace:032x}-{span:016x}-{:02x}", u8::from(is_sampled));
    assert_eq!(Parent::parse(&written), Some(parent));
    // The ids stand where the standard has them.
    assert_eq!(text.get(3..52), written.get(3..52));
}
