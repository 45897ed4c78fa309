//! Bytes that were read, kept for some time to search them for tables of offsets.
//!
//! Only what looks like a table is kept: in rows of numbers that grow slowly most high bytes repeat
//! from row to row, while compressed media repeat next to nothing. So a megabyte holds the tables
//! of a film, however much of it went by.

use std::collections::VecDeque;

/// Pieces of the file that may hold tables.
#[derive(Debug)]
pub(super) struct Store {
    /// Oldest first. Pieces do not touch each other unless the second was read first.
    kept: VecDeque<Piece>,
    /// What came last, not judged yet. Below [`JUDGED_BYTES`].
    newest: Piece,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Piece {
    start: u64,
    bytes: Vec<u8>,
}

/// So much is judged at a time.
const JUDGED_BYTES: usize = 4096;

/// One byte in so many is compared.
const SAMPLED_EVERY: usize = 13;

/// A table repeats at least this part of its bytes. Four-byte offsets repeat their highest byte, a
/// quarter; random bytes 1 of 256.
const REPEATED_DIVISOR: usize = 16;

/// Distances at which repetition is looked for: zeros in a row, rows of four and of eight bytes.
const DISTANCES: [usize; 3] = [1, 4, 8];

impl Store {
    /// Keeps `bytes_max` bytes at most, and what is being judged.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { kept: VecDeque::new(), newest: Piece::default(), bytes_max }
    }

    /// Takes `bytes`, which stand at `start` of the file.
    pub(super) fn push(&mut self, mut start: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.newest.end() != start || self.newest.bytes.len() >= JUDGED_BYTES {
                self.judge();
                self.newest.start = start;
            }
            let taken = bytes.len().min(JUDGED_BYTES - self.newest.bytes.len());
            self.newest.bytes.extend_from_slice(&bytes[..taken]);
            (start, bytes) = (start + taken as u64, &bytes[taken..]);
        }
    }

    /// Forgets everything and gives the memory back.
    pub(super) fn clear(&mut self) {
        (self.kept, self.newest) = (VecDeque::new(), Piece::default());
    }

    /// Places in the file where `needle` stands, [`FOUND_MAX`] at most, newest pieces first.
    pub(super) fn find(&self, needle: &[u8]) -> Vec<u64> {
        let pieces = std::iter::once(&self.newest).chain(self.kept.iter().rev());
        pieces
            .flat_map(|piece| {
                memchr::memmem::find_iter(&piece.bytes, needle).map(|at| piece.start + at as u64)
            })
            .take(FOUND_MAX)
            .collect()
    }

    /// The piece that holds the byte at `at` of the file, and where it begins.
    pub(super) fn piece_at(&self, at: u64) -> Option<(u64, &[u8])> {
        let mut pieces = std::iter::once(&self.newest).chain(self.kept.iter().rev());
        pieces
            .find(|piece| piece.start <= at && at < piece.end())
            .map(|piece| (piece.start, &piece.bytes[..]))
    }

    fn judge(&mut self) {
        let Piece { start, bytes } = std::mem::take(&mut self.newest);
        if !looks_like_a_table(&bytes) {
            return;
        }
        match self.kept.back_mut() {
            Some(last) if last.end() == start => last.bytes.extend_from_slice(&bytes),
            _ => self.kept.push_back(Piece { start, bytes }),
        }
        let mut over =
            self.kept.iter().map(|piece| piece.bytes.len()).sum::<usize>().saturating_sub(self.bytes_max);
        while let Some(oldest) = self.kept.front_mut().filter(|_| over > 0) {
            let dropped = over.min(oldest.bytes.len());
            oldest.bytes.drain(..dropped);
            oldest.start += dropped as u64;
            over -= dropped;
            if oldest.bytes.is_empty() {
                self.kept.pop_front();
            }
        }
    }
}

/// Places found at most: small numbers stand everywhere and prove nothing.
pub(super) const FOUND_MAX: usize = 64;

impl Piece {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// Whether enough bytes repeat at one of the [`DISTANCES`]. Small pieces always do: they may be the
/// beginning of a table.
fn looks_like_a_table(bytes: &[u8]) -> bool {
    if bytes.len() < JUDGED_BYTES / 4 {
        return !bytes.is_empty();
    }
    DISTANCES.into_iter().any(|distance| {
        let sampled = (distance..bytes.len()).step_by(SAMPLED_EVERY);
        let samples = sampled.len();
        sampled.filter(|&at| bytes[at] == bytes[at - distance]).count() > samples / REPEATED_DIVISOR
    })
}
