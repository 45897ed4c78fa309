//! H.265: which pictures are sent, in which form.
//!
//! Each picture lists the pictures that it and those behind it refer to (reference picture set, section
//! 8.3.2). A stream is refused when a picture that is to be sent may itself refer to one that was left out.
//! Leading pictures of a key frame (RASL, RADL) are shown ahead of it and hence always left out, so that open
//! GOPs need nothing more.
//!
//! Left out of a frame that is sent: delimiters, ends, filler, units of other layers, SEI behind the picture
//! (checksums), and the SEI that only tells buffer models and the encoder's settings.

mod sets;
mod slice;

use sets::{Pps, Sps};
use slice::SliceHeader;

use super::units::Units;
use super::verdict::{Gate, Refusal, Seen, Stop};
use media::bitstream::{Malformed, NalUnits, Nals};
use media::config::{PARAMETER_SET_BYTES_MAX, PARAMETER_SETS_MAX, RecordError, SETS_BYTES_MAX, read_hvcc};
use media::h265_fmtp;
use serde::{Deserialize, Serialize};

/// See [`super::PictureFilter`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Filter {
    length_bytes: u8,
    pub(super) gate: Gate,
    sets: Sets,
    sets_changed: bool,
    /// Order of the last picture others of its sublayer refer to (section 8.3.1).
    order: i64,
    /// The latest order of what was sent since the last IDR picture.
    latest: Option<i64>,
    /// Order of pictures left out that a decoder would still have; at most 16 and those since the last one
    /// sent.
    left_out: Vec<i64>,
    /// Whether the picture whose slices are coming is sent.
    #[serde(skip)]
    sent: bool,
}

impl Filter {
    pub(super) fn new(record: &[u8]) -> Result<Self, RecordError> {
        let record = read_hvcc(record)?;
        let mut sets = Sets::default();
        for set in &record.sets {
            sets.put(set).map_err(|Malformed| RecordError::Set)?;
        }
        Ok(Self {
            length_bytes: record.length_bytes,
            gate: Gate::default(),
            sets,
            sets_changed: false,
            order: 0,
            latest: None,
            left_out: Vec::new(),
            sent: false,
        })
    }

    /// RFC 7798 section 7.1.
    pub(super) fn fmtp(&self) -> String {
        let profile = self.sets.sequence.first().map(|set| set.fields.profile).unwrap_or_default();
        h265_fmtp(profile.profile, profile.high_tier, profile.level)
    }

    /// Goes through the units of a frame and puts those to be sent into `out`.
    pub(super) fn units(&mut self, frame: &[u8], out: &mut Nals) -> Result<Seen, Stop> {
        let units = NalUnits::of(frame, self.length_bytes).map_err(|_| Stop::Broken)?;
        // Of the base layer: `nuh_layer_id` is 0.
        let units = units.filter(|unit| unit.len() > 2 && (unit[0] & 1) << 5 | unit[1] >> 3 == 0);
        for set in units.clone().filter(|unit| matches!(kind(unit), VPS..=PPS)) {
            self.sets_changed |= self.sets.put(set)?;
        }
        let key = units.clone().any(|unit| (BLA_FIRST..=CRA).contains(&kind(unit)));
        if key || (self.sets_changed && self.gate.started) {
            self.sets.write(out)?;
            self.sets_changed = false;
        }
        let mut seen = Seen { key, ..Seen::default() };
        self.sent = false;
        for unit in units {
            match kind(unit) {
                0..=31 => {
                    if SliceHeader::is_first(unit) {
                        self.sent = self.picture(unit, &mut seen)?;
                    }
                    if self.sent {
                        out.push(unit);
                    }
                }
                PREFIX_SEI if sei_is_kept(unit) => out.push(unit),
                _ => {}
            }
        }
        // A key frame without its first slice.
        if key && seen.sent == 0 { Err(Stop::Broken) } else { Ok(seen) }
    }

