//! Dependency descriptor (AV1 RTP specification, appendix A): frame borders beside the payload, for
//! any codec.
//!
//! ```text
//! |S|E| template id |       frame number (16)       |T|A|D|F|C| ...   the second part only if there are more bytes
//! ```
//! A structure, which comes with key frames, says what kinds of frames there are and what subsets
//! of them can be decoded, the decode targets; chains are the frames that none of these may lack.
//! [`DependencyDescriptor`] reads the mandatory fields, which is enough to forward whole encodings.
//! To forward parts of one, [`DependencyReader`] reads everything, [`TargetSelector`] decides which
//! frames a receiver gets, and [`write_active_decode_targets`] tells the receiver. Left out:
//! writing structures of our own, for bridges.

mod frame;
mod selector;
mod structure;
mod write;

use std::error::Error;
use std::fmt;

use media::bitstream::Malformed;

pub use frame::{DependencyReader, FrameDependencies};
pub use selector::TargetSelector;
pub use structure::{DecodeTarget, DependencyStructure, Layer};
pub use write::{DESCRIPTOR_LEN_MAX, write_active_decode_targets};

/// Most templates of a structure: ids have six bits.
pub const TEMPLATES_MAX: usize = 64;
/// Most decode targets of a structure: their number has five bits.
pub const DECODE_TARGETS_MAX: usize = 32;
/// Most chains of a structure: not more than decode targets.
pub const CHAINS_MAX: usize = DECODE_TARGETS_MAX;
/// Most spatial layers, and most temporal layers: VP9 and AV1 have three bits or less for each.
pub const LAYERS_MAX: usize = 8;
/// Most frames that a frame refers to: H.264 and H.265 have 16 reference pictures, others fewer.
pub const REFERENCES_MAX: usize = 16;

/// How a frame relates to a decode target (table A.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Indication {
    /// It is not part of the decode target.
    NotPresent,
    /// It is part of it, and no other frame of it refers to it.
    Discardable,
    /// It is part of it, and if it can be decoded, so can all frames of the decode target behind
    /// it.
    Switch,
    /// It is part of it, and neither of these.
    Required,
}

/// Why a descriptor cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DependencyError {
    /// It ends before its fields do.
    CutOff,
    /// The structure has no such template: it belongs to another structure, which was lost.
    UnknownTemplate,
    /// More templates, layers or references than the limits allow.
    TooMany,
}

impl From<Malformed> for DependencyError {
    fn from(_: Malformed) -> Self {
        Self::CutOff
    }
}

impl fmt::Display for DependencyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::CutOff => "the dependency descriptor is cut off",
            Self::UnknownTemplate => "the dependency descriptor's template is not in the structure",
            Self::TooMany => "the dependency descriptor exceeds a limit",
        })
    }
}

impl Error for DependencyError {}

/// Why a descriptor cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DescriptorWriteError {
    /// What should be written with another mask is no descriptor.
    Malformed,
    /// It does not fit the buffer, or is longer than [`DESCRIPTOR_LEN_MAX`].
    NoRoom,
}

impl From<Malformed> for DescriptorWriteError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

impl From<DependencyError> for DescriptorWriteError {
    fn from(_: DependencyError) -> Self {
        Self::Malformed
    }
}

impl fmt::Display for DescriptorWriteError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Malformed => "no dependency descriptor",
            Self::NoRoom => "no room for the dependency descriptor",
        })
    }
}

impl Error for DescriptorWriteError {}

/// The fields of a dependency descriptor that every packet has, and whether it brings a new
/// structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DependencyDescriptor {
    /// First packet of a frame.
    pub starts_frame: bool,
    /// Last packet of a frame.
    pub ends_frame: bool,
    /// Which template of the structure describes the frame, `0..=63`.
    pub template_id: u8,
    /// Number of the frame; wraps at 2^16.
    pub frame_number: u16,
    /// A template structure comes with it: the first packet of a key frame.
    pub has_structure: bool,
}

impl DependencyDescriptor {
    /// Reads the mandatory fields and the flag behind them; `None` if there are fewer than three
    /// bytes.
    #[inline]
    pub fn parse(data: &[u8]) -> Option<Self> {
        let [first, high, low, ..] = *data else { return None };
        Some(Self {
            starts_frame: first & 0x80 != 0,
            ends_frame: first & 0x40 != 0,
            template_id: first & 0x3f,
            frame_number: u16::from_be_bytes([high, low]),
            has_structure: data.get(3).is_some_and(|flags| flags & 0x80 != 0),
        })
    }
}

/// Adds `frames` to the frame number, which wraps; data of fewer than three bytes stay as they are.
///
/// For a track whose frames come from one encoding, then from another: to its receiver the numbers
/// go on. Where frames of one encoding are left out, their numbers have to stay free, as
/// dependencies are differences of frame numbers.
#[inline]
pub fn shift_frame_number(data: &mut [u8], frames: u16) {
    if let [_, high, low, ..] = data {
        [*high, *low] = u16::from_be_bytes([*high, *low]).wrapping_add(frames).to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mandatory_fields_and_the_structure_flag_are_read() {
        let descriptor = DependencyDescriptor::parse(&[0x80 | 5, 1, 2]).unwrap();
        assert_eq!(
            descriptor,
            DependencyDescriptor {
                starts_frame: true,
                ends_frame: false,
                template_id: 5,
                frame_number: 0x0102,
                has_structure: false
            }
        );
        assert!(DependencyDescriptor::parse(&[0x40, 0, 0, 0x80]).unwrap().has_structure);
        assert!(DependencyDescriptor::parse(&[0x40, 0, 0, 0x80]).unwrap().ends_frame);
        assert!(!DependencyDescriptor::parse(&[0x40, 0, 0, 0x7f]).unwrap().has_structure);
        assert_eq!(DependencyDescriptor::parse(&[0xff, 0xff]), None);
    }
    #[test]
    fn frame_numbers_are_shifted_and_nothing_else_is() {
        for (data, frames, expected, remark) in [
            (&[0x85, 1, 2][..], 3, &[0x85, 1, 5][..], "the mandatory fields alone"),
            (&[0x85, 0xff, 0xff, 0x80, 7], 2, &[0x85, 0, 1, 0x80, 7], "wrapped, with a second part"),
            (&[0x85, 0, 0], 0xffff, &[0x85, 0xff, 0xff], "backwards"),
            (&[0x85, 1], 3, &[0x85, 1], "cut off"),
            (&[], 3, &[], "nothing"),
        ] {
            let mut shifted = data.to_vec();
            shift_frame_number(&mut shifted, frames);
            assert_eq!(shifted, expected, "{remark}");
        }
    }
}
