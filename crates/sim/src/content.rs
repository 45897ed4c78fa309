//! What is published, byte for byte, so that whoever receives a frame can tell whether it is the right one.
//!
//! A publication has a number of its own, and every frame carries it, with the frame's own number. All other
//! bytes follow from these two, so a player makes the frame once more and compares.

use rtmp::MediaKind;

/// Milliseconds between two frames; audio and video take turns.
pub const FRAME_MS: u32 = 20;

/// Bytes of a NAL unit ahead of the stamp.
const SLICE_HEADER_BYTES: usize = 4;

/// Bytes of a stamp.
const STAMP_BYTES: usize = 12;

/// Keeps small numbers from being rows of zeros, which no NAL unit has.
const STAMP_MASK: u64 = 0xa5a5_a5a5_a5a5_a5a5;

/// `AVCDecoderConfigurationRecord` of a small picture in the baseline profile.
const AVCC: [u8; 37] = [
    1, 0x42, 0xc0, 0x0a, 0xff, 0xe1, 0, 22, 0x67, 0x42, 0xc0, 0x0a, 0xdc, 0x96, 0xc0, 0x44, 0, 0, 3, 0, 4, 0,
    0, 3, 0, 0xf2, 0x3c, 0x48, 0x9a, 0x80, 1, 0, 4, 0x68, 0xce, 0x0f, 0xc8,
];

/// The shape of a publication.
#[derive(Debug, Clone, Copy)]
pub struct Content {
    /// Its number, never used twice in a simulation.
    pub id: u64,
    /// Pictures from one key frame to the next.
    pub gop: u32,
    /// How many of them are over when it begins.
    pub phase: u32,
    /// Bytes of a picture.
    pub video_bytes: u32,
    /// Milliseconds at its first frame.
    pub begins_ms: u32,
}

/// A frame as RTMP and FLV carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaggedFrame {
    /// Audio or video.
    pub kind: MediaKind,
    /// Milliseconds.
    pub timestamp: u32,
    /// The body of the tag.
    pub body: Vec<u8>,
}

/// What a body says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// A configuration.
    Config,
    /// Frame of a publication.
    Frame {
        /// Number of the publication.
        id: u64,
        /// Number of the frame in it.
        number: u32,
    },
    /// Neither.
    Foreign,
}

impl Content {
    /// Whether frame `number` is a key frame.
    pub fn is_key(&self, number: u32) -> bool {
        number.is_multiple_of(2) && self.in_gop(number) == 0
    }

    /// Which picture of its group frame `number` is.
    fn in_gop(&self, number: u32) -> u32 {
        (number / 2 + self.phase) % self.gop
    }

    /// The configurations, which precede all frames.
    pub fn configs(&self) -> [TaggedFrame; 2] {
        let video = [&[0x17, 0, 0, 0, 0][..], &AVCC].concat();
        let audio = vec![0xaf, 0, 0x12, 0x10];
        let config = |kind, body| TaggedFrame { kind, timestamp: self.begins_ms, body };
        [config(MediaKind::Video, video), config(MediaKind::Audio, audio)]
    }

    /// Frame `number`.
    pub fn frame(&self, number: u32) -> TaggedFrame {
        let timestamp = self.begins_ms.wrapping_add(number.wrapping_mul(FRAME_MS));
        if number.is_multiple_of(2) {
            let key = self.is_key(number);
            let nal_bytes = self.video_bytes.max(24) * if key { 4 } else { 1 };
            let mut body = Vec::with_capacity(9 + nal_bytes as usize);
            body.extend_from_slice(&[if key { 0x17 } else { 0x27 }, 1, 0, 0, 0]);
            body.extend_from_slice(&nal_bytes.to_be_bytes());
            body.extend_from_slice(&slice_header(self.in_gop(number)));
            self.fill(number, nal_bytes as usize - SLICE_HEADER_BYTES, &mut body);
            TaggedFrame { kind: MediaKind::Video, timestamp, body }
        } else {
            let mut body = Vec::with_capacity(82);
            body.extend_from_slice(&[0xaf, 1]);
            self.fill(number, 80, &mut body);
            TaggedFrame { kind: MediaKind::Audio, timestamp, body }
        }
    }

