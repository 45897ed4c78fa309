//! Parameter sets in the decoder configuration records of H.264 and H.265 (`avcC`, `hvcC`).
//!
//! ```text
//! avcC | 1 | profile | compatibility | level | 111111 size-1 (2) | 111 SPS (5) | { length (16) | SPS } | PPS (8) | { length (16) | PPS } | ...
//! hvcC | 1 | 21 bytes, size-1 in the last 2 bits | arrays (8) | { complete (1) 0 type (6) | units (16) | { length (16) | unit } }
//! ```
//! ISO/IEC 14496-15 sections 5.3.3.1 and 8.3.3.1. Only where the units are is read here; parsing
//! them is left to the codecs. Records come from the network: sets that are empty, too large or too
//! many make the record an error.

use crate::bitstream::NalUnits;

/// Bytes of a parameter set; a longer one makes the record an error.
///
/// Those of encoders have some dozens. Scaling lists and a buffer model in full stay under 2 kB.
pub const PARAMETER_SET_BYTES_MAX: usize = 4096;
/// Parameter sets of a record; encoders send one of each kind.
pub const PARAMETER_SETS_MAX: usize = 64;
/// Bytes of all parameter sets of a stream: they go ahead of every key frame, to every viewer.
pub const SETS_BYTES_MAX: usize = 16 << 10;

/// Why a configuration record cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// It ends within a field or a parameter set.
    Truncated,
    /// Its version is unknown.
    Version,
    /// A parameter set is empty or longer than [`PARAMETER_SET_BYTES_MAX`].
    SetSize,
    /// It has more than [`PARAMETER_SETS_MAX`] parameter sets.
    TooMany,
    /// There is no sequence parameter set, or no picture parameter set.
    Missing,
    /// A sequence parameter set cannot be read.
    Set,
}

/// A record as read: the parameter sets, and how lengths of NAL units are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterSets<'a> {
    /// Bytes of a length, 1 to 4.
    pub length_bytes: u8,
    /// Parameter sets, VPS first, then SPS, then PPS; each a whole NAL unit of at least 2 bytes.
    pub sets: Vec<&'a [u8]>,
}

/// Reads an `AVCDecoderConfigurationRecord`, or parameter sets behind start codes in its place.
///
/// # Errors
/// See [`RecordError`].
pub fn read_avcc(record: &[u8]) -> Result<ParameterSets<'_>, RecordError> {
    if record.first() == Some(&0) {
        return annex_b(record, |unit| match unit[0] & 0x1f {
            7 => Some(1),
            8 => Some(2),
            _ => None,
        });
    }
    let mut bytes = Bytes(record);
    version(bytes.u8()?)?;
    bytes.take(3)?;
    let mut read = ParameterSets { length_bytes: (bytes.u8()? & 3) + 1, sets: Vec::new() };
    for _ in 0..bytes.u8()? & 0x1f {
        read.push(bytes.set()?, 7)?;
    }
    for _ in 0..bytes.u8()? {
        read.push(bytes.set()?, 8)?;
    }
    // What follows repeats fields of the SPS, and SPS extensions of auxiliary pictures. What counts
    // is what was kept: units of another kind may be announced as sets.
    let has = |kind| read.sets.iter().any(|unit| unit[0] & 0x1f == kind);
    if has(7) && has(8) { Ok(read) } else { Err(RecordError::Missing) }
}

/// Reads an `HEVCDecoderConfigurationRecord`, or parameter sets behind start codes in its place.
///
/// # Errors
/// See [`RecordError`].
pub fn read_hvcc(record: &[u8]) -> Result<ParameterSets<'_>, RecordError> {
    let order = |unit: &[u8]| match unit[0] >> 1 & 0x3f {
        kind @ 32..=34 => Some(kind - 32),
        _ => None,
    };
    // Version 0 was written before the standard was final.
    if record.starts_with(&[0, 0, 1]) || record.starts_with(&[0, 0, 0, 1]) {
        return annex_b(record, order);
    }
    let mut bytes = Bytes(record);
    version(bytes.u8()?.max(1))?;
    bytes.take(20)?;
    let mut read = ParameterSets { length_bytes: (bytes.u8()? & 3) + 1, sets: Vec::new() };
    let mut arrays: [Vec<&[u8]>; 3] = Default::default();
    for _ in 0..bytes.u8()? {
        let kind = bytes.u8()? & 0x3f;
        for _ in 0..bytes.u16()? {
            let unit = bytes.take_unit()?;
            if let Some(array) = arrays.get_mut(usize::from(kind.wrapping_sub(32))) {
                check_size(unit)?;
                array.push(unit);
            }
            if arrays.iter().map(Vec::len).sum::<usize>() > PARAMETER_SETS_MAX {
                return Err(RecordError::TooMany);
            }
        }
    }
    for (kind, array) in (32..).zip(&arrays) {
        array.iter().filter(|unit| unit[0] >> 1 & 0x3f == kind).for_each(|unit| read.sets.push(unit));
    }
    let has = |kind| read.sets.iter().any(|unit| unit[0] >> 1 & 0x3f == kind);
    if has(33) && has(34) { Ok(read) } else { Err(RecordError::Missing) }
}

impl<'a> ParameterSets<'a> {
    /// Appends a set of H.264 if it is one of `kind`; others are left out.
    fn push(&mut self, set: &'a [u8], kind: u8) -> Result<(), RecordError> {
        if self.sets.len() == PARAMETER_SETS_MAX {
            return Err(RecordError::TooMany);
        }
        if set[0] & 0x1f == kind {
            self.sets.push(set);
        }
        Ok(())
    }
}

/// Parameter sets behind start codes, in the order that `order` gives them.
fn annex_b(bytes: &[u8], order: impl Fn(&[u8]) -> Option<u8>) -> Result<ParameterSets<'_>, RecordError> {
    let units = NalUnits::annex_b(bytes).map_err(|_| RecordError::Version)?;
    let mut sets: Vec<_> = units.filter_map(|unit| Some((order(unit)?, unit))).collect();
    if sets.len() > PARAMETER_SETS_MAX {
        return Err(RecordError::TooMany);
    }
    sets.sort_by_key(|&(order, _)| order);
    let has = |wanted| sets.iter().any(|&(order, _)| order == wanted);
    if !has(1) || !has(2) {
        return Err(RecordError::Missing);
    }
    let sets: Vec<_> = sets.into_iter().map(|(_, set)| set).collect();
    sets.iter().try_for_each(|set| check_size(set))?;
    Ok(ParameterSets { length_bytes: 4, sets })
}

fn version(version: u8) -> Result<(), RecordError> {
    if version == 1 { Ok(()) } else { Err(RecordError::Version) }
}

/// A header and something behind it, and not too much of it.
fn check_size(set: &[u8]) -> Result<(), RecordError> {
    if (2..=PARAMETER_SET_BYTES_MAX).contains(&set.len()) { Ok(()) } else { Err(RecordError::SetSize) }
}

/// What is left of a record.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], RecordError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(RecordError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, RecordError> {
        Ok(self.take(1)?[0])
    }

    fn u16(&mut self) -> Result<usize, RecordError> {
        let bytes = self.take(2)?;
        Ok(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    }

    fn take_unit(&mut self) -> Result<&'a [u8], RecordError> {
        let len = self.u16()?;
        self.take(len)
    }

    fn set(&mut self) -> Result<&'a [u8], RecordError> {
        let set = self.take_unit()?;
        check_size(set)?;
        Ok(set)
    }
}
