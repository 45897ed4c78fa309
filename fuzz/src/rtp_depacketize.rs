//! What the fuzz targets of `rtp::depacketize` check: payloads in any order with anything in them
//! give frames whose structure holds, or a reason; what came before changes nothing.
//!
//! Input: payloads, each behind two bytes: length in 15 bits, and whether the frame ends with it.
//! `crates/rtp/tests/rtp/depacketize_fuzz_corpus.rs` includes this file and replays the kept corpus.

use rtp::depacketize::{Broken, Depacketizer, FRAME_BYTES_MAX};
use rtp::payload::{Codec, inspect};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[
    ("depacketize_h264", depacketize_h264),
    ("depacketize_h265", depacketize_h265),
    ("depacketize_vp8", depacketize_vp8),
    ("depacketize_vp9", depacketize_vp9),
    ("depacketize_av1", depacketize_av1),
];

/// H.264: sizes of four bytes, units that are none of the packetizations.
pub fn depacketize_h264(data: &[u8]) {
    check(Codec::H264, data, |frame| {
        for unit in units(frame) {
            assert!(matches!(unit[0] & 0x9f, 1..=23), "unit {:#x}", unit[0]);
        }
    });
}

/// H.265: the same.
pub fn depacketize_h265(data: &[u8]) {
    check(Codec::H265, data, |frame| {
        for unit in units(frame) {
            assert!(unit.len() >= 2 && unit[0] >> 1 < 48, "unit {:#x}", unit[0]);
        }
    });
}

/// VP8: nothing is known of the inside.
pub fn depacketize_vp8(data: &[u8]) {
    check(Codec::Vp8, data, |_| {});
}

/// VP9: a superframe's index agrees with what is in it.
pub fn depacketize_vp9(data: &[u8]) {
    check(Codec::Vp9, data, |_| {});
}

/// AV1: OBUs with sizes, of the kinds that are kept.
pub fn depacketize_av1(data: &[u8]) {
    check(Codec::Av1, data, |mut frame| {
        while let Some((head, rest)) = frame.split_first() {
            assert_eq!(head & 0x82, 0x02, "a size, and no forbidden bit");
            assert!(!matches!(head >> 3 & 15, 2 | 8 | 15), "kind {}", head >> 3 & 15);
            let rest = &rest[usize::from(head & 4 != 0)..];
            let (mut len, mut at) = (0usize, 0);
            loop {
                len |= usize::from(rest[at] & 0x7f) << (7 * at);
                at += 1;
                if rest[at - 1] & 0x80 == 0 {
                    break;
                }
            }
            frame = &rest[at + len..];
        }
    });
}

fn check(codec: Codec, data: &[u8], look: impl Fn(&[u8])) {
    let mut depacketizer = Depacketizer::new(codec);
    let mut payloads: Vec<&[u8]> = Vec::new();
    let mut rest = data;
    while let Some((head, behind)) = rest.split_first_chunk() {
        let head = u16::from_be_bytes(*head);
        let (payload, behind) = behind.split_at(behind.len().min(usize::from(head & 0x7fff)));
        rest = behind;
        payloads.push(payload);
        let was_broken = depacketizer.is_broken();
        let pushed = depacketizer.push(payload);
        assert_eq!(depacketizer.is_broken(), was_broken || pushed.is_err());
        assert!(!was_broken || pushed.is_ok(), "counted twice");
        if pushed.is_ok() && !was_broken && codec != Codec::Av1 {
            // What can be put together, the relay has not refused. (It reads OBU heads inside
            // fragments of AV1.)
            let _ = inspect(codec, payload, false);
        }
        if head & 0x8000 == 0 {
            continue;
        }
        let finished = finish(&mut depacketizer, &look);
        assert_eq!(finish(&mut depacketizer, &look), Err(Broken::Empty));
        // A new one makes the same of the same payloads.
        let mut another = Depacketizer::new(codec);
        for payload in payloads.drain(..) {
            let _ = another.push(payload);
        }
        assert_eq!(finish(&mut another, &look), finished);
    }
    let _ = finish(&mut depacketizer, &look);
}

fn finish(depacketizer: &mut Depacketizer, look: &impl Fn(&[u8])) -> Result<Vec<u8>, Broken> {
    let frame = depacketizer.finish()?.to_vec();
    assert!(!frame.is_empty() && frame.len() <= FRAME_BYTES_MAX + 64);
    look(&frame);
    Ok(frame)
}

fn units(mut frame: &[u8]) -> Vec<&[u8]> {
    let mut units = Vec::new();
    while !frame.is_empty() {
        let (size, rest) = frame.split_first_chunk().expect("a size");
        let (unit, rest) = rest.split_at(u32::from_be_bytes(*size) as usize);
        assert!(!unit.is_empty(), "an empty unit");
        units.push(unit);
        frame = rest;
    }
    units
}
