//! Link numbers that did not arrive: when to ask for them, and when to give them up.
//!
//! A number is asked for at once when a later one arrives, then each round trip and a quarter, later
//! more rarely, until it comes, was asked for often enough, or is too old. On links that reorder it is asked
//! for as much later as packets were late recently.
//!
//! The list is also the window against replays: below the next number, whatever is not in it has
//! arrived or is given up.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::limits::{ASKED_MAX, GIVE_UP_AFTER, MISSING_LIMIT, MISSING_MAX, PARKED_MAX, REORDER_WAIT_MAX};

#[derive(Debug)]
pub(crate) struct Missing {
    /// By rising number. Those that are done with stay until they are the first.
    list: VecDeque<Entry>,
    next_due: Option<Instant>,
    reorder_wait: Duration,
    /// When a packet was late last, or the wait was made shorter.
    reordered_at: Option<Instant>,
    /// How many are parked, no more than `PARKED_MAX`.
    parked: usize,
    /// How many are neither done with nor more than `waiting_max`.
    waiting: usize,
    waiting_max: usize,
    /// Numbers sent since then, to know the rate.
    counted: u64,
    counted_since: Option<Instant>,
}

impl Default for Missing {
    fn default() -> Self {
        Self {
            list: VecDeque::new(),
            next_due: None,
            reorder_wait: Duration::ZERO,
            reordered_at: None,
            parked: 0,
            waiting: 0,
            waiting_max: MISSING_MAX,
            counted: 0,
            counted_since: None,
        }
    }
}

/// Which stream of a receiver a number is parked for.
type Stream = usize;

#[derive(Debug)]
struct Entry {
    number: u64,
    since: Instant,
    due: Instant,
    asked_at: Instant,
    asked: u8,
    is_done: bool,
    /// It came, for a stream that does not have its key yet.
    parked: Option<Stream>,
}

impl Missing {
    /// Numbers `from..to` were skipped. Returns how many are given up because there would be too
    /// many: the oldest, since the sender has those no longer, or soon will not.
    pub(crate) fn skipped(&mut self, now: Instant, from: u64, to: u64) -> u64 {
        let kept = from.max(to.saturating_sub(self.waiting_max as u64));
        let (mut given_up, new) = (kept - from, (to - kept) as usize);
        while (self.waiting + new > self.waiting_max || self.list.len() + new > 2 * self.waiting_max)
            && let Some(oldest) = self.list.pop_front()
        {
            given_up += u64::from(self.leaves(&oldest));
        }
        self.waiting += new;
        self.shorten_wait(now);
        let due = now + self.reorder_wait;
        let entry =
            |number| Entry { number, since: now, due, asked_at: now, asked: 0, is_done: false, parked: None };
        self.list.extend((kept..to).map(entry));
        self.next_due = Some(self.next_due.map_or(due, |next| next.min(due)));
        given_up
    }

    /// Numbers before `oldest` do not come any more. Returns how many are given up for it.
    pub(crate) fn give_up_before(&mut self, oldest: u64) -> u64 {
        let end = self.list.partition_point(|entry| entry.number < oldest);
        let mut given_up = 0;
        for _ in 0..end {
            let Some(entry) = self.list.pop_front() else { break };
            given_up += u64::from(self.leaves(&entry));
        }
        self.trim();
        given_up
    }

    /// A missing number came, and cannot be opened before its stream has another key: it is not asked
    /// for until [`Missing::release`], and given up in its time. `false` if too many are parked: then
    /// it is given up now.
    pub(crate) fn park(&mut self, number: u64, stream: usize) -> bool {
        let Some(at) = self.find(number).filter(|at| !self.list[*at].is_done) else { return false };
        let entry = &mut self.list[at];
        if entry.parked.is_none() && self.parked >= PARKED_MAX {
            entry.is_done = true;
            self.waiting -= 1;
            self.trim();
            return false;
        }
        self.parked += usize::from(entry.parked.is_none());
        entry.parked = Some(stream);
        entry.due = entry.since + GIVE_UP_AFTER;
        true
    }

