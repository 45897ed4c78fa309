//! Tables of offsets inside the file: where runs begin and end, as written by the muxer.
//!
//! Most formats hold an index (`stco` and `co64` of MP4, `tfra` of fragmented MP4, and others), and
//! a parser reads it before what it leads to. Without knowing any format: when two offsets at which
//! runs began appear near each other, as 32- or 64-bit numbers of either byte order, among bytes
//! read before, and the numbers between and after them ascend at the same distance, they are
//! assumed to be a table, and its next numbers the next offsets. The same applies to the ends of
//! runs, which in an interleaved file is where the data of another track begins. Tables of sizes,
//! and offsets relative to something, are not found; the other predictors handle those.

use std::collections::VecDeque;
use std::ops::Range;

use super::runs::Runs;
use super::store::Store;

/// What has been found, and what may yet be.
#[derive(Debug)]
pub(super) struct Tables {
    store: Store,
    starts: Vec<Table>,
    ends: Vec<Table>,
    /// Lengths of the last runs that began in a table, for when no table says where they end.
    lengths: VecDeque<u64>,
    /// Seeks until looking for tables ends.
    seeks_left: u32,
}

/// Numbers found at one distance from each other, ascending.
#[derive(Debug)]
struct Table {
    entries: Vec<u64>,
    /// Runs that began (or ended) at an entry.
    hits: u32,
    /// Entries that were passed without a run beginning (or ending) there.
    misses: u32,
}

/// Tables of starts, and of ends, at a time: tracks that are read together.
const TABLES_MAX: usize = 3;

/// Entries of a table at most (8 bytes each), half of them before the one that proved it.
const ENTRIES_MAX: usize = 1 << 17;

/// Seeks without a new table after which the search ends and the bytes are dropped: before the
/// first, after one.
const SEEKS_MAX: u32 = 64;
const SEEKS_AFTER_ONE: u32 = 16;

/// Starts (or ends) of earlier runs that are looked for beside a new one.
const EARLIER_MAX: usize = 8;

/// Bytes from one entry back to the other within which they are looked for.
const NEAR_BYTES: u64 = 256;

/// Rows of a table are this long at most.
const ROW_BYTES_MAX: usize = 64;

/// Smaller numbers stand everywhere and prove nothing.
const VALUE_MIN: u64 = 256;

/// Lengths remembered.
const LENGTHS_MAX: usize = 8;

impl Tables {
    /// Nothing found yet. Keeps `bytes_max` bytes to look in.
    pub(super) fn new(bytes_max: usize) -> Self {
        let (starts, ends, lengths) = (Vec::new(), Vec::new(), VecDeque::new());
        Self { store: Store::new(bytes_max), starts, ends, lengths, seeks_left: SEEKS_MAX }
    }

    /// Whether bytes are still looked at.
    pub(super) fn wants_bytes(&self) -> bool {
        self.seeks_left > 0
    }

    /// Takes `bytes`, read at `start` of the file.
    pub(super) fn note_bytes(&mut self, start: u64, bytes: &[u8]) {
        if self.wants_bytes() {
            self.store.push(start, bytes);
        }
    }

    /// `run` has been read, and the next one of `runs` begins.
    pub(super) fn note_run(&mut self, run: &Range<u64>, runs: &Runs) {
        let next = runs.present().start;
        let began_in_table = self.starts.iter().any(|table| table.entries.binary_search(&run.start).is_ok());
        if began_in_table {
            self.lengths.truncate(LENGTHS_MAX - 1);
            self.lengths.push_front(run.end - run.start);
        }
        let end_known = count(&mut self.ends, run.end, run.start..run.end);
        let start_known = count(&mut self.starts, next, run.end..next);
        if !self.wants_bytes() {
            return;
        }
        self.seeks_left -= 1;
        let earlier_ends = runs.newest_first().skip(1).map(|run| run.end).take(EARLIER_MAX);
        let earlier_starts = runs.newest_first().map(|run| run.start).take(EARLIER_MAX);
        let end = if end_known { None } else { find(&self.store, run.end, earlier_ends) };
        let start = if start_known { None } else { find(&self.store, next, earlier_starts) };
        self.seeks_left = match (&start, &end) {
            (None, None) => self.seeks_left,
            _ => SEEKS_AFTER_ONE,
        };
        add(&mut self.ends, end);
        add(&mut self.starts, start);
        if self.seeks_left == 0 {
            self.store.clear();
        }
    }

