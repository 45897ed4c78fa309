//! NAL units of a frame on their way into a container: parameter sets are taken out and kept, delimiters and
//! filler left out.
//!
//! Containers have parameter sets in the configuration record. They are taken out of frames a decoder starts
//! with, which bring the record up to date; elsewhere they stay inside, as a record that changes within a
//! group of pictures would start decoders again.

use media::bitstream::{BitReader, next_length_prefixed};
use media::config::{Record, avc_record, hevc_record};

/// H.264 or H.265.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Avc,
    Hevc,
}

/// Parameter sets seen so far, by kind: VPS, SPS, PPS.
#[derive(Debug, Default)]
pub(super) struct ParameterSets {
    kinds: [Vec<Vec<u8>>; 3],
}

/// What the units of a frame are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// There are slices: it is a picture.
    pub(super) is_picture: bool,
    /// A decoder can start with it.
    pub(super) is_key: bool,
}

/// Units with sizes of four bytes, which [`rtp::depacketize`] made: never empty, never cut off.
fn units(mut frame: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || next_length_prefixed(&mut frame, 4))
}

/// What a unit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Of a picture: whether a decoder can start with it, and whether it needs no other picture.
    Slice { is_random_access: bool, is_intra: bool },
    /// Parameter set; index into [`ParameterSets::kinds`].
    Set(usize),
    /// Supplemental: a recovery point is inside.
    RecoveryPoint,
    /// Passed on, decides nothing.
    Other,
    /// Not passed on.
    Waste,
}

impl Family {
    fn role(self, unit: &[u8]) -> Role {
        let Some(head) = unit.first() else { return Role::Waste };
        match self {
            Self::Avc => match head & 0x1f {
                5 => Role::Slice { is_random_access: true, is_intra: true },
                1..=4 => Role::Slice { is_random_access: false, is_intra: is_intra_slice(&unit[1..]) },
                // Of several messages the first tells; recovery points come first or alone.
                6 if unit.get(1) == Some(&RECOVERY_POINT) => Role::RecoveryPoint,
                7 => Role::Set(SPS),
                8 => Role::Set(PPS),
                // Delimiter, ends of sequence and stream, filler; and what belongs to scalable layers nobody
                // decodes.
                9..=12 | 14 | 15 | 20 => Role::Waste,
                _ => Role::Other,
            },
            Self::Hevc => match head >> 1 & 0x3f {
                kind @ 0..=31 => Role::Slice { is_random_access: (16..=23).contains(&kind), is_intra: false },
                32 => Role::Set(VPS),
                33 => Role::Set(SPS),
                34 => Role::Set(PPS),
                35..=38 => Role::Waste,
                _ => Role::Other,
            },
        }
    }
}

impl ParameterSets {
    /// Looks through a frame and keeps its parameter sets. `None` if a set is longer than a record can hold,
    /// or there are too many.
    pub(super) fn look_through(&mut self, family: Family, frame: &[u8]) -> Option<Contents> {
        let mut contents = Contents::default();
        let (mut all_intra, mut recovers, mut has_sps) = (true, false, false);
        let mut replaced = [false; 3];
        for unit in units(frame) {
            match family.role(unit) {
                Role::Slice { is_random_access, is_intra } => {
                    contents.is_picture = true;
                    contents.is_key |= is_random_access;
                    all_intra &= is_intra;
                }
                Role::Set(kind) => {
                    has_sps |= kind == SPS;
                    self.keep(kind, unit, &mut replaced)?;
                }
                Role::RecoveryPoint => recovers = true,
                Role::Other | Role::Waste => {}
            }
        }
        // Encoders that refresh slowly begin with parameter sets and a recovery point, or a picture of intra
        // slices.
        contents.is_key |= family == Family::Avc && has_sps && (recovers || all_intra) && contents.is_picture;
        Some(contents)
    }

    /// All sets of a kind that a frame brings replace those before. A new SPS makes older PPS that do not
    /// come with it no worse: they stay.
    fn keep(&mut self, kind: usize, unit: &[u8], replaced: &mut [bool; 3]) -> Option<()> {
        let sets = &mut self.kinds[kind];
        if !std::mem::replace(&mut replaced[kind], true) {
            sets.clear();
        }
        if sets.iter().any(|set| set == unit) {
            return Some(());
        }
        if unit.len() > SET_BYTES_MAX || sets.len() == SETS_MAX {
            return None;
        }
        sets.push(unit.to_vec());
        Some(())
    }

    /// The record of the sets kept.
    pub(super) fn record(&self, family: Family) -> Option<Record> {
        let [vps, sps, pps] =
            self.kinds.each_ref().map(|sets| sets.iter().map(Vec::as_slice).collect::<Vec<&[u8]>>());
        match family {
            Family::Avc => avc_record(&sps, &pps),
            Family::Hevc => hevc_record(&vps, &sps, &pps),
        }
    }

    /// Forgets them: another publisher.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Appends what a container keeps of a frame.
pub(super) fn write(family: Family, frame: &[u8], contents: Contents, out: &mut Vec<u8>) {
    for unit in units(frame) {
        match family.role(unit) {
            Role::Waste => {}
            Role::Set(_) if contents.is_key => {}
            _ => {
                out.extend_from_slice(&(unit.len() as u32).to_be_bytes());
                out.extend_from_slice(unit);
            }
        }
    }
}

/// Whether a slice's type is I or SI (H.264 section 7.3.3: `first_mb_in_slice`, then `slice_type`).
fn is_intra_slice(payload: &[u8]) -> bool {
    let mut bits = BitReader::nal(payload);
    bits.ue().and_then(|_| bits.ue()).is_ok_and(|slice_type| matches!(slice_type, 2 | 4 | 7 | 9))
}

const VPS: usize = 0;
const SPS: usize = 1;
const PPS: usize = 2;
const RECOVERY_POINT: u8 = 6;

/// Longest parameter set, bytes: what a record can hold.
const SET_BYTES_MAX: usize = 65_535;
/// Parameter sets of a kind. Encoders use one, some one for each kind of picture.
const SETS_MAX: usize = 16;
