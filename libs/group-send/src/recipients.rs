//! Per-recipient state: cached headers, and the path of the latest datagrams.
//!
//! A direct-mapped cache, not a map: a look-up is one or two comparisons, memory is bounded, and an
//! evicted recipient is only resolved again. Which recipients collide depends on a random key, so
//! peers who choose their addresses cannot force it.
//!
//! Entries lie in the order in which recipients were first seen, and the one after the latest is
//! tried first: groups are sent repeatedly in the same order, which then costs no hashing and reads
//! memory from front to back.

use crate::frame::Header;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

/// Recipients kept at once, of 112 bytes each. With one more all are forgotten.
const ENTRIES_MAX: usize = 16_384;

/// Many more than recipients, because two that collide are resolved again at every turn: 15 of a
/// thousand recipients.
const SLOTS: usize = 65_536;

/// 2^64 divided by the golden ratio, whose multiples are spread evenly (Knuth, The Art of Computer
/// Programming, 6.4).
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// The path of a recipient's latest datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// Not remembered, so either.
    Unknown,
    /// Past the kernel's stack, as frames.
    Frames,
    /// Through the socket.
    Socket,
}

pub(crate) struct Recipient {
    destination: SocketAddr,
    /// Of the routes that the header was made by; 0 for none.
    pub(crate) generation: u64,
    /// None when frames cannot go there.
    pub(crate) header: Option<Header>,
    payload_max: u16,
    pub(crate) path: Path,
}

pub(crate) struct Recipients {
    /// [`ENTRIES_MAX`] at most.
    entries: Vec<Recipient>,
    /// By hash: the index of the entry plus one, or 0 for none.
    slots: Box<[u16]>,
    /// The entry found latest.
    latest: usize,
    key: u64,
}

impl Recipients {
    pub(crate) fn new() -> Self {
        let slots = vec![0; SLOTS].into_boxed_slice();
        Self {
            entries: Vec::with_capacity(ENTRIES_MAX),
            slots,
            latest: 0,
            key: RandomState::new().hash_one(0) | 1,
        }
    }

    /// The entry of a recipient, possibly a new one.
    #[inline]
    pub(crate) fn find(&mut self, destination: &SocketAddr) -> &mut Recipient {
        let is = |entry: Option<&Recipient>| entry.is_some_and(|entry| entry.destination == *destination);
        if !is(self.entries.get(self.latest)) {
            let next = if self.latest + 1 < self.entries.len() { self.latest + 1 } else { 0 };
            self.latest = if is(self.entries.get(next)) { next } else { self.find_by_hash(destination) };
        }
        &mut self.entries[self.latest]
    }

    fn find_by_hash(&mut self, destination: &SocketAddr) -> usize {
        let index = slot(destination, self.key);
        if self.slots[index] == 0 && self.entries.len() == ENTRIES_MAX {
            self.entries.clear();
            self.slots.fill(0);
        }
        let slot = &mut self.slots[index];
        if *slot == 0 {
            self.entries.push(Recipient::new(*destination));
            *slot = self.entries.len() as u16;
        }
        let index = usize::from(*slot) - 1;
        if self.entries[index].destination != *destination {
            self.entries[index] = Recipient::new(*destination);
        }
        index
    }
}

impl Recipient {
    fn new(destination: SocketAddr) -> Self {
        Self { destination, generation: 0, header: None, payload_max: 0, path: Path::Unknown }
    }

    /// Header and longest payload for this generation of routes. Nothing is cached for what frames
    /// cannot reach: the next datagram resolves again.
    pub(crate) fn set(&mut self, header: Option<(Header, usize)>, generation: u64) {
        self.generation = if header.is_some() { generation } else { 0 };
        self.payload_max = header.map_or(0, |(_, payload_max)| payload_max as u16);
        self.header = header.map(|(header, _)| header);
    }

    /// The longest payload that goes as a frame; none does without a header.
    #[inline]
    pub(crate) fn payload_max(&self) -> Option<usize> {
        self.header.as_ref().map(|_| usize::from(self.payload_max))
    }
}

