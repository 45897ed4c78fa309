//! Bits from the front of a byte slice, most significant first, as in the MPEG and AV1 standards.

/// Reads bits; every method gives `None` at the end of the input.
#[derive(Debug, Clone)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// Bits read. `0 <= position <= 8 * bytes.len()`.
    position: usize,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// The next `count <= 32` bits as a number.
    pub(super) fn u(&mut self, count: u32) -> Option<u32> {
        let mut value = 0;
        for _ in 0..count {
            value = value << 1 | u32::from(self.flag()?);
        }
        Some(value)
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        let byte = *self.bytes.get(self.position / 8)?;
        let bit = byte >> (7 - self.position % 8) & 1;
        self.position += 1;
        Some(bit == 1)
    }

    pub(super) fn skip(&mut self, count: usize) -> Option<()> {
        let position = self.position.checked_add(count).filter(|end| *end <= 8 * self.bytes.len())?;
        self.position = position;
        Some(())
    }

    /// `ue(v)` of H.264 and H.265 (9.1 and 9.2), `uvlc()` of AV1 (4.10.3): zeros, a one, as many bits.
    pub(super) fn exp_golomb(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while !self.flag()? {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        Some((1 << zeros) - 1 + self.u(zeros)?)
    }

    /// Bits not read yet.
    pub(super) fn left(&self) -> usize {
        8 * self.bytes.len() - self.position
    }
}
