//! Peers of one address family: a flat table of buckets, and a hash map for the overflow.
//!
//! A peer is in the bucket that its hash selects or, if that was full on insertion, in the map. Of
//! each peer in a bucket eight more bits of the hash are kept aside, those of a bucket in one word:
//! that word says where a peer is, if it is there at all, and one key is compared. Keys and hashing
//! are in `key.rs`, limits in `peer_table.rs`.

use super::key::{PeerKey, Secret};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

/// Key of one address family.
pub(super) trait FamilyKey: Copy + Eq + Hash + Into<PeerKey> {
    /// No peer's key.
    const VACANT: Self;

    /// The key of these words, which are one of this family.
    fn of(words: [u64; 3]) -> Self;

    fn hash_with(self, secret: &Secret) -> u32;

    /// `==` of keys in buckets. The map uses `==`, and tests count how often.
    fn is(self, other: Self) -> bool;
}

#[derive(Clone, Debug)]
pub(super) struct Flat<K, T> {
    /// As many as there are buckets: none before the first peer, then a power of two. Apart from
    /// the peers, so that those of 10,000 peers fit into a first-level cache.
    tags: Box<[Tags]>,
    buckets: Box<[Bucket<K, T>]>,
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
            tags: Box::default(),
            buckets: Box::default(),
            shift: 0,
            len_in_buckets: 0,
            displaced: HashMap::new(),
        }
    }

    /// Adds a peer that is not there.
    pub(super) fn insert_new(&mut self, secret: &Secret, key: K, value: T) {
        if self.len() * 2 >= self.buckets.len() * WAYS {
            self.grow(secret);
        }
        self.insert_into_bucket(secret, key, value);
    }

    pub(super) fn remove(&mut self, secret: &Secret, key: K) -> Option<T> {
        let hash = key.hash_with(secret);
        let number = self.bucket_number(hash);
        let tags = self.tags.get_mut(number)?;
        let bucket = &mut self.buckets[number];
        if let Some(way) = bucket.find(*tags, tag(hash), key) {
            tags.set(way, 0);
            self.len_in_buckets -= 1;
            let place = &mut bucket.0[way];
            place.key = K::VACANT;
            return place.value.take();
        }
        let value = self.displaced.remove(&key)?;
        tags.count_displaced(-1);
        Some(value)
    }

    pub(super) fn clear(&mut self) {
        self.tags.fill(Tags(0));
        self.buckets.fill_with(Bucket::vacant);
        self.len_in_buckets = 0;
        self.displaced.clear();
    }

    #[inline]
    pub(super) fn get(&self, secret: &Secret, key: K) -> Option<&T> {
        let hash = key.hash_with(secret);
        let number = self.bucket_number(hash);
        let tags = *self.tags.get(number)?;
        let bucket = &self.buckets[number];
        match bucket.find(tags, tag(hash), key) {
            Some(way) => bucket.0[way].value.as_ref(),
            None if tags.displaced() == 0 => None,
            None => {
                let [first, second, third] = key.into().words;
                self.get_displaced(first, second, third)
            }
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, secret: &Secret, key: K) -> Option<&mut T> {
        let hash = key.hash_with(secret);
        let number = self.bucket_number(hash);
        let tags = *self.tags.get(number)?;
        let bucket = &mut self.buckets[number];
        match bucket.find(tags, tag(hash), key) {
            Some(way) => bucket.0[way].value.as_mut(),
            None if tags.displaced() == 0 => None,
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
        let placed = self.buckets.iter().flat_map(|bucket| &bucket.0);
        let placed = placed.filter_map(|place| Some((place.key.into(), place.value.as_ref()?)));
        placed.chain(self.displaced.iter().map(|(&key, value)| (key.into(), value)))
    }

    /// Places for peers in buckets.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.buckets.len() * WAYS
    }

    /// Whether the table is as if it never had a peer.
    #[cfg(test)]
    pub(super) fn is_as_new(&self) -> bool {
        let places = self.buckets.iter().flat_map(|bucket| &bucket.0);
        self.tags.iter().all(|&Tags(word)| word == 0) && places.map(|place| &place.value).all(Option::is_none)
    }

    /// Out of line: inlined, it would take registers from the case that counts. So does a key that
    /// is no number: it would be put on the stack for each look-up.
    #[cold]
    #[inline(never)]
    fn get_displaced(&self, first: u64, second: u64, third: u64) -> Option<&T> {
        self.displaced.get(&K::of([first, second, third]))
    }

    #[inline]
    fn bucket_number(&self, hash: u32) -> usize {
        (hash >> self.shift) as usize
    }

    fn insert_into_bucket(&mut self, secret: &Secret, key: K, value: T) {
        let hash = key.hash_with(secret);
        let number = self.bucket_number(hash);
        let tags = &mut self.tags[number];
        let places = &mut self.buckets[number].0;
        // From the beginning of another line in each bucket: there is a power of two between buckets,
        // and a cache would have to hold the first lines of all of them in a quarter of its sets.
        let mut ways = (0..WAYS).map(|way| (2 * (number % 4) + way) % WAYS);
        if let Some(way) = ways.find(|&way| places[way].value.is_none()) {
            tags.set(way, tag(hash));
            places[way] = Place { key, value: Some(value) };
            self.len_in_buckets += 1;
        } else {
            tags.count_displaced(1);
            self.displaced.insert(key, value);
        }
    }

    /// Doubles the buckets and rehashes all peers.
    fn grow(&mut self, secret: &Secret) {
        let len = (self.buckets.len() * 2).max(BUCKETS_MIN);
        let mut old = std::mem::replace(self, Self::new());
        self.tags = vec![Tags(0); len].into_boxed_slice();
        self.buckets = (0..len).map(|_| Bucket::vacant()).collect();
        self.shift = u32::BITS - len.trailing_zeros();
        for Place { key, value } in old.buckets.iter_mut().flat_map(|bucket| &mut bucket.0) {
            if let Some(value) = value.take() {
                self.insert_into_bucket(secret, *key, value);
            }
        }
        // The old map keeps its memory and its secret.
        for (key, value) in old.displaced.drain() {
            self.insert_into_bucket(secret, key, value);
        }
    }
}

