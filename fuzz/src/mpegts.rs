//! What the fuzz targets of `mpegts` check: whatever bytes come, in whatever chunks, the same frames
//! come of them, memory stays bounded, and what is written of those frames is a transport stream.
//!
//! `crates/mpegts/tests/mpegts/fuzz_corpus.rs` includes this file and replays the kept corpus.

use media::{Frame, FrameRole, MediaKind, TrackId};
use mpegts::{DemuxSettings, Demuxer, Muxer, PACKET_BYTES, SYNC_BYTE};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("mpegts", mpegts)];

const PES_BYTES_MAX: usize = 64 << 10;

/// `| chunk (1) | stream |`
pub fn mpegts(data: &[u8]) {
    let Some((&chunk, stream)) = data.split_first() else { return };
    let frames = demux(stream, usize::from(chunk) + 1);
    assert_eq!(frames, demux(stream, usize::MAX));
    let (mut muxer, mut out) = (Muxer::default(), Vec::new());
    for frame in &frames {
        let before = out.len();
        match muxer.write(&mut out, frame, frame.dts, frame.is_key()) {
            Ok(()) => {}
            Err(error) => assert!(out.len() == before && !error.reason().is_empty()),
        }
        if out.len() > 1 << 20 {
            return;
        }
    }
    muxer.write_start(&mut out, true);
    let (packets, rest) = out.as_chunks::<PACKET_BYTES>();
    assert!(rest.is_empty() && packets.iter().all(|packet| packet[0] == SYNC_BYTE));
    // Pictures come back as they were.
    let pictures = |frames: &[Frame]| {
        let of_track = frames.iter().filter(|frame| frame.track == TrackId::VIDEO);
        of_track.filter(|frame| matches!(frame.role, FrameRole::Key | FrameRole::Inter)).count()
    };
    let again = demux(&out, 1316);
    assert!(pictures(&again) <= pictures(&frames));
    // And no more sections than there were.
    let sections =
        |frames: &[Frame]| frames.iter().filter(|frame| frame.track.kind == MediaKind::Data).count();
    assert!(sections(&again) <= sections(&frames));
}

fn demux(stream: &[u8], chunk: usize) -> Vec<Frame> {
    let mut demuxer = Demuxer::new(DemuxSettings { program: None, pes_bytes_max: PES_BYTES_MAX });
    let mut frames = Vec::new();
    for chunk in stream.chunks(chunk) {
        demuxer.push(chunk);
        frames.extend(std::iter::from_fn(|| demuxer.next_frame()));
        assert!(demuxer.bytes_held() <= 32 * PES_BYTES_MAX);
    }
    demuxer.finish();
    frames.extend(std::iter::from_fn(|| demuxer.next_frame()));
    frames
}
