//! Asking the publisher for packets that did not arrive (RFC 4585 section 6.2.1).
//!
//! A missing packet is asked for once it is unlikely to be merely late, and again each round trip
//! until it comes, is too old to be of use, or was asked for often enough. The list is bounded: a
//! source that loses more than it holds is asked for a key frame instead.

use std::time::{Duration, Instant};

/// What is missing of one source.
#[derive(Debug, Default)]
pub(crate) struct NackList {
    /// By rising sequence number.
    missing: Vec<Missing>,
    next_due: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Missing {
    sequence: u64,
    since: Instant,
    due: Instant,
    /// When it was asked for last; the time it went missing before that.
    asked_at: Instant,
    asked: u8,
}

/// What became of a number that was missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// It had been asked for.
    pub(crate) was_asked: bool,
    /// Time from the request to now, if it was asked for exactly once: a round trip.
    pub(crate) round_trip: Option<Duration>,
}

impl NackList {
    /// Numbers `from..to` were skipped. `false` if there are too many: all are forgotten.
    pub(crate) fn skipped(&mut self, now: Instant, from: u64, to: u64) -> bool {
        if to.saturating_sub(from) as usize + self.missing.len() > MISSING_MAX {
            self.clear();
            return false;
        }
        let due = now + REORDERING;
        self.missing.extend((from..to).map(|sequence| Missing {
            sequence,
            since: now,
            due,
            asked_at: now,
            asked: 0,
        }));
        self.next_due = Some(self.next_due.map_or(due, |next| next.min(due)));
        true
    }

    /// A number arrived that is not the next one.
    pub(crate) fn arrived(&mut self, now: Instant, sequence: u64) -> Option<Found> {
        let at = self.missing.binary_search_by_key(&sequence, |missing| missing.sequence).ok()?;
        let missing = self.missing.remove(at);
        if self.missing.is_empty() {
            self.clear();
        }
        let passed = now.saturating_duration_since(missing.asked_at);
        Some(Found { was_asked: missing.asked > 0, round_trip: (missing.asked == 1).then_some(passed) })
    }

    /// Calls `ask` with every number that is due, rising, and forgets those that are past hope: missing
    /// for `age_max`. At most `most` at once; the others remain due.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        round_trip: Duration,
        age_max: Duration,
        most: usize,
        mut ask: impl FnMut(u64),
    ) {
        if self.next_due.is_none_or(|due| due > now) {
            return;
        }
        self.missing.retain(|missing| {
            missing.asked < ASKED_MAX && now.saturating_duration_since(missing.since) < age_max
        });
        for missing in self.missing.iter_mut().filter(|missing| missing.due <= now).take(most) {
            ask(missing.sequence);
            (missing.asked, missing.asked_at) = (missing.asked + 1, now);
            missing.due = now + round_trip.mul_f32(RETRY_ROUND_TRIPS).max(RETRY_MIN);
        }
        self.next_due = self.missing.iter().map(|missing| missing.due).min();
        if self.next_due.is_none() {
            self.clear();
        }
    }

    /// When [`NackList::poll`] has something to ask for.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.next_due
    }

    /// Forgets everything, as when the encoding restarts. A burst of losses leaves no memory behind.
    pub(crate) fn clear(&mut self) {
        self.missing.clear();
        self.missing.shrink_to(MISSING_KEPT);
        self.next_due = None;
    }
}

/// Numbers missing from one source at most: two seconds of 2 Mbit/s.
const MISSING_MAX: usize = 512;
/// Places for them that are kept for the next loss.
const MISSING_KEPT: usize = 8;
/// How long a number may be late before it is asked for. Waiting costs this once per loss; asking
/// at once would cost a retransmission for each reordered packet.
const REORDERING: Duration = Duration::from_millis(8);
/// Round trips between two requests for the same packet.
const RETRY_ROUND_TRIPS: f32 = 1.25;
/// Shortest time between them.
const RETRY_MIN: Duration = Duration::from_millis(15);
/// Requests for one packet.
const ASKED_MAX: u8 = 10;
/// How long a missing packet is worth asking for, if it is kept when it comes.
pub(crate) const MISSING_AGE_MAX: Duration = Duration::from_millis(1_500);
/// A gap older than this is not expected to be filled any more when a new viewer looks for an
/// entry.
pub(crate) const GIVEN_UP_AFTER: Duration = Duration::from_millis(400);

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
    fn start() -> Instant {
        Instant::now() + Duration::from_secs(1_000_000)
    }

    fn poll(list: &mut NackList, now: Instant) -> Vec<u64> {
        let mut asked = Vec::new();
        list.poll(now, Duration::from_millis(40), MISSING_AGE_MAX, 100, |number| asked.push(number));
        asked
    }

    #[test]
    fn numbers_are_asked_for_when_due_and_once_a_round_trip() {
        let (mut list, now) = (NackList::default(), start());
        assert!(list.skipped(now, 5, 8));
        assert_eq!(poll(&mut list, now), []);
        assert_eq!(list.next_due(), Some(now + REORDERING));
        assert_eq!(list.arrived(now, 6), Some(Found { was_asked: false, round_trip: None }));
        let first = now + REORDERING;
        assert_eq!(poll(&mut list, first), [5, 7]);
        assert_eq!(poll(&mut list, first + Duration::from_millis(49)), []);
        assert_eq!(poll(&mut list, first + Duration::from_millis(50)), [5, 7], "40 ms and a quarter");
        let found = list.arrived(first + Duration::from_millis(60), 5);
        assert_eq!(
            found,
            Some(Found { was_asked: true, round_trip: None }),
            "which request it answers is unknown"
        );
        assert_eq!(list.arrived(first, 5), None);
    }

    #[test]
    fn the_list_is_bounded_and_forgets_all_when_it_would_not_be() {
        let (mut list, now) = (NackList::default(), start());
        assert!(list.skipped(now, 0, MISSING_MAX as u64));
        assert!(!list.skipped(now, 1_000, 1_001));
        assert_eq!((list.next_due(), poll(&mut list, now + Duration::from_secs(1))), (None, vec![]));
    }

    #[test]
    fn no_more_than_wanted_are_asked_for_at_once_and_the_rest_stays_due() {
        let (mut list, now) = (NackList::default(), start());
        list.skipped(now, 0, 10);
        let due = now + REORDERING;
        let mut asked = Vec::new();
        list.poll(due, RETRY_MIN, MISSING_AGE_MAX, 4, |number| asked.push(number));
        assert_eq!((asked.len(), list.next_due()), (4, Some(due)));
        assert_eq!(poll(&mut list, due), [4, 5, 6, 7, 8, 9]);
    }
}