/// What is known of a bucket's peers: a byte for each place, the tag of the peer there, or 0; and in
/// the uppermost byte how many peers of the bucket are in the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tags(u64);

impl Tags {
    /// The places with this tag; all seven are compared at once. Beyond the first there may be others:
    /// only the keys say where a peer is.
    #[inline]
    fn ways_of(self, tag: u8) -> Ways {
        // A byte of 0 for each place that has the tag.
        let difference = self.0 ^ (u64::from(tag) * EACH);
        // Less 1, its highest bit becomes 1. The one that is borrowed makes that of a 1 above it, too.
        Ways(difference.wrapping_sub(EACH) & !difference & HIGH_BITS)
    }

    fn set(&mut self, way: usize, tag: u8) {
        self.0 = self.0 & !(0xff << (8 * way)) | u64::from(tag) << (8 * way);
    }

    #[inline]
    fn displaced(self) -> u8 {
        (self.0 >> 56) as u8
    }

    /// Counts a peer that came into the map, or left it. A full counter has lost count; it stays until
    /// the table grows.
    fn count_displaced(&mut self, change: i8) {
        let count = match self.displaced() {
            u8::MAX => u8::MAX,
            count => count.wrapping_add_signed(change),
        };
        self.0 = self.0 << 8 >> 8 | u64::from(count) << 56;
    }
}

/// Some places of a bucket: the highest bit of the byte of each.
#[derive(Clone, Copy)]
struct Ways(u64);

impl Ways {
    #[inline]
    fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize / 8)
    }

    #[inline]
    fn without_first(self) -> Self {
        Self(self.0 & self.0.wrapping_sub(1))
    }
}

/// The peers of a bucket, each where its tag is.
///
/// In a cache line there are two peers of IPv6, or four of IPv4, with a small value; none is in two
/// lines.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Bucket<K, T>([Place<K, T>; WAYS]);

/// A place for a peer. A vacant one has the key `VACANT` and no value.
#[derive(Clone, Debug)]
struct Place<K, T> {
    key: K,
    value: Option<T>,
}

impl<K: FamilyKey, T> Bucket<K, T> {
    fn vacant() -> Self {
        Self(std::array::from_fn(|_| Place { key: K::VACANT, value: None }))
    }

