//! Which id each extension has on one m-line, both ways round.
//!
//! Sixteen entries in two small arrays, copied with the track it belongs to: a lookup is an index,
//! not a search. Ids from 15 exist in the two-byte form only and browsers do not offer them; ids up
//! to 15 are supported.

use super::Extension;

/// Ids of the header extensions of one m-line. Ids are `1..=15`; each extension has at most one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtensionMap {
    by_id: [Option<Extension>; 16],
    /// 0: none.
    ids: [u8; Extension::ALL.len()],
}

impl ExtensionMap {
    /// A map without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives `extension` this id; what had the id before, and the id it had before, are forgotten.
    ///
    /// `false`, and nothing is changed, for an id outside `1..=15`.
    pub fn set(&mut self, id: u8, extension: Extension) -> bool {
        if !(1..=15).contains(&id) {
            return false;
        }
        self.remove(extension);
        if let Some(before) = self.by_id[usize::from(id)].replace(extension) {
            self.ids[before as usize] = 0;
        }
        self.ids[extension as usize] = id;
        true
    }

    /// Forgets an extension.
    pub fn remove(&mut self, extension: Extension) {
        let id = std::mem::take(&mut self.ids[extension as usize]);
        self.by_id[usize::from(id)] = None;
    }

    /// The id of an extension.
    #[inline]
    pub fn id_of(&self, extension: Extension) -> Option<u8> {
        match self.ids[extension as usize] {
            0 => None,
            id => Some(id),
        }
    }

    /// The extension that has this id.
    #[inline]
    pub fn extension_of(&self, id: u8) -> Option<Extension> {
        *self.by_id.get(usize::from(id))?
    }

    /// Ids and extensions, by rising id.
    pub fn iter(&self) -> impl Iterator<Item = (u8, Extension)> + '_ {
        (0..).zip(&self.by_id).filter_map(|(id, extension)| Some((id, (*extension)?)))
    }

    /// Whether no extension has an id.
    pub fn is_empty(&self) -> bool {
        self.ids == [0; Extension::ALL.len()]
    }
}

impl FromIterator<(u8, Extension)> for ExtensionMap {
    /// Entries with an id outside `1..=15` are left out.
    fn from_iter<T: IntoIterator<Item = (u8, Extension)>>(entries: T) -> Self {
        let mut map = Self::new();
        for (id, extension) in entries {
            map.set(id, extension);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_agree_after_every_change() {
        let mut map = ExtensionMap::new();
        assert!(map.is_empty());
        for step in 0..2000usize {
            let extension = Extension::ALL[step * 7 % 10];
            let id = (step * 11 % 17) as u8;
            let before = map;
            if step % 5 == 4 {
                map.remove(extension);
                assert_eq!(map.id_of(extension), None);
            } else if map.set(id, extension) {
                assert_eq!((map.id_of(extension), map.extension_of(id)), (Some(id), Some(extension)));
            } else {
                assert!(id == 0 || id > 15);
                assert_eq!(map, before);
            }
            assert_eq!(map.iter().count(), Extension::ALL.iter().filter_map(|e| map.id_of(*e)).count());
            for (id, extension) in map.iter() {
                assert_eq!(map.id_of(extension), Some(id));
            }
        }
        assert_eq!(map.extension_of(0), None);
        assert_eq!(map.extension_of(255), None);
        assert_eq!(map.iter().collect::<ExtensionMap>(), map);
    }
}
