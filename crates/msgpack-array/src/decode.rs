//! Decoding whole arrays from a slice.

use alloc::vec::Vec;

use crate::bulk::{self, Isa, Stop};
use crate::element::Element;
use crate::error::DecodeError;

/// Reads one array from the beginning of `input`, appends its elements to `out`, and returns the bytes it took.
///
/// # Errors
/// See [`DecodeError`]; `out` is then as before.
pub fn decode_into<T: Element>(input: &[u8], out: &mut Vec<T>) -> Result<usize, DecodeError> {
    decode_into_with(Isa::detect(), input, out)
}

/// The same with an instruction set of the caller's choice.
///
/// # Errors
/// As [`decode_into`].
///
/// # Panics
/// When the machine does not have `isa`.
#[expect(unsafe_code, reason = "the vector's spare room is filled by the kernels")]
pub fn decode_into_with<T: Element>(isa: Isa, input: &[u8], out: &mut Vec<T>) -> Result<usize, DecodeError> {
    assert!(isa.is_available(), "{isa:?} is not available on this machine");
    let (count, header) = match *input {
        [] | [0xdc] | [0xdc, _] => return Err(DecodeError::Truncated),
        [marker @ 0x90..=0x9f, ..] => (usize::from(marker & 15), 1),
        [0xdc, a, b, ..] => (usize::from(u16::from_be_bytes([a, b])), 3),
        [0xdd, a, b, c, d, ..] => (u32::from_be_bytes([a, b, c, d]) as usize, 5),
        [0xdd, ..] => return Err(DecodeError::Truncated),
        [marker, ..] => return Err(DecodeError::NotAnArray { marker }),
    };
    let body = &input[header..];
    // Each element takes a byte at least, so no more is allocated than has been seen.
    if count > body.len() {
        return Err(DecodeError::Truncated);
    }
    out.reserve(count);
    let decoded = bulk::decode(isa, body, &mut out.spare_capacity_mut()[..count]);
    match decoded.stop {
        None => {
            // SAFETY: without a reason to stop all `count` elements were initialised.
            unsafe { out.set_len(out.len() + count) };
            Ok(header + decoded.bytes)
        }
        Some(Stop::Truncated) => Err(DecodeError::Truncated),
        Some(Stop::Element(error)) => Err(DecodeError::Element { index: decoded.elements, error }),
    }
}
