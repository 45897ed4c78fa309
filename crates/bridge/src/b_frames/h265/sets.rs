//! Parameter sets of H.265 (section 7.3.2), as far as headers of slices depend on them, and the
//! sequence set rewritten.
//!
//! As for H.264, the set that leaves says that no picture is to be shown ahead of one decoded
//! before it, so that decoders hold none back. The fields are in the middle of the set
//! (`sps_max_num_reorder_pics`); what is behind them is copied.

use media::bitstream::{BitReader, BitWriter, Malformed, Rest, escape_on};

/// Sets of reference pictures in a sequence parameter set (section 7.4.3.2.1).
const REFERENCE_SETS_MAX: u32 = 64;
/// Pictures of one such set in one direction; a decoder keeps at most 16 in all.
const REFERENCES_MAX: u32 = 16;

/// Profile, tier and level as an `a=fmtp` value tells them (RFC 7798 section 7.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProfileTierLevel {
    pub(crate) profile: u32,
    pub(crate) high_tier: bool,
    pub(crate) level: u32,
}

/// Fields of a sequence parameter set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sps {
    pub(crate) id: u32,
    pub(crate) profile: ProfileTierLevel,
    pub(crate) separate_colour_planes: bool,
    /// Bits of the picture order count in slices, 4 to 16.
    pub(crate) order_bits: u32,
    pub(crate) reference_sets: Vec<ReferenceSet>,
    pub(crate) long_term: Option<LongTerm>,
}

/// Long-term pictures a slice can name by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LongTerm {
    /// Low bits of the order, and whether the picture itself may refer to it.
    pub(crate) pictures: Vec<(u32, bool)>,
}

/// Fields of a picture parameter set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pps {
    pub(crate) id: u32,
    pub(crate) sps: u32,
    pub(crate) output_flag: bool,
    pub(crate) extra_bits: u32,
}

/// Reference pictures a decoder has to keep, by difference of order; with whether this picture
/// itself may refer to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReferenceSet {
    /// Shown before, nearest first.
    before: Vec<(i32, bool)>,
    /// Shown after, nearest first.
    after: Vec<(i32, bool)>,
}

impl Sps {
    /// Reads the set `nal`, header included.
    ///
    /// # Errors
    /// It is cut, or a value is out of its range.
    pub(crate) fn parse(nal: &[u8]) -> Result<Self, Malformed> {
        Self::read(&mut BitReader::nal(nal.get(2..).ok_or(Malformed)?))
    }

    /// Appends the set to `out` with nothing to reorder.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn rewrite(nal: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        let (header, payload) = nal.split_at_checked(2).ok_or(Malformed)?;
        let mut reader = BitReader::recording(payload, BitWriter::default());
        Self::read(&mut reader)?;
        reader.read_to_stop_bit()?;
        let mut written = reader.take_record();
        written.trailing_bits();
        out.extend_from_slice(header);
        escape_on(written.bytes(), Rest::default(), out);
        Ok(())
    }

    fn read(reader: &mut BitReader<'_>) -> Result<Self, Malformed> {
        reader.u(4)?; // sps_video_parameter_set_id
        let layers = reader.u(3)?;
        reader.bit()?; // sps_temporal_id_nesting_flag
        let profile = profile_tier_level(reader, layers)?;
        let id = reader.ue_up_to(15)?;
        let separate_colour_planes = reader.ue_up_to(3)? == 3 && reader.bit()?;
        reader.ue()?; // width and height
        reader.ue()?;
        if reader.bit()? {
            for _ in 0..4 {
                reader.ue()?; // conformance window
            }
        }
        reader.ue_up_to(8)?; // bit depths
        reader.ue_up_to(8)?;
        let order_bits = reader.ue_up_to(12)? + 4;
        let first = if reader.bit()? { 0 } else { layers };
        for _ in first..=layers {
            reader.ue_up_to(15)?; // size of the picture buffer of a sublayer
            reader.unrecorded(|reader| {
                reader.ue()?; // reordering and latency
                reader.ue()
            })?;
            if let Some(record) = reader.record() {
                // Nothing to reorder.
                record.ue(0);
                record.ue(0);
            }
        }
        for _ in 0..6 {
            reader.ue()?; // sizes and depths of blocks
        }
        if reader.bit()? && reader.bit()? {
            scaling_lists(reader)?;
        }
        reader.u(2)?; // amp_enabled_flag, sample_adaptive_offset_enabled_flag
        if reader.bit()? {
            reader.u(8)?; // PCM depths and sizes
            reader.ue()?;
            reader.ue()?;
            reader.bit()?;
        }
        let count = reader.ue_up_to(REFERENCE_SETS_MAX)?;
        let mut reference_sets = Vec::new();
        for index in 0..count {
            let set = ReferenceSet::read(reader, index, count, &reference_sets)?;
            reference_sets.push(set);
        }
        let mut long_term = None;
        if reader.bit()? {
            let pictures = (0..reader.ue_up_to(32)?).map(|_| Ok((reader.u(order_bits)?, reader.bit()?)));
            long_term = Some(LongTerm { pictures: pictures.collect::<Result<_, Malformed>>()? });
        }
        Ok(Self { id, profile, separate_colour_planes, order_bits, reference_sets, long_term })
    }
}

