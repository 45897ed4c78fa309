//! What the fuzz targets of `bridge::b_frames` check: whatever an encoder sends, the output is
//! whole NAL units that begin with parameter sets and a frame a decoder can start with, and a
//! refused stream stays refused.
//!
//! `crates/bridge/tests/bridge/fuzz_corpus.rs` includes this file and replays the kept corpus.

use bridge::BFrames;
use bridge::b_frames::{PictureFilter, Verdict};
use media::bitstream::Nals;
use media::config::{PARAMETER_SETS_MAX, read_avcc, read_hvcc};
use rtp::payload::Codec;

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] =
    &[("configuration_record", configuration_record), ("b_frames", b_frames)];

/// A decoder configuration record, as both codecs would read it.
pub fn configuration_record(data: &[u8]) {
    for read in [read_avcc(data), read_hvcc(data)].into_iter().flatten() {
        assert!((1..=4).contains(&read.length_bytes));
        assert!((2..=PARAMETER_SETS_MAX).contains(&read.sets.len()));
        assert!(read.sets.iter().all(|set| set.len() >= 2));
    }
    for codec in [Codec::H264, Codec::H265] {
        if let Ok(filter) = PictureFilter::new(codec, data, BFrames::Drop) {
            assert!(filter.fmtp().is_ascii());
        }
    }
}

/// `| codec and setting (1) | length (2) | record | { key (1) 0 (1) length (14) | frame }`
pub fn b_frames(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else { return };
    let codec = if first & 1 == 0 { Codec::H264 } else { Codec::H265 };
    let b_frames = if first & 2 == 0 { BFrames::Drop } else { BFrames::Refuse };
    let Some((record, _, mut rest)) = piece(rest) else { return };
    let Ok(mut filter) = PictureFilter::new(codec, record, b_frames) else { return };
    let (mut nals, mut started, mut refused) = (Nals::default(), false, None);
    while let Some((frame, key, behind)) = piece(rest) {
        rest = behind;
        match filter.frame(frame, key, &mut nals) {
            Verdict::Keep { key } => {
                assert_eq!(refused, None, "nothing is sent once it is refused");
                started |= key;
                assert!(started, "a viewer begins with a key frame");
                check_units(codec, key, &nals);
            }
            Verdict::Drop(_) => {
                assert_eq!(refused, None, "what is refused stays refused");
                assert!(nals.is_empty());
            }
            Verdict::Refuse(reason) => {
                assert!(refused.is_none_or(|before| before == reason));
                assert!(nals.is_empty() && !reason.text().is_empty());
                refused = Some(reason);
            }
        }
    }
}

fn check_units(codec: Codec, key: bool, nals: &Nals) {
    assert_eq!(nals.iter().count(), nals.len());
    let kinds: Vec<_> = nals
        .iter()
        .map(|unit| match codec {
            Codec::H264 => unit[0] & 0x1f,
            _ => unit[0] >> 1 & 0x3f,
        })
        .collect();
    let (sequence, is_slice): (u8, fn(&u8) -> bool) = match codec {
        Codec::H264 => (7, |kind| matches!(kind, 1 | 5)),
        _ => (33, |kind| *kind < 32),
    };
    assert!(kinds.iter().any(is_slice), "{kinds:?}");
    if key {
        let set = kinds.iter().position(|&kind| kind == sequence).expect("a set ahead of a key frame");
        assert!(set < kinds.iter().position(is_slice).expect("a slice"), "{kinds:?}");
    }
}

/// A piece behind its length, the flag ahead of the length, and the rest.
fn piece(data: &[u8]) -> Option<(&[u8], bool, &[u8])> {
    let (head, rest) = data.split_first_chunk()?;
    let head = u16::from_be_bytes(*head);
    let (piece, rest) = rest.split_at_checked(usize::from(head & 0x3fff))?;
    Some((piece, head & 0x8000 != 0, rest))
}
