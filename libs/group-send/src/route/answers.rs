//! The kernel's decisions for destinations, kept by address.
//!
//! Addresses are chosen by others, an attacker among them (ICE candidates), so the hash is keyed at
//! random and the number of answers is bounded by [`ANSWERS_MAX`].

use super::Unresolved;
use crate::netlink::objects::Route;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};

/// Destinations remembered, at most: about 10 MB. Beyond, all are forgotten and asked for again as
/// they come.
pub(super) const ANSWERS_MAX: usize = 65_536;

/// A usable route: the neighbour on the link, and what depends on the route alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResolvedRoute {
    /// The gateway, or the destination if it is on the link.
    pub(super) neighbour: IpAddr,
    pub(super) source: IpAddr,
    pub(super) mtu: u32,
    pub(super) hop_limit: u8,
}

/// A decision, and the MAC address that was joined to it. 64 bytes: at ten thousand destinations
/// the look-up waits for memory and for nothing else.
pub(super) struct Answer {
    pub(super) decision: Result<ResolvedRoute, Unresolved>,
    /// Right as long as `generation` is the table's.
    pub(super) destination_mac: [u8; 6],
    /// 0 as long as there was no MAC address.
    pub(super) generation: u64,
    /// Resolved since it was asked for.
    pub(super) used: bool,
    /// The port whose datagrams go through the socket to confirm the neighbour; 0 for none.
    pub(super) confirming_port: u16,
    /// In tenths of a second, which fit for 13 years.
    asked_tenths: u32,
}

const _: () = assert!(size_of::<Answer>() <= 64);

impl Answer {
    pub(super) fn new(decision: Result<ResolvedRoute, Unresolved>, asked_ms: u64) -> Self {
        Self {
            decision,
            destination_mac: [0; 6],
            generation: 0,
            used: false,
            confirming_port: 0,
            asked_tenths: tenths(asked_ms),
        }
    }
}

#[derive(Default)]
pub(super) struct Answers {
    by_address: HashMap<u128, Answer, Seed>,
    /// The same keys in the order of asking.
    asked: VecDeque<u128>,
}

impl Answers {
    #[inline]
    pub(super) fn get_mut(&mut self, address: IpAddr) -> Option<&mut Answer> {
        self.by_address.get_mut(&key(address))
    }

    pub(super) fn insert(&mut self, address: IpAddr, answer: Answer) {
        let key = key(address);
        if self.by_address.insert(key, answer).is_none() {
            self.asked.push_back(key);
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.by_address.len() >= ANSWERS_MAX
    }

    /// Takes the oldest answer if it was asked for at `limit_ms` or before, and says whether it was
    /// used since. Then it counts as asked for at `now_ms`; else it is removed.
    pub(super) fn pop_older_than(&mut self, limit_ms: u64, now_ms: u64) -> Option<(IpAddr, bool)> {
        let key = *self.asked.front()?;
        let answer =
            self.by_address.get_mut(&key).filter(|answer| answer.asked_tenths <= tenths(limit_ms))?;
        let used = std::mem::replace(&mut answer.used, false);
        answer.asked_tenths = tenths(now_ms);
        self.asked.pop_front();
        if used {
            self.asked.push_back(key);
        } else {
            self.by_address.remove(&key);
        }
        Some((Ipv6Addr::from_bits(key).to_canonical(), used))
    }

    /// Forgets the answers for addresses within a route's prefix.
    pub(super) fn forget_within(&mut self, route: &Route) {
        let (prefix, length) = match route.destination {
            Some(prefix) => {
                (key(prefix), u32::from(route.prefix_len) + if prefix.is_ipv4() { 96 } else { 0 })
            }
            None => return self.forget_family(route.family),
        };
        let host_bits = 128 - length.min(128);
        let outside = |key: u128| (key ^ prefix).checked_shr(host_bits).unwrap_or(0) != 0;
        self.by_address.retain(|key, _| outside(*key));
        self.asked.retain(|key| outside(*key));
    }

    /// Forgets all of an address family: a default route has changed.
    fn forget_family(&mut self, family: u8) {
        let ipv4 = family == crate::netlink::objects::AF_INET;
        let other = |key: u128| (key >> 32 == IPV4_MAPPED >> 32) != ipv4;
        self.by_address.retain(|key, _| other(*key));
        self.asked.retain(|key| other(*key));
    }

    pub(super) fn clear(&mut self) {
        self.by_address.clear();
        self.asked.clear();
    }
}

fn tenths(ms: u64) -> u32 {
    (ms / 100) as u32
}

/// An address as a number: IPv4 in its IPv4-mapped form.
#[inline]
pub(super) fn key(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => IPV4_MAPPED | u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

const IPV4_MAPPED: u128 = 0xffff_0000_0000;

/// Hashes an address by two multiplications with secret factors, each folded: 2 ns, where SipHash
/// takes 15.
#[derive(Clone)]
pub(super) struct Seed(u64, u64);

impl Default for Seed {
    fn default() -> Self {
        let random = RandomState::new();
        Self(random.hash_one(0_u8), random.hash_one(1_u8))
    }
}

impl BuildHasher for Seed {
    type Hasher = Folded;

    #[inline]
    fn build_hasher(&self) -> Folded {
        Folded { seed: self.clone(), hash: 0 }
    }
}

pub(super) struct Folded {
    seed: Seed,
    hash: u64,
}

impl Hasher for Folded {
    #[inline]
    fn write_u128(&mut self, value: u128) {
        let mixed = fold((value >> 64) as u64 ^ self.seed.0, value as u64 ^ self.seed.1);
        self.hash = fold(self.hash ^ mixed, self.seed.0 | 1);
    }

    fn write(&mut self, bytes: &[u8]) {
        // Not reached: keys are `u128`. Right all the same.
        bytes.iter().for_each(|byte| self.write_u128(u128::from(*byte)));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }
}

/// Upper and lower half of a product, combined.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
