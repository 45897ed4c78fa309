//! The header of an array: `fixarray`, `array 16`, `array 32` (MessagePack specification, array format family).

/// Bytes a header takes at most.
pub(crate) const HEADER_MAX: usize = 5;

/// The header of an array of `count` elements, and how many bytes of it count.
pub(crate) fn array_header(count: u32) -> ([u8; HEADER_MAX], usize) {
    let [a, b, c, d] = count.to_be_bytes();
    match count {
        0..=15 => ([0x90 | d, 0, 0, 0, 0], 1),
        16..=0xffff => ([0xdc, c, d, 0, 0], 3),
        _ => ([0xdd, a, b, c, d], 5),
    }
}
