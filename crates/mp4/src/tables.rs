//! The sample tables of a track (ISO/IEC 14496-12, 8.6 and 8.7) and a cursor that walks them.
//!
//! Tables stay as they are in the file, a few bytes per run: nothing is expanded to one entry per
//! sample, and no declared count is believed before the bytes are there. [`Cursor`] gives one
//! sample after the other at constant cost; finding a sample walks the runs. Which samples are
//! shown is for `edits.rs`.

use super::boxes::Boxes;
use super::{Limits, Mp4Error};

/// Where a sample is, and when; times in units of the track's time scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) offset: u64,
    pub(super) size: u32,
    /// Decoding time, 0 for the first sample.
    pub(super) dts: i64,
    /// Presentation time: what the composition offset adds.
    pub(super) pts: i64,
    pub(super) duration: u32,
    pub(super) is_key: bool,
    /// Index of its sample description, from 0.
    pub(super) description: u32,
}

/// All tables of a track.
#[derive(Debug, Clone)]
pub(super) struct SampleTables {
    /// `stts`: samples, duration.
    durations: Table<8>,
    /// `ctts`: samples, offset.
    compositions: Table<8>,
    composition_min: i64,
    /// `stsc`: first chunk from 1, samples per chunk, description from 1.
    chunk_runs: Table<12>,
    sizes: Sizes,
    chunks: Chunks,
    /// `stss`, sample numbers from 1; `None`: every sample is a key frame.
    keys: Option<Table<4>>,
}

impl SampleTables {
    /// Reads the body of `stbl`.
    pub(super) fn read(stbl: &[u8], limits: &Limits) -> Result<Self, Mp4Error> {
        let optional = |kind: &[u8; 4]| Boxes(stbl).find(kind);
        let compositions =
            optional(b"ctts")?.map_or(Ok(Table::default()), |body| Table::read(b"ctts", body))?;
        // Asked for with every sample, and the table of B-frames has an entry for each.
        let offsets = (0..compositions.len()).map(|index| compositions.pair(index)[1] as i32);
        let tables = Self {
            durations: Table::read(b"stts", Boxes(stbl).require(b"stts")?)?,
            composition_min: offsets.min().unwrap_or(0).into(),
            compositions,
            chunk_runs: Table::read(b"stsc", Boxes(stbl).require(b"stsc")?)?,
            sizes: Sizes::read(stbl, limits)?,
            chunks: match optional(b"co64")? {
                Some(body) => Chunks::Long(Table::read(b"co64", body)?),
                None => Chunks::Short(Table::read(b"stco", Boxes(stbl).require(b"stco")?)?),
            },
            keys: optional(b"stss")?.map(|body| Table::read(b"stss", body)).transpose()?,
        };
        tables.check_chunks()?;
        Ok(tables)
    }

    /// The chunks hold as many samples as have sizes, and the runs of chunks are in order.
    fn check_chunks(&self) -> Result<(), Mp4Error> {
        let (mut held, mut before) = (0u64, 0);
        for index in 0..self.chunk_runs.len() {
            let [first, per_chunk, _] = self.chunk_run(index);
            if first <= before || per_chunk == 0 || (index == 0 && first != 1) {
                return Err(Mp4Error::malformed(b"stsc", "its runs are not in order, or empty"));
            }
            before = first;
            held += self.chunks_of_run(index) * u64::from(per_chunk);
        }
        if held < u64::from(self.len()) {
            return Err(Mp4Error::malformed(b"stsc", "the chunks hold fewer samples than there are"));
        }
        Ok(())
    }

    pub(super) fn len(&self) -> u32 {
        self.sizes.len()
    }

    /// Sum of all durations.
    pub(super) fn duration(&self) -> i64 {
        let (mut left, mut sum) = (self.len(), 0i64);
        for index in 0..self.durations.len() {
            let [count, delta] = self.durations.pair(index);
            let count = count.min(left);
            left -= count;
            sum = sum.saturating_add(i64::from(count) * i64::from(delta));
        }
        sum
    }