    /// Whether the picture with this first slice is sent.
    fn picture(&mut self, unit: &[u8], seen: &mut Seen) -> Result<bool, Stop> {
        seen.pictures += 1;
        let kind = kind(unit);
        let starts = (BLA_FIRST..=CRA).contains(&kind);
        if !self.gate.started && !starts {
            return Ok(false);
        }
        let (sps, pps) = self.sets.of(SliceHeader::pps_id(unit, kind)?)?;
        let header = SliceHeader::parse(unit, kind, sps, pps)?;
        let bits = sps.order_bits;
        // At a CRA picture that is not the first, orders go on; at the others they start over.
        if starts && (!self.gate.started || kind != CRA) {
            (self.order, self.latest) = (0, None);
        }
        let order = if starts && self.latest.is_none() {
            i64::from(header.order_lsb)
        } else {
            order_near(self.order, header.order_lsb, bits)
        };
        let names = |left_out: i64, is_wanted: fn(bool) -> bool| {
            let pictures = header.references.pictures();
            let mut pictures = pictures.filter(|(_, used)| is_wanted(*used));
            let mut long_term = header.long_term.iter().filter(|(_, used)| is_wanted(*used));
            pictures.any(|(by, _)| order + i64::from(by) == left_out)
                || long_term.any(|(lsb, _)| left_out & ((1 << bits) - 1) == i64::from(*lsb))
        };
        // To the others no picture from this one on can refer.
        self.left_out.retain(|&left_out| names(left_out, |_| true));
        // The order of those behind is not counted from sublayer non-reference and leading pictures, nor from
        // those of higher temporal layers (section 8.3.1).
        let is_sublayer_non_reference = kind <= RSV_VCL_R15 && kind.is_multiple_of(2);
        let leading = (RADL_N..=RASL_R).contains(&kind);
        let temporal_id = (unit[1] & 7).saturating_sub(1);
        if temporal_id == 0 && !is_sublayer_non_reference && !leading {
            self.order = order;
        }
        self.gate.started = true;
        if starts {
            self.gate.open_key_frames = 0;
        }
        if leading || self.latest.is_some_and(|latest| order < latest) {
            // No decoder has so many: headers that name them all have been made up.
            if self.left_out.len() == LEFT_OUT_MAX {
                return Err(Stop::Refused(Refusal::ReferencedBFrames));
            }
            self.left_out.push(order);
            return Ok(false);
        }
        if self.left_out.iter().any(|&left_out| names(left_out, |used| used)) {
            return Err(Stop::Refused(Refusal::ReferencedBFrames));
        }
        self.latest = Some(order);
        seen.sent += 1;
        Ok(true)
    }
}

/// Pictures left out that are remembered: twice what a decoder holds (section A.4.2: 16).
const LEFT_OUT_MAX: usize = 32;

/// The order with the low bits `lsb` that is nearest to the one `before` (section 8.3.1).
fn order_near(before: i64, lsb: u32, bits: u32) -> i64 {
    let (max, lsb) = (1i64 << bits, i64::from(lsb));
    let (msb, before_lsb) = (before & !(max - 1), before & (max - 1));
    if lsb < before_lsb && before_lsb - lsb >= max / 2 {
        msb + max + lsb
    } else if lsb > before_lsb && lsb - before_lsb > max / 2 {
        msb - max + lsb
    } else {
        msb + lsb
    }
}

/// `nal_unit_type` (section 7.3.1.2).
fn kind(unit: &[u8]) -> u8 {
    unit[0] >> 1 & 0x3f
}

/// Whether SEI is of use to a viewer; see `h264`.
fn sei_is_kept(unit: &[u8]) -> bool {
    match unit.get(2..) {
        Some([BUFFERING_PERIOD | PICTURE_TIMING | FILLER | ACTIVE_SETS, ..]) => false,
        Some([UNREGISTERED, rest @ ..]) => {
            let size = rest.iter().take_while(|&&byte| byte == 255).count() + 1;
            !rest.get(size..).is_some_and(|data| data.starts_with(&X265_OPTIONS))
        }
        Some(_) => true,
        None => false,
    }
}

