//! Reads joined into runs: what was read without a gap worth the name.

use std::collections::VecDeque;
use std::ops::Range;

/// The run that is being read and those before it.
#[derive(Debug)]
pub(super) struct Runs {
    /// Oldest first, [`RUNS_MAX`] at most.
    done: VecDeque<Range<u64>>,
    present: Range<u64>,
}

/// Runs remembered: a guess goes by the newer half of them.
pub(super) const RUNS_MAX: usize = 64;

/// Gaps up to this do not end a run: a parser that steps over a field has not sought. Below the
/// head of a part, so that receiving them along costs less than leaving them out.
pub(super) const GAP_BYTES_MAX: u64 = 128;

impl Default for Runs {
    fn default() -> Self {
        Self { done: VecDeque::with_capacity(RUNS_MAX), present: 0..0 }
    }
}

impl Runs {
    /// Takes a read, or with an empty range the beginning of one. If it begins a new run, returns
    /// the one that it ended.
    pub(super) fn note(&mut self, read: Range<u64>) -> Option<Range<u64>> {
        let present = &mut self.present;
        let goes_on = read.start >= present.start && read.start <= present.end.saturating_add(GAP_BYTES_MAX);
        if goes_on {
            // An empty read inside the gap says only where the next one may begin.
            present.end = if read.is_empty() { present.end } else { present.end.max(read.end) };
            return None;
        }
        let ended = std::mem::replace(present, read);
        if ended.is_empty() {
            return None;
        }
        if self.done.len() == RUNS_MAX {
            self.done.pop_front();
        }
        self.done.push_back(ended.clone());
        Some(ended)
    }

    /// The run that is being read. Empty before its first byte.
    pub(super) fn present(&self) -> &Range<u64> {
        &self.present
    }

    /// Runs that have ended, newest first.
    pub(super) fn newest_first(&self) -> impl DoubleEndedIterator<Item = &Range<u64>> {
        self.done.iter().rev()
    }

    /// Bytes between the last two runs that have ended, 0 after a step back.
    pub(super) fn gap_before_last(&self) -> u64 {
        let mut runs = self.newest_first();
        match (runs.next(), runs.next()) {
            (Some(last), Some(before)) => last.start.saturating_sub(before.end),
            _ => 0,
        }
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of one range are meant")]
mod tests {
    use super::*;

    fn noted(reads: &[Range<u64>]) -> (Vec<Range<u64>>, Range<u64>) {
        let mut runs = Runs::default();
        let ended = reads.iter().filter_map(|read| runs.note(read.clone())).collect();
        (ended, runs.present().clone())
    }

    #[test]
    fn reads_join_into_runs_until_a_seek() {
        let (ended, present) = noted(&[0..10, 10..20, 25..30, 5000..5001, 5001..6000, 40..50]);
        assert_eq!(ended, [0..30, 5000..6000]);
        assert_eq!(present, 40..50);
    }

    #[test]
    fn reading_again_inside_a_run_is_not_a_seek() {
        let (ended, present) = noted(&[1000..2000, 1500..1600, 2000..2100]);
        assert_eq!((ended, present), (vec![], 1000..2100));
    }

    #[test]
    fn seeks_without_a_read_leave_no_run() {
        let (ended, present) = noted(&[0..10, 5000..5000, 9000..9000, 7000..7010, 7050..7050]);
        assert_eq!((ended, present), (vec![0..10], 7000..7010));
    }

    #[test]
    fn old_runs_are_forgotten() {
        let mut runs = Runs::default();
        for start in (0..1000).map(|n| n * 1000) {
            runs.note(start..start + 10);
        }
        assert_eq!(runs.newest_first().count(), RUNS_MAX);
        assert_eq!(runs.newest_first().next(), Some(&(998_000..998_010)));
        assert_eq!(runs.gap_before_last(), 990);
    }
}