    /// The smallest composition offset, 0 without any.
    pub(super) fn composition_min(&self) -> i64 {
        self.composition_min
    }

    /// The last sample whose decoding time is at or before `dts`; the first, if there is none.
    pub(super) fn sample_at(&self, dts: i64) -> u32 {
        let (mut sample, mut time) = (0u32, 0i64);
        for index in 0..self.durations.len() {
            let [count, delta] = self.durations.pair(index);
            let length = i64::from(count) * i64::from(delta);
            if delta > 0 && dts < time.saturating_add(length) {
                let within = (dts - time).max(0) / i64::from(delta);
                return sample.saturating_add(within as u32).min(self.len().saturating_sub(1));
            }
            time = time.saturating_add(length);
            sample = sample.saturating_add(count);
        }
        self.len().saturating_sub(1)
    }

    /// The last key frame at or before `sample`; the first sample, if there is none.
    pub(super) fn key_at(&self, sample: u32) -> u32 {
        let Some(keys) = &self.keys else { return sample };
        let key = (0..keys.len()).map(|index| keys.number(index)).take_while(|key| *key <= sample + 1).last();
        key.unwrap_or(1).saturating_sub(1)
    }

    fn chunk_run(&self, index: u32) -> [u32; 3] {
        let [first, per_chunk, description] = split(self.chunk_runs.get(index));
        [first, per_chunk, description]
    }

    /// Chunks of a run, as far as there are chunks.
    fn chunks_of_run(&self, index: u32) -> u64 {
        let chunks = self.chunks.len() + 1;
        let first = self.chunk_run(index)[0];
        let next =
            if index + 1 < self.chunk_runs.len() { self.chunk_run(index + 1)[0].min(chunks) } else { chunks };
        u64::from(next.saturating_sub(first))
    }
}

/// A place in the tables: the next sample.
#[derive(Debug, Clone, Default)]
pub(super) struct Cursor {
    sample: u32,
    dts: i64,
    duration_run: RunPlace,
    composition_run: RunPlace,
    /// Index in `stss` of the first key frame that is not before the sample.
    key: u32,
    chunk: u32,
    chunk_run: u32,
    /// Samples of the chunk that have been passed.
    in_chunk: u32,
    /// Where the sample is; of no meaning at the start of a chunk.
    offset: u64,
}

impl Cursor {
    /// A cursor at a sample; behind the last, if there are fewer.
    pub(super) fn at(tables: &SampleTables, sample: u32) -> Self {
        let sample = sample.min(tables.len());
        let mut cursor = Self { sample, ..Self::default() };
        cursor.dts = cursor.duration_run.skip(&tables.durations, sample);
        cursor.composition_run.skip(&tables.compositions, sample);
        if let Some(keys) = &tables.keys {
            cursor.key = (0..keys.len()).take_while(|index| keys.number(*index) <= sample).count() as u32;
        }
        cursor.skip_chunks(tables);
        cursor
    }

    /// Finds the chunk of the sample, and its place there.
    fn skip_chunks(&mut self, tables: &SampleTables) {
        let mut left = u64::from(self.sample);
        for run in 0..tables.chunk_runs.len() {
            let [first, per_chunk, _] = tables.chunk_run(run);
            let held = tables.chunks_of_run(run) * u64::from(per_chunk);
            if left < held {
                self.chunk_run = run;
                self.chunk = first - 1 + (left / u64::from(per_chunk)) as u32;
                self.in_chunk = (left % u64::from(per_chunk)) as u32;
                let before = self.sample - self.in_chunk..self.sample;
                let bytes: u64 = before.map(|sample| u64::from(tables.sizes.get(sample))).sum();
                self.offset = tables.chunks.get(self.chunk).saturating_add(bytes);
                return;
            }
            left -= held;
        }
        self.chunk = tables.chunks.len();
    }

