//! Pictures of H.264 and H.265: units behind start codes in, units behind lengths out.
//!
//! Parameter sets leave the picture and become its configuration; delimiters, filler and ends of
//! sequences are left out. A picture that decoding may begin with is key: an IDR or IRAP picture,
//! and, as broadcast encoders send no IDR, one with parameter sets and a recovery point (H.264
//! annex D).

use std::collections::VecDeque;

use media::bitstream::{BitReader, NalUnits};
use media::config::{PARAMETER_SET_BYTES_MAX, PARAMETER_SETS_MAX, SETS_BYTES_MAX, avc_record, hevc_record};
use media::{Codec, Frame, FrameRole, TrackId};

use super::Times;

/// Reads the pictures of a track.
#[derive(Debug)]
pub(super) struct VideoReader {
    id: TrackId,
    codec: Codec,
    sets: Vec<ParameterSet>,
    /// The configuration that was handed on last.
    config: Option<Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ParameterSet {
    kind: SetKind,
    id: u32,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SetKind {
    Video,
    Sequence,
    Picture,
}

/// What a unit is, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Set(SetKind),
    /// Part of a picture; whether decoding may begin with it.
    Slice {
        is_key: bool,
    },
    RecoveryPoint,
    /// Says nothing.
    Filler,
    Other,
}

impl VideoReader {
    pub(super) fn new(id: TrackId, codec: Codec) -> Self {
        Self { id, codec, sets: Vec::new(), config: None }
    }

    /// Reads a picture, and says whether it is of no use.
    pub(super) fn read(
        &mut self,
        payload: &[u8],
        random_access: bool,
        times: Times,
        frames: &mut VecDeque<Frame>,
    ) -> bool {
        let Ok(units) = NalUnits::annex_b(payload) else { return true };
        let mut data = Vec::with_capacity(payload.len() + 64);
        let mut sets = Vec::new();
        let (mut has_slice, mut is_key, mut has_recovery_point) = (false, false, false);
        for unit in units {
            match self.unit(unit) {
                Unit::Set(kind) => {
                    if unit.len() <= PARAMETER_SET_BYTES_MAX && sets.len() < PARAMETER_SETS_MAX {
                        sets.extend(self.set(kind, unit));
                    }
                    continue;
                }
                Unit::Filler => continue,
                Unit::Slice { is_key: begins } => (has_slice, is_key) = (true, is_key | begins),
                Unit::RecoveryPoint => has_recovery_point = true,
                Unit::Other => {}
            }
            data.extend_from_slice(&(unit.len() as u32).to_be_bytes());
            data.extend_from_slice(unit);
        }
        is_key |= !sets.is_empty() && (has_recovery_point || (random_access && self.codec == Codec::H264));
        if !sets.is_empty() {
            self.take_sets(sets);
            self.configure(times, frames);
        }
        if !has_slice {
            // Parameter sets may come alone.
            return data.is_empty() && self.config.is_none();
        }
        if self.config.is_none() {
            return true;
        }
        let role = if is_key { FrameRole::Key } else { FrameRole::Inter };
        frames.push_back(Frame::new(self.id, role, self.codec, (times.dts, times.pts), data));
        false
    }

    fn unit(&self, unit: &[u8]) -> Unit {
        if self.codec == Codec::H264 {
            return match unit[0] & 0x1f {
                7 => Unit::Set(SetKind::Sequence),
                8 => Unit::Set(SetKind::Picture),
                5 => Unit::Slice { is_key: true },
                1..=4 => Unit::Slice { is_key: false },
                6 if unit.get(1) == Some(&6) => Unit::RecoveryPoint,
                9..=12 => Unit::Filler,
                _ => Unit::Other,
            };
        }
        match unit[0] >> 1 & 0x3f {
            32 => Unit::Set(SetKind::Video),
            33 => Unit::Set(SetKind::Sequence),
            34 => Unit::Set(SetKind::Picture),
            16..=21 => Unit::Slice { is_key: true },
            0..=31 => Unit::Slice { is_key: false },
            35..=38 => Unit::Filler,
            39 if unit.get(2) == Some(&6) => Unit::RecoveryPoint,
            _ => Unit::Other,
        }
    }

    /// A parameter set and its id; `None` if it cannot be read.
    fn set(&self, kind: SetKind, unit: &[u8]) -> Option<ParameterSet> {
        let id = match (self.codec, kind) {
            // Behind profile, constraints and level.
            (Codec::H264, SetKind::Sequence) => BitReader::nal(unit.get(4..)?).ue().ok()?,
            (Codec::H264, _) => BitReader::nal(unit.get(1..)?).ue().ok()?,
            (_, SetKind::Video) => u32::from(unit.get(2)? >> 4),
            (_, SetKind::Picture) => BitReader::nal(unit.get(2..)?).ue().ok()?,
            // Its id is far inside; encoders have one.
            (_, SetKind::Sequence) => 0,
        };
        Some(ParameterSet { kind, id, bytes: unit.to_vec() })
    }

    /// A set replaces the one of its id. Those that come with a sequence parameter set replace all: they
    /// are a new sequence's.
    fn take_sets(&mut self, sets: Vec<ParameterSet>) {
        let has = |kind| sets.iter().any(|set| set.kind == kind);
        if has(SetKind::Sequence) && has(SetKind::Picture) {
            self.sets.clear();
        }
        for set in sets {
            let known = self.sets.iter().position(|known| (known.kind, known.id) == (set.kind, set.id));
            let held: usize = self.sets.iter().map(|set| set.bytes.len()).sum();
            match known {
                Some(at) => self.sets[at] = set,
                None if self.sets.len() < PARAMETER_SETS_MAX && held + set.bytes.len() <= SETS_BYTES_MAX => {
                    self.sets.push(set);
                }
                None => {}
            }
        }
    }

    /// Hands on a configuration if it says something new.
    fn configure(&mut self, times: Times, frames: &mut VecDeque<Frame>) {
        let of = |kind| {
            let sets = self.sets.iter().filter(|set| set.kind == kind);
            sets.map(|set| &set.bytes[..]).collect::<Vec<_>>()
        };
        let (sequence, picture) = (of(SetKind::Sequence), of(SetKind::Picture));
        let record = match self.codec {
            Codec::H264 => avc_record(&sequence, &picture),
            _ => hevc_record(&of(SetKind::Video), &sequence, &picture),
        };
        let Some(record) = record.map(|record| record.bytes) else { return };
        if self.config.as_ref() != Some(&record) {
            let dts = times.dts;
            frames.push_back(Frame::new(self.id, FrameRole::Config, self.codec, (dts, dts), record.clone()));
            self.config = Some(record);
        }
    }
}
