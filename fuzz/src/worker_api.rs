//! What the fuzz targets of stream descriptions, of `traceparent` and of what goes over an upgrade check:
//! bytes of other nodes, clients and processes are read as a whole or refused, and what was read is
//! written and read alike.
//!
//! `crates/worker-api/tests/worker_api/fuzz_corpus.rs` includes this file and replays the kept corpus.

use std::sync::Arc;

use delivery::{GopLimits, Stream};
use media::{Codec, Frame, FrameRole, Timestamp, TrackId};
use rtc::tcp_framing::Deframer;
use worker_api::hand_over::HandedIceTcp;
use worker_api::handed_connection::{HandedConnection, HandedStream};
use worker_api::streams::{Published, WebrtcAvailability};
use worker_api::traces::Parent;

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[
    ("handed_connection", handed_connection),
    ("handed_ice_tcp", handed_ice_tcp),
    ("handed_stream", handed_stream),
    ("stream_description", stream_description),
    ("traceparent", traceparent),
];

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

/// A connection of another process. Where its machine of RTMP goes on from is checked by `server_state`.
pub fn handed_connection(data: &[u8]) {
    let Ok(connection) = rmp_serde::from_slice::<HandedConnection>(data) else { return };
    let written = rmp_serde::to_vec_named(&connection).expect("written");
    assert!(rmp_serde::from_slice::<HandedConnection>(&written).is_ok_and(|read| read == connection));
}

/// The connection of a session by ICE-TCP of another process: what comes next is cut into the
/// datagrams that one process would have got of all of it.
pub fn handed_ice_tcp(data: &[u8]) {
    const PIECE_BYTES: usize = 7;
    let Ok(handed) = rmp_serde::from_slice::<HandedIceTcp>(data) else { return };
    let written = rmp_serde::to_vec_named(&handed).expect("written");
    assert!(rmp_serde::from_slice::<HandedIceTcp>(&written).is_ok_and(|read| read == handed));
    let (mut one, mut resumed) = (Deframer::default(), Deframer::resume(handed.received.clone()));
    one.push(&handed.received);
    for piece in handed.unsent.chunks(PIECE_BYTES) {
        loop {
            let (expected, datagram) = (one.pop(), resumed.pop());
            assert_eq!(datagram, expected);
            match datagram {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        assert_eq!(resumed.rest(), one.rest());
        // And in one more process.
        resumed = Deframer::resume(resumed.rest().to_vec());
        one.push(piece);
        resumed.push(piece);
    }
}

/// A stream of another process, and what its publisher sends next: an error, or a stream that is where it was
/// when it goes on once more.
pub fn handed_stream(data: &[u8]) {
    const NOW_MS: u64 = 1 << 40;
    let limits = GopLimits { enabled: true, bytes_max: 1 << 20, duration_ms_max: 10_000 };
    let Ok(handed) = rmp_serde::from_slice::<HandedStream>(data) else { return };
    let mut stream = Stream::new(limits, NOW_MS);
    if stream.resume(NOW_MS, handed.delivery).is_err() {
        return;
    }
    let mut other = Stream::new(limits, NOW_MS);
    assert_eq!(other.resume(NOW_MS, stream.state(NOW_MS)), Ok(()));
    for (at, millis) in [0, i64::MIN, i64::MAX, 1_000].into_iter().enumerate() {
        let times = (Timestamp::from_millis(millis), Timestamp::from_millis(millis));
        for (track, role, codec) in [
            (TrackId::VIDEO, FrameRole::Config, Codec::H264),
            (TrackId::VIDEO, FrameRole::Key, Codec::H264),
            (TrackId::AUDIO, FrameRole::Audio, Codec::Aac),
            (TrackId { index: 9, ..TrackId::VIDEO }, FrameRole::Inter, Codec::Vp9),
        ] {
            let frame = Arc::new(Frame::new(track, role, codec, times, vec![7; 9]));
            let now_ms = NOW_MS + at as u64;
            assert_eq!(stream.receive(now_ms, &frame), other.receive(now_ms, &frame));
        }
    }
}