    /// The sample, and on to the next one; `None` at the end.
    pub(super) fn next(&mut self, tables: &SampleTables) -> Option<Entry> {
        if self.sample >= tables.len() {
            return None;
        }
        let size = tables.sizes.get(self.sample);
        let duration = self.duration_run.next(&tables.durations).unwrap_or_else(|| tables.durations.last());
        let composition = self.composition_run.next(&tables.compositions).unwrap_or(0) as i32;
        let is_key = self.take_key(tables);
        let description = self.enter_chunk(tables)?;
        let pts = self.dts.saturating_add(composition.into());
        let entry = Entry { offset: self.offset, size, dts: self.dts, pts, duration, is_key, description };
        self.sample += 1;
        self.in_chunk += 1;
        self.offset = self.offset.saturating_add(size.into());
        self.dts = self.dts.saturating_add(duration.into());
        Some(entry)
    }

    fn take_key(&mut self, tables: &SampleTables) -> bool {
        let Some(keys) = &tables.keys else { return true };
        while self.key < keys.len() && keys.number(self.key) <= self.sample {
            self.key += 1;
        }
        self.key < keys.len() && keys.number(self.key) == self.sample + 1
    }

    /// Goes to the next chunk where the present one is passed; gives the sample description.
    fn enter_chunk(&mut self, tables: &SampleTables) -> Option<u32> {
        let [_, per_chunk, _] = tables.chunk_run(self.chunk_run);
        if self.in_chunk >= per_chunk {
            self.in_chunk = 0;
            self.chunk += 1;
            let next = self.chunk_run + 1;
            if next < tables.chunk_runs.len() && tables.chunk_run(next)[0] <= self.chunk + 1 {
                self.chunk_run = next;
            }
        }
        if self.in_chunk == 0 {
            if self.chunk >= tables.chunks.len() {
                return None;
            }
            self.offset = tables.chunks.get(self.chunk);
        }
        Some(tables.chunk_run(self.chunk_run)[2].saturating_sub(1))
    }
}

/// A place in a table of runs: (samples, value).
#[derive(Debug, Clone, Copy, Default)]
struct RunPlace {
    run: u32,
    used: u32,
}

impl RunPlace {
    /// The value for the next sample; `None` behind the last run.
    fn next(&mut self, runs: &Table<8>) -> Option<u32> {
        while self.run < runs.len() {
            let [count, value] = runs.pair(self.run);
            if self.used < count {
                self.used += 1;
                return Some(value);
            }
            *self = Self { run: self.run + 1, used: 0 };
        }
        None
    }

    /// Passes samples; gives the sum of their values.
    fn skip(&mut self, runs: &Table<8>, mut samples: u32) -> i64 {
        let mut sum = 0i64;
        while self.run < runs.len() {
            let [count, value] = runs.pair(self.run);
            let taken = count.min(samples);
            sum = sum.saturating_add(i64::from(taken) * i64::from(value));
            samples -= taken;
            if taken < count {
                self.used = taken;
                return sum;
            }
            self.run += 1;
        }
        sum.saturating_add(i64::from(samples) * i64::from(runs.last()))
    }
}

/// `stsz` and `stz2` (8.7.3).
#[derive(Debug, Clone)]
enum Sizes {
    Same {
        size: u32,
        count: u32,
    },
    Long(Table<4>),
    /// Of 4, 8 or 16 bits.
    Compact {
        bits: u8,
        count: u32,
        bytes: Box<[u8]>,
    },
}

