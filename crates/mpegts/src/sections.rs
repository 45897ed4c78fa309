//! Sections that are passed on as they are: cues of SCTE 35 and private sections (ISO/IEC 13818-1
//! section 2.4.4.10).
//!
//! A section is a frame of a track of data, with what the table said of its PID:
//!
//! ```text
//!  data of the frame: | length 8 | descriptors | section |
//!  a cue: | 0xfc | .. 4, length 12 | protocol version 8 | encrypted 1, algorithm 6, PTS adjustment 33
//!         | .. | CRC 32 |                                      (ANSI/SCTE 35 section 9.6)
//! ```
//!
//! All times within a cue are those of its program, and the adjustment is to be added to them. So
//! that it stays right whatever clock the stream has further on, the adjustment in a frame is
//! relative to the time of the frame; whoever writes the cue adds what that time is there.

use media::{Codec, FourCc, Frame, FrameRole, MediaKind, Timestamp, TrackId};

use crate::codecs::SCTE_35;
use crate::crc::crc32;
use crate::pes::TICKS_BITS;

/// What a frame with a cue of SCTE 35 has for its codec.
pub const CUE: Codec = Codec::Unknown(FourCc(*b"CUEI"));

/// What a frame with a private section has for its codec.
pub const PRIVATE_SECTION: Codec = Codec::Unknown(FourCc(*b"psec"));

/// PIDs with sections that are passed on; further ones are left out.
pub(crate) const SECTION_TRACKS_MAX: usize = 4;

/// Bytes of a private section, its header and CRC among them; of a cue as well.
pub(crate) const PRIVATE_SECTION_BYTES_MAX: usize = 4096;

/// Bytes of a PID's descriptors. Those of all PIDs have to fit into one table.
pub(crate) const INFO_BYTES_MAX: usize = 64;

/// Stream type of private sections.
pub(crate) const PRIVATE_SECTIONS: u8 = 0x05;

const CUE_TABLE: u8 = 0xfc;
/// A cue with an empty command and no descriptors.
const CUE_BYTES_MIN: usize = 20;

/// The descriptor by which a program says that it has cues (ANSI/SCTE 35 section 8.1).
pub(crate) const CUE_REGISTRATION: [u8; 6] = *b"\x05\x04CUEI";

/// A section and what the table says of its PID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Passed<'a> {
    pub(crate) stream_type: u8,
    /// Descriptors.
    pub(crate) info: &'a [u8],
    pub(crate) section: &'a [u8],
}

impl<'a> Passed<'a> {
    /// As a frame at `ticks`. `None` if the section is none of its kind.
    pub(crate) fn to_frame(self, index: u8, ticks: i64) -> Option<Frame> {
        let Self { stream_type, info, section } = self;
        let is_cue = stream_type == SCTE_35;
        let has_crc = is_cue || section.get(1)? & 0x80 != 0;
        let is_right = (!has_crc || crc32(section) == 0)
            && (!is_cue || (section[0] == CUE_TABLE && section.len() >= CUE_BYTES_MIN));
        if !is_right || info.len() > INFO_BYTES_MAX {
            return None;
        }
        let mut data = Vec::with_capacity(1 + info.len() + section.len());
        data.push(info.len() as u8);
        data.extend_from_slice(info);
        data.extend_from_slice(section);
        if is_cue {
            adjust(&mut data[1 + info.len()..], ticks.wrapping_neg());
        }
        let track = TrackId { kind: MediaKind::Data, index };
        let time = Timestamp::from_ticks(ticks, crate::TICKS_PER_SECOND);
        let codec = if is_cue { CUE } else { PRIVATE_SECTION };
        Some(Frame::new(track, FrameRole::Other, codec, (time, time), data))
    }

    /// What a frame has; `None` if it is another of data. The times of a cue are still relative.
    pub(crate) fn of_frame(frame: &'a Frame) -> Option<Self> {
        let stream_type = match (frame.track.kind, frame.codec) {
            (MediaKind::Data, CUE) => SCTE_35,
            (MediaKind::Data, PRIVATE_SECTION) => PRIVATE_SECTIONS,
            _ => return None,
        };
        let (&length, rest) = frame.data().split_first()?;
        let (info, section) = rest.split_at_checked(usize::from(length))?;
        // Frames of other nodes are looked at as closely as those of publishers.
        let least = if stream_type == SCTE_35 { CUE_BYTES_MIN } else { 3 };
        let is_right = (least..=PRIVATE_SECTION_BYTES_MAX).contains(&section.len());
        (is_right && info.len() <= INFO_BYTES_MAX).then_some(Self { stream_type, info, section })
    }

