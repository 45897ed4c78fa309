//! What will be read: the caller's hints, else what was predicted.
//!
//! Keeps the order of reading, the reader's place in it, and what has been requested.

use std::ops::Range;

use super::store::Interest;
use crate::ranges::{self, RequestLimits};

/// Ranges of a list at most; what is beyond is not looked at.
pub(super) const HINTS_MAX: usize = 1 << 17;

/// How many of the next ranges are examined to decide whether bytes or a response are useful.
pub(super) const UPCOMING_MAX: usize = 64;

/// Hints, in the order of reading.
#[derive(Debug, Default)]
pub(super) struct ReadList {
    ranges: Vec<Range<u64>>,
    /// The same in the order of the file, merged.
    ascending: Vec<Range<u64>>,
    /// The range that holds, or last held, the reader's position.
    at: usize,
    /// The first range that has not been asked for.
    next: usize,
}

impl ReadList {
    pub(super) fn replace(&mut self, ranges: impl IntoIterator<Item = Range<u64>>) {
        self.ranges.clear();
        self.ranges.extend(ranges.into_iter().filter(|range| range.start < range.end).take(HINTS_MAX));
        self.ascending = ranges::merge(&self.ranges, 0);
        (self.at, self.next) = (0, 0);
    }

    /// Whether there is nothing left to ask for.
    pub(super) fn is_empty(&self) -> bool {
        self.next >= self.ranges.len()
    }

    /// The next `count` ranges at most, from the reader's place on.
    pub(super) fn upcoming(&self, count: usize) -> &[Range<u64>] {
        let from = self.at.min(self.ranges.len());
        &self.ranges[from..self.ranges.len().min(from.saturating_add(count))]
    }

    /// Why `part` of a response is kept: what lies before the reader in the file may come after it
    /// in the list.
    pub(super) fn interest(&self, part: &Range<u64>, position: u64) -> Interest {
        let meets = |range: &Range<u64>| range.start < part.end && part.start < range.end;
        let is_listed = part.end > position || self.upcoming(UPCOMING_MAX).iter().any(meets);
        if is_listed { Interest::Listed } else { Interest::Passed }
    }

    /// The whole list, ascending.
    pub(super) fn ascending(&self) -> &[Range<u64>] {
        &self.ascending
    }

    /// `part` of a file that comes whole, cut where the list begins and ends, and why each piece is
    /// kept.
    pub(super) fn split(&self, part: Range<u64>, position: u64) -> Vec<(Range<u64>, Interest)> {
        let mut pieces = Vec::new();
        let mut from = part.start;
        let first = self.ascending.partition_point(|range| range.end <= part.start);
        for range in self.ascending[first..].iter().take_while(|range| range.start < part.end) {
            let listed = range.start.max(part.start)..range.end.min(part.end);
            pieces.push((from..listed.start, Interest::Following));
            from = listed.end;
            let interest = self.interest(&listed, position);
            pieces.push((listed, interest));
        }
        pieces.push((from..part.end, Interest::Following));
        pieces.retain(|(piece, _)| !piece.is_empty());
        pieces
    }

    /// How many ranges of the list come before the one that `piece` is of, as far as is looked.
    pub(super) fn turn_of(&self, piece: &Range<u64>) -> usize {
        let meets = |range: &Range<u64>| range.start < piece.end && piece.start < range.end;
        self.upcoming(UPCOMING_MAX).iter().position(meets).unwrap_or(UPCOMING_MAX)
    }

    /// Finds the reader's position in the list. Ranges it has jumped over are not requested any
    /// more.
    ///
    /// Returns whether `position` is in the list; `passed` is reported what was jumped over.
    pub(super) fn locate(&mut self, position: u64, mut passed: impl FnMut(&Range<u64>)) -> bool {
        let holds = |index: usize| self.ranges.get(index).is_some_and(|range| range.contains(&position));
        let found = if holds(self.at) {
            Some(self.at)
        } else if holds(self.at + 1) {
            Some(self.at + 1)
        } else {
            let later = (self.at..self.ranges.len()).find(|&index| holds(index));
            later.or_else(|| (0..self.at).find(|&index| holds(index)))
        };
        let Some(index) = found else { return false };
        self.ranges[self.at.min(index)..index].iter().for_each(&mut passed);
        self.at = index;
        self.next = self.next.max(index);
        true
    }

    /// What was requested from the reader's place on has not come: it is requested again.
    pub(super) fn request_again(&mut self) {
        self.next = self.next.min(self.at);
    }

    /// The next request: what to ask, and what of that is wanted. Empty if there is nothing.
    ///
    /// `have`, ascending, is here or in flight; nothing from `total` on exists.
    pub(super) fn next_request(
        &mut self,
        position: u64,
        have: &[Range<u64>],
        total: u64,
        limits: RequestLimits,
    ) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
        let clip = |range: &Range<u64>| {
            let start = if range.contains(&position) { position } else { range.start };
            start.min(total)..range.end.min(total)
        };
        // Looking at a few more than one request takes is enough, as those that are here are passed
        // by first.
        let mut from = self.next;
        while self.ranges.get(from).is_some_and(|range| ranges::subtract(&[clip(range)], have).is_empty()) {
            from += 1;
        }
        self.next = from;
        let to = self.ranges.len().min(from + 2 * limits.ranges_max.max(1) + 64);
        let clipped: Vec<_> = self.ranges[from..to].iter().map(clip).collect();
        let wanted = ranges::subtract(&clipped, have);
        let asked = ranges::next_request(&wanted, limits);
        while self
            .ranges
            .get(self.next)
            .is_some_and(|range| ranges::subtract(&ranges::subtract(&[clip(range)], have), &asked).is_empty())
        {
            self.next += 1;
        }
        let left_out = ranges::subtract(&asked, &ranges::merge(&wanted, 0));
        let keep = ranges::subtract(&asked, &left_out);
        (asked, keep)
    }
}
