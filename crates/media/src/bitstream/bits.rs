//! Bits, the most significant first, and Exp-Golomb numbers; in NAL units read past emulation
//! prevention, and written with it put back.
//!
//! A NAL unit carries its payload with a byte 3 behind each two zero bytes that a byte of at most 3
//! follows, so that no start code appears inside (H.264 and H.265, section 7.4.1). [`BitReader`]
//! skips these as it goes, which reads the head of a slice without a copy of the slice. Headers
//! that are changed are read by a reader that records: what is read is written to a [`BitWriter`]
//! in the same step, apart from what is replaced.

/// A field was not there, or no such value can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Reads bits from the most significant to the least.
#[derive(Clone, Debug)]
pub struct BitReader<'a> {
    rest: &'a [u8],
    /// The byte being read, and how many of its bits are left.
    byte: u8,
    left: u8,
    /// Whether emulation prevention bytes are skipped.
    is_nal: bool,
    /// Zero bytes in a row that came last; in a NAL unit only.
    zeros: u8,
    record: Option<BitWriter>,
}

impl<'a> BitReader<'a> {
    /// Reads `bytes` as they are.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, byte: 0, left: 0, is_nal: false, zeros: 0, record: None }
    }

    /// Reads `payload`, which is behind the header of its NAL unit, and skips emulation prevention bytes.
    pub fn nal(payload: &'a [u8]) -> Self {
        Self { is_nal: true, ..Self::new(payload) }
    }

    /// Reads a NAL unit's payload like [`BitReader::nal`], and writes what is read to `record`.
    pub fn recording(payload: &'a [u8], record: BitWriter) -> Self {
        Self { record: Some(record), ..Self::nal(payload) }
    }

    /// One bit.
    pub fn bit(&mut self) -> Result<bool, Malformed> {
        let bit = self.next_bit().ok_or(Malformed)?;
        if let Some(record) = &mut self.record {
            record.bit(bit);
        }
        Ok(bit)
    }

    /// `u(n)`: an unsigned number of at most 32 bits.
    pub fn u(&mut self, bits: u32) -> Result<u32, Malformed> {
        debug_assert!(bits <= 32, "at most 32 bits");
        let mut value = 0;
        for _ in 0..bits {
            value = value << 1 | u32::from(self.bit()?);
        }
        Ok(value)
    }

    /// Reads `bits` bits for nothing.
    pub fn skip(&mut self, bits: usize) -> Result<(), Malformed> {
        (0..bits).try_for_each(|_| self.bit().map(drop))
    }

    /// Bits not read yet, emulation prevention included.
    pub fn bits_left(&self) -> usize {
        usize::from(self.left) + 8 * self.rest.len()
    }

    /// `ue(v)`: Exp-Golomb (section 9.1; `uvlc()` of AV1, section 4.10.3), up to `2^32 - 2`.
    pub fn ue(&mut self) -> Result<u32, Malformed> {
        let mut zeros = 0;
        while !self.bit()? {
            zeros += 1;
            if zeros == 32 {
                return Err(Malformed);
            }
        }
        Ok((1u32 << zeros) - 1 + self.u(zeros)?)
    }

    /// `ue(v)` that must not exceed `max`.
    pub fn ue_up_to(&mut self, max: u32) -> Result<u32, Malformed> {
        let value = self.ue()?;
        if value <= max { Ok(value) } else { Err(Malformed) }
    }

    /// `se(v)`: signed Exp-Golomb (section 9.1.1).
    pub fn se(&mut self) -> Result<i32, Malformed> {
        let code = i64::from(self.ue()?);
        let magnitude = (code + 1) / 2;
        i32::try_from(if code % 2 == 1 { magnitude } else { -magnitude }).map_err(|_| Malformed)
    }

    /// Reads with `read` what is not to be recorded.
    pub fn unrecorded<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        let record = self.record.take();
        let value = read(self);
        self.record = record;
        value
    }

    /// What is recorded, to put in something else.
    pub fn record(&mut self) -> Option<&mut BitWriter> {
        self.record.as_mut()
    }

    /// Ends recording and gives what was recorded; nothing if nothing was.
    pub fn take_record(&mut self) -> BitWriter {
        self.record.take().unwrap_or_default()
    }

    /// Reads the bits up to the stop bit of the payload (section 7.3.2.11).
    ///
    /// # Errors
    /// There is no stop bit.
    pub fn read_to_stop_bit(&mut self) -> Result<(), Malformed> {
        // A one bit is the stop bit if none follows it; until then it is held back.
        let mut zeros = 0u32;
        let mut held = false;
        while let Some(bit) = self.next_bit() {
            if !bit {
                zeros += 1;
                continue;
            }
            self.write_held(held, zeros);
            held = true;
            zeros = 0;
        }
        if held { Ok(()) } else { Err(Malformed) }
    }

    fn write_held(&mut self, held: bool, zeros: u32) {
        let Some(record) = &mut self.record else { return };
        if held {
            record.bit(true);
        }
        for _ in 0..zeros {
            record.bit(false);
        }
    }

    /// Bits of the byte being read that are still unread, then the bytes behind it with their
    /// emulation prevention.
    ///
    /// A byte of emulation prevention may come first of these; the reader has not come to it.
    pub fn position(&self) -> (u8, Rest<'a>) {
        (self.left, Rest { bytes: self.rest, zeros: self.zeros })
    }

    fn next_bit(&mut self) -> Option<bool> {
        if self.left == 0 {
            self.byte = self.next_byte()?;
            self.left = 8;
        }
        self.left -= 1;
        Some(self.byte >> self.left & 1 == 1)
    }

    fn next_byte(&mut self) -> Option<u8> {
        let (mut first, mut rest) = self.rest.split_first()?;
        if self.zeros >= 2 && *first == 3 {
            self.zeros = 0;
            (first, rest) = rest.split_first()?;
        }
        self.rest = rest;
        self.zeros = if *first == 0 && self.is_nal { self.zeros.saturating_add(1) } else { 0 };
        Some(*first)
    }
}

