//! One direction of a link: datagrams go in, and come out later, more than once, in another order
//! or not at all.
//!
//! ```text
//! send ─▶ outage? ─▶ burst? ─▶ loss? ─▶ queue of the rate limit ─▶ delay + jitter (+ reordering) ─▶ poll
//!                                                    duplicate ─▶ the same again ─▶
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::Random;

/// What a link carries: bytes, or bytes with an address.
pub trait Payload: Clone {
    /// Bytes on the wire, for the rate limit.
    fn wire_len(&self) -> usize;
}

impl Payload for Vec<u8> {
    fn wire_len(&self) -> usize {
        self.len()
    }
}

impl<T: Clone> Payload for (T, Vec<u8>) {
    fn wire_len(&self) -> usize {
        self.1.len()
    }
}

/// Impairments of a link. The default is perfect: no loss, no delay, no limit.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Probability that a datagram is lost, independently of others, `0.0..=1.0`.
    pub loss: f64,
    /// Losses in a row, on top of `loss`.
    pub burst: Option<Burst>,
    /// When nothing gets through.
    pub outages: Vec<Range<Instant>>,
    /// Minimum delay of a datagram.
    pub delay: Duration,
    /// Maximum additional delay, evenly distributed. Datagrams stay in order: a delayed one delays
    /// those behind it, as a queue does.
    pub jitter: Duration,
    /// Probability that later datagrams overtake this one: it alone takes up to `reorder_delay`
    /// longer.
    pub reorder: f64,
    /// Maximum additional delay of a reordered datagram.
    pub reorder_delay: Duration,
    /// Probability that a datagram arrives twice, the second up to 10 ms after the first.
    pub duplicate: f64,
    /// Bits per second the link carries; `None`: any.
    pub rate_bits_per_second: Option<u64>,
    /// Bytes that may wait for the rate limit; further ones are lost.
    pub queue_bytes_max: usize,
}

/// Two states, good and bad (Gilbert and Elliott); in the bad one everything is lost. How long each lasts is
/// exponentially distributed and does not depend on what is sent.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// Average time from the end of one burst to the beginning of the next.
    pub apart: Duration,
    /// Average length of a burst.
    pub lasts: Duration,
}

/// Counts of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Given to the link.
    pub sent: u64,
    /// Delivered, including duplicates.
    pub delivered: u64,
    /// Lost by chance, bursts and outages.
    pub lost: u64,
    /// Lost because the queue was full.
    pub overflowed: u64,
    /// Delivered twice.
    pub duplicated: u64,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            loss: 0.0,
            burst: None,
            outages: Vec::new(),
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            reorder: 0.0,
            reorder_delay: Duration::from_millis(30),
            duplicate: 0.0,
            rate_bits_per_second: None,
            queue_bytes_max: 64 * 1024,
        }
    }
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Link<T: Payload = Vec<u8>> {
    config: LinkConfig,
    random: Random,
    in_burst: bool,
    /// When a burst begins or ends next.
    burst_turns: Option<Instant>,
    /// When the rate limiter has sent everything in its queue.
    idle_at: Option<Instant>,
    /// When the last datagram that is not reordered arrives.
    last_arrival: Option<Instant>,
    under_way: BinaryHeap<Reverse<Arriving<T>>>,
    statistics: Statistics,
}

impl<T: Payload> Link<T> {
    /// A link whose random decisions follow from `seed`.
    pub fn new(config: LinkConfig, seed: u64) -> Self {
        Self {
            config,
            random: Random::new(seed),
            in_burst: false,
            burst_turns: None,
            idle_at: None,
            last_arrival: None,
            under_way: BinaryHeap::new(),
            statistics: Statistics::default(),
        }
    }

    /// Changes the impairments from now on; datagrams in flight are not affected.
    pub fn set_config(&mut self, config: LinkConfig) {
        self.config = config;
    }

