//! Index of many SSRCs: each is in one of two slots, so a look-up is two loads side by side and no
//! loop.
//!
//! A slot is `ssrc << 32 | index`. Exclusive-or with the SSRC sought, shifted alike, leaves the
//! bare index where it is the one, and a number of at least 2^32 where it is not; the smaller of
//! the two slots' results is therefore the answer, and the caller's bounds check on its values is
//! the only branch. An empty slot has index 2^32 - 1, out of every bounds. The SSRCs in order and
//! the values are in `map.rs`.
//!
//! This is a perfect hash in that no look-up ever searches, and a "cuckoo" hash (Pagh, Rodler 2001)
//! in how it is kept so: an entry that finds its slots taken moves another to that one's other
//! slot. Measured against it and slower: a displacement byte per bucket (perfect hashing with 4/5
//! full slots: one more load before the slot's), buckets of four compared at once, remembering the
//! last hit (docs/decisions/0007-ssrc-look-up.md).

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::hash::Hash;
use crate::lanes;

/// Two-choice ("cuckoo") hash table from SSRC to index.
///
/// Slots: a power of two, or none before the first [`rebuild`](Self::rebuild). At most [`LOAD_MAX`]
/// of them are used, so an insertion moves an expected constant number of others (0.1 on average in
/// a full table).
#[derive(Clone)]
#[repr(C)]
pub(crate) struct Table {
    // What a look-up reads comes first; see `SsrcMap`.
    slots: Box<[u64]>,
    hash: Hash,
    /// Entries no place was found for: none, unless eight secrets in a row failed or the seed is
    /// known.
    stash: Stash,
    /// Entries that may be rehashed before it costs more than the insertions since: what keeps
    /// insertion O(1).
    credit: usize,
    /// Slots written by `insert` and `rebuild` so far.
    #[cfg(test)]
    pub(crate) writes: u64,
}

/// SSRCs and their indices, side by side.
#[derive(Clone, Default)]
struct Stash {
    ssrcs: Vec<u32>,
    indices: Vec<u32>,
}