/// Writes bits, the first into the most significant bit of the first byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BitWriter {
    bytes: Vec<u8>,
    /// Bits of the last byte that are used, 0 when none is begun.
    used: u8,
}

impl BitWriter {
    /// One bit.
    pub fn bit(&mut self, bit: bool) {
        if self.used == 0 {
            self.bytes.push(0);
        }
        if bit && let Some(last) = self.bytes.last_mut() {
            *last |= 0x80 >> self.used;
        }
        self.used = (self.used + 1) % 8;
    }

    /// `u(n)`.
    pub fn u(&mut self, value: u32, bits: u32) {
        for shift in (0..bits).rev() {
            self.bit(value >> shift & 1 == 1);
        }
    }

    /// `ue(v)`; `value` at most `2^32 - 2`.
    pub fn ue(&mut self, value: u32) {
        let code = u64::from(value) + 1;
        let bits = 64 - code.leading_zeros();
        for _ in 1..bits {
            self.bit(false);
        }
        for shift in (0..bits).rev() {
            self.bit(code >> shift & 1 == 1);
        }
    }

    /// Fills the byte begun, if one is, with ones (`cabac_alignment_one_bit`, H.264 section 7.3.4).
    pub fn align_with_ones(&mut self) {
        while self.used != 0 {
            self.bit(true);
        }
    }

    /// The stop bit and zeros to the end of the byte (section 7.3.2.11).
    pub fn trailing_bits(&mut self) {
        self.bit(true);
        while self.used != 0 {
            self.bit(false);
        }
    }

    /// The bytes, the last filled with zeros.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// What is behind the place a reader has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest<'a> {
    /// Bytes as they are in the NAL unit, emulation prevention included.
    pub bytes: &'a [u8],
    /// Zero bytes in a row ahead of them.
    pub zeros: u8,
}

/// Appends `payload` to `nal` with emulation prevention, then `rest`, which has its own; `nal`
/// already has the header.
pub fn escape_on(payload: &[u8], rest: Rest<'_>, nal: &mut Vec<u8>) {
    let mut zeros = 0;
    for &byte in payload {
        push_escaped(byte, &mut zeros, nal);
    }
    // Whether a byte needs a 3 ahead of it depends on two bytes, so only the first of the rest may
    // have to change.
    let (mut bytes, mut was) = (rest.bytes, rest.zeros);
    while was != zeros
        && let Some((&byte, behind)) = bytes.split_first()
    {
        bytes = behind;
        if was >= 2 && byte == 3 {
            was = 0;
            continue;
        }
        push_escaped(byte, &mut zeros, nal);
        was = if byte == 0 { was.saturating_add(1) } else { 0 };
    }
    if !bytes.is_empty() {
        nal.extend_from_slice(bytes);
    } else if zeros > 0 {
        // A payload that ends in a zero would run into the next start code.
        nal.push(3);
    }
}

