//! What the fuzz target of MP4 files checks: any bytes give samples or an error, never a panic,
//! more memory than the limits allow, or times that step back.
//!
//! `crates/mp4/tests/mp4/fuzz_corpus.rs` includes this file and replays the kept corpus.

use std::io::Cursor;
use std::time::Duration;

use media::Timestamp;
use mp4::{Limits, Mp4, Mp4Error};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("mp4_demux", mp4_demux)];

/// A whole file: played, searched, and asked for hints.
pub fn mp4_demux(data: &[u8]) {
    let Ok(mut file) = Mp4::open(Cursor::new(data), LIMITS) else { return };
    let _ = play(&mut file);
    let half = file.find_duration().ok().flatten().unwrap_or(Duration::from_secs(1)) / 2;
    if let Ok(found) = file.seek_to(half) {
        // A broken index may place it later, a valid one never; the time can be seeked to again.
        let _ = file.seek_to(found);
        let _ = play(&mut file);
    }
    let ids: Vec<_> = file.tracks().iter().map(|track| track.id).collect();
    for id in ids {
        if file.select(Some(id), None).is_ok() || file.select(None, Some(id)).is_ok() {
            let _ = file.next_sample();
        }
    }
}

/// Plays up to the end, an error, or so many samples that the rest would be the same.
fn play(file: &mut Mp4<Cursor<&[u8]>>) -> Result<(), Mp4Error> {
    let mut last: Vec<(u32, Timestamp)> = Vec::new();
    for number in 0..SAMPLES_PLAYED {
        if number % 16 == 0 {
            let hints = file.upcoming(5_000)?;
            assert!(hints.iter().all(|range| range.start < range.end), "hints are not empty");
        }
        let Some(sample) = file.next_sample()? else { break };
        let frame = &sample.frame;
        assert!(frame.pts >= frame.dts && !frame.data().is_empty());
        // Lengths of one byte become four.
        assert!(frame.data().len() <= 4 * LIMITS.sample_bytes as usize);
        match last.iter_mut().find(|(id, _)| *id == sample.track_id) {
            Some((_, last)) => {
                assert!(frame.dts >= *last, "decoding times never step back");
                *last = frame.dts;
            }
            None => last.push((sample.track_id, frame.dts)),
        }
    }
    Ok(())
}

const LIMITS: Limits = Limits {
    index_bytes: 1 << 20,
    samples: 100_000,
    fragments_read: 10_000,
    fragment_samples_read: 200_000,
    sample_bytes: 1 << 20,
    reorder_bytes: 10_000,
    tracks: 8,
    edits: 16,
};
const SAMPLES_PLAYED: usize = 500;
