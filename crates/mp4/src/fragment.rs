//! Movie fragments (ISO/IEC 14496-12, 8.8): samples listed in `moof` boxes, between the media.
//!
//! A run (`trun`) is kept as it is in the file and gives its samples one by one. Finding the
//! boxes in the file is for `file.rs`, which samples are shown for `edits.rs`.

use mp4_atom::{Tfdt, Tfhd, Trex};

use super::boxes::{Boxes, decode};
use super::tables::Entry;
use super::{Limits, Mp4Error};

/// A fragment: runs in the order of the file.
#[derive(Debug)]
pub(super) struct Fragment {
    pub(super) runs: Vec<Run>,
}

/// Samples of one track that follow one another in the file.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) track_id: u32,
    /// Decoding time of its first sample, if the fragment says it (`tfdt`) and this is its track's
    /// first run there.
    pub(super) start: Option<i64>,
    /// It is the first of its track fragment.
    pub(super) is_first: bool,
    /// Where the next sample is.
    offset: u64,
    /// Samples passed, and of all.
    passed: u32,
    count: u32,
    fields: u32,
    rows: Box<[u8]>,
    first_flags: Option<u32>,
    defaults: Defaults,
}

/// What holds for samples that say nothing else.
#[derive(Debug, Clone, Copy)]
struct Defaults {
    duration: u32,
    size: u32,
    flags: u32,
    /// From 0.
    description: u32,
}

impl Fragment {
    /// Reads the body of the `moof` that begins at `moof_at`.
    pub(super) fn read(body: &[u8], moof_at: u64, trex: &[Trex], limits: &Limits) -> Result<Self, Mp4Error> {
        let mut runs = Vec::new();
        // Where the data of the track fragment before ends: what counts if nothing else is said
        // (8.8.7.1).
        let mut data_end = moof_at;
        for next in Boxes(body) {
            let (kind, traf) = next?;
            if &kind.0 == b"traf" {
                data_end = read_track(traf, moof_at, data_end, trex, limits, &mut runs)?;
            }
        }
        Ok(Self { runs })
    }
}

/// Reads a `traf`; gives where its data ends.
fn read_track(
    traf: &[u8],
    moof_at: u64,
    data_end: u64,
    trex: &[Trex],
    limits: &Limits,
    runs: &mut Vec<Run>,
) -> Result<u64, Mp4Error> {
    let head: Tfhd = decode(Boxes(traf).require(b"tfhd")?)?;
    let start = Boxes(traf).find(b"tfdt")?.map(decode::<Tfdt>).transpose()?;
    let mut start = start.map(|tfdt| i64::try_from(tfdt.base_media_decode_time).unwrap_or(i64::MAX));
    let trex = trex.iter().find(|trex| trex.track_id == head.track_id).cloned().unwrap_or_default();
    let defaults = Defaults {
        duration: head.default_sample_duration.unwrap_or(trex.default_sample_duration),
        size: head.default_sample_size.unwrap_or(trex.default_sample_size),
        flags: head.default_sample_flags.unwrap_or(trex.default_sample_flags),
        description: head
            .sample_description_index
            .unwrap_or(trex.default_sample_description_index)
            .saturating_sub(1),
    };
    let base = match head.base_data_offset {
        Some(base) => base,
        None if head.default_base_is_moof => moof_at,
        None => data_end,
    };
    let mut at = base;
    let mut is_first = true;
    for next in Boxes(traf) {
        let (kind, body) = next?;
        if &kind.0 != b"trun" {
            continue;
        }
        let (mut run, data_offset) = Run::read(head.track_id, body, defaults, limits)?;
        if let Some(offset) = data_offset {
            let why = "its data offset is outside of any file";
            at = base.checked_add_signed(offset.into()).ok_or(Mp4Error::malformed(b"trun", why))?;
        }
        (run.offset, run.start) = (at, start.take());
        run.is_first = std::mem::replace(&mut is_first, false);
        at = at.saturating_add(run.bytes());
        runs.push(run);
    }
    Ok(at)
}

