//! What the fuzz target of `transcode` checks: whatever a publisher sends as audio, nothing but
//! Opus packets in order comes out.
//!
//! ```text
//!  codec: 1 byte │ length of the configuration: 1 byte │ configuration │ pieces: step of time, 1 byte │ length, 2 bytes │ data
//! ```
//!
//! `crates/transcode/tests/transcode/fuzz_corpus.rs` includes this file and replays the kept corpus.

use media::{Codec, CodecConfig};
use transcode::{OpusSettings, ToOpus};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("audio_to_opus", audio_to_opus)];

/// Pieces of one input: enough for every state, few enough for many runs a second.
const PIECES_MAX: usize = 24;

/// AAC and MP3 to Opus.
pub fn audio_to_opus(data: &[u8]) {
    let [codec, config_length, rest @ ..] = data else { return };
    let (config, mut rest) = rest.split_at(usize::from(*config_length).min(rest.len()));
    let codec = if codec % 2 == 0 { Codec::Aac } else { Codec::Mp3 };
    let format = CodecConfig::new(codec, config.to_vec());
    let mut transcoder = ToOpus::new(OpusSettings { bits_per_second: 64_000 });
    let (mut pts_us, mut out) = (10_000_000_i64, Vec::new());
    for _ in 0..PIECES_MAX {
        let [step, high, low, after @ ..] = rest else { break };
        let (piece, after) = after.split_at(usize::from(u16::from_be_bytes([*high, *low])).min(after.len()));
        rest = after;
        pts_us = match step {
            0xf0 => pts_us.saturating_add(3_600_000_000),
            0xf1 => pts_us.saturating_sub(3_600_000_000),
            0xf2 => i64::MAX,
            0xf3 => i64::MIN,
            0xf4.. => pts_us.saturating_sub(i64::from(step - 0xf3) * 100_000),
            step => pts_us.saturating_add(i64::from(*step) * 1_000),
        };
        // Whatever the result of a piece, the next one is tried.
        let _ = transcoder.push(Some(&format), pts_us, piece, &mut out);
    }
    for packet in &out {
        assert!(packet.pts_us >= 0, "due before the beginning");
        assert!((1..=1_275).contains(&packet.data.len()), "no Opus packet has {} bytes", packet.data.len());
        assert_eq!(packet.data[0] & 3, 0, "more than one frame in a packet");
    }
    for pair in out.windows(2) {
        let step_us = pair[1].pts_us - pair[0].pts_us;
        assert!(!(-1_000_000..20_000).contains(&step_us), "{step_us} us after the packet before");
    }
}