    /// Appends the section as the payload of packets, behind a pointer; what it is relative to is at
    /// `ticks` now.
    pub(crate) fn write(self, out: &mut Vec<u8>, ticks: i64) {
        out.push(0);
        let at = out.len();
        out.extend_from_slice(self.section);
        if self.stream_type == SCTE_35 {
            adjust(&mut out[at..], ticks);
        }
    }
}

/// Adds to the adjustment of a cue, which has [`CUE_BYTES_MIN`] bytes at least.
fn adjust(cue: &mut [u8], ticks: i64) {
    let (high, low) = (cue[4] & 1, [cue[5], cue[6], cue[7], cue[8]]);
    let before = i64::from(high) << 32 | i64::from(u32::from_be_bytes(low));
    let after = before.wrapping_add(ticks) & ((1 << TICKS_BITS) - 1);
    cue[4] = cue[4] & !1 | (after >> 32) as u8;
    cue[5..9].copy_from_slice(&(after as u32).to_be_bytes());
    let end = cue.len() - 4;
    let crc = crc32(&cue[..end]);
    cue[end..].copy_from_slice(&crc.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cue without a command ("splice_null") and this adjustment.
    fn cue(adjustment: u64) -> Vec<u8> {
        let mut cue = vec![0xfc, 0x30, 17, 0, (adjustment >> 32) as u8];
        cue.extend_from_slice(&(adjustment as u32).to_be_bytes());
        cue.extend_from_slice(&[0, 0xff, 0xf0, 0, 0, 0, 0]);
        let crc = crc32(&cue);
        cue.extend_from_slice(&crc.to_be_bytes());
        cue
    }

    #[test]
    fn the_adjustment_of_a_cue_goes_with_the_clock() {
        for (adjustment, read_at, written_at, expected) in [
            (0, 900, 900, 0),
            (7, 0, 900, 907),
            // Back across zero, and on across the end of the 33 bits.
            (0, 900, 0, (1 << 33) - 900),
            ((1 << 33) - 1, 5, 7, 1),
            (1 << 32, 0, 1 << 32, 0),
            (3, i64::from(u32::MAX) * 9, 0, (3 - i64::from(u32::MAX) * 9).rem_euclid(1 << 33)),
        ] {
            let section = cue(adjustment);
            let passed = Passed { stream_type: SCTE_35, info: &[1, 2], section: &section };
            let frame = passed.to_frame(2, read_at).expect("a cue");
            assert_eq!(frame.track, TrackId { kind: MediaKind::Data, index: 2 });
            let back = Passed::of_frame(&frame).expect("a cue");
            assert_eq!((back.info, back.stream_type), (&[1, 2][..], SCTE_35));
            let mut out = Vec::new();
            back.write(&mut out, written_at);
            assert_eq!(out[1..], cue(expected.cast_unsigned()), "{adjustment} {read_at} {written_at}");
        }
    }

    #[test]
    fn what_is_no_section_of_its_kind_is_no_frame() {
        let to_frame = |stream_type, section: &[u8]| {
            let passed = Passed { stream_type, info: &[], section };
            passed.to_frame(0, 0).is_some()
        };
        let good = cue(0);
        assert!(to_frame(SCTE_35, &good));
        for byte in 0..good.len() {
            let mut wrong = good.clone();
            wrong[byte] ^= 4;
            assert!(!to_frame(SCTE_35, &wrong), "{byte}");
        }
        let mut other = good.clone();
        other[0] = 0xc0;
        let end = other.len() - 4;
        let crc = crc32(&other[..end]);
        other[end..].copy_from_slice(&crc.to_be_bytes());
        assert!(!to_frame(SCTE_35, &other), "another table");
        // Of private sections, those with the long head have a CRC.
        assert!(to_frame(PRIVATE_SECTIONS, &[0x40, 0x30, 1, 9]) && !to_frame(PRIVATE_SECTIONS, &[0x40]));
        assert!(!to_frame(PRIVATE_SECTIONS, &[0x40, 0xb0, 1, 9]));
    }
}
