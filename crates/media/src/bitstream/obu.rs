//! Open bitstream units of AV1 ("AV1 Bitstream & Decoding Process Specification", 5.3).
//!
//! ```text
//!  0, type 4, extension 1, has size 1, 0 | [ extension 8 ] | [ size, leb128 ] | payload
//! ```

/// One unit of a temporal unit or of a configuration record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obu<'a> {
    /// `obu_header()`: one byte, or two with the extension.
    pub header: &'a [u8],
    /// Without header and size.
    pub payload: &'a [u8],
    /// Header, size and payload as they came.
    pub whole: &'a [u8],
}

impl Obu<'_> {
    /// `obu_type`.
    pub fn kind(&self) -> u8 {
        self.header[0] >> 3 & 0x0f
    }
}

/// The next unit of `rest`, which goes on behind it. A unit without a size reaches to the end.
///
/// `None` at the end, or where a header or size is cut; `rest` is then as it was.
#[inline]
pub fn next_obu<'a>(rest: &mut &'a [u8]) -> Option<Obu<'a>> {
    let bytes = *rest;
    let head = *bytes.first()?;
    let (header, behind) = bytes.split_at_checked(if head & HAS_EXTENSION == 0 { 1 } else { 2 })?;
    let (payload, behind) = match head & HAS_SIZE {
        0 => (behind, &[][..]),
        _ => sized(behind)?,
    };
    *rest = behind;
    Some(Obu { header, payload, whole: &bytes[..bytes.len() - behind.len()] })
}

/// Number of up to 8 groups of 7 bits, lowest first (4.10.5), and what follows; `None` if it is cut
/// or beyond 32 bits.
#[inline]
pub fn leb128(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().take(8).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            let value = u32::try_from(value).ok()?;
            return Some((value as usize, &bytes[at + 1..]));
        }
    }
    None
}

/// Bytes with their length (LEB128) ahead of them, and what follows.
#[inline]
pub fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = leb128(bytes)?;
    rest.split_at_checked(len)
}

/// Appends a number in as few groups of 7 bits as it takes.
pub fn write_leb128(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

const HAS_EXTENSION: u8 = 0x04;
const HAS_SIZE: u8 = 0x02;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_each_other_to_one_without_a_size() {
        let mut rest = &[0x12, 0, 0x0e, 0x20, 1, 7, 0x30, 8, 9][..];
        let mut units = Vec::new();
        while let Some(obu) = next_obu(&mut rest) {
            units.push((obu.kind(), obu.payload, obu.whole.len()));
        }
        assert_eq!(units, [(2, &[][..], 2), (1, &[7], 4), (6, &[8, 9], 3)]);
    }

    #[test]
    fn cut_units_give_none() {
        for bytes in
            [&[][..], &[0x0e], &[0x0a], &[0x0a, 0x80], &[0x0a, 2, 1], &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f]]
        {
            let mut rest = bytes;
            assert_eq!((next_obu(&mut rest), rest), (None, bytes));
        }
    }

    #[test]
    fn numbers_have_groups_of_seven_bits() {
        assert_eq!(leb128(&[0x7f, 9]), Some((127, &[9][..])));
        assert_eq!(leb128(&[0x80, 0x01]), Some((128, &[][..])));
        assert_eq!(leb128(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Some((u32::MAX as usize, &[][..])));
        assert_eq!(leb128(&[0xff, 0xff, 0xff, 0xff, 0x1f]), None, "33 bits");
        assert_eq!(leb128(&[0x80; 9]), None);
    }
}