/// Section 7.3.3, the general part of it.
fn profile_tier_level(reader: &mut BitReader<'_>, layers: u32) -> Result<ProfileTierLevel, Malformed> {
    reader.u(2)?; // general_profile_space
    let (high_tier, profile) = (reader.bit()?, reader.u(5)?);
    for bits in [32, 32, 16] {
        reader.u(bits)?; // compatibility and constraints
    }
    let level = reader.u(8)?;
    let mut present = Vec::new();
    for _ in 0..layers {
        present.push((reader.bit()?, reader.bit()?));
    }
    if layers > 0 {
        reader.u(2 * (8 - layers))?;
    }
    for (profile, level) in present {
        if profile {
            for bits in [32, 32, 24] {
                reader.u(bits)?;
            }
        }
        if level {
            reader.u(8)?;
        }
    }
    Ok(ProfileTierLevel { profile, high_tier, level })
}

/// Section 7.3.4; the values do not matter here.
fn scaling_lists(reader: &mut BitReader<'_>) -> Result<(), Malformed> {
    for size in 0..4 {
        for _ in (0..6).step_by(if size == 3 { 3 } else { 1 }) {
            if !reader.bit()? {
                reader.ue()?;
                continue;
            }
            if size > 1 {
                reader.se()?;
            }
            for _ in 0..64.min(1 << (4 + 2 * size)) {
                reader.se()?;
            }
        }
    }
    Ok(())
}

impl Pps {
    /// Reads the set `nal`, header included.
    ///
    /// # Errors
    /// It is cut, or a value is out of its range.
    pub(crate) fn parse(nal: &[u8]) -> Result<Self, Malformed> {
        let reader = &mut BitReader::nal(nal.get(2..).ok_or(Malformed)?);
        let (id, sps) = (reader.ue_up_to(63)?, reader.ue_up_to(15)?);
        reader.bit()?; // dependent_slice_segments_enabled_flag
        Ok(Self { id, sps, output_flag: reader.bit()?, extra_bits: reader.u(3)? })
    }
}

impl ReferenceSet {
    /// Reads set `index` of `count`, which may be given by difference to one of `known` (section
    /// 7.3.7). In a slice `index` is `count`.
    ///
    /// # Errors
    /// It is cut, or a value is out of its range.
    pub(crate) fn read(
        reader: &mut BitReader<'_>,
        index: u32,
        count: u32,
        known: &[Self],
    ) -> Result<Self, Malformed> {
        if index > 0 && reader.bit()? {
            let back = if index == count { reader.ue_up_to(index - 1)? + 1 } else { 1 };
            let base = known.get((index - back) as usize).ok_or(Malformed)?;
            return base.shifted(reader);
        }
        let (before, after) = (reader.ue_up_to(REFERENCES_MAX)?, reader.ue_up_to(REFERENCES_MAX)?);
        let mut set = Self::default();
        for (list, count, sign) in [(&mut set.before, before, -1), (&mut set.after, after, 1)] {
            let mut difference = 0;
            for _ in 0..count {
                difference += sign * (reader.ue_up_to(32_767)? as i32 + 1);
                list.push((difference, reader.bit()?));
            }
        }
        Ok(set)
    }

    /// Section 7.4.8, equations 7-61 and 7-62.
    fn shifted(&self, reader: &mut BitReader<'_>) -> Result<Self, Malformed> {
        let negative = reader.bit()?;
        let shift = reader.ue_up_to(32_767)? as i32 + 1;
        let shift = if negative { -shift } else { shift };
        // Flags are given for the pictures in their order, and then for the picture the set was of itself.
        let mut pictures: Vec<_> = self.before.iter().chain(&self.after).map(|&(order, _)| order).collect();
        pictures.push(0);
        let mut set = Self::default();
        for order in pictures {
            let used = reader.bit()?;
            if !used && !reader.bit()? {
                continue;
            }
            let order = order.checked_add(shift).ok_or(Malformed)?;
            match order.signum() {
                -1 => set.before.push((order, used)),
                1 => set.after.push((order, used)),
                _ => {}
            }
        }
        set.before.sort_by_key(|&(order, _)| -order);
        set.after.sort_by_key(|&(order, _)| order);
        if set.before.len() + set.after.len() > REFERENCES_MAX as usize {
            return Err(Malformed);
        }
        Ok(set)
    }

    /// Differences of order, with whether this picture itself may refer to it.
    pub(crate) fn pictures(&self) -> impl Iterator<Item = (i32, bool)> + '_ {
        self.before.iter().chain(&self.after).copied()
    }
}
