//! H.264: which pictures are sent, in which form.
//!
//! Left out of a frame that is sent: access unit delimiters and filler, which RTP has no use for, ends of
//! sequence, units of layers and auxiliary pictures, and the SEI that only tells buffer models and the
//! encoder's settings. Other SEI stays (recovery points, captions, data of applications).
//!
//! Key frames of open GOPs are I pictures with a recovery point and no IDR pictures, which browsers wait for.
//! They are sent as IDR pictures: pictures behind a recovery point do not depend on what is ahead of it, and
//! those shown ahead of it, which may, are left out anyway. Numbers and orders behind it then start over.

mod references;
mod sets;
mod slice;

use references::{PictureOrder, References};
use sets::{PictureOrderType, Pps, Sps};
use slice::{Changes, Markings, SliceHeader, SliceKind, Structure};

use super::units::Units;
use super::verdict::{Gate, Refusal, Seen, Stop};
use media::bitstream::{BitReader, Malformed, NalUnits, Nals};
use media::config::{PARAMETER_SET_BYTES_MAX, PARAMETER_SETS_MAX, RecordError, SETS_BYTES_MAX, read_avcc};
use media::h264_fmtp;
use serde::{Deserialize, Serialize};

/// See [`super::PictureFilter`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Filter {
    length_bytes: u8,
    pub(super) gate: Gate,
    sets: Sets,
    /// Sets came that have not been sent.
    sets_changed: bool,
    /// A reference picture was left out since, or the IDR picture was made here: headers are rewritten.
    diverged: bool,
    /// Of an IDR picture made here: which picture, and its order; those behind it count from there.
    made: Option<(u64, i64)>,
    order: PictureOrder,
    /// As a decoder counts without the pictures left out.
    sent_order: PictureOrder,
    /// The latest order of what was sent since the last IDR picture.
    latest: Option<i64>,
    references: References,
    /// As a decoder has them without the pictures left out.
    sent_references: References,
    /// Pictures so far, to tell them apart.
    pictures: u64,
    #[serde(skip)]
    picture: Option<Picture>,
}

/// The picture whose slices are coming.
#[derive(Clone, Debug)]
struct Picture {
    header: SliceHeader,
    order: i64,
    number: u64,
    sent: Sent,
}

/// In which form a picture is sent.
#[derive(Clone, Debug)]
enum Sent {
    No,
    AsItIs,
    /// With this header.
    Changed(SliceHeader),
}

impl Filter {
    pub(super) fn new(record: &[u8]) -> Result<Self, RecordError> {
        let record = read_avcc(record)?;
        let mut sets = Sets::default();
        for set in &record.sets {
            sets.put(set).map_err(|Malformed| RecordError::Set)?;
        }
        Ok(Self {
            length_bytes: record.length_bytes,
            gate: Gate::default(),
            sets,
            sets_changed: false,
            diverged: false,
            made: None,
            order: PictureOrder::default(),
            sent_order: PictureOrder::default(),
            latest: None,
            references: References::default(),
            sent_references: References::default(),
            pictures: 0,
            picture: None,
        })
    }

    pub(super) fn fmtp(&self) -> String {
        let fields = self.sets.sequence.first().map(|set| &set.fields);
        h264_fmtp(fields.map_or([0; 3], |set| [set.profile, set.constraints, set.level]))
    }

    /// Goes through the units of a frame and puts those to be sent into `out`.
    pub(super) fn units(&mut self, frame: &[u8], out: &mut Nals) -> Result<Seen, Stop> {
        let units = NalUnits::of(frame, self.length_bytes).map_err(|_| Stop::Broken)?;
        for set in units.clone().filter(|unit| matches!(unit[0] & 0x1f, 7 | 8)) {
            self.sets_changed |= self.sets.put(set)?;
        }
        let idr = units.clone().any(|unit| unit[0] & 0x1f == 5);
        let recovers = !idr && units.clone().any(is_recovery_point) && self.can_begin(units.clone());
        if idr || recovers || (self.sets_changed && self.gate.started) {
            self.sets.write(out)?;
            self.sets_changed = false;
        }
        let mut seen = Seen { key: idr || recovers, recovers, ..Seen::default() };
        self.picture = None;
        for unit in units {
            match unit[0] & 0x1f {
                1 | 5 => self.slice(unit, &mut seen, out)?,
                // Partitions of slices: of the Extended profile, which no browser decodes.
                2..=4 => return Err(Stop::Broken),
                6 if sei_is_kept(unit) => out.push(unit),
                _ => {}
            }
        }
        self.end_picture();
        Ok(seen)
    }

