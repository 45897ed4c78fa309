//! How often one address may ask: a token bucket each.
//!
//! Reading an offer and guessing a token both cost the control thread time, and there is one.
//! Buckets of addresses that have been quiet are full and need not be kept; when the table is full
//! of busy ones, newcomers share one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::network;

/// Addresses with a bucket of their own.
const ADDRESSES_MAX: usize = 8192;
/// A bucket holds this many seconds' worth of requests.
const BURST_SECONDS: u32 = 2;

/// Requests of all addresses.
#[derive(Debug)]
pub struct RateLimit {
    /// Requests a second; 0 sets no limit.
    per_second: AtomicU32,
    buckets: Mutex<Buckets>,
}

#[derive(Debug, Default)]
struct Buckets {
    by_network: HashMap<IpAddr, Bucket>,
    shared: Option<Bucket>,
}

/// When the bucket would be full again: later for one that is emptier (the generic cell rate algorithm).
#[derive(Debug, Clone, Copy)]
struct Bucket {
    full_at: Instant,
}

impl RateLimit {
    /// `per_second` requests of one address on average, twice as many at once.
    pub fn new(per_second: u32) -> Self {
        Self { per_second: AtomicU32::new(per_second), buckets: Mutex::default() }
    }

    /// Sets another rate.
    pub fn set(&self, per_second: u32) {
        self.per_second.store(per_second, Ordering::Relaxed);
    }

    /// Takes one request of `address` at `now`; the error says how long to wait.
    pub fn take(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let per_second = self.per_second.load(Ordering::Relaxed);
        if per_second == 0 {
            return Ok(());
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let one = Duration::from_secs(1) / per_second;
        // Exactly the requests of the burst fit, however `one` was rounded.
        buckets.of(network(address), now).take(one, one * (per_second * BURST_SECONDS), now)
    }
}

impl Buckets {
    fn of(&mut self, network: IpAddr, now: Instant) -> &mut Bucket {
        if self.by_network.len() >= ADDRESSES_MAX && !self.by_network.contains_key(&network) {
            self.by_network.retain(|_, bucket| bucket.full_at > now);
        }
        if self.by_network.len() >= ADDRESSES_MAX && !self.by_network.contains_key(&network) {
            return self.shared.get_or_insert(Bucket { full_at: now });
        }
        self.by_network.entry(network).or_insert(Bucket { full_at: now })
    }
}

impl Bucket {
    fn take(&mut self, one: Duration, burst: Duration, now: Instant) -> Result<(), Duration> {
        let full_at = self.full_at.max(now) + one;
        match full_at.duration_since(now).checked_sub(burst) {
            Some(over) if over > Duration::ZERO => Err(over),
            _ => {
                self.full_at = full_at;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn ip(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(number).into()
    }

    #[test]
    fn twice_a_second_at_once_then_one_by_one() {
        let (limit, now) = (RateLimit::new(3), start());
        let taken = (0..100).filter(|_| limit.take(ip(1), now).is_ok()).count();
        assert_eq!(taken, 6);
        let wait = limit.take(ip(1), now).expect_err("empty");
        assert!(wait > Duration::ZERO && wait <= Duration::from_millis(334), "{wait:?}");
        assert!(limit.take(ip(2), now).is_ok(), "another address has its own");
        assert!(limit.take(ip(1), now + wait).is_ok(), "as long as it was told to wait");
        assert!(limit.take(ip(1), now + wait).is_err());
        let later = now + Duration::from_secs(3600);
        assert_eq!((0..100).filter(|_| limit.take(ip(1), later).is_ok()).count(), 6, "no more is saved up");
    }

    #[test]
    fn zero_is_no_limit() {
        let (limit, now) = (RateLimit::new(0), start());
        assert!((0..10_000).all(|_| limit.take(ip(1), now).is_ok()));
    }

    #[test]
    fn the_table_is_bounded_and_quiet_addresses_make_room() {
        let (limit, now) = (RateLimit::new(1), start());
        for number in 0..ADDRESSES_MAX as u32 {
            assert!(limit.take(ip(number), now).is_ok());
        }
        let newcomers = (0..100).filter(|number| limit.take(ip(1 << 24 | number), now).is_ok()).count();
        assert_eq!(newcomers, 2, "they share one bucket");
        let later = now + Duration::from_secs(10);
        let newcomers = (0..100).filter(|number| limit.take(ip(1 << 24 | number), later).is_ok()).count();
        assert_eq!(newcomers, 100);
        let kept = limit.buckets.lock().expect("not poisoned").by_network.len();
        assert_eq!(kept, 100);
    }
}
