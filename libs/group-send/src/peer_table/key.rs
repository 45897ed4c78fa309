//! A peer's address as three words, and their keyed hash.
//!
//! Media servers used to format the address of every packet as a string to look up its session,
//! which costs more than everything else in the look-up. The table stores the keys.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Address and port of a peer, packed. Two keys are equal exactly if they name the same peer.
///
/// ```text
/// IPv4 | 0 (16 bits) | address (32) | port (16) | 0                | 0
/// IPv6 | address, first 64 bits                 | address, last 64 | scope id (32) | 1 (16) | port (16)
/// ```
///
/// - The **scope id** belongs to the key: a link-local address says nothing without its interface
///   (RFC 4007 section 6). Linux fills it in for such addresses only and leaves it 0 for all
///   others.
/// - The **flow label** does not: it is the flow's, not the peer's (RFC 6437), and may change.
/// - An **IPv4-mapped** address, `::ffff:192.0.2.1` (RFC 4291 section 2.5.5.2), is the IPv4
///   address. A peer is the same whether it is heard on an IPv4 socket or on an IPv6 socket that
///   takes both; a scope id of such an address is dropped.
///
/// ```
/// use group_send::peer_table::PeerKey;
/// use std::net::SocketAddr;
///
/// let plain: SocketAddr = "192.0.2.1:5000".parse().unwrap();
/// let mapped: SocketAddr = "[::ffff:192.0.2.1]:5000".parse().unwrap();
/// assert_eq!(PeerKey::from(plain), PeerKey::from(mapped));
/// assert_eq!(SocketAddr::from(PeerKey::from(mapped)), plain);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PeerKey {
    pub(super) words: [u64; 3],
}

impl PeerKey {
    /// The key of an IPv4 address and port: `address * 2^16 + port`.
    #[inline]
    pub fn from_ipv4(address: Ipv4Addr, port: u16) -> Self {
        Self { words: [u64::from(address.to_bits()) << 16 | u64::from(port), 0, 0] }
    }

    /// The key of an IPv6 address, port and scope id (0 for all addresses that are not link-local).
    #[inline]
    pub fn from_ipv6(address: Ipv6Addr, port: u16, scope_id: u32) -> Self {
        let bits = address.to_bits();
        let (first, second) = ((bits >> 64) as u64, bits as u64);
        if first == 0 && second >> 32 == MAPPED {
            return Self::from_ipv4(Ipv4Addr::from_bits(second as u32), port);
        }
        Self { words: [first, second, u64::from(scope_id) << 32 | IPV6 | u64::from(port)] }
    }

    /// The IPv4 address and port as one number, `address * 2^16 + port`; none if the peer has an
    /// IPv6 address.
    #[inline]
    pub fn to_ipv4_u64(self) -> Option<u64> {
        (self.words[2] == 0).then_some(self.words[0])
    }
}

impl From<&SocketAddr> for PeerKey {
    /// By reference, because it is read where it lies: a copy on the stack, read while it is being
    /// written in parts of another size, makes the processor wait for 5 ns.
    #[inline]
    fn from(address: &SocketAddr) -> Self {
        match address {
            SocketAddr::V4(v4) => Self::from_ipv4(*v4.ip(), v4.port()),
            SocketAddr::V6(v6) => Self::from_ipv6(*v6.ip(), v6.port(), v6.scope_id()),
        }
    }
}

impl From<SocketAddr> for PeerKey {
    #[inline]
    fn from(address: SocketAddr) -> Self {
        Self::from(&address)
    }
}

impl From<PeerKey> for SocketAddr {
    fn from(PeerKey { words }: PeerKey) -> Self {
        let [first, second, rest] = words;
        if rest == 0 {
            let address = Ipv4Addr::from_bits((first >> 16) as u32);
            return Self::new(IpAddr::V4(address), first as u16);
        }
        let address = Ipv6Addr::from_bits(u128::from(first) << 64 | u128::from(second));
        Self::V6(SocketAddrV6::new(address, rest as u16, 0, (rest >> 32) as u32))
    }
}

impl Hash for PeerKey {
    /// Words one by one: an array would hash its length as well.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.words.iter().for_each(|&word| state.write_u64(word));
    }
}

