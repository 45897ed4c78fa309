//! From the address a datagram came from to the session it belongs to, without strings.
//!
//! [`PeerKey`] is an address packed into words, [`PeerTable`] finds values by it: a flat table in which every peer has one
//! place to be, computed from the key, and behind it a hash map for the few whose place was taken. It is for whoever
//! receives; the rest of this crate does not use it. Timeouts and what a session is are left to the caller.

mod key;

pub use key::PeerKey;

use key::Secret;
use std::collections::HashMap;
use std::fmt;
use std::iter::FusedIterator;
use std::slice;

/// Map from peer to `T`, as fast at the packet rates of a server as one load from memory after another allows.
///
/// ```
/// use group_send::peer_table::{Full, PeerKey, PeerTable};
/// use std::net::SocketAddr;
///
/// let mut sessions = PeerTable::new(10_000);                 // never more than that
/// let peer: SocketAddr = "192.0.2.1:5000".parse().unwrap();
///
/// match sessions.insert(PeerKey::from(peer), 7_u32) {        // after its first valid packet
///     Ok(None) => {}                                         // new
///     Ok(Some(_old)) => {}                                   // replaced
///     Err(Full(_session)) => {}                              // refuse it; the value is yours again
/// }
/// assert_eq!(sessions.get(PeerKey::from(peer)), Some(&7));   // for each packet
/// ```
///
/// **Cost.** `get` reads a slot and, if the hash in it is right, the peer's entry: 1 comparison of keys. With four to
/// eight slots a peer, 6 to 12 % of the peers stand in the map (up to 20 % when peers have come and gone for long) and
/// cost a look-up there in addition. Unknown peers cost the slot alone, except where peers of the same slot are in the map.
///
/// **Hostile peers.** Whoever may choose addresses and ports, but does not know the secret that the operating system gave
/// each table, gets any two of them into one slot with a probability of 1 in the number of slots, not more; so at most an
/// eighth of the peers is in the map on average, whatever their addresses are. Whoever does know it can have all peers
/// looked up in the map, which is keyed with SipHash and another secret: that is the worst there is. Nothing here
/// is a list that grows.
///
/// **Memory.** 32 to 64 bytes a peer, and its entry: 24 bytes, the value and padding. It does not shrink. An insertion
/// that makes the table grow places all peers anew, which is constant when amortised: each doubling takes about 20 ns a
/// peer. `T` is best small (an index); large values belong in memory of their own.
#[derive(Clone)]
pub struct PeerTable<T> {
    /// Slot of a peer: the first bits of its hash. Empty before the first peer, then a power of two.
    slots: Box<[Slot]>,
    /// 32 less the number of bits that choose a slot.
    shift: u32,
    secret: Secret,
    /// Dense; in slots and map peers go by their position here.
    peers: Vec<Peer<T>>,
    /// Peers whose slot another one had when they came.
    displaced: HashMap<PeerKey, u32>,
    limit: usize,
}

impl<T> PeerTable<T> {
    /// Makes an empty table for at most `limit` peers ([`LIMIT_MAX`] if that is less), with a secret from the operating
    /// system. Allocates nothing before the first peer.
    pub fn new(limit: usize) -> Self {
        Self::with_secret(limit, Secret::random())
    }

    /// The same with a secret that follows from `seed`: for tests that shall be repeatable.
    ///
    /// Whoever knows the seed can make every look-up one of the map's.
    pub fn with_seed(limit: usize, seed: u64) -> Self {
        Self::with_secret(limit, Secret::from_seed(seed))
    }

    fn with_secret(limit: usize, secret: Secret) -> Self {
        Self {
            slots: Box::default(),
            shift: 0,
            secret,
            peers: Vec::new(),
            displaced: HashMap::new(),
            limit: limit.min(LIMIT_MAX),
        }
    }

