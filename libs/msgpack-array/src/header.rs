//! Headers: of arrays, and of `bin` (MessagePack specification, array and bin format families).
//!
//! ```text
//! array:  1001nnnn | dc nn nn | dd nn nn nn nn      bin:  c4 nn | c5 nn nn | c6 nn nn nn nn      n big-endian
//! ```

use crate::error::DecodeError;

/// Bytes a header takes at most.
pub(crate) const HEADER_MAX: usize = 5;

/// The shortest header of an array of `count` elements, and how many bytes of it count.
#[inline]
pub fn array_header(count: u32) -> ([u8; HEADER_MAX], usize) {
    let [a, b, c, d] = count.to_be_bytes();
    match count {
        0..=15 => ([0x90 | d, 0, 0, 0, 0], 1),
        16..=0xffff => ([0xdc, c, d, 0, 0], 3),
        _ => ([0xdd, a, b, c, d], 5),
    }
}

/// The shortest header of a `bin` of `length` bytes, and how many bytes of it count.
pub fn bin_header(length: u32) -> ([u8; HEADER_MAX], usize) {
    let [a, b, c, d] = length.to_be_bytes();
    match length {
        0..=0xff => ([0xc4, d, 0, 0, 0], 2),
        0x100..=0xffff => ([0xc5, c, d, 0, 0], 3),
        _ => ([0xc6, a, b, c, d], 5),
    }
}

/// The number of elements of the array that `input` begins with, and the bytes its header takes; of
/// any of the three forms.
///
/// The number is what the sender says: do not allocate by it before there are as many bytes.
///
/// # Errors
/// [`DecodeError::NotAnArray`] and [`DecodeError::Truncated`].
#[inline]
pub fn decode_array_header(input: &[u8]) -> Result<(u32, usize), DecodeError> {
    match *input {
        [marker @ 0x90..=0x9f, ..] => Ok((u32::from(marker & 15), 1)),
        [0xdc, a, b, ..] => Ok((u32::from_be_bytes([0, 0, a, b]), 3)),
        [0xdd, a, b, c, d, ..] => Ok((u32::from_be_bytes([a, b, c, d]), 5)),
        [] | [0xdc | 0xdd, ..] => Err(DecodeError::Truncated),
        [marker, ..] => Err(DecodeError::NotAnArray { marker }),
    }
}

/// The length in bytes of the `bin` that `input` begins with, and the bytes its header takes; of
/// any of the three forms.
///
/// The length is what the sender says: do not allocate by it before there are as many bytes.
///
/// # Errors
/// [`DecodeError::NotBin`] and [`DecodeError::Truncated`].
pub fn decode_bin_header(input: &[u8]) -> Result<(u32, usize), DecodeError> {
    match *input {
        [0xc4, a, ..] => Ok((a.into(), 2)),
        [0xc5, a, b, ..] => Ok((u32::from_be_bytes([0, 0, a, b]), 3)),
        [0xc6, a, b, c, d, ..] => Ok((u32::from_be_bytes([a, b, c, d]), 5)),
        [] | [0xc4..=0xc6, ..] => Err(DecodeError::Truncated),
        [marker, ..] => Err(DecodeError::NotBin { marker }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: [u32; 12] = [0, 1, 14, 15, 16, 17, 0xfe, 0x100, 0xfffe, 0xffff, 0x1_0000, u32::MAX];

    #[test]
    fn array_headers_are_read_back_and_are_the_shortest() {
        for count in COUNTS {
            let (header, length) = array_header(count);
            assert_eq!(
                length,
                if count <= 15 {
                    1
                } else if count <= 0xffff {
                    3
                } else {
                    5
                },
                "{count}"
            );
            assert_eq!(decode_array_header(&header[..length]), Ok((count, length)));
            for cut in 0..length {
                assert_eq!(
                    decode_array_header(&header[..cut]),
                    Err(DecodeError::Truncated),
                    "{count} cut at {cut}"
                );
            }
        }
    }

    #[test]
    fn bin_headers_are_read_back_and_are_the_shortest() {
        for count in COUNTS {
            let (header, length) = bin_header(count);
            assert_eq!(
                length,
                if count <= 0xff {
                    2
                } else if count <= 0xffff {
                    3
                } else {
                    5
                },
                "{count}"
            );
            assert_eq!(decode_bin_header(&header[..length]), Ok((count, length)));
            for cut in 0..length {
                assert_eq!(
                    decode_bin_header(&header[..cut]),
                    Err(DecodeError::Truncated),
                    "{count} cut at {cut}"
                );
            }
        }
    }

    #[test]
    fn other_markers_are_named() {
        for marker in 0..=u8::MAX {
            let array = decode_array_header(&[marker, 0, 0, 0, 0]);
            assert_eq!(array.is_ok(), matches!(marker, 0x90..=0x9f | 0xdc | 0xdd), "{marker:#x}");
            if array.is_err() {
                assert_eq!(array, Err(DecodeError::NotAnArray { marker }));
            }
            let bin = decode_bin_header(&[marker, 0, 0, 0, 0]);
            assert_eq!(bin.is_ok(), matches!(marker, 0xc4..=0xc6), "{marker:#x}");
            if bin.is_err() {
                assert_eq!(bin, Err(DecodeError::NotBin { marker }));
            }
        }
    }
}
