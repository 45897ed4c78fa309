//! Headers of H.264 slices (section 7.3.3): read, and rewritten where reference pictures have been left out.
//!
//! Reference pictures are counted (`frame_num`), and slices name them by differences of these
//! numbers. Without some of the pictures the numbers behind would have a gap, which decoders take
//! for loss or do not take at all; so number, lists and markings are replaced by what says the same
//! of the pictures that are there. The data of the slice stays as it is.

use super::sets::{PictureOrderType, Pps, Sps};
use media::bitstream::{BitReader, BitWriter, Malformed, Rest, escape_on};
use serde::{Deserialize, Serialize};

/// Changes of a reference list in one slice; the standard has at most one for each of 32 entries, and an end.
const MODIFICATIONS_MAX: usize = 66;
/// Marking operations in one slice; no sensible stream has more than two for each of 16 frames.
const MARKINGS_MAX: usize = 66;

/// Prediction of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SliceKind {
    P,
    B,
    I,
}

/// What of a picture is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Structure {
    Frame,
    Top,
    Bottom,
}

/// A step that changes a reference list (section 7.4.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Modification {
    /// `abs_diff_pic_num`, subtracted.
    Subtract(u32),
    /// `abs_diff_pic_num`, added.
    Add(u32),
    LongTerm(u32),
}

/// A memory management control operation (section 7.4.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marking {
    /// 1: a short-term picture, by `difference_of_pic_nums`, is of no use from now on.
    UnuseShort(u32),
    /// 2: a long-term picture likewise.
    UnuseLong(u32),
    /// 3: a short-term picture becomes long-term with this index.
    ShortToLong(u32, u32),
    /// 4: indexes from this one on are of no use.
    LongMax(u32),
    /// 5: all pictures are of no use.
    UnuseAll,
    /// 6: the picture itself becomes long-term.
    ThisToLong(u32),
}

/// How a reference picture marks others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Markings {
    /// An IDR picture, which may be a long-term one.
    Idr {
        long_term: bool,
    },
    /// The oldest goes when there are too many.
    SlidingWindow,
    Adaptive(Vec<Marking>),
}

/// What is replaced in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Changes {
    /// The picture becomes an IDR picture, with this `idr_pic_id`.
    pub(crate) idr: Option<u32>,
    pub(crate) frame_num: u32,
    /// `pic_order_cnt_lsb`, where there is one.
    pub(crate) order_lsb: u32,
    pub(crate) modifications: [Vec<Modification>; 2],
    pub(crate) markings: Option<Markings>,
}

/// Header of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceHeader {
    pub(crate) first_macroblock: u32,
    pub(crate) kind: SliceKind,
    pub(crate) pps: u32,
    pub(crate) frame_num: u32,
    pub(crate) structure: Structure,
    pub(crate) idr: bool,
    /// Whether others may refer to the picture: `nal_ref_idc` is not 0.
    pub(crate) reference: bool,
    pub(crate) order_lsb: u32,
    pub(crate) order_bottom_delta: i32,
    pub(crate) redundant: bool,
    /// Entries of both reference lists that blocks may refer to.
    pub(crate) references: [u32; 2],
    pub(crate) modifications: [Vec<Modification>; 2],
    pub(crate) markings: Option<Markings>,
}

impl SliceHeader {
    /// Whether the picture makes all others of no use, with operation 5.
    pub(crate) fn resets(&self) -> bool {
        matches!(&self.markings, Some(Markings::Adaptive(markings)) if markings.contains(&Marking::UnuseAll))
    }

    /// The picture parameter set the slice refers to, which must be known to read on.
    pub(crate) fn pps_id(nal: &[u8]) -> Result<u32, Malformed> {
        let mut reader = BitReader::nal(nal.get(1..).ok_or(Malformed)?);
        reader.ue()?;
        reader.ue()?;
        reader.ue_up_to(255)
    }

    /// Reads the header of the slice `nal`.
    ///
    /// # Errors
    /// It is cut, or a value is out of its range.
    pub(crate) fn parse(nal: &[u8], sps: &Sps, pps: &Pps) -> Result<Self, Malformed> {
        let (&first, payload) = nal.split_first().ok_or(Malformed)?;
        Self::read(&mut BitReader::nal(payload), first, sps, pps, None)
    }

