//! What one token, and one client address, use at a time: connections, how often they connect, bits per
//! second.
//!
//! A session that publishes or plays holds a [`Uses`] for as long as it does. Whether there is room is asked
//! when it comes, once; who is there goes on. Bytes are reported once a second and session, and only where
//! they are limited, so that nothing is counted per packet. Tokens are known by a hash.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::network;

/// Tokens and addresses that are remembered although nobody uses them, at most. Beyond, those are forgotten
/// that have not connected for a while.
const REMEMBERED_MAX: usize = 16_384;
/// So many seconds' worth of connections may come at once.
const BURST_SECONDS: u32 = 2;

/// Limits of one token, and of one address (IPv6: /64), over all workers. Zero: any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageLimits {
    /// Sessions with one token at a time.
    pub connections_per_token: u32,
    /// Sessions with one token that may begin in a second, on average; twice as many at once.
    pub connects_per_second_per_token: u32,
    /// Bits per second of all sessions with one token.
    pub bits_per_second_per_token: u64,
    /// Bits per second of all sessions of one address.
    pub bits_per_second_per_address: u64,
}

impl UsageLimits {
    fn of_tokens(&self) -> bool {
        (self.connections_per_token, self.connects_per_second_per_token) != (0, 0)
            || self.bits_per_second_per_token != 0
    }

    /// Whether somebody has to report bytes.
    pub fn counts_bytes(&self) -> bool {
        self.bits_per_second_per_token != 0 || self.bits_per_second_per_address != 0
    }
}

/// What there is too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exceeded {
    /// Sessions with the token.
    TokenConnections,
    /// Sessions with the token that begin.
    TokenRate,
    /// What sessions with the token carry.
    TokenBitrate,
    /// What sessions of the address carry.
    AddressBitrate,
}

impl Exceeded {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::TokenConnections, Self::TokenRate, Self::TokenBitrate, Self::AddressBitrate];

    /// One sentence for the peer and the log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::TokenConnections => "the token has as many connections as it may",
            Self::TokenRate => "the token connects too often",
            Self::TokenBitrate => "the connections of the token have as many bits per second as they may",
            Self::AddressBitrate => "the connections of the address have as many bits per second as they may",
        }
    }

    /// Name in the metrics and, with `too_much_`, in API errors.
    pub fn label(self) -> &'static str {
        match self {
            Self::TokenConnections => "token_connections",
            Self::TokenRate => "token_rate",
            Self::TokenBitrate => "token_bitrate",
            Self::AddressBitrate => "address_bitrate",
        }
    }
}

/// What all tokens and addresses use. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Usage(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    hasher: RandomState,
    used: Mutex<Table>,
    refused: [AtomicU64; Exceeded::ALL.len()],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Token(u64),
    Address(IpAddr),
}

#[derive(Debug, Default)]
struct Table(HashMap<Key, Used>);

impl Table {
    /// When it has connected last is still to be known where that is limited.
    fn forget_if_unused(&mut self, key: Key) {
        if self.0.get(&key).is_some_and(|used| used.connections == 0 && used.full_at.is_none()) {
            self.0.remove(&key);
        }
    }
}

/// What one of them uses.
#[derive(Debug, Default)]
struct Used {
    connections: u32,
    /// When as many may come at once again as ever (the generic cell rate algorithm).
    full_at: Option<Instant>,
    meter: Arc<Meter>,
}

/// Bytes of a second, and of the one before.
#[derive(Debug, Default)]
struct Meter {
    second: AtomicU64,
    now: AtomicU64,
    before: AtomicU64,
}

impl Meter {
    /// Workers report the same second at about the same time; what comes between the statements of another
    /// is counted in one second or the other.
    fn note(&self, second: u64, bytes: u64) {
        let noted = self.second.swap(second, Ordering::Relaxed);
        if noted < second {
            let last = self.now.swap(0, Ordering::Relaxed);
            self.before.store(if noted + 1 == second { last } else { 0 }, Ordering::Relaxed);
        }
        self.now.fetch_add(bytes, Ordering::Relaxed);
    }

    fn bits_per_second(&self, second: u64) -> u64 {
        let now = self.now.load(Ordering::Relaxed);
        let bytes = match second.saturating_sub(self.second.load(Ordering::Relaxed)) {
            0 => now.max(self.before.load(Ordering::Relaxed)),
            // What is reported for this second is on its way.
            1 | 2 => now,
            _ => 0,
        };
        bytes.saturating_mul(8)
    }
}

