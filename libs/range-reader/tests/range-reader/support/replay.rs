//! Replays a list of reads against the learner alone and counts what its predictions would have
//! fetched.
//!
//! No time, no link: predicted data is fetched immediately, and unpredicted data is requested
//! separately. So the figures measure the quality of predictions; their benefit on a link is
//! measured with the whole reader.

use std::ops::Range;

use range_reader::learn::{Learner, PredictionLimits};
use range_reader::ranges;

/// The result of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Replay {
    /// Bytes read.
    pub(crate) used: u64,
    /// Bytes fetched because they were expected.
    pub(crate) fetched: u64,
    /// Of those, bytes that were read.
    pub(crate) fetched_and_used: u64,
    /// Batches fetched because they were expected.
    pub(crate) batches: u64,
    /// Bytes of gaps that a reader without any idea would have read through, when nothing was
    /// expected.
    pub(crate) skipped: u64,
    /// Reads that had to wait for a request of their own: nothing, or not all of it, was expected.
    pub(crate) misses: u64,
}

impl Replay {
    /// Replays `reads` over `file`; bytes that lie behind its end are not shown to the learner.
    pub(crate) fn of(
        learner: &mut Learner,
        reads: &[Range<u64>],
        file: &[u8],
        limits: PredictionLimits,
    ) -> Self {
        let mut replay = Self::default();
        let mut here: Vec<Range<u64>> = Vec::new();
        let mut last_end = 0;
        for read in reads {
            let read = std::slice::from_ref(read);
            let gap = read[0].start.saturating_sub(std::mem::replace(&mut last_end, read[0].end));
            if !ranges::subtract(read, &here).is_empty() {
                let expected = learner.predict(read[0].start, limits);
                replay.skipped += if expected.is_empty() { gap.min(SKIPPED_MAX) } else { 0 };
                let new = ranges::subtract(&expected, &here);
                replay.batches += u64::from(!new.is_empty());
                replay.fetched += ranges::bytes_of(&new);
                here = ranges::merge(&[here, new].concat(), 0);
                replay.misses += u64::from(!ranges::subtract(read, &here).is_empty());
            }
            replay.read(learner, &read[0], file, &mut here);
        }
        let unread = ranges::bytes_of(&here);
        learner.note_outcome(unread, 0);
        replay
    }

    /// Reads what is `here` or not, and forgets what it has passed.
    fn read(&mut self, learner: &mut Learner, read: &Range<u64>, file: &[u8], here: &mut Vec<Range<u64>>) {
        learner.note_read(read.clone());
        if learner.wants_bytes() {
            let end = read.end.min(file.len() as u64);
            learner.note_bytes(read.start, &file[read.start.min(end) as usize..end as usize]);
        }
        self.used += read.end - read.start;
        let left = ranges::subtract(here, std::slice::from_ref(read));
        let used = ranges::bytes_of(here) - ranges::bytes_of(&left);
        let (passed, left): (Vec<_>, Vec<_>) = left.into_iter().partition(|range| range.end <= read.start);
        self.fetched_and_used += used;
        learner.note_outcome(used + ranges::bytes_of(&passed), used);
        *here = left;
    }
}

/// A gap that is longer would be asked around.
const SKIPPED_MAX: u64 = 256 << 10;
