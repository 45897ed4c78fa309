//! Ids of what a worker has in tables, one type per table, so that none can be taken for another.
//!
//! An id is an index: looking it up is one access to an array, whatever is in the table. It is valid as long
//! as its entry, and may mean another one later; what can outlive its entry (a timer, a token) says beside
//! the id which one it was for.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use delivery::PlayerId;
use slab::Slab;

/// An id of a [`Table`].
pub(crate) trait TableId: Copy + Eq {
    /// The id of the entry at `index`.
    fn at(index: usize) -> Self;
    /// Index of the entry.
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(pub(crate) u32);

        impl TableId for $name {
            fn at(index: usize) -> Self {
                Self(index as u32)
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )+};
}

ids! {
    /// A worker, in the order of their threads.
    WorkerIndex
    /// A TCP connection for frames: RTMP, HTTP, WebSocket, or a publisher inside this process.
    ConnId
    /// An HTTP connection between two requests.
    IdleId
    /// A WebRTC session.
    PeerId
    /// A TCP connection of ICE.
    IceTcpId
    /// A UDP port.
    PortId
    /// A player inside this process.
    TapId
    /// A stream in the frames lane.
    FrameStreamId
    /// A stream in the packets lane.
    PacketStreamId
    /// A bridge.
    BridgeId
    /// A stream that is played as segments.
    SegmentStreamId
}

impl TableId for PlayerId {
    fn at(index: usize) -> Self {
        Self(index as u32)
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Entries by id. Ids of entries that were removed are used again.
#[derive(Debug)]
pub(crate) struct Table<Id, T> {
    slab: Slab<T>,
    id: PhantomData<Id>,
}

impl<Id: TableId, T> Table<Id, T> {
    /// Adds an entry.
    pub(crate) fn insert(&mut self, entry: T) -> Id {
        Id::at(self.slab.insert(entry))
    }

    /// The id that the next entry will get.
    pub(crate) fn vacant_id(&self) -> Id {
        Id::at(self.slab.vacant_key())
    }

    /// Takes an entry out, if it is there.
    pub(crate) fn remove(&mut self, id: Id) -> Option<T> {
        self.slab.try_remove(id.index())
    }

    /// An entry, if it is there.
    pub(crate) fn get(&self, id: Id) -> Option<&T> {
        self.slab.get(id.index())
    }

    /// An entry, if it is there.
    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        self.slab.get_mut(id.index())
    }

    /// Whether there is such an entry.
    pub(crate) fn contains(&self, id: Id) -> bool {
        self.slab.contains(id.index())
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Ids that may have an entry, for a walk that adds and removes entries.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> + use<Id, T> {
        (0..self.rows()).map(Id::at)
    }

    /// One more than the greatest index in use.
    pub(crate) fn rows(&self) -> usize {
        self.slab.iter().next_back().map_or(0, |(last, _)| last + 1)
    }

    /// All entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        self.slab.iter().map(|(index, entry)| (Id::at(index), entry))
    }

    /// All entries.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Id, &mut T)> {
        self.slab.iter_mut().map(|(index, entry)| (Id::at(index), entry))
    }
}

impl<Id, T> Default for Table<Id, T> {
    fn default() -> Self {
        Self { slab: Slab::new(), id: PhantomData }
    }
}

impl<Id: TableId, T> Index<Id> for Table<Id, T> {
    type Output = T;

    fn index(&self, id: Id) -> &T {
        &self.slab[id.index()]
    }
}

impl<Id: TableId, T> IndexMut<Id> for Table<Id, T> {
    fn index_mut(&mut self, id: Id) -> &mut T {
        &mut self.slab[id.index()]
    }
}

impl<Id: TableId, T> FromIterator<T> for Table<Id, T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        Self { slab: entries.into_iter().enumerate().collect(), id: PhantomData }
    }
}