/// NAL unit types (table 7-1).
const RADL_N: u8 = 6;
const RASL_R: u8 = 9;
const RSV_VCL_R15: u8 = 15;
const BLA_FIRST: u8 = 16;
const CRA: u8 = 21;
const VPS: u8 = 32;
const SPS: u8 = 33;
const PPS: u8 = 34;
const PREFIX_SEI: u8 = 39;
/// SEI payload types (annex D.2.1).
const BUFFERING_PERIOD: u8 = 0;
const PICTURE_TIMING: u8 = 1;
const FILLER: u8 = 3;
const UNREGISTERED: u8 = 5;
const ACTIVE_SETS: u8 = 129;
/// The identifier x265 puts ahead of its version and options.
const X265_OPTIONS: [u8; 16] =
    [0x2c, 0xa2, 0xde, 0x09, 0xb5, 0x17, 0x47, 0xdb, 0xbb, 0x55, 0xa4, 0xfe, 0x7f, 0xc2, 0xfc, 0x4e];

/// Parameter sets of a stream.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Units", into = "Units")]
struct Sets {
    video: Vec<Set<u8>>,
    sequence: Vec<Set<Sps>>,
    picture: Vec<Set<Pps>>,
}

impl From<Sets> for Units {
    fn from(sets: Sets) -> Self {
        let video = sets.video.into_iter().map(|set| set.unit);
        let sequence = sets.sequence.into_iter().map(|set| set.unit);
        Self(video.chain(sequence).chain(sets.picture.into_iter().map(|set| set.unit)).collect())
    }
}

impl From<Units> for Sets {
    fn from(units: Units) -> Self {
        let mut sets = Self::default();
        units.put_each(|unit| sets.put(unit));
        sets
    }
}

/// One set: what it says, and its NAL unit.
#[derive(Clone, Debug)]
struct Set<T> {
    fields: T,
    unit: Vec<u8>,
}

impl Sets {
    /// Takes a set in, in place of one with the same id. Whether it is new.
    fn put(&mut self, unit: &[u8]) -> Result<bool, Malformed> {
        let kept = bytes_of(&self.video) + bytes_of(&self.sequence) + bytes_of(&self.picture);
        let is_room = kept + unit.len() <= SETS_BYTES_MAX;
        if !is_room || !(3..=PARAMETER_SET_BYTES_MAX).contains(&unit.len()) {
            return Err(Malformed);
        }
        match kind(unit) {
            VPS => put(&mut self.video, unit[2] >> 4, unit, |&id| u32::from(id)),
            SPS => put(&mut self.sequence, Sps::parse(unit)?, unit, |sps| sps.id),
            _ => put(&mut self.picture, Pps::parse(unit)?, unit, |pps| pps.id),
        }
    }

    /// The sets a slice with this picture parameter set depends on.
    fn of(&self, pps: u32) -> Result<(&Sps, &Pps), Malformed> {
        let pps = &self.picture.iter().find(|set| set.fields.id == pps).ok_or(Malformed)?.fields;
        let sps = &self.sequence.iter().find(|set| set.fields.id == pps.sps).ok_or(Malformed)?.fields;
        Ok((sps, pps))
    }

    /// All sets as they are sent.
    fn write(&self, out: &mut Nals) -> Result<(), Malformed> {
        self.video.iter().for_each(|set| out.push(&set.unit));
        for set in &self.sequence {
            let mut written = Ok(());
            out.push_with(|unit| written = Sps::rewrite(&set.unit, unit));
            written?;
        }
        self.picture.iter().for_each(|set| out.push(&set.unit));
        Ok(())
    }
}

fn bytes_of<T>(sets: &[Set<T>]) -> usize {
    sets.iter().map(|set| set.unit.len()).sum()
}

fn put<T>(sets: &mut Vec<Set<T>>, fields: T, unit: &[u8], id: fn(&T) -> u32) -> Result<bool, Malformed> {
    let set = Set { unit: unit.to_vec(), fields };
    match sets.iter().position(|known| id(&known.fields) == id(&set.fields)) {
        Some(at) if sets[at].unit == unit => return Ok(false),
        Some(at) => sets[at] = set,
        None if sets.len() >= PARAMETER_SETS_MAX => return Err(Malformed),
        None => sets.push(set),
    }
    Ok(true)
}
