//! Picture parameter sets of H.264 (section 7.3.2.2), as far as headers of slices depend on them.

use media::bitstream::{BitReader, Malformed};

/// Fields of a picture parameter set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pps {
    pub(crate) id: u32,
    /// The sequence parameter set it belongs to.
    pub(crate) sps: u32,
    /// Entropy coding by CABAC, else CAVLC.
    pub(crate) cabac: bool,
    /// Slices carry the difference of bottom and top field.
    pub(crate) bottom_order_present: bool,
    /// References in list 0 and 1 where a slice does not say it, 1 to 32.
    pub(crate) references_default: [u32; 2],
    pub(crate) weighted_p: bool,
    /// `weighted_bipred_idc`; 1 is explicit.
    pub(crate) weighted_b: u32,
    /// Macroblocks are not all in one group of slices.
    pub(crate) slice_groups: bool,
    pub(crate) deblocking_control: bool,
    pub(crate) redundant_pictures: bool,
}

impl Pps {
    /// Reads the set `nal`, header included.
    ///
    /// # Errors
    /// It is cut, or a value is out of its range.
    pub(crate) fn parse(nal: &[u8]) -> Result<Self, Malformed> {
        let reader = &mut BitReader::nal(nal.get(1..).ok_or(Malformed)?);
        let (id, sps) = (reader.ue_up_to(255)?, reader.ue_up_to(31)?);
        let (cabac, bottom_order_present) = (reader.bit()?, reader.bit()?);
        let groups = reader.ue_up_to(7)? + 1;
        if groups > 1 {
            slice_groups(reader, groups)?;
        }
        let references_default = [reader.ue_up_to(31)? + 1, reader.ue_up_to(31)? + 1];
        let (weighted_p, weighted_b) = (reader.bit()?, reader.u(2)?);
        for _ in 0..3 {
            reader.se()?; // quantisers
        }
        let deblocking_control = reader.bit()?;
        reader.bit()?; // constrained_intra_pred_flag
        let redundant_pictures = reader.bit()?;
        Ok(Self {
            id,
            sps,
            cabac,
            bottom_order_present,
            references_default,
            weighted_p,
            weighted_b,
            slice_groups: groups > 1,
            deblocking_control,
            redundant_pictures,
        })
    }
}

/// The map of slice groups, which Baseline and Extended may have.
fn slice_groups(reader: &mut BitReader<'_>, groups: u32) -> Result<(), Malformed> {
    match reader.ue_up_to(6)? {
        0 => (0..groups).try_for_each(|_| reader.ue().map(drop)),
        2 => (1..groups).try_for_each(|_| {
            reader.ue()?;
            reader.ue().map(drop)
        }),
        3..=5 => {
            reader.bit()?;
            reader.ue().map(drop)
        }
        6 => {
            let units = reader.ue_up_to(139_263)? + 1;
            let bits = u32::BITS - (groups - 1).leading_zeros();
            (0..units).try_for_each(|_| reader.u(bits).map(drop))
        }
        // One: dispersed, no fields.
        _ => Ok(()),
    }
}
