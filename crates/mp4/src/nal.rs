//! NAL units in samples and records of H.264 and H.265 (ISO/IEC 14496-15): lengths of four bytes,
//! and parameter sets that come in the samples.
//!
//! ```text
//!  avcC: 1 | profile, compatibility, level | 111111, size - 1: 2 | 111, n 5 | { 16 | SPS } | n 8 | { 16 | PPS } | ..
//!  hvcC: 1 | 20 bytes | size - 1 in the low bits of byte 21 | arrays 8 | { kind 8 | n 16 | { 16 | NAL unit } }
//! ```

use super::Mp4Error;
use super::description::Description;
use media::Codec;
use media::bitstream::{BitReader, next_length_prefixed};
use media::config::{avc_record, hevc_record};

/// Parameter sets that came in samples, by kind and id.
#[derive(Debug, Default)]
pub(super) struct ParameterSets {
    /// Whole NAL units; the key is their kind and their first bytes' id.
    sets: Vec<(u8, u32, Vec<u8>)>,
}

/// How many bytes the sizes of NAL units have in the samples; `None` for codecs without.
pub(super) fn length_size(description: &Description) -> Result<Option<u8>, Mp4Error> {
    let (kind, at) = match description.codec {
        Codec::H264 => (b"avcC", 4),
        Codec::H265 => (b"hvcC", 21),
        _ => return Ok(None),
    };
    match description.record.get(at).map(|byte| (byte & 3) + 1) {
        None => Err(Mp4Error::malformed(kind, "cut short")),
        Some(3) => Err(Mp4Error::malformed(kind, "sizes of three bytes")),
        size => Ok(size),
    }
}

/// A sample with lengths of four bytes.
pub(super) fn with_long_lengths(description: &Description, data: Vec<u8>) -> Result<Vec<u8>, Mp4Error> {
    let Some(size @ 1..4) = length_size(description)? else { return Ok(data) };
    let mut long = Vec::with_capacity(data.len() + 64);
    for unit in units(&data, size) {
        let unit = unit?;
        long.extend_from_slice(&(unit.len() as u32).to_be_bytes());
        long.extend_from_slice(unit);
    }
    Ok(long)
}

/// The record of a description, with lengths of four bytes; `None` where parameter sets come in the
/// samples.
pub(super) fn record_with_long_lengths(description: &Description) -> Result<Option<Vec<u8>>, Mp4Error> {
    length_size(description)?;
    let (length_at, sets_at) = if description.codec == Codec::H264 { (4, 5) } else { (21, 22) };
    // An `avc3` or `hev1` track need not have any sets in its record.
    let has_sets = description.record.get(sets_at).is_some_and(|count| count & 0x1f > 0);
    Ok(has_sets.then(|| {
        let mut record = description.record.clone();
        record[length_at] |= 3;
        record
    }))
}

impl ParameterSets {
    /// Takes what a key frame has; makes a record of all sets if anything is new.
    pub(super) fn take(
        &mut self,
        description: &Description,
        data: &[u8],
    ) -> Result<Option<Vec<u8>>, Mp4Error> {
        let (codec, mut is_new) = (description.codec, false);
        let Some(size) = length_size(description)? else { return Ok(None) };
        for unit in units(data, size) {
            let unit = unit?;
            let Some((kind, id)) = set_of(codec, unit) else { continue };
            let known = self.sets.len();
            match self.sets.iter_mut().find(|(a, b, _)| (*a, *b) == (kind, id)) {
                Some((_, _, held)) if held == unit => continue,
                Some((_, _, held)) => *held = unit.to_vec(),
                None if known < SETS_MAX => self.sets.push((kind, id, unit.to_vec())),
                None => continue,
            }
            is_new = true;
        }
        if !is_new {
            return Ok(None);
        }
        let of = |wanted: u8| -> Vec<&[u8]> {
            let these = self.sets.iter().filter(|(kind, ..)| *kind == wanted);
            these.map(|(_, _, unit)| &unit[..]).collect()
        };
        let made = match codec {
            Codec::H264 => avc_record(&of(AVC_SPS), &of(AVC_PPS)),
            _ => hevc_record(&of(HEVC_VPS), &of(HEVC_SPS), &of(HEVC_PPS)),
        };
        Ok(made.map(|made| made.bytes))
    }
}

/// Kind and id of a parameter set.
///
/// The id is the first Exp-Golomb number or bits of the payload, or, for an SPS of H.265, far
/// behind: one of those is kept.
fn set_of(codec: Codec, unit: &[u8]) -> Option<(u8, u32)> {
    let first = *unit.first()?;
    let ue = |at: usize| BitReader::nal(unit.get(at..)?).ue().ok();
    match codec {
        Codec::H264 => match first & 0x1f {
            AVC_SPS => Some((AVC_SPS, ue(4)?)),
            AVC_PPS => Some((AVC_PPS, ue(1)?)),
            _ => None,
        },
        _ => match first >> 1 & 0x3f {
            HEVC_VPS => Some((HEVC_VPS, u32::from(unit.get(2)? >> 4))),
            HEVC_SPS => Some((HEVC_SPS, 0)),
            HEVC_PPS => Some((HEVC_PPS, ue(2)?)),
            _ => None,
        },
    }
}

/// NAL units behind their sizes, empty ones too.
fn units(mut rest: &[u8], size: u8) -> impl Iterator<Item = Result<&[u8], Mp4Error>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let unit = next_length_prefixed(&mut rest, size);
        if unit.is_none() {
            rest = &[];
        }
        Some(unit.ok_or(Mp4Error::malformed(b"mdat", "a NAL unit is larger than its sample")))
    })
}

const AVC_SPS: u8 = 7;
const AVC_PPS: u8 = 8;
const HEVC_VPS: u8 = 32;
const HEVC_SPS: u8 = 33;
const HEVC_PPS: u8 = 34;
/// Parameter sets that are kept. Real streams have two to four.
const SETS_MAX: usize = 64;