impl fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::from(*self).fmt(f)
    }
}

/// The prefix of an IPv4-mapped address.
const MAPPED: u64 = 0xffff;

/// Distinguishes the last word of an IPv6 key from that of an IPv4 key, which is 0.
const IPV6: u64 = 1 << 16;

/// Key of the hash; without it collisions cannot be predicted.
///
/// The hash is MULTILINEAR-HM of D. Lemire and O. Kaser, "Strongly universal string hashing is
/// fast" (The Computer Journal 57, 2014), on two or six words of 32 bits: any two different keys of
/// a family have hashes that are uniform and independent of each other, so they agree in their
/// first b bits with a probability of exactly 2^-b, whatever they are. One multiplication for IPv4;
/// for IPv6 three, none of which waits for another. SipHash, which promises more, takes several
/// times as long and is left to the map.
#[derive(Clone)]
pub(crate) struct Secret([u64; 7]);

impl Secret {
    /// From random numbers of the operating system.
    pub(crate) fn random() -> Self {
        let source = RandomState::new();
        Self(std::array::from_fn(|position| source.hash_one(position)))
    }

    /// The same for the same `seed`, for tests.
    pub(super) fn from_seed(seed: u64) -> Self {
        let mut state = seed;
        Self(std::array::from_fn(|_| split_mix(&mut state)))
    }

    /// Of any address; 32 bits.
    #[inline]
    pub(crate) fn hash(&self, key: PeerKey) -> u32 {
        if key.words[2] == 0 { self.hash_ipv4(key.words[0]) } else { self.hash_ipv6(key.words) }
    }

    #[inline]
    pub(super) fn hash_ipv4(&self, word: u64) -> u32 {
        let Self([k0, k1, .., k6]) = *self;
        scatter(k6.wrapping_add(product(k0, k1, word)))
    }

    #[inline]
    pub(super) fn hash_ipv6(&self, [a, b, c]: [u64; 3]) -> u32 {
        let Self([k0, k1, k2, k3, k4, k5, k6]) = *self;
        let sum = product(k0, k1, a).wrapping_add(product(k2, k3, b)).wrapping_add(product(k4, k5, c));
        scatter(k6.wrapping_add(sum))
    }
}

/// The hash of a sum: its upper half, mixed one to one, so that what is said of the hash stays
/// true. Without mixing, addresses in a row would get hashes in a row, some distance apart; an
/// unlucky secret makes that a fraction like 1/3 of all buckets, and most peers would share a few
/// of them. With it, one secret does about as well as another: of 500, the worst displaces 2.2 % of
/// the peers in `tests.rs`, 55 % with the bytes turned round in place of the shift.
#[inline]
fn scatter(sum: u64) -> u32 {
    let hash = (sum >> 32) as u32;
    (hash ^ hash >> 16).wrapping_mul(0x9e37_79b1)
}

