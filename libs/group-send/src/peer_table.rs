//! Maps a datagram's source address to its session, without strings.
//!
//! [`PeerKey`] is an address packed into words, [`PeerTable`] finds values by it: a flat table in
//! which the key determines each peer's one bucket, and a hash map for the few whose bucket was
//! full. It is for the receiving side. Timeouts and the meaning of a session are left to the
//! caller.

mod flat;
mod key;

pub use key::PeerKey;

use flat::{Flat, Ipv4Key, Ipv6Key};
pub(crate) use key::Secret;
use std::fmt;

/// Map from peer to `T`, as fast at the packet rates of a server as one load from memory after
/// another allows.
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
/// **Cost.** `get` reads eight bits of the hash of each peer in a bucket of seven, together in one
/// word, and nearly always one key, in a cache line with its value if that is small. An unknown peer
/// costs the word. At most 1.2 % of the peers are expected to be in the map and cost a look-up there in
/// addition; unknown peers do only where peers of the same bucket are in the map.
///
/// **Hostile peers.** An attacker who may choose addresses and ports, but does not know the table's
/// random secret, gets any two of them into one bucket with a probability of at most 1 in the
/// number of buckets, and with the same eight bits in one of 256 of these cases. On average a
/// fourteenth of the peers are in the map at most, whatever their addresses are. (There are at least
/// two places a peer, so that x, the peers of a bucket, is 3.5 on average; x - 7 of them are
/// displaced, which is at most (x - 3.5)^2 / 14; and because hashes are independent in pairs, the
/// average of that square is at most 3.5.) An attacker who knows the secret can force all peers into
/// the map, which std keys with SipHash and a secret of its own: that is the worst case. There are no
/// chains that grow.
///
/// **Memory.** For each IPv4 peer 40 to 80 bytes and for each IPv6 peer 75 to 150 if `T` is a 32-bit
/// index. Keep `T` small: there are two to four places per peer, and large values belong in memory of
/// their own. The table does not shrink. An insertion that makes it grow rehashes all peers: constant
/// when amortised, but that one insertion takes about 20 ns for each existing peer.
#[derive(Clone)]
pub struct PeerTable<T> {
    secret: Secret,
    ipv4: Flat<Ipv4Key, T>,
    ipv6: Flat<Ipv6Key, T>,
    limit: usize,
}

impl<T> PeerTable<T> {
    /// Makes an empty table for at most `limit` peers ([`LIMIT_MAX`] if that is less), with a
    /// secret from the operating system. Allocates nothing before the first peer.
    pub fn new(limit: usize) -> Self {
        Self::with_secret(limit, Secret::random())
    }

    /// The same with a secret derived from `seed`, for repeatable tests.
    /// Anyone who knows the seed can force every look-up into the map.
    pub fn with_seed(limit: usize, seed: u64) -> Self {
        Self::with_secret(limit, Secret::from_seed(seed))
    }

    fn with_secret(limit: usize, secret: Secret) -> Self {
        Self { secret, ipv4: Flat::new(), ipv6: Flat::new(), limit: limit.min(LIMIT_MAX) }
    }

    /// Maps `key` to `value` and returns the value it had before.
    ///
    /// # Errors
    /// [`Full`] with the value if the peer is new and there are [`limit`](Self::limit) peers;
    /// nothing has changed then.
    pub fn insert(&mut self, key: PeerKey, value: T) -> Result<Option<T>, Full<T>> {
        if let Some(old) = self.get_mut(key) {
            return Ok(Some(std::mem::replace(old, value)));
        }
        if self.len() >= self.limit {
            return Err(Full(value));
        }
        match key.family() {
            Family::V4(key) => self.ipv4.insert_new(&self.secret, key, value),
            Family::V6(key) => self.ipv6.insert_new(&self.secret, key, value),
        }
        Ok(None)
    }

    /// Removes a peer and returns its value.
    pub fn remove(&mut self, key: PeerKey) -> Option<T> {
        match key.family() {
            Family::V4(key) => self.ipv4.remove(&self.secret, key),
            Family::V6(key) => self.ipv6.remove(&self.secret, key),
        }
    }

    /// Removes all peers. The memory is kept.
    pub fn clear(&mut self) {
        self.ipv4.clear();
        self.ipv6.clear();
    }

    /// The value of a peer, to change it.
    #[inline]
    pub fn get_mut(&mut self, key: PeerKey) -> Option<&mut T> {
        match key.family() {
            Family::V4(key) => self.ipv4.get_mut(&self.secret, key),
            Family::V6(key) => self.ipv6.get_mut(&self.secret, key),
        }
    }

    /// The value of a peer.
    #[inline]
    pub fn get(&self, key: PeerKey) -> Option<&T> {
        match key.family() {
            Family::V4(key) => self.ipv4.get(&self.secret, key),
            Family::V6(key) => self.ipv6.get(&self.secret, key),
        }
    }

    /// Whether the peer is there.
    #[inline]
    pub fn contains(&self, key: PeerKey) -> bool {
        self.get(key).is_some()
    }

    /// All peers and their values, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (PeerKey, &T)> {
        self.ipv4.iter().chain(self.ipv6.iter())
    }

    /// Number of peers.
    pub fn len(&self) -> usize {
        self.ipv4.len() + self.ipv6.len()
    }

    /// Whether there is no peer.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of peers the table takes at most.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Sets another limit ([`LIMIT_MAX`] if that is less). Peers beyond it stay.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(LIMIT_MAX);
    }

    /// Number of peers that are in the maps because their buckets were full:
    /// `0 <= displaced <= len`. For a metric: more than a fourteenth of `len` is a rare coincidence, or
    /// an attacker who knows the secret.
    pub fn displaced(&self) -> usize {
        self.ipv4.displaced() + self.ipv6.displaced()
    }
}

enum Family {
    V4(Ipv4Key),
    V6(Ipv6Key),
}

impl PeerKey {
    #[inline]
    fn family(self) -> Family {
        match self.to_ipv4_u64() {
            Some(word) => Family::V4(Ipv4Key(word)),
            None => Family::V6(Ipv6Key(self.words)),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for PeerTable<T> {
    /// The peers; the secret is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
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

/// Largest limit of a table: 2^30 peers.
pub const LIMIT_MAX: usize = 1 << 30;

#[cfg(test)]
mod tests;
