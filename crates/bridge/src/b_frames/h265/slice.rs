//! Headers of the first slice segment of an H.265 picture (section 7.3.6.1), up to its reference pictures.

use super::sets::{Pps, ReferenceSet, Sps};
use media::bitstream::{BitReader, Malformed};

/// Long-term pictures one slice can name.
const LONG_TERM_MAX: u32 = 32;

/// What of the header matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceHeader {
    pub(crate) pps: u32,
    pub(crate) order_lsb: u32,
    pub(crate) references: ReferenceSet,
    /// Low bits of the order of long-term pictures, and whether this picture itself may refer to it.
    pub(crate) long_term: Vec<(u32, bool)>,
}

impl SliceHeader {
    /// Whether the slice is the first of its picture.
    pub(crate) fn is_first(nal: &[u8]) -> bool {
        nal.get(2).is_some_and(|byte| byte & 0x80 != 0)
    }

    /// The picture parameter set of a slice, whose unit is of `kind`.
    pub(crate) fn pps_id(nal: &[u8], kind: u8) -> Result<u32, Malformed> {
        Self::start(&mut BitReader::nal(nal.get(2..).ok_or(Malformed)?), kind)
    }

    fn start(reader: &mut BitReader<'_>, kind: u8) -> Result<u32, Malformed> {
        reader.bit()?; // first_slice_segment_in_pic_flag
        if (16..=23).contains(&kind) {
            reader.bit()?; // no_output_of_prior_pics_flag
        }
        reader.ue_up_to(63)
    }

    /// Reads the header of `nal`, the first slice of its picture, whose unit is of `kind`.
    ///
    /// # Errors
    /// It is cut, or a value is out of its range.
    pub(crate) fn parse(nal: &[u8], kind: u8, sps: &Sps, pps: &Pps) -> Result<Self, Malformed> {
        let reader = &mut BitReader::nal(nal.get(2..).ok_or(Malformed)?);
        let id = Self::start(reader, kind)?;
        reader.u(pps.extra_bits)?;
        reader.ue_up_to(2)?; // slice_type
        if pps.output_flag {
            reader.bit()?;
        }
        if sps.separate_colour_planes {
            reader.u(2)?;
        }
        let mut header =
            Self { pps: id, order_lsb: 0, references: ReferenceSet::default(), long_term: Vec::new() };
        if matches!(kind, 19 | 20) {
            return Ok(header);
        }
        header.order_lsb = reader.u(sps.order_bits)?;
        let sets = sps.reference_sets.len() as u32;
        header.references = if !reader.bit()? {
            ReferenceSet::read(reader, sets, sets, &sps.reference_sets)?
        } else {
            let index = if sets > 1 { reader.u(bits_for(sets))? } else { 0 };
            sps.reference_sets.get(index as usize).ok_or(Malformed)?.clone()
        };
        let Some(known) = &sps.long_term else { return Ok(header) };
        let count = known.pictures.len() as u32;
        let by_index = if count > 0 { reader.ue_up_to(LONG_TERM_MAX)? } else { 0 };
        let total = by_index + reader.ue_up_to(LONG_TERM_MAX)?;
        for at in 0..total {
            header.long_term.push(if at < by_index {
                let index = if count > 1 { reader.u(bits_for(count))? } else { 0 };
                *known.pictures.get(index as usize).ok_or(Malformed)?
            } else {
                (reader.u(sps.order_bits)?, reader.bit()?)
            });
            if reader.bit()? {
                reader.ue()?; // delta_poc_msb_cycle_lt
            }
        }
        Ok(header)
    }
}

/// `Ceil(Log2(count))`, for at least two.
fn bits_for(count: u32) -> u32 {
    u32::BITS - (count - 1).leading_zeros()
}