impl Sizes {
    fn read(stbl: &[u8], limits: &Limits) -> Result<Self, Mp4Error> {
        let cut = |kind: &[u8; 4]| Mp4Error::malformed(kind, "cut short");
        let sizes = if let Some(body) = Boxes(stbl).find(b"stsz")? {
            let (head, rest) = body.split_first_chunk::<8>().ok_or_else(|| cut(b"stsz"))?;
            match split::<8, 2>(*head)[1] {
                0 => Self::Long(Table::of(b"stsz", rest)?),
                size => Self::Same { size, count: number(rest).ok_or_else(|| cut(b"stsz"))? },
            }
        } else {
            let body = Boxes(stbl).find(b"stz2")?.ok_or(Mp4Error::malformed(b"stsz", "it is missing"))?;
            let (head, bytes) = body.split_first_chunk::<12>().ok_or_else(|| cut(b"stz2"))?;
            let [_, bits, count] = split(*head);
            let bits = bits as u8;
            if !matches!(bits, 4 | 8 | 16) {
                return Err(Mp4Error::malformed(b"stz2", "sizes are of 4, 8 or 16 bits"));
            }
            let needed = (u64::from(count) * u64::from(bits)).div_ceil(8);
            let needed = usize::try_from(needed).map_err(|_| cut(b"stz2"))?;
            Self::Compact { bits, count, bytes: bytes.get(..needed).ok_or_else(|| cut(b"stz2"))?.into() }
        };
        Mp4Error::check("samples of a track", sizes.len().into(), limits.samples.into())?;
        Ok(sizes)
    }

    fn len(&self) -> u32 {
        match self {
            Self::Same { count, .. } | Self::Compact { count, .. } => *count,
            Self::Long(sizes) => sizes.len(),
        }
    }

    /// `index < len`.
    fn get(&self, index: u32) -> u32 {
        match self {
            Self::Same { size, .. } => *size,
            Self::Long(sizes) => sizes.number(index),
            Self::Compact { bits: 4, bytes, .. } => {
                let byte = bytes[index as usize / 2];
                u32::from(if index.is_multiple_of(2) { byte >> 4 } else { byte & 15 })
            }
            Self::Compact { bits: 8, bytes, .. } => bytes[index as usize].into(),
            Self::Compact { bytes, .. } => {
                let at = index as usize * 2;
                u16::from_be_bytes([bytes[at], bytes[at + 1]]).into()
            }
        }
    }
}

/// `stco` and `co64` (8.7.5).
#[derive(Debug, Clone)]
enum Chunks {
    Short(Table<4>),
    Long(Table<8>),
}

impl Chunks {
    fn len(&self) -> u32 {
        match self {
            Self::Short(table) => table.len(),
            Self::Long(table) => table.len(),
        }
    }

    /// `index < len`.
    fn get(&self, index: u32) -> u64 {
        match self {
            Self::Short(table) => table.number(index).into(),
            Self::Long(table) => u64::from_be_bytes(table.get(index)),
        }
    }
}

/// Entries of `N` bytes, as they are in the file.
#[derive(Debug, Clone, Default)]
struct Table<const N: usize>(Box<[u8]>);

impl<const N: usize> Table<N> {
    /// Reads version and flags, a count, and that many entries.
    fn read(kind: &[u8; 4], body: &[u8]) -> Result<Self, Mp4Error> {
        Self::of(kind, body.get(4..).unwrap_or_default())
    }

    /// Reads a count and that many entries.
    fn of(kind: &[u8; 4], body: &[u8]) -> Result<Self, Mp4Error> {
        let entries = number(body).and_then(|count| {
            let bytes = usize::try_from(count).ok()?.checked_mul(N)?;
            body[4..].get(..bytes)
        });
        let why = "it declares more entries than it has";
        Ok(Self(entries.ok_or(Mp4Error::malformed(kind, why))?.into()))
    }

    fn len(&self) -> u32 {
        (self.0.len() / N) as u32
    }

    /// `index < len`.
    fn get(&self, index: u32) -> [u8; N] {
        let at = index as usize * N;
        self.0[at..at + N].try_into().expect("a slice of N bytes")
    }
}

impl Table<4> {
    fn number(&self, index: u32) -> u32 {
        u32::from_be_bytes(self.get(index))
    }
}

