//! Elements in bulk: chooses the instruction set, and calls the two algorithms.
//!
//! `encode/` and `decode/` each have one algorithm (`mod.rs`) above one file per instruction set
//! with the same few functions. The caller has checked that the machine has `isa`
//! ([`Isa::is_available`]): the algorithms do not ask again before they call code for it. Headers
//! of arrays, vectors and pieces of streams are left to the callers.
#![expect(unsafe_code, reason = "vector loads, stores and calls into code for one instruction set")]

mod decode;
mod element;
mod encode;
mod isa;
mod scalar;

use core::mem::MaybeUninit;

pub(crate) use decode::Decoded;
#[cfg(feature = "serde")]
pub(crate) use element::Number;
pub(crate) use element::{BulkElement, Kind, Stop};
pub(crate) use encode::SLACK;
pub use isa::Isa;

use crate::element::Element;

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

/// The bytes of numbers with sign.
pub(crate) fn as_unsigned(values: &[i8]) -> &[u8] {
    // SAFETY: the same memory; both types are one byte, of which every value is valid.
    unsafe { core::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
}

/// Bytes as numbers with sign.
pub(crate) fn as_signed(bytes: &[u8]) -> &[i8] {
    // SAFETY: as in `as_unsigned`.
    unsafe { core::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

/// Reads elements from `input` until `out` is full, the input ends or an element is not acceptable.
pub(crate) fn decode<T: Element>(isa: Isa, input: &[u8], out: &mut [MaybeUninit<T>]) -> Decoded {
    debug_assert!(isa.is_available());
    decode::decode(isa, input, out)
}