    /// Where the peer is. A peer with its tag is nearly always the one: of 256 others one has it, too.
    #[inline]
    fn find(&self, tags: Tags, tag: u8, key: K) -> Option<usize> {
        let mut ways = tags.ways_of(tag);
        while let Some(way) = ways.first() {
            if self.0[way].key.is(key) {
                return Some(way);
            }
            ways = ways.without_first();
        }
        None
    }
}

/// Eight bits of the hash, of those that do not choose a bucket as long as there are at most 2^24.
#[inline]
fn tag(hash: u32) -> u8 {
    hash as u8
}

/// Places in a bucket: as many as a word has bytes, less the counter.
///
/// Two places without tags took as much memory and left 0.9 to 3.3 % of IPv4 peers and 3.3 to 10 % of
/// IPv6 peers to the map. A look-up among 10,000 IPv6 peers took 11 instead of 7 ns, an unknown one 13
/// instead of 4.4; among 100 IPv4 peers 3.3 instead of 4.1 (`cargo run --release --bin peer-table`
/// in bench/, AMD Zen 4). Seven tags are compared by ordinary arithmetic, as SSE2 would save four
/// instructions of ninety, and be code for one processor.
const WAYS: usize = 7;

const BUCKETS_MIN: usize = 2;

/// A one in each of the bytes that are tags, and their highest bit.
const EACH: u64 = 0x0001_0101_0101_0101;
const HIGH_BITS: u64 = 0x80 * EACH;

/// IPv4 address and port in 48 bits.
#[derive(Clone, Copy, Debug, Eq)]
pub(super) struct Ipv4Key(pub(super) u64);

impl FamilyKey for Ipv4Key {
    const VACANT: Self = Self(u64::MAX);

    fn of([word, ..]: [u64; 3]) -> Self {
        Self(word)
    }

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

    fn of(words: [u64; 3]) -> Self {
        Self(words)
    }

    #[inline]
    fn hash_with(self, secret: &Secret) -> u32 {
        secret.hash_ipv6(self.0)
    }

    #[inline]
    fn is(self, other: Self) -> bool {
        // Word by word: an array is compared where it lies, and this one would be put on the stack
        // for that.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Where this tag is among these, one by one.
    fn naive(tags: [u8; WAYS], tag: u8) -> Vec<usize> {
        (0..WAYS).filter(|&way| tags[way] == tag).collect()
    }

    #[test]
    fn the_first_place_with_a_tag_is_one_and_none_is_left_out() {
        let mut state = 1;
        for _ in 0..10_000 {
            let random = super::super::key::split_mix(&mut state);
            // Few different ones, those among them that differ from each other in the lowest bit.
            let choice = [0, 1, 2, 3, 0x7f, 0x80, 0x81, 0xff];
            let tags: [u8; WAYS] = std::array::from_fn(|way| choice[(random >> (3 * way) & 7) as usize]);
            let mut word = Tags(0);
            word.count_displaced(1);
            tags.iter().enumerate().for_each(|(way, &tag)| word.set(way, tag));
            for tag in choice {
                let mut ways = word.ways_of(tag);
                let found: Vec<usize> = std::iter::from_fn(|| {
                    let way = ways.first();
                    ways = ways.without_first();
                    way
                })
                .collect();
                let expected = naive(tags, tag);
                assert_eq!(found.first(), expected.first(), "{tags:x?} {tag:x}");
                assert!(expected.iter().all(|way| found.contains(way)), "{tags:x?} {tag:x}: {found:?}");
                assert!(found.iter().all(|&way| tags[way] ^ tag <= 1), "{tags:x?} {tag:x}: {found:?}");
            }
        }
    }

    #[test]
    fn a_full_counter_of_displaced_peers_stays() {
        let mut tags = Tags(0);
        tags.set(6, 0xab);
        for count in 1..=u8::MAX {
            tags.count_displaced(1);
            assert_eq!(tags.displaced(), count);
        }
        for change in [1, -1, -1] {
            tags.count_displaced(change);
            assert_eq!(tags.displaced(), u8::MAX);
        }
        assert_eq!(tags.ways_of(0xab).first(), Some(6), "the tags beside it are as they were");
    }
}
