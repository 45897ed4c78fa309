//! Bytes of the file that are in memory: what was read lately, and what came ahead of the reader.
//!
//! Bytes are copied into pieces of at most 64 KiB, so that what a piece holds is what it costs: a
//! slice of a client's buffer would keep the whole buffer. Each piece knows which of its bytes have
//! not been handed out, so every byte is counted once: used, skipped or wasted. What is fetched,
//! and when, is decided in `mod.rs`.

use std::collections::VecDeque;
use std::ops::Range;

use super::read_list::UPCOMING_MAX;

/// Bytes of a piece at most.
const PIECE_BYTES: usize = 64 << 10;
/// Emptied pieces kept for the next bytes.
const SPARE_PIECES: usize = 8;
/// By so much the window is exceeded at most: a client reads up to its buffer's size at once, and
/// throwing away what has just come would only mean to ask for it again. hyper reads about 400 kB
/// at a time.
const BROUGHT_AT_ONCE_BYTES: u64 = 512 << 10;
/// What a piece costs besides its bytes; keeps the number of pieces within bounds when they are
/// tiny.
const PIECE_OVERHEAD_BYTES: u64 = 128;

/// Pieces of the file, in the order of the file, without overlap.
#[derive(Debug)]
pub(super) struct Store {
    pieces: VecDeque<Piece>,
    spare: Vec<Vec<u8>>,
    look_back_bytes: u64,
    window_bytes: u64,
    touches: u64,
    bytes: u64,
    /// Bytes handed out for the first time since they were received.
    pub(super) used: u64,
    /// Bytes dropped because the reader passed them by.
    pub(super) skipped: u64,
    /// Bytes dropped without the reader having come to them.
    pub(super) wasted: u64,
    /// Of the bytes that were predicted: handed out, and dropped without.
    pub(super) predicted: Predicted,
}

/// What has become of bytes that were fetched because they had been predicted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Predicted {
    pub(super) used: u64,
    pub(super) wasted: u64,
}

#[derive(Debug)]
struct Piece {
    start: u64,
    data: Vec<u8>,
    /// What has not been handed out, in order.
    unread: Vec<Range<u64>>,
    /// When it was last read or written to, in touches of the store.
    touched: u64,
    is_predicted: bool,
    interest: Interest,
}

/// Why bytes that have not been read are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interest {
    /// They follow the reader's position: kept while it is before them.
    Following,
    /// They are in the read list, wherever the reader is now.
    Listed,
    /// They were in the list and were jumped over.
    Passed,
}

impl Store {
    pub(super) fn new(look_back_bytes: usize, window_bytes: usize) -> Self {
        Self {
            pieces: VecDeque::new(),
            spare: Vec::new(),
            look_back_bytes: look_back_bytes as u64,
            window_bytes: window_bytes.max(1) as u64,
            touches: 0,
            bytes: 0,
            used: 0,
            skipped: 0,
            wasted: 0,
            predicted: Predicted::default(),
        }
    }

    /// Hands out bytes from `position` on: as many as there are in a row, at most `buffer.len()`.
    pub(super) fn read(&mut self, position: u64, buffer: &mut [u8]) -> usize {
        let mut filled = 0;
        let mut index = self.index_after(position);
        while let Some(piece) = self.pieces.get_mut(index) {
            let at = position + filled as u64;
            if at < piece.start || filled == buffer.len() {
                break;
            }
            let from = (at - piece.start) as usize;
            let count = (piece.data.len() - from).min(buffer.len() - filled);
            buffer[filled..filled + count].copy_from_slice(&piece.data[from..from + count]);
            let fresh = piece.mark_read(at..at + count as u64);
            self.used += fresh;
            self.predicted.used += if piece.is_predicted { fresh } else { 0 };
            self.touches += 1;
            piece.touched = self.touches;
            filled += count;
            index += 1;
        }
        filled
    }