/// Multiplication by a key and the product's upper bits (multiply-shift hashing), mixed once more
/// by a constant: neighbours differ by a little, and times a small key by a little still, which the
/// upper bits alone do not see.
#[inline]
fn slot(destination: &SocketAddr, key: u64) -> usize {
    let word = match destination {
        SocketAddr::V4(v4) => u64::from(v4.ip().to_bits()) << 16 | u64::from(v4.port()),
        SocketAddr::V6(v6) => {
            let bits = v6.ip().to_bits();
            let upper = (bits >> 64) as u64 ^ u64::from(v6.port());
            // Mixed before the halves meet, or they could be chosen to cancel each other.
            (upper.wrapping_mul(key.rotate_left(32) | 1) >> 7 ^ bits as u64).wrapping_add(upper)
        }
    };
    let product = word.wrapping_mul(key);
    ((product ^ product >> 32).wrapping_mul(MIX) >> (u64::BITS - SLOTS.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn recipients_with_neighbouring_addresses_mostly_have_slots_of_their_own() {
        let destinations =
            (0..1000u32).map(|n| SocketAddr::from((Ipv4Addr::from(0x0a4d_0002), 5000 + n as u16)));
        let v6 =
            |n: u32| SocketAddr::from((std::net::Ipv6Addr::from(0xfd77_u128 << 112 | u128::from(n)), 5004));
        // The smallest key, one that once left 45 slots, one of all ones, and many of those that a
        // start may draw.
        let drawn = (0..200).map(|_| RandomState::new().hash_one(0) | 1);
        for key in [1, 0x0b64_3cbd_9079, u64::MAX, MIX].into_iter().chain(drawn) {
            for destinations in [destinations.clone().collect::<Vec<_>>(), (0..1000).map(v6).collect()] {
                let slots: std::collections::HashSet<_> =
                    destinations.iter().map(|destination| slot(destination, key)).collect();
                // 992 by chance.
                assert!(slots.len() > 900, "{} slots, key {key:#x}", slots.len());
            }
        }
    }

    #[test]
    fn each_recipient_finds_its_own_entry_whatever_the_order() {
        let addresses: Vec<_> = (0..5000u16).map(|port| SocketAddr::from(([192, 0, 2, 1], port))).collect();
        let mut recipients = Recipients::new();
        let mut kept = 0;
        for step in [1, 1, 7, 4999] {
            for n in 0..addresses.len() {
                let index = n * step % addresses.len();
                let recipient = recipients.find(&addresses[index]);
                assert_eq!(recipient.destination, addresses[index]);
                // A recipient seen before left its own number.
                assert!(recipient.payload_max == 0 || usize::from(recipient.payload_max) == index + 1);
                kept += usize::from(recipient.payload_max != 0);
                recipient.payload_max = index as u16 + 1;
            }
        }
        // Of the second to fourth round's finds all but those who share a slot, nine tenths by
        // chance.
        assert!(kept > 10_000, "{kept} finds of what was kept");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut recipients = Recipients::new();
        for n in 0..100_000u32 {
            let address = SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + n), 5004));
            recipients.find(&address).path = Path::Socket;
            assert_eq!(recipients.find(&address).path, Path::Socket);
            assert!(recipients.entries.len() <= ENTRIES_MAX);
        }
        assert_eq!(recipients.find(&SocketAddr::from(([10, 0, 0, 0], 5004))).path, Path::Unknown);
    }

    #[test]
    fn an_evicted_recipient_is_unknown() {
        let mut recipients = Recipients::new();
        let first = SocketAddr::from(([192, 0, 2, 1], 1));
        recipients.find(&first).path = Path::Frames;
        assert_eq!(recipients.find(&first).path, Path::Frames);
        let at = slot(&first, recipients.key);
        let other = (0..4_000_000u32)
            .map(|n| SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + n / 50_000), (n % 50_000) as u16)))
            .find(|other| slot(other, recipients.key) == at)
            .expect("one of four million falls on one of 65,536 slots");
        recipients.find(&other).path = Path::Socket;
        assert_eq!(recipients.find(&first).path, Path::Unknown);
    }
}
