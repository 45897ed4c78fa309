//! Decoding whole arrays from a slice, and their two parts for callers with their own memory for
//! the elements.

use alloc::vec::Vec;
use core::mem::MaybeUninit;

use crate::bulk::{self, Decoded, Isa, Stop};
use crate::element::Element;
use crate::error::DecodeError;
use crate::header::decode_array_header;

/// Reads one array from the beginning of `input`, appends its elements to `out`, and returns the
/// bytes it took.
///
/// Reserves room for no more elements than `input` has bytes, whatever the header says.
///
/// # Errors
/// See [`DecodeError`]; `out` then has the elements it had before.
#[inline]
pub fn decode_into<T: Element>(input: &[u8], out: &mut Vec<T>) -> Result<usize, DecodeError> {
    append(Isa::detect(), input, out)
}

/// The same with an instruction set of the caller's choice.
///
/// # Errors
/// As [`decode_into`].
///
/// # Panics
/// When the machine does not have `isa`.
pub fn decode_into_with<T: Element>(isa: Isa, input: &[u8], out: &mut Vec<T>) -> Result<usize, DecodeError> {
    assert!(isa.is_available(), "{isa:?} is not available on this machine");
    append(isa, input, out)
}

/// Fills `out` with elements from the beginning of `input`, which is behind the header, and returns
/// the bytes they took.
///
/// # Errors
/// [`DecodeError::Truncated`] and [`DecodeError::Element`]; some of `out` may have changed then.
pub fn decode_elements<T: Element>(input: &[u8], out: &mut [T]) -> Result<usize, DecodeError> {
    result(bulk::decode(Isa::detect(), input, bulk::as_uninit(out)))
}

/// The same into memory that need not be initialised, without an error all of it is afterwards, and
/// with an instruction set of the caller's choice.
///
/// # Errors
/// As [`decode_elements`].
///
/// # Panics
/// When the machine does not have `isa`.
pub fn decode_elements_uninit<T: Element>(
    isa: Isa,
    input: &[u8],
    out: &mut [MaybeUninit<T>],
) -> Result<usize, DecodeError> {
    assert!(isa.is_available(), "{isa:?} is not available on this machine");
    result(bulk::decode(isa, input, out))
}

/// How far [`decode_whole_elements_uninit`] came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeElements {
    /// Elements read: so many of the output are initialised.
    pub elements: usize,
    /// Bytes they took.
    pub bytes: usize,
}

/// Reads elements from the beginning of `input`, which is behind the header, until `out` is full or
/// what is left of `input` is no whole element: one step through an array that arrives in pieces,
/// into memory of the caller's. The bytes that are left belong before the next piece.
///
/// # Errors
/// [`DecodeError::Element`], whose index counts from the first element of this call; those before
/// it are initialised.
///
/// # Panics
/// When the machine does not have `isa`.
pub fn decode_whole_elements_uninit<T: Element>(
    isa: Isa,
    input: &[u8],
    out: &mut [MaybeUninit<T>],
) -> Result<WholeElements, DecodeError> {
    assert!(isa.is_available(), "{isa:?} is not available on this machine");
    let Decoded { elements, bytes, stop } = bulk::decode(isa, input, out);
    match stop {
        None | Some(Stop::Truncated) => Ok(WholeElements { elements, bytes }),
        Some(Stop::Element(error)) => Err(DecodeError::Element { index: elements, error }),
    }
}

#[inline]
fn append<T: Element>(isa: Isa, input: &[u8], out: &mut Vec<T>) -> Result<usize, DecodeError> {
    let (count, header) = decode_array_header(input)?;
    Ok(header + append_elements(isa, count as usize, &input[header..], out)?)
}

/// Appends `count` elements from the beginning of `input`, and returns the bytes they took; with an
/// error, nothing.
#[inline]
#[expect(unsafe_code, reason = "the vector's spare room is filled by the kernels")]
pub(crate) fn append_elements<T: Element>(
    isa: Isa,
    count: usize,
    input: &[u8],
    out: &mut Vec<T>,
) -> Result<usize, DecodeError> {
    // Each element takes a byte at least, so no more is allocated than has been seen.
    let room = count.min(input.len());
    out.reserve(room);
    let bytes = result(bulk::decode(isa, input, &mut out.spare_capacity_mut()[..room]))?;
    if room < count {
        return Err(DecodeError::Truncated);
    }
    // SAFETY: without a reason to stop all `count` elements were initialised.
    unsafe { out.set_len(out.len() + count) };
    Ok(bytes)
}

#[inline]
fn result(decoded: Decoded) -> Result<usize, DecodeError> {
    match decoded.stop {
        None => Ok(decoded.bytes),
        Some(Stop::Truncated) => Err(DecodeError::Truncated),
        Some(Stop::Element(error)) => Err(DecodeError::Element { index: decoded.elements, error }),
    }
}
