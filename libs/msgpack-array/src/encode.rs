//! Encoding whole arrays, and their two parts for callers that have the elements in pieces.

use alloc::vec::Vec;
use core::mem::MaybeUninit;

use crate::bulk::{self, Isa};
use crate::element::Element;
use crate::header::{HEADER_MAX, array_header};

/// Bytes that an array of `count` elements takes at most, header included.
pub const fn max_encoded_len<T: Element>(count: usize) -> usize {
    count.saturating_mul(T::ENCODED_MAX).saturating_add(HEADER_MAX)
}

/// Appends `values` to `out` as one array.
///
/// Reserves [`max_encoded_len`] and some bytes more; what the elements do not need stays as
/// capacity.
///
/// # Panics
/// With more than 2^32 - 1 elements, which no MessagePack array can have.
#[inline]
pub fn encode<T: Element>(values: &[T], out: &mut Vec<u8>) {
    append(Isa::detect(), values, true, out);
}

/// The same with an instruction set of the caller's choice.
///
/// # Panics
/// As [`encode`], and when the machine does not have `isa`.
pub fn encode_with<T: Element>(isa: Isa, values: &[T], out: &mut Vec<u8>) {
    assert!(isa.is_available(), "{isa:?} is not available on this machine");
    append(isa, values, true, out);
}

/// Appends the header of an array of `count` elements, which the caller promises to append next.
pub fn encode_array_header(count: u32, out: &mut Vec<u8>) {
    let (header, length) = array_header(count);
    out.extend_from_slice(&header[..length]);
}

/// Appends elements without a header: a part of an array whose header [`encode_array_header`] has
/// written.
pub fn encode_elements<T: Element>(values: &[T], out: &mut Vec<u8>) {
    append(Isa::detect(), values, false, out);
}

/// Writes `values` to the beginning of `out` as one array and returns the bytes written, or `None`
/// when `out` is shorter than the header and the greatest length of every element
/// ([`max_encoded_len`] bytes always do) or an array cannot have as many. Of the bytes behind those
/// written, some may have changed.
pub fn encode_into<T: Element>(values: &[T], out: &mut [u8]) -> Option<usize> {
    encode_into_uninit(values, bulk::as_uninit(out))
}

/// The same into memory that need not be initialised; as many bytes as returned are afterwards.
pub fn encode_into_uninit<T: Element>(values: &[T], out: &mut [MaybeUninit<u8>]) -> Option<usize> {
    let (header, length) = array_header(u32::try_from(values.len()).ok()?);
    let (head, elements) = out.split_at_mut_checked(length)?;
    let written = encode_elements_uninit(Isa::detect(), values, elements)?;
    head.write_copy_of_slice(&header[..length]);
    Some(length + written)
}

/// Writes elements without a header to the beginning of `out`, and returns the bytes initialised;
/// `None` when `out` is shorter than [`Element::ENCODED_MAX`] times their number. `f32`, `f64` and
/// `bool` always take that many.
///
/// # Panics
/// When the machine does not have `isa`.
pub fn encode_elements_uninit<T: Element>(
    isa: Isa,
    values: &[T],
    out: &mut [MaybeUninit<u8>],
) -> Option<usize> {
    assert!(isa.is_available(), "{isa:?} is not available on this machine");
    (out.len() / T::ENCODED_MAX >= values.len()).then(|| bulk::encode(isa, values, out))
}

#[inline]
#[expect(unsafe_code, reason = "the vector's spare room is filled by the kernels")]
fn append<T: Element>(isa: Isa, values: &[T], with_header: bool, out: &mut Vec<u8>) {
    let (header, length) = match with_header {
        true => array_header(
            u32::try_from(values.len()).expect("a MessagePack array has at most 2^32 - 1 elements"),
        ),
        false => ([0; HEADER_MAX], 0),
    };
    out.reserve(max_encoded_len::<T>(values.len()).saturating_add(bulk::SLACK));
    let spare = out.spare_capacity_mut();
    // All five bytes, because a copy of constant length is faster; elements, or the next appended,
    // follow those that count.
    spare[..HEADER_MAX].write_copy_of_slice(&header);
    let written = length + bulk::encode(isa, values, &mut spare[length..]);
    // SAFETY: the header and `bulk::encode` initialised as many bytes from the beginning of the
    // spare capacity.
    unsafe { out.set_len(out.len() + written) };
}
