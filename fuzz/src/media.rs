//! What the fuzz target of configuration records checks: records made of any bytes can be read by
//! the parsers of foreign records.
//!
//! Input: a byte for the codec, then parameter sets, each behind its length in one byte, or a frame.
//! `crates/media/tests/media/fuzz_corpus.rs` includes this file and replays the kept corpus.

use media::Codec;
use media::config::{Record, av1_record, avc_record, hevc_record, video_format, vp8_record, vp9_record};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("config_records", config_records)];

/// Records of what a stream has in itself.
pub fn config_records(data: &[u8]) {
    let Some((&which, rest)) = data.split_first() else { return };
    let (codec, record) = match which % 5 {
        0 => {
            let sets = sets(rest);
            let (pps, sps) = sets.split_at(sets.len() / 2);
            (Codec::H264, avc_record(sps, pps))
        }
        1 => {
            let sets = sets(rest);
            let third = sets.len() / 3;
            (Codec::H265, hevc_record(&sets[..third], &sets[third..2 * third], &sets[2 * third..]))
        }
        2 => (Codec::Av1, av1_record(rest)),
        3 => (Codec::Vp8, vp8_record(rest)),
        _ => (Codec::Vp9, vp9_record(rest)),
    };
    let Some(Record { bytes, width, height }) = record else { return };
    let format = video_format(codec, &bytes);
    match (codec, format) {
        // Their records have no size.
        (Codec::Vp8 | Codec::Vp9, format) => assert!(format.is_some()),
        // The record is made even if the SPS cannot be parsed, and then has no size.
        (Codec::H264, None) => assert_eq!((width, height), (0, 0)),
        (_, format) => {
            let format = format.expect("a record that can be read");
            assert_eq!((format.width, format.height), (width, height));
        }
    }
}

fn sets(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut sets = Vec::new();
    while let Some((&len, behind)) = rest.split_first() {
        let (set, behind) = behind.split_at(behind.len().min(usize::from(len)));
        sets.push(set);
        rest = behind;
    }
    sets
}
