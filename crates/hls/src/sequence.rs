//! The segments of a rendition, by media sequence number and without a hole: those whose bytes are on disk,
//! and behind them those that are in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use media::Timestamp;

use crate::window::Segment;

/// Segments in order.
///
/// Views of a window are made five times a second and share them; so what hours have left on disk is one
/// object, which is copied when a segment moves there and not with every part.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sequence {
    stored: Arc<VecDeque<Arc<Segment>>>,
    recent: VecDeque<Arc<Segment>>,
    /// Those before have left the playlist.
    first_listed: usize,
}

impl Sequence {
    pub(crate) fn push(&mut self, segment: Segment) {
        self.recent.push_back(Arc::new(segment));
    }

    pub(crate) fn len(&self) -> usize {
        self.stored.len() + self.recent.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Segment> {
        let recent = || self.recent.get(index - self.stored.len());
        self.stored.get(index).or_else(recent).map(|segment| &**segment)
    }

    pub(crate) fn by_number(&self, msn: u64) -> Option<&Segment> {
        let first = self.get(0)?.msn;
        self.get(usize::try_from(msn.checked_sub(first)?).ok()?)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Segment> + Clone {
        self.stored.iter().chain(&self.recent).map(|segment| &**segment)
    }

    /// Those in the playlist.
    pub(crate) fn listed(&self) -> impl DoubleEndedIterator<Item = &Segment> + Clone {
        let stored = self.stored.range(self.first_listed.min(self.stored.len())..);
        let recent = self.recent.range(self.first_listed.saturating_sub(self.stored.len())..);
        stored.chain(recent).map(|segment| &**segment)
    }

    /// Those whose bytes are in memory.
    pub(crate) fn in_memory(&self) -> impl DoubleEndedIterator<Item = &Segment> + Clone {
        self.recent.iter().map(|segment| &**segment)
    }

    pub(crate) fn newest(&self) -> Option<&Segment> {
        self.recent.back().or(self.stored.back()).map(|segment| &**segment)
    }

    /// The newest, to be changed; it is in memory while it grows.
    pub(crate) fn newest_mut(&mut self) -> Option<&mut Segment> {
        self.recent.back_mut().map(Arc::make_mut)
    }

    /// Index of the oldest in the playlist.
    pub(crate) fn first_listed(&self) -> usize {
        self.first_listed
    }

    /// The oldest in the playlist leaves it.
    pub(crate) fn unlist(&mut self) {
        self.first_listed += 1;
    }

    /// Forgets the oldest.
    pub(crate) fn pop(&mut self) -> Option<Arc<Segment>> {
        self.first_listed = self.first_listed.saturating_sub(1);
        if self.stored.is_empty() {
            self.recent.pop_front()
        } else {
            Arc::make_mut(&mut self.stored).pop_front()
        }
    }

    /// The oldest in memory that is over by `before`.
    pub(crate) fn oldest_in_memory(&self, before: Timestamp) -> Option<&Segment> {
        let oldest = self.recent.front()?;
        (oldest.duration.is_some() && oldest.end() <= before).then_some(&**oldest)
    }

    /// The bytes of the oldest in memory are on disk.
    pub(crate) fn store_oldest(&mut self) {
        if let Some(mut segment) = self.recent.pop_front() {
            let stored = Arc::make_mut(&mut segment);
            (stored.parts, stored.is_stored) = (Vec::new(), true);
            Arc::make_mut(&mut self.stored).push_back(segment);
        }
    }
}
