//! All viewers of a stream on one worker, in one piece of memory, and the slots they are walked by.

use super::viewer::Viewer;

/// Names a viewer of one stream; never names another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ViewerId {
    slot: u32,
    generation: u32,
}

impl ViewerId {
    /// Which of the slots it has.
    pub(crate) fn slot(self) -> usize {
        self.slot as usize
    }
}

/// The viewers of a stream.
#[derive(Debug, Default)]
pub(crate) struct Viewers {
    slots: slab::Slab<Viewer>,
    /// One more than the highest slot in use since there was none in use.
    high: usize,
    generation: u32,
}

impl Viewers {
    /// Each viewer with its name.
    pub(crate) fn iter_mut_with_ids(&mut self) -> impl Iterator<Item = (ViewerId, &mut Viewer)> {
        self.slots.iter_mut().map(|(slot, viewer)| {
            (ViewerId { slot: slot as u32, generation: viewer.cold.generation }, viewer)
        })
    }

    /// The name of each viewer.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ViewerId> + '_ {
        self.slots
            .iter()
            .map(|(slot, viewer)| ViewerId { slot: slot as u32, generation: viewer.cold.generation })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The generation the next viewer must be made with.
    pub(crate) fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        self.generation
    }

    pub(crate) fn insert(&mut self, viewer: Viewer) -> ViewerId {
        let generation = viewer.cold.generation;
        let slot = self.slots.insert(viewer);
        self.high = self.high.max(slot + 1);
        ViewerId { slot: slot as u32, generation }
    }

    pub(crate) fn remove(&mut self, id: ViewerId) -> Option<Viewer> {
        self.get(id)?;
        let viewer = self.slots.try_remove(id.slot as usize);
        if self.slots.is_empty() {
            // A stream that had thousands of viewers does not keep room for them.
            (self.slots, self.high) = (slab::Slab::new(), 0);
        }
        viewer
    }

    pub(crate) fn get(&self, id: ViewerId) -> Option<&Viewer> {
        self.slots.get(id.slot as usize).filter(|viewer| viewer.cold.generation == id.generation)
    }

    pub(crate) fn get_mut(&mut self, id: ViewerId) -> Option<&mut Viewer> {
        self.slots.get_mut(id.slot as usize).filter(|viewer| viewer.cold.generation == id.generation)
    }

    /// Slots, occupied or not: for walking through them a few at a time.
    pub(crate) fn slots(&self) -> usize {
        self.high
    }

    #[inline]
    pub(crate) fn is_occupied(&self, slot: usize) -> bool {
        self.slots.contains(slot)
    }

    /// The name of the viewer in a slot.
    pub(crate) fn id_of(&self, slot: usize) -> Option<ViewerId> {
        let generation = self.slots.get(slot)?.cold.generation;
        Some(ViewerId { slot: slot as u32, generation })
    }

    #[inline]
    pub(crate) fn at_slot(&mut self, slot: usize) -> Option<&mut Viewer> {
        self.slots.get_mut(slot)
    }
}