    /// A stream has another key: what is parked for it is asked for.
    pub(crate) fn release(&mut self, now: Instant, stream: usize) {
        for entry in self.list.iter_mut().filter(|entry| entry.parked == Some(stream)) {
            (entry.parked, entry.due) = (None, now);
            self.parked -= 1;
            self.next_due = Some(self.next_due.map_or(now, |next| next.min(now)));
        }
    }

    /// Whether a number is expected.
    pub(crate) fn contains(&self, number: u64) -> bool {
        self.find(number).is_some_and(|at| !self.list[at].is_done)
    }

    /// An expected number has arrived. Returns whether it had been asked for.
    pub(crate) fn arrived(&mut self, now: Instant, number: u64, least_round_trip: Option<Duration>) -> bool {
        let Some(at) = self.find(number).filter(|at| !self.list[*at].is_done) else { return false };
        let entry = &mut self.list[at];
        entry.is_done = true;
        self.waiting -= 1;
        self.parked -= usize::from(entry.parked.take().is_some());
        let (asked, late) = (entry.asked, now.saturating_duration_since(entry.since));
        // Sooner than an answer can be: it was under way.
        let is_original = asked == 0
            || asked == 1
                && least_round_trip
                    .is_some_and(|least| now.saturating_duration_since(entry.asked_at) < least * 3 / 4);
        if is_original {
            self.reorder_wait = self.reorder_wait.max(late * 5 / 4).min(REORDER_WAIT_MAX);
            self.reordered_at = Some(now);
        }
        self.trim();
        asked > 0
    }

    /// Calls `ask` with every number that is due, rising. Returns how many are given up.
    pub(crate) fn poll(&mut self, now: Instant, round_trip: Duration, mut ask: impl FnMut(u64)) -> u64 {
        if self.next_due.is_none_or(|due| due > now) {
            return 0;
        }
        let mut given_up = 0;
        let mut next_due = None;
        for entry in self.list.iter_mut().filter(|entry| !entry.is_done) {
            if entry.due <= now {
                if entry.asked >= ASKED_MAX || now.saturating_duration_since(entry.since) >= GIVE_UP_AFTER {
                    entry.is_done = true;
                    self.waiting -= 1;
                    self.parked -= usize::from(entry.parked.take().is_some());
                    given_up += 1;
                    continue;
                }
                ask(entry.number);
                (entry.asked, entry.asked_at) = (entry.asked + 1, now);
                // Where round trips are short, the budget for repairs may be what is waited for.
                let patience = 1 << entry.asked.saturating_sub(ASKED_QUICKLY);
                let retry = now + (round_trip * 5 / 4).max(RETRY_MIN) * patience;
                entry.due = retry.min((entry.since + GIVE_UP_AFTER).max(now + RETRY_MIN));
            }
            next_due = Some(next_due.map_or(entry.due, |next: Instant| next.min(entry.due)));
        }
        self.next_due = next_due;
        self.trim();
        given_up
    }