impl Usage {
    /// A session of `address` begins that shows `token`; `second` counts seconds.
    ///
    /// # Errors
    /// What there is too much of already.
    pub fn take(
        &self,
        limits: &UsageLimits,
        (token, address): (Option<&str>, IpAddr),
        now: Instant,
        second: u64,
    ) -> Result<Uses, Exceeded> {
        let token = token.filter(|_| limits.of_tokens());
        let token = token.map(|token| Key::Token(self.0.hasher.hash_one(token)));
        let address = (limits.bits_per_second_per_address != 0).then(|| Key::Address(network(address)));
        let mut uses = Uses { usage: self.clone(), token, address, meters: [None, None], reported: 0 };
        if token.is_none() && address.is_none() {
            return Ok(uses);
        }
        let mut used = self.0.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.0.len() >= REMEMBERED_MAX {
            used.0.retain(|_, used| used.connections > 0 || used.full_at.is_some_and(|at| at > now));
        }
        let checked = (|| {
            let is_over = |used: &Used, most: u64| most != 0 && used.meter.bits_per_second(second) >= most;
            if let Some(key) = address {
                let of_address = used.0.entry(key).or_default();
                if is_over(of_address, limits.bits_per_second_per_address) {
                    return Err(Exceeded::AddressBitrate);
                }
            }
            let Some(key) = token else { return Ok(()) };
            let of_token = used.0.entry(key).or_default();
            let most = limits.connections_per_token;
            if most != 0 && of_token.connections >= most {
                return Err(Exceeded::TokenConnections);
            }
            if is_over(of_token, limits.bits_per_second_per_token) {
                return Err(Exceeded::TokenBitrate);
            }
            of_token.connect(limits.connects_per_second_per_token, now)
        })();
        if let Err(exceeded) = checked {
            self.0.refused[exceeded as usize].fetch_add(1, Ordering::Relaxed);
            for key in [token, address].into_iter().flatten() {
                used.forget_if_unused(key);
            }
            // It holds nothing, and gives nothing back.
            (uses.token, uses.address) = (None, None);
            return Err(exceeded);
        }
        for (meter, key) in uses.meters.iter_mut().zip([token, address]) {
            if let Some(used) = key.and_then(|key| used.0.get_mut(&key)) {
                used.connections += 1;
                *meter = Some(Arc::clone(&used.meter));
            }
        }
        drop(used);
        Ok(uses)
    }

    /// How many were refused, by what there was too much of.
    pub fn refused(&self) -> impl Iterator<Item = (Exceeded, u64)> + '_ {
        Exceeded::ALL.into_iter().map(|of| (of, self.0.refused[of as usize].load(Ordering::Relaxed)))
    }
}

impl Used {
    fn connect(&mut self, per_second: u32, now: Instant) -> Result<(), Exceeded> {
        if per_second == 0 {
            return Ok(());
        }
        let one = Duration::from_secs(1) / per_second;
        let full_at = self.full_at.map_or(now, |at| at.max(now)) + one;
        // Exactly the connections of the burst fit, however `one` was rounded.
        if full_at.duration_since(now) > one * per_second * BURST_SECONDS {
            return Err(Exceeded::TokenRate);
        }
        self.full_at = Some(full_at);
        Ok(())
    }
}

/// What one session takes of the limits of its token and address. Dropping it gives that back.
#[derive(Debug)]
pub struct Uses {
    usage: Usage,
    token: Option<Key>,
    address: Option<Key>,
    meters: [Option<Arc<Meter>>; 2],
    /// Bytes of the session that were reported.
    reported: u64,
}

impl Uses {
    /// The session has passed so many bytes since it began, as of `second`.
    pub fn report(&mut self, second: u64, bytes: u64) {
        let new = bytes.saturating_sub(std::mem::replace(&mut self.reported, bytes));
        for meter in self.meters.iter().flatten() {
            meter.note(second, new);
        }
    }

    /// Whether it is of the same token.
    pub fn is_of(&self, token: Option<&str>) -> bool {
        let token = token.map(|token| Key::Token(self.usage.0.hasher.hash_one(token)));
        self.token.is_none() || self.token == token
    }
}

