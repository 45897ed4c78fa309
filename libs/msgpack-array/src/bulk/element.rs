//! What the algorithms know of an element type. Below all of them: each implements or asks this.

use core::mem::MaybeUninit;

use super::Isa;
use crate::error::ElementError;

/// What the algorithms know of an element type.
pub trait BulkElement: EncodeElement + Copy + 'static {
    #[doc(hidden)]
    const KIND: Kind;

    /// Writes the shortest form of one element and returns its length, at most 9.
    #[doc(hidden)]
    fn encode_one(self, out: &mut [u8; 9]) -> usize;

    /// Reads one element of any legal width from the beginning of `input`; returns it and its
    /// length.
    #[doc(hidden)]
    fn decode_one(input: &[u8]) -> Result<(Self, usize), Stop>;

    /// The number as this type, if it is of a type that goes into it and keeps its value exactly.
    #[doc(hidden)]
    fn from_number(number: Number) -> Option<Self>;
}

/// How an element type is encoded: its functions in the files of the instruction sets.
pub trait EncodeElement: Sized {
    /// Writes all `values` to the beginning of `out`, and returns the bytes initialised.
    ///
    /// # Safety
    /// This machine has `isa`, and `out` is at least `ENCODED_MAX` times as long as `values`.
    #[doc(hidden)]
    unsafe fn encode_run(isa: Isa, values: &[Self], out: &mut [MaybeUninit<u8>]) -> usize;
}

/// What an element type is, apart from its size.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Unsigned,
    Signed,
    Float,
}

/// A number as its bytes encode it, floats by their bits.
#[derive(Debug, Clone, Copy)]
pub enum Number {
    Unsigned(u64),
    Signed(i64),
    Single(u32),
    Double(u64),
    Bool(bool),
}

/// Why decoding ended before the last element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The input ends.
    Truncated,
    /// The next element is not acceptable.
    Element(ElementError),
}
