//! When a port is read: as soon as something arrives, or in rounds.
//!
//! Of streams nobody plays, packets are only put away, so nobody waits for them. With many such
//! publishers nearly every datagram would wake the worker, which costs more than to take it in. A port
//! that brings nothing else is therefore taken out of the event queue and read a millisecond after
//! the turn that read it. The first datagram somebody waits for puts it back: one of a
//! stream that is played, or of a session that plays. If the queue has no room for it, the rounds go on.
//! Measured in docs/decisions/0029-memory-of-publishers.md.

use std::time::{Duration, Instant};

/// Time between two rounds. The event queue waits for whole milliseconds, from the end of a turn on: what
/// such a port brings waits that long and for the turn under way, and times of arrival in feedback to
/// publishers are as late.
const ROUND: Duration = Duration::from_millis(1);
/// Datagrams between two reviews (100 ms) from which on rounds pay, and below which they do not.
const BUSY: usize = 200;
const QUIET: usize = 100;

/// How one port is read.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// The next round, if it is read in rounds.
    next: Option<Instant>,
    /// Since the last review.
    datagrams: usize,
    /// Somebody waited for one of them.
    is_awaited: bool,
    /// The event queue did not take it back.
    is_refused: bool,
}

/// A change of how a port is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The event queue says when.
    AtOnce,
    /// The clock does.
    Rounds,
}

impl Reading {
    /// Whether a round is due; the next one is set then.
    pub(crate) fn begin_round(&mut self, now: Instant) -> bool {
        let is_due = self.next.is_some_and(|next| next <= now);
        if is_due {
            self.next = Some(now + ROUND);
        }
        is_due
    }

    /// When the next round is due, if there are rounds.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// A batch was taken in; `is_awaited` if somebody waited for any of it.
    pub(crate) fn took(&mut self, datagrams: usize, is_awaited: bool) -> Option<Change> {
        self.datagrams += datagrams;
        self.is_awaited |= is_awaited;
        (is_awaited && !self.is_refused && self.next.take().is_some()).then_some(Change::AtOnce)
    }

    /// The event queue did not take the port back: the rounds go on, until the next review tries it again.
    pub(crate) fn refused(&mut self, now: Instant) {
        (self.next, self.is_refused) = (Some(now + ROUND), true);
    }

    /// Decides how to go on. To be called every 100 ms.
    pub(crate) fn review(&mut self, now: Instant) -> Option<Change> {
        let (datagrams, is_awaited) =
            (std::mem::take(&mut self.datagrams), std::mem::take(&mut self.is_awaited));
        let was_refused = std::mem::take(&mut self.is_refused);
        match self.next {
            None if datagrams >= BUSY && !is_awaited => {
                self.next = Some(now + ROUND);
                Some(Change::Rounds)
            }
            Some(_) if datagrams < QUIET || was_refused => {
                self.next = None;
                Some(Change::AtOnce)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Clock;

    #[test]
    fn a_busy_port_nobody_waits_for_is_read_in_rounds_until_it_is_quiet() {
        let (mut reading, now) = (Reading::default(), Clock::now());
        assert_eq!((reading.took(BUSY - 1, false), reading.review(now)), (None, None));
        assert_eq!((reading.took(BUSY, false), reading.review(now)), (None, Some(Change::Rounds)));
        assert!(!reading.begin_round(now), "it has just been read");
        assert_eq!(reading.next(), Some(now + ROUND));
        assert!(reading.begin_round(now + ROUND));
        assert_eq!(reading.next(), Some(now + 2 * ROUND));
        assert_eq!((reading.took(QUIET, false), reading.review(now)), (None, None));
        assert_eq!((reading.took(QUIET - 1, false), reading.review(now)), (None, Some(Change::AtOnce)));
        assert_eq!((reading.next(), reading.begin_round(now + 3 * ROUND)), (None, false));
    }

    #[test]
    fn the_first_datagram_somebody_waits_for_ends_the_rounds() {
        let (mut reading, now) = (Reading::default(), Clock::now());
        reading.took(BUSY, false);
        assert_eq!(reading.review(now), Some(Change::Rounds));
        assert_eq!(reading.took(1, true), Some(Change::AtOnce));
        assert_eq!(reading.took(BUSY, false), None);
        assert_eq!(reading.review(now), None, "not in the same 100 ms");
        reading.took(BUSY, false);
        assert_eq!(reading.review(now), Some(Change::Rounds));
    }
}
