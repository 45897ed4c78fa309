//! Peers of one address family: a flat table of buckets, and a hash map for the overflow.
//!
//! A peer is in the bucket that its hash selects or, if that was full on insertion, in the map.
//! Keys and hashing are in `key.rs`, limits in `peer_table.rs`.

use super::key::{PeerKey, Secret};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

/// Key of one address family.
pub(super) trait FamilyKey: Copy + Eq + Hash + Into<PeerKey> {
    /// No peer's key.
    const VACANT: Self;

    /// Twice as many after growing.
    const BUCKETS_PER_PEER_MIN: usize;

    fn hash_with(self, secret: &Secret) -> u32;

    /// `==`, without a branch in it.
    fn is(self, other: Self) -> bool;
}

#[derive(Clone, Debug)]
pub(super) struct Flat<K, T> {
    /// None before the first peer, then a power of two.
    buckets: Box<[Bucket<K, T>]>,
    /// By bucket, how many peers of it are in the map. Read only when the bucket does not have a
    /// peer, so that a bucket of IPv4 peers and small values is one cache line.
    displaced_from: Box<[u8]>,
    /// 32 less the number of bits that choose a bucket.
    shift: u32,
    /// Peers in buckets.
    len_in_buckets: usize,
    /// Peers whose bucket was full when they came.
    displaced: HashMap<K, T>,
}

impl<K: FamilyKey, T> Flat<K, T> {
    pub(super) fn new() -> Self {
        Self {
            buckets: Box::default(),
            displaced_from: Box::default(),
            shift: 0,
            len_in_buckets: 0,
            displaced: HashMap::new(),
        }
    }

    /// Adds a peer that is not there.
    pub(super) fn insert_new(&mut self, secret: &Secret, key: K, value: T) {
        if self.len() * K::BUCKETS_PER_PEER_MIN >= self.buckets.len() {
            self.grow(secret);
        }
        self.insert_into_bucket(secret, key, value);
    }

    pub(super) fn remove(&mut self, secret: &Secret, key: K) -> Option<T> {
        let number = self.bucket_number(secret, key);
        let bucket = self.buckets.get_mut(number)?;
        if let Some(value) = bucket.remove(key) {
            self.len_in_buckets -= 1;
            return Some(value);
        }
        let value = self.displaced.remove(&key)?;
        let count = &mut self.displaced_from[number];
        // A full counter has lost count; it stays until the table grows.
        if *count < u8::MAX {
            *count -= 1;
        }
        Some(value)
    }

    pub(super) fn clear(&mut self) {
        self.buckets.fill_with(Bucket::vacant);
        self.displaced_from.fill(0);
        self.len_in_buckets = 0;
        self.displaced.clear();
    }

