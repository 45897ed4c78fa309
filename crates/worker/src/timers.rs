//! Timers of many owners (sessions, streams, bridges): which is due next, found without asking all of them.
//!
//! A timer is not taken out of the heap when it is set to an earlier time or when its owner ends. Each owner
//! keeps the time that its timer is set to, and a timer that comes out of the heap with another time, or
//! without an owner, is passed over:
//!
//! ```text
//! while let Some((due, id)) = timers.pop(now) {
//!     let Some(owner) = owners.get_mut(id) else { continue };
//!     if owner.due.take_if(|set| *set == due).is_some() { /* its time has come */ }
//! }
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Timers by time, the earliest first.
#[derive(Debug)]
pub(crate) struct Timers<Time, Id>(BinaryHeap<Reverse<(Time, Id)>>);

impl<Time: Ord, Id: Ord> Default for Timers<Time, Id> {
    fn default() -> Self {
        Self(BinaryHeap::new())
    }
}

impl<Time: Copy + Ord, Id: Copy + Ord> Timers<Time, Id> {
    /// Sets an owner's timer, unless it is set to this time or an earlier one. `set` is what the owner keeps.
    #[inline]
    pub(crate) fn set(&mut self, id: Id, set: &mut Option<Time>, due: Time) {
        if set.is_none_or(|set| due < set) {
            *set = Some(due);
            self.0.push(Reverse((due, id)));
        }
    }

    /// Takes out the earliest timer, if it is due.
    #[inline]
    pub(crate) fn pop(&mut self, now: Time) -> Option<(Time, Id)> {
        self.next().filter(|due| *due <= now)?;
        self.pop_earliest()
    }

    /// Takes out the earliest timer, whether or not it is due.
    #[inline]
    pub(crate) fn pop_earliest(&mut self) -> Option<(Time, Id)> {
        self.0.pop().map(|Reverse(timer)| timer)
    }

    /// When the earliest timer is due, which may be one that will be passed over.
    #[inline]
    pub(crate) fn next(&self) -> Option<Time> {
        self.0.peek().map(|Reverse((due, _))| *due)
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_was_set_to_an_earlier_time_is_passed_over() {
        let (mut timers, mut set) = (Timers::default(), [None; 3]);
        timers.set(0, &mut set[0], 30);
        timers.set(1, &mut set[1], 20);
        timers.set(0, &mut set[0], 10);
        timers.set(0, &mut set[0], 40);
        assert_eq!((timers.next(), set[0]), (Some(10), Some(10)));
        assert_eq!(timers.pop(9), None);
        let mut took = Vec::new();
        while let Some((due, id)) = timers.pop(100) {
            if set[id].take_if(|set| *set == due).is_some() {
                took.push((due, id));
                // An owner that is asked again at once is asked before those that are due later.
                if took.len() == 1 {
                    timers.set(2, &mut set[2], 15);
                }
            }
        }
        assert_eq!(took, [(10, 0), (15, 2), (20, 1)]);
        assert!(timers.is_empty());
    }
}