    /// Runs that the tables lead to, the first one from `position` on. Empty without a table of
    /// starts, or when neither a table nor an earlier run says how long a run is.
    pub(super) fn expect(&self, position: u64, runs_max: usize) -> Vec<Range<u64>> {
        let mut expected = Vec::new();
        let mut start = (!self.starts.is_empty()).then_some(position);
        while let Some((from, to)) =
            start.filter(|_| expected.len() < runs_max).zip(start.and_then(|at| self.end_of(at)))
        {
            expected.push(from..to);
            start = next_of(&self.starts, to);
        }
        expected
    }

    /// Where a run that reaches `position` ends.
    fn end_of(&self, position: u64) -> Option<u64> {
        let longest = self.lengths.iter().max().copied();
        let by_length =
            longest.map(|longest| position.saturating_add(longest + longest / LENGTH_SPARE_DIVISOR));
        let by_table = position.checked_add(1).and_then(|position| next_of(&self.ends, position));
        // An end much farther than any run so far belongs to a later run.
        let too_far = longest.map_or(u64::MAX, |longest| position.saturating_add(longest.saturating_mul(4)));
        by_table.filter(|end| *end <= too_far).or(by_length)
    }
}

/// Runs are assumed to be longer than the longest recent one by this share.
const LENGTH_SPARE_DIVISOR: u64 = 16;

/// The first entry of any table from `position` on.
fn next_of(tables: &[Table], position: u64) -> Option<u64> {
    let nexts = tables.iter().filter_map(|table| {
        let index = table.entries.partition_point(|entry| *entry < position);
        table.entries.get(index).copied()
    });
    nexts.min()
}

/// Counts for each table whether it holds `value`, and its entries inside of `passed` against it. A
/// table that is wrong more often than right is dropped. Returns whether one holds it.
fn count(tables: &mut Vec<Table>, value: u64, passed: Range<u64>) -> bool {
    let mut known = false;
    for table in tables.iter_mut() {
        let index = table.entries.partition_point(|entry| *entry < value);
        let holds = table.entries.get(index) == Some(&value);
        let first = table.entries.partition_point(|entry| *entry <= passed.start);
        table.hits += u32::from(holds);
        table.misses +=
            u32::try_from(index.saturating_sub(first)).unwrap_or(u32::MAX).min(MISSES_AT_ONCE_MAX);
        known |= holds;
    }
    tables.retain(|table| table.misses <= table.hits + MISSES_SPARE);
    known
}

/// A jump over half the file counts as so many misses, not as all the entries in between.
const MISSES_AT_ONCE_MAX: u32 = 4;

/// Misses that a table may have more than hits.
const MISSES_SPARE: u32 = 4;

fn add(tables: &mut Vec<Table>, found: Option<Table>) {
    if let Some(found) = found {
        if tables.len() == TABLES_MAX {
            let worst =
                (0..TABLES_MAX).min_by_key(|&at| i64::from(tables[at].hits) - i64::from(tables[at].misses));
            tables.swap_remove(worst.expect("there are TABLES_MAX of them"));
        }
        tables.push(found);
    }
}

