//! VP8 and VP9: what a key frame's first bytes say (RFC 6386 section 9.1; VP9 bitstream
//! specification 6.2), and the VPCodecConfigurationRecord drawn in `video.rs`.

use super::record::Record;
use crate::bitstream::{BitReader, Malformed};

/// What a key frame says about the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Picture {
    profile: u8,
    depth: u8,
    /// As the record codes it: 1 is 4:2:0, 2 is 4:2:2, 3 is 4:4:4.
    chroma: u8,
    full_range: bool,
    width: u32,
    height: u32,
}

impl Picture {
    /// ```text
    ///  size 19 | show 1 | version 3 | 0: key frame 1 |  9d 01 2a | width 14, scale 2 | height 14, scale 2
    /// ```
    /// All numbers are little endian.
    pub(super) fn of_vp8(frame: &[u8]) -> Option<Self> {
        let [tag, _, _, 0x9d, 0x01, 0x2a, w0, w1, h0, h1, ..] = *frame else { return None };
        if tag & 1 != 0 {
            return None;
        }
        let size = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
        let (width, height) = (size(w0, w1), size(h0, h1));
        Some(Self { profile: tag >> 1 & 7, depth: 8, chroma: 1, full_range: false, width, height })
    }

    /// The uncompressed header. Of a superframe the first frame says whether it is a key frame
    /// (spatial layers refer to those below them), and the last one, which is the one that is
    /// shown, how large it is, if it says so itself.
    pub(super) fn of_vp9(frame: &[u8]) -> Option<Self> {
        let first = Self::of_vp9_frame(frame).ok()?;
        Some(last_frame(frame).and_then(|last| Self::of_vp9_frame(last).ok()).unwrap_or(first))
    }

    /// Width and height.
    pub(super) fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    fn of_vp9_frame(frame: &[u8]) -> Result<Self, Malformed> {
        let mut bits = BitReader::new(frame);
        if bits.u(2)? != FRAME_MARKER {
            return Err(Malformed);
        }
        let profile = bits.u(1)? | bits.u(1)? << 1;
        let is_reserved = profile == 3 && bits.bit()?;
        let (shows_existing, is_inter) = (bits.bit()?, bits.bit()?);
        if is_reserved || shows_existing || is_inter {
            return Err(Malformed);
        }
        bits.skip(2)?; // shown, error resilient
        if bits.u(24)? != SYNC_CODE {
            return Err(Malformed);
        }
        let depth = match profile >= 2 {
            true if bits.bit()? => 12,
            true => 10,
            false => 8,
        };
        let has_choice = profile & 1 != 0;
        let (full_range, chroma) = if bits.u(3)? == SRGB {
            (true, 3)
        } else {
            let full_range = bits.bit()?;
            let (x, y) = if has_choice { (bits.bit()?, bits.bit()?) } else { (true, true) };
            (
                full_range,
                if x && y {
                    1
                } else if x {
                    2
                } else {
                    3
                },
            )
        };
        if has_choice {
            bits.skip(1)?;
        }
        let (width, height) = (bits.u(16)? + 1, bits.u(16)? + 1);
        Ok(Self { profile: profile as u8, depth, chroma, full_range, width, height })
    }

    pub(super) fn record(&self) -> Record {
        let samples = u64::from(self.width) * u64::from(self.height);
        let level = LEVELS.iter().find(|(most, _)| samples <= *most).map_or(62, |(_, level)| *level);
        let depth = self.depth << 4 | self.chroma << 1 | u8::from(self.full_range);
        // Colours are not specified (2); no initialization data.
        let bytes = vec![self.profile, level, depth, 2, 2, 2, 0, 0];
        Record { bytes, width: self.width, height: self.height }
    }
}

/// The last frame of a superframe (annex B); `None` if it is none.
fn last_frame(frame: &[u8]) -> Option<&[u8]> {
    let head = *frame.last()?;
    if head & 0xe0 != 0xc0 {
        return None;
    }
    let (bytes, frames) = (usize::from(head >> 3 & 3) + 1, usize::from(head & 7) + 1);
    let index = frame.len().checked_sub(2 + bytes * frames)?;
    if frame[index] != head {
        return None;
    }
    let size = |nth: usize| {
        let at = index + 1 + nth * bytes;
        frame[at..at + bytes].iter().rev().fold(0usize, |size, byte| size << 8 | usize::from(*byte))
    };
    let before: usize = (0..frames - 1).map(size).sum();
    frame.get(before..before.checked_add(size(frames - 1))?).filter(|last| !last.is_empty())
}

/// Most luma samples of a picture, and the level ("VP9 Levels"; the lowest of those with the same size).
const LEVELS: [(u64, u8); 10] = [
    (36_864, 10),
    (73_728, 11),
    (122_880, 20),
    (245_760, 21),
    (552_960, 30),
    (983_040, 31),
    (2_228_224, 40),
    (8_912_896, 50),
    (35_651_584, 60),
    (u64::MAX, 62),
];
const FRAME_MARKER: u32 = 2;
const SYNC_CODE: u32 = 0x49_8342;
const SRGB: u32 = 7;