    #[inline]
    pub(super) fn get(&self, secret: &Secret, key: K) -> Option<&T> {
        let number = self.bucket_number(secret, key);
        let bucket = self.buckets.get(number)?;
        match bucket.values.get(bucket.position(key)) {
            Some(value) => value.as_ref(),
            None => self.get_displaced(number, key),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, secret: &Secret, key: K) -> Option<&mut T> {
        let number = self.bucket_number(secret, key);
        let bucket = self.buckets.get_mut(number)?;
        let position = bucket.position(key);
        match bucket.values.get_mut(position) {
            Some(value) => value.as_mut(),
            None if self.displaced_from[number] == 0 => None,
            None => self.displaced.get_mut(&key),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len_in_buckets + self.displaced.len()
    }

    pub(super) fn displaced(&self) -> usize {
        self.displaced.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PeerKey, &T)> {
        let placed = self.buckets.iter().flat_map(|bucket| bucket.keys.iter().zip(&bucket.values));
        let placed = placed.filter_map(|(&key, value)| Some((key.into(), value.as_ref()?)));
        placed.chain(self.displaced.iter().map(|(&key, value)| (key.into(), value)))
    }

    #[cfg(test)]
    pub(super) fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Whether the table is as if it never had a peer.
    #[cfg(test)]
    pub(super) fn is_as_new(&self) -> bool {
        self.displaced_from.iter().all(|&count| count == 0)
            && self
                .buckets
                .iter()
                .all(|bucket| bucket.position(K::VACANT) == 0 && bucket.keys[1].is(K::VACANT))
    }

    /// Out of line: inlined, it would take registers from the case that counts.
    #[cold]
    #[inline(never)]
    fn get_displaced(&self, number: usize, key: K) -> Option<&T> {
        if self.displaced_from[number] == 0 { None } else { self.displaced.get(&key) }
    }

    #[inline]
    fn bucket_number(&self, secret: &Secret, key: K) -> usize {
        (key.hash_with(secret) >> self.shift) as usize
    }

    fn insert_into_bucket(&mut self, secret: &Secret, key: K, value: T) {
        let number = self.bucket_number(secret, key);
        let bucket = &mut self.buckets[number];
        if let Some(vacant) = bucket.keys.iter().position(|&key| key.is(K::VACANT)) {
            bucket.keys[vacant] = key;
            bucket.values[vacant] = Some(value);
            self.len_in_buckets += 1;
        } else {
            self.displaced_from[number] = self.displaced_from[number].saturating_add(1);
            self.displaced.insert(key, value);
        }
    }

    /// Doubles the buckets and rehashes all peers.
    fn grow(&mut self, secret: &Secret) {
        let len = (self.buckets.len() * 2).max(BUCKETS_MIN);
        let mut old = std::mem::replace(self, Self::new());
        self.buckets = (0..len).map(|_| Bucket::vacant()).collect();
        self.displaced_from = vec![0; len].into_boxed_slice();
        self.shift = u32::BITS - len.trailing_zeros();
        for bucket in &mut old.buckets {
            for (&key, value) in bucket.keys.iter().zip(&mut bucket.values) {
                if let Some(value) = value.take() {
                    self.insert_into_bucket(secret, key, value);
                }
            }
        }
        // The old map keeps its memory and its secret.
        for (key, value) in old.displaced.drain() {
            self.insert_into_bucket(secret, key, value);
        }
    }
}

/// Two slots for peers. A vacant slot has both the key `VACANT` and the value `None`.
///
/// With an IPv4 key and a small value it is half a cache line, all of it read at once. One slot per
/// bucket, four per peer, took 1 ns longer for a hit at 10,000 peers, since 7 % of them were in the
/// map; four slots per bucket took 1.5 ns longer, for all of them are compared (`cargo run
/// --release --bin peer-table` in bench/).
#[derive(Clone, Debug)]
#[repr(align(32))]
struct Bucket<K, T> {
    keys: [K; WAYS],
    values: [Option<T>; WAYS],
}

impl<K: FamilyKey, T> Bucket<K, T> {
    fn vacant() -> Self {
        Self { keys: [K::VACANT; WAYS], values: [const { None }; WAYS] }
    }

    /// Where `key` is, [`WAYS`] if it is not here. The first comparison is no branch: where a peer
    /// is, no predictor knows.
    #[inline]
    fn position(&self, key: K) -> usize {
        let candidate = usize::from(!self.keys[0].is(key));
        if self.keys[candidate].is(key) { candidate } else { WAYS }
    }

    fn remove(&mut self, key: K) -> Option<T> {
        let position = self.position(key);
        let value = self.values.get_mut(position)?;
        self.keys[position] = K::VACANT;
        value.take()
    }
}

const WAYS: usize = 2;

const BUCKETS_MIN: usize = 16;

/// IPv4 address and port in 48 bits.
#[derive(Clone, Copy, Debug, Eq)]
pub(super) struct Ipv4Key(pub(super) u64);

impl FamilyKey for Ipv4Key {
    const VACANT: Self = Self(u64::MAX);
    /// 3.3 % to 0.9 % of the peers are displaced.
    const BUCKETS_PER_PEER_MIN: usize = 2;

    #[inline]
    fn hash_with(self, secret: &Secret) -> u32 {
        secret.hash_ipv4(self.0)
    }

    #[inline]
    fn is(self, other: Self) -> bool {
        self.0 == other.0
    }
}

impl From<Ipv4Key> for PeerKey {
    fn from(Ipv4Key(word): Ipv4Key) -> Self {
        Self { words: [word, 0, 0] }
    }
}

/// IPv6 address in two words; scope id and port in a third.
#[derive(Clone, Copy, Debug, Eq)]
pub(super) struct Ipv6Key(pub(super) [u64; 3]);

impl FamilyKey for Ipv6Key {
    const VACANT: Self = Self([u64::MAX; 3]);
    /// 10 % to 3.3 % of the peers are displaced. With two, 10,000 peers do not fit into a
    /// second-level cache of 2 MB, and misses lose several times what hits gain.
    const BUCKETS_PER_PEER_MIN: usize = 1;

    #[inline]
    fn hash_with(self, secret: &Secret) -> u32 {
        secret.hash_ipv6(self.0)
    }

    #[inline]
    fn is(self, other: Self) -> bool {
        let (Self([a, b, c]), Self([x, y, z])) = (self, other);
        (a ^ x) | (b ^ y) | (c ^ z) == 0
    }
}

impl From<Ipv6Key> for PeerKey {
    fn from(Ipv6Key(words): Ipv6Key) -> Self {
        Self { words }
    }
}

/// Used by the map; tests count how often.
impl PartialEq for Ipv4Key {
    fn eq(&self, other: &Self) -> bool {
        #[cfg(test)]
        super::tests::count_comparison();
        self.is(*other)
    }
}

impl PartialEq for Ipv6Key {
    fn eq(&self, other: &Self) -> bool {
        #[cfg(test)]
        super::tests::count_comparison();
        self.is(*other)
    }
}

impl Hash for Ipv4Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

impl Hash for Ipv6Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        PeerKey::from(*self).hash(state);
    }
}