/// A table that holds `value` and, near before it, one of `earlier`; the longest if there are
/// several.
fn find(store: &Store, value: u64, earlier: impl Iterator<Item = u64>) -> Option<Table> {
    if value < VALUE_MIN {
        return None;
    }
    let earlier: Vec<u64> = earlier.filter(|earlier| *earlier < value).collect();
    let mut best: Option<Vec<u64>> = None;
    for order in [Order::Big, Order::Little] {
        for at in store.find(&order.low_bytes(value)) {
            let Some((piece_start, piece)) = store.piece_at(at) else { continue };
            let place = Place { piece, at: (at - piece_start) as usize, order };
            for entries in earlier.iter().filter_map(|earlier| place.table_with(value, *earlier)) {
                if best.as_ref().is_none_or(|best| best.len() < entries.len()) {
                    best = Some(entries);
                }
            }
        }
    }
    best.map(|entries| Table { entries, hits: 1, misses: 0 })
}

/// Order of the bytes of a number.
#[derive(Debug, Clone, Copy)]
enum Order {
    Big,
    Little,
}

impl Order {
    /// The lower 32 bits of `value`.
    fn low_bytes(self, value: u64) -> [u8; 4] {
        match self {
            Self::Big => (value as u32).to_be_bytes(),
            Self::Little => (value as u32).to_le_bytes(),
        }
    }
}

/// A place in a piece of the file where the lower 32 bits of a number stand.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    piece: &'a [u8],
    at: usize,
    order: Order,
}

impl Place<'_> {
    /// The entries of the table that holds `value` here and `earlier` near before.
    fn table_with(self, value: u64, earlier: u64) -> Option<Vec<u64>> {
        let near = self.at.saturating_sub(NEAR_BYTES as usize);
        let window = &self.piece[near..self.at];
        let back = window.len() - memchr::memmem::rfind(window, &self.order.low_bytes(earlier))?;
        let rows = (4..=ROW_BYTES_MAX.min(back))
            .filter(|row| back.is_multiple_of(*row) && (row.is_multiple_of(4) || *row == back));
        for row in rows {
            for wide in [true, false] {
                let read = |at: usize| self.number_at(at, wide);
                let proven = read(self.at) == Some(value) && read(self.at - back) == Some(earlier);
                let between = (self.at - back..=self.at).step_by(row);
                if proven && (!wide || row >= 8) && ascend(between.filter_map(read)) {
                    return self.entries(row, wide).filter(|entries| entries.len() > 2);
                }
            }
        }
        None
    }

    /// Entries of the table with rows of `row` bytes through here: all before, and [`ENTRIES_MAX`]
    /// in all.
    fn entries(self, row: usize, wide: bool) -> Option<Vec<u64>> {
        let mut first = self.at;
        let mut value = self.number_at(first, wide)?;
        for _ in 0..ENTRIES_MAX / 2 {
            match first.checked_sub(row).and_then(|at| Some((at, self.number_at(at, wide)?))) {
                Some((at, before)) if before < value => (first, value) = (at, before),
                _ => break,
            }
        }
        let mut entries: Vec<u64> = Vec::new();
        for at in (first..self.piece.len()).step_by(row).take(ENTRIES_MAX) {
            match self.number_at(at, wide) {
                Some(value) if entries.last().is_none_or(|last| *last < value) => entries.push(value),
                _ => break,
            }
        }
        Some(entries)
    }

    /// The number whose lower 32 bits stand at `at`: 64 bits if `wide`, else 32.
    fn number_at(self, at: usize, wide: bool) -> Option<u64> {
        let half = |at: usize| -> Option<u64> {
            let bytes = self.piece.get(at..at.checked_add(4)?)?.try_into().ok()?;
            Some(u64::from(match self.order {
                Order::Big => u32::from_be_bytes(bytes),
                Order::Little => u32::from_le_bytes(bytes),
            }))
        };
        let high = match (wide, self.order) {
            (false, _) => 0,
            (true, Order::Big) => half(at.checked_sub(4)?)?,
            (true, Order::Little) => half(at + 4)?,
        };
        Some(high << 32 | half(at)?)
    }
}

