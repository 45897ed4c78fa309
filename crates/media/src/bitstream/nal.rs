//! NAL units of one coded frame as FLV and MP4 carry it.
//!
//! ```text
//! AVCC    | length (1, 2, 3 or 4 bytes) | NAL unit | length | NAL unit | ...     ISO/IEC 14496-15 section 5.3.3
//! Annex B | 00 00 01 | NAL unit | 00 00 00 01 | NAL unit | ...                   H.264 and H.265, annex B
//! ```
//! FLV and MP4 have the first form. Some encoders send the second by mistake, and most players take
//! it, so it is taken here: a frame that is no chain of lengths and begins with a start code is
//! read as one.

/// NAL units of one frame; more make it broken.
///
/// A slice per row of macroblocks is 270 of them at 4320 lines; the rest is room for parameter sets and SEI.
pub const NAL_UNITS_MAX: usize = 1024;

/// Why a frame's bytes are no NAL units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NalError {
    /// A length reaches beyond the frame, or the frame ends within a length.
    Length,
    /// More than [`NAL_UNITS_MAX`].
    TooMany,
    /// None at all.
    Empty,
}

/// NAL units of one frame, in order; none of them is empty.
#[derive(Clone, Debug)]
pub struct NalUnits<'a> {
    rest: &'a [u8],
    /// Bytes of a length; 0 for start codes.
    length_bytes: u8,
}

impl<'a> NalUnits<'a> {
    /// The units of `frame`, whose lengths have `length_bytes` bytes (1 to 4).
    ///
    /// # Errors
    /// The frame is neither a chain of lengths nor units behind start codes.
    pub fn of(frame: &'a [u8], length_bytes: u8) -> Result<Self, NalError> {
        let units = Self { rest: frame, length_bytes: length_bytes.clamp(1, 4) };
        match units.clone().check() {
            Err(NalError::Length) if start_code(frame).is_some_and(|(at, _)| at == 0) => Self::annex_b(frame),
            checked => checked.map(|()| units),
        }
    }

    /// The units of `bytes`, which are behind start codes.
    ///
    /// # Errors
    /// There are none, or too many.
    pub fn annex_b(bytes: &'a [u8]) -> Result<Self, NalError> {
        let (at, len) = start_code(bytes).ok_or(NalError::Empty)?;
        let units = Self { rest: &bytes[at + len..], length_bytes: 0 };
        match units.clone().take(NAL_UNITS_MAX + 1).count() {
            0 => Err(NalError::Empty),
            1..=NAL_UNITS_MAX => Ok(units),
            _ => Err(NalError::TooMany),
        }
    }

    /// Goes through all lengths.
    fn check(mut self) -> Result<(), NalError> {
        let mut count = 0;
        while !self.rest.is_empty() {
            let Some(unit) = next_length_prefixed(&mut self.rest, self.length_bytes) else {
                // Encoders that align what they send leave zeros at the end.
                let padding = count > 0 && self.rest.iter().all(|&byte| byte == 0);
                return if padding { Ok(()) } else { Err(NalError::Length) };
            };
            count += usize::from(!unit.is_empty());
            if count > NAL_UNITS_MAX {
                return Err(NalError::TooMany);
            }
        }
        if count == 0 { Err(NalError::Empty) } else { Ok(()) }
    }

    /// The next unit between start codes, without the zeros that may follow it.
    fn behind_start_code(&mut self) -> &'a [u8] {
        let (unit, rest) = match start_code(self.rest) {
            Some((at, len)) => (&self.rest[..at], &self.rest[at + len..]),
            None => (self.rest, &[][..]),
        };
        self.rest = rest;
        // A NAL unit ends in its stop bit, hence never in a zero byte (section 7.4.1).
        &unit[..unit.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1)]
    }
}

impl<'a> Iterator for NalUnits<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let unit = match self.length_bytes {
                0 => self.behind_start_code(),
                length_bytes => next_length_prefixed(&mut self.rest, length_bytes)?,
            };
            if !unit.is_empty() {
                return Some(unit);
            }
        }
        None
    }
}