    /// Appends the stamp and bytes that follow from it, `len` in all.
    fn fill(&self, number: u32, len: usize, out: &mut Vec<u8>) {
        out.reserve(len);
        out.extend_from_slice(&(self.id ^ STAMP_MASK).to_be_bytes());
        out.extend_from_slice(&(number ^ STAMP_MASK as u32).to_be_bytes());
        let mut state = (self.id << 32 | u64::from(number)) ^ 0x9e37_79b9_7f4a_7c15;
        let begin = out.len();
        out.resize(begin + len - STAMP_BYTES, 0);
        for word in out[begin..].chunks_mut(8) {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            // Never zero, so that nothing looks like a start code.
            let bytes = (state >> 16 | 0x0101_0101_0101_0101).to_be_bytes();
            word.copy_from_slice(&bytes[..word.len()]);
        }
    }
}

/// NAL unit header and slice header (ITU-T H.264 sections 7.3.1 and 7.3.3) of picture `at` behind its key
/// frame, with the parameter sets of [`AVCC`]: a bridge reads them.
///
/// ```text
/// key: 1 0001000 | 1 0000 1 00 | 1 1 1 1 ....   first_mb, I; pps, frame_num, idr_pic_id, marking; qp, filter
/// not: 1 00110 1 f | fff 0 0 0 1 1 | 1 1 ....   first_mb, P, pps, frame_num; override, lists, marking, qp; filter
/// ```
fn slice_header(at: u32) -> [u8; SLICE_HEADER_BYTES] {
    let frame_num = (at % 16) as u8;
    match at {
        0 => [0x65, 0x88, 0x84, 0xff],
        _ => [0x41, 0x9a | frame_num >> 3, frame_num << 5 | 0x03, 0xff],
    }
}

/// Id and number that follow in a stamp.
fn read_stamp(bytes: &[u8]) -> Option<(u64, u32)> {
    let id = bytes.get(..8)?.try_into().map(u64::from_be_bytes).ok()?;
    let number = bytes.get(8..12)?.try_into().map(u32::from_be_bytes).ok()?;
    Some((id ^ STAMP_MASK, number ^ STAMP_MASK as u32))
}

/// Publication and number of the picture that a NAL unit is a slice of.
pub fn slice_stamp(nal: &[u8]) -> Option<(u64, u32)> {
    read_stamp(nal.get(SLICE_HEADER_BYTES..)?)
}

/// Reads the stamp of a body.
pub fn stamp(kind: MediaKind, body: &[u8]) -> Stamp {
    let at = match (kind, body) {
        (MediaKind::Video | MediaKind::Audio, [_, 0, ..]) => return Stamp::Config,
        (MediaKind::Video, [_, 1, ..]) => 9 + SLICE_HEADER_BYTES,
        (MediaKind::Audio, [_, 1, ..]) => 2,
        _ => return Stamp::Foreign,
    };
    let stamp = body.get(at..).and_then(read_stamp);
    stamp.map_or(Stamp::Foreign, |(id, number)| Stamp::Frame { id, number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_says_which_one_it_is() {
        let content = Content { id: 7, gop: 25, phase: 0, video_bytes: 900, begins_ms: 1000 };
        for number in 0..200 {
            let frame = content.frame(number);
            assert_eq!(stamp(frame.kind, &frame.body), Stamp::Frame { id: 7, number });
            assert_eq!(frame, content.frame(number));
        }
        assert_eq!(slice_stamp(&content.frame(6).body[9..]), Some((7, 6)));
        assert!(content.is_key(0) && content.is_key(50) && !content.is_key(2) && !content.is_key(1));
        let later = Content { phase: 24, ..content };
        assert!(!later.is_key(0) && later.is_key(2) && later.is_key(52));
    }
}