fn push_escaped(byte: u8, zeros: &mut u8, nal: &mut Vec<u8>) {
    if *zeros >= 2 && byte <= 3 {
        nal.push(3);
        *zeros = 0;
    }
    nal.push(byte);
    *zeros = if byte == 0 { zeros.saturating_add(1) } else { 0 };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Removes emulation prevention, the plain way.
    fn unescape(nal: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut zeros = 0;
        for &byte in nal {
            if zeros >= 2 && byte == 3 {
                zeros = 0;
                continue;
            }
            out.push(byte);
            zeros = if byte == 0 { zeros + 1 } else { 0 };
        }
        out
    }

    #[test]
    fn exp_golomb_numbers_read_back() {
        for value in (0..300).chain([65_534, 65_535, 1 << 20, u32::MAX - 2, u32::MAX - 1]) {
            let mut writer = BitWriter::default();
            writer.u(5, 3);
            writer.ue(value);
            writer.trailing_bits();
            let mut nal = Vec::new();
            escape_on(writer.bytes(), Rest::default(), &mut nal);
            let mut reader = BitReader::nal(&nal);
            assert_eq!(reader.u(3), Ok(5));
            assert_eq!(reader.ue(), Ok(value));
            assert_eq!(reader.read_to_stop_bit(), Ok(()), "{value}");
        }
    }

    #[test]
    fn signed_numbers_alternate() {
        // H.264 table 9-3.
        for (code, value) in [(0, 0), (1, 1), (2, -1), (3, 2), (4, -2)] {
            let mut writer = BitWriter::default();
            writer.ue(code);
            assert_eq!(BitReader::new(writer.bytes()).se(), Ok(value));
        }
    }

    #[test]
    fn a_number_too_long_or_cut_is_malformed() {
        for bytes in [&[0u8; 8][..], &[], &[0, 0, 3, 0, 0]] {
            assert_eq!(BitReader::nal(bytes).ue(), Err(Malformed));
        }
        // 2^32 - 1 would need 33 bits.
        assert_eq!(BitReader::nal(&[0, 0, 3, 0, 0, 3, 0x80, 0, 0, 3, 0, 0]).ue(), Err(Malformed));
    }

    #[test]
    fn emulation_prevention_is_put_in_and_skipped() {
        for payload in [
            &[0u8, 0, 0][..],
            &[0, 0, 1],
            &[0, 0, 3],
            &[0, 0, 4],
            &[0, 0, 0, 0, 0, 0, 2],
            &[1, 0, 0, 3, 0, 0, 1, 0],
        ] {
            let mut nal = Vec::new();
            escape_on(payload, Rest::default(), &mut nal);
            assert!(!nal.windows(3).any(|w| w[0] == 0 && w[1] == 0 && w[2] < 3), "{nal:?}");
            let plain = unescape(&nal);
            let mut reader = BitReader::nal(&nal);
            for (at, &byte) in payload.iter().enumerate() {
                assert_eq!(reader.u(8), Ok(u32::from(byte)), "{payload:?} at {at}");
                assert_eq!(plain[at], byte);
            }
        }
    }

    #[test]
    fn a_recording_reader_copies_all_but_what_is_replaced() {
        let mut writer = BitWriter::default();
        writer.u(0b1011, 4);
        writer.ue(9);
        writer.u(0b0110_0000_0000, 12);
        writer.trailing_bits();
        let payload = writer.bytes().to_vec();
        let mut reader = BitReader::recording(&payload, BitWriter::default());
        reader.u(4).unwrap();
        assert_eq!(reader.unrecorded(BitReader::ue), Ok(9));
        reader.record().unwrap().ue(0);
        reader.read_to_stop_bit().unwrap();
        let mut record = reader.take_record();
        record.trailing_bits();
        let mut expected = BitWriter::default();
        expected.u(0b1011, 4);
        expected.ue(0);
        expected.u(0b0110_0000_0000, 12);
        expected.trailing_bits();
        assert_eq!(record, expected);
    }
}
