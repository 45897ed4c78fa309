//! Puts packets into order and decides how long to wait for missing ones.
//!
//! Packets carry numbers without gaps, so what is missing is known at once; nothing is held while nothing is missing.
//! A gap is waited for up to a limit, from the arrival of the first packet behind it. The wait adapts: where gaps have
//! been filled, in time, by retransmissions, it is twice what that took at most; when something comes after it was
//! given up, the whole limit is waited again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Packets of one track on their way into order. `T` is the packet.
#[derive(Debug)]
pub struct Jitter<T> {
    next: Option<u64>,
    waiting: BTreeMap<u64, Held<T>>,
    patience: Patience,
}

#[derive(Debug)]
struct Held<T> {
    since: Instant,
    packet: T,
}

/// What became of a packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It is the next one: the caller uses it, then asks for those that waited for it ([`Jitter::pop`]).
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

impl<T> Jitter<T> {
    /// Nothing is missing yet; gaps are waited for up to `delay_max`.
    pub fn new(delay_max: Duration) -> Self {
        Self { next: None, waiting: BTreeMap::new(), patience: Patience::new(delay_max) }
    }

    /// A packet with this number has arrived; `keep` makes what is put aside. The first ever is the next.
    pub fn arrive(&mut self, now: Instant, number: u64, keep: impl FnOnce() -> T) -> Arrival {
        let next = *self.next.get_or_insert(number);
        if number < next {
            self.patience.was_short();
            return Arrival::Late;
        }
        if number == next {
            self.next = Some(number + 1);
            if let Some(held) = self.waiting.values().next() {
                self.patience.was_rewarded(now.saturating_duration_since(held.since));
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
            || now >= first.get().since + self.patience.wait()
            || self.waiting.len() > WAITING_PACKETS_MAX;
        if !is_due {
            return None;
        }
        let (number, held) = self.waiting.pop_first()?;
        self.next = Some(number + 1);
        Some(Due { lost, packet: held.packet })
    }

    /// When the oldest gap is given up.
    pub fn next_timeout(&self) -> Option<Instant> {
        let held = self.waiting.values().next()?;
        Some(held.since + self.patience.wait())
    }
}

/// How long a gap is waited for.
#[derive(Debug)]
struct Patience {
    limit: Duration,
    /// Longest that filling a gap took; forgets slowly.
    longest: Duration,
    filled: u32,
}

impl Patience {
    fn new(limit: Duration) -> Self {
        Self { limit, longest: Duration::ZERO, filled: 0 }
    }

    /// A gap was filled.
    fn was_rewarded(&mut self, took: Duration) {
        self.longest = took.max(self.longest - self.longest / 16);
        self.filled += u32::from(self.filled < FILLED_MIN);
    }

    /// Something has come that was given up.
    fn was_short(&mut self) {
        (self.longest, self.filled) = (Duration::ZERO, 0);
    }

    fn wait(&self) -> Duration {
        if self.filled < FILLED_MIN {
            return self.limit;
        }
        (2 * self.longest + WAIT_MIN).min(self.limit)
    }
}

/// Packets that wait behind gaps; with one more the oldest gap is given up. A key frame of 1.2 MB has as many.
const WAITING_PACKETS_MAX: usize = 1_024;

/// Gaps that must have been filled before what that took is believed.
const FILLED_MIN: u32 = 8;

/// Shortest wait for what was so far filled at once: retransmissions are asked for a few milliseconds after the gap
/// shows.
const WAIT_MIN: Duration = Duration::from_millis(20);

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
    fn due(jitter: &mut Jitter<u64>, now: Instant) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| jitter.pop(now)).map(|due| (due.packet, due.lost)).collect()
    }

    #[test]
    fn nothing_is_held_while_nothing_is_missing() {
        let now = start();
        let mut jitter = Jitter::new(LIMIT);
        for number in 1_000..2_000 {
            assert_eq!(jitter.arrive(now, number, || unreachable!("held")), Arrival::Next);
            assert_eq!(jitter.next_timeout(), None);
            assert!(jitter.pop(now).is_none());
        }
    }

    #[test]
    fn packets_that_overtook_others_wait_for_them() {
        let now = start();
        let mut jitter = Jitter::new(LIMIT);
        assert_eq!(jitter.arrive(now, 7, || 7), Arrival::Next);
        for number in [10, 9, 12] {
            assert_eq!(jitter.arrive(now, number, || number), Arrival::Held);
        }
        assert_eq!(jitter.arrive(now, 9, || 9), Arrival::Late, "twice");
        assert_eq!(due(&mut jitter, now + ms(249)), []);
        assert_eq!(jitter.arrive(now + ms(249), 8, || 8), Arrival::Next);
        assert_eq!(due(&mut jitter, now + ms(249)), [(9, 0), (10, 0)]);
        assert_eq!(jitter.next_timeout(), Some(now + LIMIT), "11 is still missing");
        assert_eq!(due(&mut jitter, now + LIMIT), [(12, 1)]);
        assert_eq!(jitter.arrive(now + LIMIT, 11, || 11), Arrival::Late);
        assert_eq!(jitter.arrive(now + LIMIT, 13, || 13), Arrival::Next);
    }

    #[test]
    fn each_gap_is_waited_for_from_the_first_packet_behind_it() {
        let now = start();
        let mut jitter = Jitter::new(LIMIT);
        jitter.arrive(now, 1, || 1);
        jitter.arrive(now, 3, || 3);
        jitter.arrive(now + ms(100), 6, || 6);
        assert_eq!(due(&mut jitter, now + LIMIT), [(3, 1)]);
        assert_eq!(jitter.next_timeout(), Some(now + ms(100) + LIMIT));
        assert_eq!(due(&mut jitter, now + ms(100) + LIMIT), [(6, 2)]);
        assert_eq!(jitter.next_timeout(), None);
    }

    #[test]
    fn what_waits_is_bounded() {
        let now = start();
        let mut jitter = Jitter::new(LIMIT);
        jitter.arrive(now, 0, || 0);
        for number in 0..WAITING_PACKETS_MAX as u64 {
            jitter.arrive(now, 10 + 2 * number, || number);
            assert!(jitter.pop(now).is_none());
        }
        jitter.arrive(now, u64::MAX - 5, || 0);
        assert_eq!(jitter.pop(now), Some(Due { lost: 9, packet: 0 }));
        assert_eq!(jitter.pop(now), None);
    }

    #[test]
    fn the_wait_learns_from_gaps_that_were_filled_and_from_those_given_up_too_soon() {
        let mut now = start();
        let mut jitter = Jitter::new(LIMIT);
        let mut number = 0;
        jitter.arrive(now, number, || 0);
        for _ in 0..FILLED_MIN {
            jitter.arrive(now, number + 2, || 0);
            now += ms(30);
            assert_eq!(jitter.arrive(now, number + 1, || 0), Arrival::Next);
            assert_eq!(due(&mut jitter, now).len(), 1);
            number += 2;
        }
        jitter.arrive(now, number + 2, || 0);
        assert_eq!(jitter.next_timeout(), Some(now + ms(2 * 30 + 20)));
        assert_eq!(due(&mut jitter, now + ms(80)), [(0, 1)]);
        assert_eq!(jitter.arrive(now + ms(90), number + 1, || 0), Arrival::Late, "given up too soon");
        jitter.arrive(now + ms(90), number + 4, || 0);
        assert_eq!(jitter.next_timeout(), Some(now + ms(90) + LIMIT));
    }
}