    /// Puts the slice into `out` if its picture is sent.
    fn slice(&mut self, unit: &[u8], seen: &mut Seen, out: &mut Nals) -> Result<(), Stop> {
        if !seen.key && !self.gate.started {
            seen.pictures += 1;
            return Ok(());
        }
        let (sps, pps) = self.sets.of(SliceHeader::pps_id(unit)?)?;
        if sps.order == PictureOrderType::Cycle {
            return Err(Stop::Refused(Refusal::PictureOrder));
        }
        let header = SliceHeader::parse(unit, sps, pps)?;
        if self.picture.as_ref().is_none_or(|picture| picture.header.is_other_picture(&header)) {
            self.end_picture();
            self.begin_picture(&header, seen.recovers && seen.pictures == 0, seen)?;
        }
        let picture = self.picture.as_ref().ok_or(Stop::Broken)?;
        match &picture.sent {
            Sent::No => {}
            Sent::AsItIs => out.push(unit),
            Sent::Changed(changed) => {
                let (sps, pps) = self.sets.of(header.pps)?;
                let mut wanted = self.references.lists(sps, &header, picture.order);
                if let Some((first, _)) = self.made {
                    // What is ahead of a recovery point may be in a list, but no block refers to it.
                    wanted
                        .iter_mut()
                        .flatten()
                        .for_each(|entry| *entry = Some(entry.unwrap_or(first).max(first)));
                }
                let header = SliceHeader { frame_num: changed.frame_num, ..header };
                let modifications = self.sent_references.reach(&wanted, sps, &header, picture.order);
                let changes = Changes {
                    idr: changed.idr.then_some((picture.number % 2) as u32),
                    order_lsb: changed.order_lsb,
                    frame_num: changed.frame_num,
                    modifications: modifications.ok_or(Stop::Refused(Refusal::ReferencedBFrames))?,
                    markings: changed.markings.clone(),
                };
                let mut written = Ok(());
                out.push_with(|out| written = SliceHeader::rewrite(unit, sps, pps, &changes, out));
                written?;
            }
        }
        Ok(())
    }

    /// `recovers`: the picture is to become an IDR picture.
    fn begin_picture(&mut self, header: &SliceHeader, recovers: bool, seen: &mut Seen) -> Result<(), Stop> {
        let (sps, pps) = self.sets.of(header.pps)?;
        if recovers && !self.gate.started {
            self.references = References::behind_unknown(sps, header);
            self.order = PictureOrder::behind_unknown(header);
        }
        // What is missing may be what this picture is predicted from.
        if self.references.has_gap(sps, header) {
            return Err(Stop::Broken);
        }
        let order = self.order.next(sps, header);
        let number = self.pictures;
        if header.idr || recovers {
            (self.gate.started, self.gate.open_key_frames, self.latest) = (true, 0, None);
            self.diverged = recovers;
            self.made = recovers.then_some((number, order));
        }
        let in_order = self.latest.is_none_or(|latest| order >= latest);
        // A field behind another one that was sent in the same frame.
        let is_second_field = header.structure != Structure::Frame && seen.sent > 0;
        let sent = if !in_order && !is_second_field {
            self.diverged |= header.reference;
            Sent::No
        } else if self.diverged {
            if pps.slice_groups {
                return Err(Stop::Refused(Refusal::ReferencedBFrames));
            }
            Sent::Changed(self.changed(sps, header, number, order)?)
        } else {
            Sent::AsItIs
        };
        let sent_header = match &sent {
            Sent::No => None,
            Sent::AsItIs => Some(header),
            Sent::Changed(changed) => Some(changed),
        };
        if let Some(sent_header) = sent_header {
            // Without the pictures left out, the low bits may be taken for those of another cycle.
            if self.sent_order.next(sps, sent_header) != order - self.made.map_or(0, |(_, first)| first) {
                return Err(Stop::Refused(Refusal::ReferencedBFrames));
            }
            self.latest = Some(if header.resets() { 0 } else { order.max(self.latest.unwrap_or(order)) });
            seen.sent += 1;
        }
        seen.pictures += 1;
        self.pictures += 1;
        self.picture = Some(Picture { header: header.clone(), order, number, sent });
        Ok(())
    }

