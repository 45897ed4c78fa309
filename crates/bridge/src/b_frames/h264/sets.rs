//! Parameter sets of H.264, as far as headers of slices depend on them (sections 7.3.2.1.1, 7.3.2.2 and annex
//! E); sequence parameter sets are rewritten for decoders that must not wait.
//!
//! A decoder holds pictures back until it knows that none comes that is to be shown earlier. Where the set
//! does not say how many may come (`max_num_reorder_frames`), it has to assume the most its memory allows, up
//! to 16 pictures. As the pictures that leave here are in the order they are shown, the set that leaves says
//! 0.

use media::bitstream::{BitReader, BitWriter, Malformed, Rest, escape_on};

/// Fields of a sequence parameter set that headers of slices depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sps {
    pub(crate) id: u32,
    pub(crate) profile: u8,
    /// `constraint_set0_flag` in the most significant bit.
    pub(crate) constraints: u8,
    pub(crate) level: u8,
    pub(crate) separate_colour_planes: bool,
    pub(crate) chroma_array_type: u32,
    /// Bits of `frame_num`, 4 to 16.
    pub(crate) frame_num_bits: u32,
    pub(crate) order: PictureOrderType,
    /// Reference frames a decoder keeps, 0 to 16.
    pub(crate) reference_frames_max: u32,
    pub(crate) frame_num_gaps_allowed: bool,
    /// No fields and no frames of field macroblocks.
    pub(crate) frames_only: bool,
    /// Pictures that may be decoded ahead of one that is shown earlier, where the set says it.
    pub(crate) reorder_max: Option<u32>,
}

/// How the order of pictures is coded (section 8.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PictureOrderType {
    /// Type 0: the least significant bits in each slice, so many of them, 4 to 16.
    Lsb { bits: u32 },
    /// Type 1: from `frame_num` and a cycle of steps. No encoder that was measured uses it; refused.
    Cycle,
    /// Type 2: pictures are shown in the order they are decoded.
    Decoding,
}

impl Sps {
    /// Reads the set `nal`, header included.
    ///
    /// # Errors
    /// It is cut, or a value is out of its range.
    pub(crate) fn parse(nal: &[u8]) -> Result<Self, Malformed> {
        Self::read(&mut BitReader::nal(nal.get(1..).ok_or(Malformed)?), false)
    }

    /// Appends the set to `out` as it is sent: nothing to reorder, and no fixed frame rate.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn rewrite(nal: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        let (&header, payload) = nal.split_first().ok_or(Malformed)?;
        let mut reader = BitReader::recording(payload, BitWriter::default());
        Self::read(&mut reader, true)?;
        let mut written = reader.take_record();
        written.trailing_bits();
        out.push(header);
        escape_on(written.bytes(), Rest::default(), out);
        Ok(())
    }

    fn read(reader: &mut BitReader<'_>, rewrite: bool) -> Result<Self, Malformed> {
        let [profile, constraints, level] = [reader.u(8)? as u8, reader.u(8)? as u8, reader.u(8)? as u8];
        let id = reader.ue_up_to(31)?;
        let (mut chroma_format, mut separate_colour_planes) = (1, false);
        if HIGH_PROFILES.contains(&profile) {
            chroma_format = reader.ue_up_to(3)?;
            separate_colour_planes = chroma_format == 3 && reader.bit()?;
            reader.ue_up_to(6)?; // bit_depth_luma_minus8
            reader.ue_up_to(6)?;
            reader.bit()?; // qpprime_y_zero_transform_bypass_flag
            if reader.bit()? {
                for list in 0..if chroma_format == 3 { 12 } else { 8 } {
                    if reader.bit()? {
                        scaling_list(reader, if list < 6 { 16 } else { 64 })?;
                    }
                }
            }
        }
        let frame_num_bits = reader.ue_up_to(12)? + 4;
        let order = match reader.ue()? {
            0 => PictureOrderType::Lsb { bits: reader.ue_up_to(12)? + 4 },
            1 => {
                reader.bit()?; // delta_pic_order_always_zero_flag
                reader.se()?; // offset_for_non_ref_pic
                reader.se()?; // offset_for_top_to_bottom_field
                for _ in 0..reader.ue_up_to(255)? {
                    reader.se()?; // offset_for_ref_frame
                }
                PictureOrderType::Cycle
            }
            2 => PictureOrderType::Decoding,
            _ => return Err(Malformed),
        };
        let reference_frames_max = reader.ue_up_to(16)?;
        let frame_num_gaps_allowed = reader.bit()?;
        // Macroblocks in a row and in a column: more than 2^16 samples are beyond every level.
        reader.ue_up_to(4095)?;
        reader.ue_up_to(4095)?;
        let frames_only = reader.bit()?;
        if !frames_only {
            reader.bit()?; // mb_adaptive_frame_field_flag
        }
        reader.bit()?; // direct_8x8_inference_flag
        if reader.bit()? {
            for _ in 0..4 {
                reader.ue()?; // cropping
            }
        }
        let reorder_max = usability(reader, rewrite, reference_frames_max)?;
        Ok(Self {
            id,
            profile,
            constraints,
            level,
            separate_colour_planes,
            chroma_array_type: if separate_colour_planes { 0 } else { chroma_format },
            frame_num_bits,
            order,
            reference_frames_max,
            frame_num_gaps_allowed,
            frames_only,
            reorder_max,
        })
    }
}