    /// Stores received bytes of `start..`. Duplicates count as wasted; returns how many are new.
    ///
    /// `more` is how many bytes are expected to follow contiguously; no more memory than that is
    /// reserved.
    pub(super) fn insert(
        &mut self,
        mut start: u64,
        mut bytes: &[u8],
        more: u64,
        (interest, is_predicted): (Interest, bool),
    ) -> u64 {
        let mut fresh = 0;
        while !bytes.is_empty() {
            let next = self.index_after(start);
            let here = match self.pieces.get(next) {
                Some(piece) if piece.start <= start => {
                    let duplicate = (piece.end() - start).min(bytes.len() as u64);
                    self.wasted += duplicate;
                    start += duplicate;
                    bytes = &bytes[duplicate as usize..];
                    continue;
                }
                Some(piece) => (piece.start - start).min(bytes.len() as u64),
                None => bytes.len() as u64,
            };
            let count = self.append(next, start, &bytes[..here as usize], more, (interest, is_predicted));
            start += count as u64;
            fresh += count as u64;
            bytes = &bytes[count..];
        }
        fresh
    }

    /// Appends to the piece before `next`, if it ends at `start` and has room, or begins a new one.
    fn append(
        &mut self,
        next: usize,
        start: u64,
        bytes: &[u8],
        more: u64,
        (interest, is_predicted): (Interest, bool),
    ) -> usize {
        self.touches += 1;
        let fits = |piece: &Piece| {
            piece.end() == start
                && piece.data.len() < piece.data.capacity()
                && (piece.interest, piece.is_predicted) == (interest, is_predicted)
        };
        let index = match next.checked_sub(1) {
            Some(before) if self.pieces.get(before).is_some_and(fits) => before,
            _ => {
                let size = (bytes.len() as u64).saturating_add(more).min(PIECE_BYTES as u64) as usize;
                let data = match self.spare.pop() {
                    Some(data) if size == PIECE_BYTES => data,
                    spare => {
                        self.spare.extend(spare);
                        Vec::with_capacity(size)
                    }
                };
                let unread = Vec::with_capacity(2);
                self.pieces.insert(next, Piece { start, data, unread, touched: 0, is_predicted, interest });
                self.bytes += PIECE_OVERHEAD_BYTES;
                next
            }
        };
        let piece = &mut self.pieces[index];
        let count = bytes.len().min(piece.data.capacity() - piece.data.len());
        piece.data.extend_from_slice(&bytes[..count]);
        piece.touched = self.touches;
        match piece.unread.last_mut() {
            Some(last) if last.end == start => last.end += count as u64,
            _ => piece.unread.push(start..start + count as u64),
        }
        self.bytes += count as u64;
        count
    }

    /// Evicts what exceeds the limits, with the reader at `position`: first what was read longest
    /// ago, and last of that what the read list has ahead of the reader once more; then the farthest of
    /// what is ahead: by its `turn` in the read list, and what is not in the list by its place in the
    /// file, before all that is.
    pub(super) fn trim(&mut self, position: u64, turn: impl Fn(&Range<u64>) -> usize) {
        if self.bytes <= self.look_back_bytes.min(self.window_bytes) {
            return;
        }
        let (mut behind, mut ahead) = (0, 0);
        for piece in &self.pieces {
            let sum = if piece.is_behind(position) { &mut behind } else { &mut ahead };
            *sum += piece.cost();
        }
        while behind > self.look_back_bytes {
            let oldest = (0..self.pieces.len())
                .filter(|&index| self.pieces[index].is_behind(position))
                .min_by_key(|&index| {
                    let piece = &self.pieces[index];
                    // What was read and will be read again was left out of requests.
                    let is_awaited = piece.interest == Interest::Listed
                        && piece.start > position
                        && turn(&piece.range()) < UPCOMING_MAX;
                    (is_awaited, piece.touched)
                });
            let Some(index) = oldest else { break };
            behind -= self.pieces[index].cost();
            self.evict(index, position);
        }
        // The piece at the reader itself stays, however small the window; so does what a client
        // brings at once.
        while ahead > self.window_bytes + BROUGHT_AT_ONCE_BYTES {
            let ahead_of = |piece: &Piece| !piece.is_behind(position) && !piece.range().contains(&position);
            let farthest =
                (0..self.pieces.len()).filter(|&index| ahead_of(&self.pieces[index])).max_by_key(|&index| {
                    let piece = &self.pieces[index];
                    let is_listed = piece.interest == Interest::Listed;
                    (is_listed, if is_listed { turn(&piece.range()) } else { 0 }, index)
                });
            let Some(index) = farthest else { break };
            ahead -= self.pieces[index].cost();
            self.evict(index, position);
        }
    }