    /// When [`Missing::poll`] has something to do.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.next_due
    }

    /// The link has come so many numbers further. How many may be missing goes by that: twice those of
    /// a second, of the last one in which something came.
    #[inline]
    pub(crate) fn count(&mut self, now: Instant, numbers: u64) {
        let since = *self.counted_since.get_or_insert(now);
        let passed = now.saturating_duration_since(since);
        if passed >= RATE_PERIOD {
            if passed < 2 * RATE_PERIOD {
                let by_rate = 2.0 * self.counted as f64 / passed.as_secs_f64();
                self.waiting_max = (by_rate as usize).clamp(MISSING_MAX, MISSING_LIMIT);
            }
            (self.counted, self.counted_since) = (0, Some(now));
        }
        self.counted += numbers;
    }

    /// An entry is taken off the list. Returns whether it was waiting.
    fn leaves(&mut self, entry: &Entry) -> bool {
        self.parked -= usize::from(entry.parked.is_some());
        self.waiting -= usize::from(!entry.is_done);
        !entry.is_done
    }

    fn find(&self, number: u64) -> Option<usize> {
        self.list.binary_search_by_key(&number, |entry| entry.number).ok()
    }

    fn trim(&mut self) {
        while self.list.front().is_some_and(|entry| entry.is_done) {
            self.list.pop_front();
        }
        if self.list.is_empty() {
            self.next_due = None;
            // A burst of losses leaves no memory behind.
            self.list.shrink_to(ENTRIES_KEPT);
        }
    }

    /// Half as long for each period in which nothing was late.
    fn shorten_wait(&mut self, now: Instant) {
        while let Some(at) = self.reordered_at
            && now.saturating_duration_since(at) >= REORDERED_RECENTLY
        {
            self.reorder_wait /= 2;
            self.reordered_at = Some(at + REORDERED_RECENTLY);
            if self.reorder_wait < Duration::from_micros(100) {
                (self.reorder_wait, self.reordered_at) = (Duration::ZERO, None);
            }
        }
    }
}

