//! Descriptors rewritten with another set of active decode targets.
//!
//! A receiver ignores chains that protect no active decode target (section A.5). One that does not
//! know that layers are left out takes their frames for lost and asks for key frames.

use media::bitstream::BitReader;

use super::frame::Flags;
use super::{DECODE_TARGETS_MAX, DependencyStructure, DescriptorWriteError};

/// Longest descriptor, in bytes: an element of a header extension cannot be longer.
pub const DESCRIPTOR_LEN_MAX: usize = 255;

/// Writes `data`, a descriptor, to the start of `out` with `active` as its mask of active decode
/// targets, and returns its length. All else is kept: mandatory fields, a structure, custom fields.
///
/// `decode_target_count` is that of the packet's structure, as
/// [`FrameDependencies`](super::FrameDependencies::decode_target_count) has it; not looked at if
/// `data` has a structure. The descriptor is at most five bytes longer than before; it needs the
/// two-byte form of header extensions from 17 bytes on. A mask in each packet costs one to five
/// bytes and reaches a receiver whatever is lost (section A.4).
///
/// # Errors
/// [`DescriptorWriteError`], and `out` has anything in it.
pub fn write_active_decode_targets(
    data: &[u8],
    decode_target_count: u8,
    active: u32,
    out: &mut [u8],
) -> Result<usize, DescriptorWriteError> {
    let (mandatory, body) = data.split_first_chunk::<3>().ok_or(DescriptorWriteError::Malformed)?;
    let mut bits = BitReader::new(body);
    let flags = Flags::read(&mut bits)?;
    *out.first_chunk_mut().ok_or(DescriptorWriteError::NoRoom)? = *mandatory;
    let mut writer = Writer { out, bits: 24 };
    for flag in [flags.structure, true, flags.indications, flags.references, flags.chains] {
        writer.bit(flag)?;
    }
    let mut target_count = usize::from(decode_target_count);
    if flags.structure {
        let mut copied = bits.clone();
        let structure = DependencyStructure::read(&mut bits)?;
        let len = copied.bits_left() - bits.bits_left();
        writer.copy(&mut copied, len)?;
        target_count = structure.decode_targets().len();
    }
    if !(1..=DECODE_TARGETS_MAX).contains(&target_count) {
        return Err(DescriptorWriteError::Malformed);
    }
    for target in (0..target_count).rev() {
        writer.bit(active >> target & 1 == 1)?;
    }
    if flags.active_decode_targets {
        bits.skip(target_count)?;
    }
    if flags.indications || flags.references || flags.chains {
        // What is behind the custom fields is padding and copied with them.
        let rest = bits.bits_left();
        writer.copy(&mut bits, rest)?;
    }
    writer.finish()
}

/// Bits, the first into the most significant bit of the first byte.
struct Writer<'a> {
    out: &'a mut [u8],
    /// Bits written, `0 <= bits <= 8 * out.len()`.
    bits: usize,
}

impl Writer<'_> {
    fn bit(&mut self, bit: bool) -> Result<(), DescriptorWriteError> {
        let byte = self.out.get_mut(self.bits / 8).ok_or(DescriptorWriteError::NoRoom)?;
        if self.bits.is_multiple_of(8) {
            *byte = 0;
        }
        *byte |= u8::from(bit) << (7 - self.bits % 8);
        self.bits += 1;
        Ok(())
    }

    fn copy(&mut self, from: &mut BitReader<'_>, count: usize) -> Result<(), DescriptorWriteError> {
        (0..count).try_for_each(|_| self.bit(from.bit()?))
    }

    fn finish(self) -> Result<usize, DescriptorWriteError> {
        let len = self.bits.div_ceil(8);
        if len > DESCRIPTOR_LEN_MAX { Err(DescriptorWriteError::NoRoom) } else { Ok(len) }
    }
}
