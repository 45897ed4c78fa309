//! A bottleneck: a queue in front of a rate that changes with time, then delay, loss, outages and
//! reordering.
//!
//! It says what becomes of each packet and when, and holds none. Time is microseconds since its
//! beginning, so that a simulation and a relay between real sockets can use the same one.

use crate::Random;

/// Microseconds since the beginning.
pub type Us = u64;
/// A millisecond.
pub const MS: Us = 1000;
/// A second.
pub const SECOND: Us = 1_000_000;

/// Bits per second from each moment on, in order; the first is at 0.
#[derive(Clone, Debug)]
pub struct Trace(pub Vec<(Us, f64)>);

impl Trace {
    /// The same rate all the time.
    pub fn constant(rate: f64) -> Self {
        Self(vec![(0, rate)])
    }

    /// Radio as a phone sees it: the logarithm of the rate wanders around that of 2 Mbit/s
    /// (standard deviation 0.45, which it forgets in 3 s), in steps of 100 ms.
    pub fn lte(seed: u64, end: Us) -> Self {
        let mut random = Random::new(seed ^ 0x17e);
        let (forget, deviation) = (1.0 - 0.1 / 3.0f64, 0.45);
        let mut log = 0.0;
        let step = |at| {
            // Nearly normal: the sum of twelve even ones.
            let normal =
                (0..12).map(|_| random.below(1 << 20) as f64 / (1u64 << 20) as f64).sum::<f64>() - 6.0;
            log = forget * log + (1.0 - forget * forget).sqrt() * deviation * normal;
            (at, (2e6 * f64::exp(log)).clamp(0.3e6, 6e6))
        };
        Self((0..end / (100 * MS)).map(|step| step * 100 * MS).map(step).collect())
    }

    /// Bits per second at this moment.
    pub fn at(&self, now: Us) -> f64 {
        self.0[self.0.partition_point(|(from, _)| *from <= now) - 1].1
    }

    /// Bits from `from` to `to`.
    pub fn bits(&self, from: Us, to: Us) -> f64 {
        let ends = self.0.iter().skip(1).map(|(at, _)| *at).chain([Us::MAX]);
        self.0
            .iter()
            .zip(ends)
            .map(|((begin, rate), end)| {
                let overlap = to.min(end).saturating_sub(from.max(*begin));
                overlap as f64 / 1e6 * rate
            })
            .sum()
    }

    /// When so many bits that begin at `from` are through.
    fn served(&self, from: Us, bits: f64) -> Us {
        let (mut at, mut left) = (from as f64, bits);
        let mut piece = self.0.partition_point(|(begin, _)| *begin <= from) - 1;
        loop {
            let rate = self.0[piece].1;
            let takes = left / rate * 1e6;
            match self.0.get(piece + 1) {
                Some((end, _)) if at + takes > *end as f64 => {
                    left -= (*end as f64 - at) / 1e6 * rate;
                    at = *end as f64;
                    piece += 1;
                }
                _ => return (at + takes).ceil() as Us,
            }
        }
    }
}

/// How a path is.
#[derive(Clone, Debug)]
pub struct PathConfig {
    /// What the bottleneck carries.
    pub trace: Trace,
    /// What was not used of so much time may be made up for at once: the depth of a token bucket.
    pub burst: Us,
    /// What would have to wait longer is lost.
    pub queue_max: Us,
    /// Packets that waited longer are marked, if any are.
    pub mark_above: Option<Us>,
    /// One way.
    pub delay: Us,
    /// Share of packets that are lost at random.
    pub loss: f64,
    /// Nothing arrives of what is sent in these.
    pub outages: Vec<(Us, Us)>,
    /// Share of packets that take up to 20 ms longer, and are overtaken.
    pub reorder: f64,
    /// The radio hands on what is through at multiples of this.
    pub grant: Us,
    /// Most that a packet is held up, and all behind it.
    pub jitter: Us,
}

impl PathConfig {
    /// Nothing but a rate, a delay and a queue.
    pub fn plain(trace: Trace, delay: Us, queue_max: Us) -> Self {
        Self {
            trace,
            burst: 0,
            queue_max,
            mark_above: None,
            delay,
            loss: 0.0,
            outages: Vec::new(),
            reorder: 0.0,
            grant: 0,
            jitter: 0,
        }
    }
}