    /// Gives a datagram to the link.
    pub fn send(&mut self, now: Instant, datagram: T) {
        self.statistics.sent += 1;
        if self.loses(now) {
            self.statistics.lost += 1;
            return;
        }
        let Some(departure) = self.departure(now, datagram.wire_len()) else {
            self.statistics.overflowed += 1;
            return;
        };
        let mut arrival = departure + self.config.delay + self.random.up_to(self.config.jitter);
        if self.random.chance(self.config.reorder) {
            arrival += self.random.up_to(self.config.reorder_delay);
        } else {
            arrival = self.last_arrival.map_or(arrival, |last| last.max(arrival));
            self.last_arrival = Some(arrival);
        }
        if self.random.chance(self.config.duplicate) {
            self.statistics.duplicated += 1;
            let again = arrival + self.random.up_to(Duration::from_millis(10));
            self.arrive(again, datagram.clone());
        }
        self.arrive(arrival, datagram);
    }

    /// The next datagram that has arrived by `now`; call it until there is none.
    pub fn poll(&mut self, now: Instant) -> Option<T> {
        if self.under_way.peek()?.0.at > now {
            return None;
        }
        self.statistics.delivered += 1;
        self.under_way.pop().map(|Reverse(arriving)| arriving.datagram)
    }

    /// When the next datagram arrives.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.under_way.peek().map(|Reverse(arriving)| arriving.at)
    }

    /// Counts so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    fn loses(&mut self, now: Instant) -> bool {
        // One random number per datagram, so that an outage does not change the fate of later ones.
        let by_chance = self.random.chance(self.config.loss);
        by_chance || self.is_in_burst(now) || self.config.outages.iter().any(|outage| outage.contains(&now))
    }

    fn is_in_burst(&mut self, now: Instant) -> bool {
        let Some(burst) = self.config.burst else { return false };
        let mut turns = match self.burst_turns {
            Some(turns) => turns,
            None => now + self.random.about(burst.apart),
        };
        while turns <= now {
            self.in_burst = !self.in_burst;
            // With a length of zero this would never end.
            let length = self.random.about(if self.in_burst { burst.lasts } else { burst.apart });
            turns += length.max(Duration::from_micros(1));
        }
        self.burst_turns = Some(turns);
        self.in_burst
    }

    /// When the last bit of a datagram leaves the rate limiter; `None` if the queue is full.
    fn departure(&mut self, now: Instant, len: usize) -> Option<Instant> {
        let Some(rate) = self.config.rate_bits_per_second else { return Some(now) };
        let begins = self.idle_at.map_or(now, |idle| idle.max(now));
        let waiting_bytes = (begins - now).as_secs_f64() * rate as f64 / 8.0;
        if waiting_bytes + len as f64 > self.config.queue_bytes_max as f64 {
            return None;
        }
        let ends = begins + Duration::from_secs_f64(len as f64 * 8.0 / rate as f64);
        self.idle_at = Some(ends);
        Some(ends)
    }

    fn arrive(&mut self, at: Instant, datagram: T) {
        let number = self.statistics.sent;
        self.under_way.push(Reverse(Arriving { at, number, datagram }));
    }
}

/// A datagram in flight, ordered by arrival and then by sending.
#[derive(Clone, Debug)]
struct Arriving<T> {
    at: Instant,
    number: u64,
    datagram: T,
}

impl<T> PartialEq for Arriving<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Arriving<T> {}