    /// Appends the slice `nal` to `out` with `changes` in its header.
    ///
    /// # Errors
    /// It cannot be read up to its data, or its picture has slice groups.
    pub(crate) fn rewrite(
        nal: &[u8],
        sps: &Sps,
        pps: &Pps,
        changes: &Changes,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let (&first, payload) = nal.split_first().ok_or(Malformed)?;
        let reader = &mut BitReader::recording(payload, BitWriter::default());
        let header = Self::read(reader, first, sps, pps, Some(changes))?;
        if pps.slice_groups {
            return Err(Malformed);
        }
        if pps.cabac && header.kind != SliceKind::I {
            reader.ue_up_to(2)?; // cabac_init_idc
        }
        reader.se()?; // slice_qp_delta
        if pps.deblocking_control && reader.ue_up_to(6)? != 1 {
            reader.se()?;
            reader.se()?;
        }
        out.push(if changes.idr.is_some() { first & 0xe0 | 5 } else { first });
        if !pps.cabac {
            // Data begins within a byte: all bits of it move.
            reader.read_to_stop_bit()?;
            let mut written = reader.take_record();
            written.trailing_bits();
            escape_on(written.bytes(), Rest::default(), out);
            return Ok(());
        }
        let mut written = reader.take_record();
        while reader.position().0 != 0 {
            reader.bit()?; // cabac_alignment_one_bit
        }
        written.align_with_ones();
        escape_on(written.bytes(), reader.position().1, out);
        Ok(())
    }

    /// All up to the data but the last fields (section 7.3.3); a reader that records writes `changes` instead
    /// of what it reads.
    fn read(
        reader: &mut BitReader<'_>,
        first: u8,
        sps: &Sps,
        pps: &Pps,
        changes: Option<&Changes>,
    ) -> Result<Self, Malformed> {
        let (idr, reference) = (first & 0x1f == 5, first & 0x60 != 0);
        let first_macroblock = reader.ue()?;
        let kind = match reader.ue_up_to(9)? % 5 {
            0 => SliceKind::P,
            1 => SliceKind::B,
            2 => SliceKind::I,
            // SP and SI, of the Extended profile.
            _ => return Err(Malformed),
        };
        let pps_id = reader.ue_up_to(255)?;
        if sps.separate_colour_planes {
            reader.u(2)?;
        }
        let frame_num = reader.unrecorded(|reader| reader.u(sps.frame_num_bits))?;
        if let (Some(record), Some(changes)) = (reader.record(), changes) {
            record.u(changes.frame_num, sps.frame_num_bits);
        }
        let structure = if sps.frames_only || !reader.bit()? {
            Structure::Frame
        } else if reader.bit()? {
            Structure::Bottom
        } else {
            Structure::Top
        };
        if idr {
            reader.ue_up_to(65_535)?; // idr_pic_id
        } else if let (Some(record), Some(id)) = (reader.record(), changes.and_then(|changes| changes.idr)) {
            record.ue(id);
        }
        let (mut order_lsb, mut order_bottom_delta) = (0, 0);
        match &sps.order {
            PictureOrderType::Lsb { bits } => {
                order_lsb = reader.unrecorded(|reader| reader.u(*bits))?;
                if let (Some(record), Some(changes)) = (reader.record(), changes) {
                    record.u(changes.order_lsb, *bits);
                }
                if pps.bottom_order_present && structure == Structure::Frame {
                    order_bottom_delta = reader.se()?;
                }
            }
            // What a slice of type 1 has here is not read.
            PictureOrderType::Cycle => return Err(Malformed),
            PictureOrderType::Decoding => {}
        }
        let redundant = pps.redundant_pictures && reader.ue_up_to(127)? > 0;

        let (lists, weighted) = match kind {
            SliceKind::I => (0, false),
            SliceKind::P => (1, pps.weighted_p),
            SliceKind::B => (2, pps.weighted_b == 1),
        };
        if lists == 2 {
            reader.bit()?; // direct_spatial_mv_pred_flag
        }
        let mut references = [0; 2];
        references[..lists].copy_from_slice(&pps.references_default[..lists]);
        if lists > 0 && reader.bit()? {
            for count in &mut references[..lists] {
                *count = reader.ue_up_to(31)? + 1;
            }
        }
        let mut modifications = [const { Vec::new() }; 2];
        for (list, read) in modifications[..lists].iter_mut().enumerate() {
            *read = reader.unrecorded(read_modifications)?;
            if let (Some(record), Some(changes)) = (reader.record(), changes) {
                write_modifications(&changes.modifications[list], record);
            }
        }
        if weighted {
            // `pred_weight_table` (section 7.3.3.2); the values do not matter here.
            reader.ue_up_to(7)?;
            let chroma = sps.chroma_array_type != 0;
            if chroma {
                reader.ue_up_to(7)?;
            }
            for _ in 0..references[0] + references[1] {
                if reader.bit()? {
                    reader.se()?;
                    reader.se()?;
                }
                if chroma && reader.bit()? {
                    for _ in 0..4 {
                        reader.se()?;
                    }
                }
            }
        }
        let mut markings = None;
        if reference {
            markings = Some(reader.unrecorded(|reader| read_markings(reader, idr))?);
            if let Some(record) = reader.record() {
                write_markings(changes.and_then(|changes| changes.markings.as_ref()), record);
            }
        }
        Ok(Self {
            first_macroblock,
            kind,
            pps: pps_id,
            frame_num,
            structure,
            idr,
            reference,
            order_lsb,
            order_bottom_delta,
            redundant,
            references,
            modifications,
            markings,
        })
    }
}