/// The next unit of `rest` behind a length of `length_bytes` bytes, maybe empty; `rest` goes on behind it.
///
/// `None`: the length is cut or reaches too far; nothing is consumed.
#[inline]
pub fn next_length_prefixed<'a>(rest: &mut &'a [u8], length_bytes: u8) -> Option<&'a [u8]> {
    let (length, behind) = rest.split_at_checked(usize::from(length_bytes))?;
    let length = length.iter().fold(0usize, |length, &byte| length << 8 | usize::from(byte));
    let (unit, behind) = behind.split_at_checked(length)?;
    *rest = behind;
    Some(unit)
}

/// Where the first start code is, and its length: 3, or 4 with the zero byte ahead of it.
fn start_code(bytes: &[u8]) -> Option<(usize, usize)> {
    let at = bytes.windows(3).position(|window| window == [0, 0, 1])?;
    Some(if at > 0 && bytes[at - 1] == 0 { (at - 1, 4) } else { (at, 3) })
}

/// NAL units to be sent, in order, in memory that is used again for the next frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nals {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Nals {
    /// Takes all out, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Appends a unit.
    pub fn push(&mut self, unit: &[u8]) {
        self.bytes.extend_from_slice(unit);
        self.ends.push(self.bytes.len());
    }

    /// Appends a unit that `write` puts behind the bytes it is given.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// The units.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(frame: &[u8], length_bytes: u8) -> Result<Vec<Vec<u8>>, NalError> {
        NalUnits::of(frame, length_bytes).map(|units| units.map(<[u8]>::to_vec).collect())
    }

    #[test]
    fn units_behind_lengths_of_each_size() {
        for length_bytes in 1..=4u8 {
            let mut frame = Vec::new();
            for unit in [&[0x65u8, 1, 2][..], &[], &[0x41]] {
                frame.extend(&(unit.len() as u32).to_be_bytes()[usize::from(4 - length_bytes)..]);
                frame.extend(unit);
            }
            assert_eq!(units(&frame, length_bytes), Ok(vec![vec![0x65, 1, 2], vec![0x41]]));
        }
    }

    #[test]
    fn a_length_beyond_the_frame_is_an_error() {
        for frame in [&[0u8, 0, 0, 4, 1, 2, 3][..], &[0, 0, 0, 2, 0x65, 0, 0, 1], &[0xff; 9], &[0, 0, 2]] {
            assert_eq!(units(frame, 4).unwrap_err(), NalError::Length, "{frame:?}");
        }
        assert_eq!(units(&[0, 0, 0, 0], 4), Err(NalError::Empty));
        assert_eq!(units(&[], 4), Err(NalError::Empty));
    }

    #[test]
    fn zeros_behind_the_last_unit_are_left_out() {
        assert_eq!(units(&[0, 0, 0, 2, 0x65, 9, 0, 0, 0], 4), Ok(vec![vec![0x65, 9]]));
    }

    #[test]
    fn start_codes_in_place_of_lengths_are_taken() {
        let frame = [0, 0, 0, 1, 0x09, 0x10, 0, 0, 1, 0x65, 7, 0, 0, 3, 1, 0, 0, 0, 1, 0x41, 5, 0];
        let expected = vec![vec![0x09, 0x10], vec![0x65, 7, 0, 0, 3, 1], vec![0x41, 5]];
        assert_eq!(units(&frame, 4), Ok(expected.clone()));
        assert_eq!(units(&frame, 2), Ok(expected));
        assert_eq!(NalUnits::of(&frame, 4).unwrap().length_bytes, 0);
    }

    #[test]
    fn too_many_units_are_an_error() {
        let chain = [0u8, 1, 0x41].repeat(NAL_UNITS_MAX);
        assert_eq!(units(&chain, 2).unwrap().len(), NAL_UNITS_MAX);
        assert_eq!(units(&[chain, vec![0, 1, 0x41]].concat(), 2), Err(NalError::TooMany));
        let codes = [0u8, 0, 1, 0x41].repeat(NAL_UNITS_MAX + 1);
        assert_eq!(NalUnits::annex_b(&codes).unwrap_err(), NalError::TooMany);
    }
}