    fn evict(&mut self, index: usize, position: u64) {
        let Some(mut piece) = self.pieces.remove(index) else { return };
        self.bytes -= piece.cost();
        for range in &piece.unread {
            let passed = position.clamp(range.start, range.end) - range.start;
            self.skipped += passed;
            self.wasted += range.end - range.start - passed;
            self.predicted.wasted += if piece.is_predicted { range.end - range.start } else { 0 };
        }
        if piece.data.capacity() == PIECE_BYTES && self.spare.len() < SPARE_PIECES {
            piece.data.clear();
            self.spare.push(piece.data);
        }
    }

    /// What will be read is now in `list`, ascending, and nowhere else.
    pub(super) fn set_listed(&mut self, list: &[Range<u64>]) {
        for piece in &mut self.pieces {
            let meets = |range: &Range<u64>| range.start < piece.end() && piece.start < range.end;
            let first = list.partition_point(|range| range.end <= piece.start);
            piece.interest =
                if list.get(first).is_some_and(meets) { Interest::Listed } else { Interest::Following };
        }
    }

    /// The reader has jumped over `range` of its list.
    pub(super) fn pass(&mut self, range: &Range<u64>) {
        let first = self.index_after(range.start);
        for piece in self.pieces.range_mut(first..).take_while(|piece| piece.end() <= range.end) {
            piece.interest = Interest::Passed;
        }
    }

    /// Drops everything, as wasted.
    pub(super) fn clear(&mut self) {
        while !self.pieces.is_empty() {
            self.evict(self.pieces.len() - 1, 0);
        }
    }

    pub(super) fn contains(&self, position: u64) -> bool {
        self.pieces.get(self.index_after(position)).is_some_and(|piece| piece.start <= position)
    }

    /// Where the bytes that are here in a row from `position` on end.
    pub(super) fn end_of_row(&self, position: u64) -> u64 {
        let mut end = position;
        for piece in self.pieces.range(self.index_after(position)..) {
            if piece.start > end {
                break;
            }
            end = piece.end();
        }
        end
    }

    /// What is here, ascending.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.pieces.iter().map(|piece| piece.start..piece.end())
    }

    /// The first byte from `position` on that is here.
    pub(super) fn next_present(&self, position: u64) -> Option<u64> {
        self.pieces.get(self.index_after(position)).map(|piece| piece.start.max(position))
    }

    /// The window is full: bytes ahead of `position` that have not been read reach the limit.
    pub(super) fn is_full(&self, position: u64) -> bool {
        self.bytes >= self.window_bytes && self.ahead(position) >= self.window_bytes
    }

    /// Memory held by what came ahead of `position` and has not been read.
    pub(super) fn ahead(&self, position: u64) -> u64 {
        self.pieces.iter().filter(|piece| !piece.is_behind(position)).map(Piece::cost).sum()
    }

    /// Bytes that are here and have not been handed out.
    pub(super) fn unread(&self) -> u64 {
        self.pieces.iter().flat_map(|piece| &piece.unread).map(|range| range.end - range.start).sum()
    }

    /// The first piece that ends after `position`.
    fn index_after(&self, position: u64) -> usize {
        self.pieces.partition_point(|piece| piece.end() <= position)
    }
}

impl Piece {
    fn end(&self) -> u64 {
        self.start + self.data.len() as u64
    }