/// Shortest time between two requests for the same number.
const RETRY_MIN: Duration = Duration::from_millis(10);
/// Requests after which the time between them doubles.
const ASKED_QUICKLY: u8 = 4;
const REORDERED_RECENTLY: Duration = Duration::from_secs(5);
/// Over which the rate of a link is measured.
const RATE_PERIOD: Duration = Duration::from_secs(1);
const ENTRIES_KEPT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const ROUND_TRIP: Duration = Duration::from_millis(40);

    fn start() -> Instant {
        netsim::Clock::new().now()
    }

    fn poll(missing: &mut Missing, now: Instant) -> (Vec<u64>, u64) {
        let mut asked = Vec::new();
        let given_up = missing.poll(now, ROUND_TRIP, |number| asked.push(number));
        (asked, given_up)
    }

    #[test]
    fn numbers_are_asked_for_at_once_and_each_round_trip_and_a_quarter() {
        let (mut missing, now) = (Missing::default(), start());
        assert_eq!(missing.skipped(now, 5, 8), 0);
        assert_eq!(missing.next_due(), Some(now));
        assert_eq!(poll(&mut missing, now), (vec![5, 6, 7], 0));
        assert!(missing.contains(6) && !missing.contains(4) && !missing.contains(8));
        assert!(missing.arrived(now + 41 * MS, 6, Some(ROUND_TRIP)), "it was asked for");
        assert!(!missing.contains(6), "a second one is a replay");
        assert_eq!(poll(&mut missing, now + 49 * MS), (vec![], 0));
        assert_eq!(poll(&mut missing, now + 50 * MS), (vec![5, 7], 0));
    }

    #[test]
    fn what_never_comes_is_given_up_in_time() {
        let (mut missing, now) = (Missing::default(), start());
        missing.skipped(now, 5, 6);
        let (mut at, mut asked, mut given_up) = (now, 0, 0);
        while let Some(due) = missing.next_due() {
            at = due;
            let (numbers, lost) = poll(&mut missing, at);
            (asked, given_up) = (asked + numbers.len(), given_up + lost);
        }
        // 0, 50, 100, 150, 200, 300, 500, 900 ms.
        assert_eq!((asked, given_up, at), (8, 1, now + GIVE_UP_AFTER));
        assert!(!missing.contains(5));
    }

    #[test]
    fn links_that_reorder_are_given_as_long_as_they_need_and_no_longer() {
        let (mut missing, mut now) = (Missing::default(), start());
        missing.skipped(now, 1, 2);
        poll(&mut missing, now);
        assert!(missing.arrived(now + 4 * MS, 1, Some(ROUND_TRIP)), "asked for needlessly: it was under way");
        now += 100 * MS;
        missing.skipped(now, 3, 4);
        assert_eq!(missing.next_due(), Some(now + 5 * MS));
        assert!(!missing.arrived(now + 4 * MS, 3, Some(ROUND_TRIP)));
        now += 60 * 1000 * MS;
        missing.skipped(now, 5, 6);
        assert_eq!(missing.next_due(), Some(now), "a minute without");
    }

    #[test]
    fn the_list_is_bounded_and_keeps_the_newest() {
        let (mut missing, now) = (Missing::default(), start());
        assert_eq!(missing.skipped(now, 0, MISSING_MAX as u64), 0);
        missing.arrived(now, 7, None);
        assert_eq!(missing.skipped(now, 5_000, 5_010), 9, "the first ones, but for the one that came");
        assert!(!missing.contains(9) && missing.contains(10) && missing.contains(5_009));
        assert_eq!(missing.skipped(now, 6_000, 26_000), MISSING_MAX as u64 + 20_000 - MISSING_MAX as u64);
        assert!(!missing.contains(5_009) && !missing.contains(21_903) && missing.contains(21_904));
        assert_eq!(missing.skipped(now, u64::MAX - 9, u64::MAX), 9);
    }

    #[test]
    fn what_the_sender_does_not_keep_is_given_up_at_once() {
        let (mut missing, now) = (Missing::default(), start());
        missing.skipped(now, 5, 20);
        missing.arrived(now, 6, None);
        assert_eq!(missing.give_up_before(10), 4);
        assert_eq!(poll(&mut missing, now), ((10..20).collect(), 0));
        assert_eq!(missing.give_up_before(u64::MAX), 10);
        assert_eq!(missing.next_due(), None);
    }

    #[test]
    fn what_is_parked_waits_for_its_stream_and_no_longer_than_others() {
        let (mut missing, now) = (Missing::default(), start());
        missing.skipped(now, 5, 8);
        assert!(missing.park(5, 1) && missing.park(6, 2) && missing.park(6, 2) && !missing.park(9, 2));
        assert_eq!(poll(&mut missing, now), (vec![7], 0));
        missing.release(now + 20 * MS, 1);
        assert_eq!(poll(&mut missing, now + 20 * MS), (vec![5], 0));
        assert!(missing.arrived(now + 21 * MS, 5, None) && !missing.arrived(now + 21 * MS, 6, None));
        assert_eq!(missing.parked, 0);
        missing.skipped(now + 30 * MS, 8, 2_000);
        let parked = (8..2_000).filter(|number| missing.park(*number, 3)).count();
        assert_eq!((parked, missing.parked), (PARKED_MAX, PARKED_MAX));
        assert_eq!(poll(&mut missing, now + 30 * MS + GIVE_UP_AFTER), (vec![], PARKED_MAX as u64 + 1));
        assert_eq!((missing.parked, missing.list.len()), (0, 0));
    }

    #[test]
    fn a_fast_link_may_lack_more_at_once_and_what_came_does_not_count() {
        for (a_second, expected) in [(1_000, MISSING_MAX), (10_000, 20_000), (1_000_000, MISSING_LIMIT)] {
            let (mut missing, mut now) = (Missing::default(), start());
            for _ in 0..200 {
                now += 10 * MS;
                missing.count(now, a_second / 100);
            }
            // A silence of half a minute says nothing of the rate.
            now += 30_000 * MS;
            missing.count(now, 1);
            let most = missing.waiting_max;
            assert!(most.abs_diff(expected) <= expected / 50, "{most}");
            assert_eq!(missing.skipped(now, 0, most as u64), 0);
            (1..most as u64).for_each(|number| _ = missing.arrived(now, number, None));
            assert_eq!(missing.skipped(now, 1 << 32, (1 << 32) + most as u64 - 1), 0, "one is waiting");
            assert!(missing.contains(0) && missing.list.len() <= 2 * MISSING_LIMIT);
            assert_eq!(missing.skipped(now, 1 << 33, (1 << 33) + 1), 1);
        }
    }
}
