//! Numbers, texts and byte strings of messages.
//!
//! Numbers that are small most of the time are written in groups of seven bits, the lowest first, with
//! the high bit set in all but the last. Those that may be negative are folded to positive ones before.

use crate::error::LinkError;

pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, (number << 1 ^ number >> 63).cast_unsigned());
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend(bytes);
}

/// What is left of a message.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// What it is a part of, for errors.
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    pub(crate) fn malformed(&self) -> LinkError {
        LinkError::Malformed(self.what)
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], LinkError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.malformed())?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], LinkError> {
        Ok(self.take(N)?.try_into().expect("that many were taken"))
    }

    pub(crate) fn byte(&mut self) -> Result<u8, LinkError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn number(&mut self) -> Result<u64, LinkError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            // The tenth byte has one bit left.
            if shift == 63 && byte > 1 {
                break;
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.malformed())
    }

    /// A number that is at most `max`.
    pub(crate) fn number_to(&mut self, max: usize) -> Result<usize, LinkError> {
        let number = usize::try_from(self.number()?).map_err(|_| self.malformed())?;
        if number > max { Err(self.malformed()) } else { Ok(number) }
    }

    pub(crate) fn number32(&mut self) -> Result<u32, LinkError> {
        u32::try_from(self.number()?).map_err(|_| self.malformed())
    }

    pub(crate) fn signed(&mut self) -> Result<i64, LinkError> {
        let folded = self.number()?;
        Ok((folded >> 1).cast_signed() ^ -(folded & 1).cast_signed())
    }

    pub(crate) fn bytes(&mut self, max: usize) -> Result<&'a [u8], LinkError> {
        let len = self.number_to(max)?;
        self.take(len)
    }

    /// Text without control characters.
    pub(crate) fn text(&mut self, max: usize) -> Result<&'a str, LinkError> {
        let text = std::str::from_utf8(self.bytes(max)?).map_err(|_| self.malformed())?;
        if text.chars().any(char::is_control) { Err(self.malformed()) } else { Ok(text) }
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn end(self) -> Result<(), LinkError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.malformed()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        let numbers = [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX];
        for number in numbers {
            let mut out = Vec::new();
            put_number(&mut out, number);
            put_signed(&mut out, number.cast_signed());
            put_signed(&mut out, number.cast_signed().wrapping_neg());
            let mut read = Reader::new(&out, "a number");
            assert_eq!(read.number(), Ok(number));
            assert_eq!(read.signed(), Ok(number.cast_signed()));
            assert_eq!(read.signed(), Ok(number.cast_signed().wrapping_neg()));
            assert_eq!(read.end(), Ok(()));
            for len in 0..out.len() {
                let mut read = Reader::new(&out[..len], "a number");
                let all = (|| Ok((read.number()?, read.signed()?, read.signed()?)))();
                assert_eq!(all, Err(LinkError::Malformed("a number")), "{number} cut at {len}");
            }
        }
    }

    #[test]
    fn numbers_that_are_too_long_and_texts_that_are_none_are_malformed() {
        assert!(Reader::new(&[0xff; 11], "").number().is_err(), "a number without end");
        let too_large = [[0xff; 9].as_slice(), &[2]].concat();
        assert!(Reader::new(&too_large, "").number().is_err(), "more than 64 bits");
        for text in [&[1, 0xff][..], &[1, 7], &[2, b'a']] {
            assert!(Reader::new(text, "").text(8).is_err(), "{text:?}");
        }
        assert!(Reader::new(b"\x03abc", "").text(2).is_err(), "longer than allowed");
    }
}