#[inline]
fn product(high_key: u64, low_key: u64, word: u64) -> u64 {
    high_key.wrapping_add(word >> 32).wrapping_mul(low_key.wrapping_add(word & 0xffff_ffff))
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub(super) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> PeerKey {
        PeerKey::from(text.parse::<SocketAddr>().unwrap())
    }

    #[test]
    fn keys_are_laid_out_as_documented() {
        let table: [(&str, [u64; 3]); 5] = [
            ("0.0.0.0:0", [0, 0, 0]),
            ("192.0.2.1:5004", [0xc000_0201_138c, 0, 0]),
            ("255.255.255.255:65535", [0xffff_ffff_ffff, 0, 0]),
            ("[::]:0", [0, 0, 0x1_0000]), // not equal to 0.0.0.0:0
            ("[2001:db8::5%7]:443", [0x2001_0db8_0000_0000, 5, 0x7_0001_01bb]),
        ];
        for (text, words) in table {
            assert_eq!(key(text).words, words, "{text}");
        }
    }

    #[test]
    fn address_of_a_key_is_the_one_it_was_made_of() {
        for text in [
            "0.0.0.0:0",
            "127.0.0.1:1",
            "255.255.255.255:65535",
            "[::]:0",
            "[::1]:65535",
            "[::ffff:0:0:1]:9", // looks like mapped, is not
            "[::192.0.2.1]:9",  // IPv4-compatible, which is an IPv6 address
            "[fe80::1%4294967295]:5000",
            "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535",
        ] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(SocketAddr::from(PeerKey::from(address)), address, "{text}");
        }
    }

    #[test]
    fn same_peer_has_the_same_key() {
        let table = [
            ("192.0.2.1:5000", "[::ffff:192.0.2.1]:5000", true),
            ("192.0.2.1:5000", "[::ffff:192.0.2.1%3]:5000", true), // a scope id that means nothing
            ("192.0.2.1:5000", "192.0.2.1:5001", false),
            ("192.0.2.1:5000", "[::192.0.2.1]:5000", false),
            ("[fe80::1%1]:5000", "[fe80::1%2]:5000", false), // two neighbours on two links
            ("[2001:db8::1]:1", "[2001:db8::1]:2", false),
            ("[::1:0:0:0]:1", "[::1]:1", false), // a word each
        ];
        for (one, other, same) in table {
            assert_eq!(key(one) == key(other), same, "{one} {other}");
        }
        let labelled = SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 5, 0x12345, 0));
        assert_eq!(PeerKey::from(labelled), key("[::1]:5"), "the flow label is no part of the key");
    }

    #[test]
    fn only_ipv4_keys_are_one_number() {
        assert_eq!(key("1.2.3.4:5").to_ipv4_u64(), Some(0x0102_0304_0005));
        assert_eq!(key("[::ffff:1.2.3.4]:5").to_ipv4_u64(), Some(0x0102_0304_0005));
        assert_eq!(key("[::1]:5").to_ipv4_u64(), None);
        assert_eq!(format!("{:?}", key("[::ffff:1.2.3.4]:5")), "1.2.3.4:5");
    }

    /// The hash as its authors write it, before the shift: an even number of 32-bit characters, and
    /// keys taken in turn.
    fn plain_sum(key: &[u64; 7], words: [u64; 3]) -> u64 {
        let characters: Vec<u128> =
            words.iter().flat_map(|word| [u128::from(word >> 32), u128::from(word & 0xffff_ffff)]).collect();
        let mut sum = u128::from(key[6]);
        for (pair, keys) in characters.chunks(2).zip(key.chunks(2)) {
            let modulus = 1_u128 << 64;
            let high = (u128::from(keys[0]) + pair[0]) % modulus;
            sum = (sum + high * ((u128::from(keys[1]) + pair[1]) % modulus) % modulus) % modulus;
        }
        sum as u64
    }

    #[test]
    fn hash_is_multilinear() {
        let mut state = 1;
        for seed in 0..1000 {
            let secret = Secret::from_seed(seed);
            let words = std::array::from_fn(|_| split_mix(&mut state));
            assert_eq!(secret.hash_ipv6(words), scatter(plain_sum(&secret.0, words)), "{words:x?}");
            let words = [split_mix(&mut state) >> 16, 0, 0];
            let key = [secret.0[0], secret.0[1], 0, 0, 0, 0, secret.0[6]];
            assert_eq!(secret.hash_ipv4(words[0]), scatter(plain_sum(&key, words)), "{words:x?}");
        }
    }

    #[test]
    fn scatter_is_one_to_one() {
        // Backwards: the inverse of the factor modulo 2^32, then the shift again.
        let factor = scatter(1 << 32);
        let inverse = (0..5).fold(1_u32, |x, _| x.wrapping_mul(2_u32.wrapping_sub(factor.wrapping_mul(x))));
        for hash in (0..32).flat_map(|bit| [1 << bit, !(1 << bit), 0x9abc_def1_u32.rotate_left(bit)]) {
            let mixed = scatter(u64::from(hash) << 32 | 0xffff_ffff).wrapping_mul(inverse);
            assert_eq!(mixed ^ mixed >> 16, hash);
        }
    }

    #[test]
    fn secrets_differ() {
        assert_ne!(Secret::random().0, Secret::random().0);
        assert_ne!(Secret::from_seed(1).0, Secret::from_seed(2).0);
        assert_eq!(Secret::from_seed(1).0, Secret::from_seed(1).0);
    }
}
