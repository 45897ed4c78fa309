//! A bottleneck: a queue in front of a rate that changes with time, then delay, loss, outages and
//! reordering.

use netsim::Random;

/// Microseconds of virtual time.
pub(crate) type Us = u64;
pub(crate) const MS: Us = 1000;
pub(crate) const SECOND: Us = 1_000_000;

/// Bits per second from each moment on, in order; the first is at 0.
#[derive(Clone, Debug)]
pub(crate) struct Trace(pub(crate) Vec<(Us, f64)>);

impl Trace {
    pub(crate) fn constant(rate: f64) -> Self {
        Self(vec![(0, rate)])
    }

    /// Radio as a phone sees it: the logarithm of the rate wanders around that of 2 Mbit/s
    /// (standard deviation 0.45, which it forgets in 3 s), in steps of 100 ms.
    pub(crate) fn lte(seed: u64, end: Us) -> Self {
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

    pub(crate) fn at(&self, now: Us) -> f64 {
        self.0[self.0.partition_point(|(from, _)| *from <= now) - 1].1
    }

    /// Bits from `from` to `to`.
    pub(crate) fn bits(&self, from: Us, to: Us) -> f64 {
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

#[derive(Clone, Debug)]
pub(crate) struct PathConfig {
    pub(crate) trace: Trace,
    /// What would have to wait longer is lost.
    pub(crate) queue_max: Us,
    /// Packets that waited longer are marked, if any are.
    pub(crate) mark_above: Option<Us>,
    /// One way.
    pub(crate) delay: Us,
    pub(crate) loss: f64,
    /// Nothing arrives of what is sent in these.
    pub(crate) outages: Vec<(Us, Us)>,
    /// Share of packets that take up to 20 ms longer, and are overtaken.
    pub(crate) reorder: f64,
    /// The radio hands on what is through at multiples of this.
    pub(crate) grant: Us,
    /// Most that a packet is held up, and all behind it.
    pub(crate) jitter: Us,
}

impl PathConfig {
    /// Nothing but a rate, a delay and a queue.
    pub(crate) fn plain(trace: Trace, delay: Us, queue_max: Us) -> Self {
        Self {
            trace,
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
pub(crate) enum Fate {
    Arrives { at: Us, waited: Us, marked: bool },
    Overflow,
    Lost,
}

pub(crate) struct Path {
    pub(crate) config: PathConfig,
    random: Random,
    idle_at: Us,
    last_arrival: Us,
}

impl Path {
    pub(crate) fn new(config: PathConfig, seed: u64) -> Self {
        Self { config, random: Random::new(seed), idle_at: 0, last_arrival: 0 }
    }

    pub(crate) fn send(&mut self, now: Us, bytes: usize) -> Fate {
        let lost = self.random.chance(self.config.loss);
        let (reordered, later) = (self.random.chance(self.config.reorder), self.random.below(20 * MS));
        let begins = self.idle_at.max(now);
        let ends = self.config.trace.served(begins, bytes as f64 * 8.0);
        if begins - now > self.config.queue_max {
            return Fate::Overflow;
        }
        self.idle_at = ends;
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
        let waited = begins - now;
        Fate::Arrives { at, waited, marked: self.config.mark_above.is_some_and(|limit| waited > limit) }
    }
}
