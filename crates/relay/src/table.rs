//! A table of bounded size whose ids are never reused: an id of something removed finds nothing.

use slab::Slab;
use std::fmt;
use std::marker::PhantomData;

use crate::error::SetupError;

/// Where something is, and which one it is of those that were there.
pub(crate) struct Id<T> {
    key: u32,
    generation: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.key, self.generation) == (other.key, other.generation)
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.key, self.generation).cmp(&(other.key, other.generation))
    }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}#{}", self.key, self.generation)
    }
}

impl<T> std::hash::Hash for Id<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.key, self.generation).hash(state);
    }
}

impl<T> Id<T> {
    /// A small number that only one of the table has at a time.
    pub(crate) fn index(self) -> usize {
        self.key as usize
    }
}

pub(crate) struct Table<T> {
    entries: Slab<(u32, T)>,
    generation: u32,
    limit: usize,
}

impl<T> Table<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { entries: Slab::new(), generation: 0, limit: limit.min(u32::MAX as usize) }
    }

    pub(crate) fn insert(&mut self, value: T) -> Result<Id<T>, SetupError> {
        if self.entries.len() >= self.limit {
            return Err(SetupError::Full);
        }
        self.generation = self.generation.wrapping_add(1);
        let key = self.entries.insert((self.generation, value)) as u32;
        Ok(Id { key, generation: self.generation, of: PhantomData })
    }

    pub(crate) fn remove(&mut self, id: Id<T>) -> Option<T> {
        self.get(id)?;
        Some(self.entries.remove(id.index()).1)
    }

    #[inline]
    pub(crate) fn get(&self, id: Id<T>) -> Option<&T> {
        self.entries
            .get(id.index())
            .filter(|(generation, _)| *generation == id.generation)
            .map(|(_, value)| value)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: Id<T>) -> Option<&mut T> {
        let entry = self.entries.get_mut(id.index());
        entry.filter(|(generation, _)| *generation == id.generation).map(|(_, value)| value)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Id<T>, &mut T)> {
        self.entries.iter_mut().map(|(key, (generation, value))| {
            (Id { key: key as u32, generation: *generation, of: PhantomData }, value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_what_was_removed_finds_nothing() {
        let mut table = Table::new(1);
        let first = table.insert('a').unwrap();
        assert_eq!(table.insert('b'), Err(SetupError::Full));
        assert_eq!(table.remove(first), Some('a'));
        let second = table.insert('c').unwrap();
        assert_eq!(first.index(), second.index());
        assert_eq!(table.get(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.get_mut(second), Some(&mut 'c'));
    }
}