    /// The header of a picture as it is sent behind what was left out; its lists are up to each slice.
    fn changed(&self, sps: &Sps, header: &SliceHeader, number: u64, order: i64) -> Result<SliceHeader, Stop> {
        let refused = Stop::Refused(Refusal::ReferencedBFrames);
        if header.structure != Structure::Frame {
            return Err(refused);
        }
        let mut changed = header.clone();
        if let (PictureOrderType::Lsb { bits }, Some((_, first))) = (&sps.order, self.made) {
            changed.order_lsb = (i64::from(header.order_lsb) - first).rem_euclid(1 << bits) as u32;
        }
        if self.made.is_some_and(|(made, _)| made == number) {
            changed.idr = true;
            changed.frame_num = 0;
            changed.markings = Some(Markings::Idr { long_term: false });
            return Ok(changed);
        }
        changed.frame_num = self.sent_references.next_frame_num(sps);
        if header.reference {
            let mut after = self.references.clone();
            after.mark(sps, header, number, order);
            changed.markings = Some(self.sent_references.mirror(&after, sps, &changed).ok_or(refused)?);
        }
        Ok(changed)
    }

    /// Whether the slices of a frame are those of one I picture that others refer to.
    fn can_begin<'a>(&self, units: impl Iterator<Item = &'a [u8]>) -> bool {
        let mut slices = units.filter(|unit| unit[0] & 0x1f == 1).peekable();
        slices.peek().is_some()
            && slices.all(|unit| {
                let header = SliceHeader::pps_id(unit).and_then(|id| {
                    let (sps, pps) = self.sets.of(id)?;
                    SliceHeader::parse(unit, sps, pps)
                });
                header.is_ok_and(|header| {
                    header.kind == SliceKind::I && header.reference && header.structure == Structure::Frame
                })
            })
    }

    /// What the picture leaves to those behind it.
    fn end_picture(&mut self) {
        let Some(picture) = self.picture.take() else { return };
        let Ok((sps, _)) = self.sets.of(picture.header.pps) else { return };
        self.references.mark(sps, &picture.header, picture.number, picture.order);
        let sent = match &picture.sent {
            Sent::No => return,
            Sent::AsItIs => &picture.header,
            Sent::Changed(header) => header,
        };
        self.sent_references.mark(sps, sent, picture.number, picture.order);
    }
}

impl SliceHeader {
    /// Whether the slice is of another picture than one with this header ahead of it (section 7.4.1.2.4).
    fn is_other_picture(&self, next: &Self) -> bool {
        self.frame_num != next.frame_num
            || self.structure != next.structure
            || self.idr != next.idr
            || self.reference != next.reference
            || self.order_lsb != next.order_lsb
            || self.order_bottom_delta != next.order_bottom_delta
    }
}

/// Whether SEI is of use to a viewer: not if all of it is about buffers, filler, or x264's list of its
/// options.
fn sei_is_kept(unit: &[u8]) -> bool {
    // Type and size are below 255 and hence one byte each in what is looked for.
    match unit.get(1..) {
        Some([BUFFERING_PERIOD | PICTURE_TIMING | FILLER, ..]) => false,
        Some([UNREGISTERED, rest @ ..]) => {
            let size = rest.iter().take_while(|&&byte| byte == 255).count() + 1;
            !rest.get(size..).is_some_and(|data| data.starts_with(&X264_OPTIONS))
        }
        Some(_) => true,
        None => false,
    }
}

