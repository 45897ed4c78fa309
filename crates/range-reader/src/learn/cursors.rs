//! Several places that are read in turn, each one forward: tracks of a file that is not interleaved, or only coarsely.
//!
//! Each run begins where an earlier one has ended. What comes next is more of each, so no byte fetched is in vain as long as
//! reading goes on; the lengths of runs tell how much of each is needed until the turn comes round.

use std::collections::VecDeque;
use std::ops::Range;

use super::runs::{GAP_BYTES_MAX, Runs};

/// Places at a time. The one not read for longest is forgotten.
const CURSORS_MAX: usize = 8;

/// Times that a place must have been returned to before more of it is expected.
const RETURNS_MIN: u32 = 2;

/// A place that is read forward.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    end: u64,
    /// Lengths of its runs, the newer ones counting more.
    length: u64,
    returns: u32,
}

/// What is read next in about `runs_max` runs: of each place as much as in its share of them, the present one first (from
/// `position` on), then the one not read for longest. Empty unless two places have been returned to.
pub(super) fn expect(runs: &Runs, position: u64, runs_max: usize) -> Vec<Range<u64>> {
    // Least recently read first.
    let mut cursors: VecDeque<Cursor> = VecDeque::with_capacity(CURSORS_MAX + 1);
    for run in runs.newest_first().rev() {
        let read = take(&mut cursors, run.start);
        let length = run.end - run.start;
        cursors.push_back(Cursor {
            end: run.end,
            length: if read.returns == 0 { length } else { (3 * read.length + length) / 4 },
            ..read
        });
    }
    let present = take(&mut cursors, runs.present().start);
    cursors.retain(|cursor| cursor.returns >= RETURNS_MIN);
    if present.returns < RETURNS_MIN || cursors.is_empty() {
        return Vec::new();
    }
    let rounds = runs_max.div_ceil(cursors.len() + 1) as u64;
    let more = |from: u64, cursor: &Cursor| from..from.saturating_add(cursor.length.saturating_mul(rounds));
    let mut expected = vec![];
    expected.push(more(position, &present));
    expected.extend(cursors.iter().map(|cursor| more(cursor.end, cursor)));
    expected
}

/// Takes the cursor out that goes on at `start`, once more returned to; or a new one.
fn take(cursors: &mut VecDeque<Cursor>, start: u64) -> Cursor {
    let goes_on = |cursor: &Cursor| (cursor.end..=cursor.end.saturating_add(GAP_BYTES_MAX)).contains(&start);
    match cursors.iter().position(goes_on).and_then(|at| cursors.remove(at)) {
        Some(cursor) => Cursor { returns: cursor.returns + 1, ..cursor },
        None => {
            if cursors.len() == CURSORS_MAX {
                cursors.pop_front();
            }
            Cursor { end: start, length: 0, returns: 0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs read in turn at places a gigabyte apart, of about `lengths`.
    fn in_turn(lengths: &[u64], count: u64) -> Vec<Range<u64>> {
        let mut ends: Vec<u64> = (0..lengths.len() as u64).map(|n| n << 30).collect();
        (0..count)
            .map(|n| {
                let place = n as usize % lengths.len();
                let start = ends[place];
                ends[place] += lengths[place] + n * 7919 % 100;
                start..ends[place]
            })
            .collect()
    }

    fn expected_after(reads: &[Range<u64>], runs_max: usize) -> Vec<Range<u64>> {
        let mut runs = Runs::default();
        for read in reads {
            runs.note(read.clone());
        }
        let position = runs.present().start;
        expect(&runs, position, runs_max)
    }

    #[test]
    fn more_of_each_place_is_expected_in_turn() {
        let runs = in_turn(&[90_000, 7000], 40);
        for seen in 6..30 {
            let expected = expected_after(&runs[..=seen], 4);
            assert_eq!(expected.len(), 2, "{seen} runs");
            assert_eq!([expected[0].start, expected[1].start], [runs[seen].start, runs[seen + 1].start]);
            // Two runs of each, within what lengths vary by.
            for (expected, last) in expected.iter().zip([runs[seen + 2].end, runs[seen + 3].end]) {
                assert!(expected.end.abs_diff(last) < 400, "{seen} runs: {expected:?}, {last}");
            }
        }
    }

    #[test]
    fn three_places_are_followed_too() {
        let runs = in_turn(&[50_000, 9000, 4000], 40);
        let expected = expected_after(&runs[..=20], 3);
        let starts: Vec<u64> = expected.iter().map(|range| range.start).collect();
        assert_eq!(starts, [runs[20].start, runs[21].start, runs[22].start]);
    }

    #[test]
    fn one_place_is_no_pattern_and_neither_are_places_never_returned_to() {
        let forward: Vec<_> = (0..30_u64).map(|n| n * 10_000..n * 10_000 + 5000).collect();
        assert_eq!(expected_after(&forward, 4), []);
        let runs = in_turn(&[90_000, 7000], 40);
        assert_eq!(expected_after(&runs[..4], 4), []);
    }
}
