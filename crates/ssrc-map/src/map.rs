//! The map: values in one dense array, and the choice of how an SSRC's index in it is found.
//!
//! Up to [`lanes::BLOCK`] entries the SSRCs are inside the map itself and compared all at once; above, a
//! [`Table`] has them. Once there is a table it is kept until [`SsrcMap::clear`], so that the choice costs one
//! branch that goes the same way every time.

use alloc::vec::Vec;
use core::fmt;
use core::iter::Zip;
use core::slice;

use crate::lanes;
use crate::table::Table;

/// Map from SSRC to `T`, of bounded size.
///
/// | operation | cost |
/// |---|---|
/// | `get`, `get_mut`, `contains` | constant: at most two dependent loads, the second of them the value's |
/// | `insert` | constant when amortised; a single one may place all entries anew, up to 4 times |
/// | `remove` | constant |
/// | memory | `size_of::<T>()` and 24 to 60 bytes an entry of the largest number since `clear` |
///
/// This holds for every choice of SSRCs as long as the seed is secret. If it is not, insertion stays constant when
/// amortised and memory stays linear, but a look-up may come to compare all SSRCs, a vector at a time.
#[derive(Clone)]
pub struct SsrcMap<T> {
    /// The SSRC of `values[i]` is `ssrcs[i]`; as long as there is no table, also `few[i]`.
    values: Vec<T>,
    table: Table,
    /// What is behind the first `values.len()` is left over: an index that is found there is out of bounds.
    few: [u32; lanes::BLOCK],
    ssrcs: Vec<u32>,
    limit: usize,
}

impl<T> SsrcMap<T> {
    /// Most entries any map can have: 2^30. A larger `limit` counts as this.
    pub const LIMIT_MAX: usize = 1 << 30;

    /// An empty map for at most `limit` entries, with a secret seed from the operating system.
    ///
    /// Allocates nothing until the first insertion.
    #[cfg(feature = "std")]
    pub fn new(limit: usize) -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self::with_seed(limit, RandomState::new().hash_one(0_u64))
    }

    /// An empty map for at most `limit` entries, with a given seed: for tests that must be repeatable, and where there
    /// is no operating system.
    ///
    /// Whoever knows the seed can choose SSRCs that make look-ups slow; take it from a source of secret numbers.
    pub fn with_seed(limit: usize, seed: u64) -> Self {
        Self {
            values: Vec::new(),
            table: Table::new(seed),
            few: [0; lanes::BLOCK],
            ssrcs: Vec::new(),
            limit: limit.min(Self::LIMIT_MAX),
        }
    }

    /// Maps `ssrc` to `value`; gives back the value it had before.
    ///
    /// # Errors
    /// [`Full`] with `value` when `ssrc` is new and the map has as many entries as its limit allows.
    pub fn insert(&mut self, ssrc: u32, value: T) -> Result<Option<T>, Full<T>> {
        if let Some(old) = self.get_mut(ssrc) {
            return Ok(Some(core::mem::replace(old, value)));
        }
        let index = self.values.len();
        if index >= self.limit {
            return Err(Full(value));
        }
        self.values.push(value);
        self.ssrcs.push(ssrc);
        if !self.table.is_unbuilt() {
            self.table.insert_last(&self.ssrcs);
        } else if let Some(place) = self.few.get_mut(index) {
            *place = ssrc;
        } else {
            self.table.rebuild(&self.ssrcs);
        }
        Ok(None)
    }

    /// Removes `ssrc` and gives back its value. The last entry takes its place in the order of [`iter`](Self::iter).
    pub fn remove(&mut self, ssrc: u32) -> Option<T> {
        let index = self.index_of(ssrc).filter(|&index| index < self.values.len())?;
        let value = self.values.swap_remove(index);
        self.ssrcs.swap_remove(index);
        let moved = self.ssrcs.get(index).copied();
        if !self.table.is_unbuilt() {
            self.table.remove(ssrc);
            if let Some(moved) = moved {
                self.table.renumber(moved, index);
            }
        } else if let Some(moved) = moved {
            self.few[index] = moved;
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
        let index = self.index_of(ssrc)?;
        self.values.get_mut(index)
    }

    /// The value of `ssrc`.
    #[inline]
    pub fn get(&self, ssrc: u32) -> Option<&T> {
        let index = self.index_of(ssrc)?;
        self.values.get(index)
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

    /// Number of entries there is room for without allocating values anew. At most [`limit`](Self::limit).
    pub fn capacity(&self) -> usize {
        self.values.capacity().min(self.limit)
    }

    /// Number of entries the map never exceeds.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// An index that is `ssrc`'s if it is within bounds; `ssrc` has no value if it is not, or if there is none.
    #[inline(always)]
    fn index_of(&self, ssrc: u32) -> Option<usize> {
        if self.table.is_unbuilt() {
            return Some(lanes::matches(&self.few, ssrc).trailing_zeros() as usize);
        }
        let mut index = self.table.find(ssrc);
        if index >= self.values.len() as u64 {
            index = self.table.find_in_stash(ssrc);
        }
        usize::try_from(index).ok()
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