impl Run {
    /// Reads the body of a `trun` (8.8.8); gives its data offset, too.
    ///
    /// ```text
    ///  version 8 | flags 24 | samples 32 | [0x1: data offset 32] | [0x4: flags of the first 32]
    ///  { [0x100: duration 32] | [0x200: size 32] | [0x400: flags 32] | [0x800: composition offset 32] } ...
    /// ```
    fn read(
        track_id: u32,
        body: &[u8],
        defaults: Defaults,
        limits: &Limits,
    ) -> Result<(Self, Option<i32>), Mp4Error> {
        let cut = || Mp4Error::malformed(b"trun", "cut short");
        let mut rest = body;
        let mut number = || {
            let (number, behind) = rest.split_first_chunk::<4>()?;
            rest = behind;
            Some(u32::from_be_bytes(*number))
        };
        let fields = number().ok_or_else(cut)? & 0xff_ffff;
        let count = number().ok_or_else(cut)?;
        let data_offset =
            if fields & DATA_OFFSET != 0 { Some(number().ok_or_else(cut)? as i32) } else { None };
        let first_flags = if fields & FIRST_FLAGS != 0 { Some(number().ok_or_else(cut)?) } else { None };
        Mp4Error::check("samples of a fragment", count.into(), limits.samples.into())?;
        let bytes = (count as usize).checked_mul(row_bytes(fields)).ok_or_else(cut)?;
        let rows = rest.get(..bytes).ok_or_else(cut)?.into();
        let run = Self {
            track_id,
            start: None,
            is_first: false,
            offset: 0,
            passed: 0,
            count,
            fields,
            rows,
            first_flags,
            defaults,
        };
        Ok((run, data_offset))
    }

    /// The next sample of a run whose samples are decoded from `dts` on.
    pub(super) fn next(&mut self, dts: i64) -> Option<Entry> {
        if self.passed >= self.count {
            return None;
        }
        let row = self.row(self.passed);
        let entry = Entry {
            offset: self.offset,
            size: row.size,
            dts,
            pts: dts.saturating_add(row.composition.into()),
            duration: row.duration,
            is_key: row.flags & (IS_NON_SYNC | DEPENDS_ON_OTHERS) == 0,
            description: self.defaults.description,
        };
        self.passed += 1;
        self.offset = self.offset.saturating_add(row.size.into());
        Some(entry)
    }

    /// Samples to come.
    pub(super) fn len(&self) -> u32 {
        self.count - self.passed
    }

    /// The smallest composition offset, at most 0.
    pub(super) fn composition_min(&self) -> i64 {
        if self.fields & COMPOSITION == 0 {
            return 0;
        }
        (self.passed..self.count).map(|index| self.row(index).composition.into()).min().unwrap_or(0).min(0)
    }

    /// Bytes of the samples to come.
    fn bytes(&self) -> u64 {
        if self.fields & SIZE == 0 {
            return u64::from(self.count - self.passed) * u64::from(self.defaults.size);
        }
        (self.passed..self.count).map(|index| u64::from(self.row(index).size)).sum()
    }

    fn row(&self, index: u32) -> Row {
        let length = row_bytes(self.fields);
        let mut numbers = self.rows[index as usize * length..][..length].chunks_exact(4);
        let mut field = |bit: u32| {
            let bytes = if self.fields & bit != 0 { numbers.next() } else { None };
            bytes.map(|bytes| u32::from_be_bytes(bytes.try_into().expect("chunks of four")))
        };
        let duration = field(DURATION).unwrap_or(self.defaults.duration);
        let size = field(SIZE).unwrap_or(self.defaults.size);
        let mut flags = field(FLAGS);
        if index == 0 && self.first_flags.is_some() {
            flags = self.first_flags;
        }
        let composition = field(COMPOSITION).unwrap_or(0) as i32;
        Row { duration, size, flags: flags.unwrap_or(self.defaults.flags), composition }
    }
}

/// What a run says about one sample.
#[derive(Debug, Clone, Copy)]
struct Row {
    duration: u32,
    size: u32,
    flags: u32,
    composition: i32,
}

fn row_bytes(fields: u32) -> usize {
    (fields & (DURATION | SIZE | FLAGS | COMPOSITION)).count_ones() as usize * 4
}

const DATA_OFFSET: u32 = 0x1;
const FIRST_FLAGS: u32 = 0x4;
const DURATION: u32 = 0x100;
const SIZE: u32 = 0x200;
const FLAGS: u32 = 0x400;
const COMPOSITION: u32 = 0x800;
/// Of a sample's flags (8.8.3.1): `sample_is_non_sync_sample`, and `sample_depends_on` = 1.
const IS_NON_SYNC: u32 = 0x1_0000;
const DEPENDS_ON_OTHERS: u32 = 0x100_0000;