impl Table {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            slots: Box::default(),
            hash: Hash::new(seed),
            stash: Stash::default(),
            credit: CREDIT_AT_FIRST,
            #[cfg(test)]
            writes: 0,
        }
    }

    /// Forgets all entries and the memory for them.
    pub(crate) fn reset(&mut self) {
        self.slots = Box::default();
        self.stash = Stash::default();
        self.credit = CREDIT_AT_FIRST;
    }

    /// Whether there are no slots: nothing may be asked or inserted yet.
    #[inline(always)]
    pub(crate) fn is_unbuilt(&self) -> bool {
        self.slots.is_empty()
    }

    /// Entries it takes before it must grow.
    pub(crate) fn capacity(&self) -> usize {
        capacity_of(self.slots.len())
    }

    /// Adds the last of `ssrcs`, which is not in the table yet; the others are.
    pub(crate) fn insert_last(&mut self, ssrcs: &[u32]) {
        let Some((&ssrc, index)) = ssrcs.last().zip(ssrcs.len().checked_sub(1)) else { return };
        self.credit = self.credit.saturating_add(CREDIT_PER_INSERTION);
        if ssrcs.len() > self.capacity() {
            self.rebuild(ssrcs);
            return;
        }
        let Err(homeless) = self.place(slot(ssrc, index)) else { return };
        self.stash.push(homeless);
        if self.credit >= ssrcs.len() {
            self.credit -= ssrcs.len();
            self.hash = self.hash.next();
            self.rebuild(ssrcs);
        }
    }

    /// Makes a table of as many slots as `ssrcs` need, and puts all of them into it.
    ///
    /// Tries [`SEEDS_MAX`] secrets; what then still has no place goes to the stash.
    pub(crate) fn rebuild(&mut self, ssrcs: &[u32]) {
        let size = size_for(ssrcs.len());
        for _ in 0..SEEDS_MAX {
            if self.slots.len() == size {
                self.slots.fill(EMPTY);
            } else {
                self.slots = vec![EMPTY; size].into_boxed_slice();
            }
            self.stash = Stash::default();
            for (index, &ssrc) in ssrcs.iter().enumerate() {
                if let Err(homeless) = self.place(slot(ssrc, index)) {
                    self.stash.push(homeless);
                }
            }
            if self.stash.ssrcs.is_empty() {
                return;
            }
            self.hash = self.hash.next();
        }
    }

    /// Notes that `ssrc`, which is in the table, has index `to` from now on.
    pub(crate) fn renumber(&mut self, ssrc: u32, to: usize) {
        match self.place_of(ssrc) {
            Place::Slot(at) => self.slots[at] = slot(ssrc, to),
            Place::Stash(at) => self.stash.indices[at] = to as u32,
            Place::Nowhere => {}
        }
    }

    /// Removes `ssrc` if it is in the table.
    pub(crate) fn remove(&mut self, ssrc: u32) {
        match self.place_of(ssrc) {
            Place::Slot(at) => self.slots[at] = EMPTY,
            Place::Stash(at) => {
                self.stash.ssrcs.swap_remove(at);
                self.stash.indices.swap_remove(at);
            }
            Place::Nowhere => {}
        }
    }

    /// The index of `ssrc`, or a number no index is: at least 2^32 - 1. `None` when there are no
    /// slots.
    #[inline(always)]
    pub(crate) fn find(&self, ssrc: u32) -> Option<u64> {
        let mask = self.slots.len().checked_sub(1)?;
        let hash = self.hash.of(ssrc);
        let sought = u64::from(ssrc) << 32;
        let first = self.slots[hash as usize & mask] ^ sought;
        let second = self.slots[(hash >> 32) as usize & mask] ^ sought;
        Some(first.min(second))
    }

    /// Whether [`find`](Self::find) finds every entry.
    #[inline(always)]
    pub(crate) fn is_stash_empty(&self) -> bool {
        self.stash.ssrcs.is_empty()
    }

    /// [`find`](Self::find) among the entries that have no slot, for when it has found nothing.
    pub(crate) fn find_in_stash(&self, ssrc: u32) -> usize {
        lanes::position(&self.stash.ssrcs, ssrc).map_or(NOWHERE, |at| self.stash.indices[at] as usize)
    }

    /// Puts `entry` into one of its two slots. What was there moves to its other slot, and so on,
    /// [`moves_max`] times at most.
    ///
    /// # Errors
    /// The entry that was in hand at the end.
    fn place(&mut self, mut entry: u64) -> Result<(), u64> {
        let (mut at, second) = self.two_slots(ssrc_of(entry));
        if self.slots[at] != EMPTY && self.slots[second] == EMPTY {
            at = second;
        }
        for _ in 0..moves_max(self.slots.len()) {
            #[cfg(test)]
            {
                self.writes += 1;
            }
            core::mem::swap(&mut entry, &mut self.slots[at]);
            if entry == EMPTY {
                return Ok(());
            }
            let (first, second) = self.two_slots(ssrc_of(entry));
            at ^= first ^ second;
        }
        Err(entry)
    }

    fn place_of(&self, ssrc: u32) -> Place {
        if !self.is_unbuilt() {
            let (first, second) = self.two_slots(ssrc);
            for at in [first, second] {
                if self.slots[at] != EMPTY && ssrc_of(self.slots[at]) == ssrc {
                    return Place::Slot(at);
                }
            }
        }
        lanes::position(&self.stash.ssrcs, ssrc).map_or(Place::Nowhere, Place::Stash)
    }

    fn two_slots(&self, ssrc: u32) -> (usize, usize) {
        let mask = self.slots.len() - 1;
        let hash = self.hash.of(ssrc);
        (hash as usize & mask, (hash >> 32) as usize & mask)
    }
}

impl Stash {
    fn push(&mut self, entry: u64) {
        self.ssrcs.push(ssrc_of(entry));
        self.indices.push(entry as u32);
    }
}

