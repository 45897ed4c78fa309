//! A picture as its codec coded it to the data of a frame, and the configuration it brings along.
//!
//! Containers have the parameter sets of H.264 and H.265 in the configuration record. They are taken out of
//! frames a decoder starts with, which bring the record up to date; elsewhere they stay inside, as a record
//! that changes within a group of pictures would start decoders again. Delimiters and filler are left out.

use media::bitstream::{BitReader, next_length_prefixed};
use media::config::{self, Record, VideoFormat, avc_record, hevc_record};
use rtp::depacketize::Depacketizer;
use rtp::payload::Codec;

/// What is known of a picture.
#[derive(Debug)]
pub(super) struct Picture {
    codec: Codec,
    /// A decoder can start with it.
    pub(super) is_key: bool,
    /// Configuration a decoder that starts here needs; of key frames.
    pub(super) record: Option<Record>,
}

/// Why a frame is no picture that can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPicture {
    /// Parameter sets, supplemental information: nothing is missing.
    Nothing,
    /// It cannot be what it says.
    Broken,
}

impl Picture {
    /// Looks into a frame, and keeps its parameter sets.
    pub(super) fn read(codec: Codec, frame: &[u8], sets: &mut ParameterSets) -> Result<Self, NoPicture> {
        let (is_key, record) = match codec {
            Codec::H264 | Codec::H265 => {
                let is_key = sets.look_through(codec, frame)?;
                (is_key, is_key.then(|| sets.record(codec)).flatten())
            }
            Codec::Vp8 => (frame.first().is_some_and(|tag| tag & 1 == 0), config::vp8_record(frame)),
            Codec::Vp9 => {
                let record = config::vp9_record(frame);
                (record.is_some(), record)
            }
            // Each random access point brings its sequence header along.
            _ => {
                let record = config::av1_record(frame);
                (record.is_some(), record)
            }
        };
        if is_key && record.is_none() {
            return Err(NoPicture::Broken);
        }
        Ok(Self { codec, is_key, record })
    }

    /// The data of the frame: what a container keeps of it.
    pub(super) fn data(&self, frame: &[u8]) -> Vec<u8> {
        if !matches!(self.codec, Codec::H264 | Codec::H265) {
            return frame.to_vec();
        }
        let mut data = Vec::with_capacity(frame.len());
        for unit in units(frame) {
            match Role::of(self.codec, unit) {
                Role::Waste => {}
                Role::Set(_) if self.is_key => {}
                _ => {
                    data.extend_from_slice(&(unit.len() as u32).to_be_bytes());
                    data.extend_from_slice(unit);
                }
            }
        }
        data
    }
}

/// Format of a track's pictures, from the payloads of a key frame; `None` if they do not tell, as when they
/// are encrypted end to end.
pub fn key_frame_format<'a>(codec: Codec, payloads: impl Iterator<Item = &'a [u8]>) -> Option<VideoFormat> {
    let mut depacketizer = Depacketizer::new(codec);
    for payload in payloads {
        depacketizer.push(payload).ok()?;
    }
    let frame = depacketizer.finish().ok()?;
    let record = Picture::read(codec, &frame, &mut ParameterSets::default()).ok()?.record?;
    // The records of VP8 and VP9 do not have the size.
    let Record { bytes, width, height } = record;
    Some(VideoFormat { width, height, ..config::video_format(codec, &bytes)? })
}

/// Parameter sets of H.264 or H.265 seen so far, by kind: VPS, SPS, PPS.
#[derive(Debug, Default)]
pub(super) struct ParameterSets {
    kinds: [Vec<Vec<u8>>; 3],
}