/// Section 7.3.2.1.1.1; the values do not matter here.
fn scaling_list(reader: &mut BitReader<'_>, size: u32) -> Result<(), Malformed> {
    let (mut last, mut next) = (8i32, 8i32);
    for _ in 0..size {
        if next != 0 {
            next = (last + reader.se()?.clamp(-128, 127)).rem_euclid(256);
        }
        if next != 0 {
            last = next;
        }
    }
    Ok(())
}

/// `vui_parameters` (annex E.1.1): `max_num_reorder_frames` if it is there. With `rewrite`, what is recorded
/// says 0.
fn usability(reader: &mut BitReader<'_>, rewrite: bool, references: u32) -> Result<Option<u32>, Malformed> {
    if !rewrite {
        return if reader.bit()? { restriction_of(reader, false) } else { Ok(None) };
    }
    let present = reader.unrecorded(BitReader::bit)?;
    reader.record().ok_or(Malformed)?.bit(true);
    let reorder_max = if present {
        restriction_of(reader, true)?
    } else {
        // Aspect ratio, overscan, video signal, chroma place, timing, two buffer models, pic_struct: none.
        reader.record().ok_or(Malformed)?.u(0, 8);
        None
    };
    // The restriction with the values that hold where it is absent (annex E.2.1), and nothing to reorder.
    let record = reader.record().ok_or(Malformed)?;
    record.bit(true);
    record.bit(true); // motion_vectors_over_pic_boundaries_flag
    record.ue(2); // max_bytes_per_pic_denom
    record.ue(1); // max_bits_per_mb_denom
    record.ue(16); // log2_max_mv_length_horizontal
    record.ue(16); // log2_max_mv_length_vertical
    record.ue(0); // max_num_reorder_frames
    record.ue(references.max(1)); // max_dec_frame_buffering
    Ok(reorder_max)
}

/// Everything of the parameters; with `rewrite`, without recording the restriction at the end.
fn restriction_of(reader: &mut BitReader<'_>, rewrite: bool) -> Result<Option<u32>, Malformed> {
    if reader.bit()? && reader.u(8)? == EXTENDED_SAR {
        reader.u(32)?;
    }
    if reader.bit()? {
        reader.bit()?; // overscan_appropriate_flag
    }
    if reader.bit()? {
        reader.u(4)?; // video_format, video_full_range_flag
        if reader.bit()? {
            reader.u(24)?; // colour description
        }
    }
    if reader.bit()? {
        reader.ue()?; // chroma sample places
        reader.ue()?;
    }
    if reader.bit()? {
        reader.u(32)?; // num_units_in_tick
        reader.u(32)?; // time_scale
        // Where pictures are left out, the distance between them is not fixed.
        if rewrite {
            reader.unrecorded(BitReader::bit)?;
            reader.record().ok_or(Malformed)?.bit(false);
        } else {
            reader.bit()?;
        }
    }
    let models = [buffer_model(reader)?, buffer_model(reader)?];
    if models.contains(&true) {
        reader.bit()?; // low_delay_hrd_flag
    }
    reader.bit()?; // pic_struct_present_flag
    if rewrite { reader.unrecorded(read_restriction) } else { read_restriction(reader) }
}

/// `hrd_parameters` (annex E.1.2), if the flag ahead of them says so.
fn buffer_model(reader: &mut BitReader<'_>) -> Result<bool, Malformed> {
    if !reader.bit()? {
        return Ok(false);
    }
    let schedules = reader.ue_up_to(31)? + 1;
    reader.u(8)?; // scales
    for _ in 0..schedules {
        reader.ue()?;
        reader.ue()?;
        reader.bit()?;
    }
    reader.u(20)?; // four lengths
    Ok(true)
}

fn read_restriction(reader: &mut BitReader<'_>) -> Result<Option<u32>, Malformed> {
    if !reader.bit()? {
        return Ok(None);
    }
    reader.bit()?; // motion_vectors_over_pic_boundaries_flag
    for _ in 0..4 {
        reader.ue()?;
    }
    let reorder = reader.ue()?;
    reader.ue()?; // max_dec_frame_buffering
    Ok(Some(reorder))
}

/// Profiles whose sets have the fields of the High profiles (section 7.3.2.1.1).
const HIGH_PROFILES: [u8; 13] = [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135];
/// `aspect_ratio_idc` with width and height behind it.
const EXTENDED_SAR: u32 = 255;

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
            // The map of slice groups, which Baseline and Extended may have.
            match reader.ue_up_to(6)? {
                0 => (0..groups).try_for_each(|_| reader.ue().map(drop))?,
                2 => (2..2 * groups).try_for_each(|_| reader.ue().map(drop))?,
                3..=5 => {
                    reader.bit()?;
                    reader.ue()?;
                }
                6 => {
                    let units = reader.ue_up_to(139_263)? + 1;
                    let bits = u32::BITS - (groups - 1).leading_zeros();
                    (0..units).try_for_each(|_| reader.u(bits).map(drop))?;
                }
                // One: dispersed, no fields.
                _ => {}
            }
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
