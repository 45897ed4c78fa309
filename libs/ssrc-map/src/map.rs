//! The map: values in one dense array, and the choice of how an SSRC's index in it is found.
//!
//! A single SSRC is compared directly; up to [`BLOCK`] are in the map itself and compared all at
//! once; for more, a [`Table`] has the index. The table is kept until [`SsrcMap::clear`], so that
//! streams that come and go do not rebuild it. How SSRCs are compared is in `lanes/`, how they are
//! found among many in `table.rs`.

use alloc::vec::Vec;
use core::fmt;
use core::hint;
use core::iter::Zip;
use core::slice;

use crate::lanes::{self, BLOCK, Block};
use crate::table::Table;

/// Map from SSRC to `T`, of bounded size.
///
/// | operation | worst case |
/// |---|---|
/// | `get`, `get_mut`, `contains` | two dependent loads, the second one the value's; no loop |
/// | `insert` | constant when amortised; a single one may rehash all entries, at most 8 times |
/// | `remove` | constant |
/// | `clear`, `drop` | one step an entry |
/// | memory | `size_of::<T>() + 4` bytes twice an entry by the most there ever were, 40 bytes by the most since the last `clear` |
///
/// An attacker who chooses the SSRCs changes none of this as long as the seed is secret. If it is
/// not, memory stays linear and the entries moved for an insertion stay constant when amortised (at
/// most 8 for each doubling of the table in one go, and what rehashing takes), but a look-up, that
/// of `insert` included, may come to compare all SSRCs, a vector at a time.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct SsrcMap<T> {
    /// The SSRCs of the first values. What is behind the last of them is left over from before: an
    /// index that is found there is out of bounds.
    few: Block<BLOCK>,
    values: Vec<T>,
    /// Where each SSRC is in `ssrcs`. Built when there are more than `few` takes. What a look-up
    /// reads of it is in front: all that is read of the map is its first two cache lines.
    table: Table,
    /// The SSRC of `values[i]` is `ssrcs[i]`.
    ssrcs: Vec<u32>,
    limit: usize,
}

impl<T> SsrcMap<T> {
    /// Most entries any map can have: 2^30. A larger `limit` counts as this.
    pub const LIMIT_MAX: usize = 1 << 30;

