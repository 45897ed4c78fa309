//! Which of many have something to do by now, found without asking all of them.
//!
//! A time may be put off without a word here: whoever is asked too early says when next. Only an earlier
//! one needs a message.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// When each of many is asked, the first on top.
#[derive(Debug)]
pub(crate) struct DueList<T>(BinaryHeap<Reverse<(Instant, T)>>);

impl<T: Ord> Default for DueList<T> {
    fn default() -> Self {
        Self(BinaryHeap::new())
    }
}

impl<T: Ord> DueList<T> {
    /// It is to be asked at this time. `asked_at` is its own note of when it will be, and keeps it from
    /// being in the list for a later time as well as for an earlier one more often than times go back.
    #[inline]
    pub(crate) fn add(&mut self, at: Instant, asked_at: &mut Option<Instant>, of: T) {
        if asked_at.is_none_or(|asked_at| at < asked_at) {
            *asked_at = Some(at);
            self.0.push(Reverse((at, of)));
        }
    }

    /// The next one that is due, and the time that it was added with. If that is not the one it has
    /// noted, it was asked already.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(Instant, T)> {
        let Reverse((at, _)) = self.0.peek()?;
        if *at > now {
            return None;
        }
        self.0.pop().map(|Reverse(due)| due)
    }

    /// When the next one is due, or sooner.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
