//! A bad network at the generator's own sockets: datagrams lost by chance and delayed by a fixed time.
//!
//! Each direction has one, so `--delay 20` makes a round trip 40 ms longer. Nothing is reordered. A
//! datagram that finds the line full is lost, as in a router.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What is wrong with the network; one direction of one socket.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Probability that a datagram is lost, 0 to 1.
    pub loss: f64,
    /// Time every datagram takes longer.
    pub delay: Duration,
}

impl Faults {
    /// Whether nothing is wrong.
    pub fn is_none(&self) -> bool {
        self.loss == 0.0 && self.delay.is_zero()
    }
}

/// Datagrams in flight.
#[derive(Debug)]
pub struct Line<T> {
    faults: Faults,
    under_way: VecDeque<(Instant, T)>,
    random: u64,
    /// Datagrams lost so far.
    pub lost: u64,
}

impl<T> Line<T> {
    /// A line with `faults`; the same `seed` loses the same datagrams.
    pub fn new(faults: Faults, seed: u64) -> Line<T> {
        Line { faults, under_way: VecDeque::new(), random: seed ^ 0x9e37_79b9_7f4a_7c15, lost: 0 }
    }

    /// Takes a datagram. Without a delay, [`Line::pop`] gives it at once.
    pub fn push(&mut self, now: Instant, datagram: T) {
        if self.chance() < self.faults.loss || self.under_way.len() == UNDER_WAY_MAX {
            self.lost += 1;
            return;
        }
        self.under_way.push_back((now + self.faults.delay, datagram));
    }

    /// The next datagram that has arrived by `now`, in order.
    pub fn pop(&mut self, now: Instant) -> Option<T> {
        let (due, _) = self.under_way.front()?;
        if *due > now {
            return None;
        }
        self.under_way.pop_front().map(|(_, datagram)| datagram)
    }

    /// How long each datagram takes.
    pub fn delay(&self) -> Duration {
        self.faults.delay
    }

    /// Uniform in 0 to 1 (splitmix64).
    fn chance(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.random;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((value ^ value >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Maximum datagrams in flight on one line: 8 s of a stream.
const UNDER_WAY_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn now() -> Instant {
        Instant::now()
    }

    #[test]
    fn about_as_many_are_lost_as_asked_for() {
        for (loss, range) in
            [(0.0, 0..1), (0.05, 4_000..6_000), (0.2, 18_500..21_500), (1.0, 100_000..100_001)]
        {
            let (mut line, now) = (Line::new(Faults { loss, delay: Duration::ZERO }, 1), now());
            let mut arrived = 0;
            for index in 0..100_000 {
                line.push(now, index);
                arrived += u64::from(line.pop(now).is_some());
            }
            assert!(range.contains(&line.lost), "{loss}: {}", line.lost);
            assert_eq!(line.lost + arrived, 100_000);
        }
    }

    #[test]
    fn datagrams_arrive_in_order_after_the_delay() {
        let (begin, delay) = (now(), Duration::from_millis(20));
        let mut line = Line::new(Faults { loss: 0.0, delay }, 1);
        line.push(begin, 'a');
        line.push(begin + delay / 2, 'b');
        assert_eq!(line.pop(begin + delay / 2), None);
        assert_eq!((line.pop(begin + delay), line.pop(begin + delay)), (Some('a'), None));
        assert_eq!(line.pop(begin + delay * 2), Some('b'));
    }

    #[test]
    fn a_full_line_loses_what_comes() {
        let mut line = Line::new(Faults { loss: 0.0, delay: Duration::from_secs(1) }, 1);
        let now = now();
        for index in 0..UNDER_WAY_MAX + 3 {
            line.push(now, index);
        }
        assert_eq!(line.lost, 3);
    }
}
