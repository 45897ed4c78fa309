//! Elements in bulk: chooses the instruction set, and calls the two algorithms.
//!
//! `encode/` and `decode/` each have one algorithm (`mod.rs`) above one file per instruction set
//! with the same few functions. The caller has checked that the machine has `isa`
//! ([`Isa::is_available`]): the algorithms do not ask again before they call code for it. Headers
//! of arrays, vectors and pieces of streams are left to the callers.
#![expect(unsafe_code, reason = "vector loads, stores and calls into code for one instruction set")]

pub(crate) mod decode;
pub(crate) mod encode;
mod isa;
mod scalar;

use core::mem::MaybeUninit;

pub use isa::Isa;
pub(crate) use scalar::Number;

use crate::element::Element;
use crate::error::ElementError;

/// Room behind the longest possible output that lets the kernels write whole vectors to the end;
/// never required.
pub(crate) const SLACK: usize = 64;

/// What an element type is, apart from its size.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Unsigned,
    Signed,
    Float,
}

/// What the algorithms know of an element type.
pub trait BulkElement: encode::EncodeElement + Copy + 'static {
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

/// Why decoding ended before the last element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The input ends.
    Truncated,
    /// The next element is not acceptable.
    Element(ElementError),
}

/// How far decoding came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// Elements written.
    pub(crate) elements: usize,
    /// Bytes they took.
    pub(crate) bytes: usize,
    /// Why not all were, if so.
    pub(crate) stop: Option<Stop>,
}

/// Writes the elements of `values` to the beginning of `out`, which is at least `T::ENCODED_MAX`
/// times as long; returns the bytes initialised. Bytes behind those may change, but never become
/// uninitialised.
pub(crate) fn encode<T: Element>(isa: Isa, values: &[T], out: &mut [MaybeUninit<u8>]) -> usize {
    debug_assert!(isa.is_available());
    assert!(out.len() / T::ENCODED_MAX >= values.len());
    encode::encode(isa, values, out)
}

/// Initialised memory, for functions that write to it only what is initialised: [`encode`] and
/// [`decode`].
pub(crate) fn as_uninit<T>(slice: &mut [T]) -> &mut [MaybeUninit<T>] {
    let length = slice.len();
    // SAFETY: the same memory; the layouts are the same, and it stays initialised.
    unsafe { core::slice::from_raw_parts_mut(slice.as_mut_ptr().cast(), length) }
}

/// Reads elements from `input` until `out` is full, the input ends or an element is not acceptable.
pub(crate) fn decode<T: Element>(isa: Isa, input: &[u8], out: &mut [MaybeUninit<T>]) -> Decoded {
    debug_assert!(isa.is_available());
    decode::decode(isa, input, out)
}
