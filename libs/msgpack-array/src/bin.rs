//! Bytes as `bin` instead of an array: what to use for `u8` and `i8` that are data rather than
//! numbers, or that only readers get who know of it, because it is shorter and copied.
//!
//! An `i8` is the byte of its two's complement. A `bin` does not say that its bytes have signs:
//! the reader has to know.

use alloc::vec::Vec;

use crate::bulk;
use crate::error::DecodeError;
use crate::header::{bin_header, decode_bin_header};

/// Appends `bytes` to `out` as `bin` with the shortest header (MessagePack specification, bin
/// format family).
///
/// # Panics
/// With more than 2^32 - 1 bytes, which no `bin` can have.
pub fn encode_bin(bytes: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(bytes.len()).expect("a MessagePack bin has at most 2^32 - 1 bytes");
    let (header, header_length) = bin_header(length);
    out.reserve(header_length + bytes.len());
    out.extend_from_slice(&header[..header_length]);
    out.extend_from_slice(bytes);
}

/// The bytes of the `bin` that `input` begins with, where they are, and the bytes it takes with its
/// header. Allocates nothing.
///
/// # Errors
/// [`DecodeError::NotBin`] and [`DecodeError::Truncated`].
pub fn decode_bin(input: &[u8]) -> Result<(&[u8], usize), DecodeError> {
    let (length, header) = decode_bin_header(input)?;
    let bytes = input[header..].get(..length as usize).ok_or(DecodeError::Truncated)?;
    Ok((bytes, header + bytes.len()))
}

/// [`encode_bin`] for numbers with sign: each is the byte of its two's complement.
///
/// # Panics
/// With more than 2^32 - 1 numbers, which no `bin` can have.
pub fn encode_bin_i8s(values: &[i8], out: &mut Vec<u8>) {
    encode_bin(bulk::as_unsigned(values), out);
}

/// [`decode_bin`] for numbers with sign, as [`encode_bin_i8s`] writes them.
///
/// # Errors
/// [`DecodeError::NotBin`] and [`DecodeError::Truncated`].
pub fn decode_bin_i8s(input: &[u8]) -> Result<(&[i8], usize), DecodeError> {
    let (bytes, used) = decode_bin(input)?;
    Ok((bulk::as_signed(bytes), used))
}
