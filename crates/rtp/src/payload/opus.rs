//! Opus payloads (RFC 7587): one Opus packet each, whose first bytes say how long it plays (RFC
//! 6716 section 3).
//!
//! ```text
//! TOC   | config (5) | stereo | code (2) |     code 0: one frame   1, 2: two   3: | VBR | padding | frames (6) |
//! ```

use super::PayloadInfo;

/// What the first bytes of an Opus packet say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Toc {
    /// Two channels are coded.
    pub stereo: bool,
    /// Frames inside, `0..=48`.
    pub frames: u8,
    /// Samples at 48 kHz that all its frames play, at most 5760, which are 120 ms.
    pub samples: u16,
    /// Nothing but the TOC, or one byte more: silence between the packets of discontinuous transmission.
    pub silence: bool,
}

impl Toc {
    /// Reads it; `None` for an empty packet and for more than 120 ms (RFC 6716 section 3.4).
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let toc = *payload.first()?;
        let frames = match toc & 3 {
            0 => 1,
            1 | 2 => 2,
            _ => payload.get(1)? & 0x3f,
        };
        let samples = u16::from(frames).saturating_mul(frame_samples(toc >> 3));
        // A packet of code 3 has at least one frame.
        (frames > 0 && samples <= SAMPLES_MAX).then_some(Self {
            stereo: toc & 4 != 0,
            frames,
            samples,
            silence: payload.len() <= 2,
        })
    }
}

/// Samples at 48 kHz of one frame, by configuration (RFC 6716 table 2).
fn frame_samples(config: u8) -> u16 {
    let milliseconds_10 = match config {
        0..=11 => [100, 200, 400, 600][usize::from(config & 3)],
        12..=15 => [100, 200][usize::from(config & 1)],
        _ => [25, 50, 100, 200][usize::from(config & 3)],
    };
    milliseconds_10 * 48 / 10
}

/// Looks into one payload: always a frame by itself.
pub(super) fn inspect(payload: &[u8]) -> Option<PayloadInfo> {
    Toc::parse(payload).map(|_| PayloadInfo::WHOLE)
}

/// 120 ms.
const SAMPLES_MAX: u16 = 5760;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_the_table_in_the_rfc() {
        for (payload, expected, remark) in [
            (&[0x00, 1, 1][..], Some((1, 480)), "SILK, 10 ms"),
            (&[0x18, 1, 1], Some((1, 2880)), "SILK, 60 ms"),
            (&[0x19, 1, 1], Some((2, 5760)), "SILK, twice 60 ms"),
            (&[0x68, 1, 1], Some((1, 960)), "hybrid, 20 ms"),
            (&[0x80, 1, 1], Some((1, 120)), "CELT, 2.5 ms"),
            (&[0xfc, 1, 1], Some((1, 960)), "CELT, stereo, 20 ms"),
            (&[0xff, 3, 1], Some((3, 2880)), "three frames of 20 ms"),
            (&[0xff, 7, 1], None, "140 ms"),
            (&[0x83, 48, 1], Some((48, 5760)), "48 frames of 2.5 ms"),
            (&[0x83, 49, 1], None, "one more"),
            (&[0x83, 0, 1], None, "no frame"),
            (&[0x1b, 63, 1], None, "63 frames of 60 ms"),
            (&[0x83], None, "no frame count"),
            (&[], None, "empty"),
        ] {
            let toc = Toc::parse(payload);
            assert_eq!(toc.map(|toc| (toc.frames, toc.samples)), expected, "{remark}");
            assert_eq!(inspect(payload).is_some(), toc.is_some());
        }
        assert!(Toc::parse(&[0xfc]).unwrap().stereo && Toc::parse(&[0xfc]).unwrap().silence);
        assert!(!Toc::parse(&[0xf8, 1, 2]).unwrap().silence);
    }
}