enum Place {
    Slot(usize),
    Stash(usize),
    Nowhere,
}

fn slot(ssrc: u32, index: usize) -> u64 {
    u64::from(ssrc) << 32 | index as u64
}

fn ssrc_of(slot: u64) -> u32 {
    (slot >> 32) as u32
}

/// Entries a table of so many slots takes.
fn capacity_of(slots: usize) -> usize {
    slots / LOAD_MAX.1 * LOAD_MAX.0 + slots % LOAD_MAX.1 * LOAD_MAX.0 / LOAD_MAX.1
}

fn size_for(entries: usize) -> usize {
    let mut size = SLOTS_MIN;
    while capacity_of(size) < entries {
        size *= 2;
    }
    size
}

/// Moves after which an insertion gives up: chains that end at all are shorter, but for one in many
/// thousands.
fn moves_max(slots: usize) -> u32 {
    8 * (usize::BITS - slots.leading_zeros())
}

/// An index that is out of every bounds.
pub(crate) const NOWHERE: usize = usize::MAX;
/// Largest share of used slots, as a fraction. Two choices fail at one half; just below it they
/// fail too often.
const LOAD_MAX: (usize, usize) = (2, 5);
const SLOTS_MIN: usize = 16;
/// Secrets tried in one rebuild.
const SEEDS_MAX: usize = 8;
/// Entries that may be rehashed before any insertion has paid for it: small tables collide more
/// often.
const CREDIT_AT_FIRST: usize = 1024;
/// What one insertion pays towards rehashing all entries.
const CREDIT_PER_INSERTION: usize = 4;
/// Entry of an unused slot: its index is out of every bounds, since a map holds at most 2^30
/// entries.
const EMPTY: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::BLOCK;

    /// A table of these SSRCs, inserted one by one.
    fn table_of(ssrcs: &[u32], seed: u64) -> Table {
        let mut table = Table::new(seed);
        for len in 1..=ssrcs.len() {
            if len > BLOCK && table.is_unbuilt() {
                table.rebuild(&ssrcs[..len]);
            } else if len > BLOCK {
                table.insert_last(&ssrcs[..len]);
            }
        }
        table
    }

    fn index_of(table: &Table, ssrc: u32, len: usize) -> Option<usize> {
        let index = table.find(ssrc).expect("built");
        let index = if index < len as u64 { index as usize } else { table.find_in_stash(ssrc) };
        (index < len).then_some(index)
    }

    fn assert_finds(table: &Table, ssrcs: &[u32]) {
        for (index, &ssrc) in ssrcs.iter().enumerate() {
            assert_eq!(index_of(table, ssrc, ssrcs.len()), Some(index), "{ssrc:#x} of {}", ssrcs.len());
        }
    }

    /// SSRCs that all have both slots among the first eight of `1 << bits`, under a seed the
    /// attacker knows.
    fn ssrcs_made_for(seed: u64, bits: u32, len: usize) -> Vec<u32> {
        let hash = Hash::new(seed);
        let low = |half: u64| half & ((1 << bits) - 1) < 8;
        let ssrcs: Vec<u32> =
            (0..=u32::MAX).filter(|&ssrc| low(hash.of(ssrc)) && low(hash.of(ssrc) >> 32)).take(len).collect();
        assert_eq!(ssrcs.len(), len);
        ssrcs
    }

    #[test]
    fn work_and_memory_stay_linear_whatever_ssrcs_are_inserted() {
        let len: u32 = if cfg!(miri) { 60 } else { 3000 };
        let sets: [(&str, Vec<u32>); 9] = [
            ("in sequence", (0..len).collect()),
            ("in sequence, from above", (0..len).map(|n| u32::MAX - n).collect()),
            ("2^8 apart", (0..len).map(|n| n << 8).collect()),
            ("2^20 apart", (0..len).map(|n| n.rotate_right(12)).collect()),
            ("odd progression", (0..len).map(|n| n.wrapping_mul(0x9e37_79b9)).collect()),
            ("grid", (0..len).map(|n| ((n / 64) << 16) | (n % 64)).collect()),
            (
                "bits in four corners",
                (0..len)
                    .map(|n| (n & 7) | ((n & 0x38) << 7) | ((n & 0x1c0) << 13) | ((n >> 9) << 28))
                    .collect(),
            ),
            ("mirrored", (0..len).map(u32::reverse_bits).collect()),
            (
                "made for another seed",
                ssrcs_made_for(!0, if cfg!(miri) { 5 } else { 8 }, if cfg!(miri) { 30 } else { 100 }),
            ),
        ];
        for (name, ssrcs) in sets {
            let (mut writes, mut in_stash) = (0, 0);
            let seeds = if cfg!(miri) { 2 } else { 40 };
            for seed in 0..seeds {
                let table = table_of(&ssrcs, seed);
                assert!(
                    table.slots.len() <= (5 * ssrcs.len()).next_multiple_of(SLOTS_MIN),
                    "{name}, seed {seed}"
                );
                assert_finds(&table, &ssrcs);
                writes += table.writes;
                in_stash += table.stash.ssrcs.len();
            }
            // Growing places each entry less than three times on average, and one table in seven is
            // rehashed.
            assert!(writes <= 6 * seeds * ssrcs.len() as u64, "{name}: {writes} writes");
            assert_eq!(in_stash, 0, "{name}");
        }
    }

    #[test]
    fn a_known_seed_costs_an_attacker_no_more_than_another_seed() {
        let bits = if cfg!(miri) { 5 } else { 8 };
        let ssrcs = ssrcs_made_for(7, bits, if cfg!(miri) { 12 } else { 100 });
        let table = table_of(&ssrcs, 7);
        assert_finds(&table, &ssrcs);
        assert!(table.slots.len() <= 5 * ssrcs.len());
        assert!(table.writes <= 100 * ssrcs.len() as u64, "{} writes", table.writes);
    }

    #[test]
    fn entries_without_a_place_are_found_renumbered_and_removed_all_the_same() {
        let bits = if cfg!(miri) { 5 } else { 7 };
        let ssrcs = ssrcs_made_for(7, bits, 12);
        let mut table = Table::new(7);
        table.slots = vec![EMPTY; 1 << bits].into_boxed_slice();
        for len in 1..=ssrcs.len() {
            table.credit = 0;
            table.insert_last(&ssrcs[..len]);
        }
        assert!(table.stash.ssrcs.len() >= 4, "twelve do not fit into eight slots");
        assert_finds(&table, &ssrcs);
        for &ssrc in &ssrcs {
            assert_eq!(index_of(&table, ssrc ^ 0x8000_0000, ssrcs.len()), None);
            table.renumber(ssrc, 11);
            assert_eq!(index_of(&table, ssrc, ssrcs.len()), Some(11));
            table.remove(ssrc);
            assert_eq!(index_of(&table, ssrc, ssrcs.len()), None);
            table.remove(ssrc);
            table.renumber(ssrc, 0);
            assert_eq!(index_of(&table, ssrc, ssrcs.len()), None);
        }
        assert!(table.slots.iter().all(|&slot| slot == EMPTY));
        assert!(table.stash.ssrcs.is_empty() && table.stash.indices.is_empty());
    }

    #[test]
    fn a_table_without_slots_has_nothing() {
        let mut table = Table::new(0);
        assert!(table.is_unbuilt());
        assert_eq!(table.find(0), None);
        table.remove(0);
        table.renumber(0, 0);
        assert_eq!(table.find_in_stash(0), NOWHERE);
    }

    #[test]
    fn slots_grow_with_entries() {
        for (entries, slots) in
            [(1, 16), (6, 16), (7, 32), (12, 32), (13, 64), (1000, 4096), (10_000, 32_768)]
        {
            assert_eq!(size_for(entries), slots, "{entries} entries");
            assert!(capacity_of(slots) >= entries && capacity_of(slots) * 5 <= slots * 2);
        }
    }
}