    /// Maps `key` to `value` and returns the value it had before.
    ///
    /// # Errors
    /// [`Full`] with the value if the peer is new and there are [`limit`](Self::limit) peers; nothing has changed then.
    pub fn insert(&mut self, key: PeerKey, value: T) -> Result<Option<T>, Full<T>> {
        if let Some(old) = self.get_mut(key) {
            return Ok(Some(std::mem::replace(old, value)));
        }
        if self.peers.len() == self.limit {
            return Err(Full(value));
        }
        self.peers.push(Peer { key, value });
        if self.slots.len() < self.peers.len() * SLOTS_PER_PEER_MIN {
            self.grow();
        } else {
            self.place(self.peers.len() - 1);
        }
        Ok(None)
    }

    /// Removes a peer and returns its value. The last one takes its position in the order of [`iter`](Self::iter).
    pub fn remove(&mut self, key: PeerKey) -> Option<T> {
        let index = self.find(&key)?;
        let last = self.peers.len() - 1;
        self.forget(index);
        if index != last {
            self.renumber(last, index);
        }
        Some(self.peers.swap_remove(index).value)
    }

    /// Removes all peers. The memory is kept.
    pub fn clear(&mut self) {
        self.peers.clear();
        self.displaced.clear();
        self.slots.fill(Slot::VACANT);
    }

    /// The value of a peer, to change it.
    #[inline]
    pub fn get_mut(&mut self, key: PeerKey) -> Option<&mut T> {
        let index = self.find(&key)?;
        self.peers.get_mut(index).map(|peer| &mut peer.value)
    }

    /// The value of a peer.
    #[inline]
    pub fn get(&self, key: PeerKey) -> Option<&T> {
        let index = self.find(&key)?;
        self.peers.get(index).map(|peer| &peer.value)
    }

    /// Whether the peer is there.
    #[inline]
    pub fn contains(&self, key: PeerKey) -> bool {
        self.find(&key).is_some()
    }

    /// All peers and their values, in no particular order, as fast as a slice.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter(self.peers.iter())
    }

    /// Number of peers.
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Whether there is no peer.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Number of peers the table takes at most.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Number of peers that are in the map because another has their slot: `0 <= displaced <= len`. For a metric: much
    /// more than a fifth of `len` is bad luck of the rarest kind or somebody who knows the secret.
    pub fn displaced(&self) -> usize {
        self.displaced.len()
    }

    #[inline]
    fn find(&self, key: &PeerKey) -> Option<usize> {
        let hash = self.secret.hash(key);
        let slot = self.slots.get(self.slot_number(hash))?;
        // A vacant slot's index is no peer's.
        if slot.hash == hash
            && let Some(peer) = self.peers.get(slot.index())
            && peer.key == *key
        {
            return Some(slot.index());
        }
        if slot.displaced() == 0 {
            return None;
        }
        self.find_displaced(key)
    }

    /// Out of line: inlined, it would take registers from the case that counts.
    #[cold]
    #[inline(never)]
    fn find_displaced(&self, key: &PeerKey) -> Option<usize> {
        self.displaced.get(key).map(|&index| index as usize)
    }

    #[inline]
    fn slot_number(&self, hash: u32) -> usize {
        (hash >> self.shift) as usize
    }

    /// Gives a peer its slot, or a place in the map.
    fn place(&mut self, index: usize) {
        let key = self.peers[index].key;
        let hash = self.secret.hash(&key);
        let number = self.slot_number(hash);
        let slot = &mut self.slots[number];
        if slot.is_vacant() {
            slot.occupy(hash, index);
        } else {
            slot.add_displaced();
            self.displaced.insert(key, index as u32);
        }
    }

    /// Takes a peer out of its slot or the map.
    fn forget(&mut self, index: usize) {
        let key = self.peers[index].key;
        let number = self.slot_number(self.secret.hash(&key));
        let slot = &mut self.slots[number];
        if slot.index() == index {
            slot.vacate();
        } else {
            slot.remove_displaced();
            self.displaced.remove(&key);
        }
    }

    /// Notes that the peer of one position is going to be at another.
    fn renumber(&mut self, from: usize, to: usize) {
        let key = self.peers[from].key;
        let hash = self.secret.hash(&key);
        let number = self.slot_number(hash);
        let slot = &mut self.slots[number];
        if slot.index() == from {
            slot.occupy(hash, to);
        } else if let Some(index) = self.displaced.get_mut(&key) {
            *index = to as u32;
        }
    }

    /// Doubles the slots and places all peers anew.
    fn grow(&mut self) {
        let len = (self.slots.len() * 2).max(SLOTS_MIN);
        self.slots = vec![Slot::VACANT; len].into_boxed_slice();
        self.shift = u32::BITS - len.trailing_zeros();
        self.displaced.clear();
        for index in 0..self.peers.len() {
            self.place(index);
        }
    }
}