    /// An empty map for at most `limit` entries, with a secret seed from the operating system.
    ///
    /// Allocates nothing until the first insertion. The seed comes from
    /// [`RandomState`](std::hash::RandomState).
    #[cfg(feature = "std")]
    pub fn new(limit: usize) -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self::with_seed(limit, RandomState::new().hash_one(0_u64))
    }

    /// An empty map for at most `limit` entries, with a given seed: for tests that must be
    /// repeatable, and where there is no operating system.
    ///
    /// Anyone who knows the seed can choose SSRCs that make look-ups slow; take it from a source of
    /// secret numbers.
    pub fn with_seed(limit: usize, seed: u64) -> Self {
        Self {
            values: Vec::new(),
            table: Table::new(seed),
            few: Block([0; BLOCK]),
            ssrcs: Vec::new(),
            limit: limit.min(Self::LIMIT_MAX),
        }
    }

    /// Maps `ssrc` to `value`; gives back the value it had before.
    ///
    /// # Errors
    /// [`Full`] with `value` when `ssrc` is new and the map has as many entries as its limit
    /// allows.
    pub fn insert(&mut self, ssrc: u32, value: T) -> Result<Option<T>, Full<T>> {
        if let Some(old) = self.get_mut(ssrc) {
            return Ok(Some(core::mem::replace(old, value)));
        }
        let index = self.values.len();
        if index >= self.limit {
            return Err(Full(value));
        }
        if index < BLOCK {
            // There are two or three in most of thousands of maps, where doubling would begin with four.
            self.values.reserve_exact(1);
            self.ssrcs.reserve_exact(1);
        }
        self.values.push(value);
        self.ssrcs.push(ssrc);
        if let Some(place) = self.few.0.get_mut(index) {
            *place = ssrc;
        }
        if !self.table.is_unbuilt() {
            self.table.insert_last(&self.ssrcs);
        } else if self.ssrcs.len() > BLOCK {
            self.table.rebuild(&self.ssrcs);
        }
        Ok(None)
    }

    /// Removes `ssrc` and gives back its value. The last entry takes its place in the order of
    /// [`iter`](Self::iter).
    pub fn remove(&mut self, ssrc: u32) -> Option<T> {
        let index = self.index_of(ssrc);
        if index >= self.values.len() {
            return None;
        }
        let value = self.values.swap_remove(index);
        self.ssrcs.swap_remove(index);
        self.table.remove(ssrc);
        if let Some(&moved) = self.ssrcs.get(index) {
            self.table.renumber(moved, index);
            if let Some(place) = self.few.0.get_mut(index) {
                *place = moved;
            }
        }
        Some(value)
    }

    /// Removes all entries, and gives back the table's memory; that of the values is kept.
    pub fn clear(&mut self) {
        self.values.clear();
        self.ssrcs.clear();
        self.table.reset();
    }

    /// The value of `ssrc`, to be changed.
    #[inline]
    pub fn get_mut(&mut self, ssrc: u32) -> Option<&mut T> {
        let Some(index) = self.table.find(ssrc) else {
            if self.values.len() == 1 {
                return if self.few.0[0] == ssrc { self.values.first_mut() } else { None };
            }
            return self.values.get_mut(lanes::first(&self.few, ssrc));
        };
        if index < self.values.len() as u64 {
            return self.values.get_mut(index as usize);
        }
        if self.table.is_stash_empty() { None } else { self.get_mut_from_stash(ssrc) }
    }

    /// The value of `ssrc`.
    #[inline]
    pub fn get(&self, ssrc: u32) -> Option<&T> {
        // The table first: a question less where most is read. One entry takes 0.15 ns longer for
        // it.
        let Some(index) = self.table.find(ssrc) else {
            if self.values.len() == 1 {
                return if self.few.0[0] == ssrc { self.values.first() } else { None };
            }
            return self.values.get(lanes::first(&self.few, ssrc));
        };
        if index < self.values.len() as u64 {
            return self.values.get(index as usize);
        }
        if self.table.is_stash_empty() { None } else { self.get_from_stash(ssrc) }
    }

    /// [`get`](Self::get) for a function of its own that is called for each packet, as the one for C
    /// is. There jumps cost more than here, where the caller's loop is laid out around it: a few are
    /// compared without one, at 1 to 5 entries in as many cycles as libsrtp's list takes for its
    /// first. And nothing is called, so that the function needs no stack frame: it ends with the
    /// call for [`InStash`].
    ///
    /// # Errors
    /// [`InStash`]: it has to be looked for with `get`.
    #[doc(hidden)]
    #[inline]
    pub fn get_unless_in_stash(&self, ssrc: u32) -> Result<Option<&T>, InStash> {
        // What is marked as cold is not rare: it is laid out behind. Each of the three ends by
        // itself: sharing the end is another jump.
        if !self.table.is_unbuilt() {
            hint::cold_path();
            let index = self.table.find(ssrc).unwrap_or(u64::MAX);
            if index < self.values.len() as u64 {
                return Ok(self.values.get(index as usize));
            }
            return if self.table.is_stash_empty() { Ok(None) } else { Err(InStash) };
        }
        if self.values.len() == 1 {
            hint::cold_path();
            return Ok(if self.few.0[0] == ssrc { self.values.first() } else { None });
        }
        Ok(self.values.get(lanes::first(&self.few, ssrc)))
    }

    #[cold]
    #[inline(never)]
    fn get_from_stash(&self, ssrc: u32) -> Option<&T> {
        self.values.get(self.table.find_in_stash(ssrc))
    }

    #[cold]
    #[inline(never)]
    fn get_mut_from_stash(&mut self, ssrc: u32) -> Option<&mut T> {
        self.values.get_mut(self.table.find_in_stash(ssrc))
    }

    /// Whether `ssrc` has a value.
    #[inline]
    pub fn contains(&self, ssrc: u32) -> bool {
        self.get(ssrc).is_some()
    }

    /// All entries: in the order of insertion as long as none has been removed.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter(self.ssrcs.iter().zip(&self.values))
    }

    /// All entries, the values to be changed.
    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        IterMut(self.ssrcs.iter().zip(&mut self.values))
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Number of entries there is room for without allocating memory. At most
    /// [`limit`](Self::limit).
    pub fn capacity(&self) -> usize {
        let places = if self.table.is_unbuilt() { BLOCK } else { self.table.capacity() };
        self.values.capacity().min(self.ssrcs.capacity()).min(places).min(self.limit)
    }

    /// Number of entries the map never exceeds.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The index of `ssrc`, or one that is out of bounds.
    fn index_of(&self, ssrc: u32) -> usize {
        let Some(index) = self.table.find(ssrc) else { return lanes::first(&self.few, ssrc) };
        if index < self.values.len() as u64 { index as usize } else { self.table.find_in_stash(ssrc) }
    }
}

/// Without the SSRCs' places in memory, which depend on the secret seed.
impl<T: fmt::Debug> fmt::Debug for SsrcMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'a, T> IntoIterator for &'a SsrcMap<T> {
    type Item = (u32, &'a T);
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut SsrcMap<T> {
    type Item = (u32, &'a mut T);
    type IntoIter = IterMut<'a, T>;

    fn into_iter(self) -> IterMut<'a, T> {
        self.iter_mut()
    }
}

/// Entries of a map, from [`SsrcMap::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a, T>(Zip<slice::Iter<'a, u32>, slice::Iter<'a, T>>);

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = (u32, &'a T);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(&ssrc, value)| (ssrc, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}

/// Entries of a map with values to be changed, from [`SsrcMap::iter_mut`].
#[derive(Debug)]
pub struct IterMut<'a, T>(Zip<slice::Iter<'a, u32>, slice::IterMut<'a, T>>);

impl<'a, T> Iterator for IterMut<'a, T> {
    type Item = (u32, &'a mut T);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(&ssrc, value)| (ssrc, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> ExactSizeIterator for IterMut<'_, T> {}

/// The map has as many entries as its limit allows; here is the value that was not inserted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<T>(pub T);

impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full(..)")
    }
}

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the map has as many SSRCs as its limit allows")
    }
}

impl<T> core::error::Error for Full<T> {}

/// Of [`SsrcMap::get_unless_in_stash`].
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InStash;
