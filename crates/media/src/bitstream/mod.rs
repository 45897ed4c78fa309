//! Walks over coded data, one of each: bits and Exp-Golomb numbers, NAL units behind lengths or start codes,
//! OBUs and LEB128; frames of AAC in LATM.

mod bits;
mod latm;
mod nal;
mod obu;

pub use bits::{BitReader, BitWriter, Malformed, Rest, escape_on};
pub use latm::StreamMuxConfig;
pub use nal::{NAL_UNITS_MAX, NalError, NalUnits, Nals, next_length_prefixed};
pub use obu::{Obu, leb128, next_obu, sized, write_leb128};