/// What became of a packet.
pub enum Fate {
    /// It arrives.
    Arrives {
        /// When.
        at: Us,
        /// How long it waited for those ahead of it.
        waited: Us,
        /// Marked as having met congestion.
        marked: bool,
    },
    /// The queue had no room for it.
    Overflow,
    /// Lost at random, or in an outage.
    Lost,
}

/// A path that packets are sent along.
#[derive(Clone, Debug)]
pub struct Path {
    /// How it is.
    pub config: PathConfig,
    random: Random,
    idle_at: Us,
    last_arrival: Us,
}

impl Path {
    /// An idle one; the same `seed` loses the same packets.
    pub fn new(config: PathConfig, seed: u64) -> Self {
        Self { config, random: Random::new(seed), idle_at: 0, last_arrival: 0 }
    }

    /// What becomes of a packet that is sent now. `now` never goes back.
    pub fn send(&mut self, now: Us, bytes: usize) -> Fate {
        let lost = self.random.chance(self.config.loss);
        let (reordered, later) = (self.random.chance(self.config.reorder), self.random.below(20 * MS));
        let begins = self.idle_at.max(now.saturating_sub(self.config.burst));
        let ends = self.config.trace.served(begins, bytes as f64 * 8.0);
        let waited = begins.saturating_sub(now);
        if waited > self.config.queue_max {
            return Fate::Overflow;
        }
        self.idle_at = ends;
        let ends = ends.max(now);
        // Lost on the air, behind the queue.
        if lost || self.config.outages.iter().any(|(from, to)| (*from..*to).contains(&ends)) {
            return Fate::Lost;
        }
        let ends = ends + self.random.below(self.config.jitter);
        let through = match self.config.grant {
            0 => ends,
            grant => ends.next_multiple_of(grant),
        };
        let mut at = through + self.config.delay;
        if reordered {
            at += later;
        } else {
            at = at.max(self.last_arrival);
            self.last_arrival = at;
        }
        Fate::Arrives { at, waited, marked: self.config.mark_above.is_some_and(|limit| waited > limit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(path: &mut Path, now: Us, bytes: usize) -> Option<(Us, Us)> {
        match path.send(now, bytes) {
            Fate::Arrives { at, waited, .. } => Some((at, waited)),
            Fate::Overflow | Fate::Lost => None,
        }
    }

    #[test]
    fn packets_leave_at_the_rate_and_wait_for_those_ahead() {
        // 1000 bytes take 8 ms, and twice that from 20 ms on.
        let trace = Trace(vec![(0, 1e6), (20 * MS, 0.5e6)]);
        let mut path = Path::new(PathConfig::plain(trace, 5 * MS, 12 * MS), 1);
        assert_eq!(arrival(&mut path, 0, 1000), Some((13 * MS, 0)));
        assert_eq!(arrival(&mut path, 0, 1000), Some((21 * MS, 8 * MS)));
        assert_eq!(arrival(&mut path, 0, 1000), None, "16 ms are more than the queue holds");
        assert_eq!(
            arrival(&mut path, 4 * MS, 1000),
            Some((33 * MS, 12 * MS)),
            "half of it at the lower rate"
        );
    }

    #[test]
    fn a_bucket_lets_what_was_saved_up_pass_at_once() {
        let config = PathConfig { burst: 16 * MS, ..PathConfig::plain(Trace::constant(1e6), 0, 300 * MS) };
        let mut path = Path::new(config, 1);
        let now = 100 * MS;
        assert_eq!(arrival(&mut path, now, 1000), Some((now, 0)));
        assert_eq!(arrival(&mut path, now, 1000), Some((now, 0)));
        assert_eq!(arrival(&mut path, now, 1000), Some((now + 8 * MS, 0)), "nothing is left");
        assert_eq!(arrival(&mut path, now, 1000), Some((now + 16 * MS, 8 * MS)));
    }

    #[test]
    fn the_bits_of_a_trace_are_those_of_its_pieces() {
        let trace = Trace(vec![(0, 1e6), (SECOND, 2e6)]);
        assert_eq!(trace.bits(SECOND / 2, 2 * SECOND), 2.5e6);
    }
}
