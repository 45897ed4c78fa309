//! Puts packets into order and decides how long to wait for missing ones.
//!
//! Packets carry numbers without gaps, so what is missing is known at once; nothing is held while
//! nothing is missing. A gap is waited for up to a limit, from the arrival of the first packet
//! behind it. Where nothing is ever sent again (audio, as a rule) waiting is of no use: each gap
//! that nobody filled halves the wait, down to a floor, and a packet that comes out of its turn
//! restores it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Packets of one track on their way into order. `T` is the packet.
#[derive(Debug)]
pub struct ReorderBuffer<T> {
    next: Option<u64>,
    waiting: BTreeMap<u64, Held<T>>,
    wait: AdaptiveWait,
}

#[derive(Debug)]
struct Held<T> {
    since: Instant,
    packet: T,
}

/// What became of a packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It is the next one: the caller uses it, then asks for those that waited for it
    /// ([`ReorderBuffer::pop`]).
    Next,
    /// It is behind a gap and was put aside.
    Held,
    /// Its place has been passed, or it is there already.
    Late,
}

/// A packet in its turn.
#[derive(Debug, PartialEq, Eq)]
pub struct Due<T> {
    /// Packets missing directly before it.
    pub lost: u64,
    /// The packet.
    pub packet: T,
}

impl<T> ReorderBuffer<T> {
    /// Nothing is missing yet; gaps are waited for up to `delay_max`, and always for `delay_min`.
    pub fn new(delay_max: Duration, delay_min: Duration) -> Self {
        let delay_min = delay_min.min(delay_max);
        let wait = AdaptiveWait { limit: delay_max, floor: delay_min, current: delay_max };
        Self { next: None, waiting: BTreeMap::new(), wait }
    }

    /// A packet with this number has arrived; `keep` makes what is put aside. The first ever is the next.
    pub fn arrive(&mut self, now: Instant, number: u64, keep: impl FnOnce() -> T) -> Arrival {
        let next = *self.next.get_or_insert(number);
        if number < next {
            self.wait.reset();
            return Arrival::Late;
        }
        if number == next {
            self.next = Some(number + 1);
            if !self.waiting.is_empty() {
                self.wait.reset();
            }
            return Arrival::Next;
        }
        if self.waiting.contains_key(&number) {
            return Arrival::Late;
        }
        self.waiting.insert(number, Held { since: now, packet: keep() });
        Arrival::Held
    }

    /// The next packet that waits for nothing any more.
    pub fn pop(&mut self, now: Instant) -> Option<Due<T>> {
        let next = self.next?;
        let first = self.waiting.first_entry()?;
        let lost = first.key() - next;
        let is_due = lost == 0
            || now >= first.get().since + self.wait.current
            || self.waiting.len() > WAITING_PACKETS_MAX;
        if !is_due {
            return None;
        }
        if lost > 0 {
            self.wait.current = (self.wait.current / 2).max(self.wait.floor);
        }
        let (number, held) = self.waiting.pop_first()?;
        self.next = Some(number + 1);
        Some(Due { lost, packet: held.packet })
    }

    /// When the oldest gap is given up.
    pub fn next_timeout(&self) -> Option<Instant> {
        let held = self.waiting.values().next()?;
        Some(held.since + self.wait.current)
    }
}

/// How long a gap is waited for: `floor <= current <= limit`.
#[derive(Debug)]
struct AdaptiveWait {
    limit: Duration,
    floor: Duration,
    current: Duration,
}

impl AdaptiveWait {
    /// Something has come out of its turn, in time or not.
    fn reset(&mut self) {
        self.current = self.limit;
    }
}