/// `ref_pic_list_modification` of one list (section 7.3.3.1).
fn read_modifications(reader: &mut BitReader<'_>) -> Result<Vec<Modification>, Malformed> {
    let mut read = Vec::new();
    if !reader.bit()? {
        return Ok(read);
    }
    loop {
        read.push(match reader.ue()? {
            0 => Modification::Subtract(reader.ue_up_to(1 << 17)? + 1),
            1 => Modification::Add(reader.ue_up_to(1 << 17)? + 1),
            2 => Modification::LongTerm(reader.ue()?),
            3 => return Ok(read),
            _ => return Err(Malformed),
        });
        if read.len() > MODIFICATIONS_MAX {
            return Err(Malformed);
        }
    }
}

/// `dec_ref_pic_marking` (section 7.3.3.3).
fn read_markings(reader: &mut BitReader<'_>, idr: bool) -> Result<Markings, Malformed> {
    if idr {
        reader.bit()?; // no_output_of_prior_pics_flag
        return Ok(Markings::Idr { long_term: reader.bit()? });
    }
    if !reader.bit()? {
        return Ok(Markings::SlidingWindow);
    }
    let mut read = Vec::new();
    loop {
        read.push(match reader.ue()? {
            0 => return Ok(Markings::Adaptive(read)),
            1 => Marking::UnuseShort(reader.ue_up_to(1 << 17)? + 1),
            2 => Marking::UnuseLong(reader.ue()?),
            3 => Marking::ShortToLong(reader.ue_up_to(1 << 17)? + 1, reader.ue()?),
            4 => Marking::LongMax(reader.ue()?),
            5 => Marking::UnuseAll,
            6 => Marking::ThisToLong(reader.ue()?),
            _ => return Err(Malformed),
        });
        if read.len() > MARKINGS_MAX {
            return Err(Malformed);
        }
    }
}

fn write_modifications(modifications: &[Modification], out: &mut BitWriter) {
    out.bit(!modifications.is_empty());
    for &modification in modifications {
        let (operation, value) = match modification {
            Modification::Subtract(by) => (0, by - 1),
            Modification::Add(by) => (1, by - 1),
            Modification::LongTerm(number) => (2, number),
        };
        out.ue(operation);
        out.ue(value);
    }
    if !modifications.is_empty() {
        out.ue(3);
    }
}

fn write_markings(markings: Option<&Markings>, out: &mut BitWriter) {
    match markings {
        None | Some(Markings::SlidingWindow) => out.bit(false),
        Some(Markings::Idr { long_term }) => {
            out.bit(false);
            out.bit(*long_term);
        }
        Some(Markings::Adaptive(markings)) => {
            out.bit(true);
            for &marking in markings {
                let (operation, values) = match marking {
                    Marking::UnuseShort(difference) => (1, [Some(difference - 1), None]),
                    Marking::UnuseLong(number) => (2, [Some(number), None]),
                    Marking::ShortToLong(difference, index) => (3, [Some(difference - 1), Some(index)]),
                    Marking::LongMax(max) => (4, [Some(max), None]),
                    Marking::UnuseAll => (5, [None, None]),
                    Marking::ThisToLong(index) => (6, [Some(index), None]),
                };
                out.ue(operation);
                values.into_iter().flatten().for_each(|value| out.ue(value));
            }
            out.ue(0);
        }
    }
}
