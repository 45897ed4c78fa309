//! Replays a list of reads against the learner alone and counts what its predictions would have fetched.
//!
//! No time, no link: what is expected is fetched at once, and what was not expected is asked for by itself. So the figures
//! say how good the predictions are; what they are worth on a link is measured with the whole reader.

use std::ops::Range;

use range_reader::learn::{Learner, Want};
use range_reader::ranges;

/// What a replay has come to.
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
    /// Reads that had to wait for a request of their own: nothing, or not all of it, was expected.
    pub(crate) misses: u64,
}

impl Replay {
    /// Replays `reads` over `file`; bytes that lie behind its end are not shown to the learner.
    pub(crate) fn of(learner: &mut Learner, reads: &[Range<u64>], file: &[u8], want: Want) -> Self {
        let mut replay = Self::default();
        let mut batch: Vec<Range<u64>> = Vec::new();
        let mut read_of_batch: Vec<Range<u64>> = Vec::new();
        for read in reads {
            if !ranges::subtract(std::slice::from_ref(read), &batch).is_empty() {
                replay.settle(learner, &mut batch, &mut read_of_batch);
                let expected = learner.predict(read.start, want);
                replay.batches += u64::from(!expected.is_empty());
                batch = ranges::merge(&expected, 0);
                let missing = !ranges::subtract(std::slice::from_ref(read), &batch).is_empty();
                replay.misses += u64::from(missing);
            }
            learner.note_read(read.clone());
            if learner.wants_bytes() {
                let end = read.end.min(file.len() as u64);
                learner.note_bytes(read.start, &file[read.start.min(end) as usize..end as usize]);
            }
            read_of_batch.push(read.clone());
            replay.used += read.end - read.start;
        }
        replay.settle(learner, &mut batch, &mut read_of_batch);
        replay
    }

    fn settle(&mut self, learner: &mut Learner, batch: &mut Vec<Range<u64>>, read: &mut Vec<Range<u64>>) {
        let fetched = ranges::bytes_of(batch);
        let unread = ranges::bytes_of(&ranges::subtract(batch, &ranges::merge(read, 0)));
        self.fetched += fetched;
        self.fetched_and_used += fetched - unread;
        learner.note_outcome(fetched, fetched - unread);
        batch.clear();
        read.clear();
    }
}
