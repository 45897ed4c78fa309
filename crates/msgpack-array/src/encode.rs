//! Encoding whole arrays.

use alloc::vec::Vec;

use crate::bulk::{self, Isa};
use crate::element::Element;
use crate::header::{HEADER_MAX, array_header};

/// Bytes that an array of `count` elements takes at most, header included.
pub const fn max_encoded_len<T: Element>(count: usize) -> usize {
    HEADER_MAX + count * T::ENCODED_MAX
}

/// Appends `values` to `out` as one array.
///
/// # Panics
/// With more than 2^32 - 1 elements, which no MessagePack array can have.
pub fn encode<T: Element>(values: &[T], out: &mut Vec<u8>) {
    encode_with(Isa::detect(), values, out);
}

/// The same with an instruction set of the caller's choice.
///
/// # Panics
/// As [`encode`], and when the machine does not have `isa`.
#[expect(unsafe_code, reason = "the vector's spare room is filled by the kernels")]
pub fn encode_with<T: Element>(isa: Isa, values: &[T], out: &mut Vec<u8>) {
    assert!(isa.is_available(), "{isa:?} is not available on this machine");
    let count = u32::try_from(values.len()).expect("a MessagePack array has at most 2^32 - 1 elements");
    let (header, length) = array_header(count);
    out.reserve(max_encoded_len::<T>(values.len()) + bulk::SLACK);
    out.extend_from_slice(&header[..length]);
    let written = bulk::encode(isa, values, out.spare_capacity_mut());
    // SAFETY: the kernels initialised the first `written` bytes of the spare capacity.
    unsafe { out.set_len(out.len() + written) };
}

/// Writes `values` to the beginning of `out` as one array and returns the bytes written, or `None` when `out` is shorter than
/// [`max_encoded_len`].
pub fn encode_into<T: Element>(values: &[T], out: &mut [u8]) -> Option<usize> {
    let count = u32::try_from(values.len()).ok()?;
    if out.len() < max_encoded_len::<T>(values.len()) {
        return None;
    }
    let (header, length) = array_header(count);
    let (head, rest) = out.split_at_mut(length);
    head.copy_from_slice(&header[..length]);
    Some(length + bulk::encode_initialized(Isa::detect(), values, rest))
}