impl Table<8> {
    fn pair(&self, index: u32) -> [u32; 2] {
        split(self.get(index))
    }

    /// Value of the last run, 0 if there is none.
    fn last(&self) -> u32 {
        self.len().checked_sub(1).map_or(0, |index| self.pair(index)[1])
    }
}

/// The 32-bit number that `bytes` begin with.
fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// `N` bytes as `M` numbers of 32 bits.
fn split<const N: usize, const M: usize>(bytes: [u8; N]) -> [u32; M] {
    const { assert!(N == M * 4) };
    std::array::from_fn(|index| {
        let at = index * 4;
        u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(kind: &[u8; 4], numbers: &[u32]) -> Vec<u8> {
        let body: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        [&(body.len() as u32 + 12).to_be_bytes()[..], kind, &[0; 4], &body].concat()
    }

    /// Ten samples: runs of chunks, of durations and of offsets that end at different places, and
    /// runs of nothing.
    fn tables() -> SampleTables {
        let stbl = [
            table(b"stts", &[4, 3, 10, 0, 7, 2, 20, 5, 30]),
            table(b"ctts", &[2, 4, 5, 6, -5i32 as u32]),
            table(b"stsc", &[3, 1, 2, 1, 3, 1, 2, 4, 4, 1]),
            table(b"stco", &[5, 1000, 2000, 3000, 500, 6000]),
            table(b"stsz", &[0, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
            table(b"stss", &[3, 1, 4, 9]),
        ];
        SampleTables::read(&stbl.concat(), &Limits::default()).unwrap()
    }

    #[test]
    fn samples_are_where_the_tables_say() {
        let tables = tables();
        let mut cursor = Cursor::at(&tables, 0);
        let entries: Vec<_> = std::iter::from_fn(|| cursor.next(&tables)).collect();
        let places: Vec<_> = entries.iter().map(|entry| (entry.offset, entry.description)).collect();
        // Two, two, one (the second sample description), four, and the rest.
        let wanted = [
            (1000, 0),
            (1001, 0),
            (2000, 0),
            (2003, 0),
            (3000, 1),
            (500, 0),
            (506, 0),
            (513, 0),
            (521, 0),
            (6000, 0),
        ];
        assert_eq!(places, wanted);
        let times: Vec<_> = entries.iter().map(|entry| (entry.dts, entry.pts)).collect();
        let wanted = [
            (0, 5),
            (10, 15),
            (20, 25),
            (30, 35),
            (50, 45),
            (70, 65),
            (100, 95),
            (130, 125),
            (160, 155),
            (190, 185),
        ];
        assert_eq!(times, wanted);
        let keys: Vec<_> = entries.iter().map(|entry| entry.is_key).collect();
        assert_eq!(keys, [true, false, false, true, false, false, false, false, true, false]);
        assert_eq!((tables.duration(), tables.composition_min()), (220, -5));
    }

    #[test]
    fn a_cursor_at_any_sample_gives_what_walking_there_gives() {
        let tables = tables();
        let mut walking = Cursor::at(&tables, 0);
        for sample in 0..=tables.len() + 1 {
            let mut there = Cursor::at(&tables, sample);
            let mut walked = walking.clone();
            for _ in 0..4 {
                assert_eq!(there.next(&tables), walked.next(&tables), "from sample {sample}");
            }
            walking.next(&tables);
        }
    }

    #[test]
    fn times_and_key_frames_are_found() {
        let tables = tables();
        for (dts, sample) in
            [(-5, 0), (0, 0), (9, 0), (10, 1), (49, 3), (50, 4), (99, 5), (100, 6), (10_000, 9)]
        {
            assert_eq!(tables.sample_at(dts), sample, "{dts}");
        }
        for (sample, key) in [(0, 0), (2, 0), (3, 3), (7, 3), (8, 8), (9, 8)] {
            assert_eq!(tables.key_at(sample), key, "{sample}");
        }
    }
}