    fn range(&self) -> Range<u64> {
        self.start..self.end()
    }

    fn cost(&self) -> u64 {
        self.data.len() as u64 + PIECE_OVERHEAD_BYTES
    }

    /// Read, or passed by: kept for looking back only.
    fn is_behind(&self, position: u64) -> bool {
        match self.interest {
            _ if self.unread.is_empty() => true,
            Interest::Following => self.end() <= position,
            Interest::Listed => false,
            Interest::Passed => true,
        }
    }

    /// How many bytes of `range`, which lies inside, are handed out for the first time.
    fn mark_read(&mut self, range: Range<u64>) -> u64 {
        let mut fresh = 0;
        let mut index = 0;
        while let Some(unread) = self.unread.get_mut(index) {
            let (start, end) = (unread.start.max(range.start), unread.end.min(range.end));
            if start >= end {
                index += 1;
                continue;
            }
            fresh += end - start;
            let after = end..unread.end;
            unread.end = start;
            match (unread.is_empty(), after.is_empty()) {
                (true, true) => drop(self.unread.remove(index)),
                (true, false) => *unread = after,
                (false, true) => {}
                (false, false) => self.unread.insert(index + 1, after),
            }
            if self.unread.get(index).is_some_and(|unread| unread.start < range.end) {
                index += 1;
            }
        }
        fresh
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILE_BYTES: u64 = 4000;

    fn byte_at(position: u64) -> u8 {
        (position * 31 % 251) as u8
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u64, u64),
        Read(u64, usize),
        Trim(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..FILE_BYTES, 1..600_u64).prop_map(|(start, size)| Step::Insert(start, size)),
            (0..FILE_BYTES, 1..900_usize).prop_map(|(start, size)| Step::Read(start, size)),
            (0..FILE_BYTES).prop_map(Step::Trim),
        ]
    }

    proptest! {
        /// Beside a plain array of what is here and what has been handed out.
        #[test]
        fn each_byte_is_given_back_and_counted_once(steps in prop::collection::vec(step(), 1..60)) {
            let mut store = Store::new(700, 900);
            let mut received = 0;
            for step in steps {
                match step {
                    Step::Insert(start, size) => {
                        let bytes: Vec<u8> = (start..start + size).map(byte_at).collect();
                        store.insert(start, &bytes, 100, (Interest::Following, false));
                        received += size;
                    }
                    Step::Read(start, size) => {
                        let row = store.end_of_row(start) - start;
                        let mut buffer = vec![0; size];
                        let count = store.read(start, &mut buffer);
                        assert_eq!(count as u64, row.min(size as u64));
                        assert_eq!(store.contains(start), count > 0);
                        let expected: Vec<u8> = (start..start + count as u64).map(byte_at).collect();
                        assert!(buffer[..count] == expected);
                    }
                    Step::Trim(position) => store.trim(position, |_| 0),
                }
                let ranges: Vec<_> = store.ranges().collect();
                assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "{ranges:?}");
                assert_eq!(received, store.used + store.skipped + store.wasted + store.unread());
            }
        }
    }

    #[test]
    fn what_is_left_behind_goes_oldest_first_and_counts_as_skipped() {
        let mut store = Store::new(1000, 10_000);
        for start in [0, 1000, 2000] {
            store.insert(start, &[7; 500], 0, (Interest::Following, false));
        }
        store.trim(2000, |_| 0);
        assert_eq!((store.skipped, store.wasted), (500, 0));
        assert!(!store.contains(0) && store.contains(1000) && store.contains(2000));
    }

    #[test]
    fn listed_bytes_stay_wherever_the_reader_stands_until_they_are_passed() {
        let mut store = Store::new(0, 10_000);
        store.insert(0, &[7; 500], 0, (Interest::Listed, false));
        store.trim(5000, |_| 0);
        assert!(store.contains(0));
        store.pass(&(0..500));
        store.trim(5000, |_| 0);
        assert!(!store.contains(0));
        assert_eq!(store.skipped, 500);
    }
}