impl ParameterSets {
    /// Looks through a frame and keeps its parameter sets. Returns whether a decoder can start with it.
    /// Broken if a set is longer than a record can hold, or there are too many.
    fn look_through(&mut self, codec: Codec, frame: &[u8]) -> Result<bool, NoPicture> {
        let (mut is_picture, mut is_key) = (false, false);
        let (mut all_intra, mut recovers, mut has_sps) = (true, false, false);
        let mut replaced = [false; 3];
        for unit in units(frame) {
            match Role::of(codec, unit) {
                Role::Slice { is_random_access, is_intra } => {
                    is_picture = true;
                    is_key |= is_random_access;
                    all_intra &= is_intra;
                }
                Role::Set(kind) => {
                    has_sps |= kind == SPS;
                    // All sets of a kind that a frame brings replace those before. A new SPS makes older PPS
                    // that do not come with it no worse: they stay.
                    let sets = &mut self.kinds[kind];
                    if !std::mem::replace(&mut replaced[kind], true) {
                        sets.clear();
                    }
                    if !sets.iter().any(|set| set == unit) {
                        if unit.len() > SET_BYTES_MAX || sets.len() == SETS_MAX {
                            return Err(NoPicture::Broken);
                        }
                        sets.push(unit.to_vec());
                    }
                }
                Role::RecoveryPoint => recovers = true,
                Role::Other | Role::Waste => {}
            }
        }
        if !is_picture {
            return Err(NoPicture::Nothing);
        }
        // Encoders that refresh slowly begin with parameter sets and a recovery point, or a picture of intra
        // slices.
        Ok(is_key || codec == Codec::H264 && has_sps && (recovers || all_intra))
    }

    /// The record of the sets kept.
    fn record(&self, codec: Codec) -> Option<Record> {
        let [vps, sps, pps] =
            self.kinds.each_ref().map(|sets| sets.iter().map(Vec::as_slice).collect::<Vec<&[u8]>>());
        match codec {
            Codec::H265 => hevc_record(&vps, &sps, &pps),
            _ => avc_record(&sps, &pps),
        }
    }

    /// Keeps the sets of the SDP.
    pub(super) fn put(&mut self, codec: Codec, units: &[Vec<u8>]) {
        for unit in units {
            if let Role::Set(kind) = Role::of(codec, unit)
                && unit.len() <= SET_BYTES_MAX
                && self.kinds[kind].len() < SETS_MAX
            {
                self.kinds[kind].push(unit.clone());
            }
        }
    }

    /// Forgets them: another publisher.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
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

impl Role {
    /// Of a unit of `codec`, H.264 or H.265.
    fn of(codec: Codec, unit: &[u8]) -> Self {
        let Some(head) = unit.first() else { return Self::Waste };
        match codec {
            Codec::H265 => match head >> 1 & 0x3f {
                kind @ 0..=31 => Self::Slice { is_random_access: (16..=23).contains(&kind), is_intra: false },
                32 => Self::Set(VPS),
                33 => Self::Set(SPS),
                34 => Self::Set(PPS),
                35..=38 => Self::Waste,
                _ => Self::Other,
            },
            _ => match head & 0x1f {
                5 => Self::Slice { is_random_access: true, is_intra: true },
                1..=4 => {
                    // `first_mb_in_slice`, then `slice_type` (H.264 section 7.3.3): I or SI.
                    let mut bits = BitReader::nal(&unit[1..]);
                    let slice_type = bits.ue().and_then(|_| bits.ue());
                    let is_intra = slice_type.is_ok_and(|slice_type| matches!(slice_type, 2 | 4 | 7 | 9));
                    Self::Slice { is_random_access: false, is_intra }
                }
                // Of several messages the first tells; recovery points come first or alone.
                6 if unit.get(1) == Some(&RECOVERY_POINT) => Self::RecoveryPoint,
                7 => Self::Set(SPS),
                8 => Self::Set(PPS),
                // Delimiter, ends of sequence and stream, filler; and what belongs to scalable layers nobody
                // decodes.
                9..=12 | 14 | 15 | 20 => Self::Waste,
                _ => Self::Other,
            },
        }
    }
}

/// Units with sizes of four bytes, which [`rtp::depacketize`] made: never empty, never cut off.
fn units(mut frame: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || next_length_prefixed(&mut frame, 4))
}

const VPS: usize = 0;
const SPS: usize = 1;
const PPS: usize = 2;
const RECOVERY_POINT: u8 = 6;

/// Longest parameter set, bytes: what a record can hold.
const SET_BYTES_MAX: usize = 65_535;
/// Parameter sets of a kind. Encoders use one, some one for each kind of picture.
const SETS_MAX: usize = 16;