fn ascend(mut numbers: impl Iterator<Item = u64>) -> bool {
    let mut last = numbers.next();
    numbers.all(|number| last.replace(number).is_some_and(|last| last < number))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a number into a row of a table.
    type Put = fn(&mut [u8], u64);

    /// A file of runs whose starts and ends are in tables of `row` bytes at its beginning.
    struct Indexed {
        bytes: Vec<u8>,
        runs: Vec<Range<u64>>,
    }

    fn indexed(first: u64, row: usize, put: Put) -> Indexed {
        let runs: Vec<_> = (0..40)
            .map(|n: u64| first + n * 9000 + n * n % 77..first + n * 9000 + 3000 + n * n % 91)
            .collect();
        let mut bytes = vec![0xee; 500];
        for value in runs.iter().map(|run| run.start).chain([0; 5]).chain(runs.iter().map(|run| run.end)) {
            let at = bytes.len();
            bytes.resize(at + row, 0);
            put(&mut bytes[at..], value);
        }
        bytes.extend([0; 100]);
        Indexed { bytes, runs }
    }

    /// What is expected after `read` runs of `file`.
    fn expected_after(file: &Indexed, read: usize) -> Vec<Range<u64>> {
        let mut tables = Tables::new(1 << 20);
        tables.note_bytes(0, &file.bytes);
        let mut runs = Runs::default();
        for run in &file.runs[..=read] {
            if let Some(ended) = runs.note(run.start..run.start) {
                tables.note_run(&ended, &runs);
            }
            runs.note(run.clone());
        }
        tables.expect(file.runs[read].start, 100)
    }

    #[test]
    fn tables_of_every_form_are_found_and_followed() {
        let cases: [(&str, u64, usize, Put); 5] = [
            ("stco", 100_000, 4, |row, value| row.copy_from_slice(&(value as u32).to_be_bytes())),
            ("co64", 100_000, 8, |row, value| row.copy_from_slice(&value.to_be_bytes())),
            ("co64 over 4 GiB", (1 << 32) - 100_000, 8, |row, value| {
                row.copy_from_slice(&value.to_be_bytes())
            }),
            ("little-endian", 100_000, 16, |row, value| row[8..16].copy_from_slice(&value.to_le_bytes())),
            ("tfra", 100_000, 19, |row, value| row[8..16].copy_from_slice(&value.to_be_bytes())),
        ];
        for (name, first, row, put) in cases {
            let file = indexed(first, row, put);
            assert_eq!(expected_after(&file, 4), file.runs[4..], "{name}");
        }
    }

    #[test]
    fn one_place_in_a_table_proves_nothing() {
        let file = indexed(100_000, 4, |row, value| row.copy_from_slice(&(value as u32).to_be_bytes()));
        assert_eq!(expected_after(&file, 0), []);
    }

    #[test]
    fn without_tables_nothing_is_expected() {
        let mut file = indexed(100_000, 4, |row, value| row.copy_from_slice(&(value as u32).to_be_bytes()));
        file.bytes = file.bytes.iter().map(|byte| byte ^ 0x55).collect();
        assert_eq!(expected_after(&file, 20), []);
    }

    #[test]
    fn a_table_that_is_passed_over_is_dropped() {
        let mut tables = vec![Table { entries: (0..1000).map(|n| n * 100).collect(), hits: 2, misses: 0 }];
        assert!(count(&mut tables, 500, 450..500));
        for n in 1..20_u64 {
            count(&mut tables, n * 1000 + 50, n * 1000 - 950..n * 1000 + 50);
        }
        assert!(tables.is_empty());
    }

    #[test]
    fn looking_ends_and_gives_the_memory_back() {
        let mut tables = Tables::new(1 << 20);
        let mut runs = Runs::default();
        for n in 0..200_u64 {
            tables.note_bytes(n * 7000, &[0; 3000]);
            if let Some(ended) = runs.note(n * 7000..n * 7000 + 3000) {
                tables.note_run(&ended, &runs);
            }
        }
        assert!(!tables.wants_bytes());
        assert_eq!(tables.store.find(&[0; 4]), []);
    }
}
