//! Index of many SSRCs: each is in one of two slots, so a look-up is two loads side by side and no loop.
//!
//! A slot is `ssrc << 32 | index`. Exclusive-or with the SSRC sought, shifted alike, leaves the bare index where it is
//! the one, and a number of at least 2^32 where it is not; the smaller of the two slots' results is therefore the
//! answer, and the caller's bounds check on its values is the only branch. An empty slot has index 2^32 - 1, out of
//! every bounds. The SSRCs and values themselves are in `map.rs`.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::hash::Hash;
use crate::lanes;

/// Two-choice ("cuckoo") hash table from SSRC to index.
///
/// Slots: a power of two, or none before the first [`rebuild`](Self::rebuild). At most [`LOAD_MAX`] of them are used,
/// so inserting moves an expected constant number of others.
#[derive(Clone)]
pub(crate) struct Table {
    slots: Box<[u64]>,
    hash: Hash,
    /// Entries no place was found for. Empty unless fortune is against us beyond all probability, or the seed is known.
    stash: Stash,
    /// Entries that may be placed anew before it costs more than the insertions since: what keeps insertion O(1).
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
            credit: 0,
            #[cfg(test)]
            writes: 0,
        }
    }

    /// Forgets all entries and the memory for them.
    pub(crate) fn reset(&mut self) {
        self.slots = Box::default();
        self.stash = Stash::default();
        self.credit = 0;
    }

    /// Whether there are no slots: nothing may be asked or inserted yet.
    #[inline(always)]
    pub(crate) fn is_unbuilt(&self) -> bool {
        self.slots.is_empty()
    }

    /// Adds the last of `ssrcs`, which is not in the table yet; the others are.
    pub(crate) fn insert_last(&mut self, ssrcs: &[u32]) {
        let Some((&ssrc, index)) = ssrcs.last().zip(ssrcs.len().checked_sub(1)) else { return };
        self.credit = self.credit.saturating_add(CREDIT_PER_INSERTION);
        if ssrcs.len() > capacity_of(self.slots.len()) {
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
    /// Tries [`SEEDS_MAX`] hashes; what then still has no place goes to the stash.
    pub(crate) fn rebuild(&mut self, ssrcs: &[u32]) {
        let size = size_for(ssrcs.len());
        for _ in 0..SEEDS_MAX {
            self.slots = vec![EMPTY; size].into_boxed_slice();
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

    /// The index of `ssrc`, or a number no index is: at least 2^32 - 1.
    #[inline(always)]
    pub(crate) fn find(&self, ssrc: u32) -> u64 {
        let Some(mask) = self.slots.len().checked_sub(1) else { return u64::MAX };
        let hash = self.hash.of(ssrc);
        let sought = u64::from(ssrc) << 32;
        let first = self.slots[hash as usize & mask] ^ sought;
        let second = self.slots[(hash >> 32) as usize & mask] ^ sought;
        first.min(second)
    }

    /// [`find`](Self::find) among the entries that have no slot, for when it has found nothing.
    #[inline(always)]
    pub(crate) fn find_in_stash(&self, ssrc: u32) -> u64 {
        if self.stash.ssrcs.is_empty() { u64::MAX } else { self.stash.find(ssrc) }
    }

    /// Puts `entry` into one of its two slots. What was there moves to its other slot, and so on, [`moves_max`]
    /// times at most.
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

    #[cold]
    #[inline(never)]
    fn find(&self, ssrc: u32) -> u64 {
        lanes::position(&self.ssrcs, ssrc).map_or(u64::MAX, |at| u64::from(self.indices[at]))
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

/// Entries a table of so many slots takes: two fifths. Two-choice tables fail at one half.
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

/// Moves after which an insertion gives up. Chains that end at all are shorter but with probability `1 / slots^2`.
fn moves_max(slots: usize) -> u32 {
    8 * (usize::BITS - slots.leading_zeros())
}

/// Largest share of used slots, as a fraction.
const LOAD_MAX: (usize, usize) = (2, 5);
const SLOTS_MIN: usize = 32;
/// Hashes tried in one rebuild.
const SEEDS_MAX: usize = 4;
/// What one insertion pays towards placing all entries anew.
const CREDIT_PER_INSERTION: usize = 4;
/// Entry of an unused slot: its index is out of every bounds, since a map holds at most 2^30 entries.
const EMPTY: u64 = u32::MAX as u64;