/// Packets that wait behind gaps; with one more the oldest gap is given up. A key frame of 1.2 MB
/// has as many.
const WAITING_PACKETS_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
    fn start() -> Instant {
        Instant::now()
    }

    const LIMIT: Duration = Duration::from_millis(250);

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// Numbers that are due now, each with what was lost before it.
    fn due(reorder: &mut ReorderBuffer<u64>, now: Instant) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| reorder.pop(now)).map(|due| (due.packet, due.lost)).collect()
    }

    #[test]
    fn nothing_is_held_while_nothing_is_missing() {
        let now = start();
        let mut reorder = ReorderBuffer::new(LIMIT, LIMIT);
        for number in 1_000..2_000 {
            assert_eq!(reorder.arrive(now, number, || unreachable!("held")), Arrival::Next);
            assert_eq!(reorder.next_timeout(), None);
            assert!(reorder.pop(now).is_none());
        }
    }

    #[test]
    fn packets_that_overtook_others_wait_for_them() {
        let now = start();
        let mut reorder = ReorderBuffer::new(LIMIT, LIMIT);
        assert_eq!(reorder.arrive(now, 7, || 7), Arrival::Next);
        for number in [10, 9, 12] {
            assert_eq!(reorder.arrive(now, number, || number), Arrival::Held);
        }
        assert_eq!(reorder.arrive(now, 9, || 9), Arrival::Late, "twice");
        assert_eq!(due(&mut reorder, now + ms(249)), []);
        assert_eq!(reorder.arrive(now + ms(249), 8, || 8), Arrival::Next);
        assert_eq!(due(&mut reorder, now + ms(249)), [(9, 0), (10, 0)]);
        assert_eq!(reorder.next_timeout(), Some(now + LIMIT), "11 is still missing");
        assert_eq!(due(&mut reorder, now + LIMIT), [(12, 1)]);
        assert_eq!(reorder.arrive(now + LIMIT, 11, || 11), Arrival::Late);
        assert_eq!(reorder.arrive(now + LIMIT, 13, || 13), Arrival::Next);
    }

    #[test]
    fn each_gap_is_waited_for_from_the_first_packet_behind_it() {
        let now = start();
        let mut reorder = ReorderBuffer::new(LIMIT, LIMIT);
        reorder.arrive(now, 1, || 1);
        reorder.arrive(now, 3, || 3);
        reorder.arrive(now + ms(100), 6, || 6);
        assert_eq!(due(&mut reorder, now + LIMIT), [(3, 1)]);
        assert_eq!(reorder.next_timeout(), Some(now + ms(100) + LIMIT));
        assert_eq!(due(&mut reorder, now + ms(100) + LIMIT), [(6, 2)]);
        assert_eq!(reorder.next_timeout(), None);
    }

    #[test]
    fn what_waits_is_bounded() {
        let now = start();
        let mut reorder = ReorderBuffer::new(LIMIT, LIMIT);
        reorder.arrive(now, 0, || 0);
        for number in 0..WAITING_PACKETS_MAX as u64 {
            reorder.arrive(now, 10 + 2 * number, || number);
            assert!(reorder.pop(now).is_none());
        }
        reorder.arrive(now, u64::MAX - 5, || 0);
        assert_eq!(reorder.pop(now), Some(Due { lost: 9, packet: 0 }));
        assert_eq!(reorder.pop(now), None);
    }

    #[test]
    fn a_wait_that_back_off_is_shorter_the_next_time_until_something_comes_out_of_its_turn() {
        let mut now = start();
        let mut reorder = ReorderBuffer::new(LIMIT, ms(20));
        reorder.arrive(now, 0, || 0);
        let mut number = 0;
        for wait_us in [250_000, 125_000, 62_500, 31_250, 20_000, 20_000] {
            number += 2;
            reorder.arrive(now, number, || number);
            let due_at = now + Duration::from_micros(wait_us);
            assert_eq!(reorder.next_timeout(), Some(due_at));
            assert_eq!(due(&mut reorder, due_at), [(number, 1)]);
            now = due_at;
        }
        assert_eq!(reorder.arrive(now, number - 1, || 0), Arrival::Late);
        reorder.arrive(now, number + 2, || 0);
        assert_eq!(reorder.next_timeout(), Some(now + LIMIT));
    }

    #[test]
    fn a_gap_that_was_filled_restores_the_wait() {
        let now = start();
        let mut reorder = ReorderBuffer::new(LIMIT, ms(20));
        reorder.arrive(now, 0, || 0);
        reorder.arrive(now, 2, || 2);
        assert_eq!(due(&mut reorder, now + LIMIT), [(2, 1)]);
        let now = now + LIMIT;
        reorder.arrive(now, 4, || 4);
        assert_eq!(reorder.arrive(now, 3, || 3), Arrival::Next);
        assert_eq!(due(&mut reorder, now), [(4, 0)]);
        reorder.arrive(now, 6, || 6);
        assert_eq!(reorder.next_timeout(), Some(now + LIMIT));
    }
}