impl<'a, T> IntoIterator for &'a PeerTable<T> {
    type Item = (PeerKey, &'a T);
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T: fmt::Debug> fmt::Debug for PeerTable<T> {
    /// The peers; the secret is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

/// There is no room for another peer. The value that was to be inserted is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full<T>(pub T);

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the table has as many peers as its limit allows")
    }
}

impl<T: fmt::Debug> std::error::Error for Full<T> {}

/// Peers of a [`PeerTable`] and their values.
#[derive(Debug)]
pub struct Iter<'a, T>(slice::Iter<'a, Peer<T>>);

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = (PeerKey, &'a T);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|peer| (peer.key, &peer.value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}
impl<T> FusedIterator for Iter<'_, T> {}

#[derive(Clone, Debug)]
struct Peer<T> {
    key: PeerKey,
    value: T,
}

/// The peer that has this slot, and how many others would.
#[derive(Clone, Copy)]
struct Slot {
    /// Hash of the peer.
    hash: u32,
    /// Index of the peer in 24 bits, [`NOBODY`] if vacant; above, the number of peers of this slot in the map.
    index_and_displaced: u32,
}

impl Slot {
    const VACANT: Self = Self { hash: 0, index_and_displaced: NOBODY };

    #[inline]
    fn index(self) -> usize {
        (self.index_and_displaced & NOBODY) as usize
    }

    #[inline]
    fn displaced(self) -> u32 {
        self.index_and_displaced >> INDEX_BITS
    }

    fn is_vacant(self) -> bool {
        self.index_and_displaced & NOBODY == NOBODY
    }

    fn occupy(&mut self, hash: u32, index: usize) {
        self.hash = hash;
        self.index_and_displaced = self.index_and_displaced & !NOBODY | index as u32;
    }

    fn vacate(&mut self) {
        self.index_and_displaced |= NOBODY;
    }

    /// Counts to 255, and then no more in either direction: such a slot always asks the map, until the table grows.
    fn add_displaced(&mut self) {
        if self.displaced() < DISPLACED_MAX {
            self.index_and_displaced += 1 << INDEX_BITS;
        }
    }

    fn remove_displaced(&mut self) {
        if self.displaced() < DISPLACED_MAX {
            self.index_and_displaced -= 1 << INDEX_BITS;
        }
    }
}

/// Largest limit of a table: 16,777,215 peers.
pub const LIMIT_MAX: usize = NOBODY as usize;

const INDEX_BITS: u32 = 24;

/// No peer has this index, for `index < len <= LIMIT_MAX`.
const NOBODY: u32 = (1 << INDEX_BITS) - 1;

const DISPLACED_MAX: u32 = u32::MAX >> INDEX_BITS;

/// With n peers and m slots `1 - m/n (1 - e^(-n/m))` of the peers are displaced: 11.5 % with four slots a peer, 6 % with
/// eight. Twice as many slots would spare 1 ns of SipHash on average and cost more in misses of the second-level cache.
const SLOTS_PER_PEER_MIN: usize = 4;

/// Half a kilobyte.
const SLOTS_MIN: usize = 64;

#[cfg(test)]
mod tests;