/// Whether the unit is SEI that says that decoding can begin here and all is right at once (annex D.1.8).
fn is_recovery_point(unit: &[u8]) -> bool {
    let find = || -> Result<bool, Malformed> {
        let mut reader = BitReader::nal(&unit[1..]);
        loop {
            let kind = sei_number(&mut reader)?;
            let size = sei_number(&mut reader)?;
            if kind == RECOVERY_POINT {
                return Ok(reader.ue()? == 0);
            }
            for _ in 0..size {
                reader.u(8)?;
            }
        }
    };
    unit[0] & 0x1f == 6 && find().unwrap_or(false)
}

/// Type or size of an SEI message: bytes of 255 add up with the one behind them (section 7.3.2.3.1).
fn sei_number(reader: &mut BitReader<'_>) -> Result<u32, Malformed> {
    let mut number = 0u32;
    loop {
        let byte = reader.u(8)?;
        number = number.saturating_add(byte);
        if byte != 255 {
            return Ok(number);
        }
    }
}

/// SEI payload types (annex D.1).
const BUFFERING_PERIOD: u8 = 0;
const PICTURE_TIMING: u8 = 1;
const FILLER: u8 = 3;
const UNREGISTERED: u8 = 5;
const RECOVERY_POINT: u32 = 6;
/// The identifier x264 puts ahead of its version and options: some 700 bytes with each IDR picture.
const X264_OPTIONS: [u8; 16] =
    [0xdc, 0x45, 0xe9, 0xbd, 0xe6, 0xd9, 0x48, 0xb7, 0x96, 0x2c, 0xd8, 0x20, 0xd9, 0x23, 0xee, 0xef];

/// Parameter sets of a stream.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Units", into = "Units")]
struct Sets {
    sequence: Vec<Set<Sps>>,
    picture: Vec<Set<Pps>>,
}

impl From<Sets> for Units {
    fn from(sets: Sets) -> Self {
        let sequence = sets.sequence.into_iter().map(|set| set.unit);
        Self(sequence.chain(sets.picture.into_iter().map(|set| set.unit)).collect())
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
        let mut known =
            self.sequence.iter().map(|set| &set.unit).chain(self.picture.iter().map(|set| &set.unit));
        if known.any(|known| known == unit) {
            return Ok(false);
        }
        let kept = self.sequence.iter().map(|set| set.unit.len()).sum::<usize>()
            + self.picture.iter().map(|set| set.unit.len()).sum::<usize>();
        if unit.len() > PARAMETER_SET_BYTES_MAX || kept + unit.len() > SETS_BYTES_MAX {
            return Err(Malformed);
        }
        if unit.first().is_some_and(|header| header & 0x1f == 7) {
            let fields = Sps::parse(unit)?;
            replace(&mut self.sequence, Set { fields, unit: unit.to_vec() }, |set| set.id)?;
        } else {
            let fields = Pps::parse(unit)?;
            replace(&mut self.picture, Set { fields, unit: unit.to_vec() }, |set| set.id)?;
        }
        Ok(true)
    }

    /// The sets a slice with this picture parameter set depends on.
    fn of(&self, pps: u32) -> Result<(&Sps, &Pps), Malformed> {
        let pps = &self.picture.iter().find(|set| set.fields.id == pps).ok_or(Malformed)?.fields;
        let sps = &self.sequence.iter().find(|set| set.fields.id == pps.sps).ok_or(Malformed)?.fields;
        Ok((sps, pps))
    }

    /// All sets as they are sent.
    fn write(&self, out: &mut Nals) -> Result<(), Malformed> {
        for set in &self.sequence {
            let mut written = Ok(());
            out.push_with(|unit| written = Sps::rewrite(&set.unit, unit));
            written?;
        }
        self.picture.iter().for_each(|set| out.push(&set.unit));
        Ok(())
    }
}

fn replace<T>(sets: &mut Vec<Set<T>>, set: Set<T>, id: impl Fn(&T) -> u32) -> Result<(), Malformed> {
    match sets.iter().position(|known| id(&known.fields) == id(&set.fields)) {
        Some(at) => sets[at] = set,
        None if sets.len() >= PARAMETER_SETS_MAX => return Err(Malformed),
        None => sets.push(set),
    }
    Ok(())
}
