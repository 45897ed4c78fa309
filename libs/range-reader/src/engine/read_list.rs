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
    /// in the list, as far as the list has been asked for.
    pub(super) fn interest(&self, part: &Range<u64>, position: u64) -> Interest {
        let meets = |range: &Range<u64>| range.start < part.end && part.start < range.end;
        let asked = self.next.saturating_sub(self.at).max(UPCOMING_MAX);
        let is_listed = part.end > position || self.upcoming(asked).iter().any(meets);
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

    /// The next request. Nothing is asked if there is nothing left, or no room for what is left.
    ///
    /// `have`, ascending, is here or in flight; nothing from `total` on exists. Ranges are taken in
    /// the order of reading as long as they ascend. Where they step back sooner than a request
    /// pays, what fits into `room` is asked for together, in the order of the file.
    pub(super) fn next_request(
        &mut self,
        position: u64,
        have: &[Range<u64>],
        total: u64,
        limits: RequestLimits,
        room: Room,
    ) -> ListRequest {
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
        let mut wanted = ranges::subtract(&clipped, have);
        let together = if limits.ranges_max > 1 { fit_together(&wanted, limits, room) } else { Some(0) };
        let Some(together) = together else { return ListRequest::default() };
        if together > 0 {
            wanted = ranges::merge(&wanted[..together], 0);
        }
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
        ListRequest { asked, keep, is_sorted: together > 0 }
    }
}

/// A request for parts of the list.
#[derive(Debug, Default)]
pub(super) struct ListRequest {
    /// What to ask for, ascending.
    pub(super) asked: Vec<Range<u64>>,
    /// What of that is wanted.
    pub(super) keep: Vec<Range<u64>>,
    /// It comes in the order of the file, which is not that of reading.
    pub(super) is_sorted: bool,
}

/// How much may be asked for together that is read in another order than it comes in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Bytes that fit into memory.
    pub(super) bytes: u64,
    /// With less room than this, it is better to wait until more has been read.
    pub(super) bytes_min: u64,
    /// An ascending row of so many bytes is worth a request of its own.
    pub(super) row_bytes_max: u64,
}

/// How many of the first of `wanted` are asked for together although they step back; 0 if they
/// ascend for long enough, `None` if there is too little room now.
///
/// A request for each short row would cost a round trip each, and all that is wanted comes sooner
/// in one response, in whatever order, as long as memory holds it.
fn fit_together(wanted: &[Range<u64>], limits: RequestLimits, room: Room) -> Option<usize> {
    let (mut bytes, mut count) = (0, 0);
    for row in wanted.chunk_by(|one, next| one.start <= next.start) {
        let row_bytes = ranges::bytes_of(row);
        if row_bytes > room.row_bytes_max {
            break;
        }
        bytes += row_bytes;
        count += row.len();
    }
    let steps_back = wanted[..count].windows(2).any(|pair| pair[1].start < pair[0].start);
    if !steps_back {
        return Some(0);
    }
    if bytes > room.bytes && room.bytes < room.bytes_min {
        return None;
    }
    let mut left = room.bytes;
    let fits = wanted[..count.min(limits.ranges_max)].iter().take_while(|range| {
        let fits = range.end - range.start <= left;
        left = left.saturating_sub(range.end - range.start);
        fits
    });
    Some(fits.count())
}