impl<T> PartialOrd for Arriving<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Arriving<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;

    const MS: Duration = Duration::from_millis(1);

    /// Sends `count` numbered datagrams of 100 bytes, one a millisecond; number and age of each that arrives.
    fn run(config: LinkConfig, count: u32) -> (Vec<(u32, Duration)>, Statistics) {
        let mut clock = Clock::new();
        let start = clock.now();
        let mut link = Link::new(config, 42);
        let mut arrived = Vec::new();
        let mut collect = |link: &mut Link, clock: &mut Clock, until: Option<Instant>| {
            while let Some(at) = link.next_timeout().filter(|at| until.is_none_or(|until| *at <= until)) {
                clock.advance_to(at);
                while let Some(datagram) = link.poll(clock.now()) {
                    let number = u32::from_be_bytes(*datagram.first_chunk().unwrap());
                    arrived.push((number, clock.now() - (start + number * MS)));
                }
            }
        };
        for number in 0..count {
            let at = start + number * MS;
            collect(&mut link, &mut clock, Some(at));
            clock.advance_to(at);
            let mut datagram = vec![0; 100];
            datagram[..4].copy_from_slice(&number.to_be_bytes());
            link.send(clock.now(), datagram);
        }
        collect(&mut link, &mut clock, None);
        assert_eq!(link.poll(clock.now()), None);
        (arrived, link.statistics())
    }

    fn numbers(arrived: &[(u32, Duration)]) -> Vec<u32> {
        arrived.iter().map(|(number, _)| *number).collect()
    }

    #[test]
    fn a_perfect_link_delivers_everything_at_once() {
        let (arrived, statistics) = run(LinkConfig::default(), 1000);
        assert_eq!(numbers(&arrived), (0..1000).collect::<Vec<_>>());
        assert!(arrived.iter().all(|(_, age)| age.is_zero()));
        assert_eq!(statistics, Statistics { sent: 1000, delivered: 1000, ..Statistics::default() });
    }

    #[test]
    fn loss_is_the_share_asked_for_and_a_seed_repeats_it() {
        for (loss, least, most) in [(0.01, 50, 150), (0.2, 1850, 2150), (1.0, 10_000, 10_000)] {
            let config = LinkConfig { loss, ..LinkConfig::default() };
            let (arrived, statistics) = run(config.clone(), 10_000);
            assert!((least..=most).contains(&statistics.lost), "{} lost of 10000 at {loss}", statistics.lost);
            assert_eq!(arrived.len() as u64 + statistics.lost, 10_000);
            assert_eq!(run(config, 10_000).0, arrived);
        }
    }

    #[test]
    fn bursts_lose_in_a_row() {
        let burst = Burst { apart: 100 * MS, lasts: 10 * MS };
        let (arrived, statistics) = run(LinkConfig { burst: Some(burst), ..LinkConfig::default() }, 50_000);
        let bursts = numbers(&arrived).windows(2).filter(|pair| pair[1] != pair[0] + 1).count() as u64;
        let mean = statistics.lost / bursts;
        assert!((8..=12).contains(&mean), "{} lost in {bursts} bursts", statistics.lost);
        assert!((400..=500).contains(&bursts), "{bursts} bursts in 50 s");
    }

    #[test]
    fn outages_lose_everything() {
        let mut clock = Clock::new();
        let outages = vec![clock.at(100 * MS)..clock.at(300 * MS)];
        let mut link = Link::new(LinkConfig { outages, ..LinkConfig::default() }, 1);
        for number in 0..1000u32 {
            link.send(clock.now(), number.to_be_bytes().to_vec());
            let arrives = link.poll(clock.now()).is_some();
            assert_eq!(arrives, !(100..300).contains(&number), "datagram {number}");
            clock.advance(MS);
        }
    }

    #[test]
    fn jitter_keeps_the_order_and_reordering_does_not() {
        let config = LinkConfig { delay: 20 * MS, jitter: 100 * MS, ..LinkConfig::default() };
        let (arrived, _) = run(config, 1000);
        assert_eq!(numbers(&arrived), (0..1000).collect::<Vec<_>>());
        assert!(arrived.iter().all(|(_, age)| (20 * MS..=120 * MS).contains(age)));
        assert!(arrived.iter().any(|(_, age)| *age > 80 * MS));

        let config = LinkConfig { reorder: 0.1, ..LinkConfig::default() };
        let (arrived, _) = run(config, 1000);
        let order = numbers(&arrived);
        assert!(!order.is_sorted());
        let overtaken = order.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!((50..=150).contains(&overtaken), "{overtaken} overtaken");
        let mut sorted = order;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn duplicates_come_twice() {
        let (arrived, statistics) = run(LinkConfig { duplicate: 0.2, ..LinkConfig::default() }, 1000);
        assert_eq!(arrived.len() as u64, 1000 + statistics.duplicated);
        assert!((150..=250).contains(&statistics.duplicated));
    }

    #[test]
    fn a_rate_limit_delays_and_a_full_queue_loses() {
        // 100 bytes a millisecond are 800 kbit/s; half of that gets through, and ten datagrams wait.
        let config = LinkConfig {
            rate_bits_per_second: Some(400_000),
            queue_bytes_max: 1000,
            ..LinkConfig::default()
        };
        let (arrived, statistics) = run(config, 1000);
        assert!((490..=515).contains(&arrived.len()), "{} arrived", arrived.len());
        assert_eq!(statistics.overflowed, 1000 - arrived.len() as u64);
        assert_eq!(arrived[0].1, 2 * MS, "one datagram takes 2 ms");
        assert!(arrived.iter().all(|(_, age)| *age <= 21 * MS), "ten wait at most");
    }
}