impl Drop for Uses {
    fn drop(&mut self) {
        if self.token.is_none() && self.address.is_none() {
            return;
        }
        let mut used = self.usage.0.used.lock().unwrap_or_else(PoisonError::into_inner);
        for key in [self.token, self.address].into_iter().flatten() {
            if let Some(of_key) = used.0.get_mut(&key) {
                of_key.connections -= 1;
            }
            used.forget_if_unused(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "192.0.2.1";

    #[expect(clippy::disallowed_methods, reason = "there is no other way to have an instant")]
    fn start() -> Instant {
        Instant::now()
    }

    fn of<'a>(token: Option<&'a str>, address: &str) -> (Option<&'a str>, IpAddr) {
        (token, address.parse().expect("an address"))
    }

    #[test]
    fn a_token_has_so_many_connections_and_no_other_has_fewer_for_it() {
        let (usage, now) = (Usage::default(), start());
        let limits = UsageLimits { connections_per_token: 2, ..UsageLimits::default() };
        let take = |token| usage.take(&limits, of(token, HERE), now, 0).map_err(Exceeded::label);
        let first = take(Some("a")).expect("one");
        let _second = take(Some("a")).expect("two");
        assert_eq!(take(Some("a")).map(drop), Err("token_connections"));
        let _others = [take(Some("b")), take(None), take(None), take(None)].map(|taken| taken.expect("room"));
        drop(first);
        let _third = take(Some("a")).expect("the place of the first");
        let refused: Vec<u64> = usage.refused().map(|(_, count)| count).collect();
        assert_eq!(refused, [1, 0, 0, 0]);
    }

    #[test]
    fn a_token_connects_so_often_and_twice_as_often_at_once() {
        let (usage, now) = (Usage::default(), start());
        let limits = UsageLimits { connects_per_second_per_token: 5, ..UsageLimits::default() };
        let take = |ms| {
            let at = now + Duration::from_millis(ms);
            usage.take(&limits, of(Some("a"), HERE), at, 0).map(drop).map_err(Exceeded::label)
        };
        (0..10).for_each(|_| take(0).expect("the burst"));
        assert_eq!(take(0), Err("token_rate"), "what has ended counts as well");
        take(200).expect("a fifth of a second");
        assert_eq!(take(200), Err("token_rate"));
    }

    #[test]
    fn bit_rates_are_those_of_all_sessions_and_refuse_who_comes() {
        let (usage, now) = (Usage::default(), start());
        let limits = UsageLimits {
            bits_per_second_per_token: 1_000,
            bits_per_second_per_address: 2_000,
            ..UsageLimits::default()
        };
        let take = |second, token, address| {
            usage.take(&limits, of(token, address), now, second).map_err(Exceeded::label)
        };
        let mut a = take(10, Some("a"), HERE).expect("nothing is used");
        let mut b = take(10, Some("b"), HERE).expect("nothing is used");
        a.report(11, 200);
        b.report(11, 40);
        assert_eq!(take(11, Some("a"), HERE).map(drop), Err("token_bitrate"));
        assert_eq!(take(12, Some("a"), "192.0.2.2").map(drop), Err("token_bitrate"), "wherever it is shown");
        take(12, Some("b"), HERE).expect("it uses less");
        take(12, None, HERE).expect("the address uses less");
        // Totals, and none of it twice.
        a.report(12, 200);
        take(13, Some("a"), HERE).expect("it has become silent");
        b.report(13, 40 + 300);
        assert_eq!(take(13, None, HERE).map(drop), Err("address_bitrate"));
        take(13, None, "192.0.2.2").expect("another address");
        drop((a, b));
        assert!(usage.0.used.lock().expect("whole").0.is_empty(), "nothing is kept of who has left");
    }

    #[test]
    fn a_flood_of_tokens_is_forgotten() {
        let (usage, now) = (Usage::default(), start());
        let limits = UsageLimits { connects_per_second_per_token: 1, ..UsageLimits::default() };
        for number in 0..REMEMBERED_MAX * 2 {
            let at = now + Duration::from_millis(number as u64);
            let token = number.to_string();
            drop(usage.take(&limits, of(Some(&token), HERE), at, 0).expect("its first"));
        }
        assert!(usage.0.used.lock().expect("whole").0.len() <= REMEMBERED_MAX);
    }

    #[test]
    fn nothing_is_looked_up_where_nothing_is_limited() {
        let (usage, now) = (Usage::default(), start());
        let uses = usage.take(&UsageLimits::default(), of(Some("a"), HERE), now, 0).expect("room");
        assert!(usage.0.used.lock().expect("whole").0.is_empty());
        drop(uses);
    }
}
